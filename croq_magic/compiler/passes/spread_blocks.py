"""Gives blocks of one thread to threads of larger blocks.

Source: language reference, execution model, section 2.1: a single level without annotation maps to blocks, and its
instances may be fused into threads when nothing in the body tells the difference. On a GPU a block of one thread leaves
31 of 32 lanes idle, so any extent becomes blocks of threads:

    region block [i < M, j < N] { body }
    region block [tile < ceil(M N / 256)] { region thread [unit < 256] { if tile * 256 + unit < M N { i, j; body } } }

Neighbouring threads get neighbouring values of the index that most accesses of device memory run along. Where a body is
but a few accesses and there are plenty of instances, a thread takes several of them, one block's width apart, so that
enough bytes are under way to keep memory busy: a loop that is written out.
"""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from croq_magic.compiler import integers, ir, views
from croq_magic.compiler.passes.base import Context
from croq_magic.compiler.passes.structure import fresh_name, map_kernels
from croq_magic.compiler.types import BOOL, S32, S64
from croq_magic.compiler.visit import walk

Level = ir.Level
_FEW = 8  # accesses of a short body
_PRIVATE = (ir.Storage.LOCAL, ir.Storage.REGISTER)
_TOGETHER = (
    *(ir.Region, ir.Barrier, ir.NamedBarrier, ir.Fence, ir.Masked, ir.Event, ir.Fragment),
    *(ir.CxxText, ir.Asm, ir.Call, ir.Print),  # text of the cell may ask for its place; prints keep their order
)


@dataclasses.dataclass(frozen=True)
class SpreadBlocks:
    """Makes blocks of up to `width` threads where every block has one; enough blocks for `units` processors come
    first. `work` instances of a short body go to one thread."""

    name: ClassVar[str] = "spread-blocks"
    width: int = 256
    units: int = 264
    work: int = 4

    def __call__(self, function: ir.Function, context: Context) -> ir.Function:
        taken = {node.name for node in walk(function.body) if isinstance(node, (ir.Var, ir.Buffer))}
        return map_kernels(function, lambda region: self._kernel(region, taken))

    def _kernel(self, root: ir.Region, taken: set[str]) -> ir.Region:
        if root.level is Level.DEVICE and len(root.body) == 1 and isinstance(root.body[0], ir.Region):
            return dataclasses.replace(root, body=(self._kernel(root.body[0], taken),))
        if root.level is not Level.BLOCK or not root.indices or root.attributes != ir.RegionAttributes():
            return root
        if any(map(_cooperates, walk(root.body))):
            return root
        return self._spread(root, taken)

    def _spread(self, root: ir.Region, taken: set[str]) -> ir.Region:
        order = _order(root)
        total = integers.product(extent for _, extent in order)
        count = integers.value(total)
        width = self.width if count is None else self._width(count)
        size = integers.constant(width)
        work = self.work if count is not None and count >= self.units * width * self.work and _is_short(root) else 1
        share = integers.constant(width * work)
        blocks = integers.ceildiv(total, share)
        tile = ir.Var(fresh_name("tile", taken), S32, ir.Role.REGION, integers.ZERO, blocks)
        unit = ir.Var(fresh_name("unit", taken), S32, ir.Role.REGION, integers.ZERO, size)
        linear = unit if integers.value(blocks) == 1 else integers.add(integers.mul(tile, share), unit)
        turn = ir.Var(fresh_name("turn", taken), S32, ir.Role.LOOP, integers.ZERO, integers.constant(work))
        if work > 1:
            linear = integers.add(linear, integers.mul(turn, size))
        body: list[ir.Stmt] = []
        whole = count is not None and count % (width * work) == 0
        place: ir.Expr = linear
        if len([e for _, e in order if integers.value(e) != 1]) > 1 or not whole:
            small = count is not None and count < 1 << 30
            first = order[0][0] if len(order) == 1 else None
            if first is not None:
                body.append(ir.Let(first, linear, span=root.span))
                place = first
            else:
                dtype = S32 if small else S64
                var = ir.Var(fresh_name("place", taken), dtype, ir.Role.REGION, integers.ZERO, total)
                body.append(ir.Let(var, linear, span=root.span))
                place = var
        used = {node.name for node in walk(root.body) if isinstance(node, ir.Var)}
        inner: list[ir.Stmt] = []
        stride: ir.Expr = integers.ONE
        for position, (var, extent) in enumerate(order):
            if var is not place and var.name in used:
                value = integers.floordiv(place, stride)
                if position < len(order) - 1:
                    value = integers.mod(value, extent)
                inner.append(ir.Let(var, integers.ZERO if integers.value(extent) == 1 else value, span=root.span))
            stride = integers.mul(stride, extent)
        inner += root.body
        if whole:
            body += inner
        else:
            end = total if count is not None else _wide_product([extent for _, extent in order])
            start = place if end.dtype is place.dtype else ir.Cast(place, end.dtype)
            body.append(ir.If(ir.Binary("<", start, end, BOOL), tuple(inner), span=root.span))
        if work > 1:
            loop = ir.For(turn, integers.ZERO, integers.constant(work), 1, tuple(body), ir.LoopKind.UNROLL)
            body = [dataclasses.replace(loop, span=root.span)]
        threads = ir.Region(Level.THREAD, (unit,), (size,), tuple(body), implied=True, span=root.span)
        return dataclasses.replace(root, indices=(tile,), extents=(blocks,), body=(threads,))

    def _width(self, count: int) -> int:
        """Threads of a block: fewer where the blocks would be too few."""
        width = self.width
        while width > 32 and count < width * self.units:
            width //= 2
        return min(width, max(1, count))


def _is_short(root: ir.Region) -> bool:
    """Whether an instance loads and stores a few elements and does nothing else."""
    nodes = list(walk(root.body))
    plain = all(isinstance(n, (ir.Let, ir.Store, ir.If, ir.Scope)) for n in nodes if isinstance(n, ir.Stmt))
    accesses = [n for n in nodes if isinstance(n, (ir.Load, ir.Store))]
    known = all(not a.checks and not a.view.checks for a in accesses)
    return plain and known and any(isinstance(a, ir.Load) for a in accesses) and len(accesses) <= _FEW


def _wide_product(extents: list[ir.Expr]) -> ir.Expr:
    """A product of extents that 32 bits may not hold."""
    total: ir.Expr = ir.Cast(extents[0], S64)
    for extent in extents[1:]:
        total = ir.Binary("*", total, ir.Cast(extent, S64), S64)
    return total


def _cooperates(node: ir.Node) -> bool:
    """Whether instances may tell that they share a block, or a statement is done by all threads of one."""
    if isinstance(node, ir.Copy):
        return node.src.buffer.storage not in _PRIVATE and node.dst.buffer.storage not in _PRIVATE
    if isinstance(node, ir.SpanOp):
        return node.view.buffer.storage not in _PRIVATE
    if isinstance(node, ir.Declare):
        return node.buffer.storage not in _PRIVATE
    return isinstance(node, _TOGETHER)


def _order(root: ir.Region) -> list[tuple[ir.Var, ir.Expr]]:
    """Indices with extents, the one first that most accesses of device memory run along element by element."""
    pairs = list(zip(root.indices, root.extents, strict=True))
    score = dict.fromkeys(root.indices, 0)
    for node in walk(root.body):
        if isinstance(node, (ir.Load, ir.Store)) and node.view.buffer.storage is ir.Storage.GLOBAL:
            _, offset = views.element(node.view, node.index)
            terms = integers.poly(offset)
            for var in score:
                score[var] += abs(terms.coefficient(var)) == 1
    best = max(pairs, key=lambda pair: score[pair[0]])
    return [best, *(pair for pair in pairs if pair is not best)]
