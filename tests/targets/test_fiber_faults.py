"""What goes wrong between fibers: deadlocks, misused events, failed checks, interrupts; and what stays behind."""

from __future__ import annotations

import resource
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from processes import in_a_fork, in_threads, python

import croq_magic as croq

ROLES = """
__co__ s32 [32] f(s32 [32] x) {{
  s32 [32] r;
  parallel b by {blocks} : block {{
    shared s32 [32] s;
    shared event {events};
    parallel w by 2 : group, t by 32 : thread {{
      inthreads.async (w == 0) {{ {first} }}
      inthreads.async (w == 1) {{ {second} }}
    }}
  }}
  return r;
}}
"""


def roles(first: str, second: str, events: str = "e, g", blocks: int = 1) -> croq.Program:
    return croq.compile(ROLES.format(first=first, second=second, events=events, blocks=blocks))


def failure(program: croq.Program) -> str:
    """The message of a run, without the excerpt; a second run must fail alike."""
    messages = []
    for _ in range(2):
        with pytest.raises(croq.CheckError) as caught:
            program.f(np.arange(32, dtype=np.int32))
        messages.append(str(caught.value).splitlines()[0])
    assert messages[0] == messages[1]
    return messages[0]


# ---------------------------------------------------------------------------------------------------- deadlocks


@pytest.mark.cpu_only
def test_each_waits_for_the_other() -> None:
    text = failure(roles("wait g; trigger e;", "wait e; trigger g;"))
    assert text == (
        "cell:8:34: f: deadlock: 32 instances wait for `g` (generation 0) at line 8; "
        "32 instances wait for `e` (generation 0) at line 9"
    )


@pytest.mark.cpu_only
def test_ring_whose_consumer_stops_early() -> None:
    text = failure(
        roles(
            "foreach n in 5 { wait g.at(n); s.at(t) = n; trigger e.at(n); }",
            "foreach n in 3 { wait e.at(n); r.at(t) = s.at(t); trigger g.at(n); }",
            "e[1], g[1] = ready",
        )
    )
    assert text.startswith("cell:8:51: f: deadlock: 32 instances wait for `g[0]` (generation 4) at line 8; ")
    assert text.endswith("32 instances have ended")


@pytest.mark.gpu_refuses("UNS01")  # threads that data select
@pytest.mark.cpu_only
def test_slot_and_generation_of_a_deadlock() -> None:
    """The consumer gives no credit any more after three tiles: one slot runs out earlier than the other."""
    for guard in ("if (n < 3) trigger g.at(n);", "inthreads (n < 3 && t < 32) { trigger g.at(n); }"):
        text = failure(
            roles(
                "foreach n in 6 { wait g.at(n); trigger e.at(n); }",
                "foreach n in 6 { wait e.at(n); " + guard + " }",
                "e[2], g[2] = ready",
            )
        )
        assert "wait for `g[1]` (generation 2) at line 8" in text
        assert "wait for `e[1]` (generation 2) at line 9" in text


@pytest.mark.gpu_refuses("UNS01")  # threads that data select
@pytest.mark.cpu_only
def test_threads_that_do_not_reach_a_barrier() -> None:
    """A condition on data that is not the same for all; the compiler cannot know, the run says so."""
    source = """
        __co__ s32 [64] f(s32 [64] x) {
          s32 [64] r;
          parallel b by 1 : block {
            shared s32 [64] s;
            parallel t by 64 : thread {
              s.at(t) = x.at(t);
              v = x.at(t);
              if (v > LIMIT) { sync.shared; }
              r.at(t) = s.at(63 - t);
            }
          }
          return r;
        }
    """
    x = np.arange(64, dtype=np.int32)
    np.testing.assert_array_equal(croq.compile(source, defines={"LIMIT": "-1"}).f(x), x[::-1])
    with pytest.raises(croq.CheckError) as caught:
        croq.compile(source, defines={"LIMIT": "39"}).f(x)
    first = str(caught.value).splitlines()[0]
    assert first == "cell:9:32: f: deadlock: 24 instances wait at a barrier at line 9; 40 instances have ended"


@pytest.mark.cpu_only
def test_threads_that_meet_at_different_statements() -> None:
    source = """
        __co__ s32 [64] f(s32 [64] x) {
          s32 [64] r;
          parallel b by 1 : block {
            shared s32 [64] s;
            shared s32 [64] u;
            parallel t by 64 : thread {
              v = x.at(t);
              if (v > 40) { dma.copy x => s; } else { dma.copy x => u; }
              r.at(t) = v > 40 ? s.at(t) : u.at(t);
            }
          }
          return r;
        }
    """
    x = np.arange(64, dtype=np.int32)
    function = croq.compile(source).f
    np.testing.assert_array_equal(function(x + 41), x + 41)
    with pytest.raises(croq.CheckError, match="f: instances that must meet stand at different statements"):
        function(x)


@pytest.mark.cpu_only
def test_named_barrier_that_too_few_reach() -> None:
    text = failure(roles("__bar_sync(3, 96);", "__bar_sync(3, 96);"))
    assert text == (
        "cell:8:34: f: deadlock: 32 instances wait at named barrier 3 at line 8; "
        "32 instances wait at named barrier 3 at line 9"
    )


@pytest.mark.cpu_only
def test_block_that_waits_for_itself() -> None:
    source = """
        __co__ s32 [4] f() {
          s32 [4] r;
          parallel b by 4 : block { shared event e; wait e; trigger e; r.at(b) = 1; }
          return r;
        }
    """
    with pytest.raises(croq.CheckError, match=r"cell:4:53: f: deadlock: 1 instance waits for `e` \(generation 0\)"):
        croq.compile(source).f()


# ------------------------------------------------------------------------------------------------- misused events


@pytest.mark.cpu_only
def test_trigger_two_generations_ahead() -> None:
    text = failure(roles("trigger e; trigger e; wait g;", "wait e; wait e; trigger g;"))
    assert text == (
        "cell:8:45: f: `e` is triggered for generation 1 while an instance has still to wait for generation 0"
    )


@pytest.mark.cpu_only
def test_wait_that_skips_a_generation() -> None:
    """Parity on a GPU would let it pass or hang."""
    text = failure(roles("trigger e[0]; trigger e[1];", "wait e.at(2);", "e[2]"))
    assert text == (
        "cell:9:34: f: this waits for generation 1 of `e[0]`, "
        "but the next one that the instance has not waited for is 0"
    )


@pytest.mark.cpu_only
@pytest.mark.parametrize(
    "first, second", [("trigger e.at(x.at(t) - 40);", "wait e.at(0);"), ("trigger e.at(0);", "wait e.at(0 - x.at(5));")]
)
def test_negative_order(first: str, second: str) -> None:
    assert "f: the order of `e.at(...)` is -" in failure(roles(first, second, "e[2]"))


def test_event_that_nobody_waits_for_may_be_triggered_at_will() -> None:
    np.testing.assert_array_equal(
        roles("foreach n in 5 trigger e;", "r.at(t) = x.at(t);").f(np.arange(32, dtype=np.int32)), np.arange(32)
    )


# ---------------------------------------------------------------------------------------- failed checks, interrupts


@pytest.mark.races
@pytest.mark.parametrize("blocks", [1, 50])
def test_failed_check_inside_a_fiber(blocks: int) -> None:
    """It stops the launch, while the other role waits for what will never come."""
    program = roles(
        "foreach n in 9 { wait g; s.at(t + x.at(7) * (n / 8)) = n; trigger e; }",
        "foreach n in 9 { wait e; r.at(t) = s.at(t); trigger g; }",
        "e, g = ready",
        blocks,
    )
    with pytest.raises(croq.CheckError) as caught:
        program.f(np.full(32, 1000, np.int32))
    assert "is out of range for dimension 0 of `s`, which has extent 32" in str(caught.value)
    assert "n = 8" in str(caught.value) and "w = 0" in str(caught.value)
    assert (program.f(np.zeros(32, np.int32)) == 8).all()


def test_assertion_inside_a_fiber() -> None:
    program = roles('assert(x.at(t) < 31, "too large"); trigger e;', "wait e;")
    assert "too large" in failure(program)


SPIN = """
    import os, signal, threading, time
    import numpy as np
    import croq_magic as croq
    source = '''
        __co__ void f(s32 [32]& x) {
          parallel b by 2 : block {
            shared s32 [1] flag {0};
            shared event go;
            parallel w by 2 : group, t by 32 : thread {
              inthreads.async (w == 0) { while (flag.at(0) == 0) { } trigger go; }
              inthreads.async (w == 1) { BODY }
            }
          }
        }
    '''
    for body in ("while (flag.at(0) == 0) { } wait go;", "foreach n in 100000000 { x.at(t) = x.at(t) + n; } wait go;"):
        function = croq.compile(source.replace("BODY", body)).f
        x = np.zeros(32, np.int32)
        sent = []
        def interrupt():
            time.sleep(0.3)
            sent.append(time.perf_counter())
            os.kill(os.getpid(), signal.SIGINT)
        thread = threading.Thread(target=interrupt)
        thread.start()
        try:
            function(x)
        except KeyboardInterrupt:
            print(time.perf_counter() - sent[0])
        thread.join()
"""


def test_interrupt_while_fibers_spin_and_wait() -> None:
    times = [float(line) for line in python(SPIN).split()]
    assert len(times) == 2
    assert max(times) < 0.5


# ---------------------------------------------------------------------------- threads, forks, stacks, what stays behind


def relay() -> croq.Program:
    return roles(
        "foreach n in 40 { wait g.at(n); s.at(t) = x.at(t) + n; trigger e.at(n); }",
        "foreach n in 40 { wait e.at(n); r.at(t) += s.at(31 - t); trigger g.at(n); }",
        "e[1], g[1] = ready",
    )


def expected(x: np.ndarray) -> np.ndarray:
    return (40 * x + np.arange(40).sum())[::-1].astype(np.int32)


def test_two_python_threads_at_once() -> None:
    program = relay()

    def work(seed: int) -> None:
        x = np.arange(32, dtype=np.int32) * seed
        for _ in range(50):
            np.testing.assert_array_equal(program.f(x), expected(x))

    in_threads(work)


def test_forked_child() -> None:
    program, x = relay(), np.arange(32, dtype=np.int32)
    np.testing.assert_array_equal(program.f(x), expected(x))

    def check() -> None:
        for _ in range(3):
            np.testing.assert_array_equal(program.f(x), expected(x))

    in_a_fork(check)
    np.testing.assert_array_equal(program.f(x), expected(x))


LARGE = """
__co__ s32 [8] f(s32 [8] x) {
  s32 [8] r;
  parallel b by 4 : block {
    shared event go;
    parallel w by 8 : group {
      local s32 [300000] mine;
      foreach i in 300000 mine.at(i) = x.at(w) + i;
      inthreads.async (w == 0) { trigger go; }
      inthreads.async (w > 0) { wait go; }
      if (b == 3) r.at(w) = mine.at(299999);
    }
  }
  return r;
}
"""


@pytest.mark.cpu_only  # more than a thread of a GPU may have
def test_large_local_storage_is_on_the_stack_and_given_back() -> None:
    x = np.arange(8, dtype=np.int32) * 3
    function = croq.compile(LARGE).f
    np.testing.assert_array_equal(function(x), x + 299999)


def test_nothing_is_left_behind() -> None:
    """Neither stacks nor anything else grow with the number of calls, those that fail included."""
    good, bad = relay(), roles("wait g; trigger e;", "wait e; trigger g;")
    x = np.arange(32, dtype=np.int32)

    def once() -> None:
        good.f(x)
        with pytest.raises(croq.CheckError):
            bad.f(x)

    for _ in range(50):
        once()
    before = len(Path("/proc/self/maps").read_text().splitlines()) if Path("/proc/self/maps").exists() else 0
    size = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(400):
        once()
    if before:
        assert len(Path("/proc/self/maps").read_text().splitlines()) <= before + 8
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - size < 8 * 1024


def test_stacks_of_threads_that_ended_are_freed() -> None:
    if not Path("/proc/self/maps").exists():
        pytest.skip("counts mappings in /proc")
    program, x = relay(), np.arange(32, dtype=np.int32)

    def mappings() -> int:
        return len(Path("/proc/self/maps").read_text().splitlines())

    counts = []
    for _ in range(30):
        thread = threading.Thread(target=lambda: program.f(x))
        thread.start()
        thread.join()
        counts.append(mappings())
    # `join` returns when Python is done with a thread; the system's thread ends, and frees its stacks, a moment later.
    deadline = time.monotonic() + 10
    while counts[-1] > counts[4] + 8 and time.monotonic() < deadline:
        time.sleep(0.01)
        counts.append(mappings())
    assert counts[-1] <= counts[4] + 8
