"""The CUDA that the emulator understands, against results by hand or NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from targets.emulate_kernels import clean, run

MODES = pytest.mark.parametrize(("checked", "seed"), [(False, 0), (True, 0), (True, 5)])


@MODES
def test_indices_in_three_dimensions(checked: bool, seed: int) -> None:
    text = """
extern "C" __global__ void __launch_bounds__(30) k(int* p) {
  int t = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
  int b = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
  p[b * blockDim.x * blockDim.y * blockDim.z + t] += b * 1000 + t;
}
"""
    p = np.zeros(7 * 3 * 2 * 30, np.int32)
    clean(text, (7, 3, 2), (5, 3, 2), p, checked=checked, seed=seed)
    np.testing.assert_array_equal(p.reshape(42, 30), np.arange(42)[:, None] * 1000 + np.arange(30))


@MODES
def test_tree_in_dynamic_shared_memory(checked: bool, seed: int) -> None:
    text = """
template <int kStep> __device__ void step(float* s, int t) {
  if (t < kStep) s[t] += s[t + kStep];
  __syncthreads();
}
extern "C" __global__ void k(const float* __restrict__ x, float* sums, int n) {
  extern __shared__ __align__(16) float s[];
  const int t = threadIdx.x, i = blockIdx.x * 64 + t;
  s[t] = i < n ? x[i] : 0.0f;
  __syncthreads();
  step<32>(s, t); step<16>(s, t); step<8>(s, t); step<4>(s, t); step<2>(s, t); step<1>(s, t);
  if (t == 0) sums[blockIdx.x] = s[0];
}
"""
    x, sums = np.arange(301, dtype=np.float32), np.zeros(5, np.float32)
    clean(text, 5, 64, x, sums, 301, shared=256, checked=checked, seed=seed)
    np.testing.assert_array_equal(sums, np.pad(x, (0, 19)).reshape(5, 64).sum(1))


@MODES
def test_shuffles_votes_and_reductions(checked: bool, seed: int) -> None:
    text = """
extern "C" __global__ void k(int* out, double* wide) {
  const int t = threadIdx.x, n = blockDim.x;
  const unsigned all = 0xffffffffu;
  out[0 * n + t] = __shfl_sync(all, t * 3, 5);
  out[1 * n + t] = __shfl_up_sync(all, t, 3);
  const int lanes = t < 32 ? 32 : n - 32;  // what lanes that are not there would give is undefined
  const bool below = t % 8 + 4 >= 8 || t % 32 + 4 < lanes, beside = (t % 32 ^ 9) < lanes;
  out[2 * n + t] = __shfl_down_sync(all, t, below ? 4 : 0, 8);
  out[3 * n + t] = __shfl_xor_sync(all, t, beside ? 9 : 0);
  out[4 * n + t] = (int)__ballot_sync(all, t % 3 == 0);
  out[5 * n + t] = __any_sync(all, t == 40) * 2 + __all_sync(all, t < 40);
  out[6 * n + t] = __reduce_add_sync(all, t) - __reduce_min_sync(all, -t) + (int)__reduce_xor_sync(all, (unsigned)t);
  out[7 * n + t] = (int)__match_any_sync(all, t / 5);
  if (t % 2) out[8 * n + t] = __shfl_sync(0xaaaaaaaau, t, 7);
  else out[8 * n + t] = __shfl_sync(0x55555555u, t, 6);
  out[9 * n + t] = (int)__activemask();
  double v = t * 0.5;
  for (int d = 16; d; d /= 2) v += __shfl_down_sync(all, v, t % 32 + d < lanes ? d : 0);
  wide[t] = v;
}
"""
    n = 53  # the second warp has 21 lanes
    out, wide = np.zeros((10, n), np.int32), np.zeros(n)
    clean(text, 1, n, out, wide, checked=checked, seed=seed)
    t = np.arange(n)
    lane, warp = t % 32, t // 32
    members = [t[warp == w] for w in warp]

    def bits(of: list[np.ndarray]) -> np.ndarray:
        return (
            np.array([sum(1 << int(i % 32) for i in each) for each in of], np.uint64).astype(np.uint32).view(np.int32)
        )

    np.testing.assert_array_equal(out[0], (warp * 32 + 5) * 3)
    np.testing.assert_array_equal(out[1], np.where(lane >= 3, t - 3, t))
    down = np.where(lane % 8 + 4 < 8, t + 4, t)
    np.testing.assert_array_equal(out[2], np.where(down < n, down, t))
    other = warp * 32 + (lane ^ 9)
    np.testing.assert_array_equal(out[3], np.where(other < n, other, t))
    np.testing.assert_array_equal(out[4], bits([m[m % 3 == 0] for m in members]))
    np.testing.assert_array_equal(out[5], [2 * (40 in m) + int((m < 40).all()) for m in members])
    want = [m.sum() + m.max() + np.bitwise_xor.reduce(m) for m in members]
    np.testing.assert_array_equal(out[6], want)
    np.testing.assert_array_equal(out[7], bits([m[m // 5 == i // 5] for i, m in zip(t, members, strict=True)]))
    np.testing.assert_array_equal(out[8], warp * 32 + np.where(t % 2, 7, 6))
    np.testing.assert_array_equal(out[9], bits(members))
    assert wide[0] == sum(range(32)) * 0.5


@MODES
def test_atomics(checked: bool, seed: int) -> None:
    text = """
extern "C" __global__ void k(int* i, float* f, double* d, unsigned long long* u, int* tickets) {
  const int t = threadIdx.x + blockDim.x * blockIdx.x;
  atomicAdd(i, 1);
  atomicMax(i + 1, t * 7 % 101);
  atomicMin(i + 2, 50 - t);
  atomicAnd(i + 3, ~(1 << t % 31));
  atomicOr(i + 4, 1 << t % 31);
  atomicXor(i + 5, t);
  atomicSub(i + 6, 2);
  atomicAdd(f, 0.5f);
  atomicAdd(d, 0.25);
  atomicMax(u, (unsigned long long)t << 33);
  tickets[atomicAdd(i + 7, 1)] = 1;
  atomicInc((unsigned*)i + 8, 6);
  int old = i[9], seen;
  do { seen = old; old = atomicCAS(i + 9, seen, seen + 3); } while (seen != old);
}
"""
    text = text.replace("int old = i[9]", "int old = *(volatile int*)(i + 9)")
    n = 5 * 37
    i = np.array([0, 0, 99, -1, 0, 0, 0, 0, 0, 0], np.int32)
    f, d, u = np.zeros(1, np.float32), np.zeros(1), np.zeros(1, np.uint64)
    tickets = np.zeros(n, np.int32)
    clean(text, 5, 37, i, f, d, u, tickets, checked=checked, seed=seed)
    t = np.arange(n)
    want = [
        n,
        (t * 7 % 101).max(),
        50 - (n - 1),
        -1 << 31,
        2**31 - 1,
        np.bitwise_xor.reduce(t),
        -2 * n,
        n,
        n % 7,
        3 * n,
    ]
    np.testing.assert_array_equal(i, want)
    assert f[0] == n * 0.5 and d[0] == n * 0.25 and u[0] == (n - 1) << 33 and tickets.all()


@MODES
def test_a_lock(checked: bool, seed: int) -> None:
    text = """
extern "C" __global__ void k(int* lock, int* total) {
  bool done = false;
  while (!done) {
    if (atomicCAS(lock, 0, 1) == 0) {
      __threadfence();
      total[0] = total[0] + 1;
      __threadfence();
      atomicExch(lock, 0);
      done = true;
    }
  }
}
"""
    total = np.zeros(1, np.int32)
    clean(text, 3, 17, np.zeros(1, np.int32), total, checked=checked, seed=seed)
    assert total[0] == 51


@MODES
def test_counting_barriers(checked: bool, seed: int) -> None:
    text = """
extern "C" __global__ void k(int* p) {
  const int t = threadIdx.x;
  p[t] = __syncthreads_count(t % 3 == 0) * 100 + __syncthreads_and(t < 40) * 10 + __syncthreads_or(t == 40);
}
"""
    p = np.zeros(41, np.int32)
    clean(text, 1, 41, p, checked=checked, seed=seed)
    np.testing.assert_array_equal(p, 14 * 100 + 1)


@MODES
def test_named_barriers(checked: bool, seed: int) -> None:
    text = """
extern "C" __global__ void k(const int* x, int* y, int n) {
  __shared__ int slot[32];
  const int t = threadIdx.x % 32;
  if (threadIdx.x < 32) {
    for (int i = 0; i < n; ++i) {
      croq_bar_sync(1, 64);
      slot[t] = x[i * 32 + t];
      croq_bar_arrive(2, 64);
    }
  } else {
    for (int i = 0; i < n; ++i) {
      croq_bar_arrive(1, 64);
      croq_bar_sync(2, 64);
      y[i * 32 + t] = slot[31 - t];
    }
  }
}
"""
    x, y = np.arange(7 * 32, dtype=np.int32), np.zeros(7 * 32, np.int32)
    clean(text, 1, 64, x, y, 7, checked=checked, seed=seed)
    np.testing.assert_array_equal(y.reshape(7, 32), x.reshape(7, 32)[:, ::-1])


@MODES
def test_mbarriers_between_roles(checked: bool, seed: int) -> None:
    text = """
extern "C" __global__ void k(const int* x, int* y, int n) {
  __shared__ int slot[2][32];
  __shared__ unsigned long long full[2], freed[2];
  const int t = threadIdx.x % 32;
  if (threadIdx.x == 0)
    for (int i = 0; i < 2; ++i) { croq_mbarrier_init(&full[i], 32); croq_mbarrier_init(&freed[i], 32); }
  __syncthreads();
  if (threadIdx.x < 32) {
    for (int i = 0; i < n; ++i) {
      croq_mbarrier_wait(&freed[i % 2], i / 2 % 2 ^ 1);
      slot[i % 2][t] = x[i * 32 + t];
      croq_mbarrier_arrive(&full[i % 2]);
    }
  } else {
    for (int i = 0; i < n; ++i) {
      croq_mbarrier_wait(&full[i % 2], i / 2 % 2);
      y[i * 32 + t] = slot[i % 2][31 - t];
      croq_mbarrier_arrive(&freed[i % 2]);
    }
  }
}
"""
    x, y = np.arange(9 * 32, dtype=np.int32), np.zeros(9 * 32, np.int32)
    clean(text, 1, 64, x, y, 9, checked=checked, seed=seed)
    np.testing.assert_array_equal(y.reshape(9, 32), x.reshape(9, 32)[:, ::-1])


@MODES
def test_double_buffered_copies(checked: bool, seed: int) -> None:
    text = """
extern "C" __global__ void k(const float* x, float* y, int n) {
  __shared__ __align__(16) float s[2][128];
  const int t = threadIdx.x;
  croq_async_copy<16>(&s[0][4 * t], x + 4 * t);
  croq_async_commit();
  for (int i = 0; i < n; ++i) {
    if (i + 1 < n) croq_async_copy_zfill<16>(&s[(i + 1) % 2][4 * t], x + (i + 1) * 128 + 4 * t, i + 2 == n ? 8 : 16);
    croq_async_commit();
    croq_async_wait<1>();
    __syncthreads();
    for (int j = 0; j < 4; ++j) y[i * 128 + 4 * t + j] = s[i % 2][127 - 4 * t - j];
    __syncthreads();
  }
}
"""
    x, y = np.arange(1, 6 * 128 + 1, dtype=np.float32), np.zeros(6 * 128, np.float32)
    clean(text, 1, 32, x, y, 6, checked=checked, seed=seed)
    want = x.reshape(6, 128).copy()
    want[5].reshape(32, 4)[:, 2:] = 0
    np.testing.assert_array_equal(y.reshape(6, 128), want[:, ::-1])


@MODES
def test_grid_barrier_with_static_shared_memory(checked: bool, seed: int) -> None:
    text = """
extern "C" __global__ void k(int* p, unsigned* counter, int rounds) {
  __shared__ int own[33];
  const int t = threadIdx.x, b = blockIdx.x, n = gridDim.x;
  own[t] = b * 100 + t;
  for (int r = 0; r < rounds; ++r) {
    p[b * 33 + t] = own[t] + r;
    croq_grid_sync(counter, n);
    own[t] = p[(b + 1) % n * 33 + 32 - t];
    croq_grid_sync(counter, n);
  }
  p[b * 33 + t] = own[t];
}
"""
    n, rounds = 7, 3
    p, counter = np.zeros((n, 33), np.int32), np.zeros(2, np.uint32)
    clean(text, n, 33, p, counter, rounds, checked=checked, seed=seed, cooperative=True)
    own = np.arange(n)[:, None] * 100 + np.arange(33)
    for r in range(rounds):
        own = np.roll(own + r, -1, axis=0)[:, ::-1]
    np.testing.assert_array_equal(p, own)


def test_without_the_grid_barrier_blocks_race() -> None:
    text = """
extern "C" __global__ void k(int* p) {
  p[blockIdx.x] = 1;
  p[blockIdx.x + gridDim.x] = p[(blockIdx.x + 1) % gridDim.x];
}
"""
    found = run(text, 4, 1, np.zeros(8, np.int32)).findings
    assert [f.kind for f in found] == ["race"] and {line.line for line in found[0].lines} == {3, 4}


@MODES
def test_blocks_that_wait_for_the_block_before(checked: bool, seed: int) -> None:
    text = """
extern "C" __global__ void k(const int* x, int* sums, int* flags) {
  const int b = blockIdx.x;
  if (threadIdx.x == 0) {
    int before = 0;
    if (b) {
      while (atomicAdd(flags + b - 1, 0) == 0) {}
      __threadfence();
      before = sums[b - 1];
    }
    sums[b] = before + x[b];
    __threadfence();
    atomicExch(flags + b, 1);
  }
}
"""
    x, sums = np.arange(1, 24, dtype=np.int32), np.zeros(23, np.int32)
    clean(text, 23, 5, x, sums, np.zeros(23, np.int32), checked=checked, seed=seed, cooperative=True)
    np.testing.assert_array_equal(sums, np.cumsum(x))


@MODES
def test_vectors_and_math(checked: bool, seed: int) -> None:
    text = """
#include <cuda_fp16.h>
#include <cuda_bf16.h>
__constant__ float weights[4] = {1, 2, 3, 4};
static __device__ __noinline__ float dot(float4 v) {
  return v.x * weights[0] + v.y * weights[1] + v.z * weights[2] + v.w * weights[3];
}
extern "C" __global__ void k(const float4* x, float* y, const __half* h, __half* g, const __nv_bfloat16* b) {
  const int t = threadIdx.x;
  const float4 v = __ldg(x + t);
  y[t] = dot(make_float4(v.w, v.z, v.y, v.x)) + rsqrtf(4.0f) + min(t, 3) + fmaxf(0.0f, -1.0f) + __popc(255u) + __clz(1);
  const half2 pair = *(const half2*)(h + 2 * t);
  *(half2*)(g + 2 * t) = __hadd2(pair, __floats2half2_rn(1.0f, __bfloat162float(b[t])));
}
"""
    n = 11
    rng = np.random.default_rng(3)
    import ml_dtypes

    x, y = rng.integers(-9, 9, (n, 4)).astype(np.float32), np.zeros(n, np.float32)
    h, g = rng.standard_normal((n, 2)).astype(np.float16), np.zeros((n, 2), np.float16)
    b = rng.standard_normal(n).astype(ml_dtypes.bfloat16)
    clean(text, 1, n, x, y, h, g, b, checked=checked, seed=seed)
    np.testing.assert_array_equal(y, x[:, ::-1] @ [1, 2, 3, 4] + 0.5 + np.minimum(np.arange(n), 3) + 8 + 31)
    second = (h[:, 1].astype(np.float32) + b.astype(np.float32).astype(np.float16).astype(np.float32)).astype(
        np.float16
    )
    np.testing.assert_array_equal(g, np.stack([h[:, 0] + np.float16(1), second], 1))


def test_half_conversions() -> None:
    text = """
#include <cuda_fp16.h>
#include <cuda_bf16.h>
extern "C" __global__ void k(const float* x, __half* h, float* back, __nv_bfloat16* b, int n) {
  const int i = threadIdx.x + blockIdx.x * blockDim.x;
  if (i < n) { h[i] = __float2half(x[i]); back[i] = __half2float(h[i]); b[i] = __float2bfloat16(x[i]); }
}
"""
    import ml_dtypes

    halves = np.arange(65536, dtype=np.uint16).view(np.float16).astype(np.float32)
    steps = np.nextafter(halves, np.float32(np.inf))
    middle = (halves + np.roll(halves, 1)) / 2
    with np.errstate(all="ignore"):
        x = np.concatenate([halves, steps, middle, np.float32([65519.99, 65520, 1e30, 1e-30, np.inf, -np.inf])])
        x = x[~np.isnan(x)]
        h, b = np.zeros(x.size, np.float16), np.zeros(x.size, ml_dtypes.bfloat16)
        back = np.zeros_like(x)
        clean(text, -(-x.size // 256), 256, x, h, back, b, x.size, checked=False)
        np.testing.assert_array_equal(h.view(np.uint16), x.astype(np.float16).view(np.uint16))
        np.testing.assert_array_equal(back, x.astype(np.float16).astype(np.float32))
        np.testing.assert_array_equal(b.view(np.uint16), x.astype(ml_dtypes.bfloat16).view(np.uint16))


def test_prints_in_the_order_of_threads(capsys: pytest.CaptureFixture[str]) -> None:
    text = """
extern "C" __global__ void k() { printf("%d.%d %.1f\\n", blockIdx.x, threadIdx.x, threadIdx.x * 0.5); }
"""
    clean(text, 2, 3)
    want = "".join(f"{b}.{t} {t * 0.5:.1f}\n" for b in range(2) for t in range(3))
    assert capsys.readouterr().out == want
    clean(text, 2, 3, seed=9)
    shuffled = capsys.readouterr().out
    assert shuffled != want and sorted(shuffled) == sorted(want)


def test_a_large_local_array_in_every_thread() -> None:
    text = """
extern "C" __global__ void k(int* out, int step) {
  int local[16384];
  for (int i = 0; i < 16384; ++i) local[i] = i * step + threadIdx.x;
  __syncthreads();
  int total = 0;
  for (int i = 0; i < 16384; i += 1000) total += local[i];
  out[threadIdx.x] = total;
}
"""
    out = np.zeros(33, np.int32)
    clean(text, 1, 33, out, 2, checked=False)
    np.testing.assert_array_equal(out, 2 * 1000 * sum(range(17)) + 17 * np.arange(33))


def test_many_launches_keep_no_memory() -> None:
    text = """
extern "C" __global__ void k(int* x) {
  __shared__ int s[256];
  s[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  x[threadIdx.x] = s[255 - threadIdx.x];
}
"""
    import resource

    x = np.arange(256, dtype=np.int32)
    for _ in range(20):
        clean(text, 1, 256, x)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(200):
        run(text, 1, 256, x)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 20_000  # KiB


def test_counts_of_copies_vectors_and_updates() -> None:
    text = """
extern "C" __global__ void k(const float4* x, float* y, int* count) {
  __shared__ float4 s[64];
  croq_async_copy<16>(&s[threadIdx.x], x + threadIdx.x);
  croq_async_commit(); croq_async_wait<0>();
  y[threadIdx.x * 2] = s[threadIdx.x].x;
  atomicAdd(count, 1);
}
"""
    x, y, count = np.arange(256, dtype=np.float32), np.zeros(128, np.float32), np.zeros(1, np.int32)
    rows = {(r.line, r.memory, r.access): r for r in clean(text, 1, 64, x, y, count, profiled=True).rows}
    numbers = {key: (r.requests, r.bytes, r.parts, r.least) for key, r in rows.items()}
    assert numbers == {
        (4, "global", "read"): (2, 1024, 32, 32),
        (4, "shared", "write"): (2, 1024, 8, 8),  # quarters of a warp, four words each
        (6, "shared", "read"): (2, 256, 8, 2),  # every fourth word: four lanes to a bank
        (6, "global", "write"): (2, 256, 16, 8),
        (7, "global", "update"): (2, 256, 2, 2),
    }
