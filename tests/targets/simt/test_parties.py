"""Who reaches a statement: threads by their indices, in a block and over blocks."""

from __future__ import annotations

import pytest
from passes.cells import front

from croq_magic.compiler import ir
from croq_magic.compiler.targets.simt.parties import parties
from croq_magic.compiler.targets.simt.threads import grid_chain, threads_of
from croq_magic.compiler.visit import walk


def reached(condition: str, levels: str, blocks: bool = False) -> list[int] | None:
    """Numbers of the threads that satisfy an `inthreads` of a launch of 3 blocks, all in the grid or in one block."""
    text = f"""__co__ void f(s32 [1]& x, int n) {{
      parallel b by 3 : block, {levels} {{ inthreads ({condition}) {{ x.at(0) = 1; }} }}
    }}"""
    functions, report = front(text)
    assert not report.errors, report.text()
    (launch,) = functions["f"].launches()
    (mask,) = [s for s in walk(launch.kernel.region) if isinstance(s, ir.Masked)]
    grid = grid_chain(launch.kernel.region)
    chain = [n for n in walk(grid[-1].body) if isinstance(n, ir.Region)]
    axes = list(zip(grid[-1].indices, grid[-1].extents, strict=True)) if blocks else []
    varying = {var.name for region in chain for var in region.indices}
    return parties(threads_of(grid[-1]), chain, [mask.predicate], varying, axes)


THREADS = "t by 64 : thread"
GROUPS = "w by 2 : group, t by 32 : thread"


@pytest.mark.parametrize(
    ("condition", "levels", "expected"),
    [
        ("t < 10", THREADS, list(range(10))),
        ("t % 16 == 3", THREADS, [3, 19, 35, 51]),
        ("w == 1", GROUPS, list(range(32, 64))),
        ("w == 1 && t == 0", GROUPS, [32]),
        ("w == 1 || t == 0", GROUPS, [0, *range(32, 64)]),
        ("j == 1", "{i, j} by [4, 8] : thread", [4, 5, 6, 7]),  # the first index is the fastest
        ("w == 0 && b == 2", GROUPS, list(range(32))),  # what is the same for the whole block does not count
        ("t < n", THREADS, None),
    ],
)
def test_in_a_block(condition: str, levels: str, expected: list[int] | None) -> None:
    assert reached(condition, levels) == expected


def test_over_all_blocks() -> None:
    assert reached("t < 2", THREADS, blocks=True) == [0, 1, 64, 65, 128, 129]
    assert reached("t < 2 && b == 1", THREADS, blocks=True) == [64, 65]
