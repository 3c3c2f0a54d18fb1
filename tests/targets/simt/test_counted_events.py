"""Events on every architecture: sm_75 counts arrivals in plain shared memory, sm_80 has mbarriers. The emulator runs
the counting itself, under orders of threads that a seed chooses."""

from __future__ import annotations

import numpy as np
import pytest
from programs.conformance import PROGRAMS

import croq_magic as croq

RANDOM = np.random.default_rng(75)
ARCHS = ["sm_75", "sm_80", "sm_90a"]
SEEDS = [0, 1, 2, 3, 4]
RINGS = {entry.name: entry for entry in PROGRAMS if entry.name[:3] in ("C45", "C46")}

# Two producers and two consumers over a ring: warps of different speed, a role that is a part of a warp, and a product.
PIPE = """__co__ s32 [16, 24] f(s32 [16, K] a, s32 [24, K] b, s32 [4] & counts) {
  s32 [16, 24] c;
  parallel by 1 : block {
    shared s32 [16, 8] ta[3];
    shared s32 [24, 8] tb[3];
    shared event have[3], freed[3] = ready;
    shared event counted;
    shared s32 [4] seen;
    parallel w by 4 : group, t by 32 : thread {
      inthreads.async (w < 2) {
        foreach {n} in [cdiv(K, 8)] {
          wait freed.at(n);
          foreach i in 8 if (i * 64 + w * 32 + t < 128) {
            j = i * 64 + w * 32 + t;
            k = n * 8 + j % 8;
            mutable s32 v = 0;
            if (k < K) v = a.at(j / 8, k);
            ta[n % 3].at(j / 8, j % 8) = v;
          }
          foreach i in 3 {
            j = i * 64 + w * 32 + t;
            k = n * 8 + j % 8;
            mutable s32 v = 0;
            if (k < K) v = b.at(j / 8, k);
            tb[n % 3].at(j / 8, j % 8) = v;
          }
          trigger have.at(n);
        }
        inthreads (t == 5) { seen.at(w) = w + 10; trigger counted; }
      }
      inthreads.async (w >= 2) {
        foreach {n} in [cdiv(K, 8)] {
          wait have.at(n);
          foreach i in 6 {
            j = i * 64 + (w - 2) * 32 + t;
            mutable s32 total = 0;
            foreach k in 8 total += ta[n % 3].at(j / 24, k) * tb[n % 3].at(j % 24, k);
            c.at(j / 24, j % 24) += total;
          }
          trigger freed.at(n);
        }
        inthreads (t == 9) { wait counted; counts.at(w) = seen.at(0) + seen.at(1) * w; }
      }
    }
  }
  return c;
}"""


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("name", RINGS)
def test_rings(name: str, arch: str, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CROQ_EMULATE_SEED", str(seed))
    entry = RINGS[name]
    case = entry.case()
    program = croq.compile(entry.source(), target="emulate", arch=arch)
    case.check(getattr(program, entry.function)(*case.inputs.values()))


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("arch", ARCHS)
def test_a_pipeline_with_roles_of_several_warps(arch: str, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CROQ_EMULATE_SEED", str(seed))
    program = croq.compile(PIPE, target="emulate", arch=arch)
    for k in (1, 37):
        a = RANDOM.integers(-9, 9, (16, k)).astype(np.int32)
        b = RANDOM.integers(-9, 9, (24, k)).astype(np.int32)
        counts = np.zeros(4, np.int32)
        np.testing.assert_array_equal(program.f(a, b, counts), a @ b.T)
        np.testing.assert_array_equal(counts, [0, 0, 10 + 11 * 2, 10 + 11 * 3])


MISSED = {  # what is left of a wait or a trigger, and how that shows
    "wait freed.at(n);": ("if (n > 90) wait freed.at(n);", "data race|deadlock"),
    "wait have.at(n);": ("if (n > 90) wait have.at(n);", "data race|nobody in the block has written|deadlock"),
    "wait counted;": ("if (K > 90) wait counted;", "data race|nobody in the block has written"),
    "trigger counted;": ("if (K > 90) trigger counted;", "deadlock"),
    "trigger freed.at(n);": ("if (K != 37) trigger freed.at(n);", "deadlock"),
    "trigger have.at(n);": ("if (K != 37) trigger have.at(n);", "deadlock"),
}


@pytest.mark.parametrize(
    ("arch", "line"),
    [*(("sm_80", line) for line in MISSED), ("sm_75", "wait counted;"), ("sm_75", "trigger counted;")],
)
def test_each_wait_and_trigger_is_missed(arch: str, line: str) -> None:
    rest, message = MISSED[line]
    program = croq.compile(PIPE.replace(line, rest), target="emulate", arch=arch)
    k = 37
    with pytest.raises(croq.CheckError, match=message) as caught:
        program.f(np.ones((16, k), np.int32), np.ones((24, k), np.int32), np.zeros(4, np.int32))
    assert " at line " in str(caught.value) and "cell:" in str(caught.value)
