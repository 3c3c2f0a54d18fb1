"""Writes docs/diagnostics.md, and the examples that `croqtile --explain` shows, from the table of codes and the
catalogue of bad programs that the tests use.

python scripts/diagnostics_doc.py
"""

from __future__ import annotations

import json
import sys
from itertools import groupby
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from compiler.catalogue import CATALOGUE, program  # noqa: E402 - the path is set above

from croq_magic.compiler.codes import CODES, Code  # noqa: E402

INTRO = """# Diagnostics

<!-- Made by scripts/diagnostics_doc.py; do not edit by hand. -->

Everything the compiler has to say about a program has a code. Codes are stable. A message names the place, what is
wrong and, where there is one, the fix:

```
cell:3:10: error: unexpected name `n`; expected `,` or `}` [SYN01]
      t = {7 n};
             ^
hint: separate ituple items with commas
```

Lines are counted as the notebook shows them, so the magic line is line 1. Columns are counted from 1. What comes from
a macro is shown where the macro is used, with a note that points to its definition. `croq.check(source)` gives the
same findings as values: `.severity`, `.code`, `.message`, `.span.line`, `.span.column`, `.span.end_column`, `.notes`
and `.hint`. Warnings never change what a program does. At most 20 errors are shown, then their number.

The examples are fragments of a function with the parameters `f32 [8, 16] g, int n`.
"""


def page() -> str:
    """The whole document."""
    parts = [INTRO]
    for section, codes in groupby(CODES.values(), key=lambda code: code.section):
        parts.append(f"\n## {section}\n\n| Code | Severity | Meaning | Example | Message |\n|---|---|---|---|---|\n")
        parts += [_row(code) for code in codes]
    return "".join(parts)


def explanations() -> str:
    """The package data of `--explain`: for every code a whole wrong program, its message and its hint."""
    entries = {entry.code: entry for entry in reversed(CATALOGUE)}  # the first of a code counts
    found = {
        code: {"program": program(entries[code]), "message": entries[code].message, "hint": entries[code].hint}
        for code in CODES
        if code in entries
    }
    return json.dumps(found, indent=1, ensure_ascii=False) + "\n"


def _row(code: Code) -> str:
    entry = next((entry for entry in CATALOGUE if entry.code == code.code), None)
    example, message = "", ""
    if entry is not None:
        example = " ".join(_code(line.strip()) for line in entry.fragment.splitlines())
        message = entry.message + (f"; hint: {entry.hint}" if entry.hint else "")
    return f"| {code.code} | {code.severity} | {code.title} | {_cell(example)} | {_cell(message)} |\n"


def _code(text: str) -> str:
    return f"`` {text} ``" if "`" in text else f"`{text}`"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    (ROOT / "docs" / "diagnostics.md").write_text(page(), encoding="utf-8")
    (ROOT / "croq_magic" / "compiler" / "explanations.json").write_text(explanations(), encoding="utf-8")
