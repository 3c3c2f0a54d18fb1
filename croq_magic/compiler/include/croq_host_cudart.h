// CUDA as the device of a whole program that nvcc compiles as one file: host, device functions and kernels together.
#pragma once
#define CROQ_SINGLE_SOURCE
#include "croq_simt.h"

#include <cuda_runtime.h>

namespace croq_device {
struct kernel {
  const char* name;
  const void* function;
};
// The kernels of one tileflow function.
struct module {
  const kernel *begin, *end;
};

namespace cuda {
// The kernel started last: an error is often found later.
inline const char*& last() {
  static const char* name = "";
  return name;
}
inline const char* failed(const char* what, cudaError_t code) {
  if (CROQ_LIKELY(code == cudaSuccess)) return nullptr;
  if (code == cudaErrorMemoryAllocation) return "not enough memory on the GPU";
  const char* before = *last() ? " (the kernel started last is " : "";
  return message("%s fails with %s: %s%s%s%s", what, cudaGetErrorName(code), cudaGetErrorString(code), before, last(),
                 *before ? ")" : "");
}
}  // namespace cuda

inline bool unified() { return false; }
inline const char* open(module&) {
  static const cudaError_t found = [] {
    int count = 0;
    const cudaError_t code = cudaGetDeviceCount(&count);
    return code == cudaSuccess && !count ? cudaErrorNoDevice : code;
  }();
  if (found == cudaSuccess) return nullptr;
  return message("there is no GPU that it may use (%s)", cudaGetErrorString(found));
}
inline const char* allocate(void** memory, size_t bytes) { return cuda::failed("cudaMalloc", cudaMalloc(memory, bytes)); }
inline void release(void* memory) { cudaFree(memory); }
inline const char* zero(void* memory, size_t bytes) {
  return cuda::failed("cudaMemset", cudaMemset(memory, 0, bytes));
}
inline const char* upload(void* memory, const void* from, size_t bytes) {
  return cuda::failed("cudaMemcpy", cudaMemcpy(memory, from, bytes, cudaMemcpyHostToDevice));
}
inline const char* download(void* to, void* memory, size_t bytes) {
  if (const char* problem = synchronize()) return problem;  // launches may be in streams that nothing waits for
  return cuda::failed("cudaMemcpy", cudaMemcpy(to, memory, bytes, cudaMemcpyDeviceToHost));
}
inline const char* synchronize() { return cuda::failed("a kernel", cudaDeviceSynchronize()); }

inline const char* launch(module& kernels, const char* name, extents grid, extents block, int64_t shared_bytes,
                          const argument* arguments, int count, bool cooperative, void* stream) {
  const kernel* found = kernels.begin;
  while (found != kernels.end && std::strcmp(found->name, name)) ++found;
  if (found == kernels.end) return message("the kernel %s is missing", name);
  cudaError_t code = cudaSuccess;
  if (shared_bytes > 48 << 10)
    code = cudaFuncSetAttribute(found->function, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)shared_bytes);
  if (code != cudaSuccess) return cuda::failed(name, code);
  std::vector<void*> values((size_t)count + 1);
  for (int i = 0; i < count; ++i)
    values[(size_t)i] = (void*)(arguments[i].size ? (const void*)arguments[i].bytes : &arguments[i].memory);
  if (stream) code = cudaStreamSynchronize(nullptr);  // what was cleared for the kernel
  if (code != cudaSuccess) return cuda::failed(name, code);
  cuda::last() = name;
  const dim3 blocks((unsigned)grid.x, (unsigned)grid.y, (unsigned)grid.z);
  const dim3 threads((unsigned)block.x, (unsigned)block.y, (unsigned)block.z);
  const size_t shared = (size_t)shared_bytes;
  const cudaStream_t queue = (cudaStream_t)stream;
  if (cooperative)
    code = cudaLaunchCooperativeKernel(found->function, blocks, threads, values.data(), shared, queue);
  else
    code = cudaLaunchKernel(found->function, blocks, threads, values.data(), shared, queue);
  return cuda::failed(name, code);
}
}  // namespace croq_device
