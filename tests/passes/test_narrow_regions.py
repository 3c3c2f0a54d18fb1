"""narrow-regions: conditions on an index as the extent of the region, and where they must stay conditions."""

from __future__ import annotations

import numpy as np
import pytest

import croq_magic as croq
from croq_magic.compiler import ir
from croq_magic.compiler.passes.base import Context, run_passes
from croq_magic.compiler.passes.narrow_regions import NarrowRegions
from croq_magic.compiler.text import format_function
from croq_magic.compiler.types import BOOL
from tests import ir_builders as build

T = 64
t, u = build.index("t", T, ir.Role.REGION), build.index("u", 4, ir.Role.REGION)
s = build.buffer("s", (T,), storage=ir.Storage.SHARED)
w = ir.Var("w", ir.S32, ir.Role.LET)
n = ir.Var("n", ir.S32, ir.Role.PARAM)


def compare(left: ir.Expr, op: str, right: ir.Expr | int) -> ir.Binary:
    return ir.Binary(op, left, build.const(right), BOOL)


def both(a: ir.Expr, b: ir.Expr) -> ir.Binary:
    return ir.Binary("&&", a, b, BOOL)


DOUBLE = build.store(s, (t,), t)


def after(*body: ir.Stmt) -> list[str]:
    """The lines of a block whose threads run `body`, after the pass."""
    threads = build.region(build.THREAD, {"t": T}, body)
    function = build.returning(
        "f", (), build.buffer("out", (1,)), [build.launch("f", build.region(build.BLOCK, {}, [threads]))]
    )
    lines = format_function(run_passes(function, [NarrowRegions()], Context())).splitlines()
    start = next(i for i, line in enumerate(lines) if "region block" in line)
    return [line.strip() for line in lines[start + 1 :] if line.strip(" }") and "return" not in line]


@pytest.mark.parametrize(
    ("condition", "lines"),
    [
        (compare(t, "<", 10), ["region thread [t < 10] {", "s[t] = t"]),
        (compare(t, "<=", 10), ["region thread [t < 11] {", "s[t] = t"]),
        (compare(t, "<", 100), ["region thread [t < 64] {", "s[t] = t"]),
        (compare(build.const(10), ">", t), ["region thread [t < 10] {", "s[t] = t"]),
        (compare(t, "<", n), ["region thread [t < __min(64, n)] {", "s[t] = t"]),
        (compare(t, ">=", 60), ["region thread [t < 4] {", "s[t + 60] = t + 60"]),
        (compare(t, ">", 60), ["region thread [t < 3] {", "s[t + 61] = t + 61"]),
        (compare(t, ">=", -1), ["region thread [t < 64] {", "s[t] = t"]),
        (compare(t, "==", 0), ["region thread [t < 1] {", "s[t] = t"]),
        (compare(t, "==", 5), ["region thread [t < 1] {", "s[t + 5] = t + 5"]),
        (compare(t, "==", 64), []),
        (compare(t, "<", 0), []),
        (both(compare(t, ">=", 8), compare(t, "<", 12)), ["region thread [t < 4] {", "s[t + 8] = t + 8"]),
    ],
)
def test_a_range_of_an_index(condition: ir.Expr, lines: list[str]) -> None:
    assert after(ir.If(condition, (DOUBLE,))) == lines


def test_what_is_not_a_range_stays_a_condition() -> None:
    odd = compare(ir.Binary("%", t, build.const(2), ir.S32), "==", 1)
    assert after(ir.If(both(odd, compare(t, "<", 10)), (DOUBLE,))) == [
        "region thread [t < 10] {",
        "if t % 2 == 1 {",
        "s[t] = t",
    ]


def test_a_scalar_that_is_the_same_for_all_moves_out() -> None:
    value = ir.Binary(">>", build.const(32), n, ir.S32)
    assert after(ir.Let(w, value), ir.If(compare(t, "<", w), (DOUBLE,))) == [
        "scope {",
        "let w: s32 = 32 >> n",
        "region thread [t < __min(64, w)] {",
        "s[t] = t",
    ]


@pytest.mark.parametrize(
    "body",
    [
        (ir.If(compare(t, "<", 10), (DOUBLE,), (DOUBLE,)),),  # the others do something too
        (DOUBLE, ir.If(compare(t, "<", 10), (DOUBLE,))),
        (ir.Let(w, t), ir.If(compare(w, "<", 10), (DOUBLE,))),  # not the index itself
        (ir.Let(w, t), ir.If(compare(t, "<", w), (DOUBLE,))),  # a bound of each thread
        (ir.If(compare(t, "<", build.at(s, t)), (DOUBLE,)),),
        (ir.If(compare(t, "<", build.plus(n, n)), (DOUBLE,)),),  # may wrap around
        (ir.If(compare(t, ">=", n), (DOUBLE,)),),
        (ir.If(compare(t, "!=", 3), (DOUBLE,)),),
        (ir.If(compare(t, ">=", 8), (ir.Store(s and build.chunk(s, (build.const(0),), (T,)), (t,), t, checks=(0,)),)),),
    ],
)
def test_regions_that_stay(body: tuple[ir.Stmt, ...]) -> None:
    assert after(*body)[0] == "region thread [t < 64] {"


def test_shared_storage_is_declared_before_the_region() -> None:
    assert after(ir.Declare(s), DOUBLE) == ["shared s: s32 [64]", "region thread [t < 64] {", "s[t] = t"]


def test_a_reduction_whose_width_shrinks() -> None:
    program = croq.compile(
        """
__co__ s32 [5, 3] sums(s32 [5, 48] x, int first) {
  s32 [5, 3] r;
  parallel b by 5 : block {
    shared s32 [48] s;
    parallel t by 48 : thread {
      s.at(t) = x.at(b, t);
      sync.shared;
      foreach k in 4 {
        w = 24 >> k;
        if (t < w) s.at(t) += s.at(t + w);
        sync.shared;
      }
      if (t == 1) r.at(b, 0) = s.at(0) + s.at(1) + s.at(2);
      sync.shared;
      if (t >= 46) r.at(b, t - 45) = s.at(t) * 10;
      sync.shared;
      if (t < first) s.at(t) = 0;
    }
  }
  return r;
}""",
        target="cpu",
    )
    x = np.arange(240, dtype=np.int32).reshape(5, 48) % 31
    for first in (-3, 0, 1000):
        wanted = np.stack([x.sum(axis=1), x[:, 46] * 10, x[:, 47] * 10], axis=1)
        np.testing.assert_array_equal(program.sums(x, first), wanted)
