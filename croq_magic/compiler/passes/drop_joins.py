"""Takes away barriers behind which no thread touches what another one touched before.

`insert-joins` thinks in statements: it puts a barrier where one touches what an earlier one wrote. Here, at the end of
all passes, it is known which thread performs what. A barrier is needed only if two different threads may touch the same
element, one of them writing, the one before it and the other behind it, with no other barrier between:

    shared s: s32 [64]                                shared s: s32 [64]
    region thread [t < 64] {                          region thread [t < 64] {
      if t < 32 { s[t] = x[t] }                         if t < 32 { s[t] = x[t] }
      barrier block                             =>      if t >= 32 { s[t] = -x[t] }
      if t >= 32 { s[t] = -x[t] }                       barrier block
      barrier block                                     r[t] = s[63 - t]
      r[t] = s[63 - t]                                }
    }

Inner loops come first. A barrier at the end of a loop that only what follows the loop needs moves behind it. What the
program wrote itself stays, and so does every barrier of which anything is uncertain: events, calls with pointers and
text of the cell count as if they touched everything.
"""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from croq_magic.compiler import ir
from croq_magic.compiler.passes.accesses import written_buffers
from croq_magic.compiler.passes.base import Context
from croq_magic.compiler.passes.dependences import Dependences
from croq_magic.compiler.passes.owner_tables import Tables
from croq_magic.compiler.passes.place_shared import byte_size, place_shared
from croq_magic.compiler.passes.reaching import ALL, Node, Paths
from croq_magic.compiler.passes.structure import map_kernels
from croq_magic.compiler.passes.touches import Toucher
from croq_magic.compiler.targets.emit_cxx import Unsupported
from croq_magic.compiler.targets.simt.threads import grid_chain, threads_of
from croq_magic.compiler.visit import rewrite, walk

SMALL = 8 * 1024  # bytes of shared memory that leave room for as many blocks as a processor runs


@dataclasses.dataclass(frozen=True)
class DropJoins:
    """Stands behind all passes that change who performs a statement."""

    name: ClassVar[str] = "drop-joins"

    def __call__(self, function: ir.Function, context: Context) -> ir.Function:
        return map_kernels(function, _kernel)


def _kernel(root: ir.Region) -> ir.Region:
    nodes = list(walk(root.body))
    if not any(isinstance(n, ir.Barrier) and n.reason for n in nodes) or any(isinstance(n, ir.Fragment) for n in nodes):
        return root
    try:
        block = grid_chain(root)[-1]
    except Unsupported:
        return root
    threads = threads_of(block)
    if threads.count is None or threads.count == 1:
        return root
    paths = Paths(block, Toucher(block, threads), _written(nodes))
    new = _Dropping(paths).block()
    return root if new is block else rewrite(root, lambda node: new if node is block else None)


def _inserted(s: ir.Barrier) -> bool:
    """Whether a pass put a barrier there for the threads of one block; other blocks are not looked at."""
    return bool(s.reason) and s.scope.depth >= ir.Level.BLOCK.depth


def _written(nodes: list[ir.Node]) -> set[ir.Buffer]:
    """Buffers that a kernel may write, or whose declaration does."""
    return written_buffers(nodes) | {
        n.buffer for n in nodes if isinstance(n, ir.Declare) and (n.buffer.zeroed or n.init is not None)
    }


class _Dropping:
    def __init__(self, paths: Paths) -> None:
        self.paths = paths
        self.tables = Tables(paths.toucher.scalars)
        self.added: dict[Node, Node] = {}  # by the barrier that moved: the one behind the loop

    def block(self) -> ir.Region:
        """The block without the barriers that nothing needs."""
        block = self.paths.root.s
        assert isinstance(block, ir.Region)
        barriers = [n for n in self.paths.nodes() if isinstance(n.s, ir.Barrier) and _inserted(n.s)]
        barriers.sort(key=lambda n: (-len(n.site.loops), n.s.scope.depth if isinstance(n.s, ir.Barrier) else 0))
        for node in barriers:
            if not self.needed(node):
                self.paths.gone.add(node)
            else:
                self.sink(node)
        if not self.paths.gone:
            return block
        before, new = _bytes(block), self.rebuilt()
        for node in [n for n in reversed(barriers) if n in self.paths.gone and n not in self.added]:
            if _bytes(new) <= max(SMALL, before):
                break
            self.paths.gone.discard(node)  # storage is used again behind it
            new = self.rebuilt()
        return new if self.paths.gone else block

    def needed(self, node: Node) -> bool:
        """Whether different threads touch the same before and behind a barrier."""
        before = self.paths.reach(node, False)
        after = self.paths.reach(node, True) if before else []
        return Dependences(self.tables, node.site.loops).any(before, after)

    def sink(self, node: Node) -> None:
        """Puts a barrier behind its loop if that is enough."""
        loop = node.around
        if loop is None or loop.around is None or not isinstance(loop.s, ir.For) or loop.bodies[0][-1] is not node:
            return
        if node.kept != ALL or not loop.site.whole:
            return
        body = next(b for b in loop.around.bodies if loop in b)
        moved = Node(node.s, loop.site, loop.around, kept=ALL)
        body.insert(body.index(loop) + 1, moved)
        if self.needed(node):
            body.remove(moved)
        else:
            self.paths.gone.add(node)
            self.added[node] = moved

    def rebuilt(self) -> ir.Region:
        found = self._statement(self.paths.root)
        assert isinstance(found, ir.Region)
        return found

    def _statement(self, node: Node) -> ir.Stmt:
        if not node.bodies:
            return node.s
        new = [tuple(self._statement(n) for n in body if n not in self.paths.gone) for body in node.bodies]
        names = ("then", "other") if isinstance(node.s, ir.If) else ("body",)
        changed = {
            name: body
            for name, body in zip(names, new, strict=True)
            if len(body) != len(old := getattr(node.s, name)) or any(a is not b for a, b in zip(body, old, strict=True))
        }
        return dataclasses.replace(node.s, **changed) if changed else node.s  # type: ignore[type-var]


def _bytes(block: ir.Region) -> int:
    """The shared memory of a block, as far as its size is known."""
    placed = place_shared(block)
    buffers = {n for n in walk(block) if isinstance(n, ir.Buffer) and id(n) in placed}
    return max((placed[id(b)] + (byte_size(b) or 0) for b in buffers), default=0)
