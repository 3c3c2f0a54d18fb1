// What a C++ compiler has to see of CUDA to check the host's half of a single source: device functions and kernels stay
// in the text, and nothing here runs.
#pragma once
#include <cuda_runtime.h>
#include <math.h>
#include <stdio.h>
#define __noinline__
#define __launch_bounds__(...)
#define __grid_constant__
#define __maxnreg__(...)
#define __cluster_dims__(...)
static uint3 threadIdx, blockIdx;
static dim3 blockDim, gridDim;
void __syncthreads();
void __syncwarp(unsigned mask = ~0u);
void __threadfence();
void __threadfence_block();
void __nanosleep(unsigned);
size_t __cvta_generic_to_shared(const void*);
#define CROQ_STUB(name) \
  template <typename T> \
  T name(T*, T);
CROQ_STUB(atomicAdd) CROQ_STUB(atomicSub) CROQ_STUB(atomicExch) CROQ_STUB(atomicMin) CROQ_STUB(atomicMax)
CROQ_STUB(atomicAnd) CROQ_STUB(atomicOr) CROQ_STUB(atomicXor)
template <typename T>
T atomicCAS(T*, T, T);
template <typename T>
T __ldg(const T*);
template <typename T>
T __shfl_xor_sync(unsigned, T, int, int = 32);
template <typename T>
T __shfl_down_sync(unsigned, T, unsigned, int = 32);
