"""Element types below 32 bits: every code of every type to f32 and back, against ml_dtypes and against the formats."""

from __future__ import annotations

import functools
import math
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import croq_magic as croq
from croq_magic.arguments import numpy_dtype
from croq_magic.compiler.types import BY_NAME, DType

FLOATS = ["f8_e4m3", "f8_e5m2", "f8_ue4m3", "f8_ue8m0", "f6_e3m2", "f6_e2m3", "f4_e2m1"]
INTEGERS = ["s2", "s4", "s6", "u1", "u2", "u4", "u6", "bin1"]
SMALL = [*FLOATS, *INTEGERS]

NARROW = {
    "f32": [*FLOATS, "f16", "bf16", "s4"],
    "f64": [*SMALL, "f16", "bf16"],
    "s32": INTEGERS,
    "s64": ["f16", "bf16", "f8_e4m3", "s4"],
    "u64": ["f16", "bf16", "f8_e4m3"],
}


def _wide(name: str) -> str:
    return "f32" if name in FLOATS else "s32"


def _function(name: str, params: list[str], body: list[str]) -> str:
    return f"__co__ void {name}({', '.join(params)}) {{ {' '.join(body)} }}\n"


@functools.cache
def program() -> Any:
    """One function for each source type, as every function is a module of its own. Stores convert, as `__to` does; the
    warning that they may lose precision is meant."""
    text = ""
    for source, targets in NARROW.items():
        stores = [f"y{t}.at(i) = x.at(i);" for t in targets]
        loop = ["parallel p by 1 { foreach i in [N] {", *stores, "} }"]
        text += _function(f"from_{source}", [f"{source} [N] x", *(f"{t} [N]& y{t}" for t in targets)], loop)
    for group, wide, types in (("floats", "f32", FLOATS), ("integers", "s32", INTEGERS)):
        loop = ["parallel p by 1 { foreach i in [N] {", *(f"y{t}.at(i) = x{t}.at(i);" for t in types), "} }"]
        spans = [part for t in types for part in (f"{t} [N] x{t}", f"{wide} [N]& y{t}")]
        text += _function(f"read_{group}", spans, loop)
    copies, spans, scalars = [], [], []
    for t in SMALL:
        spans += [f"{t} [8, 5] x{t}", f"{t} [8, 5]& y{t}", f"{t} s{t}"]
        copies += [
            f"t{t} = dma.copy x{t}.chunkat(p, _) => shared;",
            f"shared {t} [4, 5] z{t} {{{'1.0f' if t in FLOATS else '1'}}};",
            f"parallel q by 4 {{ z{t}.at(q, 0) = t{t}.data.at(q, 4); z{t}.at(q, 1) = s{t}; }}",
            f"dma.copy z{t} => y{t}.chunkat(p, _);",
        ]
    text += _function("copies", spans, ["parallel p by 2 : block {", *copies, "}", *scalars])
    return croq.compile(text)


def narrowed(x: np.ndarray, source: str, target: str) -> np.ndarray:
    """`x` stored as `target` by the function that stores it as all types."""
    outputs = {t: np.zeros(x.size, numpy_dtype(BY_NAME[t])) for t in NARROW[source]}
    getattr(program(), f"from_{source}")(x, *outputs.values())
    return outputs[target]


def read(x: np.ndarray, name: str) -> np.ndarray:
    """The numbers that the elements of `x` are."""
    types = FLOATS if name in FLOATS else INTEGERS
    inputs = {t: np.zeros(x.size, numpy_dtype(BY_NAME[t])) for t in types} | {name: x}
    outputs = {t: np.zeros(x.size, BY_NAME[_wide(t)].numpy) for t in types}
    function = program().read_floats if types is FLOATS else program().read_integers
    function(*(part for t in types for part in (inputs[t], outputs[t])))
    return outputs[name]


def codes(dtype: DType) -> np.ndarray:
    return np.arange(256, dtype=np.uint8).view(numpy_dtype(dtype))


def value_of(code: int, exponents: int, mantissas: int, name: str) -> float:
    """What a code means, by the formats' definition."""
    sign = -1.0 if code >> (exponents + mantissas) & 1 else 1.0
    field, fraction = code >> mantissas & (1 << exponents) - 1, code & (1 << mantissas) - 1
    bias = (1 << exponents - 1) - 1
    if name == "f8_e5m2" and field == 31:
        return sign * math.inf if not fraction else math.nan
    if name.endswith("e4m3") and field == 15 and fraction == 7:
        return math.nan
    if field == 0:
        return sign * math.ldexp(fraction, 1 - bias - mantissas)
    return sign * math.ldexp(1 + fraction / (1 << mantissas), field - bias)


FORMAT = {
    "f8_e4m3": (4, 3), "f8_e5m2": (5, 2), "f8_ue4m3": (4, 3), "f6_e3m2": (3, 2), "f6_e2m3": (2, 3), "f4_e2m1": (2, 1),
}  # fmt: skip


def numbers(name: str) -> np.ndarray:
    """The value of every code, from the definition of the format."""
    if name == "f8_ue8m0":
        return np.array([math.ldexp(1.0, c - 127) for c in range(255)] + [math.nan])
    exponents, mantissas = FORMAT[name]
    bits = 7 if name == "f8_ue4m3" else 1 + exponents + mantissas
    return np.array([value_of(c & (1 << bits) - 1, exponents, mantissas, name) for c in range(256)])


@pytest.mark.parametrize("name", FLOATS)
def test_every_code_of_a_float_is_read_exactly(name: str) -> None:
    got = read(codes(BY_NAME[name]), name)
    np.testing.assert_array_equal(got, numbers(name).astype(np.float32))
    known = ~np.isnan(got)
    np.testing.assert_array_equal(np.signbit(got)[known], np.signbit(numbers(name))[known])
    if BY_NAME[name].numpy is not None:
        used = 1 << BY_NAME[name].bits  # what other bytes are is not defined there
        np.testing.assert_array_equal(got[:used], codes(BY_NAME[name])[:used].astype(np.float32))


def difficult(name: str) -> np.ndarray:
    """Values, the middles between neighbours and their neighbours, overflow, infinities, f32's denormals, any bits."""
    known = np.unique(numbers(name)[np.isfinite(numbers(name))])
    middles = (known[1:] + known[:-1]) / 2
    largest = BY_NAME[name].largest
    edges = [largest * f for f in (1.0, 1.03125, 1.0625, 1.09375, 1.125, 1.25, 1.5, 2.0, 1e30)]
    x = np.concatenate([known, middles, edges, [0.0, 1e-45, 1e-39, 5.9e-39, 1.18e-38, 3e38, np.inf, np.nan]])
    with np.errstate(over="ignore"):
        x = x.astype(np.float32)
    x = np.concatenate([x, np.nextafter(x, np.float32(np.inf)), np.nextafter(x, np.float32(-np.inf))])
    random = np.random.default_rng(1).integers(0, 1 << 32, 40000, dtype=np.uint32).view(np.float32)
    return np.concatenate([x, -x, random])


def nearest(name: str, x: np.ndarray) -> np.ndarray:
    """The code for each x by search: nearest value, ties to the even code; what is too large as the language says."""
    table = numbers(name)[: 128 if name != "f8_ue8m0" else 255]
    if name.startswith(("f6", "f4")):
        table = table[: 1 << BY_NAME[name].bits - 1]
    top = int(np.flatnonzero(np.isfinite(table))[-1])
    values = table[: top + 1]
    size = np.where(np.isfinite(x), np.abs(x), np.float32(3e38)).astype(np.float64)
    low = np.clip(np.searchsorted(values, size, side="right") - 1, 0, top)
    high = np.minimum(low + 1, top)
    below, above = size - values[low], values[high] - size
    tie_goes_up = (low % 2 == 1) | (name == "f8_ue8m0")  # of powers of two none is even
    code = np.where((below > above) | ((below == above) & tie_goes_up), high, low)
    if name == "f8_e5m2":  # halfway to what would be the next number, and beyond: infinity
        code = np.where(size >= 57344.0 + 4096.0, 0x7C, code)
    if name == "f8_ue8m0":
        return np.where(np.isnan(x) | (x < 0), 255, code)
    if name == "f8_ue4m3":
        return np.where(np.isnan(x), 0x7F, np.where(x < 0, 0, code))
    sign = np.signbit(x).astype(int) << {8: 7, 6: 5, 4: 3}[BY_NAME[name].bits]
    return code | sign


@pytest.mark.parametrize("name", FLOATS)
def test_floats_are_rounded_to_nearest_even(name: str) -> None:
    x = difficult(name)
    got = narrowed(x, "f32", name).view(np.uint8)
    known = ~np.isnan(x)
    np.testing.assert_array_equal(got[known], nearest(name, x)[known])
    back = read(got.view(numpy_dtype(BY_NAME[name])), name)[~known]
    if name.startswith(("f6", "f4")):
        assert (back == BY_NAME[name].largest).all()  # no NaN: the largest number, as on GPUs
    else:
        assert np.isnan(back).all()
    if BY_NAME[name].numpy is None:
        return
    # ml_dtypes agrees wherever it does not overflow: there it gives NaN where this language saturates.
    inside = known & (np.abs(x) <= BY_NAME[name].largest) & ((name != "f8_ue8m0") | (x > 2.0**-126))
    expect = x[inside].astype(numpy_dtype(BY_NAME[name])).view(np.uint8)
    np.testing.assert_array_equal(got[inside], expect)


@pytest.mark.parametrize("name", INTEGERS)
def test_small_integers_read_and_wrap(name: str) -> None:
    dtype = BY_NAME[name]
    low, high = dtype.range
    values = (np.arange(256) - low) % (1 << dtype.bits) + low
    np.testing.assert_array_equal(read(codes(dtype), name), values)
    if dtype.numpy is not None:
        np.testing.assert_array_equal(values, codes(dtype).astype(np.int32))
    x = np.concatenate([np.arange(-300, 300), [2**31 - 1, -(2**31)]]).astype(np.int32)
    got = narrowed(x, "s32", name)
    np.testing.assert_array_equal(got.astype(np.int32), (x.astype(np.int64) - low) % (1 << dtype.bits) + low)
    x = np.array([low - 1.5, low, low - 0.5, high + 0.9, high + 1, 0.99, -0.99, 1e300, -1e300, np.nan, np.inf, -np.inf])
    expect = [0 if math.isnan(v) else int(min(max(v, low), high)) for v in x]
    np.testing.assert_array_equal(narrowed(x, "f64", name).astype(np.int32), expect)


def one(name: str) -> Any:
    """1 in the type of arrays, -1 where there is no 1; f8_ue4m3 has no NumPy type, so arrays hold its bytes."""
    value = 1 if BY_NAME[name].is_float or BY_NAME[name].range[1] >= 1 else -1
    return numpy_dtype(BY_NAME[name]).type(0x38 if name == "f8_ue4m3" else value)


def test_arrays_and_scalars_of_small_types_are_passed_and_copied() -> None:
    arguments: list[Any] = []
    for name in SMALL:
        dtype = BY_NAME[name]
        x = np.resize(codes(dtype)[: 1 << dtype.bits - (name == "s6")], 40).reshape(8, 5)
        arguments += [x, np.zeros_like(x), 2.0 if name in FLOATS else dtype.range[0]]
    program().copies(*arguments)
    for position, name in enumerate(SMALL):
        x, y, scalar = arguments[3 * position : 3 * position + 3]
        expect = np.full((8, 5), one(name))
        expect[:, 0] = x[:, 4]
        expect[:, 1] = 0x40 if name == "f8_ue4m3" else scalar
        np.testing.assert_array_equal(y.view(np.uint8), expect.view(np.uint8), err_msg=name)


@pytest.mark.parametrize("name", ["f16", "bf16", "f8_e4m3"])
@pytest.mark.parametrize("source", ["f64", "s64", "u64"])
def test_conversions_round_once(name: str, source: str) -> None:
    dtype = BY_NAME[name]
    kind = numpy_dtype(dtype)
    every = np.arange(1 << dtype.bits, dtype=np.uint16 if dtype.bits == 16 else np.uint8).view(kind)
    with np.errstate(invalid="ignore"):
        every = every.astype(np.float64)
    every = np.unique(every[np.isfinite(every) & (every >= 0)])
    middles = (every[1:] + every[:-1]) / 2  # exact in f64; a neighbour of one must not be pulled to it by way of f32
    if source == "f64":
        x = np.concatenate([np.nextafter(middles, 0), middles, np.nextafter(middles, 1e300)])
        expect = np.concatenate([every[:-1], middles, every[1:]])
        x, expect = np.concatenate([x, -x]), np.concatenate([expect, -expect])
    else:
        middles = middles[(middles >= 2**16) & (middles < 2**62)] if name == "bf16" else middles[middles >= 2]
        whole = [int(m) for m in middles if m.is_integer()]
        x = np.array([v for m in whole for v in (m - 1, m, m + 1)], BY_NAME[source].numpy)
        expect = np.array([v for m in whole for v in (np.nextafter(m, 0), m, np.nextafter(m, 1e300))])
        if source == "s64":
            x, expect = np.concatenate([x, -x]), np.concatenate([expect, -expect])
        expect = expect if name == "bf16" else x.astype(np.float64)
    # The reference rounds a double that is no further than a double's last bit from the value, by comparison.
    low = every[np.clip(np.searchsorted(every, np.abs(expect), side="right") - 1, 0, every.size - 1)]
    high = every[np.clip(np.searchsorted(every, np.abs(expect), side="left"), 0, every.size - 1)]
    below, above = np.abs(expect) - low, high - np.abs(expect)
    code_is_odd = low.astype(kind).view(np.uint16 if dtype.bits == 16 else np.uint8) & 1 == 1
    right = np.copysign(np.where((below > above) | ((below == above) & code_is_odd), high, low), expect)
    np.testing.assert_array_equal(narrowed(x, source, name).astype(np.float64), right)


def test_int64_to_int4_and_f32_to_int4() -> None:
    x = np.array([2**40 + 7, -(2**40) - 8, 15, 8, -9], np.int64)
    np.testing.assert_array_equal(narrowed(x, "s64", "s4").astype(int), [7, -8, -1, -8, 7])
    y = np.array([7.9, 8.0, -8.9, -9.0, np.nan, 1e30, 0.9], np.float32)
    np.testing.assert_array_equal(narrowed(y, "f32", "s4").astype(int), [7, 7, -8, -8, 0, 7, 0])


def test_a_type_without_numpy_type_is_explained() -> None:
    with pytest.raises(croq.BindError, match=r"expected uint8 \(f8_ue4m3\)"):
        read(np.zeros(3, ml_dtypes.float8_e4m3fn), "f8_ue4m3")
