"""drop-joins: which barriers of a kernel stay once it is known which thread does what."""

from __future__ import annotations

import dataclasses

import pytest

from croq_magic.compiler import ir
from croq_magic.compiler.diagnostics import Report
from croq_magic.compiler.passes.base import Context, run_passes
from croq_magic.compiler.passes.drop_joins import DropJoins
from croq_magic.compiler.passes.structure import bodies
from croq_magic.compiler.pipeline import front_end, optimising_passes
from croq_magic.compiler.source import Source
from croq_magic.compiler.targets import cuda
from croq_magic.compiler.visit import rewrite, walk

TARGET = cuda.target("sm_80")


def lowered(body: str, params: str = "s32 [64] x") -> tuple[ir.Function, ir.Function]:
    """A function with one block, before the pass and after it."""
    text = f"__co__ s32 [64] f({params}) {{ s32 [64] r {{0}};\nparallel b by 1 : block {{\n{body}\n}}\nreturn r; }}"
    front = front_end(Source(text), TARGET.limits, {}, "auto")
    front.report.raise_errors()
    passes = [p for p in (*optimising_passes(), *TARGET.passes()) if not isinstance(p, DropJoins)]
    before = run_passes(front.functions["f"], passes, Context(Report(), TARGET.limits))
    return before, DropJoins()(before, Context(Report(), TARGET.limits))


def barriers(body: str, params: str = "s32 [64] x") -> tuple[int, int]:
    """How many barriers a block has before and after the pass."""
    before, after = lowered(body, params)
    counts = [sum(isinstance(n, ir.Barrier) for n in walk(f.body)) for f in (before, after)]
    return counts[0], counts[1]


def outline(body: str, params: str = "s32 [64] x") -> str:
    """The order of things after the pass: `s` a store, `c` a copy, `|` a barrier of the block, `w` one of a warp,
    `for(...)` a loop."""

    def one(s: ir.Stmt) -> str:
        inside = "".join(one(n) for inner in bodies(s) for n in inner)
        if isinstance(s, ir.Barrier):
            return "|" if s.scope is ir.Level.BLOCK else "w"
        if isinstance(s, (ir.For, ir.While)) and inside:
            return f"for({inside})"
        return inside if bodies(s) else ("c" if isinstance(s, ir.Copy) else "s" if isinstance(s, ir.Store) else "")

    (launch,) = lowered(body, params)[1].launches()
    return one(launch.kernel.region)


def threads(body: str, name: str = "p") -> str:
    return f"parallel {name} by 64 : thread {{ {body} }}\n"


S = "shared s32 [64] s; "
T = "shared s32 [64] t; "


# ------------------------------------------------------------------------------ the same thread, before and after


@pytest.mark.parametrize(
    ("name", "body", "kept"),
    [
        ("own elements", S + threads("s.at(p) = x.at(p);") + threads("r.at(p) = s.at(p);"), 0),
        ("elements of others", S + threads("s.at(p) = x.at(p);") + threads("r.at(p) = s.at(63 - p);"), 1),
        ("neighbours", S + threads("s.at(p) = x.at(p);") + threads("r.at(p) = s.at((p + 1) % 64);"), 1),
        ("written and read elsewhere", S + threads("s.at(63 - p) = x.at(p);") + threads("r.at(p) = s.at(63 - p);"), 0),
        ("one for all", S + threads("s.at(p) = x.at(p);") + threads("r.at(p) = s.at(7);"), 1),
        ("half of them", S + threads("if (p < 32) s.at(p) = x.at(p);") + threads("if (p >= 32) r.at(p) = s.at(p);"), 0),
        ("the other half", S + threads("if (p < 32) s.at(p) = 1;") + threads("if (p < 32) r.at(p) = s.at(p + 32);"), 0),
        ("overlap", S + threads("if (p < 33) s.at(p) = 1;") + threads("if (p < 32) r.at(p) = s.at(p + 32);"), 1),
        ("an index from memory", S + threads("s.at(x.at(p) % 64) = 1;") + threads("r.at(p) = s.at(p);"), 1),
        ("the first thread", S + "s.at(0) = 5;\n" + threads("if (p == 0) r.at(p) = s.at(0);"), 0),
        ("the second thread", S + "s.at(0) = 5;\n" + threads("if (p == 1) r.at(p) = s.at(0);"), 1),
        ("what nothing follows", S + threads("s.at(p) = x.at(p);") + threads("r.at(p) = 1;"), 0),
    ],
)
def test_threads(name: str, body: str, kept: int) -> None:
    before, after = barriers(body)
    assert (before >= 1 or kept == 0) and after == kept, name


@pytest.mark.parametrize(
    ("name", "body", "kept"),
    [
        ("spans, one after the other", S + "v = s; v += 1; v *= 3;\n" + threads("r.at(p) = s.at(63 - p);"), 1),
        ("a fill and a span", "shared s32 [64] s {4}; v = s; v += 1;\n" + threads("r.at(p) = s.at(63 - p);"), 1),
        ("a fill and threads", "shared s32 [64] s {4};\n" + threads("s.at(p) += x.at(p);") + "dma.copy s => r;", 1),
        ("a copy of vectors and threads", S + "dma.copy x => s;\n" + threads("r.at(p) = s.at(p);"), 1),
        (
            "a copy of elements and threads",
            S + "dma.pad<{0}, {0}, {0}, 0> x => s;\n" + threads("r.at(p) = s.at(p);"),
            0,
        ),
        ("the same vectors", S + "dma.copy x => s;\n dma.copy s => r;\n" + threads("mutable s32 q = p;"), 0),
        ("vectors one further", S + "dma.copy x => s;\n dma.copy s.view(60).from(4) => r.view(60).from(0);", 1),
        ("other elements", S + T + threads("s.at(p) = x.at(p);") + "t.at(3) = 1; r.at(3) = s.at(0);", 0),
    ],
)
def test_what_a_block_does_together(name: str, body: str, kept: int) -> None:
    assert barriers(body)[1] == kept, name


# ------------------------------------------------------------------------------------------------------------- loops

LOAD, USE = "t = dma.copy x => shared;\n", threads("r.at(p) += t.data.at(63 - p);")


def test_a_tile_in_a_loop_needs_both() -> None:
    assert outline("foreach k in 4 { " + LOAD + USE + "}") == "sfor(c|s|)s"  # the sums are in registers


def test_two_slots_need_one() -> None:
    """The next turn writes the other slot; the one after that is behind the next barrier."""
    slots = "shared s32 [64] t[2]; foreach k in 4 { dma.copy x => t[k % 2];\n"
    assert outline(slots + threads("r.at(p) += t[k % 2].at(63 - p);") + "}") == "sfor(c|s)s"
    assert outline(slots + threads("r.at(p) += t[(k + 1) % 2].at(63 - p);") + "}") == "sfor(cs|)s"


def test_a_slot_a_turn_needs_none() -> None:
    """Only what follows the loop may read elements of others."""
    fill = "shared s32 [64] t[4]; foreach k in 4 {" + threads("t[k].at(p) = x.at(p) + k;") + "}"
    assert outline(fill + threads("r.at(q) = t[3].at(63 - q);", "q")) == "for(s)|s"
    assert outline(fill + threads("r.at(q) = t[3].at(q);", "q")) == "for(s)s"


def test_a_barrier_moves_behind_the_loop() -> None:
    body = S + "foreach k in 4 {" + threads("s.at(p) += x.at(p) * k;") + "v = s; v += 1; }"
    assert outline(body + threads("r.at(q) = s.at(63 - q);", "q")) == "for(s)|s"


def test_the_last_turn_is_behind_the_barriers_of_the_loop() -> None:
    """Of what the loop writes only the last turn's elements are not behind a barrier when it ends."""
    body = "shared s32 [64] t[3]; foreach k in 3 { dma.copy x => t[k];\n" + threads("t[k].at(p) += k;") + "}"
    assert outline(body + threads("r.at(q) = t[1].at(63 - q) + t[2].at(q);", "q")) == "for(c|s)s"
    assert outline(body + threads("r.at(q) = t[2].at(63 - q);", "q")) == "for(c|s)|s"


def test_an_unknown_number_of_turns() -> None:
    body = S + "foreach k in n { " + threads("s.at(p) = x.at(p);") + threads("r.at(q) += s.at(63 - q);", "q") + "}"
    assert outline(body, "s32 [64] x, s32 n").count("|") == 2


def test_a_loop_that_ends_early_keeps_what_it_needs_anywhere() -> None:
    body = S + threads("s.at(p) = x.at(p);")
    body += "foreach k in 4 { if (k == 2) break;\n" + threads("r.at(q) += s.at(63 - q);", "q") + "}"
    assert outline(body + threads("s.at(o) = 1;", "o") + threads("r.at(o) += s.at(63 - o);", "o")).count("|") == 3


# ----------------------------------------------------------------------------------------------------- parts of a block

WARPS = "parallel w by 2 : group { "


def warp(body: str) -> str:
    return f"parallel p by 32 : thread {{ {body} }}\n"


def test_warps_meet_alone() -> None:
    own = "shared s32 [2, 32] s; " + WARPS + warp("s.at(w, p) = x.at(p);") + warp("r.at(w#p) = s.at(w, 31 - p);") + "}"
    assert outline(own) == "sws"
    same = "shared s32 [2, 32] s; " + WARPS + warp("s.at(w, p) = x.at(p);") + warp("r.at(w#p) = s.at(w, p);") + "}"
    assert outline(same) == "ss"


def test_a_barrier_of_a_warp_is_none_of_the_block() -> None:
    own = "shared s32 [2, 32] s; " + WARPS + warp("s.at(w, p) = x.at(p);") + warp("r.at(w#p) = s.at(w, 31 - p);") + "}"
    other = "parallel v by 2 : group, q by 32 : thread { r.at(v#q) += s.at(1 - v, q); }"
    assert outline(own + other) == "sws|s"
    mine = "parallel v by 2 : group, q by 32 : thread { r.at(v#q) += s.at(v, 31 - q); }"
    assert outline(own + mine) == "swss"


# ------------------------------------------------------------------------------------------ what stays in any case


@pytest.mark.parametrize(
    ("name", "body", "kept"),
    [
        ("the program's own", S + threads("s.at(p) = x.at(p); sync.shared; r.at(p) = s.at(p);"), 1),
        ("an asynchronous copy", "t = dma.copy.async x => shared; wait t;\n" + threads("r.at(p) = t.data.at(p);"), 1),
        ("text with a pointer", S + threads("s.at(p) = x.at(p);") + "call touch(s);\n" + threads("r.at(p) = 1;"), 1),
    ],
)
def test_what_stays(name: str, body: str, kept: int) -> None:
    assert barriers(body)[1] == kept, name


@pytest.mark.parametrize(("rows", "kept"), [(64, 3), (4, 2)])
def test_storage_that_is_used_again(rows: int, kept: int) -> None:
    """A barrier may be all that lets two large buffers share memory."""

    def tile(name: str) -> str:
        return f"shared s32 [{rows}, 64] {name}; foreach i in {rows} {{ {name}.at(i, 0) = 1; }}\n"

    body = tile("a") + threads("r.at(p) = a.at(p % 4, 0);") + threads("r.at(p) += 1;")
    assert barriers(body + tile("c") + threads("r.at(p) += c.at(p % 4, 0);")) == (3, kept)


def test_barriers_of_several_blocks_stay() -> None:
    """What other blocks do is not looked at."""
    before, _ = lowered(threads("r.at(p) = x.at(p);"))

    def change(node: ir.Node) -> ir.Node | None:
        if not isinstance(node, ir.Region) or node.level is not ir.Level.BLOCK:
            return None
        joins = tuple(ir.Barrier(scope, "a pass") for scope in (ir.Level.CLUSTER, ir.Level.BLOCK))
        return dataclasses.replace(node, body=(*node.body, *joins, *node.body))

    after = DropJoins()(rewrite(before, change), Context(Report(), TARGET.limits))
    assert [n.scope for n in walk(after.body) if isinstance(n, ir.Barrier)] == [ir.Level.CLUSTER]
