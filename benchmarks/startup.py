"""What importing croq_magic and loading the extension add to IPython's own start, and what they must not import."""

from __future__ import annotations

import json
import subprocess
import sys

import harness

SCRIPT = """
import json, sys, time
from IPython.core.interactiveshell import InteractiveShell
import numpy
shell = InteractiveShell.instance()
before = set(sys.modules)
seconds = {}
start = time.perf_counter()
import croq_magic
seconds["import croq_magic"] = time.perf_counter() - start
start = time.perf_counter()
shell.run_line_magic("load_ext", "croq_magic")
seconds["load the extension"] = time.perf_counter() - start
seconds["both"] = sum(seconds.values())
print(json.dumps([seconds, sorted(set(sys.modules) - before)]))
"""
UNWANTED = ("matplotlib", "cupy", "lark", "islpy", "pcpp", "pyopencl", "numba", "ipywidgets", "ml_dtypes")
AIM = 0.060


def main() -> None:
    parser = harness.arguments(__doc__ or "")
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    times: dict[str, list[float]] = {}
    modules: list[str] = []
    for _ in range(options.rounds):
        out = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True).stdout
        seconds, modules = json.loads(out.splitlines()[-1])
        for name, value in seconds.items():
            times.setdefault(name, []).append(value)
    comparison = harness.Comparison(f"start-up, over IPython's own (aim: {AIM * 1e3:.0f} ms for both)", "both")
    middle = sorted(times["both"])[len(times["both"]) // 2]
    for name, taken in times.items():
        comparison.rows.append(harness.summary(name, taken, middle))
    harness.report([comparison], options.json)
    imported = sorted({name.partition(".")[0] for name in modules} & set(UNWANTED))
    print(f"\nmodules added: {len(modules)}; unwanted among them: {', '.join(imported) or 'none'}")
    if imported:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
