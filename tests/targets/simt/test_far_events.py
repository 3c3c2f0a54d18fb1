"""Events between blocks, run in the emulator: an event of the launch, and one of every block of a cluster."""

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


@pytest.mark.parametrize("blocks", [1, 2, 5])
def test_a_trigger_for_all_blocks_of_a_cluster(blocks: int) -> None:
    program = croq.compile(
        f"""__co__ s32 [3, {blocks}] f(s32 [3, {blocks}] x) {{
          s32 [3, {blocks}] r;
          s32 [3, {blocks}] sums;
          parallel c by 3 : cluster, b by {blocks} : block {{
            shared event all;
            parallel t by 32 : thread {{
              inthreads.async (t == 0) {{ sums.at(c, b) = x.at(c, b) * 2; trigger.cluster all; }}
              inthreads.async (t == 1) {{
                wait all;
                mutable s32 total = 0;
                foreach k in {blocks} total += sums.at(c, k);
                r.at(c, b) = total + b;
              }}
            }}
          }}
          return r;
        }}""",
        target="emulate",
        arch="sm_90a",
    )
    x = RANDOM.integers(-50, 50, (3, blocks)).astype(np.int32)
    np.testing.assert_array_equal(program.f(x), 2 * x.sum(axis=1, keepdims=True) + np.arange(blocks))
