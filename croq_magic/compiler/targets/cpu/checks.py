"""Run-time checks of a module: what each one tests, and the sentence a failed one makes."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple

from croq_magic.compiler.source import Source, Span
from croq_magic.compiler.targets.cpu import waits


class Operand(NamedTuple):
    """One value in a failure record: how it is called, and whether it is an integer ("i"), a float ("f") or a truth
    value ("b")."""

    name: str
    kind: str = "i"

    def text(self, word: int) -> str:
        if self.kind == "f":
            return repr(struct.unpack("d", struct.pack("q", word))[0])
        if self.kind == "b":
            return "true" if word else "false"
        return str(word)


class CheckSite(NamedTuple):
    """One check of a module.

    The values recorded are those of `instance` (indices of the regions and loops around), then of `operands`. For an
    index check operands come in pairs (index, extent), one pair per dimension in `dims`; `what` names the array. For an
    assertion `what` is its message and `code` its diagnostic code. `kind` names the places where fibers wait (see
    `waits.py`), whose records have no instance. `start` and `end` delimit the place in the source.
    """

    what: str
    code: str
    instance: tuple[str, ...]
    operands: tuple[Operand, ...]
    dims: tuple[int, ...] = ()
    start: int = -1
    end: int = -1
    kind: waits.Kind = ""

    def message(self, function: str, values: Sequence[int], source: Source | None) -> str:
        """The text of the `CheckError`: statement, what failed, instance."""
        if self.kind:
            return self.shown(function, waits.fault(self, values), source)
        count = len(self.instance)
        where = ", ".join(f"{name} = {value}" for name, value in zip(self.instance, values[:count], strict=False))
        rest = values[count:]
        at = f" (at {where})" if where else ""
        if self.dims:
            text = self._index_text(rest) + at
        else:
            pairs = zip(self.operands, rest, strict=False)
            facts = ", ".join(f"{operand.name} = {operand.text(word)}" for operand, word in pairs)
            text = self.what + (f" ({facts})" if facts else "") + at
        return self.shown(function, text, source)

    def shown(self, function: str, text: str, source: Source | None) -> str:
        """A sentence about this place, with the place."""
        head = f"{function}: {text}" + (f" [{self.code}]" if self.code else "")
        if source is None or self.start < 0:
            return head
        from croq_magic.compiler.diagnostics import excerpt

        span = Span(source, self.start, self.end)
        return "\n".join([f"{span.name}:{span.line}:{span.column}: {head}", *excerpt(span)])

    def _index_text(self, words: Sequence[int]) -> str:
        for position, dim in enumerate(self.dims):
            pair = words[2 * position : 2 * position + 2]
            if len(pair) == 2 and not 0 <= pair[0] < pair[1]:
                return (
                    f"index {pair[0]} is out of range for dimension {dim} of `{self.what}`, which has extent {pair[1]}"
                )
        return f"an index is out of range for `{self.what}`"
