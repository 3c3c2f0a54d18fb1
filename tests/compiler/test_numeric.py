"""Vectorised integer semantics against C's, spelled out with fractions."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from croq_magic.compiler import ir, numeric
from croq_magic.compiler.types import BOOL, F32, S8, S32, U8

A, B = ir.Var("a", S32), ir.Var("b", S32)
SMALL = st.integers(-1000, 1000)


def run(e: ir.Expr, **values: object) -> object:
    return numeric.value(e, values)


@given(SMALL, SMALL.filter(bool))
def test_division_truncates_and_remainder_has_the_sign_of_the_dividend(a: int, b: int) -> None:
    q = math.trunc(Fraction(a, b))
    for make in (lambda v: v, lambda v: np.array([v])):
        assert run(ir.Binary("/", A, B, S32), a=make(a), b=make(b)) == q
        assert run(ir.Binary("%", A, B, S32), a=make(a), b=make(b)) == a - b * q


@given(st.lists(SMALL, min_size=1), SMALL)
def test_comparison_and_logic(a: list[int], b: int) -> None:
    e = ir.Binary("||", ir.Binary("<", A, B, BOOL), ir.Binary("==", A, ir.Const(7), BOOL), BOOL)
    np.testing.assert_array_equal(run(e, a=np.array(a), b=b), [v < b or v == 7 for v in a])


def test_plain_numbers_stay_exact() -> None:
    assert run(ir.Binary("*", A, A, S32), a=1 << 40) == 1 << 80


@pytest.mark.parametrize(("dtype", "value", "expected"), [(S8, 200, -56), (U8, -1, 255), (S32, 5, 5), (BOOL, 3, True)])
def test_integer_casts_wrap(dtype: object, value: int, expected: int) -> None:
    cast = ir.Cast(A, dtype)  # type: ignore[arg-type]
    assert run(cast, a=value) == expected
    assert run(cast, a=np.array([value])).tolist() == [expected]  # type: ignore[attr-defined]


def test_float_to_integer_truncates_and_saturates() -> None:
    x = ir.Var("x", F32)
    values = [1.9, -1.9, 1e12, -1e12, float("nan")]
    assert run(ir.Cast(x, S32), x=np.array(values)).tolist() == [1, -1, 2**31 - 1, -(2**31), 0]  # type: ignore[attr-defined]
    assert [run(ir.Cast(x, S32), x=v) for v in values] == [1, -1, 2**31 - 1, -(2**31), 0]


def test_select_takes_each_arm_where_it_holds() -> None:
    e = ir.Select(ir.Binary("!=", B, ir.Const(0), BOOL), ir.Binary("/", A, B, S32), ir.Const(-1), S32)
    assert run(e, a=np.array([7, 7]), b=np.array([2, 0])).tolist() == [3, -1]  # type: ignore[attr-defined]
    assert run(e, a=7, b=0) == -1


@given(st.integers(0, 1000), st.integers(1, 50))
def test_builtins(v: int, a: int) -> None:
    up = run(ir.Builtin("__alignup", (A, B), S32), a=v, b=a)
    assert up == min(x for x in range(v, v + a) if x % a == 0)
    assert run(ir.Builtin("cdiv", (A, B), S32), a=v, b=a) == math.ceil(Fraction(v, a))
    assert run(ir.Builtin("__max", (A, B), S32), a=np.array([v]), b=a) == max(v, a)


def test_what_depends_on_data_is_refused() -> None:
    with pytest.raises(numeric.DataDependentError, match="a has no value"):
        run(A)
