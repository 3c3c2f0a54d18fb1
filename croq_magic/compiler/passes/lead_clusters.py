"""What a cluster does itself is done by its first block, and the others wait.

A kernel is a grid of blocks: nothing runs between the level of clusters and that of blocks. So statements there move
into the block. Those with effects are done where the block's indices are zero, scalars are computed by every block, and
all blocks of the cluster meet where the order counts.

    region cluster [c < 3] {                  region cluster [c < 3] {
      a[c] = x[c]                               region block [b < 4] {
      region block [b < 4] {                      if b == 0 { a[c] = x[c] }
        y[c, b] = a[c]                   =>       barrier cluster
      }                                           y[c, b] = a[c]
      z[c] = y[c, 3]                              barrier cluster
    }                                             if b == 0 { z[c] = y[c, 3] }
                                                }
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import ClassVar

from croq_magic.compiler import integers, ir
from croq_magic.compiler.passes.accesses import Mode, of_statement
from croq_magic.compiler.passes.base import Context
from croq_magic.compiler.passes.insert_joins import InsertJoins
from croq_magic.compiler.passes.structure import bodies, inner_regions, map_kernels, nested, with_bodies
from croq_magic.compiler.types import BOOL
from croq_magic.compiler.visit import rewrite, substitute, walk

Level = ir.Level
_OWN = (ir.Storage.LOCAL, ir.Storage.REGISTER)


@dataclasses.dataclass(frozen=True)
class LeadClusters:
    """After it a region of clusters has one region of blocks in it, and nothing else. UNS01 where a target without a
    barrier of the cluster, or of clusters of more than `most` blocks, would need one, and for results of effects."""

    name: ClassVar[str] = "lead-clusters"
    most: int = 8

    def __call__(self, function: ir.Function, context: Context) -> ir.Function:
        changed = False

        def kernel(root: ir.Region) -> ir.Region:
            nonlocal changed
            if root.level is Level.DEVICE and len(root.body) == 1 and isinstance(root.body[0], ir.Region):
                inner = kernel(root.body[0])
                return root if inner is root.body[0] else dataclasses.replace(root, body=(inner,))
            if root.level is not Level.CLUSTER or (len(root.body) == 1 and isinstance(root.body[0], ir.Region)):
                return root
            changed = True
            return _Leading(root, context, self.most).region()

        function = map_kernels(function, kernel)
        if not changed:
            return function
        body: ir.Body = rewrite(function.body, lambda node: () if _inserted(node) else None)
        return InsertJoins()(dataclasses.replace(function, body=body), context)


def _inserted(node: ir.Node) -> bool:
    return isinstance(node, ir.Barrier) and bool(node.reason)


class _Leading:
    def __init__(self, root: ir.Region, context: Context, most: int) -> None:
        self.root, self.context, self.most = root, context, most
        self.blocks = inner_regions(root.body)
        self.used = False  # whether blocks have to meet

    def region(self) -> ir.Region:
        first = self.blocks[0] if self.blocks else None
        if first is None or not all(self._alike(first, other) for other in self.blocks):
            self._refuse("different blocks in one cluster are", self.root.body)
            return dataclasses.replace(self.root, body=self.root.body[:1])
        body = self._body(self.root.body, first)
        size = integers.value(integers.product(first.extents))
        if self.used and not self.context.limits.clusters:
            self._refuse("statements of a cluster whose blocks would have to wait for each other are", self.root.body)
        elif self.used and (size is None or size > self.most):
            self._refuse(
                f"statements of a cluster of more than {self.most} blocks, or of any number, are", self.root.body
            )
        while body and _meets(body[-1]):
            body = body[:-1]
        return dataclasses.replace(self.root, body=(dataclasses.replace(first, body=body),))

    @staticmethod
    def _alike(a: ir.Region, b: ir.Region) -> bool:
        same = len(a.extents) == len(b.extents) and all(map(integers.equal, a.extents, b.extents))
        return same and a.level is b.level is Level.BLOCK and a.attributes == b.attributes

    def _body(self, body: ir.Body, block: ir.Region, looked: bool = False) -> ir.Body:
        """`looked`: blocks may have read, since they met, what effects change."""
        out: list[ir.Stmt] = []
        effects: list[ir.Stmt] = []

        def flush() -> None:
            if effects:
                since = next((i for i in reversed(range(len(out))) if _meets(out[i])), -1) + 1
                if (looked and not since) or _reads(out[since:], effects):
                    out.append(self._meeting())
                first = _all(ir.Binary("==", var, integers.ZERO, BOOL) for var in block.indices)
                out.append(ir.If(first, tuple(effects), (), span=effects[0].span))
                effects.clear()
                out.append(self._meeting())

        for s in body:
            if isinstance(s, ir.Barrier) and s.reason:
                continue
            if isinstance(s, ir.Region):
                flush()
                names: dict[ir.Var, ir.Expr] = dict(zip(s.indices, block.indices, strict=True))
                out += s.body if s is block else substitute(s.body, names)
                out.append(self._meeting())
            elif inner_regions(bodies_of(s)):
                flush()
                out.append(with_bodies(s, lambda inner: self._body(inner, block, True)))
            elif _for_all(s):
                flush()
                out.append(s)
            else:
                if any(isinstance(n, (ir.Atomic, ir.Call)) and n.result is not None for n in nested((s,))):
                    self._refuse("the result of an effect of a cluster is", (s,))
                effects.append(s)
        flush()
        return tuple(out)

    def _meeting(self) -> ir.Barrier:
        self.used = True
        return ir.Barrier(Level.CLUSTER)

    def _refuse(self, what: str, body: Iterable[ir.Stmt]) -> None:
        span = next((s.span for s in body if s.span is not None), self.root.span)
        if span is not None:
            self.context.report.error("UNS01", f"{what} not supported", span)


def _meets(s: ir.Stmt) -> bool:
    return isinstance(s, ir.Barrier) and s.scope is Level.CLUSTER


def _reads(before: Iterable[ir.Stmt], effects: Iterable[ir.Stmt]) -> bool:
    """Whether statements read what the next effects change."""
    inside = [n for s in effects for n in walk(s) if isinstance(n, ir.Stmt)]
    written = {a.buffer for n in inside for a in of_statement(n) if a.mode is not Mode.READ}
    opaque = any(isinstance(n, (ir.Call, ir.CxxText, ir.Asm)) for n in inside)
    loads = [n for s in before for n in walk(s) if isinstance(n, ir.Load)]
    return any(opaque or n.view.buffer in written for n in loads)


def bodies_of(s: ir.Stmt) -> ir.Body:
    """All statements directly inside a statement."""
    return tuple(inner for body in bodies(s) for inner in body)


def _for_all(s: ir.Stmt) -> bool:
    """Whether every block does a statement for itself: it touches nothing that others see."""
    if isinstance(s, (ir.Let, ir.Assign, ir.Break, ir.Continue)):
        return True
    if isinstance(s, ir.Declare):
        return s.buffer.storage in _OWN and not any(isinstance(n, ir.Load) for n in walk(s))
    if isinstance(s, (ir.Store, ir.SpanOp)):
        return s.view.buffer.storage in _OWN
    if isinstance(s, ir.Copy):
        return s.dst.buffer.storage in _OWN
    inside = bodies_of(s)
    return bool(inside) and all(map(_for_all, inside))


def _all(conditions: Iterable[ir.Expr]) -> ir.Expr:
    result: ir.Expr = ir.TRUE
    for c in conditions:
        result = c if result is ir.TRUE else ir.Binary("&&", result, c, BOOL)
    return result
