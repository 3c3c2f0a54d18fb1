"""What the CUDA target reaches on a GPU: a ladder of comparisons with CuPy, cuBLAS and CUDA by hand.

    python benchmarks/gpu.py [--json NAME] [--small]

A time is the shortest of several, each of many launches between two events of the stream. `--small` takes sizes that
the emulator can do in seconds: then the figures mean nothing, but everything has run.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import programs

import croq_magic as croq

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results"

COPY = """
__co__ void copy(f32 [{rows}, {columns}] a, f32 [{rows}, {columns}] &b) {{
  parallel {{p, q}} by [{rows} / {height}, {columns} / {width}] : block {{
    tile = dma.copy a.chunkat(p, q) => shared;
    dma.copy tile.data => b.chunkat(p, q);
  }}
}}
"""
SUM = """
__co__ f32 [1] total(f32 [{count}] x) {{
  f32 [1] r {{0.0f}};
  parallel b by {blocks} : block {{
    shared f32 [256] part;
    parallel t by 256 : thread {{
      f32 sum = 0.0f;
      foreach i in {turns} {{ sum += x.at((i * {blocks} + b) * 256 + t); }}
      part.at(t) = sum;
      sync.shared;
      foreach k in 8 {{
        w = 128 >> k;
        if (t < w) part.at(t) += part.at(t + w);
        sync.shared;
      }}
      if (t == 0) __atomic_add(r.at(0), part.at(0));
    }}
  }}
  return r;
}}
"""
HISTOGRAM = """
__co__ s32 [256] tally(s32 [{count}] x) {{
  s32 [256] r {{0}};
  parallel b by {blocks} : block {{
    shared s32 [256] bins {{0}};
    parallel t by 256 : thread {{
      foreach i in {turns} {{ __atomic_add(bins.at(x.at((i * {blocks} + b) * 256 + t)), 1); }}
      sync.shared;
      __atomic_add(r.at(t), bins.at(t));
    }}
  }}
  return r;
}}
"""
TOUCH = "__co__ void touch(f32 [1024] &a, f32 [1024] b) {{ parallel p by 1024 {{ a.at(p) = b.at(p) + 1.0f; }} }}"


@dataclass
class Step:
    """One line of the result. `ours` and `peer` are in `unit` (larger is better, but for us), `ratio` compares them so
    that above 1 ours is better; for "us" it is the difference, peer less ours. `aim` is the ratio that is asked for."""

    name: str
    peer_name: str
    ours: float
    peer: float
    unit: str
    ratio: float
    aim: float | None
    note: str = ""


class Ladder:
    """Runs the comparisons; `small` for the emulator, `until` when to stop, on the clock of `time.monotonic`."""

    def __init__(self, cupy: Any, small: bool, until: float) -> None:
        self.cupy, self.small, self.until = cupy, small, until
        self.steps: list[Step] = []
        self.random = np.random.default_rng(7)

    def compiled(self, text: str) -> Any:
        return next(iter(croq.compile(text, target="cuda").functions.values()))

    def seconds(self, call: Callable[[], Any], repeats: int = 20, rounds: int = 5) -> float:
        """Seconds that the device spends on one call."""
        if self.small:
            repeats, rounds = 1, 1
        first, last = self.cupy.cuda.Event(), self.cupy.cuda.Event()
        best = float("inf")
        call()
        for _ in range(rounds):
            first.record()
            for _ in range(repeats):
                call()
            last.record()
            last.synchronize()
            best = min(best, self.cupy.cuda.get_elapsed_time(first, last) * 1e-3 / repeats)
        return max(best, 1e-9)

    def add(self, name: str, ours: float, peer_name: str, peer: float, unit: str, aim: float | None = None) -> None:
        ratio = peer - ours if unit == "us" else ours / peer
        self.steps.append(Step(name, peer_name, ours, peer, unit, ratio, None if self.small else aim))

    def array(self, *shape: int) -> Any:
        """Random numbers, made on the device where it can: a gigabyte takes long otherwise."""
        if self.small:
            return self.cupy.asarray(self.random.standard_normal(shape).astype(np.float32))
        return self.cupy.random.standard_normal(shape, dtype=np.float32)

    # ---------------------------------------------------------------------------------------------------------- steps

    def overhead(self) -> None:
        """Microseconds of the processor for one call, with the same kernel, machine code and launch."""
        touch = self.compiled(TOUCH.format())
        a, b = self.array(1024), self.array(1024)
        touch(a, b)
        launcher = touch.compiled.variant({}).launch
        symbol = launcher._kernels.symbols[0]
        taken: list[tuple[Any, ...]] = []
        launcher._direct.make({symbol: lambda *given: taken.append(given)}, None)((a, b), {}, None)
        grid, block, args, shared = taken[0]
        with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
            file.write(launcher._codes[launcher._kernels.arch])
            file.flush()
            kernel = self.cupy.RawModule(path=file.name).get_function(symbol)
            kernel(grid, block, args, shared_mem=shared)
            ours = self.microseconds(lambda: touch(a, b))
            peer = self.microseconds(lambda: kernel(grid, block, args, shared_mem=shared))
        self.add("launch overhead", ours, "RawKernel", peer, "us", -3.0)

    def microseconds(self, call: Callable[[], Any]) -> float:
        repeats, rounds = (5, 1) if self.small else (500, 9)
        best = float("inf")
        for _ in range(rounds):
            self.cupy.cuda.get_current_stream().synchronize()
            start = time.perf_counter()
            for _ in range(repeats):
                call()
            best = min(best, (time.perf_counter() - start) / repeats)
        self.cupy.cuda.get_current_stream().synchronize()
        return best * 1e6

    def bandwidth(self) -> None:
        """Element-wise sum and tiled copy against a copy within the device, all in bytes moved a second."""
        rows, columns = (32, 128) if self.small else (16384, 16384)
        a, b, c = (self.array(rows, columns) for _ in range(3))
        peer = 2 * a.nbytes / self.seconds(lambda: c.data.copy_from_device_async(a.data, a.nbytes)) / 1e9
        add = self.compiled(programs.ADD.format(t="f32", rows=rows, columns=columns).replace("global f32", "f32", 2))
        ours = 3 * a.nbytes / self.seconds(lambda: add(a, b, c)) / 1e9
        self.require(c, a[:4].get() + b[:4].get(), "element-wise add")
        self.add("element-wise add", ours, "device copy", peer, "GB/s", 0.95)
        copy = self.compiled(COPY.format(rows=rows, columns=columns, height=32, width=128))
        c[...] = 0
        ours = 2 * a.nbytes / self.seconds(lambda: copy(a, c)) / 1e9
        self.require(c, a[:4].get(), "tiled copy")
        self.add("tiled copy", ours, "device copy", peer, "GB/s", 0.95)

    def require(self, found: Any, wanted: np.ndarray, name: str, tolerance: float = 1e-5) -> None:
        """Speed of a wrong result is no figure."""
        rows = found[: wanted.shape[0]].get()
        np.testing.assert_allclose(rows, wanted, rtol=tolerance, atol=tolerance * 100, err_msg=name)

    def products(self) -> None:
        """The matrix product of the tutorials in f32."""
        n = 32 if self.small else 4096
        a, b, out = self.array(n, n), self.array(n, n), self.array(n, n)
        work = 2e-9 * n**3
        dma = self.compiled(programs.DMA.format(t="f32", m=n, n=n, k=n))
        ours = work / self.seconds(lambda: dma(a, b), 3, 3)
        right = a[:16].get() @ b.get()
        self.require(dma(a, b), right, "DMA product", 1e-3)
        text = (HERE / "peers" / "matmul_tiles.cu").read_text()
        kernel = self.cupy.RawKernel(text, "matmul")
        args = (a, b, out, np.int32(n), np.int32(n), np.int32(n))
        by_hand = work / self.seconds(lambda: kernel((n // 16, n // 16), (16, 16), args), 3, 3)
        self.require(out, right, "product by hand", 1e-3)
        self.add("DMA matmul f32", ours, "CUDA by hand", by_hand, "GFLOP/s", 1.0)
        blas = work / self.seconds(lambda: self.cupy.matmul(a, b, out=out), 3, 3)
        self.add("DMA matmul f32", ours, "cuBLAS f32", blas, "GFLOP/s")
        n = 64 if self.small else 1024
        a, b, out = self.array(n, n), self.array(n, n), self.array(n, n)
        scalar = self.compiled(programs.SCALAR.format(t="f32", m=n, n=n, k=n))
        ours = 2e-9 * n**3 / self.seconds(lambda: scalar(a, b), 3, 3)
        self.require(scalar(a, b), a[:16].get() @ b.get(), "scalar product", 1e-3)
        blas = 2e-9 * n**3 / self.seconds(lambda: self.cupy.matmul(a, b, out=out), 3, 3)
        self.add("scalar matmul f32", ours, "cuBLAS f32", blas, "GFLOP/s")

    def reductions(self) -> None:
        """A sum and a histogram against CuPy's own, in bytes read a second."""
        blocks, turns = (3, 2) if self.small else (2112, 512)
        count = blocks * turns * 256
        x = self.array(count)
        total = self.compiled(SUM.format(count=count, blocks=blocks, turns=turns))
        ours = x.nbytes / self.seconds(lambda: total(x)) / 1e9
        exact = float(x.get().astype(np.float64).sum())
        assert abs(float(total(x).get()[0]) - exact) < 1e-5 * count**0.5 * 100, "sum"
        peer = x.nbytes / self.seconds(lambda: x.sum()) / 1e9
        self.add("sum", ours, "cupy.sum", peer, "GB/s")
        values = self.cupy.asarray(self.random.integers(0, 256, count, dtype=np.int32))
        tally = self.compiled(HISTOGRAM.format(count=count, blocks=blocks, turns=turns))
        ours = values.nbytes / self.seconds(lambda: tally(values)) / 1e9
        np.testing.assert_array_equal(tally(values).get(), np.bincount(values.get(), minlength=256))
        peer = values.nbytes / self.seconds(lambda: self.cupy.bincount(values, minlength=256), 3, 3) / 1e9
        self.add("histogram of 256", ours, "cupy.bincount", peer, "GB/s")

    def run(self) -> None:
        for step in (self.overhead, self.bandwidth, self.products, self.reductions):
            if time.monotonic() > self.until:
                self.steps.append(Step(step.__name__, "", 0, 0, "", 0, None, "left out: no time was left"))
                continue
            try:
                step()
            except Exception as error:  # the other steps are worth having
                said = " ".join(str(error).split())[:300]
                self.steps.append(Step(step.__name__, "", 0, 0, "", 0, None, f"{type(error).__name__}: {said}"))

    def table(self) -> str:
        lines = [f"{'':20} {'ours':>10} {'peer':>10} {'unit':8} {'ratio':>7}  aim"]
        for s in self.steps:
            if s.note:
                lines.append(f"{s.name:20} {s.note}")
                continue
            ratio = f"{s.ratio:+7.2f}" if s.unit == "us" else f"{s.ratio:7.2f}"
            aim = "" if s.aim is None else f"{s.aim:g} {'reached' if s.ratio >= s.aim else 'MISSED'}"
            lines.append(f"{s.name:20} {s.ours:10.4g} {s.peer:10.4g} {s.unit:8} {ratio}  {aim:12} ({s.peer_name})")
        return "\n".join(lines)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", metavar="NAME", help="also record the result as benchmarks/results/NAME.json")
    parser.add_argument("--small", action="store_true", help="sizes for the emulator; the figures mean nothing")
    parser.add_argument("--seconds", type=float, default=150.0, help="begin no step after this time (default 150)")
    given = parser.parse_args(arguments)
    from croq_magic.compiler.targets.cuda import nvrtc, system

    cupy = system.cupy()
    ladder = Ladder(cupy, given.small, time.monotonic() + given.seconds)
    ladder.run()
    device = f"{system.device_name(cupy)}, driver for CUDA {system.version(cupy.cuda.runtime.driverGetVersion())}"
    versions = f"CuPy {cupy.__version__}, {nvrtc.nvrtc().name}, Python {platform.python_version()}"
    print(f"{device}; {versions}\n{ladder.table()}")
    if given.json:
        RESULTS.mkdir(exist_ok=True)
        content = {
            "machine": f"{platform.node()}: {device}",
            "date": time.strftime("%Y-%m-%d"),
            "versions": versions,
            "small": given.small,
            "steps": [asdict(step) for step in ladder.steps],
        }
        (RESULTS / f"{given.json}.json").write_text(json.dumps(content, indent=2) + "\n")
    return int(any(step.note for step in ladder.steps))


if __name__ == "__main__":
    raise SystemExit(main())
