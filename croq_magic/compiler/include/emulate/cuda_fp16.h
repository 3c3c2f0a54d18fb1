// half as CUDA's header of this name has it, for device text that includes it: the basics, computed in float and rounded
// once.
#pragma once
#include "croq_emulate_half.h"
struct __half : croq_half_base<10> {
  using croq_half_base<10>::croq_half_base;
  __half() = default;
};
typedef __half half;
CROQ_HALF_FUNCTIONS(half, __half)
CROQ_FUNCTION __half __float2half(float x) { return __half(x); }
CROQ_FUNCTION __half __float2half_rn(float x) { return __half(x); }
CROQ_FUNCTION __half __double2half(double x) { return __half((float)x); }
CROQ_FUNCTION float __half2float(__half x) { return (float)x; }
CROQ_FUNCTION __half __int2half_rn(int x) { return __half((float)x); }
CROQ_FUNCTION int __half2int_rn(__half x) { return __float2int_rn((float)x); }
CROQ_FUNCTION int __half2int_rz(__half x) { return __float2int_rz((float)x); }
CROQ_FUNCTION unsigned short __half_as_ushort(__half x) { return x.bits; }
CROQ_FUNCTION __half __ushort_as_half(unsigned short x) { __half y; y.bits = x; return y; }
CROQ_HALF_PAIRS(half, __half, __half2)
CROQ_FUNCTION __half2 __floats2half2_rn(float x, float y) { return __half2(__half(x), __half(y)); }
CROQ_FUNCTION __half2 __float2half2_rn(float x) { return __half2(__half(x), __half(x)); }
CROQ_FUNCTION float2 __half22float2(__half2 v) { return make_float2((float)v.x, (float)v.y); }
CROQ_FUNCTION __half2 __half2half2(__half x) { return __half2(x, x); }
CROQ_FUNCTION __half2 __halves2half2(__half x, __half y) { return __half2(x, y); }
CROQ_FUNCTION __half __low2half(__half2 v) { return v.x; }
CROQ_FUNCTION __half __high2half(__half2 v) { return v.y; }
typedef __half2 half2;
