"""Splits inner regions at joins, so that every region is a plain loop over its instances.

A region whose instances meet (at a barrier, a collective copy, an `inthreads` with joins) cannot run its instances one
after the other. Its body is cut into segments; each becomes a region of its own, and the statement that joins stands
between them. Loops and conditions around a join are uniform by the rules of the language (execution model, section 3),
so they move outside and are evaluated for the first instance. What one segment computes and a later one reads is kept
per instance: scalars and local storage in `REGISTER` buffers with the region's extents in front, unless a scalar can be
computed again from indices alone. An instance that yields takes no part in later segments.

A region whose instances have stacks of their own (`choose-strategy`) stays, and regions inside it are cut down to its
level: barriers that join several of its instances stay as well.

A barrier of the whole grid splits the region of blocks in the same way; the blocks then run in turn on one thread.
"""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from croq_magic.compiler import ir
from croq_magic.compiler.passes.base import Context
from croq_magic.compiler.passes.joins import must_split
from croq_magic.compiler.passes.region_cuts import RegionCuts
from croq_magic.compiler.passes.split_grid import blocks_meet, phases
from croq_magic.compiler.passes.structure import map_kernels, with_bodies
from croq_magic.compiler.visit import walk

Level = ir.Level
_ABOVE = (Level.DEVICE, Level.CLUSTER, Level.BLOCK)


@dataclasses.dataclass(frozen=True)
class SplitRegions:
    """After it no join is left inside a region finer than the join's scope."""

    name: ClassVar[str] = "split-regions"

    def __call__(self, function: ir.Function, context: Context) -> ir.Function:
        taken = {node.name for node in walk(function.body) if isinstance(node, (ir.Var, ir.Buffer))}
        return map_kernels(function, lambda region: _kernel(region, taken))


def _kernel(root: ir.Region, taken: set[str]) -> ir.Region:
    if any(isinstance(n, ir.Region) and n.fibers and n.level in _ABOVE for n in walk(root.body)):
        return dataclasses.replace(root, body=_inside(root.body, taken))  # blocks that meet as fibers
    if root.level is Level.DEVICE:
        inner = root.body[0] if len(root.body) == 1 else None
        if isinstance(inner, ir.Region) and inner.attributes.cooperative:
            return dataclasses.replace(root, body=(_kernel(inner, taken),))
    if blocks_meet(root):
        return phases(root, taken)
    body = _inside(root.body, taken)
    return root if body is root.body else dataclasses.replace(root, body=body)


def _inside(body: ir.Body, taken: set[str], fiber: Level | None = None) -> ir.Body:
    """`body` with the regions in it split where they must be. `fiber` is the level of the fibers that run it."""
    out: list[ir.Stmt] = []
    changed = False
    for s in body:
        new: ir.Body
        own = s.level if isinstance(s, ir.Region) and s.fibers is not None else fiber
        if isinstance(s, ir.Region) and s.fibers is None and s.level is not None and must_split(s):
            new = _inside(RegionCuts(taken, fiber=fiber).region(s), taken, fiber)
        else:
            new = (with_bodies(s, lambda inner, own=own: _inside(inner, taken, own)),)  # type: ignore[misc]
        changed = changed or len(new) != 1 or new[0] is not s
        out += new
    return tuple(out) if changed else body
