"""Roles that pass each other a ring of tiles take turns in one loop, where their events say how.

    region group-4 [w < 2] {                          region group-4 [w < 1] {
      inthreads.async w == 0 {                          for n in 0..16 {
        for n in 0..16 {                                  tile[n % 2] = ...
          wait freed.at(n)                                barrier block  // roles take turns
          tile[n % 2] = ...                               ... = tile[n % 2]
          trigger have.at(n)                              barrier block  // roles take turns
        }                                               }
      }                                        =>     }
      inthreads.async w == 1 {
        for m in 0..16 {
          wait have.at(m)
          ... = tile[m % 2]
          trigger freed.at(m)

Any order in which every wait finds its generation is a run of the program. The pass looks for one that is a loop:
each role goes on until it would have to wait or comes to a loop with events; when all stand there, their loops become
one. The order is tried out step by step, with what a role triggers visible only when it stops, so inside a turn no
order is left to keep. What fails, waits for ever, or depends on values of the run stays as it is: `choose-strategy`
then gives it fibers, which also say what is wrong.
"""

from __future__ import annotations

import dataclasses
import itertools
from typing import ClassVar

from croq_magic.compiler import evaluate, integers, ir
from croq_magic.compiler.passes.base import Context
from croq_magic.compiler.passes.choose_strategy import polls
from croq_magic.compiler.passes.joins import has_events
from croq_magic.compiler.passes.map_limits import threads_of_unit
from croq_magic.compiler.passes.role_events import Events, NotKnown, Operation, operation, run_freely
from croq_magic.compiler.passes.structure import ends, map_kernels, with_bodies
from croq_magic.compiler.visit import substitute, walk

Level = ir.Level
MOST_INSTANCES = 4096
_TURN = "roles take turns"
_LANES = 128


@dataclasses.dataclass(frozen=True)
class InterleaveRoles:
    """After it roles whose turns are known have no events, and their region has the instances of one role."""

    name: ClassVar[str] = "interleave-roles"

    def __call__(self, function: ir.Function, context: Context) -> ir.Function:
        return map_kernels(function, _kernel)


def _kernel(root: ir.Region) -> ir.Region:
    if not any(isinstance(node, ir.DeclareEvent) for node in walk(root.body)):
        return root
    body = _body(root.body, root)
    return root if body is root.body else dataclasses.replace(root, body=body)


def _body(body: ir.Body, root: ir.Region) -> ir.Body:
    """A body of the block. Only a region beside the declarations of its events runs once for each of them."""
    declared = {s.event for s in body if isinstance(s, ir.DeclareEvent)}
    gone: set[ir.Event] = set()
    out: list[ir.Stmt] = []
    for s in body:
        if isinstance(s, ir.Region) and _in_block(s) and has_events(s):
            try:
                found = _Roles(s, declared, root).region()
            except NotKnown:
                out.append(s)
            else:
                out.append(found)
                gone |= {node.event for node in walk(s) if isinstance(node, (ir.Trigger, ir.WaitEvent))}
        elif isinstance(s, (ir.Region, ir.Scope)):
            out.append(with_bodies(s, lambda inner: _body(inner, root)))
        else:
            out.append(s)
    if not gone and all(a is b for a, b in zip(out, body, strict=True)):
        return body
    return tuple(s for s in out if not (isinstance(s, ir.DeclareEvent) and s.event in gone))


@dataclasses.dataclass
class _Sequence:
    """What a role has still to do in one body; `skipped` trips of the loop it stands at are done."""

    role: int
    left: list[ir.Stmt]
    loops: dict[str, int]
    skipped: int = 0


@dataclasses.dataclass(frozen=True)
class _Turn:
    """Statements that one role carries out in one go, events among them."""

    role: int
    body: ir.Body


@dataclasses.dataclass(frozen=True)
class _Shared:
    """Loops of several roles as one: (role, loop, trips before, trips in all) of each, and the turns of one trip."""

    trips: int
    loops: tuple[tuple[int, ir.For, int, int], ...]
    parts: tuple[_Turn | _Shared, ...]


_Plan = tuple[_Turn | _Shared, ...]


class _Roles:
    """The roles of one region. Raises `NotKnown` where their turns are not known."""

    def __init__(self, region: ir.Region, declared: set[ir.Event], root: ir.Region) -> None:
        self.chain = [region]
        while len(body := self.chain[-1].body) == 1 and isinstance(body[0], ir.Region):
            self.chain.append(body[0])
        self.before: list[ir.Stmt] = []  # storage of one role, declared before it
        self.parts: list[ir.Masked | ir.If] = []
        for s in self.chain[-1].body:
            if isinstance(s, (ir.Masked, ir.If)):
                self._role(s)
            elif isinstance(s, ir.DeclareFragment) and s.init is None and not self.parts:
                self.before.append(s)
            else:
                raise NotKnown
        self._check_events(region, declared, root)
        self._check_private()
        self._check_reports()
        self.first, self.count = self._members()
        self.bodies = [s.body if isinstance(s, ir.Masked) else s.then for s in self.parts]
        waiters: dict[ir.Event, set[int]] = {event: set() for event in self.events}
        for role, role_body in enumerate(self.bodies):
            for node in walk(role_body):
                if isinstance(node, ir.WaitEvent):
                    waiters[node.event].add(role)
        run_freely(self.bodies, Events(waiters))
        self.state = Events(waiters)

    # ------------------------------------------------------------------------------------------------ what is allowed

    @staticmethod
    def _role(s: ir.Masked | ir.If) -> None:
        """Nothing but events may order a role against others, and nothing may end it early."""
        inner = s.body if isinstance(s, ir.Masked) else s.then
        if (isinstance(s, ir.Masked) and not s.is_async) or (isinstance(s, ir.If) and s.other) or ends(inner):
            raise NotKnown

    def _check_events(self, region: ir.Region, declared: set[ir.Event], root: ir.Region) -> None:
        self.parts = [s for s in self.chain[-1].body if isinstance(s, (ir.Masked, ir.If))]
        inside = [node for node in walk(region) if isinstance(node, (ir.Trigger, ir.WaitEvent))]
        self.events = {node.event for node in inside}
        everywhere = [node for node in walk(root) if isinstance(node, (ir.Trigger, ir.WaitEvent))]
        if not self.events <= declared or any(event.storage is not ir.Storage.SHARED for event in self.events):
            raise NotKnown
        if sum(node.event in self.events for node in everywhere) != len(inside):
            raise NotKnown
        for node in walk(region):
            if isinstance(node, (ir.NamedBarrier, ir.Print, ir.DeclareEvent)):
                raise NotKnown
            if isinstance(node, ir.While) and (polls(node) or any(isinstance(n, ir.Atomic) for n in walk(node))):
                raise NotKnown

    def _check_private(self) -> None:
        """What is declared before the roles belongs to each instance alone: one role may use it."""
        for s in self.before:
            assert isinstance(s, ir.DeclareFragment)
            users = [s.fragment in list(walk(part)) for part in self.parts]
            if sum(users) > 1:
                raise NotKnown

    def _check_reports(self) -> None:
        """What can fail shows the indices of its instance, which the first role alone keeps."""
        for node in walk(tuple(self.parts)):
            checked = isinstance(node, (ir.Load, ir.Store, ir.Atomic, ir.View)) and node.checks
            if checked or isinstance(node, ir.Assert):
                raise NotKnown

    def _members(self) -> tuple[list[int], int]:
        """The index that chooses roles: of each role the first instance, and how many it has (the same for all)."""
        axes = {v: e for region in self.chain for v, e in zip(region.indices, region.extents, strict=True)}
        conditions = [s.predicate if isinstance(s, ir.Masked) else s.condition for s in self.parts]
        names = evaluate.free_variables(conditions)
        found = [(v, integers.value(e)) for v, e in axes.items() if v.name in names]
        if len(names) != 1 or len(found) != 1:
            raise NotKnown
        self.index, extent = found[0]
        if extent is None or extent > MOST_INSTANCES:
            raise NotKnown
        self.place = next(i for i, region in enumerate(self.chain) if self.index in region.indices)
        try:
            select = evaluate.function(conditions, names)
            chosen = [[i for i in range(extent) if select(i)[role]] for role in range(len(conditions))]
        except (ValueError, ZeroDivisionError):
            raise NotKnown from None
        counts = {len(members) for members in chosen}
        firsts = [members[0] for members in chosen if members]
        if (
            len(counts) != 1
            or len(firsts) != len(chosen)
            or len(set(itertools.chain(*chosen))) != sum(map(len, chosen))
        ):
            raise NotKnown
        if any(members[-1] - members[0] + 1 != len(members) for members in chosen):
            raise NotKnown
        if any(first * (threads_of_unit(self.chain[self.place]) or 1) % _LANES for first in firsts):
            self._refuse_fragments()
        self._check_parties(counts.pop(), axes)
        return firsts, len(chosen[0])

    def _refuse_fragments(self) -> None:
        """Roles of threads that are no whole groups: who shares a fragment would change."""
        if self.chain[self.place].level is Level.THREAD and any(
            isinstance(n, ir.Fragment) for n in walk(self.chain[0])
        ):
            raise NotKnown

    def _check_parties(self, count: int, axes: dict[ir.Var, ir.Expr]) -> None:
        """With `event<n>` the threads of one role must be those n."""
        threads = count * (threads_of_unit(self.chain[-1]) or 1)
        for v, e in axes.items():
            if v is not self.index:
                threads *= integers.value(e) or 0
        if any(event.parties not in (0, threads) for event in self.events):
            raise NotKnown

    # ---------------------------------------------------------------------------------------------------- the turns

    def plan(self, roles: list[_Sequence]) -> _Plan:
        """The turns in which all roles come to the end of their bodies; the state is then that after them."""
        out: list[_Turn | _Shared] = []
        while any(r.left for r in roles):
            moved = False
            for r in roles:
                if (turn := self._turn(r)) is not None:
                    out.append(turn)
                    moved = True
            if moved or not any(r.left for r in roles):
                continue
            at = [r for r in roles if r.left and isinstance(r.left[0], ir.For)]
            if not at:
                raise NotKnown
            out.append(self._share(at))
        return tuple(out)

    def _turn(self, r: _Sequence) -> _Turn | None:
        """Goes on with a role until it must wait or comes to a loop with events and other statements."""
        done: list[ir.Stmt] = []
        seen: list[tuple[Operation, dict[str, int]]] = []
        while r.left:
            s = r.left[0]
            found = operation(s)
            if found is not None:
                if found.is_wait and not self.state.passes(found, r.role, r.loops):
                    break
                if not found.is_wait:
                    seen.append((found, r.loops))
            elif self.state.numbers.meets(s):
                if not isinstance(s, ir.For) or r.skipped or not _only_triggers(s.body):
                    break
                for value in self.state.numbers.trips(s, r.loops):
                    seen += [(o, {**r.loops, s.var.name: value}) for o in map(operation, s.body) if o is not None]
            done.append(r.left.pop(0))
        for o, loops in seen:
            self.state.complete(o.event, self.state.slots(o, r.role, loops))
        return _Turn(r.role, tuple(done)) if done else None

    def _share(self, at: list[_Sequence]) -> _Shared:
        """One loop for those of all roles that stand at one, as far as the shortest goes."""
        loops: list[tuple[int, ir.For, int, int]] = []
        ranges: list[range] = []
        for r in at:
            s = r.left[0]
            assert isinstance(s, ir.For)
            values = self.state.numbers.trips(s, r.loops)
            loops.append((r.role, s, r.skipped, len(values)))
            ranges.append(values[r.skipped :])
        trips = min(map(len, ranges))
        parts: _Plan = ()
        for trip in range(trips):
            inner = [
                _Sequence(role, list(s.body), {**r.loops, s.var.name: values[trip]})
                for (role, s, _, _), r, values in zip(loops, at, ranges, strict=True)
            ]
            if trip == 0:
                parts = self.plan(inner)
            else:
                self._again(parts, {r.role: r for r in inner})
        for r, values in zip(at, ranges, strict=True):
            r.skipped += trips
            if len(values) == trips:
                r.left.pop(0)
                r.skipped = 0
        return _Shared(trips, tuple(loops), parts)

    def _again(self, parts: _Plan, roles: dict[int, _Sequence]) -> None:
        """Tries the turns of a plan with other values of the loops around them."""
        for part in parts:
            if isinstance(part, _Turn):
                r = roles[part.role]
                left = _Sequence(part.role, list(part.body), r.loops)
                self._turn(left)
                if left.left:
                    raise NotKnown
                continue
            for trip in range(part.trips):
                inner = {}
                for role, s, skipped, total in part.loops:
                    values = self.state.numbers.trips(s, roles[role].loops)
                    if len(values) != total:
                        raise NotKnown
                    loops = {**roles[role].loops, s.var.name: values[skipped + trip]}
                    inner[role] = _Sequence(role, [], loops)
                self._again(part.parts, inner)

    # ------------------------------------------------------------------------------------------------------- the text

    def region(self) -> ir.Region:
        plan = self.plan([_Sequence(role, list(body), {}) for role, body in enumerate(self.bodies)])
        body: ir.Body = (*self.before, *self._text(plan))
        if body and isinstance(body[-1], ir.Barrier) and body[-1].reason == _TURN:
            body = body[:-1]
        for depth, region in reversed(list(enumerate(self.chain))):
            extents = region.extents
            if depth == self.place:
                count = integers.constant(self.count)
                pairs = zip(region.indices, extents, strict=True)
                extents = tuple(count if v is self.index else e for v, e in pairs)
            body = (dataclasses.replace(region, extents=extents, body=body),)
        (whole,) = body
        assert isinstance(whole, ir.Region)
        return whole

    def _text(self, plan: _Plan) -> ir.Body:
        out: list[ir.Stmt] = []
        for part in plan:
            if isinstance(part, _Turn):
                turn = tuple(s for s in part.body if not has_events(s))
                moved = self.index if self.count > 1 else integers.ZERO
                member = integers.add(moved, integers.constant(self.first[part.role]))
                out += substitute(turn, {self.index: member})
                if turn and not (out and isinstance(out[-1], ir.Barrier) and out[-1].reason == _TURN):
                    out.append(ir.Barrier(Level.BLOCK, _TURN))
                continue
            (_, first, _, _), *_ = part.loops
            var = dataclasses.replace(first.var, lower=integers.ZERO, upper=integers.constant(part.trips))
            places: dict[ir.Var, ir.Expr] = {}
            for _, s, skipped, _ in part.loops:
                trip = integers.add(var, integers.constant(skipped))
                value = integers.add(s.start, integers.mul(trip, integers.constant(s.step)))
                if value != s.var:
                    places[s.var] = value
            body = substitute(self._text(part.parts), places)
            if body:
                out.append(ir.For(var, integers.ZERO, integers.constant(part.trips), 1, body, span=first.span))
        return tuple(out)


def _in_block(region: ir.Region) -> bool:
    return region.level is not None and region.level.depth > Level.BLOCK.depth


def _only_triggers(body: ir.Body) -> bool:
    return all(isinstance(s, ir.Trigger) for s in body)
