"""Roles that take turns in one loop: which programs do, what becomes of them, and that they compute the same."""

from __future__ import annotations

import numpy as np
import pytest
from passes.cells import front

import croq_magic as croq
from croq_magic.compiler import ir
from croq_magic.compiler.passes.base import Context
from croq_magic.compiler.passes.interleave_roles import InterleaveRoles
from croq_magic.compiler.text import format_function
from croq_magic.compiler.visit import walk

RING = """
__co__ s32 [{n}, 32] f(s32 [{n}, 32] x) {{
  s32 [{n}, 32] r;
  parallel b by 1 : block {{
    shared s32 [32] slot[{d}];
    shared event have[{d}], freed[{d}]{ready};
    parallel w by 2 : group, t by 32 : thread {{
      inthreads.async (w == 0) {{
        {first}
        foreach n in {n} {{ wait freed{at}; slot[n % {d}].at(t) = x.at(n, t) * 2; trigger have{at}; {more} }}
      }}
      inthreads.async (w == 1) {{
        {second}
        foreach n in {n} {{ wait have{at}; r.at(n, t) = slot[n % {d}].at(31 - t) + 1; trigger freed{at}; }}
      }}
    }}
  }}
  return r;
}}
"""
ORDERS, SLOTS = ".at(n)", "[n % {d}]"


def ring(
    n: int, d: int = 2, at: str = ORDERS, ready: str = " = ready", first: str = "", second: str = "", more: str = ""
):
    return RING.format(n=n, d=d, at=at.format(d=d), ready=ready, first=first, second=second, more=more)


def interleaved(text: str) -> ir.Function:
    functions, report = front(text)
    assert not report.errors, report.text()
    return InterleaveRoles()(functions["f"], Context())


def has_events(f: ir.Function) -> bool:
    return any(isinstance(node, (ir.Trigger, ir.WaitEvent, ir.DeclareEvent)) for node in walk(f.body))


SEED = "foreach {s} in [2] trigger freed[s];"


@pytest.mark.parametrize(
    "text",
    [
        ring(7),
        ring(1),
        ring(6, 3),
        ring(13, 1),
        ring(7, at=SLOTS, ready="", second=SEED),
        ring(7, first="mutable s32 k = 0;", more="k = k + 1;"),
    ],
)
def test_rings_become_loops(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not has_events(interleaved(text))
    n = int(text.split("[")[1].split(",")[0])
    x = np.arange(n * 32, dtype=np.int32).reshape(n, 32)
    monkeypatch.setenv("CROQ_STRATEGY", "loops")
    np.testing.assert_array_equal(croq.compile(text, target="cpu").functions["f"](x), x[:, ::-1] * 2 + 1)


def test_text_of_a_ring() -> None:
    text = format_function(interleaved(ring(4)))
    inner = "\n".join(line[6:] for line in text.splitlines()[5:] if line.startswith("      "))
    assert inner == (
        "region group [w < 1] {\n"
        "  region thread [t < 32] {\n"
        "    for n in 0..4 {\n"
        "      slot[n % 2][t] = x[n, t] * 2\n"
        "      barrier block  // roles take turns\n"
        "      r[n, t] = slot[n % 2][-t + 31] + 1\n"
        "      barrier block  // roles take turns\n"
        "    }\n"
        "  }\n"
        "}"
    )


@pytest.mark.parametrize(
    "text",
    [
        ring(5, at=SLOTS, ready=""),  # waits for ever
        ring(5, more="trigger have.at(n);"),  # two generations ahead
        ring(5, more="if (x.at(n, t) > 3) yield;"),
        ring(5, more="trigger have.at(x.at(n, t));"),
        ring(5, more='println("x");'),
        ring(5).replace("inthreads.async (w == 1)", "inthreads.async (w < 2)"),
        ring(5).replace("w == 0", "w == x.at(0, 0)"),
        ring(5).replace("x.at(n, t)", "x.at(x.at(n, t), t)"),  # what fails tells its instance
        ring(20000),
    ],
)
def test_others_keep_their_events(text: str) -> None:
    assert has_events(interleaved(text))


UNEQUAL = """
__co__ s32 [9, 32] f(s32 [9, 32] x) {
  s32 [9, 32] r;
  parallel b by 1 : block {
    shared s32 [32] slot[3];
    shared event have[3], freed[3] = ready, done;
    parallel w by 3 : group, t by 32 : thread {
      inthreads.async (w == 0) {
        foreach m in 2 { wait freed.at(m); slot[m].at(t) = x.at(m, t); trigger have.at(m); }
        foreach m in 7 { wait freed.at(m + 2); slot[(m + 2) % 3].at(t) = x.at(m + 2, t); trigger have.at(m + 2); }
      }
      inthreads.async (w == 1) {
        mutable s32 sum = 0;
        foreach n in 9 {
          wait have.at(n);
          sum += slot[n % 3].at(31 - t);
          r.at(n, t) = sum;
          trigger freed.at(n);
        }
        trigger done;
      }
      inthreads.async (w == 2) {
        wait done;
        r.at(8, t) += 100;
      }
    }
  }
  return r;
}
"""
PAIRS = """
__co__ s32 [6, 64] f(s32 [6, 64] x) {
  s32 [6, 64] r;
  parallel b by 1 : block {
    shared s32 [64] slot[2];
    shared event have[2], freed[2] = ready;
    parallel w by 4 : group, t by 32 : thread {
      inthreads.async (w < 2) {
        foreach i in 2 {
          local s32 [3] kept;
          foreach j in 3 { kept.at(j) = x.at(i * 3 + j, w * 32 + t) * 2; }
          foreach j in 3 {
            wait freed.at(i * 3 + j);
            slot[(i * 3 + j) % 2].at(w * 32 + t) = kept.at(j);
            trigger have.at(i * 3 + j);
          }
        }
      }
      inthreads.async (w >= 2) {
        foreach i in 2 {
          foreach k in 3 {
            wait have.at(i * 3 + k);
            r.at(i * 3 + k, w * 32 - 64 + t) = slot[(i * 3 + k) % 2].at(127 - w * 32 - t) + 1;
            trigger freed.at(i * 3 + k);
          }
        }
      }
    }
  }
  return r;
}
"""


@pytest.mark.parametrize("strategy", ["loops", "roles", "fibers"])
def test_unequal_loops_and_a_third_role(strategy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CROQ_STRATEGY", strategy)
    x = np.random.default_rng(1).integers(-50, 50, (9, 32)).astype(np.int32)
    expected = np.cumsum(x[:, ::-1], axis=0)
    expected[8] += 100
    np.testing.assert_array_equal(croq.compile(UNEQUAL, target="cpu").functions["f"](x), expected)


@pytest.mark.parametrize("strategy", ["loops", "roles", "fibers"])
def test_roles_of_two_groups_in_nested_loops(strategy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CROQ_STRATEGY", strategy)
    x = np.random.default_rng(2).integers(-50, 50, (6, 64)).astype(np.int32)
    np.testing.assert_array_equal(croq.compile(PAIRS, target="cpu").functions["f"](x), x[:, ::-1] * 2 + 1)


def test_an_event_that_lives_on_keeps_its_fibers() -> None:
    text = ring(4).replace("parallel w by 2", "foreach again in 2 { parallel w by 2").replace("return", "} return", 1)
    text = text.replace("    }\n  } return", "    }\n  } } return")
    functions, report = front(text)
    if report.errors:
        pytest.fail(report.text())
    assert has_events(InterleaveRoles()(functions["f"], Context()))
