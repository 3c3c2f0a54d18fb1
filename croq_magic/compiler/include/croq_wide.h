// Kernels of the f32 math builtins that are computed in double: the f32 result is then right to about half a unit in the
// last place without any care for rounding. Nothing branches and nothing is called, so compilers turn loops over them
// into vector code. Polynomials are Taylor series, long enough for f32, where nothing else is said.
#pragma once
#include "croq_cpu.h"

// a * b + c; the faster of the two ways in which it can be rounded.
CROQ_INLINE double croq_mad(double a, double b, double c) {
#if defined(__FMA__) || defined(__FP_FAST_FMA)
  return __builtin_fma(a, b, c);
#else
  return a * b + c;
#endif
}
CROQ_INLINE float croq_mad(float a, float b, float c) {
#if defined(__FMA__) || defined(__FP_FAST_FMAF)
  return __builtin_fmaf(a, b, c);
#else
  return a * b + c;
#endif
}
template <typename T>
CROQ_INLINE T croq_horner(T, T last) { return last; }
// The polynomial c0 x^n + c1 x^(n-1) + ... + cn.
template <typename T, typename... Rest>
CROQ_INLINE T croq_horner(T x, T first, T second, Rest... rest) {
  return croq_horner(x, croq_mad(first, x, second), (T)rest...);
}

// What is left of x + `shift` turns without half turns, for x with 25 significant bits: every float and its double.
// 1 / 2pi is cut into pieces of 29 bits, so the product of each with x is exact, and so is what whole turns leave of it.
// Where two pieces overlap in size their sum fits a double, so the pieces are added from the largest without loss, even
// next to multiples of pi.
CROQ_INLINE double croq_part_turn(double p) { return p - __builtin_rint(p); }
struct croq_angle {
  double rest;    // between -1/2 and 1/2 half turns, in radians
  double halves;  // half turns left out
};
CROQ_INLINE croq_angle croq_reduce(double x, double shift) {
  const double a = croq_part_turn(x * 0x1.45f306dp-3), b = croq_part_turn(x * 0x1.9391054p-32);
  const double c = croq_part_turn(x * 0x1.4fe13abp-61), d = croq_part_turn(x * 0x1.d1f534dp-90);
  const double e = croq_part_turn(x * 0x1.b81b6c5p-119), f = croq_part_turn(x * 0x1.5993c4p-150);
  const double g = x * 0x1.c820ff2p-177;
  const double tail = ((d + e) + f) + g, halves = __builtin_rint(((((a + b) + c) + tail) + shift) * 2.0);
  const double rest = (((((a - (halves * 0.5 - shift)) + b) + c) + d) + e) + (f + g);
  return {rest * 6.283185307179586, halves};
}
CROQ_INLINE double croq_sine_series(double x) {
  const double z = x * x;
  const double p = croq_horner(z, 1.0 / 6227020800, -1.0 / 39916800, 1.0 / 362880, -1.0 / 5040, 1.0 / 120, -1.0 / 6);
  return croq_mad(x * z, p, x);
}
CROQ_INLINE double croq_cosine_series(double x) {
  const double z = x * x;
  return croq_horner(z, 1.0 / 479001600, -1.0 / 3628800, 1.0 / 40320, -1.0 / 720, 1.0 / 24, -0.5, 1.0);
}
CROQ_INLINE double croq_wide_sine(float x, double shift) {
  const croq_angle angle = croq_reduce(x, shift);
  const double size = croq_sine_series(angle.rest);
  return (int32_t)angle.halves & 1 ? -size : size;
}

// e^x; overflows to infinity, and below the range of f32 it stays a normal number.
CROQ_INLINE double croq_wide_exp(double x) {
  const double high = x > 709.0 ? 709.0 : x, within = high < -700.0 ? -700.0 : high;
  const double shifted = within * 1.4426950408889634 + 6755399441055744.0;  // adding 1.5 * 2^52 rounds to an integer
  const double r = within - (shifted - 6755399441055744.0) * 0.6931471805599453;
  const double p = croq_horner(r, 1.0 / 40320, 1.0 / 5040, 1.0 / 720, 1.0 / 120, 1.0 / 24, 1.0 / 6, 0.5, 1.0, 1.0);
  const int64_t scaled = choreo::croq_bits<int64_t>(p) + (int64_t)(choreo::croq_bits<uint64_t>(shifted) << 52);
  const double y = choreo::croq_bits<double>(scaled);
  return x > 709.0 ? __builtin_inf() : (x == x ? y : x);
}

// log(x) for x >= 0 with relative error below 1e-11; x is a normal double.
CROQ_INLINE double croq_wide_log(double x) {
  // x = m 2^e with m between sqrt(1/2) and sqrt(2)
  const int64_t raw = choreo::croq_bits<int64_t>(x) - 0x3fe6a09e667f3bcdll;
  const double m = choreo::croq_bits<double>((raw & 0x000fffffffffffffll) + 0x3fe6a09e667f3bcdll);
  // The exponent as a double, without the conversion that AVX2 lacks: it is placed in the low bits of 1.5 * 2^52.
  const int64_t biased = ((int64_t)((uint64_t)raw >> 52) ^ 0x800) + 0x4338000000000000ll;
  const double exponent = choreo::croq_bits<double>(biased) - 6755399441057792.0;
  const double t = (m - 1.0) / (m + 1.0), z = t * t;
  const double p = croq_horner(z, 2.0 / 15, 2.0 / 13, 2.0 / 11, 2.0 / 9, 2.0 / 7, 2.0 / 5, 2.0 / 3);
  const double y = exponent * 0.6931471805599453 + croq_mad(t * z, p, t + t);
  return x == 0.0 ? -__builtin_inf() : (x < __builtin_inf() ? y : x);
}

// atan(x) for x >= 0. Coefficients and ranges of the polynomial: Cephes, by S. L. Moshier (atanf.c).
CROQ_INLINE double croq_wide_atan(double x) {
  const bool large = x > 2.414213562373095, middle = x > 0.4142135623730951;
  const double low_numerator = middle ? x - 1.0 : x, low_denominator = middle ? x + 1.0 : 1.0;
  const double numerator = large ? -1.0 : low_numerator, denominator = large ? x : low_denominator;
  const double t = numerator / denominator, z = t * t;
  const double p = ((8.05374449538e-2 * z - 1.38776856032e-1) * z + 1.99777106478e-1) * z - 3.33329491539e-1;
  const double low_base = middle ? 0.7853981633974483 : 0.0;
  return (large ? 1.5707963267948966 : low_base) + croq_mad(p * z, t, t);
}

// asin(x) for 0 <= x <= 1/2. Coefficients: Cephes (asinf.c).
CROQ_INLINE double croq_asin_series(double x) {
  const double z = x * x;
  const double p = croq_horner(z, 4.2163199048e-2, 2.4181311049e-2, 4.5470025998e-2, 7.4953002686e-2, 1.6666752422e-1);
  return croq_mad(p * z, x, x);
}
