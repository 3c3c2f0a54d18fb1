"""What the compiler has to say: `Diagnostic` values, how one is shown, and the `Report` that collects them."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum

from croq_magic.compiler.codes import CODES, Code
from croq_magic.compiler.source import Span
from croq_magic.errors import CompileError

__all__ = ["CODES", "MAX_ERRORS", "Code", "Diagnostic", "Note", "Report", "Severity", "excerpt", "show", "underline"]

MAX_ERRORS = 20


class Severity(StrEnum):
    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


@dataclass(frozen=True, slots=True)
class Note:
    """A second fact that belongs to a diagnostic, with the place it comes from if there is one."""

    message: str
    span: Span | None = None


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One finding. `severity` is "error", "warning" or "note"; `code` is in `CODES`; `str()` is the full text."""

    severity: str
    code: str
    message: str
    span: Span
    notes: tuple[Note, ...] = ()
    hint: str | None = None

    def __str__(self) -> str:
        return show(self)


def show(diagnostic: Diagnostic) -> str:
    """`name:line:column: error: text [CODE]`, the source line, a caret, then notes and the hint."""
    lines = [_head(diagnostic.span, diagnostic.severity, f"{diagnostic.message} [{diagnostic.code}]")]
    lines += excerpt(diagnostic.span)
    for note in diagnostic.notes:
        if note.span is None:
            lines.append(f"note: {note.message}")
        else:
            lines.append(_head(note.span, "note", note.message))
            lines += excerpt(note.span)
    if diagnostic.hint:
        lines.append(f"hint: {diagnostic.hint}")
    return "\n".join(lines)


def _head(span: Span, kind: str, text: str) -> str:
    name, line, column = span.source.location(span.start)
    return f"{name}:{line}:{column}: {kind}: {text}"


def excerpt(span: Span) -> list[str]:
    """The first source line of a span and a line that marks the span in it."""
    line = span.source.line_text(span.start)
    if not line.strip():
        return []
    start = span.start - span.source.line_starts[span.source.line_index(span.start)]
    return [f"    {line}", "    " + underline(line, start, start + span.end - span.start)]


def underline(line: str, start: int, end: int) -> str:
    """Blanks up to `start`, then `^~~~` up to `end`; tabs are kept and wide characters count double."""
    blanks = "".join("\t" if char == "\t" else " " * _width(char) for char in line[:start])
    marked = sum(_width(char) for char in line[start : max(start + 1, end)].rstrip())
    return blanks + "^" + "~" * (marked - 1)


def _width(char: str) -> int:
    if unicodedata.combining(char):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


class Report:
    """Collects the findings of all stages about one program.

    Identical findings are kept once. `sorted()` gives them in the order of the text.
    """

    def __init__(self) -> None:
        self._found: dict[tuple[str, str, str, int, int, int], Diagnostic] = {}
        self._expansions: dict[Span, tuple[str, Span]] = {}

    def expanded(self, use: Span, macro: str, definition: Span) -> None:
        """Records the use of a macro: a finding at this place gets a note that points to the definition."""
        self._expansions[use] = (macro, definition)

    def share_expansions(self, other: Report) -> None:
        """Knows the uses of macros that `other` knows."""
        self._expansions = other._expansions

    def add(self, diagnostic: Diagnostic) -> None:
        span = diagnostic.span
        if span in self._expansions:
            macro, definition = self._expansions[span]
            note = Note(f"in expansion of macro `{macro}`", definition)
            if note not in diagnostic.notes:
                diagnostic = replace(diagnostic, notes=(*diagnostic.notes, note))
        key = (diagnostic.severity, diagnostic.code, diagnostic.message, id(span.source), span.start, span.end)
        self._found.setdefault(key, diagnostic)

    def extend(self, diagnostics: Iterable[Diagnostic]) -> None:
        for diagnostic in diagnostics:
            self.add(diagnostic)

    def report(
        self,
        code: str,
        message: str,
        span: Span,
        *,
        hint: str | None = None,
        notes: Iterable[Note] = (),
        severity: str | None = None,
    ) -> None:
        """Adds a finding with the severity of its code, unless another one is given."""
        self.add(Diagnostic(severity or CODES[code].severity, code, message, span, tuple(notes), hint))

    def error(
        self, code: str, message: str, span: Span, *, hint: str | None = None, notes: Iterable[Note] = ()
    ) -> None:
        self.report(code, message, span, hint=hint, notes=notes, severity=Severity.ERROR.value)

    def warning(
        self, code: str, message: str, span: Span, *, hint: str | None = None, notes: Iterable[Note] = ()
    ) -> None:
        self.report(code, message, span, hint=hint, notes=notes, severity=Severity.WARNING.value)

    def note(self, code: str, message: str, span: Span, *, hint: str | None = None, notes: Iterable[Note] = ()) -> None:
        self.report(code, message, span, hint=hint, notes=notes, severity=Severity.NOTE.value)

    @property
    def has_errors(self) -> bool:
        return any(found.severity == "error" for found in self._found.values())

    @property
    def errors(self) -> list[Diagnostic]:
        return [found for found in self.sorted() if found.severity == "error"]

    @property
    def warnings(self) -> list[Diagnostic]:
        return [found for found in self.sorted() if found.severity == "warning"]

    def __len__(self) -> int:
        return len(self._found)

    def __iter__(self) -> Iterator[Diagnostic]:
        return iter(self.sorted())

    def sorted(self) -> list[Diagnostic]:
        """All findings in the order of the text, errors before warnings at one place."""
        ranks = {"error": 0, "warning": 1, "note": 2}
        return sorted(
            self._found.values(),
            key=lambda found: (found.span.start, ranks[found.severity], found.code, found.span.end),
        )

    def as_errors(self) -> Report:
        """A copy in which warnings count as errors (`-Werror`)."""
        copy = Report()
        copy.extend(
            replace(found, severity="error") if found.severity == "warning" else found for found in self._found.values()
        )
        return copy

    def text(self, limit: int = MAX_ERRORS) -> str:
        """All findings as text; after `limit` errors one line with the total."""
        parts: list[str] = []
        errors = 0
        for found in self.sorted():
            errors += found.severity == "error"
            if found.severity == "error" and errors > limit:
                continue
            parts.append(show(found))
        if errors > limit:
            parts.append(f"{errors} errors, the first {limit} are shown")
        return "\n\n".join(parts)

    def raise_errors(self) -> None:
        """Raises `CompileError` if there is an error."""
        if self.has_errors:
            raise CompileError(self.sorted(), self.text())
