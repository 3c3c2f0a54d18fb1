"""A sum of signed integers that does not fit wraps, also where it is looked at by way of a variable."""

from __future__ import annotations

import numpy as np
import pytest

import croq_magic as croq

COMPARED = """
__co__ s32 [64] f({t} [64] x, {t} [64] y) {{
  s32 [64] r;
  parallel b by 1 : block {{ parallel t by 64 : thread {{
    {t} a = x.at(t);
    mutable {t} s = a + y.at(t);
    {t} twice = a * 2;
    {t} next = a + 1;
    {t} later = next + 1;
    mutable s32 c = 0;
    if (s < a) c = c + 1;
    if (twice / 2 != a) c = c + 2;
    if (next > a) c = c + 4;
    s = s + 5;
    if (s < 5) c = c + 8;
    local {t} [1] m;
    m.at(0) = a + 7;
    if (m.at(0) < a) c = c + 16;
    m.at(0) += y.at(t);
    if (m.at(0) < y.at(t)) c = c + 32;
    if (later > 0) c = c + 64;
    r.at(t) = c;
  }} }}
  return r;
}}
"""


@pytest.mark.parametrize("target", ["cpu", "opencl", "emulate"])
@pytest.mark.parametrize("name", ["s32", "s64"])
def test_sums_wrap(target: str, name: str) -> None:
    kind = {"s32": np.int32, "s64": np.int64}[name]
    limits = np.iinfo(kind)
    rng = np.random.default_rng(7)
    x, y = rng.integers(limits.min, limits.max, (2, 64), kind, endpoint=True)
    x[:8], x[8:16], x[16:20], y[:4] = limits.max, limits.min, limits.max - 1, 1
    two, one = kind(2), kind(1)
    with np.errstate(over="ignore"):
        total, twice, following, moved = x + y, x * two, x + one, x + kind(7)
        half = np.array([abs(int(v)) // 2 * (1 if v > 0 else -1) for v in twice])
        seen = [total < x, half != x, following > x, total + kind(5) < 5, moved < x, moved + y < y, following + one > 0]
    expected = sum(bit.astype(np.int32) << place for place, bit in enumerate(seen))
    assert len(np.unique(expected)) > 8
    result = croq.compile(COMPARED.format(t=name), target=target).functions["f"](x, y)
    assert np.array_equal(result, expected)


def test_accumulators_stay_as_they_are() -> None:
    text = """
    __co__ s32 [4] f(s32 [4, 8] x) {
      s32 [4] r;
      parallel i by 4 : thread {
        mutable s32 sum = 0;
        foreach k in [8] { sum = sum + x.at(i, k); }
        r.at(i) = sum;
      }
      return r;
    }"""
    program = croq.compile(text, target="opencl")
    x = np.full((4, 8), 2**30, np.int32)
    assert np.array_equal(program.functions["f"](x), x.sum(axis=1, dtype=np.int32))
    assert "sum += x[" in program.source()
