// 16-bit floats of CUDA's headers. Included by cuda_fp16.h and cuda_bf16.h alone.
#pragma once

// 1 sign bit, 15 - kMantissa bits of exponent. Conversion rounds to nearest, ties to even.
template <int kMantissa>
struct croq_half_base {
  static constexpr int kBias = kMantissa == 10 ? 15 : 127;
  unsigned short bits;
  croq_half_base() = default;
  CROQ_RAW static unsigned short round(float value) {
    const uint32_t raw = croq_same_bits<uint32_t>(value), size = raw & 0x7fffffffu;
    const uint32_t sign = (raw >> 16) & 0x8000u, infinity = 0x7fffu >> kMantissa << kMantissa;
    if (size > 0x7f800000u) return (unsigned short)(sign | infinity | 1u << (kMantissa - 1));
    const uint32_t rebias = (uint32_t)(127 - kBias) << 23, half = (1u << (22 - kMantissa)) - 1;
    uint32_t code;
    if (kBias != 127 && size < rebias + (1u << 23)) {  // the sum has the quanta of subnormals in its low bits, rounded
      const uint32_t shift = (uint32_t)(127 + 24 - kBias - kMantissa) << 23;
      code = croq_same_bits<uint32_t>(croq_same_bits<float>(size) + croq_same_bits<float>(shift)) - shift;
    } else {
      code = (size - rebias + half + ((size >> (23 - kMantissa)) & 1u)) >> (23 - kMantissa);
    }
    return (unsigned short)(sign | (code > infinity ? infinity : code));
  }
  croq_half_base(float value) : bits(round(value)) {}
  croq_half_base(double value) : bits(round((float)value)) {}
  croq_half_base(int value) : bits(round((float)value)) {}
  croq_half_base(unsigned value) : bits(round((float)value)) {}
  operator float() const {
    const uint32_t sign = (uint32_t)(bits & 0x8000u) << 16, rest = bits & 0x7fffu;
    if (kBias == 127) return croq_same_bits<float>((uint32_t)bits << 16);
    if (rest >= 0x7c00u) return croq_same_bits<float>(sign | 0x7f800000u | (rest & 0x3ffu) << 13);
    const float size = croq_same_bits<float>(rest << 13) * croq_same_bits<float>((uint32_t)(254 - kBias) << 23);
    return croq_same_bits<float>(sign | croq_same_bits<uint32_t>(size));
  }
};
#define CROQ_HALF_FUNCTIONS(word, type)                                                              \
  CROQ_FUNCTION type operator+(type a, type b) { return type((float)a + (float)b); }                 \
  CROQ_FUNCTION type operator-(type a, type b) { return type((float)a - (float)b); }                 \
  CROQ_FUNCTION type operator*(type a, type b) { return type((float)a * (float)b); }                 \
  CROQ_FUNCTION type operator/(type a, type b) { return type((float)a / (float)b); }                 \
  CROQ_FUNCTION type operator-(type a) { type b; b.bits = a.bits ^ 0x8000u; return b; }              \
  CROQ_FUNCTION type& operator+=(type& a, type b) { return a = a + b; }                              \
  CROQ_FUNCTION type& operator-=(type& a, type b) { return a = a - b; }                              \
  CROQ_FUNCTION type& operator*=(type& a, type b) { return a = a * b; }                              \
  CROQ_FUNCTION type& operator/=(type& a, type b) { return a = a / b; }                              \
  CROQ_FUNCTION bool operator==(type a, type b) { return (float)a == (float)b; }                     \
  CROQ_FUNCTION bool operator!=(type a, type b) { return (float)a != (float)b; }                     \
  CROQ_FUNCTION bool operator<(type a, type b) { return (float)a < (float)b; }                       \
  CROQ_FUNCTION bool operator>(type a, type b) { return (float)a > (float)b; }                       \
  CROQ_FUNCTION bool operator<=(type a, type b) { return (float)a <= (float)b; }                     \
  CROQ_FUNCTION bool operator>=(type a, type b) { return (float)a >= (float)b; }                     \
  CROQ_FUNCTION type __hadd(type a, type b) { return a + b; }                                        \
  CROQ_FUNCTION type __hsub(type a, type b) { return a - b; }                                        \
  CROQ_FUNCTION type __hmul(type a, type b) { return a * b; }                                        \
  CROQ_FUNCTION type __hdiv(type a, type b) { return a / b; }                                        \
  CROQ_FUNCTION type __hneg(type a) { return -a; }                                                   \
  CROQ_FUNCTION type __habs(type a) { type b; b.bits = a.bits & 0x7fffu; return b; }                 \
  CROQ_FUNCTION type __hfma(type a, type b, type c) {                                                \
    return type(__builtin_fmaf((float)a, (float)b, (float)c));                                       \
  }                                                                                                  \
  CROQ_FUNCTION type __hmax(type a, type b) { return type(__builtin_fmaxf((float)a, (float)b)); }    \
  CROQ_FUNCTION type __hmin(type a, type b) { return type(__builtin_fminf((float)a, (float)b)); }    \
  CROQ_FUNCTION bool __hlt(type a, type b) { return (float)a < (float)b; }                           \
  CROQ_FUNCTION bool __hgt(type a, type b) { return (float)a > (float)b; }                           \
  CROQ_FUNCTION bool __heq(type a, type b) { return (float)a == (float)b; }                          \
  CROQ_FUNCTION bool __hisnan(type a) { return (float)a != (float)a; }                               \
  CROQ_FUNCTION type hexp(type a) { return type(__builtin_expf((float)a)); }                         \
  CROQ_FUNCTION type hlog(type a) { return type(__builtin_logf((float)a)); }                         \
  CROQ_FUNCTION type hsqrt(type a) { return type(__builtin_sqrtf((float)a)); }                       \
  CROQ_FUNCTION type hrcp(type a) { return type(1.0f / (float)a); }
#define CROQ_HALF_PAIRS(word, type, pair)                                                            \
  struct alignas(4) pair {                                                                           \
    type x, y;                                                                                       \
    pair() = default;                                                                                \
    pair(type x, type y) : x(x), y(y) {}                                                             \
    pair(const pair& other) { __builtin_memcpy(this, &other, 4); }                                   \
    pair& operator=(const pair& other) { __builtin_memcpy(this, &other, 4); return *this; }          \
  };                                                                                                 \
  CROQ_FUNCTION pair make_##word##2(type x, type y) { return pair(x, y); }                           \
  CROQ_FUNCTION pair operator+(pair a, pair b) { return pair(a.x + b.x, a.y + b.y); }                \
  CROQ_FUNCTION pair operator-(pair a, pair b) { return pair(a.x - b.x, a.y - b.y); }                \
  CROQ_FUNCTION pair operator*(pair a, pair b) { return pair(a.x * b.x, a.y * b.y); }                \
  CROQ_FUNCTION pair __hadd2(pair a, pair b) { return a + b; }                                       \
  CROQ_FUNCTION pair __hmul2(pair a, pair b) { return a * b; }                                       \
  CROQ_FUNCTION pair __hfma2(pair a, pair b, pair c) {                                               \
    return pair(__hfma(a.x, b.x, c.x), __hfma(a.y, b.y, c.y));                                       \
  }
