"""Kernels that do not end, and device code that would end the process: the notebook lives on, the next run is right.
Each test has a process of its own, with Python's faulthandler on, as in notebooks."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

CELL = """\
// Of the C library, for what ends a process inside one of its functions.
extern "C" int raise(int);
__device__ int stop(int how, int t, volatile int* place) {
  int i = t | 1;
  if (how == 1) while (i != 0) i = i * 5 | 1;
  if (how == 2) while (place[0] != -7) {}
  if (how == 3) for (;;) place[1] = place[0];
  if (how == 4) abort();
  if (how == 5) assert(t != 5);
  if (how == 6) exit(3);
  if (how == 7) __trap();
  if (how == 8) raise(6);
  return t + i - (t | 1);
}
__co__ s32 [N] f(s32 [N] x, s32 how) {
  s32 [N] r;
  parallel b by N / 32 : block, t by 32 : thread {
    shared s32 [2] place;
    inthreads (t < 2) { place.at(t) = 0; }
    sync.shared;
    s32 chosen = 0;
    if (x.at(b # t) == 37) { chosen = how; }
    s32 v = call stop(chosen, t, place);
    r.at(b # t) = x.at(b # t) + v;
  }
  return r;
}
"""
CHILD = """
import faulthandler, json, os, signal, sys, threading, time
faulthandler.enable()
import numpy as np
import croq_magic as croq

program = croq.compile(sys.stdin.read(), target="emulate")
x = np.arange(96, dtype=np.int32)
for how in json.loads(sys.argv[1]):
    stop = threading.Timer(0.4, lambda: os.kill(os.getpid(), signal.SIGINT))
    if how in (1, 3):
        stop.start()
    begun = time.perf_counter()
    try:
        program.f(x, how)
        print(json.dumps("no error"))
    except KeyboardInterrupt:
        print(json.dumps(["interrupted", time.perf_counter() - begun]))
    except croq.CheckError as error:
        print(json.dumps(str(error)))
    stop.cancel()
    np.testing.assert_array_equal(program.f(x, 0), x + x % 32)
print(json.dumps("whole"))
"""


def child(kinds: list[int], mode: str) -> list[object]:
    environment = dict(os.environ, CROQ_EMULATE=mode)
    environment["PYTHONPATH"] = os.pathsep.join(
        [str(Path(__file__).parents[3]), *filter(None, [os.environ.get("PYTHONPATH")])]
    )
    command = [sys.executable, "-c", CHILD, json.dumps(kinds)]
    done = subprocess.run(command, input=CELL, capture_output=True, text=True, env=environment, timeout=120)
    assert done.returncode == 0 and not done.stderr, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.parametrize("mode", ["checked", "fast"])
def test_loops_without_an_end_are_interrupted(mode: str) -> None:
    *said, last = child([1, 1] if mode == "checked" else [1, 3, 1], mode)
    assert last == "whole"
    for each in said:
        assert isinstance(each, list) and each[0] == "interrupted" and each[1] < 20


def test_looking_for_what_never_comes_is_a_deadlock() -> None:
    *said, last = child([2, 3], "checked")
    assert last == "whole"
    for line, text in zip((6, 7), said, strict=True):
        assert f"deadlock in block 1: waiting are 1 thread for what others write at line {line}" in str(text)


@pytest.mark.parametrize("mode", ["checked", "fast"])
def test_what_would_end_the_process_ends_the_launch(mode: str) -> None:
    *said, last = child([4, 5, 6, 7, 8], mode)
    assert last == "whole"
    wanted = [
        "calls abort at line 8",
        "finds `t != 5` false, which it asserts, at line 9",
        "calls exit at line 10",
        "stops the kernel at line 11",
        "calls abort at line 12",
    ]
    for text, sentence in zip(said, wanted, strict=True):
        assert isinstance(text, str) and text.startswith(f"f_kernel: thread 5 of block 1 {sentence}"), text
