"""Kernel speed of the opencl target against OpenCL C by hand with the same tiles, and against the cpu target."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import harness
import numpy as np
import programs

import croq_magic
from croq_magic.compiler.targets.opencl.device import OpenclDevice, session
from croq_magic.compiler.targets.opencl.devices import choose, shown
from croq_magic.compiler.targets.opencl.runtimes import pyopencl

TYPES = {"s32": (np.int32, "int"), "f32": (np.float32, "float")}
SIZES = [(128, 256, 256), (512, 512, 512)]
SOURCE = Path(__file__).parent / "peers" / "opencl.cl"
TILE = 16


def by_hand(
    name: str, type_name: str, grid: tuple[int, int], block: tuple[int, int], **extents: int
) -> Callable[..., Any]:
    """A function that runs a kernel of peers/opencl.cl on three arrays, without copies where the device can."""
    cl, device = pyopencl(), choose()
    defines = [f"-D{key.upper()}={value}" for key, value in extents.items()]
    options = [f"-DT={TYPES[type_name][1]}", *defines]
    built = cl.Program(session(device).context, SOURCE.read_text()).build(options)
    run = OpenclDevice(device, built)

    def call(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
        arrays = [array.reshape(-1) for array in (a, b, c)]
        if run.unified:
            memory = [run.bind(array) for array in arrays]
        else:
            memory = [run.allocate(array.nbytes) for array in arrays]
            for place, array in zip(memory[:2], arrays, strict=False):
                run.upload(place, array)
        run.launch(name, (*grid, 1), (*block, 1), 0, memory)
        run.synchronize()
        if not run.unified:
            run.download(memory[2], arrays[2])
            for place in memory:
                run.release(place)
        return c

    return call


def compare(title: str, text: str, name: str, hand: Callable[..., Any], work: float, unit: str, arrays: Any) -> Any:
    a, b, out = arrays
    comparison = harness.Comparison(title, "OpenCL by hand", work, unit)
    comparison.add("OpenCL by hand", lambda: hand(a, b, out))
    for target in ("opencl", "cpu"):
        function = getattr(croq_magic.compile(text, target=target), name)
        comparison.add(f"croq_magic {target}", partial(result_of, function, a, b, out if name == "add" else None))
    expected = a + b if name == "add" else (a.astype(np.float64) @ b.astype(np.float64)).astype(a.dtype)
    for entry, call in comparison.entries.items():
        if not np.array_equal(call(), expected):
            raise SystemExit(f"{title}: {entry} computes something else")
    return comparison


def result_of(function: Callable[..., Any], a: np.ndarray, b: np.ndarray, out: np.ndarray | None) -> np.ndarray:
    if out is None:
        return function(a, b)
    function(a, b, out)
    return out


def matmul(kind: str, type_name: str, size: tuple[int, int, int]) -> harness.Comparison:
    m, n, k = size
    rng = np.random.default_rng(0)
    dtype = TYPES[type_name][0]
    a, b = rng.integers(-8, 8, (m, k)).astype(dtype), rng.integers(-8, 8, (k, n)).astype(dtype)
    text = {"dma": programs.DMA, "scalar": programs.SCALAR}[kind].format(t=type_name, m=m, n=n, k=k)
    blocks, block = ((n // TILE, m // TILE), (TILE, TILE)) if kind == "dma" else ((n // 64, m), (64, 1))
    hand = by_hand(f"{kind}_matmul", type_name, blocks, block, m=m, n=n, k=k)
    title = f"{kind} matrix product {type_name} {m}x{n}x{k}"
    return compare(title, text, "matmul", hand, 2.0 * m * n * k, "Gop/s", (a, b, np.zeros((m, n), dtype)))


def large_add(type_name: str) -> harness.Comparison:
    rows = columns = 2048
    dtype = TYPES[type_name][0]
    a = np.arange(rows * columns, dtype=dtype).reshape(rows, columns)
    b, out = a[::-1].copy(), np.zeros_like(a)
    text = programs.ADD.format(t=type_name, rows=rows, columns=columns)
    hand = by_hand("add", type_name, (rows * columns // 256, 1), (256, 1), m=1, n=1, k=1)
    return compare(f"sum of {type_name} {rows}x{columns}", text, "add", hand, 3.0 * a.nbytes, "GB/s", (a, b, out))


def main() -> None:
    options = harness.arguments(__doc__).parse_args()
    cases: list[tuple[str, Callable[[], harness.Comparison]]] = []
    for size in SIZES:
        for name in TYPES:
            for kind in ("dma", "scalar"):
                cases.append((f"{kind} {name} {'x'.join(map(str, size))}", partial(matmul, kind, name, size)))
    cases += [(f"add {name}", partial(large_add, name)) for name in TYPES]
    print(f"OpenCL device: {shown(choose())}")
    harness.report([make().run(options.budget) for title, make in cases if options.only in title], options.json)


if __name__ == "__main__":
    main()
