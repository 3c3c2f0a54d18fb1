"""Sizes of buffers."""

from __future__ import annotations

from croq_magic.compiler import integers, ir


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
