"""What a thread keeps for itself has an end, which is met wherever the first access behind it goes."""

from __future__ import annotations

import numpy as np
import pytest

import croq_magic as croq

TEXT = """\
__co__ s32 [8] f(s32 [8] x) {
  s32 [8] r;
  parallel b by 1 : block, t by 8 : thread {
    local s32 [%d] mine;
    foreach i in %d mine.at(i * 7 %% %d) = x.at(t) + i;
    r.at(t) = mine.at(7);
  }
  return r;
}
"""


@pytest.mark.parametrize("mode", ["checked", "fast"])
@pytest.mark.parametrize("size", [250_001, 1_000_003, 16_000_001])
def test_arrays_larger_than_a_threads_memory(size: int, mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CROQ_EMULATE", mode)
    f = croq.compile(TEXT % (size, size, size), target="emulate").f
    with pytest.raises(croq.CheckError, match="needs more than its 768 KiB of local memory at line"):
        f(np.zeros(8, np.int32))


@pytest.mark.parametrize("mode", ["checked", "fast"])
def test_arrays_that_fit(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CROQ_EMULATE", mode)
    size = 100_003
    x = np.arange(8, dtype=np.int32) * 5
    np.testing.assert_array_equal(croq.compile(TEXT % (size, size, size), target="emulate").f(x), x + 1)
