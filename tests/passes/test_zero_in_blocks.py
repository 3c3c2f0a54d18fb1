"""zero-in-blocks: which fresh buffers each block sets to zero for itself, and what the programs then compute."""

from __future__ import annotations

import numpy as np
import pytest

import croq_magic as croq
from croq_magic.compiler import ir
from croq_magic.compiler.passes.base import Context, run_passes
from croq_magic.compiler.passes.drop_zeroing import reads_zeros
from croq_magic.compiler.passes.zero_in_blocks import ZeroInBlocks
from croq_magic.compiler.text import format_function
from tests import ir_builders as build

N, T = 6, 8
b, k = build.index("b", N, ir.Role.REGION), build.index("k", T)
x = build.buffer("x", (N * T,))


def written(out: ir.Buffer, *body: ir.Stmt, level: ir.Level = build.BLOCK, blocks: int = N) -> ir.Function:
    return build.returning("f", (), out, [build.launch("f", build.region(level, {"b": blocks}, body))])


def fills(function: ir.Function) -> list[str]:
    """The statements that set something to zero; the pass and `zeroed` must agree."""
    new = run_passes(function, [ZeroInBlocks()], Context())
    lines = [line.strip() for line in format_function(new).splitlines()]
    found = [line for line in lines if line.endswith("] = 0") and " : " in line]
    assert reads_zeros(function) and reads_zeros(new) == (not found)
    return found


def out(*shape: int) -> ir.Buffer:
    return build.buffer("out", shape, zeroed=True)


def test_rows_of_a_matrix() -> None:
    r = out(N, T)
    some = build.loop("k", T, [build.store(r, (b, k), k)], start=1, step=2)
    assert fills(written(r, some)) == ["out[b + c0, c1 : 1, 8] = 0"]


def test_chunks_of_a_row() -> None:
    r = out(N * T)
    some = build.loop("k", T, [build.store(r, (build.compose(b, k, T),), k)], start=1)
    assert fills(written(r, some)) == ["out[b * 8 + c0 : 8] = 0"]


def test_the_bound_of_a_loop_with_a_step_is_its_last_value() -> None:
    """k is 0 or 4 and j at most 3: together below 8, as `k < 8` alone would not show."""
    r = out(N * T)
    j = build.index("j", 4)
    place = build.plus(build.compose(b, k, T), j)
    inner = build.loop("j", 4, [build.store(r, (place,), j)])
    assert fills(written(r, build.loop("k", T, [inner], step=4))) == ["out[b * 8 + c0 : 8] = 0"]


def test_windows_that_reach_over_the_end() -> None:
    r = out(N * T - 3)
    some = ir.If(build.at(x, b), (build.store(r, (build.times(b, build.const(T)),), b),))
    assert fills(written(r, some)) == ["out[b * 8 + c0 : __min(8, -(b * 8) + 45)] = 0"]


def test_copies_count_with_all_they_reach() -> None:
    r = out(N * T)
    origin = build.times(b, build.const(T))
    half = build.copy(build.chunk(x, (origin,), (T // 2,)), build.chunk(r, (origin,), (T // 2,)))
    assert fills(written(r, half)) == ["out[b * 8 + c0 : 8] = 0"]  # with the half that no copy reaches
    two = build.copy(build.chunk(x, (origin,), (T + 1,)), build.chunk(r, (origin,), (T + 1,)))
    assert fills(written(r, two)) == []  # one element of the next block's window


def unsuitable() -> list[ir.Function]:
    r, whole, row = out(N * T), out(N, T), out(T)
    origin = build.times(b, build.const(T))
    return [
        written(row, build.loop("k", T, [build.store(row, (k,), k)], start=1)),  # every block
        written(r, build.store(r, (build.compose(b, build.at(x, b), T),), b)),  # an index nobody knows
        written(whole, build.store(whole, (b, k), build.at(whole, build.const(0), k))),  # reads the first block's row
        written(r, build.store(r, (origin,), b), build.store(r, (b,), b)),  # two ways to share it out
        written(r, ir.Call("f", (build.chunk(r, (origin,), (T,)),))),  # may write beyond its window
        written(whole, build.store(whole, (b, k), k), level=ir.Level.DEVICE),
        written(r, build.store(r, (origin,), b), blocks=1),
    ]


@pytest.mark.parametrize("function", unsuitable())
def test_no_part_for_itself(function: ir.Function) -> None:
    assert fills(function) == []


def test_a_host_statement_that_uses_it_first() -> None:
    r = out(N, T)
    launch = build.launch("f", build.region(build.BLOCK, {"b": N}, [build.store(r, (b, b), b)]))
    first = build.store(r, (build.const(0), build.const(0)), build.const(1))
    assert fills(build.returning("f", (), r, [first, launch])) == []


def test_results_in_memory_that_was_used_before() -> None:
    """Blocks that end early, write every third element or nothing at all leave zeros."""
    program = croq.compile(
        """
__co__ s32 [37, 19] some(s32 [37] x) {
  s32 [37, 19] r;
  parallel b by 37 : block {
    if (x.at(b) == 0) yield;
    foreach k in 19
      if (k % 3 == 1) r.at(b, k) = x.at(b) + k;
  }
  return r;
}""",
        target="cpu",
    )
    x = np.arange(37, dtype=np.int32) % 5
    wanted = np.where((np.arange(19) % 3 == 1) & (x[:, None] != 0), x[:, None] + np.arange(19), 0)
    for _ in range(20):
        used = np.full((37, 19), 7, np.int32)
        del used
        np.testing.assert_array_equal(program.some(x), wanted)
