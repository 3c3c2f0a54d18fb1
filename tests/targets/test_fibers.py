"""Kernels with events and roles on the CPU: one fiber per instance."""

from __future__ import annotations

import numpy as np
import pytest
from processes import python

import croq_magic as croq
from croq_magic.compiler import integers, ir
from croq_magic.compiler.types import BOOL, S32
from croq_magic.errors import CheckError
from tests import ir_builders as b
from tests.targets.run_ir import run

RELAY = """
__co__ s32 [{n}, 128] relay(s32 [{n}, 128] x) {{
  s32 [{n}, 128] r;
  parallel b by 1 : block {{
    shared s32 [128] slot[{depth}];
    shared event have[{depth}], freed[{depth}] = ready;
    parallel w by 2 : group-4, t by 128 : thread {{
      inthreads.async (w == 0) {{
        foreach n in {n} {{
          wait freed.at(n);
          slot[n % {depth}].at(t) = x.at(n, t) * 2;
          trigger have.at(n);
        }}
      }}
      inthreads.async (w == 1) {{
        foreach n in {n} {{
          wait have.at(n);
          r.at(n, t) = slot[n % {depth}].at(127 - t) + 1;
          trigger freed.at(n);
        }}
      }}
    }}
  }}
  return r;
}}
"""


@pytest.mark.parametrize("n, depth", [(1, 1), (4, 2), (50, 3), (33, 1)])
def test_ring_of_any_depth(n: int, depth: int) -> None:
    x = np.arange(n * 128, dtype=np.int32).reshape(n, 128)
    np.testing.assert_array_equal(croq.compile(RELAY.format(n=n, depth=depth)).relay(x), x[:, ::-1] * 2 + 1)


def test_many_blocks_on_all_threads() -> None:
    source = """
        __co__ s32 [64, 32] f(s32 [64, 32] x) {
          s32 [64, 32] r;
          parallel b by 64 : block {
            shared s32 [32] s;
            shared event full;
            parallel w by 2 : group, t by 32 : thread {
              inthreads.async (w == 0) { s.at(t) = x.at(b, t) + b; trigger full; }
              inthreads.async (w == 1) { wait full; r.at(b, t) = s.at(31 - t); }
            }
          }
          return r;
        }
    """
    x = np.arange(64 * 32, dtype=np.int32).reshape(64, 32)
    function = croq.compile(source).f
    for _ in range(3):
        np.testing.assert_array_equal(function(x), (x + np.arange(64, dtype=np.int32)[:, None])[:, ::-1])


def test_collective_copy_inside_a_role_is_made_once_by_its_threads() -> None:
    source = """
        __co__ s32 [8, 64] f(s32 [8, 64] x) {
          s32 [8, 64] r;
          parallel b by 1 : block {
            shared s32 [1, 64] s;
            shared event full, empty = ready;
            parallel w by 2 : group, t by 32 : thread {
              inthreads.async (w == 0) {
                foreach n in 8 {
                  wait empty;
                  dma.copy x.chunkat(n, _) => s;
                  trigger full;
                }
              }
              inthreads.async (w == 1) {
                foreach n in 8 {
                  wait full;
                  r.at(n, t) = s.at(0, 63 - t);
                  r.at(n, t + 32) = s.at(0, 31 - t);
                  trigger empty;
                }
              }
            }
          }
          return r;
        }
    """
    x = np.arange(512, dtype=np.int32).reshape(8, 64)
    np.testing.assert_array_equal(croq.compile(source).f(x), x[:, ::-1])


@pytest.mark.parametrize("written", [True, False])
def test_group_barrier_inside_a_role(written: bool) -> None:
    """Two warps exchange within each warp, a third waits for both; without a group level, runs of 32 threads are
    the warps."""
    r, s = b.buffer("r", (64,), zeroed=True), b.buffer("s", (64,), storage=ir.Storage.SHARED)
    w, t = b.index("w", 3, ir.Role.REGION), b.index("t", 32, ir.Role.REGION)
    if not written:
        thread = b.index("thread", 96, ir.Role.REGION)
        w, t = integers.floordiv(thread, b.const(32)), integers.mod(thread, b.const(32))  # type: ignore[assignment]
    here = b.plus(b.times(w, b.const(32)), t)
    mirrored = b.plus(b.times(w, b.const(32)), ir.Binary("-", b.const(31), t, S32))
    other = ir.Var("other", S32, ir.Role.MUTABLE)
    done = ir.Event("done", ir.Storage.SHARED)
    barrier = ir.Barrier(ir.Level.GROUP)
    workers = ir.Masked(ir.Binary("<", w, b.const(2), BOOL), (
        b.store(s, (here,), here), barrier,
        ir.Let(other, b.at(s, mirrored)), barrier,
        b.store(s, (here,), b.times(other, b.const(10))),
        ir.Trigger(done),
    ), True)  # fmt: skip
    reader = ir.Masked(ir.Binary("==", w, b.const(2), BOOL), (
        ir.WaitEvent(done),
        b.store(r, (t,), b.at(s, t)),
        b.store(r, (b.plus(t, b.const(32)),), b.at(s, b.plus(t, b.const(32)))),
    ), True)  # fmt: skip
    body = [workers, reader]
    inner = b.region(ir.Level.THREAD, {"t": 32} if written else {"thread": 96}, body)
    threads = b.region(ir.Level.GROUP, {"w": 3}, [inner]) if written else inner
    kernel = b.region(ir.Level.BLOCK, {"p": 1}, [ir.Declare(s), ir.DeclareEvent(done), threads])
    expect = np.arange(64).reshape(2, 32)[:, ::-1].reshape(-1) * 10
    np.testing.assert_array_equal(run(b.returning("f", (), r, [b.launch("f", kernel)])), expect)


@pytest.mark.cpu_only
def test_deadlock_is_reported_with_the_waiting_statements() -> None:
    source = """
        __co__ s32 [32] f(s32 [32] x) {
          s32 [32] r;
          parallel b by 1 : block {
            shared event first, second;
            parallel w by 2 : group, t by 32 : thread {
              inthreads.async (w == 0) { wait second; trigger first; }
              inthreads.async (w == 1) { wait first; trigger second; r.at(t) = 1; }
            }
          }
          return r;
        }
    """
    function = croq.compile(source).f
    with pytest.raises(CheckError) as caught:
        function(np.zeros(32, np.int32))
    message = str(caught.value)
    assert message.startswith(
        "cell:7:42: f: deadlock: 32 instances wait for `second` (generation 0) at line 7; "
        "32 instances wait for `first` (generation 0) at line 8\n"
    )
    with pytest.raises(CheckError):
        function(np.zeros(32, np.int32))
    np.testing.assert_array_equal(croq.compile(RELAY.format(n=2, depth=1)).relay(np.ones((2, 128), np.int32)), 3)


def test_event_that_one_program_waits_for() -> None:
    source = """
        __co__ s32 [4] f() {
          s32 [4] r;
          parallel b by 4 : block {
            shared event e;
            wait e;
            trigger e;
            r.at(b) = 1;
          }
          return r;
        }
    """
    with pytest.raises(CheckError, match="deadlock"):
        croq.compile(source).f()


def test_local_storage_is_each_instances_own() -> None:
    source = """
        __co__ s32 [64] f(s32 [64] x) {
          s32 [64] r;
          parallel b by 1 : block {
            shared event go;
            parallel w by 2 : group, t by 32 : thread {
              local s32 [3000] mine;
              foreach i in 3000 mine.at(i) = x.at(w * 32 + t) + i;
              inthreads.async (w == 0) { trigger go; }
              inthreads.async (w == 1) { wait go; }
              r.at(w * 32 + t) = mine.at(2999) - mine.at(0);
              r.at(w * 32 + t) += mine.at(0);
            }
          }
          return r;
        }
    """
    x = np.arange(64, dtype=np.int32) * 7
    np.testing.assert_array_equal(croq.compile(source).f(x), 2999 + x)


STUCK = """
    import os, signal, sys, threading, time
    import numpy as np
    import croq_magic as croq
    source = '''
        __co__ void f(s32 [32]& x) {
          parallel b by 2 : block {
            shared event go;
            parallel w by 2 : group, t by 32 : thread {
              inthreads.async (w == 0) { while (x.at(t) >= 0) x.at(t) = 1; trigger go; }
              inthreads.async (w == 1) { wait go; }
            }
          }
        }
    '''
    function = croq.compile(source).f
    x = np.zeros(32, np.int32)
    def handler(*_):
        # a deep Python call on the way: it must not run on a fiber's small stack
        def deep(n):
            return 0 if n == 0 else 1 + deep(n - 1)
        deep(900)
        raise KeyboardInterrupt
    signal.signal(signal.SIGINT, handler)
    def interrupt():
        time.sleep(0.4)
        global sent
        sent = time.perf_counter()
        os.kill(os.getpid(), signal.SIGINT)
    threading.Thread(target=interrupt).start()
    try:
        function(x)
    except KeyboardInterrupt:
        print(time.perf_counter() - sent)
    try:
        threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
        function(x)
    except KeyboardInterrupt:
        print(0.0)
"""


def test_stop_button_inside_fibers() -> None:
    times = [float(line) for line in python(STUCK).split()]
    assert len(times) == 2 and max(times) < 0.5
