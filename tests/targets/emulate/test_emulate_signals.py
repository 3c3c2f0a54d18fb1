"""What the processor refuses a kernel is an error of the cell and leaves the process whole. Each test has a process of
its own, with Python's faulthandler on, as in notebooks."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

CELL = """\
__device__ int deep(int n, volatile int* at) {
  volatile int room[64];
  room[n & 63] = n;
  return n < 0 ? at[0] : deep(n + 1, room) + room[(n + 1) & 63];
}
__device__ void (*nobody)();
__device__ int fault(int what, long long where, int t) {
  if (what == 1) return *(volatile int*)where;
  if (what == 2) *(volatile int*)where = t;
  if (what == 3) return deep(0, nullptr);
  if (what == 4) return t / (int)where;
  if (what == 5) nobody();
  if (what == 6) {
    volatile int own[16];
    *(own - where) = t;
  }
  if (what == 7) __builtin_memset((void*)where, t, t + 4000);
  return t + 1;
}
__co__ s32 [N] f(s32 [N] x, s32 what, s64 place) {
  s32 [N] r;
  parallel b by N / 32 : block, t by 32 : thread {
    shared s32 [32] all;
    all.at(t) = x.at(b # t);
    sync.shared;
    s32 chosen = 0;
    if (all.at(31 - t) == 45) { chosen = what; }
    r.at(b # t) = call fault(chosen, place, all.at(31 - t));
  }
  return r;
}
"""
CHILD = """
import ctypes, faulthandler, json, os, signal, sys
faulthandler.enable()
import numpy as np
import croq_magic as croq

program = croq.compile(sys.stdin.read(), target="emulate")
x = np.arange(640, dtype=np.int32)
wanted = x.reshape(-1, 32)[:, ::-1].ravel() + 1
for what, where in json.loads(sys.argv[1]):
    if what:
        try:
            program.f(x, what, where)
            print(json.dumps("no error"))
        except croq.CheckError as error:
            print(json.dumps(str(error)))
    np.testing.assert_array_equal(program.f(x, 0, 0), wanted)
sys.stdout.flush()
if sys.argv[2:] == ["sent"]:
    os.kill(os.getpid(), signal.SIGSEGV)
if sys.argv[2:] == ["own"]:
    ctypes.string_at(0)
print(json.dumps("whole"))
"""
HIGH = 1 << 40


def child(faults: list[tuple[int, int]], mode: str, end: str = "") -> tuple[int, list[str], str]:
    """Runs the cell with these faults, one after the other; gives exit status, messages, and what went to stderr."""
    environment = dict(os.environ, CROQ_EMULATE=mode)
    environment["PYTHONPATH"] = str(Path(__file__).parents[3])
    command = [sys.executable, "-c", CHILD, json.dumps(faults), *([end] if end else [])]
    done = subprocess.run(command, input=CELL, capture_output=True, text=True, env=environment, timeout=120)
    return done.returncode, [json.loads(line) for line in done.stdout.splitlines()], done.stderr


@pytest.mark.parametrize("mode", ["checked", "fast"])
def test_faults_end_the_launch_and_not_the_process(mode: str) -> None:
    faults = [(1, 8), (2, 16), (2, HIGH), (1, 1 << 62), (3, 0), (4, 0), (5, 0), (6, 200_000), (7, HIGH), (7, 0)]
    code, said, errors = child(faults, mode)
    assert (code, errors) == (0, ""), errors
    *texts, last = said
    assert last == "whole" and len(texts) == len(faults)
    lines = [8, 9, 9, 8, 4, 11, 12, 15, 17, 17]
    for (what, _), line, text in zip(faults, lines, texts, strict=True):
        assert text.startswith("f_kernel: thread 18 of block 1 "), text
        # A full stack is met anywhere in the function.
        assert any(f"at line {at}" in text for at in ((1, 3, 4) if what == 3 else (line,))), text
    deep, division, call = texts[4:7]
    assert "needs more than its 768 KiB of local memory" in deep and "calls itself too often" in deep
    assert "divides an integer by zero" in division
    assert "uses a null pointer" in call
    assert f"writes address 0x{HIGH:x} at line 17" in texts[8] and "writes through a null pointer" in texts[9]
    if mode == "checked":  # accesses are looked at before they are made, but not those of the C library
        assert all("outside every buffer" in texts[at] for at in (0, 1, 2, 3, 7))
        return
    assert "reads through a null pointer at line 8 (address 0x8)" in texts[0]
    assert "writes through a null pointer at line 9 (address 0x10)" in texts[1]
    assert f"writes address 0x{HIGH:x} at line 9, where there is no memory" in texts[2]
    assert "uses an address that no memory can have at line 8" in texts[3]
    assert "an index far outside one" in texts[7]
    assert "cell:8: if (what == 1) return *(volatile int*)where;" in texts[0]


@pytest.mark.parametrize("end", ["own", "sent"])
def test_the_signals_of_others_go_where_they_went(end: str) -> None:
    code, said, errors = child([(1, 8)], "fast", end)
    assert code == -11 and len(said) == 1 and "null pointer" in said[0]
    assert "Fatal Python error: Segmentation fault" in errors and 'File "<string>"' in errors


def test_both_modes_are_built_beside_each_other() -> None:
    """A process finds what another one has built in its own mode, and nothing else."""
    for mode, said in (("checked", "outside every buffer"), ("fast", "null pointer"), ("checked", "outside every")):
        assert said in child([(1, 8)], mode)[1][0]
