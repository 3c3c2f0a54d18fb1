// The math builtins of the language. Those of f32 have neither branches nor calls, so compilers turn loops over them
// into vector code (about ten times faster than calls of the C library), and scalar and vector code round alike: the
// hot ones are computed in f32, the others in double (croq_wide.h). Those of f64 are the C library's.
#pragma once
#include "croq_wide.h"

#define CROQ_LIBM1(name) \
  CROQ_INLINE double croq_##name(double x) { return __builtin_##name(x); }
#define CROQ_BOTH1(name)                                                    \
  CROQ_INLINE float croq_##name(float x) { return __builtin_##name##f(x); } \
  CROQ_INLINE double croq_##name(double x) { return __builtin_##name(x); }
CROQ_LIBM1(sin)
CROQ_LIBM1(cos)
CROQ_LIBM1(tan)
CROQ_LIBM1(asin)
CROQ_LIBM1(acos)
CROQ_LIBM1(atan)
CROQ_LIBM1(sinh)
CROQ_LIBM1(cosh)
CROQ_LIBM1(tanh)
CROQ_LIBM1(exp)
CROQ_LIBM1(expm1)
CROQ_LIBM1(log)
CROQ_LIBM1(log1p)
CROQ_BOTH1(sqrt)
CROQ_BOTH1(fabs)
CROQ_BOTH1(ceil)
CROQ_BOTH1(floor)
#undef CROQ_LIBM1
#undef CROQ_BOTH1
CROQ_INLINE double croq_atan2(double y, double x) { return __builtin_atan2(y, x); }
CROQ_INLINE double croq_pow(double x, double y) { return __builtin_pow(x, y); }

// ------------------------------------------------------------------------------------ exponentials and logarithms
// y * 2^n in two steps, as 2^n itself may leave the normal range.
CROQ_INLINE float croq_scale(float y, float n) {
  const int32_t whole = (int32_t)n, half = whole >> 1;
  const float first = choreo::croq_bits<float>((half + 127) << 23);
  const float second = choreo::croq_bits<float>((whole - half + 127) << 23);
  return y * first * second;
}

// Relative error below 1.2e-7 (one unit in the last place); overflows to infinity, underflows through the subnormals.
// Coefficients of exp, exp2, log and tanh: Cephes, by S. L. Moshier (expf.c, exp2f.c, logf.c, tanhf.c).
CROQ_INLINE float croq_exp(float x) {
  x = x > 89.0f ? 89.0f : x;
  x = x < -104.0f ? -104.0f : x;
  const float n = (x * 1.44269504f + 12582912.0f) - 12582912.0f;  // adding 1.5 * 2^23 rounds to an integer
  const float r = croq_mad(n, 2.12194440e-4f, x - n * 0.693359375f);
  const float p = croq_horner(r, 1.9875691500e-4f, 1.3981999507e-3f, 8.3334519073e-3f, 4.1665795894e-2f,
      1.6666665459e-1f, 5.0000001201e-1f);
  return croq_scale(croq_mad(p, r * r, r) + 1.0f, n);
}
CROQ_INLINE float croq_exp2(float x) {
  x = x > 129.0f ? 129.0f : x;
  x = x < -151.0f ? -151.0f : x;
  const float n = (x + 12582912.0f) - 12582912.0f, r = x - n;
  const float p = croq_horner(r, 1.535336188319500e-4f, 1.339887440266574e-3f, 9.618437357674640e-3f,
      5.550332471162809e-2f, 2.402264791363012e-1f, 6.931472028550421e-1f);
  return croq_scale(croq_mad(p, r, 1.0f), n);
}
CROQ_INLINE float croq_expm1(float value) {
  const double x = value;
  const double p = croq_horner(x, 1.0 / 362880, 1.0 / 40320, 1.0 / 5040, 1.0 / 720, 1.0 / 120, 1.0 / 24, 1.0 / 6, 0.5);
  const double small = x * croq_mad(p, x, 1.0), large = croq_wide_exp(x) - 1.0;  // keeps the sign of zero
  return (float)(__builtin_fabs(x) < 0.5 ? small : large);
}

CROQ_INLINE float croq_log(float value) {
  const bool tiny = value < 1.17549435e-38f;
  const float x = tiny ? value * 8388608.0f : value;
  const int32_t raw = choreo::croq_bits<int32_t>(x) - 0x3f3504f3;  // x = m 2^n with m between sqrt(1/2) and sqrt(2)
  const float m = choreo::croq_bits<float>((raw & 0x007fffff) + 0x3f3504f3) - 1.0f, z = m * m;
  const float n = (float)(raw >> 23) - (tiny ? 23.0f : 0.0f);
  const float p = croq_horner(m, 7.0376836292e-2f, -1.1514610310e-1f, 1.1676998740e-1f, -1.2420140846e-1f,
      1.4249322787e-1f, -1.6668057665e-1f, 2.0000714765e-1f, -2.4999993993e-1f, 3.3333331174e-1f);
  const float tail = p * m * z + n * -2.12194440e-4f - 0.5f * z;
  const float y = (m + tail) + n * 0.693359375f;
  const float positive = value < __builtin_inff() ? y : value;
  const float rest = value == 0.0f ? -__builtin_inff() : __builtin_nanf("");
  return value > 0.0f ? positive : rest;
}
CROQ_INLINE float croq_log1p(float value) {
  const double x = value, y = croq_wide_log(1.0 + x);
  // Where 1 + x loses digits of x, two terms of the series say it all.
  const double near = __builtin_fabs(x) < 2.44140625e-4 ? x - x * x * 0.5 : y;
  return (float)(value < -1.0f ? (double)__builtin_nanf("") : value == 0.0f ? x : near);
}

// --------------------------------------------------------------------------------------------------- trigonometry
CROQ_INLINE float croq_sin(float x) {
  const float y = (float)croq_wide_sine(x, 0.0);
  return x == 0.0f ? x : y;
}
CROQ_INLINE float croq_cos(float x) { return (float)croq_wide_sine(x, 0.25); }
CROQ_INLINE float croq_tan(float x) {
  const croq_angle angle = croq_reduce(2.0 * x, 0.0);  // x without quarter turns, doubled
  const double s = croq_sine_series(angle.rest * 0.5), c = croq_cosine_series(angle.rest * 0.5);
  const bool odd = (int32_t)angle.halves & 1;
  const float y = (float)((odd ? -c : s) / (odd ? s : c));
  return x == 0.0f ? x : y;
}
CROQ_INLINE float croq_atan(float x) {
  return __builtin_copysignf((float)croq_wide_atan(__builtin_fabsf(x)), x);
}
CROQ_INLINE float croq_asin(float x) {
  const double size = __builtin_fabsf(x), half = (1.0 - size) * 0.5;
  const bool large = size > 0.5;
  const double p = croq_asin_series(large ? __builtin_sqrt(half) : size);
  return __builtin_copysignf((float)(large ? 1.5707963267948966 - 2.0 * p : p), x);
}
CROQ_INLINE float croq_acos(float x) {
  const double size = __builtin_fabsf(x), half = (1.0 - size) * 0.5;
  const bool large = size > 0.5;
  const double p = croq_asin_series(large ? __builtin_sqrt(half) : size);
  const double near = x < 0.0f ? 3.141592653589793 - 2.0 * p : 2.0 * p;
  const double middle = 1.5707963267948966 - (x < 0.0f ? -p : p);
  return (float)(large ? near : middle);
}
CROQ_INLINE float croq_atan2(float y, float x) {
  const double up = __builtin_fabsf(y), along = __builtin_fabsf(x);
  const double plain = up / along, same = up == along ? 1.0 : plain;  // both infinite: 45 degrees
  const double angle = croq_wide_atan(up == 0.0 && along == 0.0 ? 0.0 : same);
  const double turned = __builtin_copysignf(1.0f, x) < 0.0f ? 3.141592653589793 - angle : angle;
  const float size = __builtin_copysignf((float)turned, y);
  return x != x || y != y ? __builtin_nanf("") : size;
}

// ------------------------------------------------------------------------------------------------------ hyperbolic
CROQ_INLINE float croq_sinh(float value) {
  const double x = value, e = croq_wide_exp(__builtin_fabs(x)), z = x * x;
  const double p = croq_horner(z, 1.0 / 362880, 1.0 / 5040, 1.0 / 120, 1.0 / 6);
  const double small = croq_mad(p, x * z, x), large = __builtin_copysign((e - 1.0 / e) * 0.5, x);
  return (float)(__builtin_fabs(x) < 1.0 ? small : large);
}
CROQ_INLINE float croq_cosh(float x) {
  const double e = croq_wide_exp(__builtin_fabsf(x));
  return (float)((e + 1.0 / e) * 0.5);
}
CROQ_INLINE float croq_tanh(float x) {
  const float size = __builtin_fabsf(x), z = x * x;
  const float p = croq_horner(z, -5.70498872745e-3f, 2.06390887954e-2f, -5.37397155531e-2f, 1.33314422036e-1f,
      -3.33332819422e-1f);
  const float small = croq_mad(p * z, size, size);
  const float large = 1.0f - 2.0f / (croq_exp(size + size) + 1.0f);
  return __builtin_copysignf(size < 0.625f ? small : large, x);
}

// ----------------------------------------------------------------------------------------------------------- power
CROQ_INLINE float croq_pow(float base, float exponent) {
  const double x = base, y = exponent, half = y * 0.5;
  const double size = croq_wide_exp(y * croq_wide_log(__builtin_fabs(x)));
  const bool whole = __builtin_rint(y) == y, odd = whole && __builtin_rint(half) != half;
  const double negated = odd && __builtin_copysign(1.0, x) < 0.0 ? -size : size;
  const double real = x < 0.0 && x > -__builtin_inf() && !whole ? __builtin_nan("") : negated;
  const bool one = y == 0.0 || x == 1.0 || (x == -1.0 && __builtin_fabs(y) == __builtin_inf());
  return (float)(one ? 1.0 : real);
}
template <typename T>
CROQ_INLINE T croq_rsqrt(T x) { return (T)1 / croq_sqrt(x); }
template <typename T>
CROQ_INLINE T croq_frcp(T x) { return (T)1 / x; }

// ------------------------------------------------------------------------------------------------ parts and signs
// Half away from zero. The summand is the largest number below 1/2: one half would round 0.49999997 up to 1.
CROQ_INLINE float croq_round(float x) {
  return __builtin_copysignf(__builtin_truncf(__builtin_fabsf(x) + 0x1.fffffep-2f), x);
}
CROQ_INLINE double croq_round(double x) {
  return __builtin_copysign(__builtin_trunc(__builtin_fabs(x) + 0x1.fffffffffffffp-2), x);
}
template <typename T>
CROQ_INLINE T croq_sign(T x) { return (T)((x > (T)0) - (x < (T)0)); }
template <typename T>
CROQ_INLINE T croq_isfinite(T x) { return (T)(x - x == (T)0); }

// -------------------------------------------------------------------------------------------- activation functions
// 1 / (1 + e^-x) with the smaller of e^x and e^-x, so that it underflows no earlier than its result.
template <typename T>
CROQ_INLINE T croq_sigmoid(T x) {
  const T e = croq_exp(-croq_fabs(x));
  return (x < (T)0 ? e : (T)1) / ((T)1 + e);
}
// log1p(e^x) without overflow for large x. log1p(e) is 2 atanh(e / (2 + e)); e is at most 1.
CROQ_INLINE float croq_softplus(float x) {
  const float e = croq_exp(-croq_fabs(x)), t = e / (2.0f + e), z = t * t;
  const float p = croq_horner(z, 2.0f / 15, 2.0f / 13, 2.0f / 11, 2.0f / 9, 2.0f / 7, 2.0f / 5, 2.0f / 3);
  return (x > 0.0f ? x : 0.0f) + croq_mad(t * z, p, t + t);
}
CROQ_INLINE double croq_softplus(double x) {
  return (x > 0.0 ? x : 0.0) + __builtin_log1p(__builtin_exp(-__builtin_fabs(x)));
}
// x/2 (1 + tanh u) is x / (1 + e^-2u), which does not cancel for negative x.
CROQ_INLINE float croq_gelu(float value) {
  const double x = value, u = 0.79788456 * (x + 0.044715 * (x * x * x));
  return (float)(x / (1.0 + croq_wide_exp(-2.0 * u)));
}
CROQ_INLINE double croq_gelu(double x) {
  return x / (1.0 + __builtin_exp(-2.0 * (0.79788456 * (x + 0.044715 * (x * x * x)))));
}
CROQ_INLINE float croq_fma(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
CROQ_INLINE double croq_fma(double a, double b, double c) { return __builtin_fma(a, b, c); }
