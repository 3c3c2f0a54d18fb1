"""renew-joins: barriers for accesses that have moved to registers go away, others stay."""

from __future__ import annotations

from passes.cells import front

from croq_magic.compiler import ir
from croq_magic.compiler.passes.base import Context, run_passes
from croq_magic.compiler.passes.promote_accumulators import PromoteAccumulators
from croq_magic.compiler.passes.renew_joins import RenewJoins
from croq_magic.compiler.visit import walk


def barriers(body: str) -> tuple[list[str], list[str]]:
    """The reasons of all barriers in loops, before and after the pass."""
    functions, report = front(f"__co__ void f(s32 [64, 64] x, s32 [64]& y) {{ parallel b by 1 : block {{ {body} }} }}")
    assert not report.errors, report.text()
    before = run_passes(functions["f"], [PromoteAccumulators()], Context())
    after = run_passes(before, [RenewJoins()], Context())

    def reasons(function: ir.Function) -> list[str]:
        loops = [node for node in walk(function.body) if isinstance(node, ir.For)]
        return [node.reason for loop in loops for node in walk(loop.body) if isinstance(node, ir.Barrier)]

    return reasons(before), reasons(after)


def test_an_accumulator_needs_no_join() -> None:
    before, after = barriers("foreach k in 4 { parallel p by 64 : thread { y.at(p) += x.at(k, p); } }")
    assert len(before) == 1
    assert after == []


def test_tiles_keep_their_joins() -> None:
    before, after = barriers(
        "foreach k in 4 { t = dma.copy x.chunkat(k, _) => shared;"
        " parallel p by 64 : thread { y.at(p) += t.data.at(k, 63 - p); } }"
    )
    assert len(before) == len(after) == 2


def test_the_programs_own_barriers_stay() -> None:
    _, after = barriers("foreach k in 4 { parallel p by 64 : thread { y.at(p) += x.at(k, p);  sync.shared; } }")
    assert after.count("") == 1
