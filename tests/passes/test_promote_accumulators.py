"""promote-accumulators: what loops accumulate lives in registers, as text before and after."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np
import pytest

import croq_magic as croq
from croq_magic.compiler import ir
from croq_magic.compiler.limits import LIMITS
from croq_magic.compiler.passes.base import Context
from croq_magic.compiler.passes.promote_accumulators import PromoteAccumulators
from croq_magic.compiler.text import format_body, format_function
from croq_magic.compiler.types import BF16, F32, S8, S32
from croq_magic.compiler.visit import walk
from tests import ir_builders as build


def kernel_text(function: ir.Function) -> str:
    """The body of the first kernel after the pass."""
    after = PromoteAccumulators()(function, Context())
    return format_body(next(after.launches()).kernel.region.body)


def test_a_sum_around_threads_and_copies_lives_in_one_register_a_thread() -> None:
    assert (
        kernel_text(build.matmul_dma())
        == """\
register output_acc: s32 [16, 16]
region thread [qx < 16, qy < 16] {
  output_acc[qx, qy] = output[px * 16 + qx, py * 16 + qy]
}
for tile_k in 0..16 {
  shared lhs_load: s32 [16, 16]
  copy lhs[px * 16 + c0, tile_k * 16 + c1 : 16, 16] => lhs_load
  shared rhs_load: s32 [16, 16]
  copy rhs[tile_k * 16 + c0, py * 16 + c1 : 16, 16] => rhs_load
  region thread [qx < 16, qy < 16] {
    for k in 0..16 {
      output_acc[qx, qy] += lhs_load[qx, k] * rhs_load[k, qy]
    }
  }
}
region thread [qx < 16, qy < 16] {
  output[px * 16 + qx, py * 16 + qy] = output_acc[qx, qy]
}
"""
    )


def test_extents_may_be_symbolic() -> None:
    function = build.matmul_dma(build.dim("M"), build.dim("K"), build.dim("N"))
    text = kernel_text(function)
    assert text.startswith("register output_acc: s32 [16, 16]\n")
    loop = text[text.index("for tile_k") : text.rindex("region thread")]
    assert "output_acc[qx, qy] +=" in loop and "output[" not in loop


def test_a_sum_within_one_thread_lives_in_a_scalar() -> None:
    assert (
        kernel_text(build.matmul_scalar())
        == """\
region thread [q < 64] {
  for m in 0..8 {
    for n in 0..4 {
      mutable output_acc: s32 = output[p * 8 + m, q * 4 + n]
      for k in 0..256 {
        output_acc = output_acc + lhs[p * 8 + m, k] * rhs[k, q * 4 + n]
      }
      output[p * 8 + m, q * 4 + n] = output_acc
    }
  }
}
"""
    )


def test_inner_loops_that_move_the_element_become_dimensions() -> None:
    """Each of four threads sums into two elements of its own, over a loop around the region."""
    x, out = build.buffer("x", (16, 8)), build.buffer("out", (8,))
    t, m, step = build.index("t", 4, ir.Role.REGION), build.index("m", 2), build.index("step", 16)
    place = build.compose(t, m, 2)
    update = build.store(out, (place,), build.at(x, step, place), "+")
    threads = build.region(build.THREAD, {"t": 4}, [build.loop("m", 2, [update])])
    assert (
        kernel_text(_function(build.loop("step", 16, [threads])))
        == """\
register out_acc: s32 [4, 2]
region thread [t < 4] {
  for m in 0..2 {
    out_acc[t, m] = out[t * 2 + m]
  }
}
for step in 0..16 {
  region thread [t < 4] {
    for m in 0..2 {
      out_acc[t, m] += x[step, t * 2 + m]
    }
  }
}
region thread [t < 4] {
  for m in 0..2 {
    out[t * 2 + m] = out_acc[t, m]
  }
}
"""
    )
    few = PromoteAccumulators(private=1)(_function(build.loop("step", 16, [threads])), Context())
    assert not _registers(few), "two elements a thread are more than allowed"


@pytest.mark.parametrize(
    ("dtype", "value", "expected"),
    [
        (F32, F32, "out_acc = out_acc * x[i]"),
        (S8, S32, "out_acc = s8(s32(out_acc) * s32(x[i]))"),
        (BF16, F32, "out_acc = bf16(f32(out_acc) * f32(x[i]))"),
    ],
)
def test_every_step_rounds_as_the_memory_would(dtype: ir.DType, value: ir.DType, expected: str) -> None:
    x, out = build.buffer("x", (8,), dtype), build.buffer("out", (1,), dtype)
    load: ir.Expr = build.at(x, build.index("i", 8))
    load = load if value is dtype else ir.Cast(load, value)
    assert expected in kernel_text(_function(build.loop("i", 8, [build.store(out, (build.const(0),), load, "*")])))


def test_the_long_form_of_an_update_counts_as_well() -> None:
    x, out = build.buffer("x", (8,)), build.buffer("out", (1,))
    zero, i = build.const(0), build.index("i", 8)
    update = build.store(out, (zero,), build.plus(build.at(x, i), build.at(out, zero)))
    assert (
        kernel_text(_function(build.loop("i", 8, [update])))
        == """\
mutable out_acc: s32 = out[0]
for i in 0..8 {
  out_acc = x[i] + out_acc
}
out[0] = out_acc
"""
    )


def _update(op: str = "+", place: ir.Expr | None = None, dtype: ir.DType = S32) -> ir.Store:
    x, out = build.buffer("x", (8,), dtype), build.buffer("out", (64,), dtype)
    return build.store(out, (place if place is not None else build.const(0),), build.at(x, build.index("i", 8)), op)


def _moving() -> ir.Stmt:
    return _update(place=build.index("i", 8))


def _plain() -> ir.Stmt:
    return _update(op="")


def _checked() -> ir.Stmt:
    return dataclasses.replace(_update(), checks=(0,))


def _conditional() -> ir.Stmt:
    return ir.If(ir.Binary("<", build.index("i", 8), build.const(3), ir.BOOL), (_update(),))


def _all_threads_one_element() -> ir.Stmt:
    return build.region(build.THREAD, {"t": 4}, [_update()])


def _moved_by_a_scalar() -> ir.Stmt:
    place = ir.Var("place", S32, ir.Role.MUTABLE)
    return ir.Scope((ir.Let(place, build.index("i", 8)), _update(place=place)))


def _read_elsewhere() -> ir.Stmt:
    x, out = build.buffer("x", (8,)), build.buffer("out", (64,))
    value = build.plus(build.at(x, build.index("i", 8)), build.at(out, build.index("i", 8)))
    return build.store(out, (build.const(0),), value, "+")


def _copied() -> ir.Stmt:
    x, out = build.buffer("x", (8,)), build.buffer("out", (8,))
    return ir.Scope((build.store(out, (build.const(0),), build.at(x, build.index("i", 8)), "+"), build.copy(out, x)))


def _passed_on() -> ir.Stmt:
    x, out = build.buffer("x", (8,)), build.buffer("out", (8,))
    from croq_magic.compiler import views

    update = build.store(out, (build.const(0),), build.at(x, build.index("i", 8)), "+")
    return ir.Scope((update, ir.Call("f", (views.whole(out),))))


def _left_early() -> ir.Stmt:
    leave = ir.If(ir.Binary("<", build.index("i", 8), build.const(3), ir.BOOL), (ir.Break(),))
    return ir.Scope((_update(), leave))


@pytest.mark.parametrize(
    "statement",
    [
        _moving, _plain, _checked, _conditional, _all_threads_one_element, _moved_by_a_scalar, _read_elsewhere, _copied,
        _passed_on, _left_early,
    ],
)  # fmt: skip
def test_what_is_not_one_private_element_stays_in_memory(statement: Callable[[], ir.Stmt]) -> None:
    function = _function(build.loop("i", 8, [statement()]))
    assert PromoteAccumulators()(function, Context()) is function


def test_the_input_is_not_changed() -> None:
    function = build.matmul_dma()
    before = format_function(function)
    PromoteAccumulators()(function, Context())
    assert format_function(function) == before


def _function(statement: ir.Stmt) -> ir.Function:
    """A function whose kernel is one block that runs `statement`."""
    kernel = build.region(build.BLOCK, {"p": 1}, [statement])
    return ir.Function("f", (), None, (build.launch("f", kernel),))


def _registers(function: ir.Function) -> list[ir.Buffer]:
    declared = [n.buffer for n in walk(function.body) if isinstance(n, ir.Declare)]
    return [b for b in declared if b.storage is ir.Storage.REGISTER]


def test_arrays_of_one_thread_are_for_gpus() -> None:
    """On a CPU the loops are put in another order instead, which needs no array."""
    x, out = build.buffer("x", (16, 4)), build.buffer("out", (4,))
    m, step = build.index("m", 4), build.index("step", 16)
    update = build.store(out, (m,), build.at(x, step, m), "+")
    function = _function(build.loop("step", 16, [build.loop("m", 4, [update])]))
    on_gpu = PromoteAccumulators()(function, Context(limits=LIMITS["sm_80"]))
    assert [b.name for b in _registers(on_gpu)] == ["out_acc"]
    assert PromoteAccumulators()(function, Context(limits=LIMITS["cpu"])) is function


def test_threads_meet_around_an_accumulator_that_others_fill_and_read() -> None:
    program = croq.compile(
        """__co__ s32 [16, 16] turned(s32 [16, 48] a) {
  s32 [16, 16] r;
  parallel b by 1 : block {
    shared s32 [16, 16] sum {5};
    foreach step in 3 {
      l = dma.copy a.chunkat(_, step) => shared;
      parallel {x, y} by [16, 16] : thread sum.at(x, y) += l.data.at(y, x);
    }
    parallel {x, y} by [16, 16] : thread r.at(x, y) = sum.at(y, x);
  }
  return r;
}""",
        target="emulate",
    )
    a = np.arange(16 * 48, dtype=np.int32).reshape(16, 48) % 101
    # The emulator refuses to run on after a race.
    assert np.array_equal(program.turned(a), 5 + a.reshape(16, 3, 16).sum(axis=1))
