"""Run-time checks: what strays is reported, nothing is written outside, and the message says where."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from croq_magic.compiler import ir, views
from croq_magic.compiler.source import Source
from croq_magic.compiler.types import BOOL, F32, S32
from croq_magic.errors import CheckError
from tests import ir_builders as b
from tests.targets.run_ir import run

SOURCE = Source("one\nr.at(p) = x.at(idx.at(p));\n", first_line=2)
SPAN = SOURCE.span(4, 30)
N = 1000


def gather(spanned: bool = False) -> ir.Function:
    """`r[p] = x[idx[p]]` over blocks, the inner access checked."""
    x, idx = b.param("x", (8,)), b.param("idx", (N,))
    out = b.buffer("r", (N,), zeroed=True)
    p = b.index("p", N, ir.Role.REGION)
    assert x.buffer is not None and idx.buffer is not None
    load = ir.Load(views.whole(x.buffer), (b.at(idx.buffer, p),), checks=(0,), span=SPAN if spanned else None)
    kernel = b.region(ir.Level.BLOCK, {"p": N}, [b.store(out, (p,), load)])
    return b.returning("gather", (x, idx), out, [b.launch("gather", kernel)])


def test_indices_in_range_are_just_loaded() -> None:
    x, idx = np.arange(8, dtype=np.int32) * 10, np.random.default_rng(0).integers(0, 8, N).astype(np.int32)
    np.testing.assert_array_equal(run(gather(), x, idx), x[idx])


@pytest.mark.parametrize("bad", [8, -1, 1 << 30, -(1 << 31)])
@pytest.mark.parametrize("place", [0, 500, N - 1])
def test_stray_read(bad: int, place: int) -> None:
    idx = np.zeros(N, np.int32)
    idx[place] = bad
    with pytest.raises(CheckError) as caught:
        run(gather(), np.arange(8, dtype=np.int32), idx)
    assert str(caught.value) == (
        f"gather: index {bad} is out of range for dimension 0 of `x`, which has extent 8 (at p = {place})"
    )


def test_message_shows_the_statement() -> None:
    from croq_magic.compiler.targets.cpu import module
    from tests.targets.run_ir import emitted

    loaded = module.load(emitted(gather(spanned=True), source=SOURCE), "gather")
    idx = np.full(N, 77, np.int32)
    with pytest.raises(CheckError) as caught:
        loaded.launch((np.arange(8, dtype=np.int32), idx), {}, np.zeros(N, np.int32))
    lines = str(caught.value).splitlines()
    assert lines[0].startswith("cell:3:1: gather: index 77 is out of range for dimension 0 of `x`")
    assert lines[1] == "    r.at(p) = x.at(idx.at(p));"
    assert lines[2] == "    ^~~~~~~~~~~~~~~~~~~~~~~~~~"


@pytest.mark.parametrize("op", ["", "+"])
def test_stray_write_leaves_memory_alone(op: str) -> None:
    y, idx = b.param("y", (8,), written=True), b.param("idx", (4,))
    q, p = b.index("q", 4, ir.Role.REGION), b.index("p", 1, ir.Role.REGION)
    assert y.buffer is not None and idx.buffer is not None
    store = ir.Store(views.whole(y.buffer), (b.at(idx.buffer, q),), b.const(7), op, checks=(0,))
    kernel = b.region(ir.Level.BLOCK, {"p": 1}, [b.region(ir.Level.THREAD, {"q": 4}, [store])])
    function = ir.Function("scatter", (y, idx), None, (b.launch("scatter", kernel),))
    memory = np.zeros(24, np.int32)
    run(function, memory[8:16], np.array([0, 7, 3, 3], np.int32))
    assert memory.sum() == (21 if op == "" else 28)
    memory[:] = 0
    with pytest.raises(CheckError, match=r"index 8 is out of range for dimension 0 of `y`.*p = 0, q = 2"):
        run(function, memory[8:16], np.array([0, 1, 8, 2], np.int32))
    assert not memory[:8].any() and not memory[16:].any()
    assert p.name == "p"


def test_first_dimension_out_of_range_is_named() -> None:
    x = b.param("x", (3, 5))
    out = b.buffer("r", (1,), zeroed=True)
    i, j = ir.Var("i", S32, ir.Role.PARAM), ir.Var("j", S32, ir.Role.PARAM)
    assert x.buffer is not None
    store = b.store(out, (b.const(0),), ir.Load(views.whole(x.buffer), (i, j), checks=(0, 1)))
    params = (x, ir.Param("i", "scalar", S32, var=i), ir.Param("j", "scalar", S32, var=j))
    function = b.returning("pick", params, out, [store])
    data = np.arange(15, dtype=np.int32).reshape(3, 5)
    assert run(function, data, 2, 4)[0] == 14
    with pytest.raises(CheckError, match="index 5 is out of range for dimension 1 of `x`, which has extent 5"):
        run(function, data, 2, 5)
    with pytest.raises(CheckError, match="index -1 is out of range for dimension 0 of `x`, which has extent 3"):
        run(function, data, -1, 5)


def test_checked_access_inside_a_condition_is_not_evaluated_early() -> None:
    x = b.param("x", (4,))
    out = b.buffer("r", (8,), zeroed=True)
    i = b.index("i", 8)
    assert x.buffer is not None
    shifted = ir.Load(views.whole(x.buffer), (ir.Binary("-", i, b.const(4), S32),), checks=(0,))
    value = ir.Select(ir.Binary(">=", i, b.const(4), BOOL), shifted, b.const(-1), S32)
    function = b.returning("f", (x,), out, [b.loop("i", 8, [b.store(out, (i,), value)])])
    np.testing.assert_array_equal(run(function, np.arange(4, dtype=np.int32)), [-1, -1, -1, -1, 0, 1, 2, 3])


@pytest.mark.parametrize("start, fits", [(0, True), (6, True), (7, False), (-1, False)])
def test_window_of_a_copy(start: int, fits: bool) -> None:
    x = b.param("x", (10,))
    out = b.buffer("r", (4,), zeroed=True)
    s = ir.Var("s", S32, ir.Role.PARAM)
    assert x.buffer is not None
    window = dataclasses.replace(b.chunk(x.buffer, (s,), (4,)), checks=(0,))
    function = b.returning("f", (x, ir.Param("s", "scalar", S32, var=s)), out, [b.copy(window, out)])
    data = np.arange(10, dtype=np.int32)
    if fits:
        np.testing.assert_array_equal(run(function, data, start), data[start : start + 4])
    else:
        with pytest.raises(CheckError, match="out of range for dimension 0 of `x`, which has extent 10"):
            run(function, data, start)


def test_assertion_shows_its_values() -> None:
    x = b.param("x", (8,), F32)
    p = b.index("p", 8, ir.Role.REGION)
    assert x.buffer is not None
    value = b.at(x.buffer, p)
    small = ir.Assert(ir.Binary("<", value, ir.Const(5.0, F32), BOOL), "too big", values=(value, p))
    kernel = b.region(ir.Level.BLOCK, {"p": 8}, [small])
    function = ir.Function("f", (x,), None, (b.launch("f", kernel),))
    run(function, np.zeros(8, np.float32))
    with pytest.raises(CheckError) as caught:
        run(function, np.array([0, 0, 0, 7.25, 0, 0, 0, 0], np.float32))
    assert str(caught.value) == "f: too big (x[p] = 7.25) (at p = 3) [RTA06]"


def test_a_failed_run_does_not_disturb_the_next() -> None:
    bad, good = np.full(N, -5, np.int32), np.zeros(N, np.int32)
    x = np.arange(8, dtype=np.int32) + 3
    for _ in range(3):
        with pytest.raises(CheckError):
            run(gather(), x, bad)
        np.testing.assert_array_equal(run(gather(), x, good), np.full(N, 3))
