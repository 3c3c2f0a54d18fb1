"""Where the storage of a kernel lies: memory of the block, and what each thread keeps for itself."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

from croq_magic.compiler import integers, ir
from croq_magic.compiler.passes.place_shared import ALIGNMENT, SWIZZLED, byte_size
from croq_magic.compiler.visit import walk

__all__ = ["ALIGNMENT", "SWIZZLED", "SharedLayout", "element_count", "register_dims", "shared_layout"]


ALIGNED_RESULT = 16  # bytes of a result that one thread hands to the others of its unit
_UNITS = 32  # groups of a block at most


@dataclasses.dataclass(frozen=True)
class SharedLayout:
    """Byte offsets of buffers (by id) in the block's memory, and its size. Without `arena` every buffer is an array of
    its own and nothing is reused; otherwise all lie in one array, of constant size unless `dynamic`."""

    buffers: tuple[ir.Buffer, ...]
    offsets: dict[int, ir.Expr]
    total: ir.Expr
    arena: bool
    dynamic: bool


def shared_layout(root: ir.Region, placed: dict[int, int], static_bytes: int) -> SharedLayout:
    """The layout of all shared buffers of a kernel. `placed` holds constant offsets that a pass found."""
    buffers = list(
        dict.fromkeys(
            n.buffer for n in walk(root) if isinstance(n, ir.Declare) and n.buffer.storage is ir.Storage.SHARED
        )
    )
    offsets: dict[int, ir.Expr] = {}
    total: ir.Expr = integers.ZERO
    symbolic = [b for b in buffers if byte_size(b) is None]
    known = [b for b in buffers if byte_size(b) is not None]
    end = 0
    reused = all(id(b) in placed for b in known) and bool(known)
    for buffer in known:
        size = byte_size(buffer) or 0
        start = placed[id(buffer)] if reused else -(-end // alignment_of(buffer)) * alignment_of(buffer)
        offsets[id(buffer)] = integers.constant(start)
        end = max(end, start + size)
    separate = sum(byte_size(b) or 0 for b in known)
    total = integers.constant(-(-end // ALIGNMENT) * ALIGNMENT if symbolic else end)
    for buffer in symbolic:
        align = integers.constant(alignment_of(buffer))
        offsets[id(buffer)] = total
        size_expr = integers.product((*buffer.shape, *map(integers.constant, (*buffer.slots, buffer.dtype.size))))
        total = integers.add(total, integers.mul(integers.ceildiv(size_expr, align), align))
    dynamic = bool(symbolic) or end + _beside(root) > static_bytes
    arena = dynamic or (reused and end < separate)
    return SharedLayout(tuple(buffers), offsets, total, arena, dynamic)


def _beside(root: ir.Region) -> int:
    """The most bytes of the block's memory that a kernel takes for itself: its events, and results that one thread
    hands to the others."""
    nodes = list(walk(root))
    events = sum(
        event_bytes(node.event) * (_UNITS if node.event.storage is ir.Storage.LOCAL else 1)
        for node in nodes
        if isinstance(node, ir.DeclareEvent) and node.event.storage is not ir.Storage.GLOBAL
    )
    return events + sum(_UNITS * ALIGNED_RESULT for node in nodes if isinstance(node, ir.Atomic))


def event_bytes(event: ir.Event) -> int:
    """Bytes of an event that is in the block's memory."""
    return 8 * math.prod(event.slots)


def alignment_of(buffer: ir.Buffer) -> int:
    return SWIZZLED if buffer.layout else ALIGNMENT


def element_count(buffer: ir.Buffer, skipped: int = 0) -> int | None:
    """Elements of all slots, without the first `skipped` dimensions; None if symbolic."""
    return integers.value(integers.product((*buffer.shape[skipped:], *map(integers.constant, buffer.slots))))


def register_dims(root: ir.Region) -> dict[int, int]:
    """Of every `REGISTER` buffer (by id) how many leading dimensions belong to the threads: those that are indexed by
    the indices of regions."""
    found: dict[int, int] = {}
    for node in walk(root):
        if isinstance(node, (ir.Load, ir.Store)) and node.view.buffer.storage is ir.Storage.REGISTER:
            found.setdefault(id(node.view.buffer), _leading(node.index))
    return found


def _leading(index: Sequence[ir.Expr]) -> int:
    count = 0
    for e in index:
        if not (isinstance(e, ir.Var) and e.role is ir.Role.REGION):
            break
        count += 1
    return count
