"""The conformance programs at millions of elements against C++ with the same tiles, one row a program.

Both sides fill a new array for every result, as calls in a notebook do. `--only` takes one or several names, with
commas between: C14,C25. The f16 matrix product with `mma` is compared with the f32 matrix product of the tutorial.
"""

from __future__ import annotations

import copy
import ctypes
from collections.abc import Callable
from typing import Any

import harness
import native
import numpy as np
import programs
from conformance_programs import PROGRAMS, Scaled, halves

import croq_magic

MMA = """\
__co__ f32 [1024, 1024] matmul(f16 [1024, 1024] lhs, f16 [1024, 1024] rhs) {
  f32 [1024, 1024] output;
  parallel {px, py} by [64, 64] : block {
    acc = mma.fill.f32 0.0f;
    foreach tile_k in 1024 / 16 {
      lhs_load = dma.copy lhs.chunkat(px, tile_k) => shared;
      rhs_load = dma.copy rhs.chunkat(tile_k, py) => shared;
      parallel w by 1 : group {
        a = mma.load lhs_load;
        b = mma.load rhs_load;
        mma.row.col acc, a, b;
      }
    }
    parallel w by 1 : group
      mma.store acc, output.chunkat(px, py);
  }
  return output;
}
"""
PEER = "C++"


def peer(program: Scaled, inputs: dict[str, Any]) -> Callable[[], Any]:
    """A call of the C++ function, which returns its result in an array of its own."""
    function = native.library("conformance")[program.number]
    function.restype = None
    spaces = [v for v in inputs.values() if isinstance(v, np.ndarray)]
    spaces += [np.empty(shape, spaces[0].dtype) for shape in program.scratch]
    scalars: list[Any] = [v for v in inputs.values() if not isinstance(v, np.ndarray)]
    rest = [ctypes.c_float(v) if isinstance(v, float) else ctypes.c_long(v) for v in (*scalars, *program.extents)]
    pointers = [ctypes.c_void_p(space.ctypes.data) for space in spaces]

    def call() -> Any:
        if program.result is None:
            function(*pointers, *rest)
            return spaces[list(inputs).index(program.written or "")]
        result = np.empty(*program.result)
        function(*pointers, ctypes.c_void_p(result.ctypes.data), *rest)
        return result

    return call


def compare(program: Scaled, budget: float) -> harness.Comparison:
    inputs = program.inputs()
    ours = next(iter(croq_magic.compile(program.text, target="cpu")))
    mine = list(copy.deepcopy(inputs).values())
    place = list(inputs).index(program.written) if program.written else None
    theirs = peer(program, copy.deepcopy(inputs))
    got, expected = ours(*mine), theirs()
    if place is not None:
        got = mine[place]
    if not agree(got, expected, program.rtol):
        raise SystemExit(f"{program.name}: the two compute different things")
    comparison = harness.Comparison(program.name, PEER)
    comparison.add(PEER, theirs)
    comparison.add("croq_magic", lambda: ours(*mine))
    return comparison.run(budget)


def agree(got: Any, expected: np.ndarray, rtol: float) -> bool:
    got = np.asarray(got).reshape(expected.shape)
    if rtol:
        return np.allclose(got.astype(np.float64), expected.astype(np.float64), rtol=rtol, atol=1e-6)
    return np.array_equal(got, expected)


def matrix_products(budget: float) -> harness.Comparison:
    lhs, rhs = halves(1024, 1024), halves(1024, 1024)[::-1].copy()
    wide = lhs.astype(np.float32), rhs.astype(np.float32)
    half = programs.function(MMA, "matmul")
    single = programs.function(programs.DMA, "matmul", t="f32", m=1024, n=1024, k=1024)
    if not np.array_equal(half(lhs, rhs), wide[0] @ wide[1]) or not np.array_equal(single(*wide), wide[0] @ wide[1]):
        raise SystemExit("matrix product: a wrong result")
    comparison = harness.Comparison("matrix product 1024x1024x1024", "f32, DMA", 2.0 * 1024**3, "Gop/s")
    comparison.add("f32, DMA", lambda: single(*wide))
    comparison.add("f16, mma", lambda: half(lhs, rhs))
    return comparison.run(budget)


def table(done: list[tuple[Scaled, harness.Comparison]]) -> str:
    width = max(len(program.name) for program, _ in done)
    head = ("elements", "ours", "IQR", "best", PEER, "IQR", "best", "ratio", "of best")
    lines = [f"{'':{width}}" + "".join(f"{word:>10}" for word in head)]
    for program, comparison in done:
        theirs, ours = comparison.rows
        times = [harness.duration(t) for row in (ours, theirs) for t in (row.seconds, row.spread, row.best)]
        best = theirs.best / ours.best
        mark = "  <" if max(ours.ratio, best) < 0.8 else ""
        lines.append(
            f"{program.name:{width}}{program.elements:10}"
            + "".join(f"{text:>10}" for text in times)
            + f"{ours.ratio:10.2f}{best:10.2f}{mark}"
        )
    return "\n".join(lines)


def main() -> None:
    parser = harness.arguments(__doc__)
    parser.set_defaults(budget=1.2)
    options = parser.parse_args()
    wanted = [word for word in options.only.split(",") if word]
    chosen = [p for p in PROGRAMS if not wanted or any(word in p.name for word in wanted)]
    done = [(program, compare(program, options.budget)) for program in chosen]
    comparisons = [comparison for _, comparison in done]
    if done:
        print(table(done), flush=True)
    if not wanted or any(word in "matrix product mma" for word in wanted):
        comparisons.append(matrix_products(2 * options.budget))
    if comparisons[len(done) :]:
        print("\n" + comparisons[-1].table())
    harness.record(comparisons, options.json)


if __name__ == "__main__":
    main()
