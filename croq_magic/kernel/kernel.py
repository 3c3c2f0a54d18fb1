"""`CroqtileKernel`: IPython's kernel plus one input transformer, a completer and an inspector."""

from __future__ import annotations

import re
from typing import Any

from ipykernel.ipkernel import IPythonKernel

from croq_magic import magic
from croq_magic._version import __version__
from croq_magic.kernel.recognise import code_only, is_closed, is_croqtile
from croq_magic.kernel.words import WORDS

_MAGIC_LINE = re.compile(r"\s*%%croqtile[^\n]*\n")
_WORD = re.compile(r"[A-Za-z_]\w*")


def to_magic(lines: list[str]) -> list[str]:
    """The input transformer: a Croqtile cell becomes a call of the cell magic, any other cell stays as it is."""
    text = "".join(lines)
    if not is_croqtile(text):
        return lines
    return [f"get_ipython().run_cell_magic('croqtile', '', {text!r})\n"]


def _tileflow_text(code: str) -> str | None:
    """The tileflow program of a cell, with or without its magic line; None for a Python cell."""
    match = _MAGIC_LINE.match(code)
    if match:
        return code[match.end() :]
    return code if is_croqtile(code) else None


class CroqtileKernel(IPythonKernel):
    """A cell with a tileflow function is compiled and run through `%%croqtile`; every other cell is Python."""

    implementation = "croqtile"
    implementation_version = __version__
    banner = f"Croqtile {__version__}: cells with a tileflow function (__co__) run as such, all others are Python."

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        magic.load(self.shell)
        self.shell.input_transformers_cleanup.insert(0, to_magic)

    def do_complete(self, code: str, cursor_pos: int | None) -> dict[str, Any]:
        text = _tileflow_text(code)
        position = len(code) if cursor_pos is None else cursor_pos
        if text is None or position < len(code) - len(text):
            return super().do_complete(code, cursor_pos)
        prefix = re.search(r"[A-Za-z_]?\w*\Z", code[:position])
        start = prefix.start() if prefix else position
        stem = code[start:position]
        own = set(_WORD.findall(code_only(text))) - {stem}
        matches = sorted(word for word in {*WORDS, *own} if word.startswith(stem) and word != stem)
        return {"matches": matches, "cursor_start": start, "cursor_end": position, "metadata": {}, "status": "ok"}

    def do_inspect(
        self, code: str, cursor_pos: int, detail_level: int = 0, omit_sections: tuple[str, ...] = ()
    ) -> dict[str, Any]:
        if _tileflow_text(code) is not None:
            word = next((m[0] for m in _WORD.finditer(code) if m.start() <= cursor_pos <= m.end()), "")
            if word in WORDS:
                return {"status": "ok", "found": True, "data": {"text/plain": WORDS[word]}, "metadata": {}}
        return super().do_inspect(code, cursor_pos, detail_level, omit_sections)

    def do_is_complete(self, code: str) -> dict[str, Any]:
        if is_croqtile(code):
            return {"status": "complete"} if is_closed(code) else {"status": "incomplete", "indent": "  "}
        return super().do_is_complete(code)
