"""Runs a tutorial notebook without a browser, checks its programs against NumPy, and writes what it shows to files.

    python scripts/demo.py notebooks/03_parallelism.ipynb build/demo

In the folder: the executed notebook, and every diagram as PNG. Printed: one line per program, then where the files are.
The exit status is 1 if a cell fails or a program differs from NumPy.
"""

from __future__ import annotations

import ast
import base64
import re
import sys
import time
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError
from nbclient.util import run_sync

# NumPy's version of each function of the tutorials, over its parameters.
REFERENCES = {"matmul": "lhs @ rhs", "ele_add": "lhs + rhs"}

# Runs in the notebook's kernel after a cell, so it sees the arrays that the program saw.
PROBE = """
def _croq_demo(name, reference):
    import numpy as np
    function = get_ipython().user_ns[name]
    names = [p.name for p in function.compiled.function.params]
    arguments = {n: get_ipython().user_ns[n] for n in names}
    result = function(**arguments)
    expected = eval(reference, dict(arguments, np=np))
    if result.dtype.kind in "iub":
        verdict = "equal to NumPy" if np.array_equal(result, expected) else "DIFFERS FROM NUMPY"
    else:
        worst = float(np.max(np.abs(result.astype("f8") - expected.astype("f8"))))
        close = np.allclose(result, expected, rtol=1e-3)
        verdict = f"equal to NumPy within {worst:.1g}" if close else f"DIFFERS FROM NUMPY by {worst:.1g}"
    shapes = " x ".join(str(list(np.shape(a))) for a in arguments.values())
    arrow = f"{shapes} -> " if shapes else ""
    return f"{name:12} {function.program.target:5} {arrow + str(list(result.shape)):40} {verdict}"
"""


def functions_of(source: str) -> list[str]:
    """Names of the tileflow functions in a `%%croqtile` cell; the last one is the one that ran."""
    if not source.lstrip().startswith("%%croqtile") or "--no-run" in source.partition("\n")[0]:
        return []
    return re.findall(r"\b__co__\b[^;{}()]*?(\w+)\s*\(", source)


def evaluate(client: NotebookClient, expression: str) -> str | None:
    """The text of an expression's value in the notebook's kernel, None if it fails."""
    value = execute(client, "", {"x": expression})["user_expressions"]["x"]
    return ast.literal_eval(value["data"]["text/plain"]) if value["status"] == "ok" else None


def execute(client: NotebookClient, code: str, expressions: dict[str, str] | None = None) -> dict[str, Any]:
    """Runs code in the notebook's kernel beside its cells and returns the content of the reply."""
    run = run_sync(client.kc.execute_interactive)
    return run(code, store_history=False, user_expressions=expressions, output_hook=lambda _: None)["content"]


def save_figures(cell: Any, number: int, folder: Path) -> list[Path]:
    """Writes the pictures among a cell's outputs."""
    written = []
    for output in cell.get("outputs", []):
        data = output.get("data", {}).get("image/png")
        if data:
            title = output.data.get("text/plain", "").partition("\n")[0]
            words = "-".join(re.findall(r"\w+", title)) if len(title) < 60 else ""
            path = folder / f"cell-{number:02d}-{words or f'figure-{len(written) + 1}'}.png"
            path.write_bytes(base64.b64decode(data))
            written.append(path)
    return written


def main(notebook: Path, folder: Path) -> int:
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("*.png"):
        old.unlink()
    content = nbformat.read(notebook, as_version=4)
    client = NotebookClient(
        content,
        timeout=600,
        kernel_name="python3",
        resources={"metadata": {"path": notebook.parent}},
        extra_arguments=["--log-level=ERROR"],
    )
    lines, figures = [], []
    failure: str | None = None
    started = time.perf_counter()
    with client.setup_kernel():
        execute(client, PROBE)
        number = 0
        for index, cell in enumerate(content.cells):
            if cell.cell_type != "code":
                continue
            number += 1
            try:
                client.execute_cell(cell, index)
            except CellExecutionError as error:
                failure = f"cell {number} of {notebook.name} failed:\n{error}"
                break
            figures += save_figures(cell, number, folder)
            for name in functions_of(cell.source)[-1:]:
                reference = cell.metadata.get("croqtile", {}).get("reference", REFERENCES.get(name))
                line = evaluate(client, f"_croq_demo({name!r}, {reference!r})") if reference else None
                lines.append(line or f"{name:12} not compared with NumPy")
    target = folder / notebook.name
    nbformat.write(content, target)
    print("\n".join(lines))
    print(f"\n{notebook} ran in {time.perf_counter() - started:.1f} s")
    print(f"executed notebook: {target}")
    for path in figures:
        print(f"diagram:           {path}")
    if failure:
        print(failure, file=sys.stderr)
    return 1 if failure or any("DIFFERS" in line for line in lines) else 0


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2])))
