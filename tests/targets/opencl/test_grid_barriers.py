"""Barriers of all blocks on OpenCL devices, which become the ends of launches."""

from __future__ import annotations

import numpy as np
import pytest
from targets.opencl.opencl_devices import each_device

import croq_magic as croq

KEPT = """
__co__ s32 [13, 4] f(s32 [13, 4] x) {
  s32 [13, 4] a, r;
  parallel b by 13 : block<cooperative> {
    parallel t by 4 : thread {
      mutable s32 own = x.at(b, t) * x.at(b, t);
      a.at(b, t) = own + 1;
      sync.barrier : block;
      own = own + a.at((b + 1) % 13, 3 - t);
      sync.barrier : block;
      a.at(b, t) = own;
      sync.barrier : block;
      r.at(b, t) = a.at((b + 5) % 13, t) - own;
    }
  }
  return r;
}
"""

ROUNDS = """
__co__ void f(s32 [N] & a, s32 rounds) {
  s32 [N] next;
  parallel b by N : block<cooperative> {
    foreach n in [rounds] {
      next.at(b) = a.at((b + 1) % N) + n;
      sync.barrier : block;
      a.at(b) = next.at(b);
      sync.barrier : block;
    }
  }
}
"""


@each_device
def test_what_threads_keep_lives_across_barriers(arch: str) -> None:
    x = np.random.default_rng(3).integers(-50, 50, (13, 4)).astype(np.int32)
    own = x * x + np.roll(x * x + 1, -1, axis=0)[:, ::-1]
    result = croq.compile(KEPT, target="opencl", arch=arch).functions["f"](x)
    assert np.array_equal(result, np.roll(own, -5, axis=0) - own)


@each_device
@pytest.mark.parametrize("rounds", [0, 1, 5])
def test_barriers_in_loops(rounds: int, arch: str) -> None:
    a = np.arange(11, dtype=np.int32) ** 2
    expected = a.copy()
    for n in range(rounds):
        expected = np.roll(expected, -1) + n
    croq.compile(ROUNDS, target="opencl", arch=arch).functions["f"](a, rounds)
    assert np.array_equal(a, expected)
