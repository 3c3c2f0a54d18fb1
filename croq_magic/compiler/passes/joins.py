"""Where instances meet: which statements join the instances of a region, and how far a join reaches."""

from __future__ import annotations

from croq_magic.compiler import ir
from croq_magic.compiler.passes.structure import bodies
from croq_magic.compiler.visit import walk

Level = ir.Level


def has_events(s: ir.Stmt) -> bool:
    """Whether somebody waits for events or at named barriers in a statement, or lets others wait."""
    return any(isinstance(node, (ir.Trigger, ir.WaitEvent, ir.NamedBarrier)) for node in walk(s))


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
