"""From a cell to machine code for a GPU, which none is needed for: our stages and NVRTC, without any cache.

The aim is 120 ms for a whole cell. `nvrtc alone` is an empty kernel: what every compilation costs at least.
"""

from __future__ import annotations

import os
import sys
import tempfile

import harness
import programs

CELLS = {
    "DMA product": programs.DMA.format(t="f32", m=128, n=256, k=256),
    "scalar product": programs.SCALAR.format(t="s32", m=128, n=256, k=256),
    "element-wise add": programs.ADD.format(t="f32", rows=301, columns=257).replace("global f32", "f32"),
}
ARCH = "sm_90a"


def main() -> int:
    given = harness.arguments(__doc__.splitlines()[0]).parse_args()
    with tempfile.TemporaryDirectory() as folder:
        os.environ["CROQ_CACHE_DIR"] = folder
        from croq_magic.compiler import pipeline
        from croq_magic.compiler.source import Source
        from croq_magic.compiler.targets import cuda
        from croq_magic.compiler.targets.cuda import build, nvrtc

        target = cuda.target(ARCH)

        def emitted(text: str) -> str:
            front = pipeline.front_end(Source(text, "cell"), target.limits, {}, target.checks)
            unit = pipeline.CompiledUnit(front, target, target.checks, None)  # type: ignore[arg-type]
            return unit.source()

        def compiled(text: str) -> None:
            build._compile(text, ARCH, build.options(text))

        comparisons = []
        for name, cell in CELLS.items():
            if given.only and given.only not in name:
                continue
            found = harness.Comparison(f"{name}, cell to CUBIN for {ARCH} ({nvrtc.nvrtc().name})", "cell to CUBIN")
            text = emitted(cell)
            found.add("cell to CUBIN", lambda cell=cell: compiled(emitted(cell)))
            found.add("our stages", lambda cell=cell: emitted(cell))
            found.add("NVRTC", lambda text=text: compiled(text))
            found.add("nvrtc alone", lambda: compiled('extern "C" __global__ void k(float* x) { *x = 1; }'))
            comparisons.append(found.run(given.budget))
        harness.report(comparisons, given.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
