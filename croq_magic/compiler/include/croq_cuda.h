// What generated CUDA text needs: element types, helpers, and named wrappers around instructions. No standard header is
// included: NVRTC has none, and nvcc compiles faster without.
//
// With CROQ_EMULATE the text is host C++: croq_emulate.h then gives the meaning of CUDA's own words and of the wrappers.
// It provides
//   threadIdx blockIdx blockDim gridDim, __device__ __global__ __shared__ __forceinline__ __noinline__ __launch_bounds__
//   __syncthreads __syncwarp __threadfence __threadfence_block, shuffles, ballots and votes, printf, uint2 uint4
//   atomicAdd (int, unsigned, unsigned long long, float, double), atomicSub atomicExch atomicMin atomicMax atomicAnd
//   atomicOr atomicXor (int, unsigned, unsigned long long, long long where CUDA has it), atomicCAS (those and unsigned
//   short), __nanosleep (others run meanwhile), CUDA's math functions of f32 and f64, and the integer types of <stdint.h>
//   croq_async_copy<BYTES>(shared, global), croq_async_copy_zfill<BYTES>(shared, global, valid), croq_async_commit(),
//   croq_async_wait<GROUPS>(), croq_bar_sync(number, threads), croq_bar_arrive(number, threads),
//   croq_mbarrier_init(word, count), croq_mbarrier_arrive(word), croq_mbarrier_wait(word, parity),
//   croq_mbarrier_arrive_landed(word), croq_mbarrier_expect_landed(word), croq_cluster_sync(),
//   croq_cluster_arrive(word, rank), croq_cluster_wait(word, parity),
//   croq_fence_block(), croq_fence_device(), croq_grid_sync(counter, blocks)
// and defines CROQ_INLINE and CROQ_MEMBER as below without __device__.
#pragma once

#ifdef CROQ_SINGLE_SOURCE
// A whole program in one file for nvcc: types are those of croq_types.h, which host and device share; what stands here
// has names of its own, since nvcc takes no functions that differ in `__device__` alone.
#pragma push_macro("CROQ_INLINE")
#undef CROQ_INLINE
#define CROQ_INLINE static __device__ __forceinline__
#define __co_device__ __device__
namespace croq_gpu {
#else
#ifdef CROQ_EMULATE
#include "croq_emulate.h"
#else
#ifdef __CUDACC_RTC__
typedef signed char int8_t;
typedef short int16_t;
typedef int int32_t;
typedef long long int64_t;
typedef unsigned char uint8_t;
typedef unsigned short uint16_t;
typedef unsigned int uint32_t;
typedef unsigned long long uint64_t;
#else
#include <stdint.h>
#endif
#define CROQ_INLINE static __device__ __forceinline__
#define CROQ_MEMBER __device__
#endif
#ifndef __co_device__
#define __co_device__ __device__
#endif

// -------------------------------------------------------------------------------------------------- element types
namespace choreo {
typedef int8_t s8;
typedef int16_t s16;
typedef int32_t s32;
typedef int64_t s64;
typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;
typedef float f32;
typedef float tf32;
typedef double f64;

template <typename To, typename From>
CROQ_INLINE To croq_bits(From value) {
  static_assert(sizeof(To) == sizeof(From), "same width");
  union { From from; To to; } both = {value};
  return both.to;
}

// binary16; conversions are single instructions on a GPU and integer arithmetic elsewhere, rounding to nearest even.
struct f16 {
  uint16_t bits;
  f16() = default;
  CROQ_MEMBER static uint16_t round(float value) {
#ifndef CROQ_EMULATE
    uint16_t out;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(out) : "f"(value));
    return out;
#else
    const uint32_t raw = croq_bits<uint32_t>(value), sign = (raw >> 16) & 0x8000u, magnitude = raw & 0x7fffffffu;
    if (magnitude > 0x7f800000u) return (uint16_t)(sign | 0x7e00u | ((magnitude >> 13) & 0x3ffu));
    if (magnitude >= 0x47800000u) return (uint16_t)(sign | 0x7c00u);
    if (magnitude < 0x38800000u) {  // below the smallest normal half: adding 0.5 lets the FPU round the subnormal
      const float sum = croq_bits<float>(magnitude) + 0.5f;
      return (uint16_t)(sign | (croq_bits<uint32_t>(sum) - 0x3f000000u));
    }
    return (uint16_t)(sign | ((magnitude - 0x38000000u + 0xfffu + ((magnitude >> 13) & 1u)) >> 13));
#endif
  }
  CROQ_MEMBER static float widen(uint16_t half) {
#ifndef CROQ_EMULATE
    float out;
    asm("cvt.f32.f16 %0, %1;" : "=f"(out) : "h"(half));
    return out;
#else
    const uint32_t sign = (uint32_t)(half & 0x8000u) << 16, rest = half & 0x7fffu;
    if (rest >= 0x7c00u) return croq_bits<float>(sign | 0x7f800000u | ((rest & 0x3ffu) << 13));
    if (rest < 0x400u) return croq_bits<float>(sign | croq_bits<uint32_t>((float)rest * 5.9604644775390625e-8f));
    return croq_bits<float>(sign | ((rest << 13) + 0x38000000u));
#endif
  }
  CROQ_MEMBER f16(float value) : bits(round(value)) {}
  CROQ_MEMBER operator float() const { return widen(bits); }
};

// bfloat16: the upper half of a float, rounded to nearest even; a NaN stays a quiet NaN.
struct bf16 {
  uint16_t bits;
  bf16() = default;
  CROQ_MEMBER static uint16_t round(float value) {
#if !defined(CROQ_EMULATE) && defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    uint16_t out;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(out) : "f"(value));
    return out;
#else
    const uint32_t raw = croq_bits<uint32_t>(value);
    const uint32_t rounded = (raw + 0x7fffu + ((raw >> 16) & 1u)) >> 16;
    return (uint16_t)((raw & 0x7fffffffu) > 0x7f800000u ? ((raw >> 16) | 0x40u) : rounded);
#endif
  }
  CROQ_MEMBER bf16(float value) : bits(round(value)) {}
  CROQ_MEMBER operator float() const { return croq_bits<float>((uint32_t)bits << 16); }
};
}  // namespace choreo
#include "croq_small.h"
namespace croq = choreo;
#endif

// ------------------------------------------------------------------------------------------------ scalar helpers
#define CROQ_INFINITY __int_as_float(0x7f800000)
#define CROQ_NAN __int_as_float(0x7fffffff)
// Float to integer: truncates, saturates, and turns NaN into 0 (the language defines out-of-range conversions). The
// instructions do that of themselves, but for NaN where a side has 64 bits. Smaller integers are clamped behind them.
CROQ_INLINE int croq_truncated(float value, int) { return __float2int_rz(value); }
CROQ_INLINE unsigned croq_truncated(float value, unsigned) { return __float2uint_rz(value); }
CROQ_INLINE long long croq_truncated(float value, long long) { return value == value ? __float2ll_rz(value) : 0; }
CROQ_INLINE unsigned long long croq_truncated(float value, unsigned long long) {
  return value == value ? __float2ull_rz(value) : 0;
}
CROQ_INLINE int croq_truncated(double value, int) { return value == value ? __double2int_rz(value) : 0; }
CROQ_INLINE unsigned croq_truncated(double value, unsigned) { return value == value ? __double2uint_rz(value) : 0; }
CROQ_INLINE long long croq_truncated(double value, long long) { return value == value ? __double2ll_rz(value) : 0; }
CROQ_INLINE unsigned long long croq_truncated(double value, unsigned long long) {
  return value == value ? __double2ull_rz(value) : 0;
}
template <typename To, typename From>
CROQ_INLINE To croq_to_int(From value) {
  constexpr bool is_signed = (To)-1 < (To)0;
  constexpr int bits = (int)sizeof(To) * 8;
  if constexpr (bits < 32) {
    constexpr int high = (1 << (is_signed ? bits - 1 : bits)) - 1, low = is_signed ? -high - 1 : 0;
    const int wide = croq_truncated(value, 0);
    return (To)(wide < low ? low : wide > high ? high : wide);
  } else if constexpr (bits == 32) {
    if constexpr (is_signed) return croq_truncated(value, 0);
    else return croq_truncated(value, 0u);
  } else {
    if constexpr (is_signed) return croq_truncated(value, 0ll);
    else return croq_truncated(value, 0ull);
  }
}

template <typename T>
CROQ_INLINE T croq_min(T a, T b) { return b < a ? b : a; }
template <typename T>
CROQ_INLINE T croq_max(T a, T b) { return a < b ? b : a; }

// Division rounds towards zero; a zero divisor gives 0, and the most negative value over -1 wraps.
template <typename T>
CROQ_INLINE T croq_div(T a, T b) {
  if (b == 0) return 0;
  if ((T)-1 < (T)0 && b == (T)-1) return (T)(0 - a);
  return (T)(a / b);
}
template <typename T>
CROQ_INLINE T croq_mod(T a, T b) {
  if (b == 0) return 0;
  if ((T)-1 < (T)0 && b == (T)-1) return 0;
  return (T)(a % b);
}

// Shifts by the width or more give what arithmetic says (0, or the sign), where C++ leaves it undefined.
template <typename T>
CROQ_INLINE T croq_shl(T a, int64_t n) { return n < 0 || n >= (int64_t)sizeof(T) * 8 ? (T)0 : (T)(a << n); }
template <typename T>
CROQ_INLINE T croq_shr(T a, int64_t n) {
  constexpr int64_t last = (int64_t)sizeof(T) * 8 - 1;
  return n < 0 || n > last ? (a < (T)0 ? (T)-1 : (T)0) : (T)(a >> n);
}

template <typename T>
CROQ_INLINE T croq_alignup(T v, T a) { return (T)((v + a - 1) / a * a); }
template <typename T>
CROQ_INLINE T croq_aligndown(T v, T a) { return (T)(v / a * a); }
template <typename T>
CROQ_INLINE T croq_ceildiv(T a, T b) { return b == 0 ? (T)0 : (T)((a + b - 1) / b); }

// The place of an element in a swizzled buffer: chunks of 16 bytes of a row of 128 bytes change places by the row.
template <typename T>
CROQ_INLINE T croq_swizzle(T place, int mask) { return place ^ ((place >> 3) & mask); }

// ------------------------------------------------------------------------------------------------------- math
#define CROQ_MATH1(name)                                             \
  CROQ_INLINE float croq_##name(float x) { return name##f(x); }      \
  CROQ_INLINE double croq_##name(double x) { return name(x); }
CROQ_MATH1(sin) CROQ_MATH1(cos) CROQ_MATH1(tan) CROQ_MATH1(asin) CROQ_MATH1(acos) CROQ_MATH1(atan) CROQ_MATH1(sinh)
CROQ_MATH1(cosh) CROQ_MATH1(tanh) CROQ_MATH1(exp) CROQ_MATH1(exp2) CROQ_MATH1(expm1) CROQ_MATH1(log) CROQ_MATH1(log1p)
CROQ_MATH1(sqrt) CROQ_MATH1(fabs) CROQ_MATH1(ceil) CROQ_MATH1(floor) CROQ_MATH1(round)
#undef CROQ_MATH1
#define CROQ_MATH2(ours, name)                                                        \
  CROQ_INLINE float croq_##ours(float x, float y) { return name##f(x, y); }           \
  CROQ_INLINE double croq_##ours(double x, double y) { return name(x, y); }
CROQ_MATH2(pow, pow) CROQ_MATH2(atan2, atan2) CROQ_MATH2(fmax, fmax) CROQ_MATH2(fmin, fmin)
#undef CROQ_MATH2
CROQ_INLINE float croq_fma(float a, float b, float c) { return fmaf(a, b, c); }
CROQ_INLINE double croq_fma(double a, double b, double c) { return fma(a, b, c); }
template <typename T>
CROQ_INLINE T croq_rsqrt(T x) { return (T)1 / croq_sqrt(x); }
template <typename T>
CROQ_INLINE T croq_frcp(T x) { return (T)1 / x; }
template <typename T>
CROQ_INLINE T croq_sign(T x) { return (T)((x > (T)0) - (x < (T)0)); }
template <typename T>
CROQ_INLINE T croq_isfinite(T x) { return (T)(x - x == (T)0); }
// 1 / (1 + e^-x) with the smaller of e^x and e^-x, so that it underflows no earlier than its result.
template <typename T>
CROQ_INLINE T croq_sigmoid(T x) {
  const T e = croq_exp(-croq_fabs(x));
  return (x < (T)0 ? e : (T)1) / ((T)1 + e);
}
// log(1 + e^x) without overflow for large x.
template <typename T>
CROQ_INLINE T croq_softplus(T x) { return (x > (T)0 ? x : (T)0) + croq_log1p(croq_exp(-croq_fabs(x))); }
// x/2 (1 + tanh u) is x / (1 + e^-2u), which does not cancel for negative x, nor underflow before its result.
template <typename T>
CROQ_INLINE T croq_gelu(T x) {
  const T u = (T)0.79788456 * (x + (T)0.044715 * (x * x * x)), e = croq_exp((T)-2 * croq_fabs(u));
  return (x < (T)0 ? x * e : x) / ((T)1 + e);
}

// ------------------------------------------------------------------------------------------------------ atomics
// Relaxed updates that return the old value, for the element types of the language's table.
CROQ_INLINE int32_t croq_atomic_add(int32_t* p, int32_t v) { return atomicAdd(p, v); }
CROQ_INLINE uint32_t croq_atomic_add(uint32_t* p, uint32_t v) { return atomicAdd(p, v); }
CROQ_INLINE float croq_atomic_add(float* p, float v) { return atomicAdd(p, v); }
CROQ_INLINE double croq_atomic_add(double* p, double v) { return atomicAdd(p, v); }
CROQ_INLINE uint64_t croq_atomic_add(uint64_t* p, uint64_t v) {
  return atomicAdd((unsigned long long*)p, (unsigned long long)v);
}
CROQ_INLINE int64_t croq_atomic_add(int64_t* p, int64_t v) {
  return (int64_t)atomicAdd((unsigned long long*)p, (unsigned long long)v);
}
// 16-bit floats: compare and swap, so that every update rounds as the type does.
template <typename T>
CROQ_INLINE T croq_atomic_add(T* p, T v) {
  static_assert(sizeof(T) == 2, "no atomic add of this type");
  unsigned short* const place = (unsigned short*)p;
  unsigned short old = *(volatile unsigned short*)place, seen;
  do {
    seen = old;
    T current = choreo::croq_bits<T>(seen);
    old = atomicCAS(place, seen, choreo::croq_bits<unsigned short>(T((float)current + (float)v)));
  } while (old != seen);
  return choreo::croq_bits<T>(old);
}
CROQ_INLINE int32_t croq_atomic_sub(int32_t* p, int32_t v) { return atomicSub(p, v); }
CROQ_INLINE uint32_t croq_atomic_sub(uint32_t* p, uint32_t v) { return atomicSub(p, v); }
CROQ_INLINE int32_t croq_atomic_exch(int32_t* p, int32_t v) { return atomicExch(p, v); }
CROQ_INLINE uint32_t croq_atomic_exch(uint32_t* p, uint32_t v) { return atomicExch(p, v); }
CROQ_INLINE float croq_atomic_exch(float* p, float v) { return atomicExch(p, v); }
CROQ_INLINE uint64_t croq_atomic_exch(uint64_t* p, uint64_t v) {
  return atomicExch((unsigned long long*)p, (unsigned long long)v);
}
#define CROQ_ATOMIC(ours, name, wide)                                                                  \
  CROQ_INLINE int32_t croq_atomic_##ours(int32_t* p, int32_t v) { return name(p, v); }                 \
  CROQ_INLINE uint32_t croq_atomic_##ours(uint32_t* p, uint32_t v) { return name(p, v); }              \
  CROQ_INLINE int64_t croq_atomic_##ours(int64_t* p, int64_t v) { return (int64_t)name((wide*)p, (wide)v); } \
  CROQ_INLINE uint64_t croq_atomic_##ours(uint64_t* p, uint64_t v) {                                   \
    return name((unsigned long long*)p, (unsigned long long)v);                                        \
  }
CROQ_ATOMIC(min, atomicMin, long long)
CROQ_ATOMIC(max, atomicMax, long long)
CROQ_ATOMIC(and, atomicAnd, unsigned long long)
CROQ_ATOMIC(or, atomicOr, unsigned long long)
CROQ_ATOMIC(xor, atomicXor, unsigned long long)
#undef CROQ_ATOMIC
CROQ_INLINE int32_t croq_atomic_cas(int32_t* p, int32_t expected, int32_t v) { return atomicCAS(p, expected, v); }
CROQ_INLINE uint32_t croq_atomic_cas(uint32_t* p, uint32_t expected, uint32_t v) { return atomicCAS(p, expected, v); }
CROQ_INLINE uint64_t croq_atomic_cas(uint64_t* p, uint64_t expected, uint64_t v) {
  return atomicCAS((unsigned long long*)p, (unsigned long long)expected, (unsigned long long)v);
}
CROQ_INLINE uint16_t croq_atomic_cas(uint16_t* p, uint16_t expected, uint16_t v) {
  return atomicCAS((unsigned short*)p, (unsigned short)expected, (unsigned short)v);
}

// -------------------------------------------------------------------------------------------------- failed checks
// The first failure of a launch wins: its number plus one, then its values.
template <typename... Values>
static __device__ __noinline__ void croq_fail(int64_t* report, int check, Values... values) {
  if (atomicCAS((unsigned long long*)report, 0ull, (unsigned long long)(check + 1)) != 0ull) return;
  const int64_t list[sizeof...(Values) + 1] = {(int64_t)values..., 0};
  for (int i = 0; i < (int)sizeof...(Values); ++i) report[1 + i] = list[i];
}

// ------------------------------------------------------------------------------------------------------- wrappers
#ifndef CROQ_EMULATE
CROQ_INLINE unsigned croq_shared_address(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }

CROQ_INLINE void croq_bar_sync(int number, int threads) {
  asm volatile("barrier.sync %0, %1;" : : "r"(number), "r"(threads) : "memory");
}
CROQ_INLINE void croq_bar_arrive(int number, int threads) {
  asm volatile("barrier.arrive %0, %1;" : : "r"(number), "r"(threads) : "memory");
}
CROQ_INLINE void croq_fence_block() { __threadfence_block(); }
CROQ_INLINE void croq_fence_device() { __threadfence(); }

// All blocks of a cooperative launch meet; `counter` has two words: arrivals, and rounds so far.
static __device__ __noinline__ void croq_grid_sync(unsigned* counter, unsigned blocks) {
  __syncthreads();
  if (threadIdx.x == 0 && threadIdx.y == 0 && threadIdx.z == 0) {
    const unsigned round = *(volatile unsigned*)&counter[1];
    __threadfence();  // also keeps the arrival behind the reading: the last block may begin another round at once
    if (atomicAdd(&counter[0], 1u) == blocks - 1) {
      counter[0] = 0;
      __threadfence();
      atomicAdd(&counter[1], 1u);
    } else {
      while (*(volatile unsigned*)&counter[1] == round) {
      }
    }
    __threadfence();
  }
  __syncthreads();
}

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
// Copies from device memory into the block's memory; complete after the wait for their group.
template <int kBytes>
CROQ_INLINE void croq_async_copy(void* shared, const void* global) {
  static_assert(kBytes == 4 || kBytes == 8 || kBytes == 16, "4, 8 or 16 bytes");
  if (kBytes == 16) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" : : "r"(croq_shared_address(shared)), "l"(global) : "memory");
  } else {
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" : : "r"(croq_shared_address(shared)), "l"(global),
                 "n"(kBytes == 16 ? 4 : kBytes) : "memory");
  }
}
// The same with zeros behind the first `valid` bytes, which alone are read.
template <int kBytes>
CROQ_INLINE void croq_async_copy_zfill(void* shared, const void* global, int valid) {
  static_assert(kBytes == 4 || kBytes == 8 || kBytes == 16, "4, 8 or 16 bytes");
  if (kBytes == 16) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" : : "r"(croq_shared_address(shared)), "l"(global),
                 "r"(valid) : "memory");
  } else {
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" : : "r"(croq_shared_address(shared)), "l"(global),
                 "n"(kBytes == 16 ? 4 : kBytes), "r"(valid) : "memory");
  }
}
CROQ_INLINE void croq_async_commit() { asm volatile("cp.async.commit_group;" : : : "memory"); }
template <int kGroups>
CROQ_INLINE void croq_async_wait() { asm volatile("cp.async.wait_group %0;" : : "n"(kGroups) : "memory"); }

// A word of the block's memory at which `count` arrivals complete a phase. `parity` is that of the phase waited for.
CROQ_INLINE void croq_mbarrier_init(uint64_t* word, unsigned count) {
  asm volatile("mbarrier.init.shared.b64 [%0], %1;" : : "r"(croq_shared_address(word)), "r"(count) : "memory");
}
CROQ_INLINE void croq_mbarrier_arrive(uint64_t* word) {
  asm volatile("{ .reg .b64 state; mbarrier.arrive.shared.b64 state, [%0]; }" : : "r"(croq_shared_address(word)) : "memory");
}
// An arrival that takes place when the thread's asynchronous copies so far have landed; the thread goes on at once. It is
// one of the `count` arrivals (.noinc), and orders the copies alone: other stores of the thread need an arrival of its own.
CROQ_INLINE void croq_mbarrier_arrive_landed(uint64_t* word) {
  asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" : : "r"(croq_shared_address(word)) : "memory");
}
// The same beside the `count` arrivals: the phase that is under way expects one more. The thread's own arrival follows.
CROQ_INLINE void croq_mbarrier_expect_landed(uint64_t* word) {
  asm volatile("cp.async.mbarrier.arrive.shared.b64 [%0];" : : "r"(croq_shared_address(word)) : "memory");
}
CROQ_INLINE void croq_mbarrier_wait(uint64_t* word, unsigned parity) {
  unsigned done;
  do {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                 : "=r"(done) : "r"(croq_shared_address(word)), "r"(parity & 1) : "memory");
#else
    asm volatile("{ .reg .pred p; mbarrier.test_wait.parity.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                 : "=r"(done) : "r"(croq_shared_address(word)), "r"(parity & 1) : "memory");
#endif
  } while (!done);
}
#endif
#endif

#if !defined(CROQ_EMULATE) && (!defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900)
// All threads of the blocks of a cluster meet; what they wrote before is visible to all of them.
CROQ_INLINE void croq_cluster_sync() {
  asm volatile("barrier.cluster.arrive.release;" : : : "memory");
  asm volatile("barrier.cluster.wait.acquire;" : : : "memory");
}
// One arrival at the mbarrier that block `rank` of the cluster has at the place of `word`.
CROQ_INLINE void croq_cluster_arrive(uint64_t* word, unsigned rank) {
  asm volatile("{ .reg .b32 there; mapa.shared::cluster.u32 there, %0, %1;"
               " mbarrier.arrive.release.cluster.shared::cluster.b64 _, [there]; }"
               : : "r"(croq_shared_address(word)), "r"(rank) : "memory");
}
// Waits at the block's own mbarrier for arrivals of the whole cluster.
CROQ_INLINE void croq_cluster_wait(uint64_t* word, unsigned parity) {
  unsigned done;
  do {
    asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%1], %2;"
                 " selp.u32 %0, 1, 0, p; }"
                 : "=r"(done) : "r"(croq_shared_address(word)), "r"(parity & 1) : "memory");
  } while (!done);
}
#endif

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
// Before sm_80 the same by counting: the low half holds the arrivals that are missing, the high half their number and,
// in its last bit, the phase.
CROQ_INLINE void croq_mbarrier_init(uint64_t* word, unsigned count) { *word = (uint64_t)count << 33 | count; }
CROQ_INLINE void croq_mbarrier_arrive(uint64_t* word) {
  unsigned* const half = (unsigned*)word;
  __threadfence_block();
  if (atomicSub(half, 1u) == 1u) {
    // Added, not stored: a thread that does not wait may already have arrived for the next phase.
    atomicAdd(half, *(volatile unsigned*)(half + 1) >> 1);
    __threadfence_block();
    atomicXor(half + 1, 1u);
  }
}
// Threads of one warp may wait for each other (sm_70 and later schedule them apart); those that look again and again leave
// the memory to the others meanwhile.
CROQ_INLINE void croq_mbarrier_wait(uint64_t* word, unsigned parity) {
  while ((*(volatile unsigned*)((unsigned*)word + 1) & 1u) == (parity & 1u)) __nanosleep(20);
  __threadfence_block();
}
#endif

// The sum or maximum over lanes of a warp: those of a group of `kLanes` whose numbers differ in multiples of `kStride`.
// All lanes of the warp take part, all get the result.
template <int kLanes, int kStride = 1, typename T>
CROQ_INLINE T croq_lanes_sum(T value) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800  // one instruction for integers of a whole warp
  if constexpr (kLanes == 32 && kStride == 1 && sizeof(T) == 4 && (T)0.5f == (T)0) {
    return __reduce_add_sync(0xffffffffu, value);
  } else
#endif
  {
#pragma unroll
    for (int distance = kLanes / 2; distance >= kStride; distance /= 2) {
      value += __shfl_xor_sync(0xffffffffu, value, distance);
    }
    return value;
  }
}
CROQ_INLINE float croq_larger(float a, float b) { return croq_fmax(a, b); }
CROQ_INLINE double croq_larger(double a, double b) { return croq_fmax(a, b); }
template <typename T>
CROQ_INLINE T croq_larger(T a, T b) { return croq_max(a, b); }
template <int kLanes, int kStride = 1, typename T>
CROQ_INLINE T croq_lanes_max(T value) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  if constexpr (kLanes == 32 && kStride == 1 && sizeof(T) == 4 && (T)0.5f == (T)0) {
    return __reduce_max_sync(0xffffffffu, value);
  } else
#endif
  {
#pragma unroll
    for (int distance = kLanes / 2; distance >= kStride; distance /= 2) {
      value = croq_larger(value, __shfl_xor_sync(0xffffffffu, value, distance));
    }
    return value;
  }
}

// Events of all blocks: a word of device memory that counts arrivals; `parties` of them complete a generation.
CROQ_INLINE void croq_far_arrive(unsigned* arrivals) {
  __threadfence();
  atomicAdd(arrivals, 1u);
}
CROQ_INLINE void croq_far_wait(unsigned* arrivals, unsigned parties, unsigned generation) {
  while ((atomicAdd(arrivals, 0u) / parties & 1u) == (generation & 1u)) __nanosleep(32);
  __threadfence();
}

#ifdef CROQ_SINGLE_SOURCE
}  // namespace croq_gpu
#pragma pop_macro("CROQ_INLINE")
#else
namespace croq_cell {
using choreo::s8; using choreo::s16; using choreo::s32; using choreo::s64;
using choreo::u8; using choreo::u16; using choreo::u32; using choreo::u64;
using choreo::f16; using choreo::bf16; using choreo::f32; using choreo::tf32; using choreo::f64;
using choreo::s2; using choreo::s4; using choreo::s6; using choreo::u1; using choreo::u2; using choreo::u4;
using choreo::u6; using choreo::bin1; using choreo::f8_e4m3; using choreo::f8_e5m2; using choreo::f8_ue4m3;
using choreo::f8_ue8m0; using choreo::f6_e3m2; using choreo::f6_e2m3; using choreo::f4_e2m1;
}
#endif
