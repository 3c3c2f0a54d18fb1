"""What the cells of one notebook define."""

from __future__ import annotations

import dataclasses
import re

from croq_magic.errors import CompileError

ABOUT_NAMES = ("NAM", "CAL", "CXX")  # diagnostics that an unknown name can cause


class CellIndex:
    """Which cell last defined which function or macro, so that an unknown name can be explained."""

    def __init__(self) -> None:
        self._places: dict[str, int] = {}

    def learn(self, text: str, cell: int) -> set[str]:
        """Records the names that a cell defines, and returns them."""
        names = set(re.findall(r"^[ \t]*#[ \t]*define[ \t]+(\w+)", text, re.MULTILINE))
        names |= set(re.findall(r"\b__(?:co|device|global)__\b[^;{}()]*?(\w+)[ \t\n]*\(", text))
        self._places.update(dict.fromkeys(names, cell))
        return names

    def explain(self, error: CompileError, own: set[str]) -> CompileError:
        """The same error with a note where a name that the cell does not know stands in another one."""
        from croq_magic.compiler.diagnostics import Note

        explained = []
        for diagnostic in error.diagnostics:
            words = [*re.findall(r"[`'‘](\w+)", diagnostic.message), diagnostic.span.text.strip()]
            word = next((w for w in words if w in self._places and w not in own), None)
            if word is not None and diagnostic.code.startswith(ABOUT_NAMES):
                note = Note(f"`{word}` is defined in cell In[{self._places[word]}]; each cell is compiled on its own")
                diagnostic = dataclasses.replace(diagnostic, notes=(*diagnostic.notes, note))
            explained.append(diagnostic)
        return CompileError(explained)
