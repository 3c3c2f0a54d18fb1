"""Where the threads of a unit must meet for the sake of fragments in shared storage, and nowhere else.

A barrier stands before a statement that touches an element which another thread may have stored since the last one, or
stores what another may still read. Statements in which every thread touches its own elements need none between them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from croq_magic.compiler import ir
from croq_magic.compiler.passes.fragment_layouts import Along
from croq_magic.compiler.passes.fragment_plan import Plan, dealt_dims, elements, primary
from croq_magic.compiler.passes.structure import bodies, leaves


class Touch(NamedTuple):
    """`what` is a fragment in shared storage, or the id of a reduction that has an array there; `others`: elements
    that belong to other threads."""

    what: ir.Fragment | int
    owner: ir.Level
    stores: bool
    others: bool


Pending = frozenset[Touch]


def fences(block: ir.Region, plan: Plan, arrays: Iterable[int]) -> set[int]:
    """Statements (by id) before which the threads of their fragments' unit must meet. `arrays`: reductions that have an
    array in shared storage, with a barrier of their own between storing and reading it."""
    if not plan.shared and not arrays:
        return set()
    finder = _Finder(plan, frozenset(arrays))
    finder.body(block.body, frozenset())
    return finder.found


def touches(s: ir.Stmt, plan: Plan) -> list[Touch]:
    """What a statement touches of fragments in shared storage."""
    found: list[Touch] = []
    subject = primary(s)
    if subject is None:
        return found

    def add(fragment: ir.Fragment, stores: bool, own: bool) -> None:
        if fragment in plan.shared:
            found.append(Touch(fragment, fragment.owner, stores, not own))

    if isinstance(s, ir.Mma):
        for operand in (s.a, s.b, s.metadata):
            if isinstance(operand, ir.FragmentRef):
                add(operand.fragment, False, False)
        add(subject, True, True)
    elif isinstance(s, ir.FragmentReduce):
        by_lanes = id(s) in plan.by_lanes
        add(s.source.fragment, False, by_lanes)
        add(subject, True, not by_lanes)
    elif isinstance(s, ir.Apply):
        all_dims = id(s) in plan.by_lanes or len(dealt_dims(s)) == len(s.indices)
        for fragment, index, stores in elements(s):
            own = all_dims and plan.own(fragment, index, subject, s.indices)
            add(fragment, stores, own and not (stores and id(s) in plan.by_lanes))
    else:
        add(subject, not isinstance(s, ir.MmaStore), id(s) not in plan.copies)
        source = s.value if isinstance(s, ir.FragmentOp) else s.source if isinstance(s, ir.FragmentCopy) else None
        if isinstance(source, ir.FragmentRef):
            at: tuple[ir.Expr, ...] = tuple(ir.Var(f"d{d}") for d in range(len(subject.shape)))
            add(source.fragment, False, plan.own(source.fragment, at, subject, at))
    if isinstance(plan.layout(subject), Along) and subject in plan.shared:  # all holders would store it
        raise AssertionError("a replicated vector in shared storage")
    return found


class _Finder:
    def __init__(self, plan: Plan, arrays: frozenset[int]) -> None:
        self.plan = plan
        self.arrays = arrays
        self.found: set[int] = set()

    def body(self, body: ir.Body, pending: Pending) -> Pending:
        for s in body:
            pending = self.statement(s, pending)
        return pending

    def statement(self, s: ir.Stmt, pending: Pending) -> Pending:
        match s:
            case ir.Barrier():
                return _after(pending, s.scope)
            case ir.If():
                return self.body(s.then, pending) | self.body(s.other, pending)
            case ir.For() | ir.While():
                return self.loop(s, pending)
            case ir.Apply():
                return self.touch(s, pending)
            case _:
                if not bodies(s):
                    return self.touch(s, pending)
                after = pending
                for inner in bodies(s):
                    after = self.body(inner, after)
                return after | pending if isinstance(s, ir.Masked) else after

    def loop(self, s: ir.For | ir.While, pending: Pending) -> Pending:
        while True:
            after = self.body(s.body, pending)
            if leaves(s.body):  # iterations may end anywhere
                after |= self.everything(s.body)
            if after <= pending:
                return pending
            pending |= after

    def everything(self, body: ir.Body) -> Pending:
        found: set[Touch] = set()
        for s in body:
            found |= set(self.touches(s))
            for inner in bodies(s) if not isinstance(s, ir.Apply) else ():
                found |= self.everything(inner)
        return frozenset(found)

    def touches(self, s: ir.Stmt) -> list[Touch]:
        found = touches(s, self.plan)
        return [*found, *self.array(s, True), *self.array(s, False)]

    def array(self, s: ir.Stmt, stores: bool) -> list[Touch]:
        subject = primary(s) if id(s) in self.arrays else None
        return [] if subject is None else [Touch(id(s), subject.owner, stores, True)]

    def touch(self, s: ir.Stmt, pending: Pending) -> Pending:
        here, stored = touches(s, self.plan), self.array(s, True)
        subject = primary(s)
        if subject is None:
            return pending
        if any(_conflict(a, b) for a in pending for b in (*here, *stored)):
            self.found.add(id(s))
            pending = _after(pending, subject.owner)
        if stored:  # there is a barrier between storing and reading it
            pending = _after(pending, subject.owner).union(self.array(s, False))
        return pending.union(here)


def _conflict(a: Touch, b: Touch) -> bool:
    """One of the two stores, one touches elements of other threads."""
    return a.what == b.what and (a.stores or b.stores) and (a.others or b.others)


def _after(pending: Pending, scope: ir.Level) -> Pending:
    """What still matters behind a barrier."""
    return frozenset(touch for touch in pending if touch.owner.depth < scope.depth)
