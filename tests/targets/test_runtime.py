"""The CPU runtime alone, with modules written by hand: threads, forks, the stop button, failures, prints."""

from __future__ import annotations

import ctypes
import os
import threading
import time

import numpy as np
import pytest
from processes import in_a_fork, in_threads, python

from croq_magic.compiler.targets.cpu import build
from croq_magic.compiler.targets.cpu.runtime import CHECK, MEMORY, OK, Failure, runtime

MODULE = """
#include "croq_cpu.h"
extern "C" __attribute__((visibility("default"))) void croq_attach(const croq_runtime* table) { croq_rt = table; }
#define ENTRY extern "C" __attribute__((visibility("default"))) int32_t

struct Square { const int64_t* in; int64_t* out; int64_t repeat; };
static void square(const void* frame, int64_t begin, int64_t end, croq_lane* lane) {
  const Square* f = (const Square*)frame;
  for (int64_t b = begin; b < end; ++b) {
    if (croq_stop(lane)) return;
    for (int64_t r = 0; r < f->repeat; ++r) f->out[b] += f->in[b] * f->in[b];
  }
}
ENTRY squares(croq_lane* lane, const int64_t* w) {
  static croq_site site;
  Square frame = {(const int64_t*)w[0], (int64_t*)w[1], w[3]};
  return croq_rt->launch(lane, &site, square, &frame, w[2], 0, 0);
}

static void forever(const void*, int64_t begin, int64_t end, croq_lane* lane) {
  for (int64_t b = begin; b < end; ++b)
    while (!croq_stop(lane)) __asm__ volatile("");
}
ENTRY endless(croq_lane* lane, const int64_t* w) {
  static croq_site site;
  return croq_rt->launch(lane, &site, forever, nullptr, w[0], 0, (int32_t)w[1]);
}

static void strict(const void* frame, int64_t begin, int64_t end, croq_lane* lane) {
  for (int64_t b = begin; b < end && !croq_stop(lane); ++b)
    if (b == *(const int64_t*)frame) return croq_fail(lane, 7, b, -b);
}
ENTRY failing(croq_lane* lane, const int64_t* w) {
  static croq_site site;
  return croq_rt->launch(lane, &site, strict, w + 1, w[0], 1 << 20, 0);
}

static void order(const void* frame, int64_t begin, int64_t end, croq_lane* lane) {
  for (int64_t b = begin; b < end; ++b) {
    croq_rt->print(lane, "block ", 6);
    croq_rt->print_number(lane, 0, b, 0);
    croq_rt->print(lane, "\\n", 1);
  }
}
ENTRY printing(croq_lane* lane, const int64_t* w) {
  static croq_site site;
  return croq_rt->launch(lane, &site, order, nullptr, w[0], 0, CROQ_SERIAL);
}
ENTRY hungry(croq_lane* lane, const int64_t* w) {
  void* storage = croq_rt->allocate(lane, w[0], true);
  croq_rt->release(storage);
  return CROQ_OK;
}
"""


@pytest.fixture(scope="module")
def module() -> ctypes.PyDLL:
    handle = build.library(MODULE, "runtime tests").handle
    handle.croq_attach.argtypes = (ctypes.c_void_p,)
    handle.croq_attach(runtime().table)
    return handle


def run(module: ctypes.PyDLL, name: str, *words: int) -> tuple[int, Failure]:
    block = (ctypes.c_int64 * max(1, len(words)))(*words)
    failure = Failure()
    entry = ctypes.cast(getattr(module, name), ctypes.c_void_p).value
    return runtime().run(entry, ctypes.addressof(block), ctypes.addressof(failure)), failure


def squares(module: ctypes.PyDLL, count: int, repeat: int) -> None:
    values = np.arange(count, dtype=np.int64)
    out = np.zeros_like(values)
    code, _ = run(module, "squares", values.ctypes.data, out.ctypes.data, count, repeat)
    assert code == OK
    np.testing.assert_array_equal(out, values * values * repeat)


@pytest.mark.parametrize("count", [0, 1, 2, 3, 1000])
@pytest.mark.parametrize("repeat", [1, 3000])
def test_every_block_runs_once(module: ctypes.PyDLL, count: int, repeat: int) -> None:
    for _ in range(3):  # the first launch knows nothing of its cost, later ones do
        squares(module, count, repeat)


def test_two_python_threads_at_once(module: ctypes.PyDLL) -> None:
    def work(_: int) -> None:
        for _ in range(30):
            squares(module, 500, 500)

    in_threads(work)


def test_other_python_threads_run_during_a_launch(module: ctypes.PyDLL) -> None:
    ticks = 0
    stop = threading.Event()

    def tick() -> None:
        nonlocal ticks
        while not stop.is_set():
            ticks += 1
            time.sleep(0.001)

    thread = threading.Thread(target=tick)
    thread.start()
    try:
        before, start = ticks, time.perf_counter()
        while time.perf_counter() - start < 0.2:
            squares(module, 2000, 20000)
        assert ticks - before > 10
    finally:
        stop.set()
        thread.join()


def test_fork_after_a_launch(module: ctypes.PyDLL) -> None:
    squares(module, 1000, 3000)

    def check() -> None:
        for _ in range(3):
            squares(module, 1000, 3000)

    in_a_fork(check)
    squares(module, 1000, 3000)


@pytest.mark.parametrize("bad", [0, 1, 777, 9999])
def test_failure_record(module: ctypes.PyDLL, bad: int) -> None:
    code, failure = run(module, "failing", 10000, bad)
    assert (code, failure.check, failure.count) == (CHECK, 7, 2)
    assert list(failure.values[:2]) == [bad, -bad]


def test_impossible_allocation_is_an_error_code(module: ctypes.PyDLL) -> None:
    assert run(module, "hungry", 1 << 46)[0] == MEMORY
    assert run(module, "hungry", -5)[0] == MEMORY
    assert run(module, "hungry", 4096)[0] == OK


def test_prints_go_to_sys_stdout_in_order(module: ctypes.PyDLL, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(module, "printing", 40)[0] == OK
    assert capsys.readouterr().out == "".join(f"block {b}\n" for b in range(40))


@pytest.mark.parametrize("blocks, flags", [(1, 0), (64, 0), (64, 1)])
def test_interrupt_within_half_a_second(blocks: int, flags: int) -> None:
    script = f"""
        import signal, sys, threading, time, os
        sys.path.insert(0, {os.path.dirname(__file__)!r})
        import test_runtime as t
        module = t.build.library(t.MODULE, "runtime tests").handle
        module.croq_attach.argtypes = (t.ctypes.c_void_p,)
        module.croq_attach(t.runtime().table)
        def interrupt():
            time.sleep(0.3)
            t.sent = time.perf_counter()
            os.kill(os.getpid(), signal.SIGINT)
        threading.Thread(target=interrupt).start()
        try:
            t.run(module, "endless", {blocks}, {flags})
        except KeyboardInterrupt:
            print(time.perf_counter() - t.sent)
        t.squares(module, 1000, 3000)
    """
    assert float(python(script)) < 0.5
