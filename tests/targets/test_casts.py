"""Conversions between all scalar types in whole programs, against a model of the language in Python."""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np
import pytest

import croq_magic as croq
from croq_magic.arguments import numpy_dtype
from croq_magic.compiler.types import BY_NAME, DType

TYPES = ["s8", "u8", "s16", "u16", "s32", "u32", "s64", "u64", "f16", "bf16", "f32", "f64"]
RNG = np.random.default_rng(5)


def samples(dtype: DType) -> np.ndarray:
    """Edges of every type's range, halves, specials, and random values."""
    kind = numpy_dtype(dtype)
    if dtype.is_integer:
        low, high = dtype.range
        edges = {0, 1, -1, low, low + 1, high, high - 1}
        edges |= {sign * (1 << n) + d for n in range(65) for d in (-1, 0, 1) for sign in (1, -1)}
        edges |= {(1 << 53) + 1, (1 << 24) + 1, (1 << 62) + (1 << 38) + 1, 2049, 4097, 65519, 65520, 257}
        return np.array(sorted(e for e in edges if low <= e <= high), kind)
    values = [sign * v for n in range(-30, 70) for v in (2.0**n, 2.0**n * 1.5, 2.0**n - 0.5) for sign in (1.0, -1.0)]
    values += [0.0, -0.0, math.inf, -math.inf, math.nan, 0.99, -0.99, 1e30, -1e30, 2147483647.5, 65519.99]
    with np.errstate(over="ignore", invalid="ignore"):
        random = RNG.integers(0, 1 << dtype.bits, 300, dtype=f"uint{dtype.bits}").view(kind)
        return np.concatenate([np.array(values).astype(kind), random])  # any bits, NaN among them


def rounded(value: int | float, dtype: DType) -> float:
    """`value` as a float type, rounded once (to nearest, ties to even), by exact integer arithmetic."""
    if isinstance(value, float) and (not math.isfinite(value) or value == 0):
        return value
    if value == 0:
        return 0.0
    numerator, denominator = value.as_integer_ratio()
    size = abs(numerator)
    exponent = size.bit_length() - denominator.bit_length()
    exponent -= size < denominator << exponent if exponent >= 0 else size << -exponent < denominator
    quantum = max(exponent - dtype.mantissa + 1, math.frexp(dtype.quantum)[1] - 1)
    top, bottom = (size, denominator << quantum) if quantum >= 0 else (size << -quantum, denominator)
    whole, rest = divmod(top, bottom)
    whole += 2 * rest > bottom or (2 * rest == bottom and whole & 1)
    try:
        result = math.ldexp(whole, quantum)
    except OverflowError:
        result = math.inf
    return math.copysign(result if result <= dtype.largest else math.inf, numerator)


def converted(value: int | float, dtype: DType) -> int | float:
    """The language's conversion: floats saturate to integers and NaN is 0, integers wrap, floats are rounded once."""
    if dtype.is_float:
        return rounded(value, dtype)
    low, high = dtype.range
    if isinstance(value, float):
        if math.isnan(value):
            return 0
        return low if value <= low else high if value >= high else int(value)
    return (value - low) % (1 << dtype.bits) + low


@pytest.mark.parametrize("source", TYPES)
def test_every_conversion(source: str) -> None:
    stores = " ".join(f"y{t}.at(i) = __to<{t}>(x.at(i));" for t in TYPES)
    spans = ", ".join([f"{source} [N] x", *(f"{t} [N]& y{t}" for t in TYPES)])
    program = croq.compile(f"__co__ void f({spans}) {{ parallel p by 1 {{ foreach i in [N] {{ {stores} }} }} }}")
    x = samples(BY_NAME[source])
    outputs = {t: np.zeros(x.size, numpy_dtype(BY_NAME[t])) for t in TYPES}
    program.f(x, *outputs.values())
    # Types of 16 bits have no scalars that Python knows: their values are those of doubles.
    values = [v if isinstance(v, (int, float)) else float(v) for v in x.tolist()]
    for target, got in outputs.items():
        expect = [converted(v, BY_NAME[target]) for v in values]
        if BY_NAME[target].is_integer:
            assert got.tolist() == expect, target
        else:
            with np.errstate(invalid="ignore"):  # signalling NaN among the values
                got = got.astype(np.float64)
            np.testing.assert_array_equal(got, expect, err_msg=target)


def test_compound_stores_compute_in_f32_and_round_once() -> None:
    text = """
    __co__ void f(f8_e4m3 [N]& a, s4 [N]& b, f32 [N] x, s32 [N] y) {
      parallel p by 1 { foreach i in [N] { a.at(i) = a.at(i) * 3.0f + x.at(i); b.at(i) += y.at(i); } }
    }
    """
    a = np.arange(0, 120, dtype=np.uint8).view(ml_dtypes.float8_e4m3fn)
    b = np.arange(120).astype(np.int8).astype(ml_dtypes.int4)
    x, y = RNG.random(120, np.float32), RNG.integers(-100, 100, 120, np.int32)
    wide = np.minimum(a.astype(np.float32) * np.float32(3) + x, 448)
    expect_a, expect_b = wide.astype(a.dtype), (b.astype(np.int32) + y + 8) % 16 - 8
    croq.compile(text).f(a, b, x, y)
    np.testing.assert_array_equal(a.view(np.uint8), expect_a.view(np.uint8))
    np.testing.assert_array_equal(b.astype(np.int32), expect_b)


@pytest.mark.parametrize(
    "operand, k, total",
    [("f8_e4m3", 32, "f32"), ("f8_e5m2", 32, "f16"), ("s4", 32, "s32"), ("u4", 32, "s32"), ("bin1", 128, "s32")],
)
def test_small_operands_of_tensor_cores(operand: str, k: int, total: str) -> None:
    text = f"""
    __co__ {total} [16, 8] f({operand} [16, {k}] x, {operand} [8, {k}] y) {{
      {total} [16, 8] out;
      parallel b by 1 : block {{
        tx = dma.copy x => shared;
        ty = dma.copy y => shared;
        parallel g by 1 : group {{
          c = mma.fill.{total} {"0" if total == "s32" else "0.0f"};
          a = mma.load tx.data;
          bb = mma.load ty.data;
          mma.row.row c, a, bb;
          mma.store c, out;
        }}
      }}
      return out;
    }}
    """
    dtype = BY_NAME[operand]
    kind = numpy_dtype(dtype)
    if dtype.is_float:
        x, y = (RNG.normal(size=(n, k)).astype(np.float32).astype(kind) for n in (16, 8))
    else:
        x, y = (RNG.integers(*dtype.range, (n, k), endpoint=True).astype(kind) for n in (16, 8))
    wide = np.float64 if dtype.is_float else np.int64
    expect = x.astype(wide) @ y.astype(wide).T
    got = croq.compile(text).f(x, y)
    if total == "s32":
        np.testing.assert_array_equal(got, expect)
    else:
        np.testing.assert_allclose(got.astype(np.float64), expect, rtol=1e-2 if total == "f16" else 1e-5, atol=2e-2)
