"""Which regions get fibers, and why."""

from __future__ import annotations

import re

import pytest
from passes.cells import front

from croq_magic.compiler import ir
from croq_magic.compiler.passes.base import Context, run_passes
from croq_magic.compiler.passes.choose_strategy import ChooseStrategy
from croq_magic.compiler.passes.form_meetings import FormMeetings
from croq_magic.compiler.passes.split_regions import SplitRegions
from croq_magic.compiler.text import format_function
from croq_magic.compiler.visit import walk
from croq_magic.errors import TargetError

CELL = """
__co__ s32 [64] f(s32 [64] x) {{
  s32 [64] r;
  parallel b by 1 : block {{
    shared s32 [64] s;
    shared event e, g;
    {body}
  }}
  return r;
}}
"""
GROUPS = "parallel w by 2 : group, t by 32 : thread"


def function(body: str) -> ir.Function:
    functions, report = front(CELL.format(body=body))
    assert not report.errors, report.text()
    return functions["f"]


def chosen(body: str, strategy: str = "auto") -> list[str]:
    """Heads of the regions inside the block, as the text form prints them."""
    text = format_function(ChooseStrategy(strategy)(function(body), Context()))
    return [re.sub(r" \{(?=$|  //)", "", line.strip()) for line in text.splitlines() if "region" in line][1:]


def regions(f: ir.Function) -> dict[str, ir.Region]:
    return {n.indices[0].name: n for n in walk(f.body) if isinstance(n, ir.Region) and n.indices}


# ------------------------------------------------------------------------------------------------------- loops stay


@pytest.mark.parametrize(
    "body",
    [
        "parallel t by 64 : thread { s.at(t) = x.at(t); sync.shared; r.at(t) = s.at(63 - t); }",
        "parallel t by 64 : thread { foreach n in 5 { if (n % 2 == 0) { sync.shared; } } r.at(t) = x.at(t); }",
        "parallel t by 64 : thread { if (x.at(t) > 3) yield; sync.shared; r.at(t) = x.at(t); }",
        f"{GROUPS} {{ inthreads (t < 16) {{ r.at(t) = x.at(t); }} }}",
        f"{GROUPS} {{ inthreads.async (w == 0) {{ r.at(t) = x.at(t); }} inthreads.async (w == 1) {{ s.at(t) = 1; }} }}",
        f"{GROUPS} {{ if (w == 0) {{ sync.barrier : group; }} r.at(t) = x.at(t); }}",
        "parallel t by 64 : thread { f = dma.copy x => shared; r.at(t) = f.data.at(t); }",
        f"{GROUPS} {{ trigger e; wait e; r.at(t) = x.at(t); }}",
    ],
)
def test_uniform_regions_are_loops(body: str) -> None:
    assert not any("fibers" in head for head in chosen(body))


# ------------------------------------------------------------------------------------------------- where fibers are due


def test_roles_of_groups_need_a_fiber_a_group() -> None:
    body = (
        f"{GROUPS} {{ inthreads.async (w == 0) {{ s.at(t) = 1; trigger e; }} inthreads.async (w == 1) {{ wait e; }} }}"
    )
    assert chosen(body) == ["region group [w < 2] fibers  // events between roles", "region thread [t < 32]"]
    found = regions(ChooseStrategy()(function(body), Context()))["w"].fibers
    assert found == ir.Fibers("events between roles", threads=32, units=32)


@pytest.mark.parametrize(
    "inside",
    [
        "inthreads.async (t < 16) { trigger e; } inthreads.async (t >= 16) { wait e; }",
        "inthreads.async (w == 0) { if (x.at(t) > 0) trigger e; } inthreads.async (w == 1) { wait e; }",
        "inthreads.async (w == 0) { foreach n in x.at(t) { trigger e; } } inthreads.async (w == 1) { wait e; }",
        "inthreads.async (w == 0) { inthreads (t == 0) { __bar_arrive(1, 32); } } "
        "inthreads.async (w == 1) { s.at(t) = 1; }",
        "inthreads.async (w == 0) { inthreads (t == x.at(0)) { trigger e; } } inthreads.async (w == 1) { wait e; }",
        "inthreads.async (w == 0) { local s32 [1] v; v.at(0) = t; while (v.at(0) > 0) { trigger e; v.at(0) -= 1; } } "
        "inthreads.async (w == 1) { wait e; }",
    ],
)
def test_threads_that_disagree_need_a_fiber_each(inside: str) -> None:
    heads = chosen(f"{GROUPS} {{ {inside} }}")
    reason = "named barriers" if "__bar" in inside else "events between roles"
    assert heads == [f"region group [w < 2] fibers  // {reason}", f"region thread [t < 32] fibers  // {reason}"]


@pytest.mark.parametrize(
    "body, reason",
    [
        ("v = x.at(t); if (v > 0) { sync.shared; }", "a barrier that not all instances reach"),
        ("v = t % 3; foreach n in 9 { if (v == n) break; sync.shared; }", "a barrier that not all instances reach"),
        ("if (x.at(t) > 0) { dma.copy x.span_as([64]) => s; }", "a collective statement that not all instances reach"),
        ("if (x.at(t) > 0) { inthreads (t < 3) { s.at(t) = 1; } }", "an `inthreads` that not all instances reach"),
        (
            "inthreads.async (t < 32) { __bar_arrive(1, 64); } inthreads (t >= 32) { __bar_sync(1, 64); }",
            "named barriers",
        ),
        (
            "inthreads.async (t < 32) { s.at(t) = 1; } inthreads.async (t >= 32) { while (s.at(0) == 0) { } }",
            "a role that waits for stores of another",
        ),
    ],
)
def test_reasons(body: str, reason: str) -> None:
    (head,) = chosen(f"parallel t by 64 : thread {{ {body} r.at(t) = 1; }}")
    assert head == f"region thread [t < 64] fibers  // {reason}"


def test_an_atomic_gives_every_instance_its_own_value() -> None:
    body = "mutable s32 k = 0; k = __atomic_add(s.at(0), 1); if (k == 5) { sync.shared; } r.at(t) = k;"
    (head,) = chosen(f"parallel t by 64 : thread {{ {body} }}")
    assert "fibers" in head


def test_regions_with_events_have_one_granularity() -> None:
    """A thread counts generations from one region to the next, so it must be the same fiber in both."""
    first = f"{GROUPS} {{ inthreads.async (w == 0) {{ trigger e; }} inthreads.async (w == 1) {{ wait e; }} }}"
    second = (
        "parallel v by 2 : group, u by 32 : thread "
        "{ inthreads.async (u == 0) { trigger g; } inthreads.async (u == 1) { wait g; } }"
    )
    assert chosen(first)[1] == "region thread [t < 32]"
    assert all("fibers" in head for head in chosen(first + second))


# ------------------------------------------------------------------------------------------------------------- forced


def test_every_region_on_fibers() -> None:
    assert chosen(f"{GROUPS} {{ r.at(t) = x.at(t); }}", "fibers") == [
        "region group [w < 2] fibers  // asked for",
        "region thread [t < 32] fibers  // asked for",
    ]


def test_loops_are_refused_where_they_cannot_do_it() -> None:
    with pytest.raises(TargetError, match="loops cannot run events between roles; fibers can"):
        chosen(
            f"{GROUPS} {{ inthreads.async (w == 0) {{ trigger e; }} inthreads.async (w == 1) {{ wait e; }} }}", "loops"
        )


# ------------------------------------------------------------------------------------- what the fibers do together


def lowered(body: str, strategy: str = "auto") -> str:
    passes = (ChooseStrategy(strategy), SplitRegions(), FormMeetings())
    text = format_function(run_passes(function(body), passes, Context()))
    start = text.index("      region")
    return text[start : text.index("\n    }\n", start)]


def test_threads_are_cut_at_events_and_roles_stay() -> None:
    body = f"""{GROUPS} {{
      inthreads.async (w == 0) {{ foreach n in 3 {{ wait g; s.at(t) = n; trigger e; }} }}
      inthreads.async (w == 1) {{ wait e; r.at(t) = s.at(t); trigger g; }}
    }}"""
    assert (
        lowered(body)
        == """\
      region group [w < 2] fibers {  // events between roles
        inthreads.async w == 0 {
          for n in 0..3 {
            wait g
            region thread [t < 32] {
              s[t] = n
            }
            trigger e
          }
        }
        inthreads.async w == 1 {
          wait e
          region thread [t < 32] {
            r[t] = s[t]
          }
          trigger g
        }
      }"""
    )


def test_collective_statements_are_done_once() -> None:
    """Neighbours meet once, and what a meeting does already needs no barrier beside it."""
    body = """parallel t by 64 : thread {
      shared s32 [64] u;
      dma.copy x.span_as([64]) => s;
      dma.copy x.span_as([64]) => u;
      inthreads (t < 3) { r.at(t) = s.at(t) + u.at(t); }
    }"""
    assert (
        lowered(body, "fibers")
        == """\
      region thread [t < 64] fibers {  // asked for
        shared u: s32 [64]
        once block {
          copy x => s
          copy x => u
        }
        inthreads.async t < 3 {
          r[t] = s[t] + u[t]
        }
        barrier block  // inthreads
      }"""
    )


def test_a_thread_that_arrives_for_its_role() -> None:
    """Who passes the event is known; the fiber of the group does it, and stores are those of the thread."""
    body = f"""{GROUPS} {{
      inthreads.async (w == 0) {{ inthreads (t == 7) {{ s.at(t) = 1; trigger e; }} }}
      inthreads.async (w == 1) {{ wait e; }}
    }}"""
    assert (
        lowered(body)
        == """\
      region group [w < 2] fibers {  // events between roles
        inthreads.async w == 0 {
          barrier block  // inthreads
          region thread [t < 32] {
            if t == 7 {
              s[t] = 1
            }
          }
          trigger e
          barrier block  // inthreads
        }
        inthreads.async w == 1 {
          wait e
        }
      }"""
    )


def test_barriers_of_what_one_fiber_stands_for_go() -> None:
    body = f"""{GROUPS} {{
      inthreads.async (w == 0) {{ s.at(t) = 1; sync.barrier : group; r.at(t) = s.at(31 - t); trigger e; }}
      inthreads.async (w == 1) {{ wait e; }}
    }}"""
    assert "barrier" not in lowered(body)
    assert lowered(body, "fibers").count("barrier group") == 1
