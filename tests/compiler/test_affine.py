"""Affine accesses: strides, and whether iterations touch different elements (compared by enumeration)."""

from __future__ import annotations

import itertools

import pytest

from croq_magic.compiler import affine, integers, ir, views
from croq_magic.compiler.affine import Dim
from croq_magic.compiler.text import format_expr
from tests import ir_builders as build

i, j = build.index("i", 4), build.index("j", 6)
DIMS = (Dim(i, build.const(4)), Dim(j, build.const(6)))


def linear(a: int, b: int, c: int = 0) -> ir.Expr:
    """a * i + b * j + c"""
    terms = (integers.mul(i, build.const(a)), integers.mul(j, build.const(b)), build.const(c))
    return integers.add(integers.add(terms[0], terms[1]), terms[2])


def load(*index: ir.Expr) -> ir.Load:
    return build.at(build.buffer("x", (64,) * len(index)), *index)


@pytest.mark.parametrize(("a", "b"), list(itertools.product((0, 1, 2, 3, 6, 7, -1, -6), repeat=2)))
def test_what_is_called_distinct_is(a: int, b: int) -> None:
    places = [a * x + b * y for x in range(4) for y in range(6)]
    different = len(set(places)) == len(places)
    said = affine.distinct(load(linear(a, b, 40)), DIMS)
    assert different or not said
    if {abs(a), abs(b)} in ({1, 6}, {1, 7}, {1, 4}):
        assert said == different, "the usual row-major forms are recognised"


def test_a_coordinate_each() -> None:
    assert affine.distinct(load(j, i), DIMS)
    assert not affine.distinct(load(i, i), DIMS)


def test_a_coordinate_that_another_one_settles() -> None:
    """Equal i and equal i + j mean equal j."""
    assert affine.distinct(load(i, linear(1, 1)), DIMS)
    assert not affine.distinct(load(linear(1, 1), linear(2, 2)), DIMS)


def test_symbolic_extents() -> None:
    rows, columns = build.dim("M"), build.dim("N")
    p, m = build.index("p", 16), build.index("m", integers.floordiv(rows, build.const(16)))
    place = build.compose(p, m, integers.floordiv(rows, build.const(16)))
    dims = (Dim(p, build.const(16)), Dim(m, integers.floordiv(rows, build.const(16))))
    buffer = build.buffer("x", (rows, columns))
    assert affine.distinct(build.at(buffer, place, build.const(0)), dims)
    assert format_expr(affine.stride(affine.element(build.at(buffer, place, p))[1], m) or integers.ZERO) == "N"


@pytest.mark.parametrize(
    "e", [integers.floordiv(i, build.const(3)), integers.mod(j, build.const(4)), integers.mul(i, i)]
)
def test_steps_that_change_have_no_stride(e: ir.Expr) -> None:
    variable = i if affine.depends(e, {"i"}) else j
    assert affine.stride(e, variable) is None
    assert not affine.distinct(load(e), DIMS)


def test_same_and_different_elements() -> None:
    buffer = build.buffer("x", (64, 64))
    here, again = build.at(buffer, linear(2, 1), j), build.at(buffer, integers.add(j, linear(2, 0)), j)
    beside = build.at(buffer, linear(2, 1, 1), j)
    assert affine.same_element(here, again) and not affine.apart(here, again)
    assert affine.apart(here, beside) and not affine.same_element(here, beside)
    unknown = build.at(buffer, i, j)
    assert not affine.same_element(here, unknown) and not affine.apart(here, unknown)


def test_slots_tell_elements_apart() -> None:
    ring = ir.Buffer("ring", ir.S32, ir.Storage.SHARED, (build.const(8),), slots=(2,))
    first, second = (ir.Load(views.whole(ring, (build.const(n),)), (j,)) for n in (0, 1))
    assert affine.apart(first, second) and not affine.same_element(first, second)
