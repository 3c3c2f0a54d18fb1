// What the host part of a function needs of a runtime when its kernels run on a device: storage, prints, failed checks.
// It takes the place of croq_runtime.cpp, whose threads nobody needs then. Included by whole programs alone.
#pragma once
#include "croq_host.h"

struct croq_call {
  croq_lane lane;
  int32_t attention, stop, claimed;
  croq_failure* failure;
};

namespace croq_alone {
inline int32_t poll(croq_lane* lane) { return lane->stopped; }
inline void fail(croq_lane* lane, int32_t check, int32_t count, const int64_t* values) {
  croq_call* call = lane->call;
  if (!call->claimed++) {
    call->failure->check = check;
    call->failure->count = count < CROQ_VALUES ? count : CROQ_VALUES;
    std::memcpy(call->failure->values, values, sizeof(int64_t) * (size_t)call->failure->count);
  }
  call->stop = CROQ_CHECK;
  call->attention = lane->stopped = 1;
}
inline void* allocate(croq_lane*, int64_t bytes, bool zeroed) {
  return choreo::croq_memory((size_t)bytes, 1, zeroed);
}
inline void print(croq_lane*, const char* text, int64_t bytes) { std::fwrite(text, 1, (size_t)bytes, stdout); }
inline void print_number(croq_lane*, int32_t kind, int64_t integer, double real) {
  if (kind == 0) std::printf("%lld", (long long)integer);
  if (kind == 1) std::printf("%llu", (unsigned long long)integer);
  if (kind == 2) std::printf("%f", real);
  if (kind == 3) std::fputs(integer ? "true" : "false", stdout);
}
}  // namespace croq_alone

extern "C" __attribute__((weak)) const croq_runtime* croq_runtime_alone() {
  static const croq_runtime table = {CROQ_ABI, nullptr, croq_alone::poll, croq_alone::fail, croq_alone::allocate,
                                     std::free, croq_alone::print, croq_alone::print_number, nullptr};
  return &table;
}
extern "C" __attribute__((weak)) int32_t croq_run(croq_entry entry, const int64_t* words, croq_failure* failure) {
  croq_call call = {};
  call.failure = failure;
  call.lane.attention = &call.attention;
  call.lane.call = &call;
  call.lane.is_caller = 1;
  const int32_t code = entry(&call.lane, words);
  return call.stop ? call.stop : code;
}
