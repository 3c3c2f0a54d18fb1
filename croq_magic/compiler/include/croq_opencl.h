// What generated OpenCL C needs: element types, conversions, integer and math helpers, atomics, the failure report.
// OpenCL C 1.2; extensions are used where the device has them. All names start with croq_, types aside.
#pragma OPENCL FP_CONTRACT OFF
#ifdef cl_khr_fp64
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#endif
#ifdef cl_khr_fp16
#pragma OPENCL EXTENSION cl_khr_fp16 : enable
#endif
#ifdef cl_khr_int64_base_atomics
#pragma OPENCL EXTENSION cl_khr_int64_base_atomics : enable
#pragma OPENCL EXTENSION cl_khr_int64_extended_atomics : enable
#endif
#ifdef cl_khr_byte_addressable_store
#pragma OPENCL EXTENSION cl_khr_byte_addressable_store : enable
#endif

#define CROQ_INLINE static inline __attribute__((always_inline, unused))

// -------------------------------------------------------------------------------------------------- element types
typedef char s8;
typedef short s16;
typedef int s32;
typedef long s64;
typedef uchar u8;
typedef ushort u16;
typedef uint u32;
typedef ulong u64;
typedef float f32;
typedef float tf32;
#ifdef cl_khr_fp64
typedef double f64;
#endif
typedef uchar croq_bool;
typedef char int8_t;
typedef short int16_t;
typedef int int32_t;
typedef long int64_t;
typedef uchar uint8_t;
typedef ushort uint16_t;
typedef uint uint32_t;
typedef ulong uint64_t;

typedef struct { ushort bits; } bf16;
CROQ_INLINE bf16 croq_bf16_of(float value) {
  const uint raw = as_uint(value), rounded = (raw + 0x7fffu + ((raw >> 16) & 1u)) >> 16;
  bf16 out;
  out.bits = (ushort)((raw & 0x7fffffffu) > 0x7f800000u ? ((raw >> 16) | 0x40u) : rounded);
  return out;
}
CROQ_INLINE float croq_bf16_get(bf16 value) { return as_float((uint)value.bits << 16); }

#ifdef cl_khr_fp16
typedef half f16;
#else
typedef struct { ushort bits; } f16;
CROQ_INLINE f16 croq_f16_of(float value) {
  ushort bits;
  vstore_half_rte(value, 0, (half*)&bits);
  f16 out;
  out.bits = bits;
  return out;
}
CROQ_INLINE float croq_f16_get(f16 value) {
  ushort bits = value.bits;
  return vload_half(0, (const half*)&bits);
}
#endif

// Integers below 8 bits: the low bits of a byte; unused bits are stored as zeros and ignored when read.
#define CROQ_SMALL_INTEGER(name, width, type)                                              \
  typedef struct { uchar bits; } name;                                                     \
  CROQ_INLINE name croq_##name##_of(int value) {                                           \
    name out;                                                                              \
    out.bits = (uchar)((uint)value & ((1u << width) - 1u));                                \
    return out;                                                                            \
  }                                                                                        \
  CROQ_INLINE int croq_##name##_get(name value) {                                          \
    return (int)((type)((uint)value.bits << (32 - width)) >> (32 - width));                \
  }
CROQ_SMALL_INTEGER(s2, 2, int)
CROQ_SMALL_INTEGER(s4, 4, int)
CROQ_SMALL_INTEGER(u1, 1, uint)
CROQ_SMALL_INTEGER(u2, 2, uint)
CROQ_SMALL_INTEGER(u4, 4, uint)
CROQ_SMALL_INTEGER(u6, 6, uint)
CROQ_SMALL_INTEGER(bin1, 1, uint)
typedef struct { uchar bits; } s6;  // arrays are int8: all bits of the byte carry the sign
CROQ_INLINE s6 croq_s6_of(int value) {
  s6 out;
  out.bits = (uchar)((int)((uint)value << 26) >> 26);
  return out;
}
CROQ_INLINE int croq_s6_get(s6 value) { return (int)((uint)value.bits << 26) >> 26; }

// Floats of 1 sign bit, `e` and `m` bits (croq_small.h has the same for C++, with the reasons).
#define CROQ_SMALL_FLOAT(name, e, m, largest, nan, infinity)                                                  \
  typedef struct { uchar bits; } name;                                                                        \
  CROQ_INLINE uchar croq_##name##_round(float value) {                                                        \
    const int bias = (1 << (e - 1)) - 1;                                                                      \
    const uint raw = as_uint(value), size = raw & 0x7fffffffu, sign = raw >> 31 << (e + m);                   \
    const uint shift = (uint)(127 + 24 - bias - m) << 23;                                                     \
    const uint denormal = as_uint(as_float(size) + as_float(shift)) - shift;                                  \
    const uint rebias = (uint)(127 - bias) << 23, below = (1u << (22 - m)) - 1u;                              \
    const uint normal = (size - rebias + below + ((size >> (23 - m)) & 1u)) >> (23 - m);                      \
    const uint finite = size < rebias + (1u << 23) ? denormal : normal;                                       \
    const uint code = finite > largest ? largest : finite;                                                    \
    return (uchar)(size > 0x7f800000u ? (nan > largest ? sign | nan : nan) : sign | code);                    \
  }                                                                                                           \
  CROQ_INLINE name croq_##name##_of(float value) {                                                            \
    name out;                                                                                                 \
    out.bits = croq_##name##_round(value);                                                                    \
    return out;                                                                                               \
  }                                                                                                           \
  CROQ_INLINE float croq_##name##_get(name value) {                                                           \
    const int bias = (1 << (e - 1)) - 1;                                                                      \
    const uint size = value.bits & ((1u << (e + m)) - 1u), sign = ((uint)value.bits >> (e + m) & 1u) << 31;   \
    const float scaled = as_float(size << (23 - m)) * as_float((uint)(254 - bias) << 23);                     \
    const uint special = 0x7f800000u | (infinity ? size << (23 - m) & 0x7fffffu : 0x400000u);                 \
    const bool beyond = infinity ? size >= largest : nan > largest && size > largest;                         \
    return as_float(sign | (beyond ? special : as_uint(scaled)));                                             \
  }
CROQ_SMALL_FLOAT(f8_e4m3, 4, 3, 0x7eu, 0x7fu, 0)
CROQ_SMALL_FLOAT(f8_e5m2, 5, 2, 0x7cu, 0x7eu, 1)
CROQ_SMALL_FLOAT(f6_e3m2, 3, 2, 0x1fu, 0x1fu, 0)
CROQ_SMALL_FLOAT(f6_e2m3, 2, 3, 0x1fu, 0x1fu, 0)
CROQ_SMALL_FLOAT(f4_e2m1, 2, 1, 0x07u, 0x07u, 0)
typedef f8_e4m3 f8;
typedef struct { uchar bits; } f8_ue4m3;
CROQ_INLINE f8_ue4m3 croq_f8_ue4m3_of(float value) {
  f8_ue4m3 out;
  out.bits = value < 0.0f ? 0 : croq_f8_e4m3_round(value) & 0x7f;
  return out;
}
CROQ_INLINE float croq_f8_ue4m3_get(f8_ue4m3 value) {
  f8_e4m3 same;
  same.bits = value.bits & 0x7f;
  return croq_f8_e4m3_get(same);
}
typedef struct { uchar bits; } f8_ue8m0;
CROQ_INLINE f8_ue8m0 croq_f8_ue8m0_of(float value) {
  const uint raw = as_uint(value) & 0x7fffffffu, exponent = raw >> 23, up = (raw & 0x7fffffu) >= 0x400000u;
  const uint code = exponent == 0 ? (raw >= 0x600000u ? 1u : 0u) : exponent + up;
  f8_ue8m0 out;
  out.bits = (uchar)(value >= 0.0f ? (code > 254u ? 254u : code) : 255u);
  return out;
}
CROQ_INLINE float croq_f8_ue8m0_get(f8_ue8m0 value) {
  const uint raw = value.bits == 0 ? 0x400000u : (uint)value.bits << 23;
  return as_float(value.bits == 255 ? 0x7fc00000u : raw);
}

// ---------------------------------------------------------------------------------------------------- conversions
// Floats that round to narrower ones as the value itself does: what is cut off stays visible in the last bit.
CROQ_INLINE float croq_odd_u64(ulong value) {
  const int shift = 40 - (int)clz(value | 1ul);  // above the 24 bits that a float holds
  if (shift <= 0) return (float)value;
  const ulong kept = value >> shift | ((value & ((1ul << shift) - 1ul)) != 0);
  return (float)kept * as_float((uint)(shift + 127) << 23);
}
CROQ_INLINE float croq_odd_s64(long value) {
  const float size = croq_odd_u64(value < 0 ? 0ul - (ulong)value : (ulong)value);
  return value < 0 ? -size : size;
}
#ifdef cl_khr_fp64
CROQ_INLINE float croq_odd_f64(double value) {
  const float near = (float)value;
  const uint raw = as_uint(near);
  const bool exact = (double)near == value, beyond = fabs((double)near) > fabs(value);
  const uint odd = beyond ? raw - 1 : raw + 1;
  return as_float(exact || (raw & 1) || value != value ? raw : odd);
}
#endif
// Floats to integers truncate and saturate; NaN becomes 0.
#define CROQ_TO_INTEGER(name, type, from, kind) \
  CROQ_INLINE name croq_##name##_of_##from(kind value) { return value == value ? convert_##type##_sat_rtz(value) : 0; }
#ifdef cl_khr_fp64
#define CROQ_TO_INTEGERS(name, type) CROQ_TO_INTEGER(name, type, f32, float) CROQ_TO_INTEGER(name, type, f64, double)
#else
#define CROQ_TO_INTEGERS(name, type) CROQ_TO_INTEGER(name, type, f32, float)
#endif
CROQ_TO_INTEGERS(s8, char)
CROQ_TO_INTEGERS(s16, short)
CROQ_TO_INTEGERS(s32, int)
CROQ_TO_INTEGERS(s64, long)
CROQ_TO_INTEGERS(u8, uchar)
CROQ_TO_INTEGERS(u16, ushort)
CROQ_TO_INTEGERS(u32, uint)
CROQ_TO_INTEGERS(u64, ulong)

// ------------------------------------------------------------------------------------------------ integer helpers
#define CROQ_SIGNED_DIVISION(type)                                       \
  CROQ_INLINE type croq_div_##type(type a, type b) {                     \
    return b == 0 ? (type)0 : b == (type)-1 ? (type)(0 - (u64)a) : (type)(a / b); \
  }                                                                      \
  CROQ_INLINE type croq_mod_##type(type a, type b) {                     \
    return b == 0 || b == (type)-1 ? (type)0 : (type)(a % b);            \
  }
#define CROQ_UNSIGNED_DIVISION(type)                                                                \
  CROQ_INLINE type croq_div_##type(type a, type b) { return b == 0 ? (type)0 : (type)(a / b); }     \
  CROQ_INLINE type croq_mod_##type(type a, type b) { return b == 0 ? (type)0 : (type)(a % b); }
#define CROQ_INTEGER(type)                                                                          \
  CROQ_INLINE type croq_max_##type(type a, type b) { return a < b ? b : a; }                        \
  CROQ_INLINE type croq_min_##type(type a, type b) { return b < a ? b : a; }                        \
  CROQ_INLINE type croq_ceildiv_##type(type a, type b) { return croq_div_##type((type)(a + b - 1), b); } \
  CROQ_INLINE type croq_alignup_##type(type v, type a) { return (type)(croq_div_##type((type)(v + a - 1), a) * a); } \
  CROQ_INLINE type croq_aligndown_##type(type v, type a) { return (type)(croq_div_##type(v, a) * a); } \
  CROQ_INLINE type croq_shl_##type(type a, long n) {                                                \
    return n < 0 || n >= (long)sizeof(type) * 8 ? (type)0 : (type)(a << n);                         \
  }                                                                                                 \
  CROQ_INLINE type croq_shr_##type(type a, long n) {                                                \
    return n < 0 || n >= (long)sizeof(type) * 8 ? (a < (type)0 ? (type)-1 : (type)0) : (type)(a >> n); \
  }
CROQ_SIGNED_DIVISION(s8) CROQ_SIGNED_DIVISION(s16) CROQ_SIGNED_DIVISION(s32) CROQ_SIGNED_DIVISION(s64)
CROQ_UNSIGNED_DIVISION(u8) CROQ_UNSIGNED_DIVISION(u16) CROQ_UNSIGNED_DIVISION(u32) CROQ_UNSIGNED_DIVISION(u64)
CROQ_INTEGER(s8) CROQ_INTEGER(s16) CROQ_INTEGER(s32) CROQ_INTEGER(s64)
CROQ_INTEGER(u8) CROQ_INTEGER(u16) CROQ_INTEGER(u32) CROQ_INTEGER(u64)

CROQ_INLINE int croq_swizzle(int offset, int mask) { return offset ^ ((offset >> 3) & mask); }

// -------------------------------------------------------------------------------------------------- math builtins
#define CROQ_MATH1(kind, type, name) \
  CROQ_INLINE type croq_##name##_##kind(type x) { return name(x); }
#define CROQ_MATH(kind, type)                                                                            \
  CROQ_MATH1(kind, type, sin) CROQ_MATH1(kind, type, cos) CROQ_MATH1(kind, type, tan)                    \
  CROQ_MATH1(kind, type, asin) CROQ_MATH1(kind, type, acos) CROQ_MATH1(kind, type, atan)                 \
  CROQ_MATH1(kind, type, sinh) CROQ_MATH1(kind, type, cosh) CROQ_MATH1(kind, type, tanh)                 \
  CROQ_MATH1(kind, type, exp) CROQ_MATH1(kind, type, exp2) CROQ_MATH1(kind, type, expm1)                 \
  CROQ_MATH1(kind, type, log) CROQ_MATH1(kind, type, log1p) CROQ_MATH1(kind, type, sqrt)                 \
  CROQ_MATH1(kind, type, fabs) CROQ_MATH1(kind, type, ceil) CROQ_MATH1(kind, type, floor)                \
  CROQ_MATH1(kind, type, round)                                                                          \
  CROQ_INLINE type croq_atan2_##kind(type y, type x) { return atan2(y, x); }                             \
  CROQ_INLINE type croq_pow_##kind(type x, type y) { return pow(x, y); }                                 \
  CROQ_INLINE type croq_fma_##kind(type a, type b, type c) { return fma(a, b, c); }                      \
  CROQ_INLINE type croq_rsqrt_##kind(type x) { return (type)1 / sqrt(x); }                               \
  CROQ_INLINE type croq_frcp_##kind(type x) { return (type)1 / x; }                                      \
  CROQ_INLINE type croq_sign_##kind(type x) { return (type)((x > (type)0) - (x < (type)0)); }            \
  CROQ_INLINE type croq_isfinite_##kind(type x) { return (type)(isfinite(x) ? 1 : 0); }                  \
  CROQ_INLINE type croq_fmax_##kind(type a, type b) {                                                    \
    const type chosen = a < b ? b : a;                                                                   \
    return a != a ? b : chosen;                                                                          \
  }                                                                                                      \
  CROQ_INLINE type croq_fmin_##kind(type a, type b) {                                                    \
    const type chosen = b < a ? b : a;                                                                   \
    return a != a ? b : chosen;                                                                          \
  }                                                                                                      \
  CROQ_INLINE type croq_sigmoid_##kind(type x) {                                                         \
    const type e = exp(-fabs(x));                                                                        \
    return (x < (type)0 ? e : (type)1) / ((type)1 + e);                                                  \
  }                                                                                                      \
  CROQ_INLINE type croq_softplus_##kind(type x) { return (x > (type)0 ? x : (type)0) + log1p(exp(-fabs(x))); } \
  CROQ_INLINE type croq_gelu_##kind(type x) {                                                            \
    const type u = (type)0.79788456 * (x + (type)0.044715 * (x * x * x)), e = exp((type)-2 * fabs(u));   \
    return (x < (type)0 ? x * e : x) / ((type)1 + e);                                                    \
  }
#ifdef cl_khr_fp64
CROQ_MATH(f64, double)
#else
#define CROQ_SINGLE_LITERALS
#endif
CROQ_MATH(f32, float)

#ifdef cl_khr_subgroup_shuffle
// The sum or maximum over threads of a subgroup: those of a group of `lanes` whose numbers differ in multiples of
// `stride`. All threads of the subgroup take part, all get the result.
#define CROQ_LANES(name, type, larger)                                                                         \
  CROQ_INLINE type croq_lanes_sum_##name(type value, int lanes, int stride) {                                  \
    for (int d = lanes / 2; d >= stride; d /= 2) value += sub_group_shuffle_xor(value, (uint)d);               \
    return value;                                                                                              \
  }                                                                                                            \
  CROQ_INLINE type croq_lanes_max_##name(type value, int lanes, int stride) {                                  \
    for (int d = lanes / 2; d >= stride; d /= 2) value = larger(value, sub_group_shuffle_xor(value, (uint)d)); \
    return value;                                                                                              \
  }
CROQ_LANES(f32, float, croq_fmax_f32)
#ifdef cl_khr_fp64
CROQ_LANES(f64, double, croq_fmax_f64)
#endif
CROQ_LANES(s32, int, croq_max_s32) CROQ_LANES(u32, uint, croq_max_u32)
CROQ_LANES(s64, long, croq_max_s64) CROQ_LANES(u64, ulong, croq_max_u64)
#endif

// -------------------------------------------------------------------------------------------------------- atomics
// Relaxed; each gives the old value. What OpenCL has no function for is a loop around a comparison and exchange.
#define CROQ_ATOMIC_INTEGER(space, type, prefix)                                                                    \
  CROQ_INLINE type croq_##space##_add_##type(__##space type* p, type v) { return prefix##add((volatile __##space type*)p, v); } \
  CROQ_INLINE type croq_##space##_sub_##type(__##space type* p, type v) { return prefix##sub((volatile __##space type*)p, v); } \
  CROQ_INLINE type croq_##space##_exch_##type(__##space type* p, type v) { return prefix##xchg((volatile __##space type*)p, v); } \
  CROQ_INLINE type croq_##space##_min_##type(__##space type* p, type v) { return prefix##min((volatile __##space type*)p, v); } \
  CROQ_INLINE type croq_##space##_max_##type(__##space type* p, type v) { return prefix##max((volatile __##space type*)p, v); } \
  CROQ_INLINE type croq_##space##_and_##type(__##space type* p, type v) { return prefix##and((volatile __##space type*)p, v); } \
  CROQ_INLINE type croq_##space##_or_##type(__##space type* p, type v) { return prefix##or((volatile __##space type*)p, v); } \
  CROQ_INLINE type croq_##space##_xor_##type(__##space type* p, type v) { return prefix##xor((volatile __##space type*)p, v); } \
  CROQ_INLINE type croq_##space##_cas_##type(__##space type* p, type e, type v) {                                   \
    return prefix##cmpxchg((volatile __##space type*)p, e, v);                                                      \
  }
// A float of the width of `word`: `expression` is the new value from `old` and `value`.
#define CROQ_ATOMIC_FLOAT(space, name, type, op, word, as_type, as_word, exchange, expression)     \
  CROQ_INLINE type croq_##space##_##op##_##name(__##space type* p, type value) {                   \
    volatile __##space word* place = (volatile __##space word*)p;                                  \
    word seen = *place;                                                                            \
    for (;;) {                                                                                     \
      const type old = as_type(seen);                                                              \
      const word found = exchange(place, seen, as_word(expression));                               \
      if (found == seen) return old;                                                               \
      seen = found;                                                                                \
    }                                                                                              \
  }
// A value of 16 bits: the word of 32 bits that it lies in is exchanged.
#define CROQ_ATOMIC_HALF(space, name, type, op, get, put, expression)                              \
  CROQ_INLINE type croq_##space##_##op##_##name(__##space type* p, type value) {                   \
    const size_t address = (size_t)p;                                                              \
    const uint shift = (uint)(address & 2) * 8;                                                    \
    volatile __##space uint* place = (volatile __##space uint*)(address & ~(size_t)3);             \
    uint seen = *place;                                                                            \
    for (;;) {                                                                                     \
      const ushort bits = (ushort)(seen >> shift);                                                 \
      const float old = get(bits), more = CROQ_FLOAT_OF_##name(value);                             \
      const uint next = (seen & ~(0xffffu << shift)) | (uint)put(expression) << shift;             \
      const uint found = atomic_cmpxchg(place, seen, next);                                        \
      if (found == seen) return CROQ_VALUE_OF_##name(bits);                                        \
      seen = found;                                                                                \
    }                                                                                              \
  }
#ifdef cl_khr_fp16
CROQ_INLINE float croq_half_get(ushort bits) { return (float)as_half(bits); }
CROQ_INLINE ushort croq_half_put(float value) { return as_ushort((half)value); }
#define CROQ_FLOAT_OF_f16(value) (float)(value)
#define CROQ_VALUE_OF_f16(bits) as_half(bits)
#else
CROQ_INLINE f16 croq_half_value(ushort bits) { f16 out; out.bits = bits; return out; }
CROQ_INLINE float croq_half_get(ushort bits) { return croq_f16_get(croq_half_value(bits)); }
CROQ_INLINE ushort croq_half_put(float value) { return croq_f16_of(value).bits; }
#define CROQ_FLOAT_OF_f16(value) croq_f16_get(value)
#define CROQ_VALUE_OF_f16(bits) croq_half_value(bits)
#endif
CROQ_INLINE bf16 croq_brain_value(ushort bits) { bf16 out; out.bits = bits; return out; }
CROQ_INLINE float croq_brain_get(ushort bits) { return as_float((uint)bits << 16); }
CROQ_INLINE ushort croq_brain_put(float value) { return croq_bf16_of(value).bits; }
#define CROQ_FLOAT_OF_bf16(value) croq_bf16_get(value)
#define CROQ_VALUE_OF_bf16(bits) croq_brain_value(bits)
#define CROQ_ATOMICS_16(space)                                                                     \
  CROQ_ATOMIC_HALF(space, f16, f16, add, croq_half_get, croq_half_put, old + more)                 \
  CROQ_ATOMIC_HALF(space, bf16, bf16, add, croq_brain_get, croq_brain_put, old + more)             \
  CROQ_INLINE u16 croq_##space##_cas_u16(__##space u16* p, u16 expected, u16 value) {              \
    const size_t address = (size_t)p;                                                              \
    const uint shift = (uint)(address & 2) * 8;                                                    \
    volatile __##space uint* place = (volatile __##space uint*)(address & ~(size_t)3);             \
    uint seen = *place;                                                                            \
    for (;;) {                                                                                     \
      const u16 old = (u16)(seen >> shift);                                                        \
      if (old != expected) return old;                                                             \
      const uint found = atomic_cmpxchg(place, seen, (seen & ~(0xffffu << shift)) | (uint)value << shift); \
      if (found == seen) return old;                                                               \
      seen = found;                                                                                \
    }                                                                                              \
  }
#define CROQ_ATOMICS_32(space)                                                                     \
  CROQ_ATOMIC_INTEGER(space, s32, atomic_)                                                         \
  CROQ_ATOMIC_INTEGER(space, u32, atomic_)                                                         \
  CROQ_ATOMIC_FLOAT(space, f32, float, add, uint, as_float, as_uint, atomic_cmpxchg, old + value)  \
  CROQ_ATOMIC_FLOAT(space, f32, float, sub, uint, as_float, as_uint, atomic_cmpxchg, old - value)  \
  CROQ_ATOMIC_FLOAT(space, f32, float, exch, uint, as_float, as_uint, atomic_cmpxchg, value)       \
  CROQ_ATOMIC_FLOAT(space, f32, float, min, uint, as_float, as_uint, atomic_cmpxchg, value < old ? value : old) \
  CROQ_ATOMIC_FLOAT(space, f32, float, max, uint, as_float, as_uint, atomic_cmpxchg, old < value ? value : old) \
  CROQ_ATOMICS_16(space)
CROQ_ATOMICS_32(global)
CROQ_ATOMICS_32(local)
#ifdef cl_khr_int64_base_atomics
#define CROQ_ATOMICS_64(space) CROQ_ATOMIC_INTEGER(space, s64, atom_) CROQ_ATOMIC_INTEGER(space, u64, atom_)
CROQ_ATOMICS_64(global)
CROQ_ATOMICS_64(local)
#ifdef cl_khr_fp64
#define CROQ_ATOMICS_F64(space)                                                                    \
  CROQ_ATOMIC_FLOAT(space, f64, double, add, ulong, as_double, as_ulong, atom_cmpxchg, old + value) \
  CROQ_ATOMIC_FLOAT(space, f64, double, exch, ulong, as_double, as_ulong, atom_cmpxchg, value)
CROQ_ATOMICS_F64(global)
CROQ_ATOMICS_F64(local)
#endif
#endif

// ------------------------------------------------------------------------------------------------- failure report
// Word 0 of the report is the number of the first failed check plus one, the words behind it are its values.
// `croq_fail(report, 3) && croq_value(report, 1, i)`: only who comes first stores values.
static __attribute__((noinline, unused)) bool croq_fail(__global long* report, int number) {
  return atomic_cmpxchg((volatile __global int*)report, 0, number + 1) == 0;
}
CROQ_INLINE bool croq_value(__global long* report, int place, long value) {
  report[place] = value;
  return true;
}
#ifdef cl_khr_fp64
CROQ_INLINE long croq_bits_f64(double value) { return as_long(value); }
CROQ_INLINE long croq_bits_f32(float value) { return as_long((double)value); }
#else
CROQ_INLINE long croq_bits_f32(float value) {  // the bits of the same number as an f64
  const ulong raw = as_uint(value), sign = raw >> 31 << 63, exponent = raw >> 23 & 0xff, fraction = raw & 0x7fffff;
  if (exponent == 0xff) return (long)(sign | 0x7fful << 52 | fraction << 29);
  if (exponent) return (long)(sign | (exponent + 896) << 52 | fraction << 29);
  if (!fraction) return (long)sign;
  const int up = (int)clz((uint)fraction) - 8;  // a subnormal f32 is a normal f64
  return (long)(sign | (ulong)(897 - up) << 52 | (fraction << up & 0x7fffff) << 29);
}
#endif
