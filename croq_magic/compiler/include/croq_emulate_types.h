// CUDA's vector types, and the functions that CUDA declares by itself. Included by croq_emulate.h alone.
#pragma once

// A vector of 4, 8 or 16 bytes is copied as one word, as a GPU loads it: member by member it would be four requests.
#define CROQ_WHOLE(name, word)                                      \
  name() = default;                                                 \
  name(const name& other) : croq_whole(other.croq_whole) {}         \
  name& operator=(const name& other) { croq_whole = other.croq_whole; return *this; }
typedef uint64_t croq_pair __attribute__((vector_size(16)));
template <int kBytes> struct croq_word;
template <> struct croq_word<2> { typedef uint16_t type; };
template <> struct croq_word<4> { typedef uint32_t type; };
template <> struct croq_word<8> { typedef uint64_t type; };
template <> struct croq_word<16> { typedef croq_pair type; };
#define CROQ_VECTOR_TYPES(T, base)                                                                            \
  struct base##1 { T x; };                                                                                    \
  union alignas(2 * sizeof(T)) base##2 {                                                                      \
    struct { T x, y; };                                                                                       \
    croq_word<2 * sizeof(T)>::type croq_whole;                                                                \
    CROQ_WHOLE(base##2, T)                                                                                    \
  };                                                                                                          \
  struct base##3 { T x, y, z; };                                                                              \
  static inline __attribute__((unused)) base##1 make_##base##1(T x) { return base##1{x}; }                    \
  static inline __attribute__((unused)) base##2 make_##base##2(T x, T y) {                                    \
    base##2 v; v.x = x; v.y = y; return v;                                                                    \
  }                                                                                                           \
  static inline __attribute__((unused)) base##3 make_##base##3(T x, T y, T z) { return base##3{x, y, z}; }
#define CROQ_VECTOR_WHOLE(T, base)                                                                            \
  union alignas(4 * sizeof(T)) base##4 {                                                                      \
    struct { T x, y, z, w; };                                                                                 \
    croq_word<4 * sizeof(T)>::type croq_whole;                                                                \
    CROQ_WHOLE(base##4, T)                                                                                    \
  };                                                                                                          \
  static inline __attribute__((unused)) base##4 make_##base##4(T x, T y, T z, T w) {                          \
    base##4 v; v.x = x; v.y = y; v.z = z; v.w = w; return v;                                                  \
  }
#define CROQ_VECTOR_LONG(T, base)                                                                             \
  struct alignas(16) base##4 { T x, y, z, w; };                                                               \
  static inline __attribute__((unused)) base##4 make_##base##4(T x, T y, T z, T w) { return base##4{x, y, z, w}; }
CROQ_VECTOR_TYPES(signed char, char) CROQ_VECTOR_WHOLE(signed char, char)
CROQ_VECTOR_TYPES(unsigned char, uchar) CROQ_VECTOR_WHOLE(unsigned char, uchar)
CROQ_VECTOR_TYPES(short, short) CROQ_VECTOR_WHOLE(short, short)
CROQ_VECTOR_TYPES(unsigned short, ushort) CROQ_VECTOR_WHOLE(unsigned short, ushort)
CROQ_VECTOR_TYPES(int, int) CROQ_VECTOR_WHOLE(int, int)
CROQ_VECTOR_TYPES(float, float) CROQ_VECTOR_WHOLE(float, float)
CROQ_VECTOR_TYPES(long, long) CROQ_VECTOR_LONG(long, long)
CROQ_VECTOR_TYPES(unsigned long, ulong) CROQ_VECTOR_LONG(unsigned long, ulong)
CROQ_VECTOR_TYPES(long long, longlong) CROQ_VECTOR_LONG(long long, longlong)
CROQ_VECTOR_TYPES(unsigned long long, ulonglong) CROQ_VECTOR_LONG(unsigned long long, ulonglong)
CROQ_VECTOR_TYPES(double, double) CROQ_VECTOR_LONG(double, double)
struct uint1 { unsigned x; };
union alignas(8) uint2 {
  struct { unsigned x, y; };
  uint64_t croq_whole;
  CROQ_WHOLE(uint2, unsigned)
};
struct uint3 { unsigned x, y, z; };
CROQ_VECTOR_WHOLE(unsigned, uint)
static inline __attribute__((unused)) uint1 make_uint1(unsigned x) { return uint1{x}; }
static inline __attribute__((unused)) uint2 make_uint2(unsigned x, unsigned y) { uint2 v; v.x = x; v.y = y; return v; }
static inline __attribute__((unused)) uint3 make_uint3(unsigned x, unsigned y, unsigned z) { return uint3{x, y, z}; }
struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
  constexpr dim3(uint3 v) : x(v.x), y(v.y), z(v.z) {}
  operator uint3() const { return uint3{x, y, z}; }
};
#undef CROQ_WHOLE
#undef CROQ_VECTOR_TYPES
#undef CROQ_VECTOR_WHOLE
#undef CROQ_VECTOR_LONG

// ------------------------------------------------------------------------------------------------------------ math
#if defined(__GLIBC__) || defined(__linux__)
#define CROQ_NOTHROW noexcept  // as glibc declares them, in case the cell includes <cmath> too
#else
#define CROQ_NOTHROW
#endif
extern "C" {
#define CROQ_MATH1(name) float name##f(float) CROQ_NOTHROW; double name(double) CROQ_NOTHROW;
#define CROQ_MATH2(name) float name##f(float, float) CROQ_NOTHROW; double name(double, double) CROQ_NOTHROW;
CROQ_MATH1(sin) CROQ_MATH1(cos) CROQ_MATH1(tan) CROQ_MATH1(asin) CROQ_MATH1(acos) CROQ_MATH1(atan)
CROQ_MATH1(sinh) CROQ_MATH1(cosh) CROQ_MATH1(tanh) CROQ_MATH1(asinh) CROQ_MATH1(acosh) CROQ_MATH1(atanh)
CROQ_MATH1(exp) CROQ_MATH1(exp2) CROQ_MATH1(expm1) CROQ_MATH1(log) CROQ_MATH1(log2) CROQ_MATH1(log10)
CROQ_MATH1(log1p) CROQ_MATH1(sqrt) CROQ_MATH1(cbrt) CROQ_MATH1(fabs) CROQ_MATH1(floor) CROQ_MATH1(ceil)
CROQ_MATH1(round) CROQ_MATH1(trunc) CROQ_MATH1(rint) CROQ_MATH1(nearbyint) CROQ_MATH1(erf) CROQ_MATH1(erfc)
CROQ_MATH1(tgamma) CROQ_MATH1(lgamma)
CROQ_MATH2(pow) CROQ_MATH2(atan2) CROQ_MATH2(fmax) CROQ_MATH2(fmin) CROQ_MATH2(fmod) CROQ_MATH2(hypot)
CROQ_MATH2(copysign) CROQ_MATH2(remainder) CROQ_MATH2(fdim) CROQ_MATH2(nextafter)
float fmaf(float, float, float) CROQ_NOTHROW;
double fma(double, double, double) CROQ_NOTHROW;
float ldexpf(float, int) CROQ_NOTHROW;
double ldexp(double, int) CROQ_NOTHROW;
float frexpf(float, int*) CROQ_NOTHROW;
double frexp(double, int*) CROQ_NOTHROW;
int abs(int) CROQ_NOTHROW;
long labs(long) CROQ_NOTHROW;
long long llabs(long long) CROQ_NOTHROW;
#undef CROQ_MATH1
#undef CROQ_MATH2
}
#define CROQ_FUNCTION static inline __attribute__((always_inline, unused))
#define CROQ_FAST(name) CROQ_FUNCTION float __##name##f(float x) { return __builtin_##name##f(x); }
CROQ_FAST(sin) CROQ_FAST(cos) CROQ_FAST(tan) CROQ_FAST(exp) CROQ_FAST(log) CROQ_FAST(log2) CROQ_FAST(log10)
#undef CROQ_FAST
CROQ_FUNCTION float __powf(float x, float y) { return __builtin_powf(x, y); }
CROQ_FUNCTION float __fdividef(float x, float y) { return x / y; }
CROQ_FUNCTION float rsqrtf(float x) { return 1.0f / __builtin_sqrtf(x); }
CROQ_FUNCTION double rsqrt(double x) { return 1.0 / __builtin_sqrt(x); }
CROQ_FUNCTION float __frsqrt_rn(float x) { return 1.0f / __builtin_sqrtf(x); }
CROQ_FUNCTION float __fsqrt_rn(float x) { return __builtin_sqrtf(x); }
CROQ_FUNCTION float __frcp_rn(float x) { return 1.0f / x; }
CROQ_FUNCTION float __fadd_rn(float x, float y) { return x + y; }
CROQ_FUNCTION float __fsub_rn(float x, float y) { return x - y; }
CROQ_FUNCTION float __fmul_rn(float x, float y) { return x * y; }
CROQ_FUNCTION float __fdiv_rn(float x, float y) { return x / y; }
CROQ_FUNCTION float __fmaf_rn(float x, float y, float z) { return __builtin_fmaf(x, y, z); }
CROQ_FUNCTION double __dadd_rn(double x, double y) { return x + y; }
CROQ_FUNCTION double __dmul_rn(double x, double y) { return x * y; }
CROQ_FUNCTION double __fma_rn(double x, double y, double z) { return __builtin_fma(x, y, z); }
CROQ_FUNCTION float __saturatef(float x) { return x > 0.0f ? x < 1.0f ? x : 1.0f : 0.0f; }
CROQ_FUNCTION void __sincosf(float x, float* s, float* c) { *s = __builtin_sinf(x); *c = __builtin_cosf(x); }
CROQ_FUNCTION void sincosf(float x, float* s, float* c) { *s = __builtin_sinf(x); *c = __builtin_cosf(x); }
CROQ_FUNCTION void sincos(double x, double* s, double* c) { *s = __builtin_sin(x); *c = __builtin_cos(x); }
CROQ_FUNCTION float exp10f(float x) { return __builtin_powf(10.0f, x); }
CROQ_FUNCTION double exp10(double x) { return __builtin_pow(10.0, x); }
CROQ_FUNCTION float normcdff(float x) { return 0.5f * __builtin_erfcf(-x * 0.70710678f); }

// Conversions. To integers they round as they say, saturate, and make 0 of a NaN.
template <typename To, typename From>
CROQ_FUNCTION To croq_saturate(From value) {
  constexpr bool is_signed = (To)-1 < (To)0;
  constexpr int bits = (int)sizeof(To) * 8;
  constexpr To low = is_signed ? (To)((To)1 << (bits - 1)) : (To)0;
  constexpr From limit = (From)((From)(1ull << (bits - 1)) * (is_signed ? (From)1 : (From)2));
  if (!(value == value)) return 0;
  if (value >= limit) return (To)~low;
  if (value <= (is_signed ? -limit : (From)0)) return low;
  return (To)value;
}
#define CROQ_CONVERT(from, short_from, to, short_to)                                                                 \
  CROQ_FUNCTION to __##short_from##2##short_to##_rn(from x) { return croq_saturate<to>(__builtin_rint(x)); }         \
  CROQ_FUNCTION to __##short_from##2##short_to##_rz(from x) { return croq_saturate<to>(x); }                         \
  CROQ_FUNCTION to __##short_from##2##short_to##_ru(from x) { return croq_saturate<to>(__builtin_ceil(x)); }         \
  CROQ_FUNCTION to __##short_from##2##short_to##_rd(from x) { return croq_saturate<to>(__builtin_floor(x)); }        \
  CROQ_FUNCTION from __##short_to##2##short_from##_rn(to x) { return (from)x; }
CROQ_CONVERT(float, float, int, int) CROQ_CONVERT(float, float, unsigned, uint)
CROQ_CONVERT(float, float, long long, ll) CROQ_CONVERT(float, float, unsigned long long, ull)
CROQ_CONVERT(double, double, int, int) CROQ_CONVERT(double, double, unsigned, uint)
CROQ_CONVERT(double, double, long long, ll) CROQ_CONVERT(double, double, unsigned long long, ull)
#undef CROQ_CONVERT
CROQ_FUNCTION float __double2float_rn(double x) { return (float)x; }
template <typename To, typename From>
CROQ_FUNCTION To croq_same_bits(From value) {
  To out;
  __builtin_memcpy(&out, &value, sizeof out);
  return out;
}
CROQ_FUNCTION float __int_as_float(int x) { return croq_same_bits<float>(x); }
CROQ_FUNCTION int __float_as_int(float x) { return croq_same_bits<int>(x); }
CROQ_FUNCTION float __uint_as_float(unsigned x) { return croq_same_bits<float>(x); }
CROQ_FUNCTION unsigned __float_as_uint(float x) { return croq_same_bits<unsigned>(x); }
CROQ_FUNCTION double __longlong_as_double(long long x) { return croq_same_bits<double>(x); }
CROQ_FUNCTION long long __double_as_longlong(double x) { return croq_same_bits<long long>(x); }

// Bits.
CROQ_FUNCTION int __popc(unsigned x) { return __builtin_popcount(x); }
CROQ_FUNCTION int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
CROQ_FUNCTION int __clz(int x) { return x ? __builtin_clz((unsigned)x) : 32; }
CROQ_FUNCTION int __clzll(long long x) { return x ? __builtin_clzll((unsigned long long)x) : 64; }
CROQ_FUNCTION int __ffs(int x) { return __builtin_ffs(x); }
CROQ_FUNCTION int __ffsll(long long x) { return __builtin_ffsll(x); }
CROQ_FUNCTION unsigned __brev(unsigned x) {
  unsigned y = 0;
  for (int i = 0; i < 32; ++i) y |= (x >> i & 1u) << (31 - i);
  return y;
}
CROQ_FUNCTION unsigned __byte_perm(unsigned a, unsigned b, unsigned s) {
  const uint64_t all = (uint64_t)b << 32 | a;
  unsigned y = 0;
  for (int i = 0; i < 4; ++i) {
    const unsigned byte = (unsigned)(all >> 8 * (s >> 4 * i & 7)) & 255u;
    y |= (s >> (4 * i + 3) & 1 ? (byte >> 7) * 255u : byte) << 8 * i;
  }
  return y;
}
CROQ_FUNCTION unsigned __funnelshift_l(unsigned low, unsigned high, unsigned n) {
  return (unsigned)(((uint64_t)high << 32 | low) << (n & 31) >> 32);
}
CROQ_FUNCTION unsigned __funnelshift_r(unsigned low, unsigned high, unsigned n) {
  return (unsigned)(((uint64_t)high << 32 | low) >> (n & 31));
}
CROQ_FUNCTION int __mulhi(int a, int b) { return (int)((long long)a * b >> 32); }
CROQ_FUNCTION unsigned __umulhi(unsigned a, unsigned b) { return (unsigned)((uint64_t)a * b >> 32); }
CROQ_FUNCTION unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
  return (unsigned long long)((unsigned __int128)a * b >> 64);
}
CROQ_FUNCTION int __mul24(int a, int b) { return (a << 8 >> 8) * (b << 8 >> 8); }
CROQ_FUNCTION int __dp4a(int a, int b, int c) {
  for (int i = 0; i < 4; ++i) c += (int)(signed char)(a >> 8 * i) * (int)(signed char)(b >> 8 * i);
  return c;
}

// CUDA declares these for C++ without a header.
#define CROQ_PAIR(T)                                                 \
  CROQ_FUNCTION T min(T a, T b) { return b < a ? b : a; }            \
  CROQ_FUNCTION T max(T a, T b) { return a < b ? b : a; }
CROQ_PAIR(int) CROQ_PAIR(unsigned) CROQ_PAIR(long) CROQ_PAIR(unsigned long) CROQ_PAIR(long long)
CROQ_PAIR(unsigned long long)
#undef CROQ_PAIR
CROQ_FUNCTION float min(float a, float b) { return __builtin_fminf(a, b); }
CROQ_FUNCTION float max(float a, float b) { return __builtin_fmaxf(a, b); }
CROQ_FUNCTION double min(double a, double b) { return __builtin_fmin(a, b); }
CROQ_FUNCTION double max(double a, double b) { return __builtin_fmax(a, b); }
