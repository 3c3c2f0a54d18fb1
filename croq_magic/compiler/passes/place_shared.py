"""Places the shared storage of a block: buffers that are never in use at the same time share memory.

Source: language reference, execution model, section 5 (lifetime; contents are unspecified at each new declaration
execution). Two buffers may share memory when one is used up before the other is first touched, with a barrier of the
whole block between: only statements of the block itself are looked at, so that all threads pass that barrier. Inside a
loop the same must hold from the second buffer to the first of the next iteration.
"""

from __future__ import annotations

import dataclasses

from croq_magic.compiler import integers, ir
from croq_magic.compiler.visit import walk

ALIGNMENT = 128  # bytes, of every shared buffer
SWIZZLED = 1024  # of those with a swizzled layout, whose pattern follows the address


def byte_size(buffer: ir.Buffer) -> int | None:
    """Bytes of all slots of a shared buffer, in whole rows of 128 if it is swizzled; None if symbolic."""
    count = integers.value(integers.product((*buffer.shape, *map(integers.constant, buffer.slots))))
    if count is None:
        return None
    size = max(1, count) * buffer.dtype.size
    return -(-size // ALIGNMENT) * ALIGNMENT if buffer.layout else size


@dataclasses.dataclass(frozen=True)
class _Use:
    """Positions of the first and last statement that touch a buffer."""

    buffer: ir.Buffer
    first: int
    last: int


def place_shared(root: ir.Region) -> dict[int, int]:
    """Offsets in bytes, by id, of the shared buffers of constant size in a kernel."""
    line = _Line()
    line.body(root.body, ())
    uses = [_Use(b, min(p), max(p)) for b, p in line.uses.items() if p and byte_size(b) is not None]
    placed: dict[int, int] = {}
    done: list[_Use] = []
    for use in sorted(uses, key=lambda u: -(byte_size(u.buffer) or 0)):
        size = byte_size(use.buffer) or 0
        align = SWIZZLED if use.buffer.layout else ALIGNMENT
        taken = sorted(
            (placed[id(o.buffer)], placed[id(o.buffer)] + (byte_size(o.buffer) or 0))
            for o in done
            if not line.apart(use, o)
        )
        start = 0
        for low, high in taken:
            if start + size <= low:
                break
            start = max(start, -(-high // align) * align)
        placed[id(use.buffer)] = start
        done.append(use)
    return placed


class _Line:
    """The statements of a block in program order. `uses` are the positions at which a buffer must keep its contents or
    is touched, `barriers` those of barriers that all threads of the block pass."""

    def __init__(self) -> None:
        self.count = 0
        self.uses: dict[ir.Buffer, list[int]] = {}
        self.barriers: list[tuple[int, tuple[int, ...]]] = []  # position, ids of the loops around
        self.loops: dict[int, tuple[int, int]] = {}
        self.home: dict[ir.Buffer, tuple[int, ...]] = {}  # loops around the declaration
        self.arriving: dict[ir.Buffer, None] = {}  # destinations of asynchronous copies

    def body(self, body: ir.Body, loops: tuple[int, ...]) -> None:
        for s in body:
            self.count += 1
            if isinstance(s, ir.Barrier):
                if s.scope.depth <= ir.Level.BLOCK.depth:
                    self.barriers.append((self.count, loops))
            elif isinstance(s, (ir.For, ir.While)):
                start = self.count
                self.body(s.body, (*loops, id(s)))
                self.count += 1
                self._keep(s, start, loops)
            elif isinstance(s, ir.Scope):
                self.body(s.body, loops)
            else:
                self._touch(s, loops)

    def _touch(self, s: ir.Stmt, loops: tuple[int, ...]) -> None:
        for node in walk(s):
            if isinstance(node, ir.Copy) and node.token is not None:
                self.arriving[node.dst.buffer] = None
            if isinstance(node, ir.Wait):  # until then the copies into them may be under way
                for buffer in self.arriving:
                    self.uses.setdefault(buffer, []).append(self.count)
            if isinstance(node, ir.Declare) and node.buffer.storage is ir.Storage.SHARED:
                self.home.setdefault(node.buffer, loops if node is s else ())
            if isinstance(node, ir.Buffer) and node.storage is ir.Storage.SHARED:
                found = self.uses.setdefault(node, [])
                if not (isinstance(s, ir.Declare) and s.init is None):
                    found.append(self.count)

    def _keep(self, s: ir.For | ir.While, start: int, loops: tuple[int, ...]) -> None:
        """A buffer that is declared outside a loop and used in it keeps its contents through all of it; conditions and
        bounds belong to the loop."""
        heads = tuple(getattr(s, name) for name in ("start", "stop", "condition") if hasattr(s, name))
        inside = {n for n in walk((*heads, *s.body)) if isinstance(n, ir.Buffer) and n.storage is ir.Storage.SHARED}
        self.loops[id(s)] = (start, self.count)
        for buffer in inside:
            if id(s) not in self.home.get(buffer, ()):
                self.uses.setdefault(buffer, []).extend((start, self.count))

    def apart(self, a: _Use, b: _Use) -> bool:
        """Whether two buffers may share memory."""
        first, second = (a, b) if a.last < b.first else (b, a)
        if not first.last < second.first:
            return False
        around = [i for i in self.home.get(first.buffer, ()) if i in self.home.get(second.buffer, ())]
        inner = around[-1] if around else None
        if not self._barrier(first.last, second.first, tuple(around)):
            return False
        if inner is None:
            return True
        start, end = self.loops[inner]
        return self._barrier(second.last, end, tuple(around)) or self._barrier(start, first.first, tuple(around))

    def _barrier(self, after: int, before: int, loops: tuple[int, ...]) -> bool:
        return any(after < position < before and set(where) <= set(loops) for position, where in self.barriers)
