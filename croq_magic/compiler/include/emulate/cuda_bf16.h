// __nv_bfloat16 as CUDA's header of this name has it, for device text that includes it: the basics, computed in float
// and rounded once.
#pragma once
#include "croq_emulate_half.h"
struct __nv_bfloat16 : croq_half_base<7> {
  using croq_half_base<7>::croq_half_base;
  __nv_bfloat16() = default;
};
CROQ_HALF_FUNCTIONS(bfloat16, __nv_bfloat16)
CROQ_FUNCTION __nv_bfloat16 __float2bfloat16(float x) { return __nv_bfloat16(x); }
CROQ_FUNCTION __nv_bfloat16 __float2bfloat16_rn(float x) { return __nv_bfloat16(x); }
CROQ_FUNCTION float __bfloat162float(__nv_bfloat16 x) { return (float)x; }
CROQ_FUNCTION unsigned short __bfloat16_as_ushort(__nv_bfloat16 x) { return x.bits; }
CROQ_FUNCTION __nv_bfloat16 __ushort_as_bfloat16(unsigned short x) { __nv_bfloat16 y; y.bits = x; return y; }
CROQ_HALF_PAIRS(bfloat16, __nv_bfloat16, __nv_bfloat162)
CROQ_FUNCTION __nv_bfloat162 __floats2bfloat162_rn(float x, float y) {
  return __nv_bfloat162(__nv_bfloat16(x), __nv_bfloat16(y));
}
CROQ_FUNCTION float2 __bfloat1622float2(__nv_bfloat162 v) { return make_float2((float)v.x, (float)v.y); }
typedef __nv_bfloat16 nv_bfloat16;
typedef __nv_bfloat162 nv_bfloat162;
