"""Text and places in it: `Source` and `Span`.

Lines and columns are 1-based and counted as an editor shows them. A notebook cell passes `first_line=2` for the
text after its magic line, so that the numbers agree with JupyterLab's gutter. `#line N "file"` is honoured.
"""

from __future__ import annotations

import bisect
import re
from dataclasses import dataclass
from functools import cached_property

_LINE_DIRECTIVE = re.compile(r'^[ \t]*#[ \t]*line[ \t]+(\d+)(?:[ \t]+"([^"\n]*)")?[^\n]*$', re.MULTILINE)


@dataclass(frozen=True, eq=False)
class Source:
    """One text that is compiled: a notebook cell or a file.

    `name` is what messages call it ("cell", "prog.co"); `first_line` is the number of its first line.
    Two sources are equal only if they are the same object.
    """

    text: str
    name: str = "cell"
    first_line: int = 1

    @cached_property
    def line_starts(self) -> list[int]:
        """Offsets at which lines begin; the first is 0."""
        return [0, *(match.end() for match in re.finditer("\n", self.text))]

    @cached_property
    def _marks(self) -> list[tuple[int, int, str | None]]:
        """For each `#line`: index of the line after it, the number given to that line, and the file."""
        if "line" not in self.text:
            return []
        return [
            (bisect.bisect_right(self.line_starts, match.start()), int(match[1]), match[2])
            for match in _LINE_DIRECTIVE.finditer(self.text)
        ]

    def line_index(self, offset: int) -> int:
        """Index (from 0) of the line that holds `offset`."""
        return bisect.bisect_right(self.line_starts, min(max(offset, 0), len(self.text))) - 1

    def location(self, offset: int) -> tuple[str, int, int]:
        """Name, line and column (1-based) of an offset, after `#line`."""
        index = self.line_index(offset)
        column = min(max(offset, 0), len(self.text)) - self.line_starts[index] + 1
        name, line = self.name, index + self.first_line
        for start, number, file in self._marks:
            if start > index:
                break
            line = index - start + number
            name = file or name
        return name, line, column

    def line_text(self, offset: int) -> str:
        """The whole line that holds `offset`, without its newline."""
        start = self.line_starts[self.line_index(offset)]
        end = self.text.find("\n", start)
        return self.text[start : end if end >= 0 else len(self.text)].rstrip("\r")

    def span(self, start: int, end: int) -> Span:
        return Span(self, start, end)

    def whole(self) -> Span:
        return Span(self, 0, len(self.text))


@dataclass(frozen=True, slots=True)
class Span:
    """The characters `start` to `end` (exclusive) of a source."""

    source: Source
    start: int
    end: int

    @property
    def name(self) -> str:
        return self.source.location(self.start)[0]

    @property
    def line(self) -> int:
        return self.source.location(self.start)[1]

    @property
    def column(self) -> int:
        return self.source.location(self.start)[2]

    @property
    def end_line(self) -> int:
        """Line of the last character."""
        return self.source.location(max(self.start, self.end - 1))[1]

    @property
    def end_column(self) -> int:
        """Column after the last character, on `end_line`."""
        last = self.source.location(max(self.start, self.end - 1))[2]
        return last + 1 if self.end > self.start else last

    @property
    def text(self) -> str:
        return self.source.text[self.start : self.end]

    def to(self, other: Span) -> Span:
        """The smallest span that covers both; spans of another source are left out."""
        if other.source is not self.source:
            return self
        if self.start <= other.start and self.end >= other.end:
            return self
        return Span(self.source, min(self.start, other.start), max(self.end, other.end))

    __or__ = to

    def __contains__(self, other: Span) -> bool:
        return other.source is self.source and self.start <= other.start and other.end <= self.end

    def __repr__(self) -> str:
        name, line, column = self.source.location(self.start)
        return f"<{name}:{line}:{column}>"
