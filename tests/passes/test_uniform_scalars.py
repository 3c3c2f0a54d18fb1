"""Scalars that all instances share across barriers, loop invariants, and fills that nothing reads."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from passes.cells import front

import croq_magic as croq
from croq_magic.compiler import ir
from croq_magic.compiler.passes.base import Context
from croq_magic.compiler.passes.loop_invariants import invariants
from croq_magic.compiler.passes.split_regions import SplitRegions
from croq_magic.compiler.text import format_function
from croq_magic.compiler.visit import walk

CELL = """
__co__ s32 [64] f(s32 [64] x, s32 [4] c) {{
  s32 [64] r;
  parallel b by 1 : block, t by 64 : thread {{
    shared s32 [64] s;
    s.at(t) = x.at(t);
    sync.shared;
    {body}
  }}
  return r;
}}
"""
SCAN = """
    mutable int hop = {start};
    while (hop {test}) {{
      mutable s32 add = 0;
      {guard} {{ add = s.at({index}); }}
      sync.shared;
      s.at(t) += add;
      sync.shared;
      hop = {step};
    }}
    r.at(t) = s.at(t);
"""


def scan(
    start: object = 1, test: str = "< 64", guard: str = "if (t >= hop)", index: str = "t - hop", step: str = "hop * 2"
):
    return CELL.format(body=SCAN.format(start=start, test=test, guard=guard, index=index, step=step))


def split(text: str) -> str:
    functions, report = front(text)
    assert not report.errors, report.text()
    return format_function(SplitRegions()(functions["f"], Context()))


def test_a_uniform_scalar_is_kept_once() -> None:
    text = split(scan())
    assert "mutable hop: s32 = 1" in text and "hop = hop * 2" in text and "hop_each" not in text
    assert "s[t - hop]?" not in text


@pytest.mark.parametrize(
    "body",
    [
        "mutable int v = 1; sync.shared; if (x.at(t) > 0) { v = 2; } sync.shared; r.at(t) = s.at(63 - t) + v;",
        "mutable int v = t; sync.shared; r.at(t) = s.at(63 - t) + v;",
        "mutable int v = c.at(t % 4); sync.shared; r.at(t) = s.at(63 - t) + v;",
        "mutable int v = 0; foreach k in 3 { v += 1; } sync.shared; r.at(t) = s.at(63 - t) + v;",
    ],
)
def test_others_are_kept_per_instance(body: str) -> None:
    assert "v_each" in split(CELL.format(body=body))


@pytest.mark.gpu_refuses("UNS01")  # a `yield` in front of a loop in which others wait
@pytest.mark.parametrize("strategy", ["loops", "fibers"])
def test_values(strategy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CROQ_STRATEGY", strategy)
    x, c = np.random.default_rng(3).integers(-9, 9, 64).astype(np.int32), np.zeros(4, np.int32)
    run = lambda text: croq.compile(text, target="cpu").functions["f"](x, c)  # noqa: E731
    np.testing.assert_array_equal(run(scan()), np.cumsum(x))
    body = """mutable int k = 0; mutable int last = 5;
      if (t == 7) yield;
      while (k < 5) { sync.shared; last = k; if (last == 3) { break; } s.at(t) += last; k += 1; }
      sync.shared; r.at(t) = s.at(t) * 100 + k * 10 + last;"""
    got = run(CELL.format(body=body))
    expected = (x + 0 + 1 + 2) * 100 + 33
    expected[7] = 0
    np.testing.assert_array_equal(got, expected)


def loops(text: str) -> list[tuple[ir.Body, ir.While]]:
    functions, report = front(text)
    assert not report.errors, report.text()
    regions = [n for n in walk(functions["f"].body) if isinstance(n, ir.Region)]
    return [(r.body[: r.body.index(s)], s) for r in regions for s in r.body if isinstance(s, ir.While)]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, [(">=", 1)]),
        ({"step": "hop + 3"}, [(">=", 1)]),
        ({"step": "hop << 1"}, [(">=", 1)]),
        ({"start": 32, "test": "> 0", "step": "hop / 2"}, [("<=", 32)]),
        ({"start": 32, "test": "> 0", "step": "hop >> 1"}, [("<=", 32)]),
        ({"start": 32, "test": ">= 1", "step": "hop - 3"}, [("<=", 32)]),
        ({"test": "!= 64"}, []),  # may wrap
        ({"test": "< 1073741825", "step": "hop * 2"}, []),
        ({"test": "< 64 && hop != 7", "step": "hop * 2"}, [(">=", 1)]),
        ({"start": -5}, []),
        ({"start": "x.at(0)"}, []),
        ({"step": "hop * hop"}, []),
        ({"step": "hop * 0"}, []),
        ({"step": "hop * 2; hop = hop + 1"}, []),
    ],
)
def test_invariants(changes: dict[str, object], expected: list[tuple[str, int]]) -> None:
    ((before, loop),) = loops(scan(**changes))
    found = [(e.op, e.right.value) for e in invariants(before, loop) if isinstance(e, ir.Binary)]
    assert found == expected


def test_a_wrong_index_is_still_found() -> None:
    x, c = np.ones(64, np.int32), np.zeros(4, np.int32)
    with pytest.raises(croq.CheckError, match="index 64 is out of range for dimension 0 of `s`"):
        croq.compile(scan(guard="if (t < 64)", index="t + hop"), target="cpu").functions["f"](x, c)


FILL = """
__co__ f32 [16, 8] f(f32 [16, 8] x, int n) {{
  f32 [16, 8] r;
  parallel b by 1 : block, t by 128 : thread {{
    frag f32 [16, 8] s {{3.0f}};
    frag f32 [16] m;
    {body}
    reduce_max(m, s, 1);
    apply {{i, j}} in s.span r.at(i, j) = s.at(i, j) - m.at(i);
  }}
  return r;
}}
"""


@pytest.mark.parametrize(
    ("body", "fills", "expected"),
    [
        ("apply {i, j} in s.span s.at(i, j) = x.at(i, j);", False, lambda x: x),
        ("apply {i, j} in s.span s.at(i, j) += x.at(i, j);", True, lambda x: x + 3),
        (
            "apply {i, j} in s.span { if (j < n) s.at(i, j) = x.at(i, j); }",
            True,
            lambda x: np.where(np.arange(8) < 5, x, 3),
        ),
        ("apply {i, j} in s.span s.at(i, j) = s.at(i, j) * 2 + x.at(i, j);", True, lambda x: x + 6),
    ],
)
def test_fills(body: str, fills: bool, expected: Callable[[np.ndarray], np.ndarray]) -> None:
    program = croq.compile(FILL.format(body=body), target="cpu")
    x = np.random.default_rng(0).random((16, 8), np.float32)
    x[3, 2] = x[0, 0] = np.nan
    got = program.functions["f"](x, 5)
    if program.target == "cpu":
        assert ("3.0f" in program.source()) == fills
    s = expected(x).astype(np.float32)
    np.testing.assert_array_equal(got, s - np.nanmax(s, axis=1, keepdims=True))
