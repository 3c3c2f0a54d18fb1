"""What the emulator finds, as sentences with the lines they are about."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from croq_magic.compiler.source import Source
from croq_magic.compiler.targets.emulate.elf import Line
from croq_magic.compiler.targets.emulate.runtime import Extents, Finding, Report

if TYPE_CHECKING:
    from croq_magic.compiler.targets.emulate.build import Library

KINDS = {
    1: "race",
    2: "outside",
    3: "uninitialised",
    4: "divergent barrier",
    5: "deadlock",
    6: "pending copy",
    7: "warp",
    8: "barrier",
    9: "alignment",
    10: "divergent barrier",
    11: "trap",
    12: "outside",
    13: "fault",
}
MEMORY = (
    "the emulator has not enough memory: for each byte that a kernel uses it keeps 16, without its checks "
    "(CROQ_EMULATE=fast) none"
)
_WAITS = {
    1: "a block barrier",
    2: "the other lanes of the warp",
    3: "an mbarrier",
    4: "the grid's barrier",
    6: "the cluster's barrier",
}
_SYMBOL = re.compile(r"(?:^_ZG?V?Z.*E|^_Z\w*?|^)L?\d+([A-Za-z_]\w*?)(?:_\d+)?E?$")


class Found(NamedTuple):
    """One finding: its kind, the sentence, the lines it is about (the later access first), how often it was met."""

    kind: str
    text: str
    lines: tuple[Line, ...]
    times: int


def describe(
    report: Report, library: Library, symbol: str, grid: Extents, block: Extents, source: Source | None
) -> list[Found]:
    """The findings of a launch as sentences. MemoryError when the emulator found no memory for its own tables."""
    described: dict[tuple[int, Line | None, Line | None, int], _Describer] = {}
    for number, finding in enumerate(report.findings[: report.count]):
        if finding.kind == 0:
            raise MemoryError(MEMORY)
        new = _Describer(finding, library, symbol, grid, block, source)
        if finding.kind == 4 and new.line is not None and new.line == new.other_line:
            continue  # a compiler may make several calls of one: threads at one line are at one barrier
        # Loops that a compiler unrolls have a place in the module for every turn.
        key = (finding.kind, new.line, new.other_line, -1 if new.line is not None else number)
        first = described.setdefault(key, new)
        if first is not new:
            first.finding.count += finding.count
    return [each.found() for each in described.values()]


class _Describer:
    def __init__(
        self, finding: Finding, library: Library, symbol: str, grid: Extents, block: Extents, source: Source | None
    ) -> None:
        self.finding, self.library, self.symbol = finding, library, symbol
        self.grid, self.block, self.source = grid, block, source
        self.line, self.other_line = library.line(finding.site), library.line(finding.other_site)

    def found(self) -> Found:
        kind = KINDS.get(self.finding.kind, "fault")
        lines = [line for line in (self.line, self.other_line) if line is not None]
        text = f"{self.symbol}: {self._sentence()}"
        shown = list(dict.fromkeys(lines))
        text = "\n".join([text, *(self._excerpt(line) for line in shown)])
        return Found(kind, text, tuple(lines), self.finding.count)

    def _sentence(self) -> str:
        f = self.finding
        if f.kind == 1:
            first = f"{self._who()} {_verb(f.access)} {self._place()}{_at(self.line)}"
            other = f"{self._who(True)} {_verb(f.other_access, True)} it{_at(self.other_line)}"
            return f"data race: {first} and {other}, with no barrier between{self._times()}"
        if f.kind == 2:
            return f"{self._who()} {_verb(f.access)} {self._beyond()}{_at(self.line)}{self._times()}"
        if f.kind == 3:
            nobody = "nobody" if f.space == 1 else "nobody in the block"
            return f"{self._who()} reads {self._place()}{_at(self.line)}, but {nobody} has written it{self._times()}"
        if f.kind == 4:
            return (
                f"divergent barrier: {self._who()} waits{_at(self.line)}, but {self._who(True)} at the barrier"
                f"{_at(self.other_line)}{self._times()}"
            )
        if f.kind == 10:
            return (
                f"divergent barrier: {_threads(f.details[0])} of block {_index(f.block, self.grid)} wait"
                f"{_at(self.line)}, but {_threads(f.details[1])} ended without coming there{self._times()}"
            )
        if f.kind == 5:
            return self._deadlock()
        if f.kind == 6:
            reads, writes = (
                "read it: wait for the copy and meet at a barrier first",
                "write it: wait for the copy first",
            )
            return (
                f"{self._who()} {_verb(f.access)} {self._place()}{_at(self.line)} while an asynchronous copy of "
                f"{self._who(True)}{_at(self.other_line)} may still {reads if f.details[0] else writes}"
                f"{self._times()}"
            )
        if f.kind == 7:
            if f.details[0] == 2:
                return (
                    f"{self._who()} asks lane {f.details[1]} of its warp{_at(self.line)}, which has ended or never was"
                    f"{self._times()}"
                )
            if f.details[0]:
                return (
                    f"lanes of one warp meet in different operations: {self._who()}{_at(self.line)}, "
                    f"{self._who(True)}{_at(self.other_line)}"
                )
            return f"{self._who()} is not in the mask 0x{f.details[1] & 0xFFFFFFFF:x} that it gives{_at(self.line)}"
        if f.kind == 8 and f.details[1]:
            return self._counts()
        if f.kind == 8:
            if f.details[0] < 0:
                return f"{self._who()} uses an mbarrier that is not initialised{_at(self.line)}"
            return f"{self._who()} uses barrier {f.details[0]}{_at(self.line)}; a block has barriers 0 to 15"
        if f.kind == 9 and f.details[2]:
            return (
                f"{self._who()} {_verb(f.access)} {f.size} bytes at once{_at(self.line)}, but the address is not a "
                f"multiple of {f.size}{self._times()}"
            )
        if f.kind == 9:
            which = "shared" if f.details[0] else "global"
            return (
                f"{self._who()} copies {f.size} bytes asynchronously{_at(self.line)}, but the {which} address is not a "
                f"multiple of {f.size}{self._times()}"
            )
        if f.kind == 12:
            return (
                f"{self._who()} uses element {f.details[0]} of an array of {f.details[1]}{_at(self.line)}"
                f"{self._times()}"
            )
        if f.kind == 13:
            return self._fault()
        return f"{self._who()} {self._stop()}{_at(self.line)}"

    def _stop(self) -> str:
        f = self.finding
        if f.size == 2:
            return f"finds `{ctypes.string_at(f.buffer).decode('utf-8', 'replace')}` false, which it asserts,"
        return {1: "calls abort", 3: "calls exit"}.get(f.size, "stops the kernel")

    def _counts(self) -> str:
        """A barrier with a number of threads or arrivals that it cannot have."""
        number, what, count, before = self.finding.details[:4]
        who, at = self._who(), _at(self.line)
        if what == 1:
            return f"{who} uses barrier {number} for {count} threads{at}, which is not a number of whole warps"
        if what == 2:
            return (
                f"{who} comes to barrier {number} as one of {count or 'all'} threads{at}, but {self._who(True)} as one "
                f"of {before or 'all'}{_at(self.other_line)}"
            )
        if what in (4, 5):
            problem = "which has fewer" if what == 4 else "which has ended"
            return f"{who} arrives at an mbarrier of block {count} of its cluster{at}, {problem}"
        return f"{who} initialises an mbarrier for {count} arrivals{at}; it takes 1 to {(1 << 20) - 1}"

    def _fault(self) -> str:
        """What the processor has refused."""
        f = self.finding
        who, at = self._who(), _at(self.line)
        verb = {0: "reads", 1: "writes"}.get(f.access, "uses")
        address = f"0x{f.buffer & (1 << 64) - 1:x}"
        if f.details[0] == 1:
            return f"{who} {verb}{' through' * (f.access >= 0)} a null pointer{at} (address {address})"
        if f.details[0] == 2:
            return f"{who} {verb} address {address}{at}, where there is no memory of the kernel's"
        if f.details[0] == 3:
            return f"{who} {verb} an address that no memory can have{at}"
        if f.details[0] == 4:
            return (
                f"{who} needs more than its {f.extent >> 10} KiB of local memory{at}: large arrays, an index far "
                "outside one, or a function that calls itself too often"
            )
        if f.details[0] == 5:
            return f"{who} divides an integer by zero, or the least one by -1{at}"
        return f"{who} comes to an instruction that stops it{at}"

    def _deadlock(self) -> str:
        f = self.finding
        waits = []
        for at in range(0, 8, 2):
            key, count = f.details[at], f.details[at + 1]
            if count:
                state, detail = key >> 28 & 15, key >> 24 & 15
                what = f"barrier {detail}" if state == 1 and detail else _WAITS.get(state, "what others write")
                waits.append(f"{_threads(count)} for {what}{_at(self.library.line(key >> 32 & 0xFFFFFFFF))}")
        ended = f"; {_threads(f.size)} have ended" if f.size else ""
        return f"deadlock in block {_index(f.block, self.grid)}: waiting are {', '.join(waits)}{ended}"

    def _who(self, other: bool = False) -> str:
        f = self.finding
        thread, block = (f.other_thread, f.other_block) if other else (f.thread, f.block)
        if other and f.kind in (4, 7, 8):
            block = f.block
        if other and block == f.block:
            return f"thread {_index(thread, self.block)}"
        return f"thread {_index(thread, self.block)} of block {_index(block, self.grid)}"

    def _place(self) -> str:
        f = self.finding
        if f.space == 2:
            variable = self._variable(f.offset)
            if variable is not None:
                return f"byte {f.offset - variable[1]} of shared `{variable[0]}`"
            return f"byte {f.offset} of shared memory"
        where = {1: "a global buffer", 3: "dynamic shared memory", 5: "the module's variables"}.get(f.space, "memory")
        return f"byte {f.offset} of {where}{f' of {f.extent} bytes' if f.space == 1 else ''}"

    def _variable(self, offset: int) -> tuple[str, int] | None:
        for variable in self.library.variables:
            if variable.offset <= offset < variable.offset + variable.size:
                return _plain(variable.symbol), variable.offset
        return None

    def _beyond(self) -> str:
        f = self.finding
        where = {1: "a global buffer", 2: "static shared memory", 3: "dynamic shared memory"}.get(f.space)
        if where is None:
            return f"{f.size} bytes outside every buffer"
        offset, extent = f.offset, f.extent
        if f.space == 2 and self.library.variables:  # the array that is nearest
            near = min(self.library.variables, key=lambda v: max(v.offset - offset, offset - v.offset - v.size, 0))
            where, offset, extent = f"shared `{_plain(near.symbol)}`", offset - near.offset, near.size
        side = f"{-offset} bytes before" if offset < 0 else f"{max(0, offset - extent)} bytes behind the end of"
        return f"{f.size} bytes {side} {where} of {extent} bytes"

    def _times(self) -> str:
        return f" ({self.finding.count} times)" if self.finding.count > 1 else ""

    def _excerpt(self, line: Line) -> str:
        text = ""
        if self.source is not None and line.file == self.source.name:
            lines = self.source.text.split("\n")
            first = self.source.location(0)[1]
            if 0 <= line.line - first < len(lines):
                text = lines[line.line - first]
        elif line.file.endswith("kernels.cu"):
            lines = self.library.text.split("\n")
            if 0 < line.line <= len(lines):
                text = lines[line.line - 1]
        return f"    {line.file}:{line.line}: {text.strip()}"


def _plain(symbol: str) -> str:
    """The name of a variable from that of its symbol."""
    match = _SYMBOL.match(symbol)
    return match[1] if match else symbol


def _at(line: Line | None) -> str:
    return f" at line {line.line}" if line is not None else ""


def _threads(count: int) -> str:
    return f"{count} thread" + "s" * (count != 1)


def _verb(access: int, past: bool = False) -> str:
    if access & 4:
        return "copies asynchronously to"
    return {0: "reads", 1: "writes", 2: "updates"}.get(access & 3, "uses")


def _index(linear: int, extents: Sequence[int]) -> str:
    x, y, z = linear % extents[0], linear // extents[0] % extents[1], linear // (extents[0] * extents[1])
    if extents[2] > 1:
        return f"({x}, {y}, {z})"
    return f"({x}, {y})" if extents[1] > 1 else f"{x}"
