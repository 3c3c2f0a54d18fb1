"""Sets of threads that may wait at the same time wait at barriers of different numbers."""

from __future__ import annotations

import re

import numpy as np
import pytest
from targets.cuda_text import cubin, emission, kernel

import croq_magic as croq
from croq_magic.compiler import integers, ir
from croq_magic.compiler.targets.simt.barriers import BarrierNumbers

ROLE = """
      inthreads.async ({low} <= t && t < {high}) {{
        foreach n in 4 {{
          tile{low} = dma.copy x.subspan(1, 128).at({row}, n) => shared;
          r.at({row}, n * 128 + t - {low}) = tile{low}.data.at(0, 127 - t + {low});
          r.at({row}, n * 128 + 64 + t - {low}) = tile{low}.data.at(0, 63 - t + {low});
        }}
      }}"""


def roles(count: int) -> str:
    """As many roles of 64 threads, each with a row and a tile of its own."""
    bodies = "".join(ROLE.format(row=row, low=64 * row, high=64 * row + 64) for row in range(count))
    head = f"__co__ s32 [{count}, 512] f(s32 [{count}, 512] x) {{ s32 [{count}, 512] r;"
    return head + f"parallel b by 1 : block {{ parallel t by {64 * count} : thread {{ {bodies} }} }} return r; }}"


def meetings(text: str) -> list[tuple[str, str]]:
    return re.findall(r"croq_bar_sync\((\d+), (\d+)\)", text)


@pytest.mark.parametrize("count", [2, 5])
def test_roles_of_two_warps_do_not_share_a_barrier(count: int) -> None:
    found = meetings(kernel(roles(count)))
    assert found == [(str(15 - role), "64") for role in range(count) for _ in range(2)]
    binary, log = cubin(emission(roles(count)).text, "sm_80")
    assert binary and not log.strip(), log
    x = np.arange(count * 512, dtype=np.int32).reshape(count, 512)
    expected = x.reshape(count, 4, 128)[:, :, ::-1].reshape(count, 512)
    for target in ("cpu", "emulate"):
        np.testing.assert_array_equal(croq.compile(roles(count), target).f(x), expected)


def test_numbers_run_out() -> None:
    assert len(set(meetings(kernel(roles(15))))) == 15
    assert len(set(meetings(kernel(roles(16))))) == 15  # the last role meets at an event
    x = np.arange(16 * 512, dtype=np.int32).reshape(16, 512)
    expected = x.reshape(16, 4, 128)[:, :, ::-1].reshape(16, 512)
    np.testing.assert_array_equal(croq.compile(roles(16), "emulate").f(x), expected)


@pytest.mark.parametrize("count", [1, 3, 8, 16])
def test_units_of_two_warps_meet_apart(count: int) -> None:
    """Each warp reads what the other warp of its group has written, again and again."""
    text = f"""__co__ s32 [{count}, 64] f(s32 [{count}, 64] x) {{ s32 [{count}, 64] r;
      parallel b by 1 : block {{
        shared s32 [{count}, 64] s;
        parallel w by {count} : group, t by 64 : thread {{
          mutable s32 v = x.at(w, t);
          foreach n in 3 {{
            s.at(w, t) = v * 2;
            sync.barrier : group;
            v = s.at(w, 63 - t) + n;
            sync.barrier : group;
          }}
          r.at(w, t) = v;
        }}
      }}
      return r; }}"""
    x = np.arange(count * 64, dtype=np.int32).reshape(count, 64)
    expected = x
    for n in range(3):
        expected = expected[:, ::-1] * 2 + n
    for target in ("cpu", "emulate"):
        np.testing.assert_array_equal(croq.compile(text, target).f(x), expected)
    binary, log = cubin(emission(text).text, "sm_80")
    assert binary and not log.strip(), log


def barrier(number: ir.Expr) -> ir.NamedBarrier:
    return ir.NamedBarrier(number, integers.constant(64))


def test_numbers_of_the_program_and_of_groups_are_left_alone() -> None:
    first, second = tuple(range(64)), tuple(range(64, 128))
    numbers = BarrierNumbers((barrier(integers.constant(15)), barrier(integers.constant(13))), 128)
    assert [numbers.of(first), numbers.of(second), numbers.of(first)] == [14, 12, 14]
    groups = ir.Region(ir.Level.GROUP4, (), (), (barrier(integers.constant(1)),))  # units of 128 threads
    numbers = BarrierNumbers((groups,), 256)
    assert [numbers.of(first), numbers.of(tuple(range(128, 256))), numbers.of(second)] == [13, 14, 12]
