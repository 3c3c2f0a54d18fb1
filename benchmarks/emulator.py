"""The emulator: thread starts, barriers and a tiled matrix product, in the fast and in the checked mode.

One core unless `--threads` says more. The aim: 30 million thread starts a second per core.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import partial

import harness
import numpy as np

from croq_magic.compiler.targets.emulate import build, kernels
from croq_magic.compiler.targets.emulate.runtime import runtime

KERNELS = """
extern "C" __global__ void empty() {}
extern "C" __global__ void add(const float* x, float* y, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] += x[i];
}
extern "C" __global__ void meet(int rounds) {
  for (int i = 0; i < rounds; ++i) __syncthreads();
}
extern "C" __global__ void warps(int* out, int rounds) {
  int v = threadIdx.x;
  for (int i = 0; i < rounds; ++i) v += __shfl_xor_sync(0xffffffffu, v, 1);
  if (v == -1) out[0] = v;
}
extern "C" __global__ void matmul(const float* a, const float* b, float* c, int n) {
  __shared__ float sa[16][16], sb[16][16];
  const int tx = threadIdx.x, ty = threadIdx.y, row = blockIdx.y * 16 + ty, column = blockIdx.x * 16 + tx;
  float total = 0;
  for (int k = 0; k < n; k += 16) {
    sa[ty][tx] = a[row * n + k + tx];
    sb[ty][tx] = b[(k + ty) * n + column];
    __syncthreads();
    for (int j = 0; j < 16; ++j) total += sa[ty][j] * sb[j][tx];
    __syncthreads();
  }
  c[row * n + column] = total;
}
"""
NAMES = ("empty", "add", "meet", "warps", "matmul")


def launcher(checked: bool, profiled: bool = False) -> Callable[..., object]:
    library = build.library(KERNELS, NAMES, "benchmark", checked)

    def launch(name: str, grid: tuple[int, int, int], block: tuple[int, int, int], *words: int) -> None:
        outcome = kernels.launch(library, name, grid, block, words, profiled=profiled)
        assert not outcome.findings, outcome.findings[0].text

    return launch


def main() -> None:
    parser = harness.arguments(__doc__ or "")
    parser.add_argument("--threads", type=int, default=1, help="threads of this process to use (default 1)")
    options = parser.parse_args()
    device = runtime()
    device.cpu.set_threads(options.threads)
    fast, checked, profiled = launcher(False), launcher(True), launcher(True, profiled=True)
    done = []

    starts = harness.Comparison("starts of threads (G/s: 1e9 a second)", "blocks of 256", 1 << 22)
    for size in (1, 32, 256, 1024):
        starts.add(f"blocks of {size}", partial(fast, "empty", ((1 << 22) // size, 1, 1), (size, 1, 1)))
    starts.add("checked, blocks of 256", partial(checked, "empty", ((1 << 22) // 256, 1, 1), (256, 1, 1)))
    done.append(starts.run(options.budget))

    waits = harness.Comparison("waits of a thread (G/s: 1e9 a second)", "barriers of 256", 256 * 2000)
    waits.add("barriers of 256", partial(fast, "meet", (1, 1, 1), (256, 1, 1), 2000))
    waits.add("shuffles", partial(fast, "warps", (1, 1, 1), (256, 1, 1), 0, 2000))
    waits.add("checked, barriers of 256", partial(checked, "meet", (1, 1, 1), (256, 1, 1), 2000))
    done.append(waits.run(options.budget))

    n = 128
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal((n, n)).astype(np.float32) for _ in range(2)] + [np.zeros((n, n), np.float32)]
    places = [device.allocate(array.nbytes) for array in arrays]
    for place, array in zip(places, arrays, strict=True):
        ctypes.memmove(place, array.ctypes.data, array.nbytes)
    words = (*places, n)
    product = harness.Comparison(f"matrix product of {n}, tiles of 16", "fast", 2 * n**3)
    for name, launch in (("fast", fast), ("checked", checked), ("profiled", profiled)):
        product.add(name, partial(launch, "matmul", (n // 16, n // 16, 1), (16, 16, 1), *words))
    done.append(product.run(options.budget))
    ctypes.memmove(arrays[2].ctypes.data, places[2], arrays[2].nbytes)
    np.testing.assert_allclose(arrays[2], arrays[0] @ arrays[1], rtol=1e-4, atol=1e-4)
    for place in places:
        device.release(place)

    harness.report(done, options.json)


if __name__ == "__main__":
    main()
