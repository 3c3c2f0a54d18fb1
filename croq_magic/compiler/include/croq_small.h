// Element types below 16 bits, each in a byte of its own, and conversions to narrow floats that round once. Included by
// croq_cpu.h. Formats: OCP 8-bit floating point and OCP microscaling formats. Conversions have no branches.
#pragma once
#ifndef CROQ_MEMBER  // what member functions are besides inline: `__device__` on a GPU
#define CROQ_MEMBER
#endif

namespace choreo {
// Integers: the low bits of a byte. Storing wraps; the unused high bits are stored as zeros and ignored when read.
template <int kBits, bool kSigned>
struct small_integer {
  uint8_t bits;
  small_integer() = default;
  template <typename T>
  CROQ_MEMBER small_integer(T value) : bits((uint8_t)((uint32_t)value & ((1u << kBits) - 1))) {}
  CROQ_MEMBER operator int32_t() const {
    constexpr int unused = 32 - kBits;
    const uint32_t top = (uint32_t)bits << unused;
    return kSigned ? (int32_t)top >> unused : (int32_t)(top >> unused);
  }
};
typedef small_integer<2, true> s2;
typedef small_integer<4, true> s4;
typedef small_integer<1, false> u1;
typedef small_integer<2, false> u2;
typedef small_integer<4, false> u4;
typedef small_integer<6, false> u6;
typedef u1 bin1;
// NumPy has no 6-bit integers: arrays of s6 are int8, so all bits of the byte carry the sign.
struct s6 {
  uint8_t bits;
  s6() = default;
  template <typename T>
  CROQ_MEMBER s6(T value) : bits((uint8_t)(int32_t)small_integer<6, true>(value)) {}
  CROQ_MEMBER operator int32_t() const { return (int32_t)((uint32_t)bits << 26) >> 26; }
};

// Floats of 1 sign bit, kExponent and kMantissa bits. `kLargest` is the code of the largest number, to which larger ones
// and infinity saturate, or of infinity where the format has it; `kNan` is what a NaN becomes.
template <int kExponent, int kMantissa, int kLargest, int kNan>
struct small_float {
  // Not static members: NVRTC would put those into every module as variables.
  enum : int { bias = (1 << (kExponent - 1)) - 1, sign_bit = kExponent + kMantissa };
  enum : uint32_t { magnitude_bits = (1u << sign_bit) - 1 };
  enum : bool { has_infinity = kExponent == 5, has_nan = (kNan > kLargest) };
  uint8_t bits;
  small_float() = default;
  // To nearest, ties to even.
  CROQ_MEMBER static inline __attribute__((always_inline)) uint8_t round(float value) {
    const uint32_t raw = croq_bits<uint32_t>(value), size = raw & 0x7fffffffu, sign = raw >> 31 << sign_bit;
    // Below the smallest normal number: the sum with 2^23 quanta has the quanta in its low bits, rounded.
    constexpr uint32_t shift = (uint32_t)(127 + 24 - bias - kMantissa) << 23;
    const uint32_t denormal = croq_bits<uint32_t>(croq_bits<float>(size) + croq_bits<float>(shift)) - shift;
    constexpr uint32_t rebias = (uint32_t)(127 - bias) << 23, half = (1u << (22 - kMantissa)) - 1;
    const uint32_t odd = (size >> (23 - kMantissa)) & 1u;
    const uint32_t normal = (size - rebias + half + odd) >> (23 - kMantissa);
    const uint32_t finite = size < rebias + (1u << 23) ? denormal : normal;
    const uint32_t code = finite > (uint32_t)kLargest ? (uint32_t)kLargest : finite;
    return (uint8_t)(size > 0x7f800000u ? (has_nan ? sign | kNan : (uint32_t)kNan) : sign | code);
  }
  CROQ_MEMBER small_float(float value) : bits(round(value)) {}
  CROQ_MEMBER operator float() const {
    const uint32_t size = bits & magnitude_bits, sign = (uint32_t)(bits >> sign_bit & 1) << 31;
    const float scaled = croq_bits<float>(size << (23 - kMantissa)) * croq_bits<float>((uint32_t)(254 - bias) << 23);
    const uint32_t finite = croq_bits<uint32_t>(scaled);
    const uint32_t special = 0x7f800000u | (has_infinity ? size << (23 - kMantissa) & 0x7fffffu : 0x400000u);
    const bool beyond = has_infinity ? size >= (uint32_t)kLargest : has_nan && size > (uint32_t)kLargest;
    return croq_bits<float>(sign | (beyond ? special : finite));
  }
};
typedef small_float<4, 3, 0x7e, 0x7f> f8_e4m3;
typedef small_float<5, 2, 0x7c, 0x7e> f8_e5m2;
typedef small_float<3, 2, 0x1f, 0x1f> f6_e3m2;  // no NaN: the largest number, as the instructions of GPUs give it
typedef small_float<2, 3, 0x1f, 0x1f> f6_e2m3;
typedef small_float<2, 1, 0x07, 0x07> f4_e2m1;
typedef f8_e4m3 f8;

// Scale formats without a sign. e4m3: what is below zero becomes zero, and the top bit of a byte is ignored.
struct f8_ue4m3 {
  uint8_t bits;
  f8_ue4m3() = default;
  CROQ_MEMBER f8_ue4m3(float value) : bits(value < 0.0f ? 0 : f8_e4m3::round(value) & 0x7f) {}
  CROQ_MEMBER operator float() const {
    f8_e4m3 same;
    same.bits = bits & 0x7f;
    return same;
  }
};
// The powers of two from 2^-127 (code 0) to 2^127; no zero. Code 255 is NaN, which negative values become too.
struct f8_ue8m0 {
  uint8_t bits;
  f8_ue8m0() = default;
  CROQ_MEMBER f8_ue8m0(float value) {
    const uint32_t raw = croq_bits<uint32_t>(value) & 0x7fffffffu, exponent = raw >> 23, fraction = raw & 0x7fffffu;
    const uint32_t up = fraction >= 0x400000u;  // every significand is 1, so none is even: ties go up, as in ml_dtypes
    const uint32_t tiny = raw >= 0x600000u ? 1u : 0u;  // between 2^-127 and 2^-126 the fraction itself decides
    const uint32_t code = exponent == 0 ? tiny : exponent + up;
    const uint32_t finite = code > 254u ? 254u : code;
    bits = (uint8_t)(value >= 0.0f ? finite : 255u);
  }
  CROQ_MEMBER operator float() const {
    const uint32_t normal = (uint32_t)bits << 23, raw = bits == 0 ? 0x400000u : normal;
    return croq_bits<float>(bits == 255 ? 0x7fc00000u : raw);
  }
};
}  // namespace choreo

// A float that rounds to a narrower one as `value` itself does, so that the value is rounded once. Rounding to odd keeps
// what was cut off visible in the last bit.
CROQ_INLINE float croq_narrow(float value) { return value; }
CROQ_INLINE float croq_narrow(double value) {
  const float near = (float)value;
  const uint32_t raw = choreo::croq_bits<uint32_t>(near);
  const bool exact = (double)near == value, beyond = value < 0 ? (double)near < value : (double)near > value;
  const uint32_t odd = beyond ? raw - 1 : raw + 1;
  return choreo::croq_bits<float>(exact || (raw & 1) || value != value ? raw : odd);
}
CROQ_INLINE float croq_narrow(uint64_t value) {
  const uint64_t kept = value >> 11 | ((value & 2047u) != 0);  // doubles hold 53 bits
  return croq_narrow(value >> 53 ? (double)kept * 2048.0 : (double)value);
}
CROQ_INLINE float croq_narrow(int64_t value) {
  const float size = croq_narrow(value < 0 ? 0 - (uint64_t)value : (uint64_t)value);
  return value < 0 ? -size : size;
}
CROQ_INLINE float croq_narrow(int32_t value) { return croq_narrow((double)value); }
CROQ_INLINE float croq_narrow(uint32_t value) { return croq_narrow((double)value); }
