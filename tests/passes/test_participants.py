"""Which level a join has to be of, so that it covers all threads that `inthreads` selects."""

from __future__ import annotations

import pytest
from passes.cells import front
from targets.cuda_text import kernel

from croq_magic.compiler import ir
from croq_magic.compiler.passes.participants import meeting_level
from croq_magic.compiler.targets.simt.threads import grid_chain, threads_of
from croq_magic.compiler.visit import walk

BLOCK, GROUP, GROUP4 = ir.Level.BLOCK, ir.Level.GROUP, ir.Level.GROUP4
WARPS = "w by 4 : group, t by 32 : thread"
FOURS = "g by 2 : group-4, t by 128 : thread"


def launch(condition: str, levels: str) -> str:
    return f"""__co__ void f(s32 [96] x, s32 [256]& r, int n) {{
      parallel b by 3 : block, {levels} {{
        inthreads.async ({condition}) {{ u = dma.copy x => shared; r.at(t) = u.data.at((t * 5 + 3) % 96); }}
      }}
    }}"""


@pytest.mark.parametrize(
    ("condition", "levels", "expected"),
    [
        ("t < 32", "t by 64 : thread", BLOCK),  # no unit was written
        ("w == 2", WARPS, GROUP),
        ("w == 2 && t < 16", WARPS, GROUP),
        ("w >= 3", WARPS, GROUP),
        ("w < 2", WARPS, BLOCK),
        ("w < 4", WARPS, BLOCK),
        ("t < 16", WARPS, BLOCK),  # of every warp
        ("t == 0", WARPS, BLOCK),
        ("w == n", WARPS, GROUP),
        ("w == n && t < 16", WARPS, GROUP),
        ("w < n", WARPS, BLOCK),
        ("w < 9 && t < 32", "w by 1 : group, t by 32 : thread", GROUP),
        ("g == 1", FOURS, GROUP4),
        ("g == 0 && t < 64", FOURS, GROUP4),
        ("t < 64", FOURS, BLOCK),
    ],
)
def test_level(condition: str, levels: str, expected: ir.Level) -> None:
    functions, report = front(launch(condition, levels))
    assert not report.errors, report.text()
    (found,) = functions["f"].launches()
    (mask,) = [s for s in walk(found.kernel.region) if isinstance(s, ir.Masked)]
    block = grid_chain(found.kernel.region)[-1]
    chain = [n for n in walk(block.body) if isinstance(n, ir.Region)]
    assert meeting_level(threads_of(block), chain, [mask.predicate]) is expected


@pytest.mark.parametrize(
    ("condition", "levels", "lines"),
    [
        ("w == 2", WARPS, ["__syncwarp();"]),
        ("w == 2 && t < 16", WARPS, ["__syncwarp(0x0000ffffu);"]),
        ("w == 1 && t >= 20", WARPS, ["__syncwarp(0xfff00000u);"]),
        ("w < 2", WARPS, ["croq_bar_sync(15, 64);"]),
        ("!(w == 1)", WARPS, ["croq_bar_sync(15, 96);"]),
        ("w < 4", WARPS, ["__syncthreads();"]),
        (
            "t < 16",
            WARPS,
            [
                "croq_mbarrier_init(&meeting[0], 64);",
                "croq_mbarrier_arrive(&meeting[0]); croq_mbarrier_wait(&meeting[0], meeting_turn); meeting_turn ^= 1u;",
            ],
        ),
        ("g == 1", FOURS, ["croq_bar_sync(15 - thread / 128, 128);"]),
        ("g == 0 && t < 64", FOURS, ["croq_bar_sync(13, 64);"]),  # 15 and 14 are those of the warpgroups
    ],
)
def test_barrier(condition: str, levels: str, lines: list[str]) -> None:
    text = kernel(launch(condition, levels))
    for line in lines:
        assert line in text, text
