"""Divisions whose divisor may be zero are tested while running, the others are not."""

from __future__ import annotations

import numpy as np
import pytest

import croq_magic as croq

SOURCE = """
__co__ s32 [4] div(s32 [4] a, s32 [4] b) {
  s32 [4] r;
  parallel i by 4 : thread r.at(i) = a.at(i) / b.at(i);
  return r;
}
__co__ s32 [4] mod(s32 [4] a, s32 [4] b) {
  s32 [4] r;
  parallel i by 4 : thread r.at(i) = a.at(i) % b.at(i);
  return r;
}
__co__ s32 [4] guarded(s32 [4] a, s32 [4] b) {
  s32 [4] r;
  parallel i by 4 : thread r.at(i) = b.at(i) != 0 ? a.at(i) / b.at(i) : -1;
  return r;
}
__co__ void narrow(s8 [4]& a, s8 [4] b) { parallel i by 4 : thread { a.at(i) /= b.at(i); a.at(i) %= 3; } }
__co__ auto parts(s32 [8] a, int n) {
  s32 [16 / n] r;
  parallel i by 16 / n : thread r.at(i) = a.at(i * n / 2);
  return r;
}
__co__ s32 branch(int n) { mutable s32 s = 1; if (n != 0) { s = 7 / n; } return s; }
__co__ s32 up(s32 [2] a) { return cdiv(a.at(0), a.at(1)) + __alignup(a.at(0), a.at(1)); }
"""


@pytest.fixture(scope="module")
def program() -> croq.Program:
    return croq.compile(SOURCE, target="cpu")


def s32(*values: int) -> np.ndarray:
    return np.array(values, np.int32)


def test_division_truncates_and_wraps(program: croq.Program) -> None:
    a, b = s32(7, -7, -(2**31), 5), s32(2, 2, -1, 3)
    np.testing.assert_array_equal(program.div(a, b), s32(3, -3, -(2**31), 1))
    np.testing.assert_array_equal(program.mod(a, b), s32(1, -1, 0, 2))


@pytest.mark.parametrize(("name", "line"), [("div", 4), ("mod", 9)])
def test_a_zero_divisor_stops_the_launch(program: croq.Program, name: str, line: int) -> None:
    with pytest.raises(croq.CheckError) as caught:
        program.functions[name](s32(1, 2, 3, 4), s32(1, 1, 0, 1))
    first = str(caught.value).splitlines()[0]
    assert first == f"cell:{line}:38: {name}: division by zero (at i = 2) [TYP22]"


def test_only_the_chosen_side_divides(program: croq.Program) -> None:
    np.testing.assert_array_equal(program.guarded(s32(1, 2, 3, 4), s32(1, 0, 2, 0)), s32(1, -1, 1, -1))
    assert (program.branch(0), program.branch(2)) == (1, 3)


def test_narrow_compound_division(program: croq.Program) -> None:
    a = np.array([100, 50, 7, -9], np.int8)
    program.narrow(a, np.array([7, 7, 7, 2], np.int8))
    np.testing.assert_array_equal(a, np.array([2, 1, 1, -1], np.int8))
    with pytest.raises(croq.CheckError, match=r"narrow: division by zero \(at i = 1\)"):
        program.narrow(a, np.array([7, 0, 7, 2], np.int8))


def test_a_parameter_that_divides_an_extent_is_checked_at_entry(program: croq.Program) -> None:
    np.testing.assert_array_equal(program.parts(np.arange(8, dtype=np.int32), 4), s32(0, 2, 4, 6))
    with pytest.raises(croq.CheckError, match=r"parts: division by zero: `16 / n` \(n = 0\)"):
        program.parts(np.arange(8, dtype=np.int32), 0)


def test_rounding_divisions(program: croq.Program) -> None:
    assert program.up(s32(7, 2)) == 4 + 8
    with pytest.raises(croq.CheckError, match="up: division by zero"):
        program.up(s32(7, 0))


def test_unchecked_when_asked_for(program: croq.Program) -> None:
    unchecked = croq.compile(SOURCE, target="cpu", checks="none")
    assert unchecked.div(s32(6, 6, 6, 6), s32(1, 2, 3, 0))[:3].tolist() == [6, 3, 2]
    assert " /? " in program.div.ir() and " /? " not in unchecked.div.ir()


def test_a_divisor_that_cannot_be_zero_is_not_checked() -> None:
    source = "__co__ auto f(s32 [M] x) { s32 [M] r; parallel p by M : thread r.at(p) = x.at(p) / 3 + p % M; return r; }"
    assert "/?" not in croq.compile(source, target="cpu").f.ir()
