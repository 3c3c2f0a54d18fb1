"""Elements of arrays as Python numbers: rounding to an element type, and reading and writing single elements.

The host part of a program on a SIMT device runs in Python. Its scalars are Python numbers that their type represents
exactly; arithmetic is done in Python's and brought back by the functions here. Rounding is that of the CPU target
(croq_small.h): to nearest even; types of fewer than 16 bits saturate.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from croq_magic.compiler import types
from croq_magic.compiler.types import DType, Kind

Get = Callable[[int], Any]
Set = Callable[[int, Any], None]


def wrap(value: int, dtype: DType) -> int:
    """An integer in the range of an integer type."""
    low, _ = dtype.range
    return (value - low) % (1 << dtype.bits) + low


def f32(value: float) -> float:
    """A number rounded to f32."""
    return ctypes.c_float(value).value


def odd(value: int | float) -> float:
    """A float that rounds to a narrower one as `value` itself does: its last bit shows what was cut off."""
    if isinstance(value, float) or -(1 << 53) <= value <= 1 << 53:
        return float(value)
    size = abs(int(value))
    shift = size.bit_length() - 53
    kept = size >> shift | (size & ((1 << shift) - 1) != 0)
    return math.copysign(math.ldexp(kept, shift), value)


@cache
def rounding(dtype: DType) -> Callable[[float], float]:
    """The function that rounds a number to a float type."""
    if dtype is types.F64:
        return float
    if dtype in (types.F32, types.TF32):
        return f32
    if dtype is types.F8_UE8M0:
        return _round_scale
    infinite = dtype.bits == 16 or dtype is types.F8_E5M2
    nan = math.nan if dtype.bits >= 8 else dtype.largest

    def round_to(value: float) -> float:
        if math.isnan(value):
            return nan
        if dtype is types.F8_UE4M3 and value < 0:
            return 0.0
        if math.isinf(value):
            return value if infinite else math.copysign(dtype.largest, value)
        exponent = math.frexp(value)[1] - dtype.mantissa if value else 0
        step = max(math.ldexp(1.0, exponent) if exponent > -1070 else 0.0, dtype.quantum)
        near = math.copysign(round(value / step) * step, value)
        if abs(near) > dtype.largest:
            return math.copysign(math.inf if infinite else dtype.largest, value)
        return near

    return round_to


def _round_scale(value: float) -> float:
    """To the nearest power of two from 2^-127 to 2^127, ties up; NaN for what is below zero."""
    if not value >= 0:
        return math.nan
    if value == 0:
        return math.ldexp(1.0, -127)
    fraction, exponent = math.frexp(min(value, 2.0**127))
    return math.ldexp(1.0, max(-127, exponent if fraction >= 0.75 else exponent - 1))


def convert(value: Any, source: DType, target: DType) -> Any:
    """A conversion as the language defines it: floats to integers truncate and saturate, integers wrap."""
    if target is source:
        return value
    if target is types.BOOL:
        return value != 0
    if target.is_float:
        return float(value) if target is types.F64 else rounding(target)(odd(value))
    if source.is_float:
        low, high = target.range
        return 0 if math.isnan(value) else int(min(max(value, low), high))
    return wrap(int(value), target)


# ------------------------------------------------------------------------------------------------- single elements

_FORMATS = {
    types.S8: "b",
    types.S16: "h",
    types.S32: "i",
    types.S64: "q",
    types.U8: "B",
    types.U16: "H",
    types.U32: "I",
    types.U64: "Q",
    types.F32: "f",
    types.TF32: "f",
    types.F64: "d",
    types.BOOL: "?",
}


@cache
def storage(dtype: DType) -> np.dtype[Any]:
    """The NumPy type of arrays of an element type."""
    try:
        return np.dtype(dtype.storage)
    except TypeError:  # a type that ml_dtypes adds to NumPy
        import ml_dtypes

        added: np.dtype[Any] = np.dtype(getattr(ml_dtypes, dtype.storage))
        return added


def access(array: np.ndarray, dtype: DType) -> tuple[Get, Set]:
    """Functions that read and write one element of a flat, contiguous array."""
    form = _FORMATS.get(dtype)
    if form is not None:
        data: Any = array
        view: Any = memoryview(data).cast("B").cast(form)  # type: ignore[call-overload]
        return view.__getitem__, view.__setitem__ if array.flags.writeable else _read_only
    if dtype.bits >= 16:
        kind = array.dtype.type
        return lambda i: float(array[i]), lambda i, value: array.__setitem__(i, kind(value))
    raw = array.view(np.uint8)
    decoded, encoded = _codes(dtype)
    return lambda i: decoded[raw[i]], lambda i, value: raw.__setitem__(i, _code(encoded, value))


def encode(value: Any, dtype: DType) -> Any:
    """A number that a type represents, as a NumPy scalar of its storage type."""
    array = np.zeros(1, storage(dtype))
    access(array, dtype)[1](0, value)
    return array[0]


def _read_only(index: int, value: Any) -> None:
    raise ValueError("the array is read-only")


def _code(encoded: dict[Any, int], value: Any) -> int:
    if isinstance(value, float):
        return encoded[math.copysign(1.0, value), value] if value == value else encoded[1.0, None]
    return encoded[value]


@cache
def _codes(dtype: DType) -> tuple[list[Any], dict[Any, int]]:
    """What each byte stands for, and the byte of each value, of a type of at most 8 bits."""
    decoded: list[Any] = []
    encoded: dict[Any, int] = {}
    for code in range(256):
        value: Any
        if dtype.is_float:
            value = _small_float(dtype, code)
            key: Any = (math.copysign(1.0, value), value) if value == value else (1.0, None)
        else:
            key = value = wrap(code, dtype)
        decoded.append(value)
        if dtype is types.S6:
            encoded[key] = value & 0xFF  # arrays of s6 are int8: all bits of the byte carry the sign
        else:
            encoded.setdefault(key, code)
    return decoded, encoded


def _small_float(dtype: DType, code: int) -> float:
    if dtype is types.F8_UE8M0:
        return math.nan if code == 255 else math.ldexp(1.0, code - 127)
    stored = dtype.mantissa - 1
    bits = 7 if dtype in (types.F8_E4M3, types.F8_E5M2, types.F8_UE4M3) else dtype.bits - 1
    size = code & (1 << bits) - 1
    sign = -1.0 if code >> bits & 1 and dtype is not types.F8_UE4M3 else 1.0
    exponent, fraction = size >> stored, size & (1 << stored) - 1
    if exponent:
        value = math.ldexp((1 << stored) + fraction, exponent - 1) * dtype.quantum
    else:
        value = fraction * dtype.quantum
    if value > dtype.largest:
        value = math.inf if dtype is types.F8_E5M2 and not fraction else math.nan
    return sign * value


def word(value: Any, kind: Kind) -> int:
    """A value as failure records hold it: floats by the bits of an f64."""
    return ctypes.c_int64.from_buffer(ctypes.c_double(value)).value if kind is Kind.FLOAT else int(value)
