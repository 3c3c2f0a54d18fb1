"""Planted faults: each is found by the emulator, named, and with the lines it is about."""

from __future__ import annotations

import numpy as np
import pytest
from targets.emulate_kernels import clean, run

from croq_magic.compiler.targets.emulate import kernels


def only(outcome: kernels.Outcome, kind: str) -> tuple[str, list[int]]:
    """Text and lines of the one finding."""
    assert [f.kind for f in outcome.findings] == [kind], "\n".join(f.text for f in outcome.findings)
    return outcome.findings[0].text, [line.line for line in outcome.findings[0].lines]


REVERSE = """
extern "C" __global__ void k(float* p) {
  __shared__ float tile[64];
  tile[threadIdx.x] = 0;
  __syncthreads();
  tile[threadIdx.x] = p[threadIdx.x];
  BARRIER
  p[threadIdx.x] = tile[63 - threadIdx.x];
}
"""


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_missing_barrier(seed: int) -> None:
    p = np.arange(64, dtype=np.float32)
    clean(REVERSE.replace("BARRIER", "__syncthreads();"), 1, 64, p, seed=seed)
    np.testing.assert_array_equal(p, np.arange(64)[::-1])
    text, lines = only(run(REVERSE.replace("BARRIER", ""), 1, 64, p, seed=seed), "race")
    assert "data race" in text and "shared `tile`" in text and "tile[63 - threadIdx.x]" in text
    assert sorted(lines) == [6, 8]


def test_a_barrier_of_the_warp_is_not_one_of_the_block() -> None:
    p = np.arange(64, dtype=np.float32)
    _, lines = only(run(REVERSE.replace("BARRIER", "__syncwarp();"), 1, 64, p), "race")
    assert sorted(lines) == [6, 8]
    clean(
        REVERSE.replace("BARRIER", "__syncwarp();").replace("63", "(threadIdx.x | 31) - threadIdx.x % 32 + 0 *"),
        1,
        64,
        p,
    )


def test_race_between_blocks() -> None:
    text = """
extern "C" __global__ void k(int* total, const int* x, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n && threadIdx.x == 0)
    total[0] += x[i];
}
"""
    total, x = np.zeros(1, np.int32), np.arange(10, dtype=np.int32)
    found = run(text, 3, 4, total, x, 10).findings
    assert {f.kind for f in found} == {"race"}
    assert all(line.line == 5 for f in found for line in f.lines)
    assert "of block 1" in found[0].text and "of block 0" in found[0].text
    clean(text.replace("total[0] += x[i]", "atomicAdd(total, x[i])"), 3, 4, total, x, 10)


def test_two_bytes_of_one_word_do_not_race() -> None:
    text = """
extern "C" __global__ void k(unsigned char* p, unsigned char* q) {
  p[threadIdx.x] = q[threadIdx.x] + 1;
  WORD
}
"""
    p, q = np.zeros(37, np.uint8), np.arange(37, dtype=np.uint8)
    clean(text.replace("WORD", ""), 1, 37, p, q)
    np.testing.assert_array_equal(p, q + 1)
    _, lines = only(run(text.replace("WORD", "if (threadIdx.x == 3) *(int*)p = 0;"), 1, 37, p, q), "race")
    assert sorted(lines) == [3, 4]


@pytest.mark.parametrize(("index", "where"), [("i + 1", "0 bytes behind the end of"), ("i - 1", "4 bytes before")])
def test_outside_a_global_buffer(index: str, where: str) -> None:
    text = f"""
extern "C" __global__ void k(float* out, const float* x) {{
  int i = threadIdx.x;
  out[i] = x[{index}];
}}
"""
    out, x = np.zeros(37, np.float32), np.ones(37, np.float32)
    message, lines = only(run(text, 1, 37, out, x), "outside")
    assert f"reads 4 bytes {where} a global buffer of 148 bytes" in message
    assert lines == [4]


def test_outside_dynamic_shared_memory() -> None:
    text = """
extern "C" __global__ void k(float* out) {
  extern __shared__ float s[];
  s[threadIdx.x] = 1;
  __syncthreads();
  out[threadIdx.x] = s[threadIdx.x];
}
"""
    out = np.zeros(8, np.float32)
    clean(text, 1, 8, out, shared=32)
    found = run(text, 1, 8, out, shared=28).findings
    assert {f.kind for f in found} == {"outside"} and {f.lines[0].line for f in found} == {4, 6}
    assert "dynamic shared memory of 28 bytes" in found[0].text


def test_a_wild_pointer_ends_the_launch() -> None:
    text = """
extern "C" __global__ void k(float* out, long long far) {
  out[threadIdx.x] = 1;
  if (threadIdx.x == 5) out[far] = 2;
}
"""
    message, lines = only(run(text, 2, 8, np.zeros(8, np.float32), 1 << 40), "outside")
    assert "outside every buffer" in message and lines == [4]


def test_uninitialised_shared_memory() -> None:
    text = """
extern "C" __global__ void k(float* out) {
  __shared__ float s[33];
  if (threadIdx.x < LIMIT) s[threadIdx.x] = 1;
  __syncthreads();
  out[threadIdx.x + 33 * blockIdx.x] = s[threadIdx.x];
}
"""
    out = np.zeros(66, np.float32)
    clean(text.replace("LIMIT", "33"), 2, 33, out)
    message, lines = only(run(text.replace("LIMIT", "32"), 2, 33, out), "uninitialised")
    assert "byte 128 of shared `s`" in message and "(2 times)" in message
    assert lines == [6]


def test_divergent_barrier() -> None:
    text = """
extern "C" __global__ void k(float* out) {
  if (threadIdx.x < 16)
    __syncthreads();
  else
    __syncthreads();
  out[threadIdx.x] = 1;
}
"""
    message, lines = only(run(text, 1, 64, np.zeros(64, np.float32)), "divergent barrier")
    assert sorted(lines) == [4, 6] and "divergent barrier" in message


def test_a_barrier_that_not_all_reach() -> None:
    text = """
extern "C" __global__ void k(float* out) {
  if (threadIdx.x < 16)
    __syncthreads();
  out[threadIdx.x] = 1;
}
"""
    message, lines = only(run(text, 1, 64, np.zeros(64, np.float32)), "divergent barrier")
    assert lines == [4] and "16 threads" in message and "48 threads ended" in message


@pytest.mark.parametrize("checked", [True, False])
def test_deadlock_of_two_mbarriers(checked: bool) -> None:
    text = """
extern "C" __global__ void k(float* out) {
  __shared__ unsigned long long full, freed;
  if (threadIdx.x == 0) { croq_mbarrier_init(&full, 1); croq_mbarrier_init(&freed, 1); }
  __syncthreads();
  if (threadIdx.x == 0) {
    croq_mbarrier_wait(&freed, 0);
    croq_mbarrier_arrive(&full);
  } else {
    croq_mbarrier_wait(&full, 0);
    croq_mbarrier_arrive(&freed);
  }
}
"""
    message, lines = only(run(text, 1, 2, np.zeros(1, np.float32), checked=checked), "deadlock")
    assert "1 thread for an mbarrier at line 7" in message and "1 thread for an mbarrier at line 10" in message
    assert sorted(lines) == [7, 10]


def test_deadlock_between_a_barrier_and_a_warp() -> None:
    text = """
extern "C" __global__ void k(int* out) {
  if (threadIdx.x == 3)
    __syncthreads();
  else
    out[threadIdx.x] = __shfl_sync(0xffffffffu, 1, 0);
}
"""
    message, lines = only(run(text, 1, 32, np.zeros(32, np.int32)), "deadlock")
    assert "1 thread for a block barrier at line 4" in message
    assert "31 threads for the other lanes of the warp at line 6" in message
    assert sorted(lines) == [4, 6]


def test_deadlock_on_a_flag_that_nobody_sets() -> None:
    text = """
extern "C" __global__ void k(int* flag) {
  while (atomicAdd(flag, 0) == 0) {}
}
"""
    found = run(text, 2, 3, np.zeros(1, np.int32)).findings
    assert {f.kind for f in found} == {"deadlock"} and found[0].lines[0].line == 3


def test_copy_read_before_it_lands() -> None:
    text = """
extern "C" __global__ void k(float* out, const float* x) {
  __shared__ __align__(16) float s[128];
  croq_async_copy<16>(s + 4 * threadIdx.x, x + 4 * threadIdx.x);
  croq_async_commit();
  WAIT
  for (int i = 0; i < 4; ++i)
    out[4 * threadIdx.x + i] = s[4 * threadIdx.x + i] + 1;
}
"""
    out, x = np.zeros(128, np.float32), np.arange(128, dtype=np.float32)
    clean(text.replace("WAIT", "croq_async_wait<0>();"), 1, 32, out, x)
    np.testing.assert_array_equal(out, x + 1)
    message, lines = only(run(text.replace("WAIT", ""), 1, 32, out, x), "pending copy")
    assert "asynchronous copy" in message and sorted(lines) == [4, 8]
    assert not (out == x + 1).any()  # the data has not come


def test_copy_of_another_thread_needs_a_barrier_too() -> None:
    text = """
extern "C" __global__ void k(float* out, const float* x) {
  __shared__ float s[32];
  croq_async_copy<4>(s + threadIdx.x, x + threadIdx.x);
  croq_async_commit();
  croq_async_wait<0>();
  BARRIER
  out[threadIdx.x] = s[31 - threadIdx.x];
}
"""
    out, x = np.zeros(32, np.float32), np.arange(32, dtype=np.float32)
    clean(text.replace("BARRIER", "__syncthreads();"), 1, 32, out, x)
    np.testing.assert_array_equal(out, x[::-1])
    found = run(text.replace("BARRIER", ""), 1, 32, out, x).findings
    assert "race" in {f.kind for f in found}
    assert {line.line for f in found for line in f.lines} == {4, 8}


def test_misaligned_copy() -> None:
    text = """
extern "C" __global__ void k(const float* x) {
  __shared__ __align__(16) float s[8];
  croq_async_copy<16>(s, x + 1);
  croq_async_wait<0>();
}
"""
    message, lines = only(run(text, 1, 1, np.zeros(8, np.float32)), "alignment")
    assert "16 bytes" in message and "global address" in message and lines == [4]


def test_missing_fence() -> None:
    """The last block adds up what the others have left: they need a fence before they say so."""
    text = """
extern "C" __global__ void k(int* parts, int* count, int* total) {
  __shared__ int last;
  if (threadIdx.x == 0) {
    parts[blockIdx.x] = blockIdx.x + 1;
    FENCE
    last = atomicAdd(count, 1) == gridDim.x - 1;
  }
  __syncthreads();
  if (last && threadIdx.x == 0)
    for (int i = 0; i < gridDim.x; ++i) total[0] += parts[i];
}
"""
    parts, count, total = np.zeros(5, np.int32), np.zeros(1, np.int32), np.zeros(1, np.int32)
    clean(text.replace("FENCE", "__threadfence();"), 5, 32, parts, count, total)
    assert total[0] == 15
    count[:] = 0
    _, lines = only(run(text.replace("FENCE", ""), 5, 32, parts, count, total), "race")
    assert sorted(lines) == [5, 11]


def test_atomic_and_plain_access() -> None:
    text = """
extern "C" __global__ void k(int* x) {
  if (threadIdx.x < 32) atomicAdd(x, 1);
  else x[0] = 5;
}
"""
    _, lines = only(run(text, 1, 33, np.zeros(1, np.int32)), "race")
    assert sorted(lines) == [3, 4]


def test_lane_outside_its_mask_and_unequal_operations() -> None:
    text = """
extern "C" __global__ void k(int* x) {
  x[threadIdx.x] = __shfl_sync(0xfu, (int)threadIdx.x, 0);
}
"""
    found = run(text, 1, 5, np.zeros(5, np.int32)).findings
    assert [f.kind for f in found] == ["warp"] and "thread 4" in found[0].text and "0xf" in found[0].text
    text = """
extern "C" __global__ void k(int* x) {
  if (threadIdx.x & 1)
    x[threadIdx.x] = __shfl_sync(~0u, 1, 0);
  else
    x[threadIdx.x] = __ballot_sync(~0u, 1);
}
"""
    found = run(text, 1, 32, np.zeros(32, np.int32)).findings
    assert [f.kind for f in found] == ["warp"] and {line.line for line in found[0].lines} == {4, 6}


def test_trap() -> None:
    text = """
extern "C" __global__ void k(int* x) {
  if (x[threadIdx.x] < 0)
    __trap();
}
"""
    x = np.zeros(4, np.int32)
    clean(text, 1, 4, x)
    x[2] = -1
    message, lines = only(run(text, 1, 4, x), "trap")
    assert "thread 2" in message and lines == [4]


def test_a_value_of_a_lane_that_is_not_there() -> None:
    text = """
extern "C" __global__ void k(int* x) {
  if (threadIdx.x % 2)
    x[threadIdx.x] = __shfl_sync(0xffffffffu, (int)threadIdx.x, 4);
}
"""
    message, lines = only(run(text, 1, 32, np.zeros(32, np.int32)), "warp")
    assert "thread 1 of block 0 asks lane 4 of its warp" in message and "(16 times)" in message and lines == [4]
    message, _ = only(run(text.replace("% 2", "< 64"), 1, 36, np.zeros(36, np.int32)), "warp")
    assert "thread 32 of block 0 asks lane 4" in message
    # A lane beside the mask has some value, which those who drop it may ask for; it is not the own one by chance.
    low = "if (threadIdx.x < 16) x[threadIdx.x] = __shfl_down_sync(0xffffu, (int)threadIdx.x, 8);"
    x = np.zeros(32, np.int32)
    clean(f'extern "C" __global__ void k(int* x) {{ {low} }}', 1, 32, x)
    np.testing.assert_array_equal(x[:16], [*range(8, 16), *[-1] * 8])


def test_what_only_some_threads_read_is_read_by_no_others() -> None:
    """A compiler must not move a load out of the loop, before the condition."""
    text = """
extern "C" __global__ void k(const int* x, int* r) {
  __shared__ __align__(128) int m[2];
  const int thread = threadIdx.x;
  if (thread < 2) m[thread] = 0;
  int best = x[0];
  __syncthreads();
  for (int i = 0; i < 64; ++i) {
    if (x[i] > best) {
      best = x[i];
      if (thread == 0) {
        m[0] = i;
        m[1] = m[0] + m[1];
      }
    }
  }
  __syncthreads();
  if (thread == 9) r[0] = m[0] * 1000 + m[1];
}
"""
    x, r = np.arange(64, dtype=np.int32), np.zeros(1, np.int32)
    clean(text, 1, 64, x, r)
    assert r[0] == 63 * 1000 + 63 * 64 // 2


@pytest.mark.parametrize("wide", ["int2", "int4", "double"])
def test_addresses_of_wide_accesses(wide: str) -> None:
    text = f"""
extern "C" __global__ void k(const int* x, int* y, int to, int from) {{
  __shared__ __align__(16) int s[64];
  s[threadIdx.x] = s[threadIdx.x + 32] = x[threadIdx.x];
  __syncthreads();
  if (threadIdx.x < 4)
    *({wide}*)(y + 4 * threadIdx.x + to) = *(const {wide}*)(s + 4 * threadIdx.x + from);
}}
"""
    x, y = np.arange(32, dtype=np.int32), np.zeros(64, np.int32)
    clean(text, 1, 32, x, y, 4, 8)
    size = 16 if wide == "int4" else 8
    for to, start, verb in ((1, 4, "writes"), (4, 1, "reads")):
        message, lines = only(run(text, 1, 32, x, y, to, start), "alignment")
        assert f"thread 0 of block 0 {verb} {size} bytes at once" in message and lines == [7]


@pytest.mark.parametrize("extent", [32, 40])
def test_an_index_that_leaves_an_array(extent: int) -> None:
    text = f"""
extern "C" __global__ void k(int* x, int by) {{
  __shared__ int first[{extent}], second[{extent}];
  int own[{extent}];
  const int t = threadIdx.x;
  first[t] = second[t] = own[(t + by) % {extent}] = x[t];
  __syncthreads();
  x[t] = first[t + by] + second[{extent - 1} - t];
  own[t] = x[t];
  x[t] = own[t + by];
}}
"""
    x = np.arange(extent, dtype=np.int32)
    clean(text, 1, extent, x, 0)
    message, lines = only(run(text, 1, extent, x, 1), "outside")
    assert f"thread {extent - 1} of block 0 uses element {extent} of an array of {extent}" in message and lines == [8]
    message, lines = only(run(text.replace("first[t + by]", "0"), 1, extent, x, -1), "outside")
    assert f"thread 0 of block 0 uses element -1 of an array of {extent}" in message and lines == [6]


def test_behind_shared_memory_the_nearest_array_is_named() -> None:
    text = """
__device__ int get(const int* p, int i) { return p[i]; }
extern "C" __global__ void k(int* x) {
  __shared__ int only[18];
  only[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  x[threadIdx.x] = get(only, threadIdx.x + 1);
}
"""
    message, _ = only(run(text, 1, 18, np.zeros(18, np.int32)), "outside")
    assert "thread 17 of block 0 reads 4 bytes 0 bytes behind the end of shared `only` of 72 bytes" in message
