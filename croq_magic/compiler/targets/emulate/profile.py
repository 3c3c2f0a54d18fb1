"""What a run cost a GPU's memory, counted by the emulator, as a table."""

from __future__ import annotations

import html
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from croq_magic.compiler.targets.emulate.runtime import Report

if TYPE_CHECKING:
    from croq_magic.compiler.targets.emulate.build import Library

MEMORIES = ("global", "shared")
ACCESSES = ("read", "write", "update")  # an update is an atomic operation
_HEAD = ("kernel", "file", "line", "memory", "access", "requests", "bytes", "parts a request", "at least")
_LEFT = (0, 1, 3, 4)  # columns of words
_LEGEND = (
    "A request is one instruction of a warp. Its parts are sectors of 32 bytes in global memory and passes over the "
    "banks in shared memory; bold where fewer would do for the same bytes."
)


class Row(NamedTuple):
    """The accesses of one line, to one memory, in one direction, over all blocks.

    `requests` are instructions of warps, `bytes` what their threads asked for. For "global" memory `parts` are sectors
    of 32 bytes, for "shared" memory passes over the banks; `least` is how few would do for the same bytes.
    """

    kernel: str
    file: str
    line: int
    memory: str
    access: str
    requests: int
    accesses: int
    bytes: int
    parts: int
    least: int

    @property
    def parts_per_request(self) -> float:
        """Sectors (global) or passes (shared) that one request of a warp takes on average."""
        return self.parts / self.requests if self.requests else 0.0

    @property
    def least_per_request(self) -> float:
        """How few would do: 4 sectors for 32 neighbouring 4-byte elements, 1 pass without bank conflicts."""
        return self.least / self.requests if self.requests else 0.0


class Profile:
    """The rows of a run, by kernel and line; `str()` is the table."""

    def __init__(self, table: Sequence[Row]) -> None:
        self.rows = list(table)

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> Row:
        return self.rows[index]

    def total(self, memory: str, access: str | None = None) -> int:
        """Bytes that threads asked for in "global" or "shared" memory, of one access ("read", "write", "update") or
        of all. ValueError for another word."""
        for what, word, known in (("memory", memory, MEMORIES), ("access", access, ACCESSES)):
            if word is not None and word not in known:
                raise ValueError(f"there is no {what} {word!r} in a profile; known are {', '.join(known)}")
        return sum(row.bytes for row in self.rows if row.memory == memory and access in (None, row.access))

    @property
    def text(self) -> str:
        cells = [_HEAD, *(_cells(row) for row in self.rows)]
        widths = [max(len(line[i]) for line in cells) for i in range(len(_HEAD))]
        lines = [
            "  ".join(
                cell.ljust(w) if i in _LEFT else cell.rjust(w)
                for i, (cell, w) in enumerate(zip(line, widths, strict=True))
            )
            for line in cells
        ]
        return "\n".join(line.rstrip() for line in [*lines, *self._totals()])

    def _totals(self) -> list[str]:
        lines = []
        for memory in MEMORIES:
            read, written = self.total(memory, "read"), self.total(memory, "write") + self.total(memory, "update")
            lines.append(f"{memory}: {read:,} bytes read, {written:,} written")
        return lines

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        """For notebooks: a table that takes its colours from the page."""
        head = "".join(_html("th", i, name) for i, name in enumerate(_HEAD))
        rows = [f"<thead><tr>{head}</tr></thead>"]
        for row in self.rows:
            more = row.parts > row.least
            rows.append(
                "<tr>" + "".join(_html("td", i, cell, more and i >= 7) for i, cell in enumerate(_cells(row))) + "</tr>"
            )
        below = "<br>".join(html.escape(line) for line in (*self._totals(), _LEGEND))
        return f"<table>{''.join(rows)}</table><div>{below}</div>"


def _cells(row: Row) -> tuple[str, ...]:
    name = row.file.rsplit("/", 1)[-1]
    numbers = (f"{row.requests:,}", f"{row.bytes:,}", f"{row.parts_per_request:.2f}", f"{row.least_per_request:.2f}")
    return (row.kernel, name, str(row.line), row.memory, row.access, *numbers)


def _html(tag: str, column: int, text: str, bold: bool = False) -> str:
    text = html.escape(text)
    side = "left" if column in _LEFT else "right"
    return f'<{tag} style="text-align: {side}">{f"<b>{text}</b>" if bold else text}</{tag}>'


def rows(report: Report, library: Library, kernel: str) -> list[Row]:
    """The counts of one launch, those of one line together."""
    table: dict[tuple[str, int, str, str], list[int]] = {}
    for i in range(report.places):
        counts = report.counts[i]
        place = library.line(counts.site)
        file, line = (place.file, place.line) if place is not None else ("", 0)
        memory = "shared" if counts.space == 2 else "global"
        access = {0: "read", 1: "write", 2: "update", 3: "update"}[counts.access & 3]
        into = table.setdefault((file, line, memory, access), [0] * 5)
        for at, value in enumerate((counts.requests, counts.accesses, counts.bytes, counts.parts, counts.least)):
            into[at] += value
    return [Row(kernel, *key, *numbers) for key, numbers in sorted(table.items())]


def merged(tables: Sequence[Sequence[Row]]) -> Profile:
    """The rows of several launches, those of the same kernel and line added up."""
    total: dict[tuple[str, str, int, str, str], list[int]] = {}
    for table in tables:
        for row in table:
            into = total.setdefault((row.kernel, row.file, row.line, row.memory, row.access), [0] * 5)
            for at, value in enumerate((row.requests, row.accesses, row.bytes, row.parts, row.least)):
                into[at] += value
    return Profile([Row(*key, *numbers) for key, numbers in total.items()])
