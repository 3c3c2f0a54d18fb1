// Element types, their names and conversions: what generated modules, the CPU runtime and hosts (choreo.h) share.
#pragma once
#include <stddef.h>
#include <stdint.h>

#define CROQ_LIKELY(x) __builtin_expect(!!(x), 1)
#define CROQ_UNLIKELY(x) __builtin_expect(!!(x), 0)
#define CROQ_INLINE static inline __attribute__((always_inline, unused))
#define CROQ_COLD static __attribute__((noinline, cold, unused))
#define CROQ_RESTRICT __restrict__
#define CROQ_EXPORT __attribute__((visibility("default")))

#if defined(__CUDACC__)  // a single source for nvcc: host and device have the same types
#define CROQ_MEMBER __host__ __device__
#define CROQ_SOFTWARE_F16
#pragma push_macro("CROQ_INLINE")
#undef CROQ_INLINE
#define CROQ_INLINE static inline __host__ __device__
#elif !defined(CROQ_MEMBER)
#define CROQ_MEMBER
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
#if defined(__CUDACC__)
  union { From from; To to; } both = {value};
  return both.to;
#else
  To out;
  __builtin_memcpy(&out, &value, sizeof out);
  return out;
#endif
}

// bfloat16: the upper half of a float, rounded to nearest even; a NaN stays a quiet NaN.
struct bf16 {
  uint16_t bits;
  bf16() = default;
  CROQ_INLINE uint16_t round(float value) {
    uint32_t raw = croq_bits<uint32_t>(value);
    uint32_t rounded = (raw + 0x7fffu + ((raw >> 16) & 1u)) >> 16;
    return (uint16_t)((raw & 0x7fffffffu) > 0x7f800000u ? ((raw >> 16) | 0x40u) : rounded);
  }
  CROQ_MEMBER bf16(float value) : bits(round(value)) {}
  CROQ_MEMBER operator float() const { return croq_bits<float>((uint32_t)bits << 16); }
};

#if defined(__FLT16_MANT_DIG__) && !defined(CROQ_SOFTWARE_F16)
typedef _Float16 f16;
#else
// binary16 without compiler support: conversions by integer arithmetic, round to nearest even.
struct f16 {
  uint16_t bits;
  f16() = default;
  CROQ_INLINE uint16_t round(float value) {
#if defined(__CUDA_ARCH__)
    uint16_t out;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(out) : "f"(value));
    return out;
#else
    uint32_t raw = croq_bits<uint32_t>(value), sign = (raw >> 16) & 0x8000u, magnitude = raw & 0x7fffffffu;
    if (magnitude > 0x7f800000u) return (uint16_t)(sign | 0x7e00u | ((magnitude >> 13) & 0x3ffu));
    if (magnitude >= 0x47800000u) return (uint16_t)(sign | 0x7c00u);
    if (magnitude < 0x38800000u) {  // below the smallest normal half: adding 0.5 lets the FPU round the subnormal
      float sum = croq_bits<float>(magnitude) + 0.5f;
      return (uint16_t)(sign | (croq_bits<uint32_t>(sum) - 0x3f000000u));
    }
    uint32_t odd = (magnitude >> 13) & 1u;
    return (uint16_t)(sign | ((magnitude - 0x38000000u + 0xfffu + odd) >> 13));
#endif
  }
  CROQ_INLINE float widen(uint16_t half) {
#if defined(__CUDA_ARCH__)
    float out;
    asm("cvt.f32.f16 %0, %1;" : "=f"(out) : "h"(half));
    return out;
#else
    uint32_t sign = (uint32_t)(half & 0x8000u) << 16, rest = half & 0x7fffu;
    if (rest >= 0x7c00u) return croq_bits<float>(sign | 0x7f800000u | ((rest & 0x3ffu) << 13));
    if (rest < 0x400u) return croq_bits<float>(sign | croq_bits<uint32_t>((float)rest * 5.9604644775390625e-8f));
    return croq_bits<float>(sign | ((rest << 13) + 0x38000000u));
#endif
  }
  CROQ_MEMBER f16(float value) : bits(round(value)) {}
  CROQ_MEMBER operator float() const { return widen(bits); }
};
#endif
}  // namespace choreo
#include "croq_small.h"
namespace croq = choreo;
#if defined(__CUDACC__)
#pragma pop_macro("CROQ_INLINE")
#endif

// The names alone, for generated code.
namespace croq_cell {
using choreo::s8; using choreo::s16; using choreo::s32; using choreo::s64;
using choreo::u8; using choreo::u16; using choreo::u32; using choreo::u64;
using choreo::f16; using choreo::bf16; using choreo::f32; using choreo::tf32; using choreo::f64;
using choreo::s2; using choreo::s4; using choreo::s6; using choreo::u1; using choreo::u2; using choreo::u4;
using choreo::u6; using choreo::bin1; using choreo::f8_e4m3; using choreo::f8_e5m2; using choreo::f8_ue4m3;
using choreo::f8_ue8m0; using choreo::f6_e3m2; using choreo::f6_e2m3; using choreo::f4_e2m1;
}
