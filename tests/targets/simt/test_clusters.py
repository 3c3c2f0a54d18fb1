"""Clusters: events that a block triggers for all blocks of its cluster, in text, machine code and the emulator."""

from __future__ import annotations

import re

import numpy as np
import pytest
from targets.cuda_text import cubin, emission, kernel
from targets.emulate_kernels import clean, run

import croq_magic as croq
from croq_magic.compiler.targets.cuda import disasm
from croq_magic.compiler.targets.emulate import build
from croq_magic.errors import TargetError

RANDOM = np.random.default_rng(5)


def sums(clusters: int | str, blocks: str, count: int) -> str:
    """Every block adds up what the blocks of its cluster have written."""
    return f"""__co__ s32 [{clusters}, {count}] f(s32 [{clusters}, {count}] x) {{
      s32 [{clusters}, {count}] r;
      s32 [{clusters}, {count}] sums;
      parallel c by {clusters} : cluster, {blocks} : block {{
        shared event all;
        parallel t by 32 : thread {{
          inthreads.async (t == 0) {{ sums.at(c, b) = x.at(c, b) * 2; trigger.cluster all; }}
          inthreads.async (t == 1) {{
            wait all;
            mutable s32 total = 0;
            foreach k in {count} total += sums.at(c, k);
            r.at(c, b) = total + b;
          }}
        }}
      }}
      return r;
    }}"""


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("blocks", [1, 2, 5, 8, 9])  # 9: more than a GPU has to take
def test_a_trigger_for_all_blocks(blocks: int, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CROQ_EMULATE_SEED", str(seed))
    program = croq.compile(sums("N", f"b by {blocks}", blocks), target="emulate", arch="sm_90a")
    for n in (1, 3):
        x = RANDOM.integers(-50, 50, (n, blocks)).astype(np.int32)
        np.testing.assert_array_equal(program.f(x), 2 * x.sum(axis=1, keepdims=True) + np.arange(blocks))


def test_fast_mode(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CROQ_EMULATE", "fast")
    program = croq.compile(sums(70, "b by 4", 4), target="emulate", arch="sm_90a")
    x = RANDOM.integers(-50, 50, (70, 4)).astype(np.int32)
    np.testing.assert_array_equal(program.f(x), 2 * x.sum(axis=1, keepdims=True) + np.arange(4))


def test_text() -> None:
    text = kernel(sums(3, "b by 5", 5), "sm_90a")
    assert "__global__ void __cluster_dims__(5, 1, 1) __launch_bounds__(32) f_kernel(" in text
    assert "b = blockIdx.x % 5;" in text and "c = blockIdx.x / 5;" in text  # neighbours are a cluster
    assert "croq_mbarrier_init(&all[0], 5);\n  }\n  croq_cluster_sync();" in text
    assert text.endswith("  croq_cluster_sync();\n}")
    assert "far" not in text and "__syncthreads" not in text
    (made,) = emission(sums(3, "b by 5", 5), "sm_90a").kernels
    assert made.cluster == (5, 1, 1) and not made.cooperative
    assert {a.kind for a in made.arguments} == {"buffer"}


def test_more_blocks_than_a_gpu_has_to_take() -> None:
    text = kernel(sums(3, "b by 9", 9), "sm_90a")
    assert "__cluster_dims__" not in text and "croq_far_arrive" in text
    (made,) = emission(sums(3, "b by 9", 9), "sm_90a").kernels
    assert made.cooperative and made.cluster == ()


def test_blocks_with_several_indices_are_neighbours_along_x() -> None:
    text = """__co__ s32 [3, 2, 4] f() {
      s32 [3, 2, 4] r;
      parallel c by 3 : cluster, {i, j} by [2, 4] : block { r.at(c, i, j) = c * 100 + i * 10 + j; }
      return r;
    }"""
    assert "__cluster_dims__(8, 1, 1)" in kernel(text, "sm_90a")
    c, i, j = np.indices((3, 2, 4))
    np.testing.assert_array_equal(croq.compile(text, target="emulate", arch="sm_90a").f(), c * 100 + i * 10 + j)


RING = """__co__ s32 [N, 3, 8] f(s32 [N, 3, 8] x) {
  s32 [N, 3, 8] r;
  s32 [2, 3, 8] board;
  parallel c by 1 : cluster, b by 3 : block {
    shared event have[2], freed[2] = ready;
    parallel w by 2 : group, t by 32 : thread {
      inthreads.async (w == 0 && t < 8) {
        foreach n in N {
          wait freed.at(n);
          board.at(n % 2, b, t) = x.at(n, b, t) * 3;
          trigger.cluster have.at(n);
        }
      }
      inthreads.async (w == 1 && t < 8) {
        foreach n in N {
          wait have.at(n);
          mutable s32 total = n;
          foreach k in 3 total += board.at(n % 2, k, 7 - t);
          r.at(n, b, t) = total;
          trigger.cluster freed.at(n);
        }
      }
    }
  }
  return r;
}"""


@pytest.mark.parametrize("seed", [0, 3, 4, 5])
def test_a_ring_over_all_blocks(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CROQ_EMULATE_SEED", str(seed))
    program = croq.compile(RING, target="emulate", arch="sm_90a")
    x = RANDOM.integers(-50, 50, (7, 3, 8)).astype(np.int32)
    expected = 3 * x.sum(axis=1, keepdims=True)[:, :, ::-1] + np.arange(7)[:, None, None]
    np.testing.assert_array_equal(program.f(x), np.broadcast_to(expected, x.shape))


@pytest.mark.parametrize("wait", ["wait freed.at(n);", "wait have.at(n);"])
def test_a_wait_that_is_left_out_is_a_race_between_blocks(wait: str) -> None:
    program = croq.compile(RING.replace(wait, f"if (n > 90) {wait}"), target="emulate", arch="sm_90a")
    with pytest.raises(croq.CheckError, match=r"data race|has ended|deadlock"):
        program.f(np.ones((7, 3, 8), np.int32))


def test_a_thread_that_ends_early_comes_to_the_end_of_the_cluster() -> None:
    last = "r.at(c, b) = total + b;\n          }"
    source = sums(3, "b by 2", 2)
    assert last in source
    source = source.replace(last, last + "\nif (t != 1) yield;\nr.at(c, b) += 1;")
    text = kernel(source, "sm_90a")
    assert "return;" not in text and "goto end_of_instance;" in text
    program = croq.compile(source, target="emulate", arch="sm_90a")
    x = RANDOM.integers(-50, 50, (3, 2)).astype(np.int32)
    np.testing.assert_array_equal(program.f(x), 2 * x.sum(axis=1, keepdims=True) + np.arange(2) + 1)


@pytest.mark.parametrize("arch", ["sm_90", "sm_90a"])
def test_machine_code(arch: str) -> None:
    binary, log = cubin(emission(RING, arch).text, arch)
    assert binary, log
    code = disasm.sass(binary)
    kernels = len(emission(RING, arch).kernels)
    assert code.count("UCGABAR_ARV") == code.count("UCGABAR_WAIT") == 2 * kernels
    assert re.search(r"SYNCS\.ARRIVE\.TRANS64\.\S*A1T0", code) and "SYNCS.PHASECHK.TRANS64.TRYWAIT" in code


WHOLE = r"""#include <cstdio>
#include <vector>
#include "choreo.h"
__co__ s32 [3, 4] f(s32 [3, 4] x) {
  s32 [3, 4] r;
  s32 [3, 4] sums;
  parallel c by 3 : cluster, b by 4 : block {
    shared event all;
    parallel t by 32 : thread {
      inthreads.async (t == 0) { sums.at(c, b) = x.at(c, b) * 2; trigger.cluster all; }
      inthreads.async (t == 1) {
        wait all;
        mutable s32 total = 0;
        foreach k in 4 total += sums.at(c, k);
        r.at(c, b) = total + b;
      }
    }
  }
  return r;
}
int main() {
  std::vector<int> x(12);
  for (int i = 0; i < 12; ++i) x[i] = i * i;
  auto r = f(choreo::make_spanview<2>(x.data(), {3, 4}));
  for (int i = 0; i < 3; ++i) { for (int j = 0; j < 4; ++j) printf("%d ", (int)r[i][j]); printf("\n"); }
}
"""


@pytest.mark.parametrize("mode", ["checked", "fast"])
def test_a_host_in_cxx(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CROQ_EMULATE", mode)
    done = croq.run_program(WHOLE, target="emulate", arch="sm_90a")
    x = np.arange(12).reshape(3, 4) ** 2
    expected = 2 * x.sum(axis=1, keepdims=True) + np.arange(4)
    np.testing.assert_array_equal([[int(v) for v in line.split()] for line in done.stdout.splitlines()], expected)


# ------------------------------------------------------------------------------------------------ the emulator itself
PLAIN = """#include "croq_cuda.h"
extern "C" __global__ void __cluster_dims__(DIMS) k(const int* x, int* board, int* r) {
  __shared__ uint64_t all[1];
  const int thread = threadIdx.x, size = SIZE;
  const int block = blockIdx.x + gridDim.x * blockIdx.y;
  const int first = FIRST;
  if (thread == 0) croq_mbarrier_init(all, size);
  croq_cluster_sync();
  if (thread == 0) {
    board[block] = x[block] * 2;
    for (int rank = 0; rank < size; ++rank) croq_cluster_arrive(all, rank);
  }
  if (thread == 33) {
    croq_cluster_wait(all, 0);
    int total = 0;
    for (int i = 0; i < size; ++i) total += board[PLACE];
    r[block] = total;
  }
  croq_cluster_sync();
}
"""


@pytest.fixture(autouse=True)
def of_hopper(monkeypatch: pytest.MonkeyPatch) -> None:
    library = build.library
    monkeypatch.setattr(build, "library", lambda *args: library(*args[:4], 90))


def plain(*changes: tuple[str, str]) -> str:
    text = PLAIN
    for old, new in (*changes, ("DIMS", "4"), ("SIZE", "4"), ("FIRST", "block / 4 * 4"), ("PLACE", "first + i")):
        assert old in text or len(old) < 6
        text = text.replace(old, new, 1)
    return text


def launched(text: str, grid: tuple[int, ...], **options: object) -> tuple[np.ndarray, np.ndarray, list[str]]:
    x = RANDOM.integers(-9, 9, int(np.prod(grid))).astype(np.int32)
    r = np.zeros_like(x)
    outcome = run(text, grid, 64, x, np.zeros_like(x), r, **options)  # type: ignore[arg-type]
    return x, r, [found.text for found in outcome.findings]


@pytest.mark.parametrize("seed", [0, 1, 2, 3])
def test_clusters_of_two_axes(seed: int) -> None:
    """Clusters of 2 x 2 blocks in a grid of 4 x 6; ranks count along x first."""
    first = ("FIRST", "blockIdx.x / 2 * 2 + gridDim.x * (blockIdx.y / 2 * 2)")
    text = plain(("DIMS", "2, 2, 1"), first, ("PLACE", "first + i % 2 + gridDim.x * (i / 2)"))
    x, r, found = launched(text, (4, 6), seed=seed)
    assert not found, found
    tiles = 2 * x.reshape(3, 2, 2, 2).sum(axis=(1, 3))
    np.testing.assert_array_equal(r.reshape(6, 4), np.kron(tiles, np.ones((2, 2), np.int32)))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("croq_cluster_wait(all, 0);", "", "data race: thread 33 of block"),
        ("croq_cluster_wait(", "croq_mbarrier_wait(", "data race: thread 33 of block"),  # orders the block alone
        ("croq_cluster_sync();\n  if", "__syncthreads();\n  if", "uses an mbarrier that is not initialised"),
        ("init(all, size)", "init(all, size + 1)", "for the cluster's barrier"),
        ("rank < size", "rank <= size", "arrives at an mbarrier of block 4 of its cluster at line 11, which has fewer"),
    ],
)
def test_faults(old: str, new: str, message: str) -> None:
    for seed in (0, 1):
        *_, found = launched(plain((old, new)), (8,), seed=seed)
        assert any(message in text for text in found), found


def test_an_arrival_at_a_block_that_has_ended() -> None:
    text = """#include "croq_cuda.h"
    extern "C" __global__ void __cluster_dims__(2) k(int* r) {
      __shared__ uint64_t word[1];
      if (threadIdx.x == 0) croq_mbarrier_init(word, 1);
      croq_cluster_sync();
      if (blockIdx.x == 1) END
      __syncthreads();
      if (threadIdx.x == 0) croq_cluster_arrive(word, 1);
      r[threadIdx.x] = 1;
      MEET
    }"""
    r = np.zeros(32, np.int32)
    found = run(text.replace("END", "return;").replace("MEET", ""), 2, 32, r).findings
    assert len(found) == 1 and "of block 1 of its cluster at line 8, which has ended" in found[0].text
    meets = text.replace("END", "{ croq_cluster_sync(); return; }").replace("MEET", "croq_cluster_sync();")
    clean(meets, 2, 32, r)


def test_the_barrier_of_the_cluster_orders_memory() -> None:
    text = """#include "croq_cuda.h"
    extern "C" __global__ void __cluster_dims__(4) k(int* board, int* r) {
      board[blockIdx.x * 32 + threadIdx.x] = blockIdx.x + threadIdx.x;
      croq_cluster_sync();
      const int other = blockIdx.x / 4 * 4 + (blockIdx.x + 1) % 4;
      r[blockIdx.x * 32 + threadIdx.x] = board[other * 32 + 31 - threadIdx.x];
    }"""
    for seed in (0, 1, 2):
        r = np.zeros((8, 32), np.int32)
        clean(text, 8, 32, np.zeros_like(r), r, seed=seed)
        others = np.array([1, 2, 3, 0, 5, 6, 7, 4])
        np.testing.assert_array_equal(r, others[:, None] + 31 - np.arange(32))
    across = text.replace("blockIdx.x / 4 * 4 + (blockIdx.x + 1) % 4", "(blockIdx.x + 1) % 8")
    found = run(across, 8, 32, np.zeros_like(r), r).findings
    assert {f.kind for f in found} & {"race", "uninitialised"}


def test_a_grid_that_is_no_multiple() -> None:
    with pytest.raises(TargetError, match=r"a grid of 6 x 1 x 1 blocks cannot be launched in clusters of 4 x 1 x 1"):
        launched(plain(), (6,))
