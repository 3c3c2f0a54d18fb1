"""Cuts a region into segments at the statements in which its instances meet.

Loops and conditions around a join are uniform by the rules of the language (execution model, section 3), so they move
outside the region and are evaluated for its first instance, or for one of those that an `inthreads` selects.
"""

from __future__ import annotations

import dataclasses

from croq_magic.compiler import integers, ir, views
from croq_magic.compiler.passes.instance_storage import InstanceStorage
from croq_magic.compiler.passes.joins import coarsest, elected, has_events, leaves_loop, scope_of
from croq_magic.compiler.passes.segments import Chain, Instances, Lifted, Segment, for_selected, parts, within
from croq_magic.compiler.passes.structure import bodies, fresh_name, nested, with_bodies
from croq_magic.compiler.passes.uniform_scalars import uniform_scalars
from croq_magic.compiler.types import BOOL, S32
from croq_magic.compiler.visit import walk

Level = ir.Level


class RegionCuts:
    """Cuts regions. `taken` are names that may not be given again; `fiber` is the level of the fibers around."""

    def __init__(self, taken: set[str], cooperative: bool = False, fiber: Level | None = None) -> None:
        self.taken = taken
        self.cooperative = cooperative
        self.fiber = fiber
        self.alone: dict[str, int] = {}  # scalar -> in how many statements that may stand outside the region it is set
        self.uniform: set[str] = set()  # scalars of which one copy is enough

    def region(self, region: ir.Region) -> ir.Body:
        """The statements that a region becomes."""
        tree = self.expand(region.body, (), (region,), False)
        self.uniform = self.shared_scalars(region, tree)
        if self.uniform:
            tree = self.expand(region.body, (), (region,), False)
        storage = InstanceStorage(self.taken)
        declarations = storage.keep(tree)
        return (*declarations, *storage.finish(tree))

    def expand(self, body: ir.Body, around: Chain, chain: Chain, lifted: bool) -> ir.Body:
        """`body` of the innermost region of `chain`, as segments and what stands between them. The regions of `around`
        stay around it; `lifted` says that the loop around it has moved outside the chain."""
        out: list[ir.Stmt] = []
        run: list[ir.Stmt] = []

        def flush() -> None:
            if run:
                out.append(Segment(Instances(chain), Instances((*around, *chain)), tuple(run)))
                run.clear()

        for s in body:
            if isinstance(s, (ir.Let, ir.Assign)) and not around and len(chain) == 1:
                self.alone[s.var.name] = self.alone.get(s.var.name, 0) + 1
                if s.var.name in self.uniform:
                    flush()
                    out.append(Lifted(Instances(chain), s, ()))
                    continue
            scope = scope_of(s, self.cooperative)
            if scope is None and lifted and leaves_loop(s):
                scope = min((r.level.depth - 1 for r in chain if r.level), default=0)
            cut = tuple(r for r in chain if scope is not None and r.level is not None and r.level.depth > scope)
            if not cut:
                run.append(s)
                continue
            flush()
            staying = chain[: len(chain) - len(cut)]
            out += within(staying, self.statement(s, (*around, *staying), cut))
        flush()
        return tuple(out)

    def shared_scalars(self, region: ir.Region, tree: ir.Body) -> set[str]:
        """Scalars that cross segments and are the same for all instances, whose every change may stand outside."""
        places: dict[str, set[int]] = {}
        sets: dict[str, int] = {}
        for number, segment in enumerate(s for s in parts(tree) if isinstance(s, Segment)):
            for node in walk(segment.body):
                if isinstance(node, ir.Var) and node.name in self.alone:
                    places.setdefault(node.name, set()).add(number)
        for s in nested(region.body):
            if isinstance(s, (ir.Let, ir.Assign)):
                sets[s.var.name] = sets.get(s.var.name, 0) + 1
        mutable = {s.var.name for s in nested(region.body) if isinstance(s, ir.Let) and s.var.role is ir.Role.MUTABLE}
        names = [n for n in mutable if len(places.get(n, ())) > 1 and sets[n] == self.alone.get(n)]
        return uniform_scalars(region, names) if names else set()

    def statement(self, s: ir.Stmt, around: Chain, cut: Chain) -> ir.Body:
        """A statement that joins the instances of `cut`, outside these regions."""
        if isinstance(s, ir.Barrier) and self.fiber is not None and s.scope.depth < self.fiber.depth:
            return (s,)
        if isinstance(s, (ir.Barrier, ir.Wait)):
            return ()
        if isinstance(s, ir.Region):
            return self.expand(s.body, around, (*cut, s), False)
        if isinstance(s, ir.Masked):
            level = coarsest(s.body, self.cooperative)
            deep = tuple(r for r in cut if level is not None and r.level is not None and r.level.depth > level)
            if not deep:
                taken = ir.If(s.predicate, s.body, span=s.span)
                segment = Segment(Instances(cut), Instances((*around, *cut)), (taken,))
                return self.joined(s, segment)
            staying = cut[: len(cut) - len(deep)]
            leader = elected(s, deep)
            if leader is not None:
                body = for_selected(self.expand(s.body, (*around, *staying), deep, False), s.predicate, leader)
                return within(staying, self.joined(s, *body))
            part = self.role if self.fiber is not None or has_events(s) else self.masked
            return within(staying, part(s, (*around, *staying), deep))
        lifted = isinstance(s, (ir.For, ir.While)) or not isinstance(s, ir.Region)
        inside = tuple(self.expand(body, around, cut, lifted) for body in bodies(s))
        return (Lifted(Instances(cut), with_bodies(s, lambda body: ()), inside),)

    def role(self, s: ir.Masked, around: Chain, cut: Chain) -> ir.Body:
        """An `inthreads` that selects all instances of `cut` or none: fibers that hold, or do not."""
        inside = (self.expand(s.body, around, cut, False),)
        return self.joined(s, Lifted(Instances(cut), dataclasses.replace(s, is_async=True, body=()), inside))

    def joined(self, s: ir.Masked, *parts: ir.Stmt) -> ir.Body:
        """What an `inthreads` has become, with the joins of the fibers around it."""
        if s.is_async or self.fiber is None:
            return parts
        join = ir.Barrier(Level.BLOCK, "inthreads", span=s.span)
        return join, *parts, join

    def masked(self, s: ir.Masked, around: Chain, cut: Chain) -> ir.Body:
        """An `inthreads` whose selected instances meet. Its segments run for them alone; what stands between segments
        is carried out once, for one of them, if there is one."""
        selected = ir.Var(fresh_name("selected_each", self.taken), BOOL, ir.Role.LET)
        indices = Instances(cut).indices
        count = integers.constant(len(indices) + 1)
        leader = views.whole(ir.Buffer(fresh_name("leader_each", self.taken), S32, ir.Storage.LOCAL, (count,)))
        found = ir.Load(leader, (integers.ZERO,))
        places = [(integers.constant(i + 1),) for i in range(len(indices))]
        note = (
            ir.Store(leader, (integers.ZERO,), integers.ONE),
            *(ir.Store(leader, place, var) for place, var in zip(places, indices, strict=True)),
        )
        first = ir.Binary("&&", selected, ir.Binary("==", found, integers.ZERO, BOOL), BOOL)
        choose = (ir.Let(selected, s.predicate, span=s.span), ir.If(first, note))
        values = {var: ir.Load(leader, place) for var, place in zip(indices, places, strict=True)}
        body = for_selected(self.expand(s.body, around, cut, False), selected, values)
        some = ir.If(ir.Binary("!=", found, integers.ZERO, BOOL), (), span=s.span)
        return (
            ir.Declare(leader.buffer, integers.ZERO),
            Segment(Instances(cut), Instances((*around, *cut)), choose),
            Lifted(Instances(()), some, (body, ())),
        )
