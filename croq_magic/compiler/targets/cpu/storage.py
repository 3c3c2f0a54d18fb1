"""Sizes and places of buffers."""

from __future__ import annotations

from croq_magic.compiler import integers, ir
from croq_magic.compiler.passes.structure import nested


def byte_size(buffer: ir.Buffer) -> int | None:
    """Bytes of all slots of a buffer, None when an extent is not constant."""
    total = buffer.dtype.size
    for extent in buffer.shape:
        value = integers.value(extent)
        if value is None:
            return None
        total *= value
    for slots in buffer.slots:
        total *= slots
    return total


def is_shared(buffer: ir.Buffer) -> bool:
    """One a block, wherever it is declared."""
    return buffer.storage is ir.Storage.SHARED


def shared_buffers(body: ir.Body) -> list[ir.Buffer]:
    """Shared storage of one instance; blocks below it have theirs."""
    found: list[ir.Buffer] = []
    for s in nested(body):
        if isinstance(s, ir.Declare) and is_shared(s.buffer):
            found.append(s.buffer)
        elif isinstance(s, ir.Region) and s.level is not ir.Level.BLOCK:
            found += shared_buffers(s.body)
    return found
