"""What an ELF file says of itself: which line of the source an instruction comes from, and its thread-local variables.

Read here, not by `addr2line`, since a machine with zig alone has no such program. Other formats give nothing: findings
then have no lines.
"""

from __future__ import annotations

import bisect
import struct
from collections.abc import Iterator
from typing import NamedTuple


class Line(NamedTuple):
    """A place in a source text."""

    file: str
    line: int


class Variable(NamedTuple):
    """A thread-local variable: where it lies in the thread's block, its size in bytes, and its symbol."""

    offset: int
    size: int
    symbol: str


class Elf:
    """A 64-bit little-endian ELF file, given as bytes."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.sections: dict[str, tuple[int, int, int]] = {}  # name -> offset, size, number
        self.tls_size = 0
        if data[:6] != b"\x7fELF\x02\x01":
            return
        programs, sections = struct.unpack_from("<QQ", data, 32)
        program_size, program_count, section_size, section_count, names = struct.unpack_from("<5H", data, 54)
        for i in range(program_count):
            kind, _, _, _, _, _, memory, _ = struct.unpack_from("<2I6Q", data, programs + i * program_size)
            if kind == 7:  # PT_TLS
                self.tls_size = memory
        if not section_count:
            return
        headers = [struct.unpack_from("<2I4Q", data, sections + i * section_size) for i in range(section_count)]
        start = headers[names][4]
        for number, header in enumerate(headers):
            self.sections[self._text(start + header[0])] = (header[4], header[5], number)

    def _text(self, at: int) -> str:
        return self.data[at : self.data.index(b"\0", at)].decode("utf-8", "replace")

    def variables(self) -> list[Variable]:
        """All thread-local variables, in the order of their places."""
        if ".symtab" not in self.sections or ".strtab" not in self.sections:
            return []
        at, size, _ = self.sections[".symtab"]
        names = self.sections[".strtab"][0]
        found = []
        for entry in range(at, at + size, 24):
            name, info, _, _, value, length = struct.unpack_from("<IBBHQQ", self.data, entry)
            if info & 15 == 6 and name:  # STT_TLS
                found.append(Variable(value, length, self._text(names + name)))
        return sorted(found)


class Lines:
    """The line table of a file (DWARF version 4): `at` gives the place in the source of an address."""

    def __init__(self, elf: Elf) -> None:
        rows: list[tuple[int, str, int, bool]] = []
        if ".debug_line" in elf.sections:
            at, size, _ = elf.sections[".debug_line"]
            try:
                for row in _programs(elf.data, at, at + size):
                    rows.append(row)
            except (IndexError, struct.error, ValueError):
                rows = []
        rows.sort(key=lambda row: row[0])
        self.rows = rows
        self.addresses = [row[0] for row in rows]

    def at(self, address: int) -> Line | None:
        """The line of the call that returns to `address`. For a function of a prelude that stands inline, the nearest
        line before that belongs to the text."""
        last = bisect.bisect_left(self.addresses, address) - 1
        first: Line | None = None
        for index in range(last, max(-1, last - 400), -1):
            _, file, line, ended = self.rows[index]
            if ended:
                break
            if line == 0:
                continue
            first = first or Line(file, line)
            if not file.rsplit("/", 1)[-1].startswith("croq_"):
                return Line(file, line)
        return first


def _leb(data: bytes, at: int, signed: bool = False) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        shift += 7
        if not byte & 128:
            break
    if signed and byte & 64:
        value -= 1 << shift
    return value, at


def _string(data: bytes, at: int) -> tuple[str, int]:
    end = data.index(b"\0", at)
    return data[at:end].decode("utf-8", "replace"), end + 1


def _programs(data: bytes, at: int, end: int) -> Iterator[tuple[int, str, int, bool]]:
    """Rows (address, file, line, whether a sequence ends there) of all line programs in a section."""
    while at < end:
        length, version, header = struct.unpack_from("<IHI", data, at)
        stop = at + 4 + length
        if version in (2, 3, 4):
            yield from _program(data, at + 10, at + 10 + header, stop, version)
        at = stop


def _program(data: bytes, at: int, begin: int, stop: int, version: int) -> Iterator[tuple[int, str, int, bool]]:
    least = data[at]
    at += 2 if version >= 4 else 1  # operations per instruction are only for other machines
    base, span, opcodes = struct.unpack_from("<xbBB", data, at)
    lengths = data[at + 4 : at + 3 + opcodes]
    at += 3 + opcodes
    while data[at]:
        _, at = _string(data, at)
    at += 1
    files = [""]
    while data[at]:
        name, at = _string(data, at)
        for _ in range(3):
            _, at = _leb(data, at)
        files.append(name)
    at = begin
    address, file, line = 0, 1, 1
    while at < stop:
        code = data[at]
        at += 1
        if code >= opcodes:
            address += (code - opcodes) // span * least
            line += base + (code - opcodes) % span
            yield address, files[file], line, False
        elif code == 0:
            size, at = _leb(data, at)
            kind = data[at]
            if kind == 1:
                yield address, files[file], line, True
                address, file, line = 0, 1, 1
            elif kind == 2:
                (address,) = struct.unpack_from("<Q", data, at + 1)
            elif kind == 3:
                files.append(_string(data, at + 1)[0])
            at += size
        elif code == 1:
            yield address, files[file], line, False
        elif code == 2:
            step, at = _leb(data, at)
            address += step * least
        elif code == 3:
            step, at = _leb(data, at, True)
            line += step
        elif code == 4:
            file, at = _leb(data, at)
        elif code == 8:
            address += (255 - opcodes) // span * least
        elif code == 9:
            address += struct.unpack_from("<H", data, at)[0]
            at += 2
        else:
            for _ in range(lengths[code - 1]):
                _, at = _leb(data, at)
