"""Symbolic integers against plain arithmetic on every value of their variables."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from croq_magic.compiler import integers, ir
from croq_magic.compiler.text import format_expr
from croq_magic.compiler.types import BOOL, S8, S32, S64, U8, U32
from tests.compiler.expressions import evaluate, expressions, points, truncated, var
from tests.ir_builders import buffer, compose, const, dim

P, Q, R = var("p", 0, 4), var("q", -3, 4), var("r", 1, 6)
VARIABLES = (P, Q, R)
POINTS = list(points(VARIABLES))


def values(e: ir.Expr) -> list[int]:
    return [evaluate(e, point) for point in POINTS]


@given(expressions(VARIABLES))
def test_simplify_keeps_the_value(e: ir.Expr) -> None:
    assert values(integers.simplify(e)) == values(e)


@given(expressions(VARIABLES))
def test_simplify_is_stable(e: ir.Expr) -> None:
    once = integers.simplify(e)
    assert integers.equal(once, integers.simplify(once))


@given(expressions(VARIABLES))
def test_interval_holds_every_value(e: ir.Expr) -> None:
    low, high = integers.interval(e)
    found = values(e)
    assert low is None or low <= min(found)
    assert high is None or high >= max(found)


@given(expressions(VARIABLES, depth=2), expressions(VARIABLES, depth=2))
def test_equal_expressions_have_equal_values(a: ir.Expr, b: ir.Expr) -> None:
    if integers.equal(a, b):
        assert values(a) == values(b)


@given(expressions(VARIABLES, depth=2), expressions(VARIABLES, depth=2), st.sampled_from([1, 2, 3, 16]))
def test_builders(a: ir.Expr, b: ir.Expr, d: int) -> None:
    left, right = values(a), values(b)
    assert values(integers.add(a, b)) == [x + y for x, y in zip(left, right, strict=True)]
    assert values(integers.sub(a, b)) == [x - y for x, y in zip(left, right, strict=True)]
    assert values(integers.mul(a, b)) == [x * y for x, y in zip(left, right, strict=True)]
    assert values(integers.floordiv(a, const(d))) == [truncated(x, d) for x in left]
    assert values(integers.mod(a, const(d))) == [x - d * truncated(x, d) for x in left]


@given(st.integers(-(2**70), 2**70), st.integers(-(2**40), 2**40).filter(bool))
def test_large_constants_divide_exactly(a: int, b: int) -> None:
    quotient = integers.value(integers.floordiv(integers.constant(a), integers.constant(b)))
    assert quotient == truncated(a, b)
    if b > 0:
        assert integers.value(integers.mod(integers.constant(a), integers.constant(b))) == a - b * truncated(a, b)


def text(e: ir.Expr) -> str:
    return format_expr(integers.simplify(e))


M, K = dim("M"), dim("K")


@pytest.mark.parametrize(
    ("e", "expected"),
    [
        (integers.sub(integers.add(M, const(2)), M), "2"),
        (integers.floordiv(integers.mul(M, const(4)), const(4)), "M"),
        (integers.mul(integers.floordiv(M, const(4)), const(4)), "M / 4 * 4"),
        (integers.floordiv(integers.mul(M, K), K), "M"),
        (integers.floordiv(compose(P, var("t", 0, 16), 16), const(16)), "p"),
        (integers.mod(compose(P, var("t", 0, 16), 16), const(16)), "t"),
        (integers.floordiv(compose(P, var("t", 0, 17), 16), const(16)), "p + t / 16"),
        (integers.sub(const(0), P), "-p"),
        (integers.mul(P, const(0)), "0"),
        (ir.Builtin("__max", (P, const(9)), S32), "9"),
        (ir.Builtin("__min", (M, const(1)), S32), "1"),
    ],
)
def test_canonical_forms(e: ir.Expr, expected: str) -> None:
    assert text(e) == expected


def test_negative_numerators_are_not_taken_for_floors() -> None:
    shifted = integers.sub(P, const(1))  # -1..2, and -1 / 2 is 0
    assert text(integers.floordiv(shifted, const(2))) == "(p - 1) / 2"
    assert text(integers.mod(shifted, const(2))) == "(p - 1) % 2"


def test_strides_and_products() -> None:
    assert [format_expr(s) for s in integers.row_major((M, K, const(4)))] == ["K * 4", "4", "1"]
    assert format_expr(integers.product((M, const(3), M))) == "M * M * 3"
    assert integers.value(integers.ceildiv(const(17), const(4))) == 5


def test_intervals_of_other_expressions() -> None:
    x = ir.Var("x", S32, ir.Role.PARAM)
    byte = ir.Load(ir.View(buffer("b", (4,), U8), (), (), integers.ZERO, ()), ())
    assert integers.interval(x) == (None, None)
    assert integers.interval(ir.Binary("%", x, const(7), S32)) == (-6, 6)
    assert integers.interval(ir.Binary("&", x, const(7), S32)) == (0, 7)
    assert integers.interval(ir.Binary(">>", const(32), P, S32)) == (4, 32)
    assert integers.interval(byte) == (0, 255)
    assert integers.interval(ir.Cast(x, S8)) == (-128, 127)
    assert integers.interval(ir.Cast(Q, U8)) == (0, 255)
    assert integers.interval(ir.Cast(P, S64)) == (0, 3)
    assert integers.interval(ir.Var("k", U32, ir.Role.MUTABLE)) == (0, 2**32 - 1)
    assert integers.interval(ir.Select(ir.Binary("<", x, P, BOOL), P, const(9), S32)) == (0, 9)
    assert integers.interval(ir.Binary("/", integers.sub(P, const(8)), const(3), S32)) == (-2, -1)


def test_bounds_may_depend_on_other_variables() -> None:
    inner = ir.Var("i", S32, ir.Role.LOOP, P, integers.add(P, const(3)))
    assert integers.interval(inner) == (0, 5)
