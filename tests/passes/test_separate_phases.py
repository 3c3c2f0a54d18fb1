"""separate-phases: launches cut at the meetings of their blocks, and which stay one."""

from __future__ import annotations

import numpy as np
import pytest

import croq_magic as croq
from croq_magic.compiler.passes.base import Context, run_passes
from croq_magic.compiler.passes.separate_phases import SeparatePhases
from croq_magic.compiler.passes.split_regions import SplitRegions
from croq_magic.compiler.text import format_function
from tests.passes.cells import front

PROGRAM = """
__co__ s32 [12] ring(s32 [12] x) {{
  s32 [12] a, r;
  parallel b by 12 : block<cooperative> {{
    {body}
  }}
  return r;
}}"""
RING = "a.at(b) = x.at(b) * 2; sync.barrier : block; r.at(b) = a.at((b + 1) % 12);"


def launches(body: str) -> int:
    functions, report = front(PROGRAM.format(body=body))
    assert not report.errors, report.text()
    text = format_function(run_passes(functions["ring"], [SplitRegions(), SeparatePhases()], Context()))
    assert ("cooperative" in text) == ("region device" in text)
    return text.count("launch ")


@pytest.mark.parametrize(
    ("body", "count"),
    [
        (RING, 2),
        (f"{RING} sync.barrier : block; a.at(b) = 0;", 3),
        ("mutable s32 v = x.at(b); a.at(b) = v; sync.barrier : block; r.at(b) = a.at((b + 1) % 12) + v;", 1),
        (f'{RING} println("b = ", b);', 1),
        (f"foreach k in 3 {{ {RING} sync.barrier : block; }}", 1),
    ],
)
def test_launches(body: str, count: int) -> None:
    """A scalar that lives on, an order of prints and a loop around the meeting keep a launch together."""
    assert launches(body) == count


def test_blocks_see_what_others_stored() -> None:
    x = np.arange(12, dtype=np.int32)
    again = f"{RING} sync.barrier : block; r.at(b) += a.at((b + 5) % 12);"
    result = croq.compile(PROGRAM.format(body=again), target="cpu").ring(x)
    np.testing.assert_array_equal(result, 2 * np.roll(x, -1) + 2 * np.roll(x, -5))
