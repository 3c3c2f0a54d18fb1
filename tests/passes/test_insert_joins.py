"""Where barriers stand: language reference, execution model, sections 3 and 6.3."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import pytest

from croq_magic.compiler import ir, views
from croq_magic.compiler.passes.base import Context
from croq_magic.compiler.passes.insert_joins import InsertJoins
from croq_magic.compiler.pipeline import front_end
from croq_magic.compiler.source import Source
from croq_magic.compiler.targets import cuda
from croq_magic.compiler.text import format_body, format_function
from croq_magic.compiler.types import BOOL, S32
from tests.ir_builders import (
    BLOCK,
    THREAD,
    at,
    buffer,
    chunk,
    const,
    copy,
    ele_add,
    index,
    loop,
    matmul_dma,
    matmul_scalar,
    region,
    row_sum,
    saxpy,
    store,
)
from tests.passes.nests import function, kernel

SHARED, LOCAL = ir.Storage.SHARED, ir.Storage.LOCAL
tile, other, private, out, source = (
    buffer("tile", (32,), storage=SHARED),
    buffer("other", (32,), storage=SHARED),
    buffer("private", (32,), storage=LOCAL),
    buffer("out", (32,)),
    buffer("source", (32,)),
)
t = index("t", 32, ir.Role.REGION)
k = index("k", 4)


def joined(body: Sequence[ir.Stmt], level: ir.Level = BLOCK) -> str:
    """The body of a region after the pass, as text without the statements' own indentation."""
    if level is BLOCK:
        root = region(BLOCK, {"b": 4}, body)
        result = kernel(InsertJoins()(function(root), Context())).body
    else:
        root = region(BLOCK, {"b": 4}, [ir.Region(level, (t,), (const(32),), tuple(body))])
        (inner,) = kernel(InsertJoins()(function(root), Context())).body
        assert isinstance(inner, ir.Region)
        result = inner.body
    return format_body(result)


def threads(*body: ir.Stmt) -> ir.Region:
    return ir.Region(THREAD, (t,), (const(32),), body)


def text(*lines: str) -> str:
    return "\n".join(lines) + "\n"


READ = store(out, (t,), at(tile, t))
WRITE = store(tile, (t,), const(1))


def test_matmul_with_copies() -> None:
    root = kernel(InsertJoins()(matmul_dma(), Context()))
    assert format_body(root.body) == text(
        "for tile_k in 0..16 {",
        "  shared lhs_load: s32 [16, 16]",
        "  copy lhs[px * 16 + c0, tile_k * 16 + c1 : 16, 16] => lhs_load",
        "  shared rhs_load: s32 [16, 16]",
        "  copy rhs[tile_k * 16 + c0, py * 16 + c1 : 16, 16] => rhs_load",
        "  barrier block  // lhs_load, rhs_load written",
        "  region thread [qx < 16, qy < 16] {",
        "    for k in 0..16 {",
        "      output[px * 16 + qx, py * 16 + qy] += lhs_load[qx, k] * rhs_load[k, qy]",
        "    }",
        "  }",
        "  barrier block  // before lhs_load, rhs_load are rewritten in the next iteration",
        "}",
    )


def test_block_reads_what_threads_wrote() -> None:
    root = kernel(InsertJoins()(row_sum(), Context()))
    assert format_body(root.body[2:]) == text(
        "barrier block  // part written",
        "for j in 0..16 {",
        "  output[p] += part[j]",
        "}",
    )


@pytest.mark.parametrize("program", [matmul_scalar, ele_add, saxpy])
def test_nothing_crosses(program: object) -> None:
    before = program()  # type: ignore[operator]
    assert InsertJoins()(before, Context()) is before


def test_entry_and_exit_of_an_inner_region() -> None:
    body = [store(tile, (const(0),), const(5)), threads(READ), store(tile, (const(1),), const(6))]
    assert joined(body) == text(
        "tile[0] = 5",
        "barrier block  // tile written",
        "region thread [t < 32] {",
        "  out[t] = tile[t]",
        "}",
        "barrier block  // before tile is rewritten",
        "tile[1] = 6",
    )


def test_one_elected_thread_needs_no_barrier_with_itself() -> None:
    body = [store(tile, (const(0),), const(5)), store(out, (const(0),), at(tile, const(0))), threads(WRITE)]
    assert joined(body).splitlines()[:3] == [
        "tile[0] = 5",
        "out[0] = tile[0]",
        "barrier block  // before tile is rewritten",
    ]


def test_every_thread_reads_what_one_wrote() -> None:
    value = ir.Var("v", S32)
    body = [store(tile, (const(0),), const(5)), ir.Let(value, at(tile, const(0))), threads(READ)]
    assert joined(body).splitlines()[:3] == ["tile[0] = 5", "barrier block  // tile written", "let v: s32 = tile[0]"]


def test_private_and_unwritten_storage_cross_nothing() -> None:
    body = [
        copy(source, private),
        ir.Let(ir.Var("v", S32), at(source, const(0))),
        threads(store(out, (t,), at(private, t))),
    ]
    assert "barrier" not in joined(body)


def test_two_inner_regions() -> None:
    assert joined([threads(WRITE), threads(READ)]).splitlines()[3] == "barrier block  // tile written"
    assert "barrier" not in joined([threads(READ), threads(store(other, (t,), at(tile, t)))])


def test_constant_slots_are_apart() -> None:
    pair = buffer("pair", (32,), storage=SHARED)
    pair = ir.Buffer("pair", S32, SHARED, pair.shape, slots=(2,))

    def reads(slot: ir.Expr) -> ir.Region:
        return threads(store(out, (t,), ir.Load(views.whole(pair, (slot,)), (t,))))

    def fills(slot: ir.Expr) -> ir.Copy:
        return ir.Copy(views.whole(source), views.whole(pair, (slot,)))

    zero, one, some = const(0), const(1), ir.Var("s", S32, ir.Role.MUTABLE)
    assert "barrier" not in joined([fills(zero), reads(one)])
    assert "barrier" in joined([fills(zero), reads(zero)])
    assert "barrier" in joined([fills(zero), reads(some)])


def test_a_barrier_of_the_program_is_enough() -> None:
    body = [store(tile, (const(0),), const(5)), ir.Barrier(BLOCK), threads(READ)]
    assert joined(body).count("barrier") == 1


def test_conditions_join_before_and_after() -> None:
    body = [
        threads(WRITE),
        ir.If(ir.TRUE, (threads(READ),)),
        copy(source, tile),
    ]
    lines = joined(body).splitlines()
    assert lines[3] == "barrier block  // tile written"
    assert lines[4] == "if true {"
    assert lines[9] == "barrier block  // before tile is rewritten"


def test_what_a_condition_reads_is_not_written_before_all_have_looked() -> None:
    below = ir.Binary("<", at(tile, const(0)), const(5), BOOL)
    more = store(tile, (const(0),), const(9))
    rest = threads(store(out, (t,), const(1)))
    assert joined([ir.If(below, (more,), (more,)), rest]).splitlines()[:7] == [
        "if tile[0] < 5 {",
        "  barrier block  // before tile is rewritten",
        "  tile[0] = 9",
        "} else {",
        "  barrier block  // before tile is rewritten",
        "  tile[0] = 9",
        "}",
    ]
    assert joined([ir.While(below, (more,)), rest]).count("barrier") == 2


def test_condition_of_a_loop_that_may_skip_its_end_is_joined_too() -> None:
    below = ir.Binary("<", at(tile, const(0)), const(5), BOOL)
    skip = ir.If(ir.Binary("<", ir.Var("v", S32), const(1), BOOL), (ir.Continue(),))
    rest = threads(store(out, (t,), const(1)))
    lines = joined([ir.While(below, (store(tile, (const(0),), const(9)), skip)), rest]).splitlines()
    assert lines[0] == "while true {"
    assert lines[1].startswith("  barrier block")
    assert lines[2] == "  if !(tile[0] < 5) {"
    assert lines[5].startswith("  barrier block")


def test_loop_of_one_iteration_has_no_next_one() -> None:
    body = [loop("k", 1, [copy(source, tile), threads(READ)])]
    assert joined(body).count("barrier") == 1
    body = [loop("k", 2, [copy(source, tile), threads(READ)])]
    assert joined(body).count("barrier") == 2


def test_loop_that_may_skip_its_end_joins_at_its_start() -> None:
    skip = ir.If(ir.TRUE, (ir.Continue(),))
    lines = joined([loop("k", 4, [copy(source, tile), threads(READ), skip])]).splitlines()
    assert lines[1] == "  barrier block  // before tile is rewritten in the next iteration"


def test_join_stands_before_the_loop_not_in_it() -> None:
    inner = loop("k", 4, [threads(READ)])
    lines = joined([copy(source, tile), inner]).splitlines()
    assert lines[1] == "barrier block  // tile written"
    assert sum("barrier" in line for line in lines) == 1 + 1  # and `out` is written again in the next iteration


def test_atomics_commute() -> None:
    add = ir.Atomic("add", views.whole(tile), (const(0),), const(1))
    assert "barrier" not in joined([threads(add), threads(add)])
    assert "barrier" in joined([threads(add), threads(READ)])


def test_collective_copy_inside_a_region_of_threads() -> None:
    body = [copy(source, tile), READ, copy(source, tile)]
    assert joined(body, THREAD) == text(
        "copy source => tile",
        "barrier block  // tile written",
        "out[t] = tile[t]",
        "barrier block  // before tile is rewritten",
        "copy source => tile",
    )


def test_fill_inside_a_region_of_threads() -> None:
    body = [ir.Declare(tile, const(0)), ir.Atomic("add", views.whole(tile), (t,), const(1))]
    assert joined(body, THREAD).splitlines()[1] == "barrier block  // before tile is rewritten"


def test_threads_synchronise_themselves() -> None:
    body = [WRITE, store(out, (t,), at(tile, const(0)))]
    assert "barrier" not in joined(body, THREAD)


def test_reused_tile_in_a_loop_of_threads() -> None:
    lines = joined([loop("k", 4, [copy(source, tile), READ])], THREAD).splitlines()
    assert lines[2] == "  barrier block  // tile written"
    assert lines[4] == "  barrier block  // before tile is rewritten in the next iteration"


def test_masked_regions_join_before_and_after() -> None:
    first = ir.Masked(ir.Binary("<", t, const(16), ir.BOOL), (WRITE,))
    second = ir.Masked(ir.Binary(">=", t, const(16), ir.BOOL), (WRITE,))
    lines = joined([first, second, READ], THREAD).splitlines()
    assert lines[-2] == "barrier block  // tile written"
    free = [dataclasses.replace(m, is_async=True) for m in (first, second)]
    assert "barrier" not in joined(free, THREAD)


def role(number: int, *body: ir.Stmt) -> ir.Region:
    """A role of one group of four out of two."""
    w = index("w", 2, ir.Role.REGION)
    mask = ir.Masked(ir.Binary("==", w, const(number), ir.BOOL), body, is_async=True)
    return ir.Region(ir.Level.GROUP4, (w,), (const(2),), (mask,))


def test_roles_join_their_own_threads_only() -> None:
    value = ir.Var("v", S32)
    body = role(0, copy(source, tile), ir.Let(value, at(tile, const(0))))
    lines = joined([body]).splitlines()
    assert lines[3].strip() == "barrier group-4  // tile written"


def test_events_order_the_reuse_of_a_slot() -> None:
    free, full = (ir.Event(name, SHARED, slots=(2,)) for name in ("free", "full"))
    n = index("n", 6)
    produce = loop("n", 6, [ir.WaitEvent(free, order=n), copy(source, tile), ir.Trigger(full, order=n)])
    consume = loop("n", 6, [ir.WaitEvent(full, order=n), copy(tile, out), ir.Trigger(free, order=n)])
    assert "barrier" not in joined([role(0, produce)])
    assert "barrier" not in joined([role(1, consume)])
    unordered = loop("n", 6, [copy(source, tile), ir.Trigger(full, order=n)])
    assert "barrier group-4" in joined([role(0, unordered)])


def test_groups_meet_in_barriers_of_their_own() -> None:
    group = ir.Region(
        ir.Level.GROUP,
        (index("g", 2, ir.Role.REGION),),
        (const(2),),
        (store(tile, (const(0),), const(1)), threads(READ)),
    )
    lines = joined([group, copy(source, tile)]).splitlines()
    assert lines[2] == "  barrier group  // tile written"
    assert lines[-2] == "barrier block  // before tile is rewritten"


def test_waiting_makes_an_asynchronous_copy_visible() -> None:
    token = ir.Token("f")
    fetch = dataclasses.replace(copy(source, tile), token=token)
    lines = joined([fetch, ir.Barrier(BLOCK), ir.Wait((token,)), threads(READ)]).splitlines()
    assert lines[:4] == ["copy async f source => tile", "barrier block", "wait f", "barrier block  // tile written"]


def test_double_buffering() -> None:
    pair = ir.Buffer("pair", S32, SHARED, (const(32),), slots=(2,))
    current, following = (ir.Var(name, S32, ir.Role.MUTABLE) for name in ("cur_slot", "nxt_slot"))

    def fetch(name: str, slot: ir.Var) -> ir.Copy:
        window = chunk(buffer("x", (128,)), (const(0),), (32,))
        return dataclasses.replace(ir.Copy(window, views.whole(pair, (slot,))), token=ir.Token(name, slot))

    use = threads(store(out, (t,), ir.Load(views.whole(pair, (current,)), (t,)), "+"))
    wait = ir.Wait((ir.Token("cur", current),))
    body = [
        fetch("cur", current),
        loop("k", 4, [fetch("nxt", following), wait, use, ir.Rotate((current, following))], start=1),
        wait,
        use,
    ]
    assert joined(body) == text(
        "copy async cur x[c0 : 32] => pair[cur_slot]",
        "barrier block  // before pair is rewritten",
        "for k in 1..4 {",
        "  copy async nxt x[c0 : 32] => pair[nxt_slot]",
        "  wait cur",
        "  barrier block  // pair written",
        "  region thread [t < 32] {",
        "    out[t] += pair[cur_slot][t]",
        "  }",
        "  rotate cur_slot, nxt_slot",
        "  barrier block  // before pair is rewritten in the next iteration",
        "}",
        "wait cur",
        "barrier block  // pair written",
        "region thread [t < 32] {",
        "  out[t] += pair[cur_slot][t]",
        "}",
    )


def test_the_input_is_not_changed() -> None:
    program = matmul_dma()
    before = format_function(program)
    InsertJoins()(program, Context())
    assert format_function(program) == before


ROTATED = """__co__ f32 [64] f(f32 [K, 64] x) {
  f32 [64] r;
  parallel b by 1 : block {
    shared f32 [64] sum {0.0f};
    c0 = dma.copy.async x.subspan(1, 64).at(0, 0) => shared;
    c1 = dma.copy.async x.subspan(1, 64).at(1, 0) => shared;
    c2 = dma.any;
    BEFORE
    foreach k in [K - 2] {
      c2 = dma.copy.async x.subspan(1, 64).at(k + 2, 0) => shared;
      wait c0;
      parallel t by 64 : thread { sum.at(t) += c0.data.at(0, t); }
      rotate(c0, c1, c2);
      AFTER
    }
    wait c0, c1;
    parallel t by 64 : thread { r.at(t) = sum.at(t) + c0.data.at(0, t) + c1.data.at(0, t); }
  }
  return r;
}
"""


def joins_of(source: str) -> list[str]:
    """The reasons of the barriers in a program, in order, with `for` where a loop begins."""
    front = front_end(Source(source), cuda.target("sm_80").limits, {})
    front.report.raise_errors()
    lines = format_function(InsertJoins()(front.functions["f"], Context())).splitlines()
    found = [line.strip() for line in lines if "barrier" in line or line.strip().startswith("for k")]
    return ["for" if line.startswith("for") else line.split("//")[-1].strip() for line in found]


def test_rotated_handles_have_slots_of_their_own() -> None:
    plain = joins_of(ROTATED.replace("BEFORE", "").replace("AFTER", ""))
    reused = "before c0_c1_c2 is rewritten"
    # The copies before the loop and the first one in it are apart; the next turn's takes the slot that was read.
    assert plain[0] == "for"
    assert any(reason.startswith(reused) and "next iteration" in reason for reason in plain)
    assert not any(reason == reused for reason in plain)
    # A rotation between two copies: the later one may go where the earlier one has.
    rotated = joins_of(ROTATED.replace("BEFORE", "rotate(c0, c1, c2);").replace("AFTER", ""))
    assert rotated[0] == reused and rotated[1] == "for"


def test_a_copy_behind_the_rotation_meets_what_was_read_before_it() -> None:
    again = "c2 = dma.copy.async x.subspan(1, 64).at(k, 0) => shared; wait c2;"
    found = joins_of(ROTATED.replace("BEFORE", "").replace("AFTER", again))
    at = found.index("for")
    assert "before c0_c1_c2 is rewritten" in found[at + 1 :]
