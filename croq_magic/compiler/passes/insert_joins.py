"""Inserts the barriers that the joins of the language need, and no others.

Source: language reference, execution model, section 3. A statement of a block or group runs once, an inner region on
all its threads, a copy into shared storage on all threads of the block. A barrier stands where data cross: before a
statement that touches what an earlier one wrote, or writes what an earlier one still reads, unless one and the same
thread does both. A loop whose next iteration conflicts with this one gets a barrier at its end. Between instances of a
region of threads only collective statements are joined; the rest is the program's own business (section 11).

Each body is summarised by what it touches before its first barrier and after its last one, so that loops and
conditions are looked at once. Inside `inthreads` a join in front of what the block shares out covers all selected
threads (`participants.py`), in front of anything else the unit. There an event orders what one thread does before and
after waiting for it, so that only data written before and read after still need a join.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import ClassVar

from croq_magic.compiler import integers, ir
from croq_magic.compiler.passes.accesses import Access, Mode, Who, of_statement, of_view
from croq_magic.compiler.passes.base import Context
from croq_magic.compiler.passes.map_limits import threads_per_block
from croq_magic.compiler.passes.participants import meeting_level
from croq_magic.compiler.passes.rotations import changes, handles
from croq_magic.compiler.passes.structure import bodies, ends, map_kernels, map_regions
from croq_magic.compiler.targets.simt.threads import threads_of
from croq_magic.compiler.types import BOOL
from croq_magic.compiler.visit import walk

Level = ir.Level
Accesses = tuple[Access, ...]


@dataclasses.dataclass(frozen=True)
class InsertJoins:
    """Adds `Barrier` statements with their reason."""

    name: ClassVar[str] = "insert-joins"

    def __call__(self, function: ir.Function, context: Context) -> ir.Function:
        return map_kernels(function, join_kernel)


def join_kernel(root: ir.Region) -> ir.Region:
    """A kernel with its joins, none of which it has yet."""
    if root.level in (Level.DEVICE, Level.CLUSTER):
        return dataclasses.replace(root, body=map_regions(root.body, join_kernel))
    if threads_per_block(root) == 1:
        return root
    return _Joiner(root).region(root)[0]


@dataclasses.dataclass(frozen=True)
class _Flow:
    """Statements with their barriers; what they touch before the first and after the last barrier that every path
    passes; whether every path passes one."""

    body: ir.Body
    first: Accesses
    last: Accesses
    barrier: bool = False


@dataclasses.dataclass(frozen=True)
class _Need:
    scope: Level
    reason: str


class _Joiner:
    """Works on one kernel. `units` are the levels around the body being joined, `chain` the regions below the block,
    `predicates` those of `inthreads`; `everyone` is the scope of a barrier that all threads meet that may take part in
    a collective statement there."""

    def __init__(self, kernel: ir.Region) -> None:
        self.threads = threads_of(kernel)
        self.units: list[Level] = []
        self.chain: list[ir.Region] = []
        self.predicates: list[ir.Expr] = []
        self.everyone = Level.BLOCK
        self.operations = {n.token.name for n in walk(kernel) if isinstance(n, ir.Mma) and n.token is not None}
        self.written: set[ir.Buffer] = set()
        self.arriving: dict[str, Accesses] = {}
        self.handles = handles(kernel)
        for node in walk(kernel):
            if isinstance(node, ir.Stmt):
                found = of_statement(node)
                self.written |= {a.buffer for a in found if a.mode is not Mode.READ}
                if isinstance(node, ir.Copy) and node.token is not None:
                    writes = _anyhow(of_view(node.dst, Mode.WRITE, Who.BLOCK))
                    self.arriving[node.token.name] = _merge(self.arriving.get(node.token.name, ()), writes)

    @property
    def unit(self) -> Level:
        return self.units[-1]

    def region(self, region: ir.Region) -> tuple[ir.Region, Accesses]:
        """A region with its joins, and all it touches."""
        level = region.level or Level.THREAD
        self.units.append(level)
        inside = [region] if level.depth > Level.BLOCK.depth else []
        self.chain += inside
        flow = self.body(region.body)
        touched = tuple(
            dataclasses.replace(a, who=a.who if a.who is Who.BLOCK else Who.INNER) for a in self.everything(region.body)
        )
        self.units.pop()
        del self.chain[len(self.chain) - len(inside) :]
        if flow.body is not region.body:
            region = dataclasses.replace(region, body=flow.body)
        return region, _merge(touched)

    def body(self, body: ir.Body, before: Accesses = ()) -> _Flow:
        """Statements with their joins. `before` is what the condition or the bounds in front of them read:
        every thread does that, so that none may write it before all have looked."""
        out: list[ir.Stmt] = []
        first: Accesses = ()
        pending: Accesses = before
        passed = waited = False
        changed = False
        moved: frozenset[str] = frozenset()
        for statement in body:
            flow = self.statement(statement)
            need = self.conflict(pending, flow.first)
            if need is not None:
                out.append(ir.Barrier(need.scope, need.reason))
                changed = True
                pending = self.after(pending, need.scope)
                passed = passed or self.joins_all(need.scope)
            changed = changed or flow.body[0] is not statement
            out.extend(flow.body)
            if not passed:
                here = _anyhow(flow.first, moved)
                first = _merge(first, _waited(here) if waited else here)
            changes_here = changes((statement,), self.handles)
            pending, moved = _anyhow(pending, changes_here), moved | changes_here
            if isinstance(statement, (ir.WaitEvent, ir.NamedBarrier)):
                pending, waited = _waited(pending), True
            pending = flow.last if flow.barrier else _merge(pending, flow.last)
            if isinstance(statement, ir.Barrier) and not flow.barrier:
                pending = self.after(pending, statement.scope)
            passed = passed or flow.barrier
        return _Flow(tuple(out) if changed else body, first, pending, passed)

    def statement(self, s: ir.Stmt) -> _Flow:
        own = self.own(s)
        match s:
            case ir.Barrier():
                return _Flow((s,), (), (), self.joins_all(s.scope))
            case ir.Wait():
                return _Flow((s,), (), self.completed(s))
            case ir.Region():
                region, touched = self.region(s)
                touched = _merge(own, touched)
                return _Flow((region,), touched, touched)
            case ir.If():
                then, other = self.body(s.then, own), self.body(s.other, own)
                barrier = then.barrier and other.barrier
                last = _merge(() if barrier else own, then.last, other.last)
                first = _merge(own, then.first, other.first)
                return _Flow((_replace(s, then=then.body, other=other.body),), first, last, barrier)
            case ir.For() | ir.While():
                return self.loop(s, own)
            case ir.Apply():
                touched = self.dealt(s)
                return _Flow((s,), touched, touched)
            case ir.Scope():
                flow = self.body(s.body)
                return _Flow((_replace(s, body=flow.body),), _merge(own, flow.first), flow.last, flow.barrier)
            case ir.Masked():
                return self.masked(s, own)
            case _:
                return _Flow((s,), own, own)

    def loop(self, s: ir.For | ir.While, own: Accesses) -> _Flow:
        if isinstance(s, ir.While) and leaves_early(s.body) and self.conflict(self.everything(s.body), own):
            # Iterations that end early meet no barrier at the end: the condition goes where one can stand before it.
            stop = ir.If(ir.Unary("!", s.condition, BOOL), (ir.Break(span=s.span),), span=s.span)
            return self.loop(dataclasses.replace(s, condition=ir.TRUE, body=(stop, *s.body)), ())
        again = own if isinstance(s, ir.While) else ()
        flow = self.body(s.body, own)
        body, last, barrier = flow.body, flow.last, flow.barrier
        early = leaves_early(s.body)
        first = flow.first
        if early or not barrier:  # accesses of several iterations
            moved = changes(s.body, self.handles)
            first, last = _anyhow(first, moved), _anyhow(last, moved)
        need = None if _once(s) else self.conflict(last, _merge(again, first), next_iteration=True)
        if need is not None:
            join = ir.Barrier(need.scope, need.reason)
            body = (join, *body) if early else (*body, join)
            barrier = barrier or self.joins_all(need.scope)
            last = last if early else self.after(last, need.scope)
        if early:
            last, barrier = self.everything(s.body), False
        sure = isinstance(s, ir.For) and runs(s)
        first = _merge(own, first)
        return _Flow((_replace(s, body=body),), first, _merge(again, () if sure else own, last), barrier and sure)

    def masked(self, s: ir.Masked, own: Accesses) -> _Flow:
        everyone = self.everyone
        self.predicates.append(s.predicate)
        self.everyone = meeting_level(self.threads, self.chain, self.predicates)
        flow = self.body(s.body)
        self.predicates.pop()
        self.everyone = everyone
        new = (_replace(s, body=flow.body),)
        if s.is_async:
            return _Flow(new, own, own)
        joined = tuple(dataclasses.replace(a, who=Who.BLOCK) for a in self.everything(s.body))
        touched = _merge(own, joined)
        return _Flow(new, touched, touched)

    def own(self, s: ir.Stmt) -> Accesses:
        """What a statement touches itself; buffers that the kernel never writes cannot conflict."""
        found = tuple(a for a in of_statement(s) if a.buffer in self.written)
        if self.unit is Level.THREAD:
            found = tuple(a if a.who is Who.BLOCK else dataclasses.replace(a, who=Who.INNER) for a in found)
        return found

    def everything(self, body: ir.Body) -> Accesses:
        found: Accesses = ()
        for statement in body:
            found = _merge(found, self.own(statement), *(self.everything(inner) for inner in bodies(statement)))
            if isinstance(statement, ir.Wait):
                found = _merge(found, self.completed(statement))
        return _anyhow(found, changes(body, self.handles))

    def dealt(self, s: ir.Apply) -> Accesses:
        """What the elements of a fragment touch in memory: no thread knows which are whose."""
        touched = self.everything(s.body)
        if self.unit is Level.THREAD:
            return touched
        return _merge(tuple(a if a.who is Who.BLOCK else dataclasses.replace(a, who=Who.UNIT) for a in touched))

    def completed(self, s: ir.Wait) -> Accesses:
        """Writes that a wait makes complete; handles that were swapped may stand for any transfer."""
        found: Accesses = ()
        for token in s.tokens:
            if token.slot is None and token.name in self.arriving:
                found = _merge(found, self.arriving[token.name])
            elif token.name not in self.operations:
                found = _merge(found, *self.arriving.values())
        return found

    def conflict(self, pending: Accesses, following: Accesses, next_iteration: bool = False) -> _Need | None:
        """The barrier that accesses before and after a point need."""
        filled: dict[str, None] = {}
        reused: dict[str, None] = {}
        scope: Level | None = None
        for before in pending:
            for after in following:
                wanted = self.scope(before, after)
                if wanted is None:
                    continue
                if scope is None or wanted.depth < scope.depth:
                    scope = wanted
                kind = filled if before.mode is not Mode.READ and after.mode is Mode.READ else reused
                kind.setdefault(before.buffer.name)
        if scope is None:
            return None
        parts = []
        later = " in the next iteration" if next_iteration else ""
        if filled:
            parts.append(f"{', '.join(filled)} written" + (f", read{later}" if later else ""))
        if set(reused) - set(filled) or (reused and next_iteration):
            names = [name for name in reused if next_iteration or name not in filled]
            parts.append(f"before {', '.join(names)} {'is' if len(names) == 1 else 'are'} rewritten{later}")
        return _Need(scope, "; ".join(parts))

    def joins_all(self, scope: Level) -> bool:
        """Whether all threads meet in a barrier that may take part in a collective statement."""
        return scope.depth <= self.everyone.depth

    def after(self, pending: Accesses, scope: Level) -> Accesses:
        """What still matters behind a barrier: a barrier of a group orders its own threads only."""
        if self.joins_all(scope):
            return ()
        return _merge(tuple(dataclasses.replace(a, ordered=True) for a in pending))

    def scope(self, before: Access, after: Access) -> Level | None:
        """The scope of the barrier between two accesses, None if they need none."""
        if not before.conflicts(after):
            return None
        group = self.handles.get(before.handle)
        if group is not None and before.handle != after.handle and self.handles.get(after.handle) == group:
            return None
        if (before.waited or after.waited) and after.mode is not Mode.READ:
            return None
        if Who.BLOCK in (before.who, after.who):
            return self.everyone
        if self.unit is Level.THREAD or before.who is after.who is Who.ELECTED:
            return None
        if self.unit is not Level.BLOCK and (before.ordered or after.ordered):
            return None
        return self.unit


def _replace(s: ir.Stmt, **updates: ir.Body) -> ir.Stmt:
    changed = {name: body for name, body in updates.items() if body is not getattr(s, name)}
    return dataclasses.replace(s, **changed) if changed else s  # type: ignore[type-var]


def _merge(*parts: Accesses) -> Accesses:
    return tuple(dict.fromkeys(access for part in parts for access in part))


def _anyhow(accesses: Iterable[Access], moved: frozenset[str] | None = None) -> Accesses:
    """Accesses whose handles (those in `moved`, all if none are given) have another slot at the point of view."""
    return tuple(
        dataclasses.replace(a, handle="") if a.handle and (moved is None or a.handle in moved) else a for a in accesses
    )


def _waited(accesses: Accesses) -> Accesses:
    """Accesses with the wait for an event between them and the point of view."""
    return _merge(tuple(dataclasses.replace(a, waited=True) for a in accesses))


def leaves_early(body: ir.Body) -> bool:
    """Whether an iteration may end early or end the loop; inner loops keep their own `break` and `continue`."""
    for s in body:
        if isinstance(s, (ir.Break, ir.Continue, ir.Yield)):
            return True
        if isinstance(s, (ir.For, ir.While)):
            if ends(s.body):
                return True
        elif not isinstance(s, ir.Region) and any(leaves_early(inner) for inner in bodies(s)):
            return True
    return False


def runs(s: ir.For) -> bool:
    """Whether the loop surely runs at least once."""
    low, _ = integers.interval(integers.sub(s.stop, s.start))
    return low is not None and low > 0


def _once(s: ir.For | ir.While) -> bool:
    """Whether there is surely no second iteration."""
    if not isinstance(s, ir.For):
        return False
    _, high = integers.interval(integers.sub(s.stop, s.start))
    return high is not None and high <= s.step
