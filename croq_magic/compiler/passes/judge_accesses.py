"""Judges single accesses: is an element, a window, a subscript inside its array, with the facts of its place.

Whatever is disproven is reported. What is unknown becomes an entry check, if the arguments of the function decide it,
or is given back for a check in place.
"""

from __future__ import annotations

from collections.abc import Sequence

from croq_magic.compiler import integers, ir, views
from croq_magic.compiler.diagnostics import Report
from croq_magic.compiler.facts import Facts
from croq_magic.compiler.passes import bounds_messages as messages
from croq_magic.compiler.proofs import Outcome, Verdict, judge, requirements
from croq_magic.compiler.source import Span
from croq_magic.compiler.types import BOOL
from croq_magic.compiler.visit import walk


class Judge:
    """The accesses of one function. `entry` holds the entry checks found so far, at most `most_checks`."""

    def __init__(self, function: ir.Function, report: Report, most_checks: int) -> None:
        self.report = report
        self.most_checks = most_checks
        self.entry: dict[ir.Assert, None] = {}
        self.rotated = {v.name for node in walk(function.body) if isinstance(node, ir.Rotate) for v in node.slots}
        self.known: dict[tuple[ir.Expr, ir.Expr, object], Verdict] = {}

    def element(
        self, view: ir.View, index: tuple[ir.Expr, ...], facts: Facts, span: Span | None
    ) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """An element access: the dimensions of the view that are not proven, and those of its base buffer."""
        checks: list[int] = []
        wrong = False
        for dimension, (e, extent) in enumerate(zip(index, view.extents, strict=True)):
            verdict = self.verdict(e, extent, facts)
            if verdict.outcome is Outcome.DISPROVEN:
                wrong = True
                messages.element(self.report, span, view, index, dimension, verdict)
            elif verdict.outcome is Outcome.UNKNOWN and not self.at_entry(
                e, extent, facts, view, index, dimension, span
            ):
                checks.append(dimension)
        base: tuple[int, ...] = ()
        if not wrong and not _is_whole(view):
            base = self.base_element(view, index, facts, span)
        return tuple(checks), base

    def base_element(
        self, view: ir.View, index: tuple[ir.Expr, ...], facts: Facts, span: Span | None
    ) -> tuple[int, ...]:
        """Dimensions of the base buffer in which an element is not proven inside, although the window may stick out."""
        open_dimensions = self.open_dimensions(view, facts)
        if not open_dimensions:
            return ()
        coordinates, _ = views.element(view, index)
        checks = []
        for d in open_dimensions:
            verdict = self.verdict(coordinates[d], view.buffer.shape[d], facts)
            if verdict.outcome is Outcome.DISPROVEN:
                messages.base_element(self.report, span, view, d, verdict)
            elif verdict.outcome is Outcome.UNKNOWN:
                checks.append(d)
        return tuple(checks)

    def window(self, view: ir.View, facts: Facts, span: Span | None) -> tuple[int, ...]:
        """A view used as a whole: the dimensions of its base buffer that are not proven."""
        if _is_whole(view) or view.zfill:
            return ()
        checks = []
        for d, (e, extent) in enumerate(zip(view.map, view.buffer.shape, strict=True)):
            verdict = self.verdict(e, extent, facts)
            if verdict.outcome is Outcome.DISPROVEN:
                messages.window(self.report, span, view, d, verdict)
            elif verdict.outcome is Outcome.UNKNOWN:
                checks.append(d)
        return tuple(checks)

    def masked(self, s: ir.MmaStore, facts: Facts) -> tuple[int, ...]:
        """The window of a masked store: what the mask lets through must lie inside."""
        view = s.view
        for coord, limit in zip(view.coords[::-1] if s.transpose else view.coords, s.mask, strict=False):
            facts = facts.assume(ir.Binary("<", coord, limit, BOOL))
        return self.open_dimensions(view, facts)

    def open_dimensions(self, view: ir.View, facts: Facts) -> tuple[int, ...]:
        """Dimensions of the base buffer in which the window is not proven inside."""
        return tuple(
            d
            for d, (e, extent) in enumerate(zip(view.map, view.buffer.shape, strict=True))
            if self.verdict(e, extent, facts).outcome is not Outcome.PROVEN
        )

    def slot(
        self, view: ir.View, facts: Facts, choices: Sequence[tuple[ir.Expr, bool]], span: Span | None
    ) -> list[ir.Assert]:
        """The subscripts of a buffer array: what must be asserted before the statement, because it is not proven.
        `choices` are the conditions inside the statement, with their truth, under which the subscripts are used."""
        open_subscripts = []
        for e, count in zip(view.slot, view.buffer.slots, strict=False):
            if isinstance(e, ir.Var) and e.name in self.rotated:
                continue
            verdict = self.verdict(e, integers.constant(count), facts)
            if verdict.outcome is Outcome.DISPROVEN:
                messages.subscript(self.report, span, view, e, count, verdict)
            elif verdict.outcome is Outcome.UNKNOWN:
                open_subscripts.append(_subscript_assert(view, e, count, choices, span))
        return open_subscripts

    def verdict(self, e: ir.Expr, extent: ir.Expr, facts: Facts) -> Verdict:
        key = (e, extent, (facts.conditions, facts.guarded, tuple(facts.values.items()), tuple(facts.steps.items())))
        known = self.known.get(key)
        if known is None:
            known = self.known[key] = judge(e, extent, facts)
        return known

    def at_entry(
        self,
        e: ir.Expr,
        extent: ir.Expr,
        facts: Facts,
        view: ir.View,
        index: tuple[ir.Expr, ...],
        dimension: int,
        span: Span | None,
    ) -> bool:
        """Whether an entry check decides an index; adds it."""
        condition = requirements(e, extent, facts)
        if condition is None or len(self.entry) >= self.most_checks:
            return False
        values = (
            (e,) if not _has_indices(e) else tuple(dict.fromkeys(v for v in walk(condition) if isinstance(v, ir.Var)))
        )
        text = messages.index_text(span, view, index, dimension)
        limit = messages.extent_text(extent)
        message = f"index `{text}` of `{view.buffer.name}` (dim {dimension}), valid range is [0, {limit})"
        self.entry[ir.Assert(condition, message, "RTA05", values, span=span)] = None
        return True


def _subscript_assert(
    view: ir.View, e: ir.Expr, count: int, choices: Sequence[tuple[ir.Expr, bool]], span: Span | None
) -> ir.Assert:
    low, high = ir.Binary(">=", e, integers.ZERO, BOOL), ir.Binary("<", e, integers.constant(count), BOOL)
    inside = ir.Binary("&&", low, high, BOOL)
    for condition, truth in reversed(choices):
        other = ir.Unary("!", condition, BOOL) if truth else condition
        inside = ir.Binary("||", other, inside, BOOL)
    message = f"subscript `{messages.extent_text(e)}` of `{view.buffer.name}`, valid range is [0, {count})"
    return ir.Assert(inside, message, "VEW13", (e,), span=span)


def _is_whole(view: ir.View) -> bool:
    return view.map == view.coords and view.extents == view.buffer.shape


def _has_indices(e: ir.Expr) -> bool:
    roles = (ir.Role.REGION, ir.Role.LOOP, ir.Role.COORD)
    return any(isinstance(node, ir.Var) and node.role in roles for node in walk(e))
