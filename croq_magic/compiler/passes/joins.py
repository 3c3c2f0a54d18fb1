"""Where instances meet: which statements join the instances of a region, and how far a join reaches."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence

from croq_magic.compiler import evaluate, integers, ir
from croq_magic.compiler.passes.structure import bodies
from croq_magic.compiler.visit import walk

Level = ir.Level


def has_events(s: ir.Stmt) -> bool:
    """Whether somebody waits for events or at named barriers in a statement, or lets others wait."""
    return any(isinstance(node, (ir.Trigger, ir.WaitEvent, ir.NamedBarrier)) for node in walk(s))


MOST_TRIED = 4096  # instances that are looked through for one that a predicate selects


def elected(s: ir.Masked, regions: Sequence[ir.Region]) -> dict[ir.Var, ir.Expr] | None:
    """Where an `inthreads` with joins only says which instances of `regions` pass events: indices of one of them. None
    where it selects none, or by something else than indices, or where its instances do more together."""
    if s.is_async or not has_events(s) or not all(map(_passes_events, _statements(s.body))):
        return None
    axes = [axis for region in regions for axis in zip(region.indices, region.extents, strict=True)]
    sizes = [integers.value(extent) for _, extent in axes]
    if any(size is None for size in sizes) or math.prod(map(int, filter(None, sizes))) > MOST_TRIED:
        return None
    try:
        selects = evaluate.function((s.predicate,), [var.name for var, _ in axes])
        for place in itertools.product(*(range(size or 0) for size in sizes)):
            if selects(*place)[0]:
                return {var: integers.constant(i) for (var, _), i in zip(axes, place, strict=True)}
    except (ValueError, ZeroDivisionError):
        pass
    return None


def _passes_events(s: ir.Stmt) -> bool:
    """Whether a statement is one of a single instance, or an event whose parties follow from who gets there."""
    if isinstance(s, (ir.Trigger, ir.WaitEvent)):
        return not s.event.parties
    meets = isinstance(s, (ir.Barrier, ir.NamedBarrier, ir.Masked, ir.Region))
    return not meets and not is_collective(s) and fragment_owner(s) is None


def _statements(body: ir.Body) -> Iterator[ir.Stmt]:
    for s in body:
        yield s
        for inner in bodies(s):
            yield from _statements(inner)


def must_split(region: ir.Region) -> bool:
    """Whether instances of the region meet inside it."""
    assert region.level is not None
    found = [scope for scope in map(scope_of, region.body) if scope is not None]
    return bool(found) and min(found) < region.level.depth


def scope_of(s: ir.Stmt, cooperative: bool = False) -> int | None:
    """Depth of the coarsest level whose instances `s` joins, if it joins any."""
    if isinstance(s, ir.Barrier):
        if cooperative and not s.reason and s.scope is Level.BLOCK:
            return Level.DEVICE.depth
        return s.scope.depth
    if isinstance(s, ir.CombineLanes):
        return Level.GROUP.depth
    if isinstance(s, (ir.Trigger, ir.WaitEvent, ir.NamedBarrier)):
        return Level.BLOCK.depth  # all threads of the unit do the same: one of them does it for all
    if isinstance(s, ir.Region):
        inner = coarsest(s.body, cooperative)
        return inner if inner is not None and s.level is not None and inner < s.level.depth else None
    if isinstance(s, ir.Masked) and not s.is_async:
        return min(Level.BLOCK.depth, coarsest(s.body, cooperative) or Level.BLOCK.depth)
    owner = fragment_owner(s)
    if owner is not None:
        return owner.depth
    if is_collective(s):
        return Level.BLOCK.depth
    found = [scope for body in bodies(s) if (scope := coarsest(body, cooperative)) is not None]
    return min(found, default=None)


def coarsest(body: ir.Body, cooperative: bool) -> int | None:
    return min((scope for s in body if (scope := scope_of(s, cooperative)) is not None), default=None)


def fragment_owner(s: ir.Stmt) -> Level | None:
    """The unit that carries out a statement on fragments together."""
    if isinstance(s, (ir.For, ir.While, ir.If, ir.Scope, ir.Masked, ir.Region, ir.Call)):
        return None
    owners = [node.owner for node in walk(s) if isinstance(node, ir.Fragment)]
    return min(owners, key=lambda level: level.depth) if owners else None


def is_collective(s: ir.Stmt) -> bool:
    """Statements that all instances of a block carry out together, once."""
    if isinstance(s, ir.Copy):
        into, source = s.dst.buffer.storage, s.src.buffer.storage
        return into is ir.Storage.SHARED or (source is ir.Storage.SHARED and into is ir.Storage.GLOBAL)
    if isinstance(s, ir.SpanOp):
        return s.view.buffer.storage in (ir.Storage.SHARED, ir.Storage.GLOBAL)
    if isinstance(s, ir.Declare):
        return s.buffer.storage is ir.Storage.SHARED and s.init is not None
    return isinstance(s, ir.Wait)


def leaves_loop(s: ir.Stmt) -> bool:
    """Whether `s` may end an iteration of the loop around it."""
    if isinstance(s, (ir.Break, ir.Continue)):
        return True
    if isinstance(s, (ir.For, ir.While, ir.Region)):
        return False
    return any(leaves_loop(inner) for body in bodies(s) for inner in body)
