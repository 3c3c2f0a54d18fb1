"""drop-zeroing: which fresh buffers need not be zero, and what the first load becomes."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from passes.cells import front

from croq_magic.compiler import ir, views
from croq_magic.compiler.passes.base import Context, run_passes
from croq_magic.compiler.passes.drop_zeroing import DropZeroing, reads_zeros
from croq_magic.compiler.passes.promote_accumulators import PromoteAccumulators
from croq_magic.compiler.text import format_function
from croq_magic.compiler.types import F32
from tests import ir_builders as build


def after(function: ir.Function) -> ir.Function:
    return run_passes(function, [PromoteAccumulators(), DropZeroing()], Context())


@pytest.mark.parametrize(
    ("function", "line"),
    [
        (build.matmul_dma(), "output_acc[qx, qy] = 0"),
        (build.matmul_dma(dtype=F32), "output_acc[qx, qy] = 0.0f"),
        (build.matmul_scalar(), "mutable output_acc: s32 = 0"),
    ],
)
def test_an_accumulator_starts_from_the_constant(function: ir.Function, line: str) -> None:
    new = after(function)
    assert reads_zeros(function) and not reads_zeros(new)
    lines = [text.strip() for text in format_function(new).splitlines()]
    assert line in lines
    assert sum("output[" in text for text in lines) == 1, "only the final store is left"


def test_copies_that_reach_every_element() -> None:
    assert not reads_zeros(after(build.ele_add()))


@pytest.mark.parametrize(
    "function",
    [
        build.matmul_dma(tile=(16, 15, 16)),  # 17 columns of tiles leave one column of 256 untouched
        build.matmul_dma(build.dim("M"), build.dim("K"), build.dim("N")),  # perhaps M is no multiple of 16
        build.ele_add(factors=(17, 5)),  # 5 chunks of 25 elements of 128
    ],
)
def test_elements_that_are_not_reached_stay_zero(function: ir.Function) -> None:
    new = after(function)
    assert reads_zeros(new) and "output: s32" in format_function(new).split("zeroed")[0]


N = 8
x, out = build.buffer("x", (N,)), build.buffer("out", (N,), zeroed=True)
p, i = build.index("p", N, ir.Role.REGION), build.index("i", N)


def written(*body: ir.Stmt, before: tuple[ir.Stmt, ...] = ()) -> ir.Function:
    kernel = build.region(build.BLOCK, {"p": N}, body)
    return build.returning("f", (), out, [*before, build.launch("f", kernel)])


def plain() -> ir.Function:
    return written(build.store(out, (p,), build.at(x, p)))


def repeated() -> ir.Function:
    return written(build.loop("i", N, [build.store(out, (p,), build.at(x, i))]))


def reversed_order() -> ir.Function:
    """7 - p reaches every element as well, but only sums with positive steps are recognised."""
    return written(build.store(out, (ir.Binary("-", build.const(7), p, ir.S32),), build.at(x, p)))


def shifted() -> ir.Function:
    return written(build.store(out, (build.plus(p, build.const(1)),), build.at(x, p)))


def conditional() -> ir.Function:
    return written(ir.If(ir.Binary("<", p, build.const(3), ir.BOOL), (build.store(out, (p,), build.at(x, p)),)))


def empty_loop() -> ir.Function:
    n = build.dim("K")
    inner = build.loop("i", ir.Binary("/", n, build.const(16), ir.S32), [build.store(out, (p,), build.at(x, p))])
    return written(inner)


def compound() -> ir.Function:
    return written(build.store(out, (p,), build.at(x, p), "+"))


def read_by_a_function() -> ir.Function:
    return written(ir.Call("f", (views.whole(out),)), build.store(out, (p,), build.at(x, p)))


def read_by_the_host() -> ir.Function:
    scalar = ir.Let(ir.Var("first", ir.S32), build.at(out, build.const(0)))
    return written(build.store(out, (p,), build.at(x, p)), before=(scalar,))


def loaded_again_later() -> ir.Function:
    """The second iteration loads what the first stored, not zero."""
    value = build.plus(build.at(out, p), build.at(x, p))
    return written(ir.For(i, build.const(0), build.const(N), 1, (build.store(out, (p,), value),)))


def neighbour() -> ir.Function:
    other = build.at(out, ir.Binary("-", build.const(7), p, ir.S32))
    return written(build.store(out, (p,), other))


def left_early() -> ir.Function:
    return written(ir.Yield(), build.store(out, (p,), build.at(x, p)))


def loop_left_early() -> ir.Function:
    """Whichever iteration ends the loop, the elements after it keep their zeros."""
    inner = build.loop("i", N, [build.store(out, (i,), build.at(x, i)), ir.If(build.at(x, i), (ir.Break(),))])
    return written(inner)


def after_a_loop_left_early() -> ir.Function:
    search = build.loop("i", N, [ir.If(build.at(x, i), (ir.Break(),)), ir.If(build.at(x, p), (ir.Continue(),))])
    return written(search, build.store(out, (p,), build.at(x, p)))


@pytest.mark.parametrize("function", [plain, repeated, after_a_loop_left_early])
def test_plain_stores(function: Callable[[], ir.Function]) -> None:
    assert not reads_zeros(run_passes(function(), [DropZeroing()], Context()))


@pytest.mark.parametrize(
    "function",
    [
        reversed_order, shifted, conditional, empty_loop, compound, read_by_a_function, read_by_the_host,
        loaded_again_later, neighbour, left_early, loop_left_early,
    ],
)  # fmt: skip
def test_zeros_that_may_be_seen_stay(function: Callable[[], ir.Function]) -> None:
    made = function()
    assert run_passes(made, [DropZeroing()], Context()) is made


THIRDS = """
__co__ s32 [{rows}, 8] f(s32 [{rows}, 8] x) {{
  s32 [{rows}, 8] r;
  parallel b by 4 : block, t by 8 : thread {{
    {body}
  }}
  return r;
}}
"""


@pytest.mark.parametrize(
    ("rows", "body", "dropped"),
    [
        (12, "r.at(b * 3, t) = 1; r.at(b * 3 + 2, t) = 3; r.at(b * 3 + 1, t) = 2;", True),
        (12, "r.at(b * 3, t) = 1; r.at(b * 3 + 2, t) = 3;", False),  # a row is left out
        (12, "r.at(b * 3, t) = 1; r.at(b * 3 + 1, t) = 3; if (x.at(b, t) > 0) { r.at(b * 3 + 2, t) = 2; }", False),
        (12, "r.at(b * 3, t) = 1; r.at(b * 3 + 1, t) = 3; r.at(b * 3 + 2, 7 - t) = 2;", False),  # not recognised
        (16, "foreach i in 2 { r.at(b * 4 + i, t) = 1; r.at(b * 4 + 2 + i, t) = 3; }", True),
        (16, "foreach i in 2 { r.at(b * 4 + i, t) = 1; r.at(b * 4 + 1 + i, t) = 3; }", False),
        (12, "r.at(b * 3, t) = 1; r.at(b * 3 + 1, t) = r.at(b * 3 + 2, t); r.at(b * 3 + 2, t) = 2;", False),
        (13, "r.at(b * 3, t) = 1; r.at(b * 3 + 1, t) = 2; r.at(b * 3 + 2, t) = 2;", False),
    ],
)
def test_stores_that_reach_every_element_together(rows: int, body: str, dropped: bool) -> None:
    functions, report = front(THIRDS.format(rows=rows, body=body))
    assert not report.errors, report.text()
    assert reads_zeros(DropZeroing()(functions["f"], Context())) != dropped
