"""Fragments as registers and shared tiles: IR before and after."""

from __future__ import annotations

import re
import textwrap

import pytest

from croq_magic.compiler import ir, limits
from croq_magic.compiler.diagnostics import Report
from croq_magic.compiler.passes.base import Context, run_passes
from croq_magic.compiler.passes.share_fragments import ShareFragments
from croq_magic.compiler.pipeline import front_end, optimising_passes
from croq_magic.compiler.source import Source
from croq_magic.compiler.text import format_function
from croq_magic.compiler.visit import walk


def shared(body: str, params: str = "f32 [16, 32] x", shuffles: bool = True) -> str:
    """The block's body after the pass, without numbers in names."""
    text = f"__co__ void f({params}) {{ parallel by 1 : block {{ {body} }} }}"
    found = limits.of("cuda", "sm_80")
    front = front_end(Source(text), found, {}, "auto")
    front.report.raise_errors()
    context = Context(Report(), found)
    function = run_passes(front.functions["f"], [*optimising_passes(), ShareFragments(shuffles)], context)
    assert not any(isinstance(node, (ir.Fragment, ir.FragmentRef)) for node in walk(function.body))
    lines = re.sub(r":f\d+", "", format_function(function)).splitlines()
    start = next(i for i, line in enumerate(lines) if "region block" in line)
    return textwrap.dedent("\n".join(lines[start + 1 : -3]))


GROUP = """parallel w by 2 : group {
  frag f32 [4, 16] s;
  frag f32 [4] m;
  apply {i, j} in s.span s.at(i, j) = x.at(w * 4 + i, j);
  reduce_sum(m, s, 1);
  apply {i, j} in s.span r.at(w * 4 + i, j) = m.at(i);
}"""
PARAMS = "f32 [16, 32] x, f32 [16, 32]& r"


def test_rows_of_a_warp() -> None:
    assert shared(GROUP, PARAMS) == textwrap.dedent("""\
        region group [w < 2] {
          local s: f32 [2]
          local m: f32 [2]
          region thread [t < 32] implied {
            for turn in 0..2 {
              let i: s32 = turn * 2 + t / 16
              let j: s32 = t % 16
              s[turn] = x[w * 4 + i, j]
            }
            for turn in 0..2 {
              total = lanes_sum<16>(s[turn])
              m[turn] = total
            }
            for turn in 0..2 {
              let i_1: s32 = turn * 2 + t / 16
              let j_1: s32 = t % 16
              r[w * 4 + i_1, j_1] = m[turn]
            }
          }
        }""")


def test_without_shuffles_one_thread_has_a_row() -> None:
    text = shared(GROUP, PARAMS, shuffles=False)
    assert "lanes_sum" not in text
    assert "shared s: f32 [2, 4, 16]" in text
    assert text.count("barrier group  // fragments in shared storage") == 2  # before and after the reduction


LONG = """parallel t by 128 : thread {
  frag f32 [1, 256] s;
  frag f32 [1] m;
  apply {i, j} in s.span s.at(i, j) = x.at(j / 32, j % 32);
  reduce_max(m, s, 1);
  apply {i, j} in s.span x.at(j / 32, j % 32) = m.at(i);
}"""


def test_rows_of_several_warps() -> None:
    text = shared(LONG, "f32 [16, 32]& x")
    assert "shared m_parts: f32 [1, 1, 4]" in text
    middle = text[text.index("mutable largest") : text.index("m[0] = largest")]
    assert (
        middle
        == textwrap.indent(
            textwrap.dedent("""\
            mutable largest: f32 = s[0]
            for k in 1..2 {
              largest = __max(largest, s[k])
            }
            largest = lanes_max<32>(largest)
            if t % 32 == 0 {
              m_parts[0, 0, t / 32] = largest
            }
            barrier block  // results of the warps
            mutable largest: f32 = m_parts[0, 0, 0]
            for part in 1..4 {
              largest = __max(largest, m_parts[0, 0, part])
            }
            """),
            "  ",
        ).removeprefix("  ")
        + "  "
    )


def test_an_element_is_stored_by_one_of_its_holders() -> None:
    body = GROUP.replace("apply {i, j} in s.span r.at(w * 4 + i, j)", "apply {i} in m.span r.at(w, i)")
    text = shared(body, "f32 [16, 32] x, f32 [2, 4]& r")
    assert "if t % 16 == 0 {" in text
    assert text.count("local") == 2


def test_what_is_stored_where_others_read_has_one_holder() -> None:
    body = GROUP.replace("apply {i, j} in s.span r.at(w * 4 + i, j)", "apply {i} in m.span x.at(w, i)")
    text = shared(body, "f32 [16, 32]& x")
    assert "shared m: f32 [2, 4]" in text
    assert "if t < 4 {" in text


@pytest.mark.parametrize(
    ("between", "copied"),
    [
        ("", False),
        ("g.at(0, 0) = 1.0f;", False),
        ("t.at(0, 0) = 1.0f;", True),
        ("sync.shared;", True),
        ("foreach k in 2 { t.at(k, 0) = 1.0f; }", True),
    ],
)
def test_operands_in_place(between: str, copied: bool) -> None:
    body = f"""shared f16 [16, 16] t; dma.copy a => t;
      parallel w by 1 : group {{
        acc = mma.fill.f32 0.0f;
        fa = mma.load t;
        {between}
        mma.row.col acc, fa, b;
        mma.store acc, g;
      }}"""
    text = shared(body, "f16 [16, 16] a, f16 [16, 8] b, f32 [16, 8]& g")
    assert ("shared fa" in text) == copied
    # The barrier that the program or the change of the tile needs orders the copy, too.
    assert "fragments in shared storage" not in text


def test_a_tile_that_is_written_after_its_last_use_needs_no_copy() -> None:
    body = """shared f16 [16, 16] t;
      parallel w by 1 : group {
        acc = mma.fill.f32 0.0f;
        foreach k in 3 {
          dma.copy a => t;
          fa = mma.load t;
          mma.row.col acc, fa, b;
        }
        mma.store acc, g;
      }"""
    text = shared(body, "f16 [16, 16] a, f16 [16, 8] b, f32 [16, 8]& g")
    assert "fa" not in text
    assert text.count("barrier") == 2  # the transfer's own: before it is read, and before it is written again


def test_a_fragment_that_is_loaded_in_turns_keeps_its_copy() -> None:
    """What is loaded for the next iteration is another tile's contents by then."""
    body = """shared f16 [16, 16] t; dma.copy a => t;
      parallel w by 1 : group {
        acc = mma.fill.f32 0.0f;
        frag f16 [16, 16] fa;
        mma.load t, fa;
        foreach k in 3 {
          mma.row.col acc, fa, b;
          mma.load t, fa;
        }
        mma.store acc, g;
      }"""
    text = shared(body, "f16 [16, 16] a, f16 [16, 8] b, f32 [16, 8]& g")
    assert "shared fa" in text
    assert text.count("fragments in shared storage") == 2  # before the product, and before the load after it


def test_operands_from_device_memory_are_transfers_of_the_block() -> None:
    body = """parallel w by 1 : group {
        acc = mma.fill.f32 0.0f;
        fa = mma.load a;
        mma.row.col acc, fa, b;
        mma.store acc, g;
      }"""
    text = shared(body, "f16 [16, 16] a, f16 [16, 8] b, f32 [16, 8]& g")
    assert "copy a => fa" in text
    assert text.count("barrier group") == 1


def test_several_groups_load_on_their_own() -> None:
    body = """parallel w by 2 : group {
        acc = mma.fill.f32 0.0f;
        fa = mma.load a.subspan(16, 16).at(w, 0);
        mma.row.col acc, fa, b;
        mma.store acc, g.subspan(16, 8).at(w, 0);
      }"""
    text = shared(body, "f16 [32, 16] a, f16 [16, 8] b, f32 [32, 8]& g")
    assert "copy" not in text
    assert "shared fa: f16 [2, 16, 16]" in text


def test_what_an_apply_stores_is_joined_before_another_one_reads_it() -> None:
    """Elements of a fragment belong to threads that nobody knows."""
    body = """parallel w by 1 : group {
      shared f32 [8, 8] t;
      frag f32 [8, 8] s;
      apply {i, j} in s.span t.at(i, j) = x.at(i, j);
      apply {i, j} in s.span s.at(i, j) = t.at(j, i);
    }"""
    assert "barrier group  // t written" in shared(body)
