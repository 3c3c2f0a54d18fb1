"""A cell's latency: the tiled matrix product as a cell of a notebook, from run_cell to the result.

    first      an empty cache on disk, the extension loaded
    edited     the same session, the cell's text changed
    unchanged  the same session, the same text again
    restarted  a new process, the cache on disk from before

Every measurement of `first` and `restarted` has a process of its own.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import harness
import programs

CROQ = programs.DMA.format(t="s32", m=128, n=256, k=256)
CYTHON = """\
%%cython -3 -c=-O3 -c=-march=native
# cython: boundscheck=False, wraparound=False
import numpy as np
def matmul(const int[:, ::1] lhs, const int[:, ::1] rhs):
    out = np.zeros((lhs.shape[0], rhs.shape[1]), np.int32)
    cdef int[:, ::1] o = out
    cdef int[16][16] a, b
    cdef Py_ssize_t px, py, tile_k, i, j, k
    cdef int total
    for px in range(8):
        for py in range(16):
            for tile_k in range(16):
                for i in range(16):
                    for k in range(16):
                        a[i][k] = lhs[px * 16 + i, tile_k * 16 + k]
                        b[i][k] = rhs[tile_k * 16 + i, py * 16 + k]
                for i in range(16):
                    for j in range(16):
                        total = o[px * 16 + i, py * 16 + j]
                        for k in range(16):
                            total += a[i][k] * b[k][j]
                        o[px * 16 + i, py * 16 + j] = total
    return out
"""
NUMBA = """\
@numba.njit(cache=True)
def matmul(lhs, rhs):
    out = np.zeros((lhs.shape[0], rhs.shape[1]), np.int32)
    a, b = np.empty((16, 16), np.int32), np.empty((16, 16), np.int32)
    for px in range(8):
        for py in range(16):
            for tile_k in range(16):
                for i in range(16):
                    for k in range(16):
                        a[i, k] = lhs[px * 16 + i, tile_k * 16 + k]
                        b[i, k] = rhs[tile_k * 16 + i, py * 16 + k]
                for i in range(16):
                    for j in range(16):
                        total = out[px * 16 + i, py * 16 + j]
                        for k in range(16):
                            total += a[i, k] * b[k, j]
                        out[px * 16 + i, py * 16 + j] = total
    return out
"""
# What stands before the cell, how its text changes in an edit, and the cells that are timed.
SUBJECTS: dict[str, tuple[str, Callable[[int], list[str]]]] = {
    "croq_magic": ("%load_ext croq_magic", lambda edit: ["%%croqtile -o out\n" + _edited(CROQ, "at(qx, k)", edit)]),
    "Cython": ("%load_ext cython", lambda edit: [_edited(CYTHON, "a[i][k]", edit), "out = matmul(lhs, rhs)"]),
    "numba": ("import numba", lambda edit: [_edited(NUMBA, "a[i, k]", edit), "out = matmul(lhs, rhs)"]),
}


def _edited(text: str, operand: str, edit: int) -> str:
    """The cell after an edit that changes what it computes: the product times edit + 1."""
    return text.replace(f"{operand} * ", f"{operand} * {edit + 1} * ") if edit else text


def child(subject: str, phases: list[str]) -> None:
    """Runs the phases in this process and prints the seconds of each."""
    import numpy as np
    from IPython.core.interactiveshell import InteractiveShell

    setup, cells = SUBJECTS[subject]
    shell = InteractiveShell.instance(colors="NoColor", display_page=False)
    rng = np.random.default_rng(0)
    lhs, rhs = (rng.integers(-9, 9, shape).astype(np.int32) for shape in ((128, 256), (256, 256)))
    shell.push({"lhs": lhs, "rhs": rhs, "np": np})
    shell.run_cell(setup).raise_error()
    seconds: dict[str, list[float]] = {}
    edit = 0
    for phase in phases:
        edit += phase == "edited"
        texts = cells(edit)
        start = time.perf_counter()
        for text in texts:
            shell.run_cell(text, store_history=False).raise_error()
        seconds.setdefault(phase, []).append(time.perf_counter() - start)
        if not np.array_equal(shell.user_ns["out"], (lhs @ rhs) * (edit + 1)):
            raise SystemExit(f"{subject} computes something else after an edit")
    print("\n" + json.dumps(seconds))


def spawn(subject: str, phases: list[str], folder: Path) -> dict[str, list[float]]:
    environment = {
        **os.environ,
        "CROQ_CACHE_DIR": str(folder / "croq"),
        "HOME": str(folder),
        "XDG_CACHE_HOME": str(folder / "cache"),
        "IPYTHONDIR": str(folder / "ipython"),
        "NUMBA_CACHE_DIR": str(folder / "numba"),
        "PYTHONWARNINGS": "ignore",
    }
    command = [sys.executable, __file__, "--child", subject, *phases]
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # a notebook's modules are compiled once, not at every start
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{subject}:\n{done.stdout}{done.stderr}")
    result: dict[str, list[float]] = json.loads(done.stdout.splitlines()[-1])
    return result


def main() -> None:
    parser = harness.arguments(__doc__ or "")
    parser.add_argument("--rounds", type=int, default=3, help="processes for each measurement (default 3)")
    parser.add_argument("--child", nargs="+", help="(internal) a subject and its phases")
    options = parser.parse_args()
    if options.child:
        child(options.child[0], options.child[1:])
        return
    phases = ("first", "edited", "unchanged", "restarted")
    seconds: dict[str, dict[str, list[float]]] = {name: {phase: [] for phase in phases} for name in SUBJECTS}
    for _ in range(options.rounds):
        for name, of_one in seconds.items():
            if options.only not in name:
                continue
            with tempfile.TemporaryDirectory() as text:
                folder = Path(text)
                for found in (
                    spawn(name, ["first", "edited", "edited", "unchanged", "unchanged", "unchanged"], folder),
                    spawn(name, ["restarted"], folder),
                ):
                    for phase, values in found.items():
                        of_one[phase] += values
    comparisons = []
    for phase in phases:
        comparison = harness.Comparison(f"cell, {phase}", "croq_magic")
        for name, of_one in seconds.items():
            if of_one[phase]:
                ours = seconds["croq_magic"][phase] or of_one[phase]
                comparison.rows.append(harness.summary(name, of_one[phase], median(ours)))
        comparisons.append(comparison)
    harness.report(comparisons, options.json)


if __name__ == "__main__":
    main()
