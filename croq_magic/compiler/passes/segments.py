"""A region cut at its joins: segments, which its instances run one after the other, and what stands between them.

`region_cuts.py` makes such a tree, `instance_storage.py` makes statements of it again.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping

from croq_magic.compiler import integers, ir
from croq_magic.compiler.visit import walk

Chain = tuple[ir.Region, ...]


class Instances:
    """A chain of regions as an opaque value: the visitors must not enter it."""

    def __init__(self, regions: Chain) -> None:
        self.regions = regions
        self.indices = tuple(var for region in regions for var in region.indices)
        self.extents = tuple(extent for region in regions for extent in region.extents)


@dataclasses.dataclass(frozen=True)
class Segment(ir.Stmt):
    """Statements that run once per instance of `open` (and of `whole`, with the regions that stand around it)."""

    open: Instances
    whole: Instances
    body: ir.Body
    span: None = None


@dataclasses.dataclass(frozen=True)
class Lifted(ir.Stmt):
    """A statement outside the regions of `cut`; it is evaluated for their first instance, or for the one that `leader`
    gives for their indices."""

    cut: Instances
    inner: ir.Stmt
    inside: tuple[ir.Body, ...]
    leader: tuple[ir.Expr, ...] = ()
    span: None = None


def within(regions: Chain, body: ir.Body) -> ir.Body:
    """The regions, one in the other, around `body`."""
    for region in reversed(regions):
        body = (dataclasses.replace(region, body=body),)
    return body


def for_selected(tree: ir.Body, selected: ir.Expr, leader: Mapping[ir.Var, ir.Expr]) -> ir.Body:
    """The tree with its segments for selected instances alone, and what is between them evaluated for the leader."""
    out: list[ir.Stmt] = []
    for s in tree:
        if isinstance(s, Segment):
            s = dataclasses.replace(s, body=(ir.If(selected, s.body),))
        elif isinstance(s, Lifted):
            inside = tuple(for_selected(body, selected, leader) for body in s.inside)
            first = tuple(leader.get(var, integers.ZERO) for var in s.cut.indices)
            s = dataclasses.replace(s, inside=inside, leader=s.leader or first)
        elif isinstance(s, ir.Region):
            s = dataclasses.replace(s, body=for_selected(s.body, selected, leader))
        out.append(s)
    return tuple(out)


def parts(tree: ir.Body) -> Iterator[ir.Stmt]:
    """Segments and lifted statements of a tree, in order."""
    for s in tree:
        if isinstance(s, (Segment, Lifted)):
            yield s
        for inner in s.inside if isinstance(s, Lifted) else (s.body,) if isinstance(s, ir.Region) else ():
            yield from parts(inner)


def outside(tree: ir.Body) -> Iterator[ir.Node]:
    """Everything that is evaluated outside the segments."""
    for s in parts(tree):
        if isinstance(s, Lifted):
            yield from walk(s.inner)
