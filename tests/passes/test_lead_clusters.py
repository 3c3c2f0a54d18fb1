"""Statements between the levels `cluster` and `block`: who does them, where blocks meet, what comes out."""

from __future__ import annotations

import numpy as np
import pytest
from targets.cuda_text import kernel

import croq_magic as croq
from croq_magic.errors import CompileError

RANDOM = np.random.default_rng(17)

PHASES = """__co__ s32 [3, 4, 32] f(s32 [3] x) {
  s32 [3, 4, 32] r;
  s32 [3] base;
  s32 [3] last;
  parallel c by 3 : cluster {
    twice = x.at(c) * 2;
    base.at(c) = twice + 1;
    parallel b by 4 : block, t by 32 : thread { r.at(c, b, t) = base.at(c) + b * 100 + t; }
    mutable s32 total = 0;
    foreach k in 4 total += r.at(c, k, 31);
    last.at(c) = total;
    base.at(c) = 7;
    parallel p by 4 : block, t by 32 : thread { r.at(c, p, t) = r.at(c, p, t) * 2 + last.at(c) + base.at(c); }
  }
  return r;
}"""


def expected(x: np.ndarray) -> np.ndarray:
    first = (x * 2 + 1)[:, None, None] + np.arange(4)[:, None] * 100 + np.arange(32)
    return first * 2 + first[:, :, 31].sum(axis=1)[:, None, None] + 7


@pytest.mark.parametrize("seed", [0, 1, 2, 3])
def test_phases_in_the_emulator(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CROQ_EMULATE_SEED", str(seed))
    x = RANDOM.integers(-50, 50, 3).astype(np.int32)
    np.testing.assert_array_equal(croq.compile(PHASES, target="emulate", arch="sm_90a").f(x), expected(x))


@pytest.mark.gpu_refuses("UNS01")  # before sm_90 there are no clusters
def test_the_processor_agrees() -> None:
    x = RANDOM.integers(-50, 50, 3).astype(np.int32)
    np.testing.assert_array_equal(croq.compile(PHASES, target="cpu").f(x), expected(x))


def test_text() -> None:
    text = kernel(PHASES, "sm_90a")
    assert "__cluster_dims__(4, 1, 1)" in text
    assert text.count("croq_cluster_sync();") == 3  # behind effects, behind the first blocks, behind effects
    assert text.count("if (b == 0)") == 2
    assert not text.rstrip("}\n").endswith("croq_cluster_sync();")


@pytest.mark.gpu_refuses("UNS01")  # before sm_90 there are no clusters
def test_what_all_blocks_have_read_is_not_changed_at_once() -> None:
    text = PHASES.replace("last.at(c) = total;", "last.at(c) = total; r.at(c, 0, 0) = 5;")
    assert kernel(text, "sm_90a").count("croq_cluster_sync();") == 4
    x = RANDOM.integers(-50, 50, 3).astype(np.int32)
    result = croq.compile(text, target="emulate", arch="sm_90a").f(x)
    np.testing.assert_array_equal(result, croq.compile(text, target="cpu").f(x))


LOOP = """__co__ s32 [2, 64] f(s32 [2, 64] x, int n) {
  s32 [2, 64] r;
  s32 [2, 2, 64] board;
  parallel c by 2 : cluster {
    parallel b by 2 : block, t by 32 : thread { board.at(c, 0, b * 32 + t) = x.at(c, b * 32 + t); }
    foreach k in n {
      board.at(c, 0, 0) += 1;
      parallel b by 2 : block, t by 32 : thread { board.at(c, 1, b * 32 + t) = board.at(c, 0, 63 - b * 32 - t); }
      parallel b by 2 : block, t by 32 : thread { board.at(c, 0, b * 32 + t) = board.at(c, 1, b * 32 + t) + k; }
    }
    parallel b by 2 : block, t by 32 : thread { r.at(c, b * 32 + t) = board.at(c, 0, b * 32 + t); }
  }
  return r;
}"""


@pytest.mark.parametrize("rounds", [0, 1, 5])
def test_a_loop_of_phases(rounds: int, monkeypatch: pytest.MonkeyPatch) -> None:
    program = croq.compile(LOOP, target="emulate", arch="sm_90a")
    x = RANDOM.integers(-50, 50, (2, 64)).astype(np.int32)
    board = x.copy()
    for k in range(rounds):
        board[:, 0] += 1
        board = board[:, ::-1] + k
    for seed in ("0", "7", "8"):
        monkeypatch.setenv("CROQ_EMULATE_SEED", seed)
        np.testing.assert_array_equal(program.f(x, rounds), board)


@pytest.mark.parametrize(
    ("levels", "message"),
    [
        ("b by 12", "statements of a cluster of more than 8 blocks, or of any number, are not supported"),
        ("b by n", "statements of a cluster of more than 8 blocks, or of any number, are not supported"),
    ],
)
def test_what_a_gpu_does_not_have_to_take(levels: str, message: str) -> None:
    text = f"""__co__ s32 [3, 12] f(int n) {{
      s32 [3, 12] r;
      s32 [3] base;
      parallel c by 3 : cluster {{
        base.at(c) = c;
        parallel {levels} : block {{ r.at(c, b % 12) = base.at(c); }}
      }}
      return r;
    }}"""
    with pytest.raises(CompileError, match=message) as caught:
        croq.compile(text, target="emulate", arch="sm_90a").f(12)
    assert "base.at(c) = c;" in str(caught.value)


def test_different_blocks() -> None:
    text = """__co__ void f(s32 [3, 12]& r) {
      parallel c by 3 : cluster {
        parallel b by 4 : block { r.at(c, b) = 1; }
        parallel b by 2 : block { r.at(c, b) = 2; }
      }
    }"""
    with pytest.raises(CompileError, match="different blocks in one cluster are not supported"):
        croq.compile(text, target="emulate", arch="sm_90a").f(np.zeros((3, 12), np.int32))
