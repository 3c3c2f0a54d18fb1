"""The element accesses of a kernel with all that decides which elements they touch: for proofs about races.

A site is one access: its view and index, the indices of the regions it stands in, the loop and view variables that
run at it, and the conditions on it. Sites whose elements are not known exactly are left out.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from croq_magic.compiler import integers, ir
from croq_magic.compiler.facts import Facts, may_wrap
from croq_magic.compiler.passes.accesses import Mode
from croq_magic.compiler.passes.structure import assigned, inner_regions, leaves
from croq_magic.compiler.source import Span
from croq_magic.compiler.visit import walk

_COMMON = (ir.Storage.SHARED, ir.Storage.GLOBAL)


@dataclasses.dataclass(frozen=True)
class Site:
    """`regions` are the regions around, outer to inner; `instance` their indices (for a collective statement those of
    the block alone); `variables` run at the site: loops and coordinates of a window. `tied` loops contain joins, so
    all instances are in the same iteration; `segment` numbers the stretches between joins. `constant` is the value of a
    store of a constant."""

    view: ir.View
    index: tuple[ir.Expr, ...]
    mode: Mode
    regions: tuple[ir.Region, ...]
    instance: tuple[ir.Var, ...]
    block_indices: frozenset[str]
    variables: tuple[ir.Var, ...]
    tied: frozenset[str]
    segment: int
    facts: Facts
    collective: bool
    constant: ir.Const | None
    span: Span | None


@dataclasses.dataclass(frozen=True)
class _State:
    regions: tuple[ir.Region, ...] = ()
    loops: tuple[ir.Var, ...] = ()
    tied: frozenset[str] = frozenset()
    facts: Facts = dataclasses.field(default_factory=Facts)
    exact: bool = True

    def having(self, facts: Facts) -> _State:
        return dataclasses.replace(self, facts=facts)

    def inexact(self) -> _State:
        return dataclasses.replace(self, exact=False)

    def assume(self, condition: ir.Expr, truth: bool = True) -> _State:
        state = self.having(self.facts.assume(condition, truth))
        resolved = self.facts.resolve(condition)
        return state if _is_exact(resolved) else state.inexact()


def collect(kernel: ir.Region) -> list[Site]:
    """The sites of a kernel, in program order."""
    collector = _Collector(kernel)
    collector.region(kernel, _State())
    return collector.sites


class _Collector:
    def __init__(self, kernel: ir.Region) -> None:
        self.sites: list[Site] = []
        self.segment = 0

    def region(self, region: ir.Region, state: _State) -> None:
        self.segment += 1
        regions = (*state.regions, region)
        self.body(region.body, dataclasses.replace(state, regions=regions))
        self.segment += 1

    def body(self, body: ir.Body, state: _State) -> None:
        for statement in body:
            state = self.statement(statement, state)

    def statement(self, s: ir.Stmt, state: _State) -> _State:
        after = state.having(state.facts.forget(assigned((s,))))
        if leaves((s,)):
            after = after.inexact()
        match s:
            case ir.Region():
                self.region(s, after)
            case ir.For():
                self.expressions((s.start, s.stop), state, s.span)
                self.loop(s, state)
            case ir.While():
                self.body(s.body, after.inexact())
            case ir.If():
                self.expressions((s.condition,), state, s.span)
                self.body(s.then, state.assume(s.condition))
                self.body(s.other, state.assume(s.condition, truth=False))
                if leaves(s.then) and not leaves(s.other) and not any(leaves((x,)) for x in s.then[:-1]):
                    after = state.having(after.facts).assume(s.condition, truth=False)
            case ir.Masked():
                self.segment += 1
                self.body(s.body, state.assume(s.predicate) if not s.is_async else state.inexact())
                self.segment += 1
            case ir.Scope():
                self.body(s.body, state)
            case ir.Barrier() | ir.Wait() | ir.WaitEvent() | ir.Trigger() | ir.NamedBarrier():
                self.segment += 1
            case ir.Let(value=value) if value is not None:
                self.expressions((value,), state, s.span)
                if s.var.role is ir.Role.LET:
                    after = state.having(state.facts.let(s.var, value))
            case _:
                self.plain(s, state)
        return after

    def loop(self, s: ir.For, state: _State) -> None:
        inside = state.having(state.facts.forget(assigned(s.body)))
        joins = bool(inner_regions(s.body)) or any(isinstance(n, (ir.Barrier, ir.Masked)) for n in walk(s.body))
        tied = state.tied | {s.var.name} if joins else state.tied
        if joins:
            self.segment += 1
        exact = inside.exact and not leaves(s.body) and s.step == 1
        self.body(s.body, dataclasses.replace(inside, loops=(*state.loops, s.var), tied=tied, exact=exact))
        if joins:
            self.segment += 1

    def plain(self, s: ir.Stmt, state: _State) -> None:
        match s:
            case ir.Store():
                self.expressions((*s.index, s.value), state, s.span)
                value = s.value if isinstance(s.value, ir.Const) and not s.op else None
                self.add(s.view, s.index, Mode.WRITE, state, s.span, constant=value)
            case ir.Atomic():
                self.expressions((*s.index, s.value, s.expected), state, s.span)
                self.add(s.view, s.index, Mode.ATOMIC, state, s.span)
            case ir.Assign():
                self.expressions((s.value,), state, s.span)
            case ir.Print():
                self.expressions(s.args, state, s.span)
            case ir.Copy():
                collective = s.src.buffer.storage in _COMMON and s.dst.buffer.storage in _COMMON
                if not s.src.zfill:
                    self.window(s.src, Mode.READ, state, s.span, collective)
                if not s.partial:
                    self.window(s.dst, Mode.WRITE, state, s.span, collective)
            case ir.SpanOp():
                collective = s.view.buffer.storage in _COMMON
                if isinstance(s.value, ir.View):
                    self.window(s.value, Mode.READ, state, s.span, collective)
                self.window(s.view, Mode.WRITE, state, s.span, collective)

    def expressions(self, items: Iterable[object], state: _State, span: Span | None) -> None:
        """Reads in expressions; those that are evaluated on a condition only are not exact."""
        for item in items:
            if not isinstance(item, ir.Expr):
                continue
            conditional = {
                id(inner)
                for node in walk(item)
                if isinstance(node, ir.Select) or (isinstance(node, ir.Binary) and node.op in ("&&", "||"))
                for inner in walk(node)
                if isinstance(inner, ir.Load)
            }
            for node in walk(item):
                if isinstance(node, ir.Load) and id(node) not in conditional:
                    self.add(node.view, node.index, Mode.READ, state, node.span or span)

    def window(self, view: ir.View, mode: Mode, state: _State, span: Span | None, collective: bool) -> None:
        state = dataclasses.replace(state, loops=(*state.loops, *view.coords))
        self.add(view, view.coords, mode, state, view.span or span, collective)

    def add(
        self,
        view: ir.View,
        index: tuple[ir.Expr, ...],
        mode: Mode,
        state: _State,
        span: Span | None,
        collective: bool = False,
        constant: ir.Const | None = None,
    ) -> None:
        if view.buffer.storage not in _COMMON or not state.exact or view.checks:
            return
        place = (*index, *view.map, *view.slot)
        if not all(_is_exact(state.facts.resolve(e)) for e in place):
            return
        block = [r for r in state.regions if r.level is not None and r.level.depth <= ir.Level.BLOCK.depth]
        regions = block if collective else state.regions
        self.sites.append(
            Site(
                view=view,
                index=index,
                mode=mode,
                regions=state.regions,
                instance=tuple(v for r in regions for v in r.indices if integers.value(_count(v)) != 1),
                block_indices=frozenset(v.name for r in block for v in r.indices),
                variables=state.loops,
                tied=state.tied,
                segment=self.segment,
                facts=state.facts,
                collective=collective,
                constant=constant,
                span=span,
            )
        )


def _count(v: ir.Var) -> ir.Expr:
    return v.upper if v.upper is not None else integers.ZERO


def _is_exact(e: ir.Expr) -> bool:
    """Whether an expression is arithmetic on indices, dimensions and parameters alone."""
    return not any(
        isinstance(node, ir.Load)
        or may_wrap(node)
        or (isinstance(node, ir.Var) and node.role in (ir.Role.MUTABLE, ir.Role.LET))
        for node in walk(e)
    )
