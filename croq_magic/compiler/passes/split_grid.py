"""Splits the region of blocks at barriers of the whole grid.

What is between two barriers becomes a phase: a region of all blocks, which run in turn. A phase begins when all blocks
have ended the one before it.
"""

from __future__ import annotations

from croq_magic.compiler import ir
from croq_magic.compiler.passes.joins import scope_of
from croq_magic.compiler.passes.region_cuts import RegionCuts

Level = ir.Level


def blocks_meet(root: ir.Region) -> bool:
    """Whether a statement of `root` itself joins several blocks."""
    scopes = [scope_of(s, root.attributes.cooperative) for s in root.body]
    return any(scope is not None and scope < Level.BLOCK.depth for scope in scopes)


def phases(root: ir.Region, taken: set[str]) -> ir.Region:
    """The kernel `root`, cut where its blocks meet and nowhere else. `taken` are names that may not be given again."""
    body = RegionCuts(taken, root.attributes.cooperative).region(root)
    return ir.Region(Level.DEVICE, (), (), body, root.attributes, True, root.span)


def split_grid(root: ir.Region, taken: set[str]) -> ir.Region | None:
    """The kernel `root` as phases of blocks; None if its grid has no barrier."""
    if root.level is Level.DEVICE and len(root.body) == 1 and isinstance(root.body[0], ir.Region):
        root = root.body[0]
    return phases(root, taken) if root.level is Level.BLOCK and blocks_meet(root) else None
