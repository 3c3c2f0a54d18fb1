"""Arrivals that follow asynchronous copies: `trigger ... after` waits for nothing."""

from __future__ import annotations

import re

import numpy as np
import pytest
from targets.cuda_text import cubin, emission, kernel
from targets.emulate_kernels import clean, run

import croq_magic as croq
from croq_magic.compiler.targets.cuda import disasm

RANDOM = np.random.default_rng(11)

# A producer of one warp and a consumer of another; `{more}` stands before the trigger.
RING = """__co__ f32 [{rows}, {width}] f(f32 [{rows}, {width}] x) {{
  f32 [{rows}, {width}] r;
  parallel b by 1 : block {{
    shared f32 [4, 32] ring[3];
    shared s32 [1] mark;
    shared event have[3], freed[3] = ready;
    parallel w by 2 : group {{
      inthreads.async (w == 0) {{
        foreach {{n}} in [{steps}] {{
          wait freed.at(n);
          tile = tma.load.async x.subspan(4, 32).at(n, 0) => ring[n % 3];
          {more}
          trigger have.at(n) after tile;
        }}
      }}
      inthreads.async (w == 1) {{
        foreach {{n}} in [{steps}] {{
          wait have.at(n);
          {use}
          trigger freed.at(n);
        }}
      }}
    }}
  }}
  return r;
}}"""
COPY = "tma.copy ring[n % 3] => r.subspan(4, 32).at(n, 0);"


def ring(rows: int, width: int = 32, more: str = "", use: str = COPY) -> str:
    return RING.format(rows=rows, width=width, steps=-(-rows // 4), more=more, use=use)


def test_copies_alone_are_followed_by_the_arrival_itself() -> None:
    text = kernel(ring(16), "sm_90a")
    assert text.count("croq_mbarrier_arrive_landed(&have[") == 1
    assert "commit" not in text and "async_wait" not in text
    assert "croq_mbarrier_arrive(&have[" not in text
    assert "croq_mbarrier_init(&have[i], 32)" in text


def test_other_stores_need_an_arrival_of_the_thread() -> None:
    text = kernel(ring(16, more="mark.at(0) = n;"), "sm_90a")
    assert re.search(r"croq_mbarrier_expect_landed\(&(have\[n % 3\])\);\n\s*croq_mbarrier_arrive\(&\1\);", text), text
    assert "croq_mbarrier_init(&have[i], 32)" in text  # the phase counts the other one by itself


def test_what_other_roles_store_does_not_matter() -> None:
    text = kernel(ring(16, use="r.at(n, 0) = ring[n % 3].at(0, 0); mark.at(0) = n;"), "sm_90a")
    assert "arrive_landed" in text and "expect_landed" not in text


@pytest.mark.parametrize(("width", "size"), [(30, 8), (31, 4), (32, 16)])
def test_edges_are_filled_by_the_copy(width: int, size: int) -> None:
    text = kernel(ring(11, width), "sm_90a")
    assert f"croq_async_copy_zfill<{size}>" in text
    assert f"? {size} : 0);" in text and "} else {" not in text.split("if (w == 1)")[0]


@pytest.mark.parametrize("seed", [0, 1, 2, 3])
@pytest.mark.parametrize(("rows", "width"), [(4, 32), (11, 32), (29, 31), (40, 30)])
def test_a_ring_in_the_emulator(rows: int, width: int, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CROQ_EMULATE_SEED", str(seed))
    program = croq.compile(ring(rows, width), target="emulate", arch="sm_90a")
    x = RANDOM.standard_normal((rows, width)).astype(np.float32)
    np.testing.assert_array_equal(program.f(x), x)


def test_a_consumer_that_does_not_wait_is_found() -> None:
    program = croq.compile(ring(12).replace("wait have.at(n);", ""), target="emulate", arch="sm_90a")
    with pytest.raises(croq.CheckError, match=r"data race|may still write it|nobody in the block has written"):
        program.f(np.ones((12, 32), np.float32))


ONE_OF_A_WARP = """__co__ f32 [64] f(f32 [4, 64] x) {
  f32 [64] r;
  parallel b by 1 : block {
    shared f32 [4, 64] tile;
    shared event have;
    parallel w by 2 : group, t by 32 : thread {
      inthreads.async (w == 0) {
        l = tma.load.async x.subspan(4, 64).at(0, 0) => tile;
        inthreads (t == 0) { trigger have after l; }
      }
      inthreads.async (w == 1) {
        wait have;
        foreach k in 2 r.at(k * 32 + t) = tile.at(3, k * 32 + 31 - t);
      }
    }
  }
  return r;
}"""


def test_a_trigger_by_fewer_threads_than_copy_waits_for_all_of_them() -> None:
    text = kernel(ONE_OF_A_WARP, "sm_90a")
    assert "croq_async_wait<0>();\n    __syncwarp();\n    if (t == 0) {\n      croq_mbarrier_arrive(&have[0]);" in text
    x = RANDOM.standard_normal((4, 64)).astype(np.float32)
    program = croq.compile(ONE_OF_A_WARP, target="emulate", arch="sm_90a")
    np.testing.assert_array_equal(program.f(x), x[3].reshape(2, 32)[:, ::-1].ravel())
    one = ONE_OF_A_WARP.replace("(w == 0)", "(w == 0 && t == 0)").replace("inthreads (t == 0) {", "{")
    assert "arrive_landed" in kernel(one, "sm_90a")  # whoever copies triggers
    np.testing.assert_array_equal(
        croq.compile(one, target="emulate", arch="sm_90a").f(x), x[3].reshape(2, 32)[:, ::-1].ravel()
    )


MULTICAST = """__co__ f32 [2, 3, 64] f(f32 [4, 64] x) {
  f32 [2, 3, 64] r;
  parallel c by 2 : cluster, b by 3 : block {
    shared f32 [4, 64] tile;
    shared event have;
    parallel w by 2 : group, t by 32 : thread {
      inthreads.async (w == 0) {
        l = tma.load.async.multicast x.subspan(4, 64).at(0, 0) => tile;
        trigger have after l;
      }
      inthreads.async (w == 1) {
        wait have;
        foreach k in 2 r.at(c, b, k * 32 + t) = tile.at(c + b, k * 32 + 31 - t);
      }
    }
  }
  return r;
}"""


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_tile_for_all_blocks_of_a_cluster(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every block copies it for itself."""
    monkeypatch.setenv("CROQ_EMULATE_SEED", str(seed))
    program = croq.compile(MULTICAST, target="emulate", arch="sm_90a")
    x = RANDOM.standard_normal((4, 64)).astype(np.float32)
    rows = np.arange(2)[:, None] + np.arange(3)
    np.testing.assert_array_equal(program.f(x), x[rows].reshape(2, 3, 2, 32)[..., ::-1].reshape(2, 3, 64))


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_machine_code(arch: str) -> None:
    """`ARRIVES.LDGSTSBAR`: the copies' own arrival, with nothing waited for before it."""
    text = """#include "croq_cuda.h"
    extern "C" __global__ void k(const float* x, float* y) {
      __shared__ __align__(16) float tile[128];
      __shared__ uint64_t have[1];
      if (threadIdx.x == 0) croq_mbarrier_init(have, 32);
      __syncthreads();
      croq_async_copy<16>(&tile[threadIdx.x * 4], &x[threadIdx.x * 4]);
      croq_mbarrier_arrive_landed(have);
      croq_mbarrier_wait(have, 0);
      y[threadIdx.x] = tile[127 - threadIdx.x];
    }"""
    binary, log = cubin(text, arch)
    assert binary, log
    code = disasm.sass(binary)
    assert "LDGSTS.E.BYPASS.128" in code and "ARRIVES.LDGSTSBAR" in code
    assert "LDGDEPBAR" not in code and "DEPBAR" not in code
    whole = emission(ring(12), "sm_90a").text
    assert cubin(whole, "sm_90a")[0]


HEAD = """#include "croq_cuda.h"
extern "C" __global__ void k(const int* x, int* r) {
  __shared__ __align__(16) int tile[64];
  __shared__ int mark;
  __shared__ uint64_t have[1];
  const int thread = threadIdx.x;
  if (thread == 0) croq_mbarrier_init(have, COUNT);
  __syncthreads();
  if (thread < 32) {
    PRODUCER
  } else {
    CONSUMER
    r[thread - 32] = tile[95 - 2 * thread + 32] + tile[2 * (thread - 32)] EXTRA;
  }
}
"""


def pair(producer: str, consumer: str = "croq_mbarrier_wait(have, 0);", count: int = 32, extra: str = "") -> str:
    text = HEAD.replace("PRODUCER", producer).replace("CONSUMER", consumer).replace("COUNT", str(count))
    return text.replace("EXTRA", extra)


START = "croq_async_copy<8>(&tile[2 * thread], &x[2 * thread]);\n"


def expected(x: np.ndarray) -> np.ndarray:
    t = np.arange(32)
    return x[63 - 2 * t] + x[2 * t]


@pytest.mark.parametrize("seed", [0, 5, 6, 7, 8])
def test_an_arrival_of_the_copies_orders_them(seed: int) -> None:
    x, r = RANDOM.integers(0, 99, 64).astype(np.int32), np.zeros(32, np.int32)
    clean(pair(START + "croq_mbarrier_arrive_landed(have);"), 1, 64, x, r, seed=seed)
    np.testing.assert_array_equal(r, expected(x))


@pytest.mark.parametrize("seed", [0, 5, 6])
def test_an_arrival_beside_the_count(seed: int) -> None:
    x, r = RANDOM.integers(0, 99, 64).astype(np.int32), np.zeros(32, np.int32)
    both = "if (thread == 3) mark = 7;\n" + START + "croq_mbarrier_expect_landed(have); croq_mbarrier_arrive(have);"
    clean(pair(both, extra="+ mark"), 1, 64, x, r, seed=seed)
    np.testing.assert_array_equal(r, expected(x) + 7)


def test_the_count_of_noinc_is_part_of_the_initial_one() -> None:
    x, r = np.ones(64, np.int32), np.zeros(32, np.int32)
    twice = START + "croq_mbarrier_arrive_landed(have); croq_mbarrier_arrive(have);"
    clean(pair(twice, count=64), 1, 64, x, r)  # two arrivals a thread
    assert {
        f.kind for f in run(pair(START + "croq_mbarrier_arrive_landed(have);", count=33), 1, 64, x, r).findings
    } == {"deadlock"}


def test_a_thread_goes_on_before_its_copies_land() -> None:
    text = pair(START + "croq_mbarrier_arrive_landed(have);\n r[0] = tile[2 * thread];")
    found = run(text, 1, 64, np.ones(64, np.int32), np.zeros(32, np.int32)).findings
    assert "pending copy" in {f.kind for f in found}


def test_nobody_waits_for_the_arrival() -> None:
    text = pair(START + "croq_mbarrier_arrive_landed(have);", "")
    for seed in (0, 1, 2):
        found = run(text, 1, 64, np.ones(64, np.int32), np.zeros(32, np.int32), seed=seed).findings
        assert {f.kind for f in found} & {"pending copy", "race", "uninitialised"}, seed


def test_a_barrier_of_the_block_does_not_wait_for_the_copies() -> None:
    text = pair(START + "croq_mbarrier_arrive_landed(have);").replace(
        "} else {", "}\n  __syncthreads();\n  if (thread >= 32) {"
    )
    text = text.replace("croq_mbarrier_wait(have, 0);", "")
    found = run(text, 1, 64, np.ones(64, np.int32), np.zeros(32, np.int32)).findings
    assert {f.kind for f in found} == {"pending copy"}
