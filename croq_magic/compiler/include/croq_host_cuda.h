// CUDA as the device of whole programs, without a CUDA toolkit: kernels are machine code inside the program, and the
// driver is opened when a tileflow function is called first, so a program starts, and says what is missing, on machines
// without a GPU. The few functions of the driver that are needed are declared here.
//
// The environment: CROQ_CUDA_DEVICE chooses a device by number; CUDA_VISIBLE_DEVICES works as everywhere.
#pragma once
#include "croq_simt.h"

#include <dlfcn.h>

typedef struct CUstream_st* cudaStream_t;  // as CUDA's own headers have it

namespace croq_device {
// One program's kernels: machine code for `arch`, and PTX for later GPUs where there is any.
struct module {
  const unsigned char *image, *image_end, *ptx;
  const char* arch;
  void* library = nullptr;
  std::mutex lock;
  std::vector<std::pair<const char*, void*>> kernels;
  module(const unsigned char* image, const unsigned char* image_end, const unsigned char* ptx, const char* arch)
      : image(image), image_end(image_end), ptx(ptx), arch(arch) {}
};

namespace cuda {
typedef void* handle;
typedef unsigned long long address;
#define CROQ_CUDA(X)                                                                                               \
  X(cuInit, "cuInit", (unsigned))                                                                                  \
  X(cuDriverGetVersion, "cuDriverGetVersion", (int*))                                                              \
  X(cuDeviceGetCount, "cuDeviceGetCount", (int*))                                                                  \
  X(cuDeviceGet, "cuDeviceGet", (int*, int))                                                                       \
  X(cuDeviceGetName, "cuDeviceGetName", (char*, int, int))                                                         \
  X(cuDeviceGetAttribute, "cuDeviceGetAttribute", (int*, int, int))                                                \
  X(cuDevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain", (handle*, int))                                          \
  X(cuCtxSetCurrent, "cuCtxSetCurrent", (handle))                                                                  \
  X(cuCtxSynchronize, "cuCtxSynchronize", ())                                                                      \
  X(cuStreamSynchronize, "cuStreamSynchronize", (handle))                                                          \
  X(cuModuleLoadData, "cuModuleLoadData", (handle*, const void*))                                                  \
  X(cuModuleGetFunction, "cuModuleGetFunction", (handle*, handle, const char*))                                    \
  X(cuFuncSetAttribute, "cuFuncSetAttribute", (handle, int, int))                                                  \
  X(cuMemAlloc, "cuMemAlloc_v2", (address*, size_t))                                                               \
  X(cuMemFree, "cuMemFree_v2", (address))                                                                          \
  X(cuMemsetD8, "cuMemsetD8_v2", (address, unsigned char, size_t))                                                 \
  X(cuMemcpyHtoD, "cuMemcpyHtoD_v2", (address, const void*, size_t))                                               \
  X(cuMemcpyDtoH, "cuMemcpyDtoH_v2", (void*, address, size_t))                                                     \
  X(cuLaunchKernel, "cuLaunchKernel",                                                                              \
    (handle, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, handle, void**, void**))        \
  X(cuLaunchCooperativeKernel, "cuLaunchCooperativeKernel",                                                        \
    (handle, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, handle, void**))                \
  X(cuGetErrorName, "cuGetErrorName", (int, const char**))                                                         \
  X(cuGetErrorString, "cuGetErrorString", (int, const char**))
struct functions {
#define X(name, symbol, parameters) int(*name) parameters;
  CROQ_CUDA(X)
#undef X
};
enum { kNoBinary = 209, kInvalidPtx = 218, kNoDevice = 100, kOutOfMemory = 2, kStubLibrary = 34, kMismatch = 803 };
enum { kMajor = 75, kMinor = 76, kMostShared = 97, kDynamicShared = 8 };

// The device of this process, with its primary context, which CUDA's runtime uses too.
struct session {
  functions api = {};
  int device = 0, most_shared = 0;
  handle context = nullptr;
  std::string name, problem;
  const char* last = "";  // the kernel started last
  std::mutex lock;
  bool opened = false;
};
inline session& state() {
  static session* one = new session;  // never destroyed: a program may call a function while it ends
  return *one;
}

inline const char* failed(const char* what, int code) {
  if (CROQ_LIKELY(!code)) return nullptr;
  session& s = state();
  if (code == kOutOfMemory) return message("not enough memory on %s", s.name.c_str());
  const char *name = nullptr, *text = nullptr;
  s.api.cuGetErrorName(code, &name);
  s.api.cuGetErrorString(code, &text);
  const char* before = *s.last ? " (the kernel started last is " : "";
  return message("%s fails with %s: %s%s%s%s", what, name ? name : "an unknown error", text ? text : "", before, s.last,
                 *before ? ")" : "");
}

inline std::string start(session& s) {
  void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
  if (!library) return "there is no NVIDIA driver here (no libcuda.so.1 loads); it runs on machines with an NVIDIA GPU";
#define X(name, symbol, parameters)                                            \
  if (!(s.api.name = (int(*) parameters)dlsym(library, symbol)))               \
    return "the NVIDIA driver of this machine is too old: it has no " symbol;
  CROQ_CUDA(X)
#undef X
  int code = s.api.cuInit(0), count = 0;
  if (code == kStubLibrary) return "there is no NVIDIA driver here: libcuda.so.1 is a stub";
  if (code == kMismatch) return "the NVIDIA driver and its library differ in version; restart the machine";
  if (!code) code = s.api.cuDeviceGetCount(&count);
  if (code == kNoDevice || (!code && !count)) return "there is an NVIDIA driver and no GPU that it may use";
  const char* wanted = std::getenv("CROQ_CUDA_DEVICE");
  const int number = wanted && *wanted ? std::atoi(wanted) : 0;
  if (!code && (number < 0 || number >= count))
    return message("there is no CUDA device %d; this machine has %d", number, count);
  if (!code) code = s.api.cuDeviceGet(&s.device, number);
  char name[128] = "";
  if (!code) code = s.api.cuDeviceGetName(name, sizeof name, s.device);
  s.name = name;
  if (!code) code = s.api.cuDeviceGetAttribute(&s.most_shared, kMostShared, s.device);
  if (!code) code = s.api.cuDevicePrimaryCtxRetain(&s.context, s.device);
  const char* said = failed("the start of CUDA", code);
  return said ? said : "";
}

inline const char* load(session& s, module& kernels) {
  const char* from = (const char*)kernels.image;
  int code = s.api.cuModuleLoadData(&kernels.library, from);
  if (code == kNoBinary && kernels.ptx) code = s.api.cuModuleLoadData(&kernels.library, kernels.ptx);
  if (!code) return nullptr;
  kernels.library = nullptr;
  int major = 0, minor = 0, driver = 0;
  s.api.cuDeviceGetAttribute(&major, kMajor, s.device);
  s.api.cuDeviceGetAttribute(&minor, kMinor, s.device);
  s.api.cuDriverGetVersion(&driver);
  if (code == kNoBinary || code == kInvalidPtx)
    return message("the program was built for %s, and %s is of sm_%d%d; build it with -arch=sm_%d%d", kernels.arch,
                   s.name.c_str(), major, minor, major, minor);
  return message("%s (the driver is of CUDA %d.%d, the program was built for %s)", failed("loading the kernels", code),
                 driver / 1000, driver % 1000 / 10, kernels.arch);
}
}  // namespace cuda

inline bool unified() { return false; }

inline const char* open(module& kernels) {
  cuda::session& s = cuda::state();
  std::lock_guard<std::mutex> guard(s.lock);
  if (!s.opened) {
    s.problem = cuda::start(s);
    s.opened = true;
  }
  if (!s.problem.empty()) return s.problem.c_str();
  if (const char* problem = cuda::failed("cuCtxSetCurrent", s.api.cuCtxSetCurrent(s.context))) return problem;
  return kernels.library || kernels.image == kernels.image_end ? nullptr : cuda::load(s, kernels);
}
inline const char* allocate(void** memory, size_t bytes) {
  cuda::address place = 0;
  const int code = cuda::state().api.cuMemAlloc(&place, bytes);
  *memory = (void*)place;
  return cuda::failed("cuMemAlloc", code);
}
inline void release(void* memory) { cuda::state().api.cuMemFree((cuda::address)memory); }
inline const char* zero(void* memory, size_t bytes) {
  return bytes ? cuda::failed("cuMemsetD8", cuda::state().api.cuMemsetD8((cuda::address)memory, 0, bytes)) : nullptr;
}
inline const char* upload(void* memory, const void* from, size_t bytes) {
  if (!bytes) return nullptr;
  return cuda::failed("cuMemcpyHtoD", cuda::state().api.cuMemcpyHtoD((cuda::address)memory, from, bytes));
}
inline const char* download(void* to, void* memory, size_t bytes) {
  const char* problem = synchronize();  // launches may be in streams that nothing waits for
  if (problem || !bytes) return problem;
  return cuda::failed("cuMemcpyDtoH", cuda::state().api.cuMemcpyDtoH(to, (cuda::address)memory, bytes));
}
inline const char* synchronize() { return cuda::failed("a kernel", cuda::state().api.cuCtxSynchronize()); }

inline const char* launch(module& kernels, const char* name, extents grid, extents block, int64_t shared_bytes,
                          const argument* arguments, int count, bool cooperative, void* stream) {
  cuda::session& s = cuda::state();
  const int64_t threads = block.x * block.y * block.z;
  if (threads < 1 || threads > 1024)
    return message("%s: a block of %lld threads; a GPU takes 1 to 1024", name, (long long)threads);
  if (shared_bytes > s.most_shared)
    return message("%s: %lld bytes of shared memory a block; %s has %d", name, (long long)shared_bytes, s.name.c_str(),
                   s.most_shared);
  if (grid.x >= 1ll << 31 || grid.y >= 1 << 16 || grid.z >= 1 << 16)
    return message("%s: a grid of %lld x %lld x %lld blocks cannot be launched", name, (long long)grid.x,
                   (long long)grid.y, (long long)grid.z);
  void* kernel = nullptr;
  {
    std::lock_guard<std::mutex> guard(kernels.lock);
    for (auto& known : kernels.kernels)
      if (known.first == name) kernel = known.second;
    if (!kernel) {
      const int code = s.api.cuModuleGetFunction(&kernel, kernels.library, name);
      if (code) return cuda::failed(name, code);
      kernels.kernels.emplace_back(name, kernel);
    }
  }
  int code = shared_bytes > 48 << 10 ? s.api.cuFuncSetAttribute(kernel, cuda::kDynamicShared, (int)shared_bytes) : 0;
  if (code) return cuda::failed(name, code);
  std::vector<void*> values((size_t)count + 1);
  for (int i = 0; i < count; ++i) values[(size_t)i] = (void*)(arguments[i].size ? (const void*)arguments[i].bytes : &arguments[i].memory);
  if (stream) code = s.api.cuStreamSynchronize(nullptr);  // what was cleared for the kernel
  s.last = name;
  const unsigned gx = (unsigned)grid.x, gy = (unsigned)grid.y, gz = (unsigned)grid.z;
  const unsigned bx = (unsigned)block.x, by = (unsigned)block.y, bz = (unsigned)block.z, shared = (unsigned)shared_bytes;
  if (code) return cuda::failed(name, code);
  if (cooperative)
    code = s.api.cuLaunchCooperativeKernel(kernel, gx, gy, gz, bx, by, bz, shared, stream, values.data());
  else
    code = s.api.cuLaunchKernel(kernel, gx, gy, gz, bx, by, bz, shared, stream, values.data(), nullptr);
  return cuda::failed(name, code);
}
}  // namespace croq_device
