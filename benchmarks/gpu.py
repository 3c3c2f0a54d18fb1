"""What the CUDA target reaches on a GPU: a ladder of comparisons with CuPy, cuBLAS and CUDA by hand.

    python benchmarks/gpu.py [--json NAME] [--small] [--step NAME ...]

Ours and the peer take turns: a round is many launches between two events of the stream for each. Figures are medians
of the rounds, and ratios are taken round by round. Every comparison has a process of its own, so that one that hangs or
breaks CUDA's context leaves the others. `--small` takes sizes that the emulator can do in seconds, in one process: then
the figures mean nothing, but everything has run.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

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


class Sizes(NamedTuple):
    """Of the comparisons: rows and columns of a plane of f32 (a GiB on a GPU), extents of the products, blocks of the
    reductions and turns of their threads."""

    rows: int = 16384
    columns: int = 16384
    dma: int = 4096
    scalar: int = 1024
    blocks: int = 2112
    turns: int = 512

    @property
    def count(self) -> int:
        """Elements of the reductions."""
        return self.blocks * self.turns * 256


SMALL = Sizes(32, 128, 32, 64, 3, 2)


def sources(sizes: Sizes) -> dict[str, str]:
    """Our programs, by the step that runs them."""
    rows, columns, dma, scalar, blocks, turns = sizes
    line = {"count": sizes.count, "blocks": blocks, "turns": turns}
    return {
        "overhead": TOUCH.format(),
        "add": programs.ADD.format(t="f32", rows=rows, columns=columns).replace("global f32", "f32", 2),
        "copy": COPY.format(rows=rows, columns=columns, height=32, width=128),
        "dma_product": programs.DMA.format(t="f32", m=dma, n=dma, k=dma),
        "scalar_product": programs.SCALAR.format(t="f32", m=scalar, n=scalar, k=scalar),
        "sum": SUM.format(**line),
        "histogram": HISTOGRAM.format(**line),
    }


WARM_UP = 0.2  # seconds of launches before a comparison: an idle GPU runs at a fraction of its clock
ONE_STEP = 60.0  # seconds after which a comparison hangs
Rounds = Sequence[float]


@dataclass
class Step:
    """One line of the result. `ours` and `peer` are in `unit` (larger is better, but for us), `ratio` compares them so
    that above 1 ours is better; for "us" it is the difference, peer less ours. `low` and `high` are the quartiles of
    the ratio over the rounds. `aim` is the ratio that is asked for. A `note` stands for what could not be measured."""

    name: str
    peer_name: str = ""
    ours: float = 0
    peer: float = 0
    unit: str = ""
    ratio: float = 0
    low: float = 0
    high: float = 0
    aim: float | None = None
    note: str = ""


def quartiles(values: Sequence[float]) -> tuple[float, float]:
    if len(values) < 2:
        return values[0], values[0]
    low, _, high = statistics.quantiles(values, n=4, method="inclusive")
    return low, high


class Ladder:
    """The comparisons; `small` for the emulator."""

    STEPS = ("overhead", "add", "copy", "dma_product", "scalar_product", "sum", "histogram")

    def __init__(self, cupy: Any, small: bool) -> None:
        self.cupy, self.small = cupy, small
        self.sizes = SMALL if small else Sizes()
        self.sources = sources(self.sizes)
        self.steps: list[Step] = []
        self.random = np.random.default_rng(7)

    def compiled(self, step: str) -> Any:
        return next(iter(croq.compile(self.sources[step], target="cuda").functions.values()))

    def rounds(self, *calls: Callable[[], Any], repeats: int = 10, rounds: int = 9) -> tuple[Rounds, ...]:
        """Seconds that the device spends on each of the calls, in every round."""
        if self.small:
            repeats, rounds = 1, 1
        first, last = self.cupy.cuda.Event(), self.cupy.cuda.Event()
        until = time.perf_counter() + (0 if self.small else WARM_UP)
        while True:
            for call in calls:
                call()
            self.cupy.cuda.get_current_stream().synchronize()
            if time.perf_counter() >= until:
                break
        taken: tuple[list[float], ...] = tuple([] for _ in calls)
        for _ in range(rounds):
            for call, times in zip(calls, taken, strict=True):
                first.record()
                for _ in range(repeats):
                    call()
                last.record()
                last.synchronize()
                times.append(max(self.cupy.cuda.get_elapsed_time(first, last) * 1e-3 / repeats, 1e-9))
        return taken

    def add_rate(
        self, name: str, ours: Rounds, peer_name: str, peer: Rounds, work: tuple[float, float], unit: str,
        aim: float | None = None,
    ) -> None:  # fmt: skip
        """A comparison of rates; `work` is what a call does, ours and the peer's, in what `unit` counts."""
        ratios = [work[0] / a / (work[1] / b) for a, b in zip(ours, peer, strict=True)]
        rates = [work[0] / statistics.median(ours), work[1] / statistics.median(peer)]
        aim = None if self.small else aim
        self.steps.append(Step(name, peer_name, *rates, unit, statistics.median(ratios), *quartiles(ratios), aim))

    def array(self, *shape: int) -> Any:
        """Random numbers, made on the device where it can: a gigabyte takes long otherwise."""
        if not self.small:
            try:
                return self.cupy.random.standard_normal(shape, dtype=np.float32)
            except (ImportError, RuntimeError):  # without cuRAND
                pass
        return self.cupy.asarray(self.random.standard_normal(shape, dtype=np.float32))

    def require(self, found: Any, wanted: np.ndarray, name: str, tolerance: float = 1e-5) -> None:
        """Speed of a wrong result is no figure."""
        rows = found[: wanted.shape[0]].get()
        np.testing.assert_allclose(rows, wanted, rtol=tolerance, atol=tolerance * 100, err_msg=name)

    # ---------------------------------------------------------------------------------------------------------- steps

    def overhead(self) -> None:
        """Microseconds of the processor for one call, with the same kernel, machine code and launch."""
        touch = self.compiled("overhead")
        a, b = self.array(1024), self.array(1024)
        touch(a, b)
        self.require(a, b.get() + np.float32(1), "touch")
        launcher = touch.compiled.variant({}).launch
        symbol = launcher._kernels.symbols[0]
        taken: list[tuple[Any, ...]] = []
        launcher._direct.make({symbol: lambda *given: taken.append(given)}, None)((a, b), {}, None)
        grid, block, args, shared = taken[0]
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "touch.cubin")
            path.write_bytes(launcher._codes[launcher._kernels.arch])
            kernel = self.cupy.RawModule(path=str(path)).get_function(symbol)
            kernel(grid, block, args, shared_mem=shared)
            calls = (lambda: touch(a, b)), (lambda: kernel(grid, block, args, shared_mem=shared))
            ours, peer = self.microseconds(*calls)
        differences = [b - a for a, b in zip(ours, peer, strict=True)]
        middle = [statistics.median(each) for each in (ours, peer, differences)]
        aim = None if self.small else -3.0
        self.steps.append(
            Step("launch overhead", "RawKernel", middle[0], middle[1], "us", middle[2], *quartiles(differences), aim)
        )

    def microseconds(self, *calls: Callable[[], Any]) -> tuple[Rounds, ...]:
        repeats, rounds = (5, 1) if self.small else (500, 15)
        stream = self.cupy.cuda.get_current_stream()
        taken: tuple[list[float], ...] = tuple([] for _ in calls)
        for number in range(rounds + 1):
            for call, times in zip(calls, taken, strict=True):
                stream.synchronize()
                start = time.perf_counter()
                for _ in range(repeats):
                    call()
                if number:  # the first round warms up
                    times.append((time.perf_counter() - start) / repeats * 1e6)
        stream.synchronize()
        return taken

    def add(self) -> None:
        """Element-wise sum against a copy within the device, both in bytes moved a second."""
        a, b, c, d = (self.array(self.sizes.rows, self.sizes.columns) for _ in range(4))
        add = self.compiled("add")
        calls = (lambda: add(a, b, c)), (lambda: d.data.copy_from_device_async(a.data, a.nbytes))
        ours, peer = self.rounds(*calls)
        self.require(c, a[:4].get() + b[:4].get(), "element-wise add")
        self.add_rate("element-wise add", ours, "device copy", peer, (3e-9 * a.nbytes, 2e-9 * a.nbytes), "GB/s", 0.95)

    def copy(self) -> None:
        """The copy through tiles against one within the device, in bytes moved a second."""
        a, c, d = (self.array(self.sizes.rows, self.sizes.columns) for _ in range(3))
        copy = self.compiled("copy")
        calls = (lambda: copy(a, c)), (lambda: d.data.copy_from_device_async(a.data, a.nbytes))
        ours, peer = self.rounds(*calls)
        self.require(c, a[:4].get(), "tiled copy")
        self.add_rate("tiled copy", ours, "device copy", peer, (2e-9 * a.nbytes, 2e-9 * a.nbytes), "GB/s", 0.95)

    def dma_product(self) -> None:
        """The matrix product of the third tutorial in f32 against the same tiles by hand, and against cuBLAS."""
        n = self.sizes.dma
        a, b, out = self.array(n, n), self.array(n, n), self.array(n, n)
        work = 2e-9 * n**3, 2e-9 * n**3
        dma = self.compiled("dma_product")
        right = a[:16].get() @ b.get()
        self.require(dma(a, b), right, "DMA product", 1e-3)
        text = (HERE / "peers" / "matmul_tiles.cu").read_text()
        kernel = self.cupy.RawKernel(text, "matmul")
        args = (a, b, out, np.int32(n), np.int32(n), np.int32(n))
        kernel((n // 16, n // 16), (16, 16), args)
        self.require(out, right, "product by hand", 1e-3)
        by_hand = (lambda: dma(a, b)), (lambda: kernel((n // 16, n // 16), (16, 16), args))
        ours, peer = self.rounds(*by_hand, repeats=2)
        self.add_rate("DMA matmul f32", ours, "CUDA by hand", peer, work, "GFLOP/s", 1.0)
        with_blas = (lambda: dma(a, b)), (lambda: self.cupy.matmul(a, b, out=out))
        ours, peer = self.rounds(*with_blas, repeats=2)
        self.add_rate("DMA matmul f32", ours, "cuBLAS f32", peer, work, "GFLOP/s")

    def scalar_product(self) -> None:
        n = self.sizes.scalar
        a, b, out = self.array(n, n), self.array(n, n), self.array(n, n)
        scalar = self.compiled("scalar_product")
        self.require(scalar(a, b), a[:16].get() @ b.get(), "scalar product", 1e-3)
        ours, peer = self.rounds(lambda: scalar(a, b), lambda: self.cupy.matmul(a, b, out=out), repeats=5)
        self.add_rate("scalar matmul f32", ours, "cuBLAS f32", peer, (2e-9 * n**3, 2e-9 * n**3), "GFLOP/s")

    def sum(self) -> None:
        """In bytes read a second, as the histogram."""
        count = self.sizes.count
        x = self.array(count)
        total = self.compiled("sum")
        exact = float(x.get().astype(np.float64).sum())
        assert abs(float(total(x).get()[0]) - exact) < 1e-5 * count**0.5 * 100, "sum"
        ours, peer = self.rounds(lambda: total(x), lambda: x.sum())
        self.add_rate("sum", ours, "cupy.sum", peer, (1e-9 * x.nbytes, 1e-9 * x.nbytes), "GB/s")

    def histogram(self) -> None:
        values = self.cupy.asarray(self.random.integers(0, 256, self.sizes.count, dtype=np.int32))
        tally = self.compiled("histogram")
        np.testing.assert_array_equal(tally(values).get(), np.bincount(values.get(), minlength=256))
        calls = (lambda: tally(values)), (lambda: self.cupy.bincount(values, minlength=256))
        ours, peer = self.rounds(*calls, repeats=3)
        work = 1e-9 * values.nbytes
        self.add_rate("histogram of 256", ours, "cupy.bincount", peer, (work, work), "GB/s")

    def run(self, name: str) -> None:
        """One of `STEPS`; what it raises becomes a note, since the others are worth having."""
        try:
            getattr(self, name)()
        except Exception as error:
            said = " ".join(str(error).split())[:300]
            self.steps.append(Step(name, note=f"{type(error).__name__}: {said}"))


def machine(cupy: Any) -> dict[str, str]:
    from croq_magic.compiler.targets.cuda import nvrtc, system

    driver = system.version(cupy.cuda.runtime.driverGetVersion())
    return {
        "device": f"{system.device_name(cupy)}, driver for CUDA {driver}",
        "versions": f"CuPy {cupy.__version__}, {nvrtc.nvrtc().name}, Python {platform.python_version()}",
    }


def apart(name: str, seconds: float) -> tuple[list[Step], dict[str, str]]:
    """A step in a process of its own, that ends after `seconds` at the latest."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "step.json")
        command = [sys.executable, str(Path(__file__).resolve()), "--step", name, "--out", str(out)]
        process = subprocess.Popen(command, start_new_session=True)
        try:
            status = process.wait(seconds)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            return [Step(name, note=f"did not end within {seconds:.0f} s")], {}
        if not out.exists():
            return [Step(name, note=f"its process ended with status {status}")], {}
        found = json.loads(out.read_text())
    return [Step(**each) for each in found["steps"]], found["machine"]


def table(steps: Sequence[Step]) -> str:
    lines = [f"{'':18} {'ours':>9} {'peer':>9} {'unit':8} {'ratio':>7} {'quartiles':>15}  aim"]
    for s in steps:
        if s.note:
            lines.append(f"{s.name:18} {s.note}")
            continue
        form = "+7.2f" if s.unit == "us" else "7.2f"
        aim = "" if s.aim is None else f"{s.aim:g} {'reached' if s.ratio >= s.aim else 'MISSED'}"
        spread = f"{s.low:{form}} {s.high:{form}}"
        lines.append(
            f"{s.name:18} {s.ours:9.4g} {s.peer:9.4g} {s.unit:8} {s.ratio:{form}} {spread}  {aim:12} ({s.peer_name})"
        )
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", metavar="NAME", help="also record the result as benchmarks/results/NAME.json")
    parser.add_argument("--small", action="store_true", help="sizes for the emulator; the figures mean nothing")
    parser.add_argument("--seconds", type=float, default=150.0, help="end within this time (default 150)")
    parser.add_argument("--tests", metavar="FILE", help="what is known of tests, to be recorded as well")
    parser.add_argument("--step", choices=Ladder.STEPS, help="this comparison alone")
    parser.add_argument("--out", metavar="FILE", help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    until = time.monotonic() + given.seconds
    names = [given.step] if given.step else list(Ladder.STEPS)
    steps: list[Step] = []
    about: dict[str, str] = {}
    ladder = None
    if given.small or given.out:
        from croq_magic.compiler.targets.cuda import system

        cupy = system.cupy()
        ladder, about = Ladder(cupy, given.small), machine(cupy)
    for name in names:
        left = until - time.monotonic()
        if left < 5:
            steps.append(Step(name, note="left out: no time was left"))
        elif ladder is not None:
            ladder.run(name)
            steps = ladder.steps
        else:
            found, known = apart(name, min(left, ONE_STEP))
            steps += found
            about = about or known
        _record(given, steps, about)
    if not given.out:
        print(f"{about.get('device', 'no device')}; {about.get('versions', '')}\n{table(steps)}", flush=True)
    return int(any(step.note for step in steps))


def _record(given: argparse.Namespace, steps: Sequence[Step], about: dict[str, str]) -> None:
    """Writes what is known so far: whatever happens next, it is there."""
    shown = [asdict(step) for step in steps]
    if given.out:
        Path(given.out).write_text(json.dumps({"steps": shown, "machine": about}))
    if given.json:
        RESULTS.mkdir(exist_ok=True)
        content = {
            "machine": f"{platform.node()}: {about.get('device', 'unknown')}",
            "date": time.strftime("%Y-%m-%d"),
            "versions": about.get("versions", ""),
            "small": given.small,
            "steps": shown,
        }
        if given.tests:
            content |= json.loads(Path(given.tests).read_text())
        (RESULTS / f"{given.json}.json").write_text(json.dumps(content, indent=2) + "\n")


if __name__ == "__main__":
    raise SystemExit(main())
