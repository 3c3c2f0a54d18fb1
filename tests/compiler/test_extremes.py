"""Programs at the edge of what can be counted, stored or computed: a finding, or a result that is the language's."""

from __future__ import annotations

import pytest

import croq_magic as croq
from croq_magic.compiler import arithmetic, evaluate, integers, ir, numeric
from croq_magic.compiler.types import S8, S32, S64, U8, DType

KERNEL = (
    "__co__ s32 [8] f(s32 [8] x, int n) {{ s32 [8] r; parallel b by 1 : block, t by 8 : thread {{ {} }} return r; }}"
)
HOST = "__co__ s32 [8] f(s32 [8] x, int n) {{ s32 [8] r; {} return r; }}"


def codes(text: str) -> set[str]:
    found = croq.check(text, target="cpu")
    for each in found:
        assert 0 <= each.span.start <= each.span.end <= len(text)
    return {each.code for each in found if each.severity == "error"}


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ("shared event e[9223372036854775807];", "STO12"),
        ("shared event e[64][64];", None),
        ("shared event e[0];", "SHP01"),
        ("shared s32 [4] u[4097];", "STO12"),
        ("shared s32 [4] u[64][65];", "STO12"),
        ("frag f32 [4, 4] u[0];", "SHP01"),
        ("local s32 [16777216] u;", None),
        ("local s32 [16777217] u;", "STO12"),
        ("local s32 [16777216] u; local s8 [1] v;", "STO12"),
        ("shared s32 [1000000, 1000] u;", "STO12"),
        ("foreach k in 2147483647 r.at(t) += k;", None),
        ("foreach k in 2147483648 r.at(t) += k;", "SHP15"),
        ("with k in [2, 4294967296] { }", "SHP15"),
    ],
)
def test_storage_and_loops_of_a_kernel(body: str, code: str | None) -> None:
    assert codes(KERNEL.format(body)) == ({code} if code else set())


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ("s32 [1000000, 1000000] t;", None),
        ("s32 [10000000000, 1000000] t;", "STO12"),
        ("parallel p by 2147483648 : block { }", "SHP15"),
        ("parallel {p, q} by [16777216, 16777216] : block { }", None),
        ("parallel {p, q} by [16777217, 16777216] : block { }", "SHP15"),
    ],
)
def test_storage_and_grids_of_the_host(body: str, code: str | None) -> None:
    assert codes(HOST.format(body)) == ({code} if code else set())


def test_parameters_larger_than_memory() -> None:
    assert codes("__co__ int f(f64 [1099511627776, 1099511627776] x) { return 1; }") == {"STO12"}


@pytest.mark.parametrize(
    "text",
    [
        "__co__ s32 [1 << 40] f(s32 [8] x) { return x; }",
        "__co__ s32 [1e39f] f(s32 [8] x) { return x; }",
        "__co__ s32 [x.data] f(s32 [8] x) { return x; }",
        "__co__ s32 [2 # 4] f(s32 [8] x) { return x; }",
        "__co__ s32 [x % 0] f(s32 [8] x) { return x; }",
        "__co__ s32 [8] f(s32 [8] x) { parallel p by 2 { a = mma.pad.f32 0; } return x; }",
        "__co__ s32 [8] f(s32 [8] x) { parallel p by 2 { shared event e[2]; wait e.at(); } return x; }",
    ],
)
def test_mistakes_that_once_raised(text: str) -> None:
    assert codes(text)


# ------------------------------------------------------------------------------------------------------ arithmetic


def wrapped(value: int, dtype: DType) -> int:
    """A value as the bits of its type hold it."""
    bits = value & ((1 << dtype.bits) - 1)
    return bits - (1 << dtype.bits) if dtype.is_signed and bits >> (dtype.bits - 1) else bits


@pytest.mark.parametrize("dtype", [S8, U8, S32, S64], ids=lambda dtype: dtype.name)
@pytest.mark.parametrize("amount", [-1, 0, 1, 7, 8, 31, 32, 40, 63, 64, 1 << 40])
def test_shifts_in_the_width_of_their_type(dtype: DType, amount: int) -> None:
    import numpy as np

    for start in (1, 5, 77, -1, -77) if dtype.is_signed else (1, 5, 77, 200):
        inside = 0 <= amount < dtype.bits
        left = wrapped(start << amount, dtype) if inside else 0
        right = start >> amount if inside else -(start < 0)
        for op, expected in (("<<", left), (">>", right)):
            e = ir.Binary(op, ir.Var("a", dtype), ir.Var("n", S64), dtype)
            assert evaluate.function([e], ["a", "n"])(start, amount) == (expected,)
            assert numeric.value(e, {"a": start, "n": amount}) == expected
            several = numeric.value(e, {"a": np.array([start, 3]), "n": np.array([amount, 1])})
            assert several.tolist() == [expected, 6 if op == "<<" else 1]


def test_the_interval_of_a_shift_that_loses_bits() -> None:
    index = ir.Var("p", S32, ir.Role.REGION, integers.ZERO, integers.constant(8))
    assert integers.interval(ir.Binary("<<", index, integers.constant(4), S32)) == (0, 112)
    assert integers.interval(ir.Binary("<<", index, integers.constant(30), S32)) == (None, None)


def test_float_division_has_a_result_for_every_divisor() -> None:
    assert arithmetic.divide(1.0, 0.0) == float("inf")
    assert arithmetic.divide(-1.0, 0.0) == float("-inf")
    assert arithmetic.divide(1.0, -0.0) == float("-inf")
    assert str(arithmetic.divide(0.0, 0.0)) == "nan"
    assert arithmetic.divide(1.0, 4.0) == 0.25
