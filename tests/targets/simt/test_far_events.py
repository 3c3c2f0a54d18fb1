"""Events of the launch: words in device memory, run in the emulator."""

from __future__ import annotations

import numpy as np
import pytest

import croq_magic as croq

RANDOM = np.random.default_rng(5)


@pytest.mark.parametrize("rounds", [1, 2, 7])
def test_a_ring_between_two_blocks(rounds: int) -> None:
    program = croq.compile(
        """__co__ s32 [N, 40] f(s32 [N, 40] x) {
          s32 [N, 40] r;
          s32 [3, 40] slots;
          global event have[3], freed[3] = ready;
          parallel b by 2 : block, t by 40 : thread {
            inthreads.async (b == 0) {
              foreach n in N { wait freed.at(n); slots.at(n % 3, t) = x.at(n, t) * 3; trigger have.at(n); }
            }
            inthreads.async (b == 1) {
              foreach n in N { wait have.at(n); r.at(n, t) = slots.at(n % 3, 39 - t) + n; trigger freed.at(n); }
            }
          }
          return r;
        }""",
        target="emulate",
    )
    x = RANDOM.integers(-50, 50, (rounds, 40)).astype(np.int32)
    np.testing.assert_array_equal(program.f(x), x[:, ::-1] * 3 + np.arange(rounds)[:, None])
