"""Warns about races: two instances that touch one element, at least one of them writing, with nothing between.

Source: language reference, execution model, section 11.1. Only what is certain is said: every warning has a witness
that isl found in an exact description of both accesses. Unknown conditions, data-dependent indices and foreign calls
end the reasoning silently. Two questions are asked:
- different blocks of one launch, for global storage: nothing orders them, unless the launch is cooperative or they
  have events in common;
- different instances of the levels inside one block, for accesses between the same two joins or barriers.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator
from typing import ClassVar

from croq_magic.compiler import affine, integers, ir, views
from croq_magic.compiler.diagnostics import Note
from croq_magic.compiler.passes.access_sites import Site, collect
from croq_magic.compiler.passes.accesses import Mode
from croq_magic.compiler.passes.base import Context
from croq_magic.compiler.presburger import Problem
from croq_magic.compiler.visit import rewrite, substitute, walk

Level = ir.Level
_MOST_PAIRS = 200
_MOST_QUESTIONS = 40
_SECOND = "'"


@dataclasses.dataclass(frozen=True)
class ProveRaces:
    """Reports RAC01; the function stays as it is."""

    name: ClassVar[str] = "prove-races"

    def __call__(self, function: ir.Function, context: Context) -> ir.Function:
        for launch in function.launches():
            _Races(launch.kernel.region, context).report()
        return function


@dataclasses.dataclass(frozen=True)
class _Meeting:
    """Two instances and the element where they meet, as text."""

    first: str
    second: str
    element: str


class _Races:
    def __init__(self, kernel: ir.Region, context: Context) -> None:
        self.context = context
        self.sites = collect(kernel)
        self.ordered = kernel.attributes.cooperative or any(map(_joins_blocks, walk(kernel)))
        self.questions = 0
        self.places: dict[int, tuple[ir.Expr, ...]] = {}

    def report(self) -> None:
        told: set[ir.Buffer] = set()
        for first, second in itertools.islice(self.pairs(), _MOST_PAIRS):
            buffer = first.view.buffer
            if buffer in told:
                continue
            found = self.between_blocks(first, second) or self.within_block(first, second)
            if found is not None:
                told.add(buffer)
                self.warn(first, second, found)

    def pairs(self) -> Iterator[tuple[Site, Site]]:
        same: dict[ir.Buffer, list[Site]] = {}
        for site in self.sites:
            same.setdefault(site.view.buffer, []).append(site)
        passed: dict[ir.Buffer, int] = dict.fromkeys(same, 0)
        for first in self.sites:
            buffer = first.view.buffer
            position = passed[buffer]
            passed[buffer] += 1
            for second in same[buffer][position:]:
                modes = {first.mode, second.mode}
                if modes <= {Mode.READ} or modes <= {Mode.ATOMIC}:
                    continue
                if first.constant is not None and first.constant == second.constant:
                    continue  # the same value, whoever comes last
                yield first, second

    def between_blocks(self, a: Site, b: Site) -> _Meeting | None:
        if a.view.buffer.storage is not ir.Storage.GLOBAL or self.ordered:
            return None
        # The regions of blocks in one cluster and the cluster's own statements are joined: clusters must differ.
        differing = tuple(v for v in a.instance if v.name in a.block_indices & b.block_indices)
        return self.ask(a, b, differing, shared=frozenset())

    def within_block(self, a: Site, b: Site) -> _Meeting | None:
        if a.collective or b.collective or a.regions != b.regions or a.segment != b.segment:
            return None
        differing = tuple(v for v in a.instance if v.name not in a.block_indices)
        return self.ask(a, b, differing, shared=a.block_indices | (a.tied & b.tied))

    def ask(self, a: Site, b: Site, differing: tuple[ir.Var, ...], shared: frozenset[str]) -> _Meeting | None:
        """Two instances that meet in one element and differ in some of these indices; None if there are none or it is
        not known. Both have the same values of `shared` indices."""
        if not differing or self.apart(a, b, differing, shared):
            return None
        if self.questions >= _MOST_QUESTIONS:
            return None
        self.questions += 1
        problem = Problem()
        for site, second in ((a, False), (b, True)):
            for v in (*site.instance, *site.variables):
                problem.affine(_renamed(v, shared) if second else v)
            for condition, truth in site.facts.conditions:
                problem.assume(_renamed(condition, shared) if second else condition, truth)
        for one, other in zip(self.place(a), self.place(b), strict=True):
            problem.require(f"{problem.affine(one)} = {problem.affine(_renamed(other, shared))}")
        unequal = [f"{problem.affine(v)} != {problem.affine(_renamed(v, shared))}" for v in differing]
        problem.require(" or ".join(unequal))
        if not problem.exact:
            return None
        point = problem.point()
        if point is None:
            return None
        element = [integers.value(_at(e, point)) for e in self.place(a)[len(a.view.slot) :]]
        shown = "" if None in element else f" {element}"
        return _Meeting(_instance(a, point), _instance(b, {**point, **_unprimed(point)}), shown)

    def apart(self, a: Site, b: Site, differing: tuple[ir.Var, ...], shared: frozenset[str]) -> bool:
        """Whether different instances surely touch different elements, without isl: one index, distinct in all."""
        if not all(integers.equal(x, y) for x, y in zip(self.place(a), self.place(b), strict=True)):
            return False
        moving = [v for v in (*a.instance, *a.variables) if v.name not in shared]
        names = affine.names(self.place(a)) | {v.name for v in differing}
        dims = [
            affine.Dim(v, integers.sub(v.upper, v.lower))
            for v in moving
            if v.name in names and v.lower is not None and v.upper is not None
        ]
        return len(dims) == len([v for v in moving if v.name in names]) and affine.distinct(
            ir.Load(a.view, a.index), dims
        )

    def place(self, site: Site) -> tuple[ir.Expr, ...]:
        """Slot and base coordinates that a site touches."""
        found = self.places.get(id(site))
        if found is None:
            coordinates, _ = views.element(site.view, site.index)
            found = tuple(site.facts.resolve(e) for e in (*site.view.slot, *coordinates))
            self.places[id(site)] = found
        return found

    def warn(self, a: Site, b: Site, at: _Meeting) -> None:
        span = b.span or a.span
        if span is None:
            return
        message = f"race on `{a.view.buffer.name}`: "
        if a.mode is not Mode.READ and b.mode is not Mode.READ:
            message += f"{at.first} and {at.second} write the same element{at.element}"
        else:
            writer, reader = (at.second, at.first) if a.mode is Mode.READ else (at.first, at.second)
            message += f"{writer} writes the element{at.element} that {reader} reads"
        notes = [Note("the other access", a.span)] if a.span is not None and a.span != span else []
        hint = "give each instance its own element, use an atomic, or separate the two by a barrier"
        self.context.report.warning("RAC01", message, span, notes=notes, hint=hint)


def _joins_blocks(node: ir.Node) -> bool:
    """Whether blocks may wait for each other at a statement."""
    if isinstance(node, ir.Barrier):
        return node.scope is Level.CLUSTER
    return isinstance(node, ir.Trigger) and (node.cluster or node.event.storage is ir.Storage.GLOBAL)


def _renamed(e: ir.Expr, shared: frozenset[str]) -> ir.Expr:
    """The expression in the second instance's variables; dimensions and parameters are the same for both."""

    def change(node: ir.Node) -> ir.Node | None:
        if not isinstance(node, ir.Var) or node.role in (ir.Role.DIM, ir.Role.PARAM):
            return None
        if node.name in shared or node.name.endswith(_SECOND):
            return None
        lower = None if node.lower is None else rewrite(node.lower, change)
        upper = None if node.upper is None else rewrite(node.upper, change)
        return dataclasses.replace(node, name=node.name + _SECOND, lower=lower, upper=upper)

    return rewrite(e, change)


def _unprimed(point: dict[str, int]) -> dict[str, int]:
    return {name.removesuffix(_SECOND): value for name, value in point.items() if name.endswith(_SECOND)}


def _at(e: ir.Expr, point: dict[str, int]) -> ir.Expr:
    values: dict[ir.Var, ir.Expr] = {
        node: integers.constant(point[node.name]) for node in walk(e) if isinstance(node, ir.Var) and node.name in point
    }
    return substitute(e, values)


def _instance(site: Site, point: dict[str, int]) -> str:
    """`p = 1, q = 3`: one instance."""
    return ", ".join(f"{v.name} = {point[v.name]}" for v in site.instance if v.name in point)
