// The math builtins of the language. f32 `exp` and what rests on it are polynomials without branches, so that compilers
// turn loops over them into vector code (ten times faster than calls of expf); scalar and vector code round alike.
// Everything else is the C library. Coefficients of exp and tanh: Cephes, by S. L. Moshier (expf.c, tanhf.c).
#pragma once
#include "croq_cpu.h"

#define CROQ_LIBM1(name)                                                 \
  CROQ_INLINE float croq_##name(float x) { return __builtin_##name##f(x); } \
  CROQ_INLINE double croq_##name(double x) { return __builtin_##name(x); }
#define CROQ_LIBM2(name)                                                                \
  CROQ_INLINE float croq_##name(float x, float y) { return __builtin_##name##f(x, y); } \
  CROQ_INLINE double croq_##name(double x, double y) { return __builtin_##name(x, y); }
CROQ_LIBM1(sin)
CROQ_LIBM1(cos)
CROQ_LIBM1(tan)
CROQ_LIBM1(asin)
CROQ_LIBM1(acos)
CROQ_LIBM1(atan)
CROQ_LIBM1(sinh)
CROQ_LIBM1(cosh)
CROQ_LIBM1(expm1)
CROQ_LIBM1(log)
CROQ_LIBM1(log1p)
CROQ_LIBM1(sqrt)
CROQ_LIBM1(fabs)
CROQ_LIBM1(ceil)
CROQ_LIBM1(floor)
CROQ_LIBM1(round)
CROQ_LIBM2(atan2)
CROQ_LIBM2(pow)
#undef CROQ_LIBM1
#undef CROQ_LIBM2

// Relative error below 1.2e-7 (one unit in the last place); overflows to infinity, underflows through the subnormals.
CROQ_INLINE float croq_exp(float x) {
  x = x > 89.0f ? 89.0f : x;
  x = x < -104.0f ? -104.0f : x;
  const float n = (x * 1.44269504f + 12582912.0f) - 12582912.0f;  // adding 1.5 * 2^23 rounds to an integer
  const float r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  const float y = (p * (r * r) + r) + 1.0f;
  const int32_t whole = (int32_t)n, half = whole >> 1;  // two factors, as 2^n itself may leave the normal range
  const float first = choreo::croq_bits<float>((half + 127) << 23);
  const float second = choreo::croq_bits<float>((whole - half + 127) << 23);
  return y * first * second;
}
CROQ_INLINE double croq_exp(double x) { return __builtin_exp(x); }
CROQ_INLINE float croq_exp2(float x) { return __builtin_exp2f(x); }

CROQ_INLINE float croq_tanh(float x) {
  const float size = __builtin_fabsf(x), z = x * x;
  float p = -5.70498872745e-3f;
  p = p * z + 2.06390887954e-2f;
  p = p * z - 5.37397155531e-2f;
  p = p * z + 1.33314422036e-1f;
  p = p * z - 3.33332819422e-1f;
  const float small = p * z * x + x;
  const float large = 1.0f - 2.0f / (croq_exp(size + size) + 1.0f);
  const float signed_large = __builtin_copysignf(large, x);
  return size < 0.625f ? small : signed_large;
}
CROQ_INLINE double croq_tanh(double x) { return __builtin_tanh(x); }

template <typename T>
CROQ_INLINE T croq_rsqrt(T x) { return (T)1 / croq_sqrt(x); }
template <typename T>
CROQ_INLINE T croq_frcp(T x) { return (T)1 / x; }
template <typename T>
CROQ_INLINE T croq_sign(T x) { return (T)((x > (T)0) - (x < (T)0)); }
template <typename T>
CROQ_INLINE T croq_isfinite(T x) { return (T)(x - x == (T)0); }
template <typename T>
CROQ_INLINE T croq_sigmoid(T x) { return (T)1 / ((T)1 + croq_exp(-x)); }
// log1p(e^x) without overflow for large x.
template <typename T>
CROQ_INLINE T croq_softplus(T x) { return (x > (T)0 ? x : (T)0) + croq_log1p(croq_exp(-croq_fabs(x))); }
template <typename T>
CROQ_INLINE T croq_gelu(T x) {
  return (T)0.5 * x * ((T)1 + croq_tanh((T)0.79788456 * (x + (T)0.044715 * x * x * x)));
}
CROQ_INLINE float croq_fma(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
CROQ_INLINE double croq_fma(double a, double b, double c) { return __builtin_fma(a, b, c); }
