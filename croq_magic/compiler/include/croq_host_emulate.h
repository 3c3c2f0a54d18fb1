// The emulator as the device of whole programs: kernels are a shared library inside the program, the very one that a
// notebook would load, and run on the emulator's runtime (croq_emulate.cpp), which is linked in.
//
// The environment: CROQ_EMULATE_SEED shuffles the order of threads.
#pragma once
#include "croq_simt.h"

#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

#include "croq_emulate_abi.h"

extern "C" int32_t croq_emulate_entry(croq_lane* lane, const int64_t* words);
extern "C" void croq_emulate_attach(const croq_runtime* table);
extern "C" void* croq_emulate_allocate(int64_t bytes);
extern "C" void croq_emulate_release(void* place);
extern "C" void croq_emulate_filled(void* place, int32_t filled);
extern "C" void croq_emulate_forget(croq_report* report);

namespace croq_device {
// `facts`: size of static shared memory, place of the anchor in it, whether accesses are checked, whether blocks keep
// their order, the number of shared arrays, that of rows of the table of lines; places and sizes of the arrays; the rows.
struct module {
  const unsigned char *image, *end;
  const int64_t* facts;
  void* library = nullptr;
  const char* base = nullptr;
  char* (*anchor)() = nullptr;
  std::mutex lock;
  module(const unsigned char* image, const unsigned char* end, const void* facts)
      : image(image), end(end), facts((const int64_t*)facts) {}
  bool checked() const { return facts && facts[2]; }
};

namespace emulate {
inline bool& checked() {
  static bool any = false;
  return any;
}

inline const char* load(module& kernels) {
  const size_t size = (size_t)(kernels.end - kernels.image);
  const int file = memfd_create("kernels", MFD_CLOEXEC);
  if (file < 0) return "the kernels of the program cannot be loaded: no memory for them";
  for (size_t done = 0; done < size;) {
    const ssize_t more = write(file, kernels.image + done, size - done);
    if (more <= 0) return "the kernels of the program cannot be loaded: no memory for them";
    done += (size_t)more;
  }
  char path[64];
  std::snprintf(path, sizeof path, "/proc/self/fd/%d", file);
  kernels.library = dlopen(path, RTLD_NOW | RTLD_LOCAL);  // the file stays open: another one must not get its name
  if (!kernels.library) return message("the kernels of the program cannot be loaded: %s", dlerror());
  kernels.anchor = (char* (*)())dlsym(kernels.library, "croq_anchor");
  Dl_info info = {};
  if (!kernels.anchor || !dladdr((void*)kernels.anchor, &info)) return "the kernels of the program are damaged";
  kernels.base = (const char*)info.dli_fbase;
  return nullptr;
}
}  // namespace emulate

inline bool unified() { return !emulate::checked(); }

inline const char* open(module& kernels) {
  std::lock_guard<std::mutex> guard(kernels.lock);
  if (kernels.library || kernels.image == kernels.end) return nullptr;
  croq_emulate_attach(croq_runtime_alone());
  emulate::checked() |= kernels.checked();
  return emulate::load(kernels);
}
inline const char* allocate(void** memory, size_t bytes) {
  *memory = croq_emulate_allocate((int64_t)bytes);
  if (*memory) croq_emulate_filled(*memory, 0);
  return *memory ? nullptr : "not enough memory for its buffers";
}
inline void release(void* memory) { croq_emulate_release(memory); }
inline const char* zero(void* memory, size_t bytes) {
  std::memset(memory, 0, bytes);
  croq_emulate_filled(memory, 1);
  return nullptr;
}
inline const char* upload(void* memory, const void* from, size_t bytes) {
  std::memcpy(memory, from, bytes);
  croq_emulate_filled(memory, 1);
  return nullptr;
}
inline const char* download(void* to, void* memory, size_t bytes) {
  std::memcpy(to, memory, bytes);
  return nullptr;
}
inline const char* synchronize() { return nullptr; }
}  // namespace croq_device

#include "croq_emulate_findings.h"

namespace croq_device {
inline const char* launch(module& kernels, const char* name, extents grid, extents block, int64_t shared_bytes,
                          const argument* arguments, int count, bool cooperative, void*) {
  const int64_t threads = block.x * block.y * block.z;
  if (threads < 1 || threads > 1024)
    return message("%s: a block of %lld threads; a GPU takes 1 to 1024", name, (long long)threads);
  if (shared_bytes > 227 << 10)
    return message("%s: %lld bytes of shared memory a block; a GPU has %d", name, (long long)shared_bytes, 227 << 10);
  if (grid.x >= 1ll << 31 || grid.y >= 1 << 16 || grid.z >= 1 << 16)
    return message("%s: a grid of %lld x %lld x %lld blocks cannot be launched", name, (long long)grid.x,
                   (long long)grid.y, (long long)grid.z);
  const std::string symbol = std::string("croq_run_") + name;
  const char* seed = std::getenv("CROQ_EMULATE_SEED");
  std::vector<uint64_t> words((size_t)count + 1);
  for (int i = 0; i < count; ++i) std::memcpy(&words[(size_t)i], arguments[i].bytes, sizeof(uint64_t));
  const std::unique_ptr<croq_report> report(new croq_report());
  croq_emulate_launch wanted = {};
  wanted.run = (croq_kernel_body)dlsym(kernels.library, symbol.c_str());
  if (!wanted.run) return message("the kernel %s is missing", name);
  wanted.words = words.data();
  wanted.grid = {(uint32_t)grid.x, (uint32_t)grid.y, (uint32_t)grid.z};
  wanted.block = {(uint32_t)block.x, (uint32_t)block.y, (uint32_t)block.z};
  const std::string clusters = std::string("croq_cluster_") + name;
  const unsigned* const cluster = (const unsigned*)dlsym(kernels.library, clusters.c_str());
  if (cluster) wanted.cluster = {cluster[0], cluster[1], cluster[2]};
  if (cluster && (grid.x % cluster[0] || grid.y % cluster[1] || grid.z % cluster[2]))
    return message("%s: a grid of %lld x %lld x %lld blocks cannot be launched in clusters of %u x %u x %u", name,
                   (long long)grid.x, (long long)grid.y, (long long)grid.z, cluster[0], cluster[1], cluster[2]);
  wanted.shared_bytes = shared_bytes;
  wanted.stack_bytes = 768 << 10;
  wanted.module = kernels.base;
  wanted.anchor = kernels.anchor;
  wanted.shared_size = kernels.facts[0];
  wanted.shared_shift = kernels.facts[1];
  wanted.arrays = kernels.facts + 6;
  wanted.array_count = kernels.facts[4];
  wanted.seed = seed ? std::strtoull(seed, nullptr, 0) : 0;
  wanted.checked = (int32_t)kernels.facts[2];
  wanted.cooperative = cooperative;
  wanted.serial = wanted.checked || cooperative || cluster || kernels.facts[3] || wanted.seed;
  wanted.report = report.get();
  const int64_t call[1] = {(int64_t)&wanted};
  croq_failure failure = {};
  const int32_t code = croq_run(croq_emulate_entry, call, &failure);
  const char* problem = nullptr;
  if (code == CROQ_MEMORY) problem = "the emulator has not enough memory";
  else if (code == CROQ_INTERRUPTED) problem = "it was interrupted";
  else if (report->count) problem = emulate::described(kernels, name, wanted);
  croq_emulate_forget(report.get());
  return problem;
}
}  // namespace croq_device
