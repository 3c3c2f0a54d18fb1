"""Kernels that use all of a block's memory, with what they need beside their buffers."""

from __future__ import annotations

import pytest
from targets.cuda_text import cubin, emission

from croq_magic.compiler import integers
from croq_magic.errors import CompileError


def handed_over(count: int) -> str:
    """A buffer of s32 and an event."""
    return f"""
__co__ s32 [128] f(s32 [128] x) {{
  s32 [128] r;
  parallel b by 1 : block {{
    shared s32 [{count}] u;
    shared event e;
    parallel w by 2 : group-4, t by 128 : thread {{
      inthreads.async (w == 0) {{ u.at(t) = x.at(t); trigger e; }}
      inthreads.async (w == 1) {{ wait e; r.at(t) = u.at(127 - t); }}
    }}
  }}
  return r;
}}"""


@pytest.mark.parametrize(
    ("count", "dynamic"),
    [((48 << 10) // 4 - 2, 0), ((48 << 10) // 4 - 1, (48 << 10) - 4), ((48 << 10) // 4, 48 << 10), (20011, 80044)],
)
def test_events_are_counted_where_static_memory_ends(count: int, dynamic: int) -> None:
    found = emission(handed_over(count), "sm_90a")
    assert integers.value(found.kernels[0].shared_bytes) == dynamic
    binary, log = cubin(found.text, "sm_90a")
    assert binary and not log.strip(), log


@pytest.mark.parametrize(("arch", "kib"), [("sm_75", 64), ("sm_80", 163), ("sm_90a", 227), ("sm_120", 99)])
def test_events_are_counted_where_all_memory_ends(arch: str, kib: int) -> None:
    most = (kib << 10) // 4
    found = emission(handed_over(most - 32), arch)  # buffers begin at a multiple of 128 bytes behind the event
    assert integers.value(found.kernels[0].shared_bytes) == 4 * most - 128
    with pytest.raises(CompileError, match=f"block needs {4 * most + 4} bytes of shared memory, {arch} offers"):
        emission(handed_over(most - 31), arch)
