"""Words that mean something in OpenCL C, which C++ text of a cell may use as names."""

from __future__ import annotations

import re

KEYWORDS = frozenset(
    """kernel global local constant private generic pipe read_only write_only read_write uniform half uchar ushort uint
    ulong quad complex imaginary image1d_t image2d_t image3d_t sampler_t event_t queue_t ndrange_t clk_event_t
    reserve_id_t restrict size_t ptrdiff_t intptr_t uintptr_t bool2""".split()
) | frozenset(f"{kind}{n}" for kind in "char short int long float double".split() for n in (2, 3, 4, 8, 16))

# Functions that OpenCL C has: what a cell defines under such a name would be a second declaration of it.
BUILTINS = frozenset(
    """acos acosh acospi asin asinh asinpi atan atan2 atanh atanpi atan2pi cbrt ceil copysign cos cosh cospi erfc erf
    exp exp2 exp10 expm1 fabs fdim floor fma fmax fmin fmod fract frexp hypot ilogb ldexp lgamma log log2 log10
    log1p logb mad maxmag minmag modf nan nextafter pow pown powr remainder remquo rint rootn round rsqrt sin
    sincos sinh sinpi sqrt tan tanh tanpi tgamma trunc abs abs_diff add_sat hadd rhadd clamp clz ctz mad_hi
    mad_sat max min mul_hi rotate sub_sat upsample popcount mad24 mul24 degrees mix radians step smoothstep sign
    cross dot distance length normalize fast_distance fast_length fast_normalize isequal isnotequal isgreater
    isless isfinite isinf isnan isnormal signbit any all bitselect select barrier mem_fence prefetch shuffle
    shuffle2 vec_step printf""".split()
) - {"printf"}

# What a variable of generated text must not be called.
RESERVED = KEYWORDS | BUILTINS | frozenset("NAN INFINITY M_PI MAXFLOAT HUGE_VALF CHAR_BIT".split())


def renamed(function: str) -> str:
    """What a user's function is called in the device's text."""
    return f"croq_user_{function}" if function in KEYWORDS | BUILTINS else function


_DEFINED = re.compile(r"\b([A-Za-z_]\w*)\s*\((?:[^(){};]|\([^()]*\))*\)\s*\{")
_WORD = re.compile(r"[A-Za-z_]\w*")


def renames(text: str) -> list[str]:
    """Names in C++ text (without comments and strings) that OpenCL C reserves: keywords wherever they stand, functions
    where the text defines them."""
    defined = set(_DEFINED.findall(text))
    return sorted({word for word in _WORD.findall(text) if word in KEYWORDS} | (defined & BUILTINS))
