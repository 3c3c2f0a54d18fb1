"""Scalar expressions as Python functions: C's arithmetic."""

from __future__ import annotations

import pytest

from croq_magic.compiler import evaluate, ir
from croq_magic.compiler.types import BOOL, F32, S8, S32, U8, DType

N, K = ir.Var("N"), ir.Var("class")  # a name that is a word of Python


def c(value: int | float | bool, dtype: DType = S32) -> ir.Const:
    return ir.Const(value, dtype)


def value_of(e: ir.Expr, n: int = 0, k: int = 0) -> int | float | bool:
    return evaluate.function([e], ["N", "class"])(n, k)[0]


@pytest.mark.parametrize(("a", "b"), [(7, 2), (-7, 2), (7, -2), (-7, -2), (6, 3), (-6, 3), (0, 5)])
def test_division_truncates(a: int, b: int) -> None:
    quotient = int(a / b)
    assert value_of(ir.Binary("/", N, K, S32), a, b) == quotient
    assert value_of(ir.Binary("%", N, K, S32), a, b) == a - quotient * b


def test_division_by_zero_raises() -> None:
    with pytest.raises(ZeroDivisionError):
        value_of(ir.Binary("/", N, c(0), S32), 1)


@pytest.mark.parametrize(
    ("e", "expected"),
    [
        (ir.Binary("&&", c(True, BOOL), ir.Unary("!", c(False, BOOL), BOOL), BOOL), True),
        (ir.Select(ir.Binary("<", N, c(5), BOOL), c(1), ir.Binary("/", c(1), c(0), S32), S32), 1),
        (ir.Cast(c(300), U8), 44),
        (ir.Cast(c(200), S8), -56),
        (ir.Cast(c(-2.9, F32), S32), -2),
        (ir.Cast(c(1e20, F32), S32), 2**31 - 1),
        (ir.Cast(c(float("nan"), F32), S32), 0),
        (ir.Builtin("__alignup", (c(17), c(16)), S32), 32),
        (ir.Builtin("__aligndown", (c(17), c(16)), S32), 16),
        (ir.Builtin("cdiv", (c(17), c(16)), S32), 2),
        (ir.Builtin("__max", (N, c(3)), S32), 3),
        (ir.Unary("~", c(5), S32), -6),
        (ir.Binary("<<", c(1), c(4), S32), 16),
    ],
)
def test_operators(e: ir.Expr, expected: int) -> None:
    assert value_of(e) == expected


def test_unknown_variables_are_refused() -> None:
    with pytest.raises(ValueError, match="M has no value here"):
        evaluate.function([ir.Var("M")], ["N"])


def test_free_variables_in_order() -> None:
    assert evaluate.free_variables([ir.Binary("+", K, N, S32), N]) == ["class", "N"]
