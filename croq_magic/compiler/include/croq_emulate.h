// CUDA as C++: what kernel text needs to be compiled for the emulator (croq_emulate.cpp) instead of a GPU.
//
// CROQ_CHECKED: the compiler reports every access of the text (-fsanitize=thread, with hooks of our own). Functions here
// that stand for one instruction of a GPU are not inlined, so that their return address is a place in the text; and they
// report accesses themselves.
#pragma once
#undef _FORTIFY_SOURCE
#include <cstring>  // CUDA has memcpy and memset by themselves
#include "croq_emulate_abi.h"

#ifndef __CUDA_ARCH__
#define __CUDA_ARCH__ 800
#endif
#define __global__
#define __device__
#define __host__
#define __constant__
#define __managed__
#define __grid_constant__
// One for each block: threads of a block run on one OS thread, other blocks may run on others. Without the word that
// says there is nothing to construct, g++ looks at a flag before each use of an array of classes.
#if defined(__clang__)
#define __shared__ static __thread
#else
#define __shared__ __constinit static __thread
#endif
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __launch_bounds__(...)
#define __cluster_dims__(...)
#define __maxnreg__(...)
#define __align__(n) __attribute__((aligned(n)))
#define __builtin_align__(n) __attribute__((aligned(n)))
#define __co_device__
#define CROQ_INLINE static inline __attribute__((always_inline, unused))
#define CROQ_MEMBER
#if defined(__clang__)  // whose other attribute leaves hooks in for atomics
#define CROQ_RAW __attribute__((disable_sanitizer_instrumentation, unused))
#define CROQ_CALL static __attribute__((noinline, disable_sanitizer_instrumentation, unused))
#else
#define CROQ_RAW __attribute__((no_sanitize("thread"), unused))
#define CROQ_CALL static __attribute__((noinline, no_sanitize("thread"), unused))
#endif
#define CROQ_PLACE __builtin_return_address(0)

#include "croq_emulate_types.h"

// What would end the process ends the kernel. CUDA has `assert` by itself; <assert.h> may define it anew.
extern "C" {
[[noreturn]] void __assert_fail(const char* text, const char* file, unsigned line, const char* function) CROQ_NOTHROW
    __asm__("croq_emulate_assert");
[[noreturn]] void abort() CROQ_NOTHROW __asm__("croq_emulate_abort");
[[noreturn]] void exit(int) CROQ_NOTHROW __asm__("croq_emulate_exit");
[[noreturn]] void _exit(int) __asm__("croq_emulate_exit");
[[noreturn]] void _Exit(int) CROQ_NOTHROW __asm__("croq_emulate_exit");
}
#define assert(condition) ((condition) ? (void)0 : __assert_fail(#condition, "", 0, ""))

// -------------------------------------------------------------------------------------------------------- indices
#ifdef CROQ_CHECKED
#define threadIdx croq_emulate_index(0)
#define blockIdx croq_emulate_index(1)
#define blockDim croq_emulate_index(2)
#define gridDim croq_emulate_index(3)
#else
#define threadIdx (croq_self->index)
#define blockIdx (croq_self->block->index)
#define blockDim (croq_self->block->block)
#define gridDim (croq_self->block->grid)
#endif
#define warpSize 32

template <typename T>
struct croq_type { typedef T type; };
template <typename... T>
struct croq_list {};

// Runs threads of a kernel for as long as there are any; the first is in place. Arguments are words of eight bytes.
template <typename T>
CROQ_RAW static inline T croq_word_as(const uint64_t* word) {
  T value;
  __builtin_memcpy((void*)&value, word, sizeof value);
  return value;
}
CROQ_RAW static inline void croq_next_thread() {
  croq_thread* self = croq_self;
  croq_block_state* block = self->block;
  if (__builtin_expect(block->calm && block->started < block->threads, 1)) {
    self->linear = block->started++;
    if (++self->index.x == block->block.x) {
      self->index.x = 0;
      if (++self->index.y == block->block.y) self->index.y = 0, ++self->index.z;
    }
    return;
  }
  croq_emulate_next(self);
}
template <int... i>
struct croq_numbers {};
template <int n, int... i>
struct croq_count : croq_count<n - 1, n - 1, i...> {};
template <int... i>
struct croq_count<0, i...> { typedef croq_numbers<i...> type; };
template <auto kernel, typename... T, int... i>
CROQ_RAW static inline void croq_run_threads(croq_list<T...>, croq_numbers<i...>, const uint64_t* words) {
  (void)words;
  for (;;) {
    kernel(croq_word_as<T>(words + i)...);
    croq_next_thread();
  }
}
template <typename... T>
croq_list<T...> croq_parameters(void (*)(T...));
template <typename... T>
typename croq_count<sizeof...(T)>::type croq_positions(void (*)(T...));
#define CROQ_EMULATE_KERNEL(name, symbol)                                                              \
  extern "C" __attribute__((visibility("default"))) CROQ_RAW void symbol(const uint64_t* words) {      \
    croq_run_threads<name>(decltype(croq_parameters(name))(), decltype(croq_positions(name))(), words); \
  }
// The clusters of a kernel, along x, y, z.
#define CROQ_EMULATE_CLUSTER(symbol, ...)                                                              \
  extern "C" __attribute__((visibility("default"), used)) const unsigned symbol[];                     \
  const unsigned symbol[] = {__VA_ARGS__, 1, 1};
// A place in the calling thread's static shared memory.
static thread_local char croq_anchor_place;
extern "C" __attribute__((visibility("default"))) CROQ_RAW char* croq_anchor() { return &croq_anchor_place; }

// ------------------------------------------------------------------------------------------------------- barriers
#define __syncthreads() ((void)croq_emulate_barrier(0, 0, 0, 0))
#define __syncthreads_count(value) croq_emulate_barrier(0, 0, 1, (value) != 0)
#define __syncthreads_and(value) croq_emulate_barrier(0, 0, 2, (value) != 0)
#define __syncthreads_or(value) croq_emulate_barrier(0, 0, 3, (value) != 0)
#define __threadfence() croq_emulate_fence(1)
#define __threadfence_block() croq_emulate_fence(0)
#define __threadfence_system() croq_emulate_fence(2)
#define __nanosleep(ns) ((void)(ns), croq_emulate_sleep())
#define __trap() croq_emulate_trap()
#define printf(...) croq_emulate_printf(__VA_ARGS__)
#define croq_bar_sync(id, threads) ((void)croq_emulate_barrier(id, threads, 0, 0))
#define croq_bar_arrive(id, threads) croq_emulate_arrive(id, threads)
#if __CUDA_ARCH__ >= 800  // before, croq_cuda.h counts in plain memory
#define croq_mbarrier_init(barrier, count) croq_emulate_mbarrier_init((uint64_t*)(barrier), count)
#define croq_mbarrier_arrive(barrier) ((void)croq_emulate_mbarrier_arrive((uint64_t*)(barrier), 1))
#define croq_mbarrier_arrive_landed(barrier) croq_emulate_mbarrier_follow((uint64_t*)(barrier), 1)
#define croq_mbarrier_expect_landed(barrier) croq_emulate_mbarrier_follow((uint64_t*)(barrier), 0)
#define croq_mbarrier_wait(barrier, parity) croq_emulate_mbarrier_wait((uint64_t*)(barrier), parity)
#endif
#define croq_fence_block() croq_emulate_fence(0)
#define croq_fence_device() croq_emulate_fence(1)
#define croq_grid_sync(...) croq_emulate_grid()
#if __CUDA_ARCH__ >= 900
#define croq_cluster_sync() croq_emulate_cluster()
#define croq_cluster_arrive(barrier, rank) croq_emulate_cluster_arrive((uint64_t*)(barrier), rank)
#define croq_cluster_wait(barrier, parity) croq_emulate_cluster_wait((uint64_t*)(barrier), parity)
#endif
#define croq_async_commit() croq_emulate_commit()
template <int kGroups>
CROQ_CALL void croq_async_wait() { croq_emulate_settle(kGroups); }
CROQ_RAW static inline void croq_async_wait_all() { croq_emulate_settle(~0u); }
template <int kBytes>
CROQ_CALL void croq_async_copy(void* shared, const void* global) {
  static_assert(kBytes == 4 || kBytes == 8 || kBytes == 16, "cp.async moves 4, 8 or 16 bytes");
  croq_emulate_copy(shared, global, kBytes, kBytes, CROQ_PLACE);
}
template <int kBytes>
CROQ_CALL void croq_async_copy_zfill(void* shared, const void* global, int valid_bytes) {
  static_assert(kBytes == 4 || kBytes == 8 || kBytes == 16, "cp.async moves 4, 8 or 16 bytes");
  croq_emulate_copy(shared, global, kBytes, (uint32_t)valid_bytes, CROQ_PLACE);
}

// --------------------------------------------------------------------------------------------- operations of a warp
CROQ_CALL void __syncwarp(unsigned mask = ~0u) {
  uint32_t none = 0;
  croq_emulate_warp(7, mask, &none, &none, 4, 0, 32, CROQ_PLACE);
}
#define CROQ_SHUFFLE(name, op, type)                                                                  \
  template <typename T>                                                                               \
  CROQ_CALL T name(unsigned mask, T value, type param, int width = 32) {                              \
    static_assert(sizeof(T) <= 16, "a shuffle moves up to 16 bytes");                                 \
    T out;                                                                                            \
    croq_emulate_warp(op, mask, &value, &out, sizeof(T), (uint32_t)param, (uint32_t)width, CROQ_PLACE); \
    return out;                                                                                       \
  }
CROQ_SHUFFLE(__shfl_sync, 0, int)
CROQ_SHUFFLE(__shfl_up_sync, 1, unsigned)
CROQ_SHUFFLE(__shfl_down_sync, 2, unsigned)
CROQ_SHUFFLE(__shfl_xor_sync, 3, int)
#undef CROQ_SHUFFLE
CROQ_CALL unsigned __ballot_sync(unsigned mask, int value) {
  uint32_t out, in = value != 0;
  croq_emulate_warp(4, mask, &in, &out, 4, 0, 32, CROQ_PLACE);
  return out;
}
CROQ_CALL int __any_sync(unsigned mask, int value) {
  uint32_t out, in = value != 0;
  croq_emulate_warp(14, mask, &in, &out, 4, 0, 32, CROQ_PLACE);
  return (int)out;
}
CROQ_CALL int __all_sync(unsigned mask, int value) {
  uint32_t out, in = value != 0;
  croq_emulate_warp(13, mask, &in, &out, 4, 0, 32, CROQ_PLACE);
  return (int)out;
}
template <typename T>
CROQ_CALL unsigned __match_any_sync(unsigned mask, T value) {
  uint32_t out;
  croq_emulate_warp(5, mask, &value, &out, sizeof(T), 0, 32, CROQ_PLACE);
  return out;
}
template <typename T>
CROQ_CALL unsigned __match_all_sync(unsigned mask, T value, int* all) {
  uint32_t out;
  croq_emulate_warp(6, mask, &value, &out, sizeof(T), 0, 32, CROQ_PLACE);
  *all = out != 0;
  return out;
}
#define CROQ_REDUCE(name, type, op)                                    \
  CROQ_CALL type name(unsigned mask, type value) {                     \
    type out;                                                          \
    croq_emulate_warp(op, mask, &value, &out, 4, 0, 32, CROQ_PLACE);   \
    return out;                                                        \
  }
CROQ_REDUCE(__reduce_add_sync, int, 8) CROQ_REDUCE(__reduce_add_sync, unsigned, 8)
CROQ_REDUCE(__reduce_min_sync, int, 9) CROQ_REDUCE(__reduce_min_sync, unsigned, 11)
CROQ_REDUCE(__reduce_max_sync, int, 10) CROQ_REDUCE(__reduce_max_sync, unsigned, 12)
CROQ_REDUCE(__reduce_and_sync, unsigned, 13) CROQ_REDUCE(__reduce_or_sync, unsigned, 14)
CROQ_REDUCE(__reduce_xor_sync, unsigned, 15)
#undef CROQ_REDUCE
CROQ_RAW static inline unsigned __activemask() { return croq_emulate_active(); }
CROQ_RAW static inline unsigned __lanemask_lt() { return (1u << croq_self->linear % 32) - 1; }

// -------------------------------------------------------------------------------------------------------- atomics
#ifdef CROQ_CHECKED
#define CROQ_SEEN(place, bytes) croq_emulate_atomic((void*)(place), bytes, CROQ_PLACE)
#define CROQ_CHANGED(place, changed) ((changed) ? croq_emulate_updated((void*)(place)) : (void)0)
#else
#define CROQ_SEEN(place, bytes) ((void)0)
#define CROQ_CHANGED(place, changed) ((void)0)
#endif
// A loop of updates that change nothing may wait for another thread.
CROQ_RAW static inline void croq_after_update(bool changed, void* place) {
  croq_thread* self = croq_self;
  self->changes += changed;
  self->spins += changed ? 1 : 64;
  if (__builtin_expect(self->spins > 2048, 0)) croq_emulate_spin(place);
}
#define CROQ_UPDATE(name, expression)                                                                                 \
  template <typename T>                                                                                               \
  CROQ_CALL T name(T* place, typename croq_type<T>::type value) {                                                     \
    CROQ_SEEN(place, sizeof(T));                                                                                      \
    T old, next;                                                                                                      \
    __atomic_load(place, &old, __ATOMIC_RELAXED);                                                                     \
    do next = (T)(expression);                                                                                        \
    while (!__atomic_compare_exchange(place, &old, &next, true, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED));                 \
    const bool changed = __builtin_memcmp(&old, &next, sizeof old) != 0;                                              \
    CROQ_CHANGED(place, changed);                                                                                     \
    croq_after_update(changed, CROQ_PLACE);                                                                           \
    return old;                                                                                                       \
  }                                                                                                                   \
  template <typename T>                                                                                               \
  CROQ_CALL T name##_block(T* place, typename croq_type<T>::type value) {                                             \
    CROQ_SEEN(place, sizeof(T));                                                                                      \
    const T old = *place;                                                                                             \
    *place = (T)(expression);                                                                                         \
    CROQ_CHANGED(place, __builtin_memcmp(&old, (void*)place, sizeof old) != 0);                                       \
    return old;                                                                                                       \
  }
CROQ_UPDATE(atomicAdd, old + value)
CROQ_UPDATE(atomicSub, old - value)
CROQ_UPDATE(atomicExch, value)
CROQ_UPDATE(atomicMin, value < old ? value : old)
CROQ_UPDATE(atomicMax, old < value ? value : old)
CROQ_UPDATE(atomicAnd, old & value)
CROQ_UPDATE(atomicOr, old | value)
CROQ_UPDATE(atomicXor, old ^ value)
CROQ_UPDATE(atomicInc, old >= value ? 0 : old + 1)
CROQ_UPDATE(atomicDec, old == 0 || old > value ? value : old - 1)
#undef CROQ_UPDATE
template <typename T>
CROQ_CALL T atomicCAS(T* place, typename croq_type<T>::type expected, typename croq_type<T>::type value) {
  CROQ_SEEN(place, sizeof(T));
  T old = expected;
  const bool swapped = __atomic_compare_exchange(place, &old, &value, false, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED);
  const bool changed = swapped && __builtin_memcmp(&old, &value, sizeof old);
  CROQ_CHANGED(place, changed);
  croq_after_update(changed, CROQ_PLACE);
  return old;
}
template <typename T>
CROQ_CALL T atomicCAS_block(T* place, typename croq_type<T>::type expected, typename croq_type<T>::type value) {
  CROQ_SEEN(place, sizeof(T));
  const T old = *place;
  if (!__builtin_memcmp(&old, &expected, sizeof old)) {
    *place = value;
    CROQ_CHANGED(place, true);
  }
  return old;
}

// ---------------------------------------------------------------------------------------------------- other memory
#ifdef CROQ_CHECKED  // compilers tell nothing of what these do
CROQ_CALL void* croq_memcpy(void* to, const void* from, size_t bytes) {
  if (!bytes) return to;
  croq_emulate_touch((void*)from, (uint32_t)bytes, 0, CROQ_PLACE);
  croq_emulate_touch(to, (uint32_t)bytes, 1, CROQ_PLACE);
  return __builtin_memcpy(to, from, bytes);
}
CROQ_CALL void* croq_memset(void* to, int value, size_t bytes) {
  if (!bytes) return to;
  croq_emulate_touch(to, (uint32_t)bytes, 1, CROQ_PLACE);
  return __builtin_memset(to, value, bytes);
}
#define memcpy croq_memcpy
#define memset croq_memset
#endif
#define __ldg(place) (*(place))
#define __ldcg(place) (*(place))
#define __ldca(place) (*(place))
#define __ldcs(place) (*(place))
#define __stcg(place, value) ((void)(*(place) = (value)))
#define __stcs(place, value) ((void)(*(place) = (value)))
#define __stwt(place, value) ((void)(*(place) = (value)))
CROQ_RAW static inline unsigned __cvta_generic_to_shared(const void* place) {
  return (unsigned)((const char*)place - croq_emulate_shared());
}
