"""Regions split at joins: as text, and run on the CPU."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

import numpy as np
import pytest

from croq_magic.compiler import integers, ir, views
from croq_magic.compiler.passes.base import Context
from croq_magic.compiler.passes.split_regions import SplitRegions
from croq_magic.compiler.text import format_function
from croq_magic.compiler.types import BOOL, S32
from croq_magic.compiler.visit import walk
from tests import ir_builders as b
from tests.targets.run_ir import run

BLOCK, GROUP, THREAD = ir.Level.BLOCK, ir.Level.GROUP, ir.Level.THREAD
BARRIER = ir.Barrier(BLOCK)
N = 32
X = (np.arange(N, dtype=np.int32) * 7) % 5


def shared(name: str = "s", size: int = N) -> ir.Buffer:
    return b.buffer(name, (size,), storage=ir.Storage.SHARED)


def program(make: object, blocks: int = 1) -> ir.Function:
    """One block of N threads; `make(x, r, t)` gives the body of a thread."""
    x, r = b.param("x", (N,)), b.buffer("r", (N,), zeroed=True)
    t = b.index("t", N, ir.Role.REGION)
    body = make(x.buffer, r, t)  # type: ignore[operator]
    kernel = b.region(BLOCK, {"p": blocks}, [b.region(THREAD, {"t": N}, body)])
    return b.returning("f", (x,), r, [b.launch("f", kernel)])


def kernel_text(function: ir.Function) -> str:
    """The text of the block region's body after the pass."""
    lines = format_function(SplitRegions()(function, Context())).splitlines()
    start = next(i for i, line in enumerate(lines) if "region block" in line)
    end = next(i for i in range(start, len(lines)) if lines[i] == "    }")
    return textwrap.dedent("\n".join(lines[start + 1 : end]))


def minus(a: ir.Expr, c: ir.Expr) -> ir.Expr:
    return ir.Binary("-", a, c, S32)


def less(a: ir.Expr, c: ir.Expr) -> ir.Expr:
    return ir.Binary("<", a, c, BOOL)


def test_nothing_to_split_is_unchanged() -> None:
    for function in (b.matmul_dma(), b.ele_add(), b.row_sum(), b.saxpy()):
        assert SplitRegions()(function, Context()) is function


def test_barrier_between_two_statements() -> None:
    s = shared()

    def make(x: ir.Buffer, r: ir.Buffer, t: ir.Var) -> Sequence[ir.Stmt]:
        last = minus(b.const(N - 1), t)
        return [ir.Declare(s), b.store(s, (t,), b.at(x, t)), BARRIER, b.store(r, (t,), b.at(s, last))]

    assert kernel_text(program(make)) == textwrap.dedent("""\
        region thread [t < 32] {
          shared s: s32 [32]
          s[t] = x[t]
        }
        region thread [t < 32] {
          r[t] = s[-t + 31]
        }""")
    np.testing.assert_array_equal(run(program(make), X), X[::-1])


def test_scalars_that_live_across_a_join_are_kept_per_instance() -> None:
    s = shared()
    v, w, acc = ir.Var("v"), ir.Var("w"), ir.Var("acc", S32, ir.Role.MUTABLE)

    def make(x: ir.Buffer, r: ir.Buffer, t: ir.Var) -> Sequence[ir.Stmt]:
        return [
            ir.Declare(s),
            ir.Let(v, b.at(x, t)),  # a load: kept
            ir.Let(w, minus(b.const(N - 1), t)),  # of indices alone: computed again
            ir.Let(acc, b.const(0)),
            ir.Assign(acc, b.plus(acc, v)),
            b.store(s, (t,), v),
            BARRIER,
            ir.Assign(acc, b.plus(acc, b.at(s, w))),
            b.store(r, (t,), b.plus(acc, b.times(v, b.const(100)))),
        ]

    text = kernel_text(program(make))
    assert "register v_each: s32 [32]" in text and "register acc_each: s32 [32]" in text
    assert text.count("let w: s32 = 31 - t") == 2 and "w_each" not in text
    np.testing.assert_array_equal(run(program(make), X), X + X[::-1] + 100 * X)


def test_barriers_in_a_uniform_loop_with_a_mutable_condition() -> None:
    s, hop, add = shared(), ir.Var("hop", S32, ir.Role.MUTABLE), ir.Var("add", S32, ir.Role.MUTABLE)

    def make(x: ir.Buffer, r: ir.Buffer, t: ir.Var) -> Sequence[ir.Stmt]:
        fetch = ir.If(ir.Binary(">=", t, hop, BOOL), (ir.Assign(add, b.at(s, minus(t, hop))),))
        steps = (
            ir.Let(add, b.const(0)), fetch, BARRIER,
            b.store(s, (t,), add, "+"), BARRIER,
            ir.Assign(hop, b.times(hop, b.const(2))),
        )  # fmt: skip
        return [
            ir.Declare(s), b.store(s, (t,), b.at(x, t)), BARRIER, ir.Let(hop, b.const(1)),
            ir.While(less(hop, b.const(N)), steps),
            b.store(r, (t,), b.at(s, t)),
        ]  # fmt: skip

    text = kernel_text(program(make))
    assert "while hop < 32 {" in text and "hop = hop * 2" in text and "hop_each" not in text
    np.testing.assert_array_equal(run(program(make), X), np.cumsum(X))


def test_break_in_a_loop_that_moved_outside() -> None:
    s = shared()

    def make(x: ir.Buffer, r: ir.Buffer, t: ir.Var) -> Sequence[ir.Stmt]:
        k = b.index("k", 10)
        stop = ir.If(ir.Binary("==", k, b.const(3), BOOL), (ir.Break(),))
        body = [
            b.store(s, (t,), b.at(x, t)),
            BARRIER,
            stop,
            b.store(r, (t,), b.at(s, minus(b.const(N - 1), t)), "+"),
            BARRIER,
        ]
        return [ir.Declare(s), b.loop("k", 10, body)]

    np.testing.assert_array_equal(run(program(make), X), 3 * X[::-1])


def test_collective_copy_inside_threads_is_made_once() -> None:
    s = shared()

    def make(x: ir.Buffer, r: ir.Buffer, t: ir.Var) -> Sequence[ir.Stmt]:
        return [ir.Declare(s), b.copy(x, s), b.store(r, (t,), b.plus(b.at(s, minus(b.const(N - 1), t)), t))]

    text = kernel_text(program(make))
    assert "\ncopy x => s\n" in text
    np.testing.assert_array_equal(run(program(make), X), X[::-1] + np.arange(N))


def test_masked_regions_join() -> None:
    s = shared()

    def make(x: ir.Buffer, r: ir.Buffer, t: ir.Var) -> Sequence[ir.Stmt]:
        low = ir.Masked(less(t, b.const(16)), (b.store(s, (t,), b.at(x, t)),))
        high = ir.Masked(ir.Binary(">=", t, b.const(16), BOOL), (b.store(s, (t,), minus(b.const(0), b.at(x, t))),))
        return [ir.Declare(s), low, high, b.store(r, (t,), b.at(s, minus(b.const(N - 1), t)))]

    expect = np.where(np.arange(N) < 16, X, -X)[::-1]
    np.testing.assert_array_equal(run(program(make), X), expect)


def test_instances_that_yield_take_no_part_in_later_segments() -> None:
    s = shared()

    def make(x: ir.Buffer, r: ir.Buffer, t: ir.Var) -> Sequence[ir.Stmt]:
        out = ir.If(ir.Binary("==", ir.Binary("%", t, b.const(3), S32), b.const(0), BOOL), (ir.Yield(),))
        return [
            ir.Declare(s),
            b.store(s, (t,), b.at(x, t)),
            out,
            BARRIER,
            b.store(r, (t,), b.at(s, minus(b.const(N - 1), t))),
        ]

    expect = np.where(np.arange(N) % 3 == 0, 0, X[::-1])
    np.testing.assert_array_equal(run(program(make), X), expect)


def test_local_storage_across_a_join() -> None:
    s = shared()
    mine = b.buffer("mine", (3,), storage=ir.Storage.LOCAL)

    def make(x: ir.Buffer, r: ir.Buffer, t: ir.Var) -> Sequence[ir.Stmt]:
        k = b.index("k", 3)
        fill = b.loop("k", 3, [b.store(mine, (k,), b.plus(b.at(x, t), k))])
        total = b.loop("k", 3, [b.store(r, (t,), b.at(mine, k), "+")])
        return [ir.Declare(s), ir.Declare(mine, init=b.const(1)), fill, b.store(s, (t,), b.const(1)), BARRIER, total]

    assert "register mine: s32 [32, 3]" in kernel_text(program(make))
    np.testing.assert_array_equal(run(program(make), X), 3 * X + 3)


def test_nested_regions_are_split_together_at_a_block_barrier() -> None:
    """Groups of threads: a block barrier inside the threads splits both levels, a group barrier only the inner."""
    for scope in (BLOCK, GROUP):
        s, r = shared("s", 64), b.buffer("r", (64,), zeroed=True)
        g, t = b.index("g", 2, ir.Role.REGION), b.index("t", 32, ir.Role.REGION)
        here = b.compose(g, t, 32)
        other = minus(b.const(63), here) if scope is BLOCK else b.plus(b.times(g, b.const(32)), minus(b.const(31), t))
        base = ir.Var("base")
        threads = b.region(THREAD, {"t": 32}, [
            ir.Let(base, b.times(g, b.const(1000))),
            b.store(s, (here,), b.plus(here, base)),
            ir.Barrier(scope),
            b.store(r, (here,), b.plus(b.at(s, other), base)),
        ])  # fmt: skip
        kernel = b.region(BLOCK, {"p": 1}, [ir.Declare(s), b.region(GROUP, {"g": 2}, [threads])])
        function = b.returning("f", (), r, [b.launch("f", kernel)])
        split = SplitRegions()(function, Context())
        groups = [n for n in walk(split.body) if isinstance(n, ir.Region) and n.level is GROUP]
        assert len(groups) == (2 if scope is BLOCK else 1)
        at = np.arange(64)
        written = at + 1000 * (at // 32)
        from_ = 63 - at if scope is BLOCK else at // 32 * 32 + 31 - at % 32
        np.testing.assert_array_equal(run(function), written[from_] + 1000 * (at // 32))


def test_grid_barrier_runs_blocks_in_phases() -> None:
    n = 8
    x, a, r = b.param("x", (n,)), b.buffer("a", (n,), zeroed=True), b.buffer("r", (n,), zeroed=True)
    tmp = b.buffer("tmp", (1,), storage=ir.Storage.SHARED)
    p = b.index("b", n, ir.Role.REGION)
    assert x.buffer is not None
    following = ir.Binary("%", b.plus(p, b.const(1)), b.const(n), S32)
    body = (
        ir.Declare(tmp),
        b.store(tmp, (b.const(0),), b.times(b.at(x.buffer, p), b.const(10))),
        b.store(a, (p,), b.times(b.at(x.buffer, p), b.const(2))),
        BARRIER,
        b.store(r, (p,), b.plus(b.at(a, following), b.at(tmp, b.const(0)))),
    )
    attributes = ir.RegionAttributes(cooperative=True)
    kernel = ir.Region(BLOCK, (p,), (b.const(n),), body, attributes)
    function = ir.Function(
        "ring", (x,), ir.Result(S32, (b.const(n),)),
        (ir.Declare(a), ir.Declare(r), b.launch("ring", kernel), ir.Return(views.whole(r))),
    )  # fmt: skip
    data = np.arange(n, dtype=np.int32)
    np.testing.assert_array_equal(run(function, data), np.roll(2 * data, -1) + 10 * data)


@pytest.mark.parametrize("blocks", [1, 5])
def test_results_of_calls_and_atomics_across_a_join(blocks: int) -> None:
    old = ir.Var("old", S32, ir.Role.MUTABLE)
    count = shared("count", 1)

    def make(x: ir.Buffer, r: ir.Buffer, t: ir.Var) -> Sequence[ir.Stmt]:
        zero = (integers.ZERO,)
        return [
            ir.Declare(count, init=b.const(0)),
            ir.Atomic("add", views.whole(count), zero, b.const(1), result=old),
            BARRIER,
            # every thread got its own ticket, and all see the final count
            b.store(r, (old,), b.at(count, *zero)),
        ]

    np.testing.assert_array_equal(run(program(make, blocks), X), np.full(N, N))
