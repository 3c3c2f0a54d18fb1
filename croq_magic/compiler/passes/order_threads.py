"""Neighbouring threads of a block get neighbouring elements, where the order of a region's indices is free.

The first index of a region is the one that numbers threads that run together. Where nothing in a block tells which
thread has which number (no groups, no calls), another index may come first: the one along which most accesses to memory
of the block and of the device run.

    region thread [qx < 16, qy < 16] {            region thread [qy < 16, qx < 16] {
      acc[qx, qy] += a[qx, k] * b[k, qy]    =>      acc[qx, qy] += a[qx, k] * b[k, qy]
    }                                             }
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import ClassVar

from croq_magic.compiler import integers, ir, views
from croq_magic.compiler.passes.base import Context
from croq_magic.compiler.passes.structure import map_kernels
from croq_magic.compiler.visit import children, rewrite, walk

Level = ir.Level
_PRIVATE = (ir.Storage.LOCAL, ir.Storage.REGISTER)
_TELLS: tuple[type[ir.Node], ...] = (
    *(ir.Masked, ir.NamedBarrier, ir.Event, ir.Fragment, ir.CombineLanes),
    *(ir.CxxText, ir.Asm, ir.Call, ir.Print, ir.Yield),
)
_IN_LOOP = 8  # times that an access in a loop counts


@dataclasses.dataclass(frozen=True)
class OrderThreads:
    """Moves an index to the front in all regions of threads of a block alike."""

    name: ClassVar[str] = "order-threads"

    def __call__(self, function: ir.Function, context: Context) -> ir.Function:
        def change(node: ir.Node) -> ir.Node | None:
            if not isinstance(node, ir.Region) or node.level is not Level.BLOCK:
                return None
            first = _first(node)
            return _reordered(node, first) if first else None

        return map_kernels(function, lambda root: rewrite(root, change))


def _first(block: ir.Region) -> int:
    """The position of the index that should come first; 0 where the order must stay."""
    nodes = list(walk(block.body))
    regions = [node for node in nodes if isinstance(node, ir.Region)]
    if not regions or any(isinstance(node, _TELLS) for node in nodes):
        return 0
    extents = regions[0].extents
    if not 2 <= len(extents) <= 3 or any(r.level is not Level.THREAD or not _same(r.extents, extents) for r in regions):
        return 0
    scores = [0] * len(extents)
    for region in regions:
        _count(region.body, region.indices, scores, 1)
    best = max(range(len(scores)), key=lambda position: (scores[position], -position))
    return best if scores[best] > scores[0] else 0


def _same(a: Sequence[ir.Expr], b: Sequence[ir.Expr]) -> bool:
    return len(a) == len(b) and all(map(integers.equal, a, b))


def _count(node: ir.Node | ir.Body, indices: tuple[ir.Var, ...], scores: list[int], weight: int) -> None:
    """Adds, for each index, the accesses that move by one element when it grows by one."""
    if isinstance(node, tuple):
        for each in node:
            _count(each, indices, scores, weight)
        return
    if isinstance(node, (ir.Load, ir.Store)) and node.view.buffer.storage not in _PRIVATE:
        terms = integers.poly(views.element(node.view, node.index)[1])
        for position, var in enumerate(indices):
            scores[position] += weight * (abs(terms.coefficient(var)) == 1)
    inner = weight * _IN_LOOP if isinstance(node, (ir.For, ir.While)) else weight
    for child in children(node):
        _count(child, indices, scores, inner)


def _reordered(block: ir.Region, first: int) -> ir.Region:
    def change(node: ir.Node) -> ir.Node | None:
        if not isinstance(node, ir.Region):
            return None
        order = [first, *(p for p in range(len(node.indices)) if p != first)]
        return dataclasses.replace(
            node, indices=tuple(node.indices[p] for p in order), extents=tuple(node.extents[p] for p in order)
        )

    return dataclasses.replace(block, body=rewrite(block.body, change))
