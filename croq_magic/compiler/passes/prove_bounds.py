"""Proves that accesses stay inside their arrays, or says where they do not.

Every element index is judged against its view's extents, every window against its buffer, every subscript of a buffer
array against its slots, with the facts that hold at that place (`proofs.py`). Proven: no code. Disproven: an error with
a witness. Unknown: an entry check where the index depends on dimensions and scalar parameters alone and stands
unguarded, else a dimension in `checks` of the node. `checks` of an access lists dimensions of its view; `checks` of a
view lists dimensions of the base buffer, for an element access those in which the element itself is not proven inside.

Source: language reference, types and shapes, section 10.
"""

from __future__ import annotations

import dataclasses
from typing import ClassVar, TypeVar

from croq_magic.compiler import integers, ir
from croq_magic.compiler.facts import Facts
from croq_magic.compiler.passes import bounds_messages as messages
from croq_magic.compiler.passes.base import Context
from croq_magic.compiler.passes.judge_accesses import Judge
from croq_magic.compiler.passes.loop_invariants import invariants
from croq_magic.compiler.passes.structure import assigned, ends, leaves
from croq_magic.compiler.proofs import Outcome, decide, enter
from croq_magic.compiler.source import Span
from croq_magic.compiler.visit import walk

E = TypeVar("E", bound=ir.Expr)
T = TypeVar("T", bound=ir.Node)
_MOST_CHECKS = 64


@dataclasses.dataclass(frozen=True)
class ProveBounds:
    """Fills in `checks` of accesses and views, adds entry checks, reports what is out of range.

    Without `entry_checks` what they would decide is checked in place: for a function that is built when its arguments
    are bound already.
    """

    entry_checks: bool = True
    name: ClassVar[str] = "prove-bounds"

    def __call__(self, function: ir.Function, context: Context) -> ir.Function:
        prover = _Prover(function, context, _MOST_CHECKS if self.entry_checks else 0)
        facts = Facts()
        for check in function.checks:
            if not check.warning:
                facts = facts.assume(check.condition, guard=False, exact=True)
        body, _ = prover.body(function.body, facts)
        if body is function.body and not prover.judge.entry:
            return function
        return dataclasses.replace(function, body=body, checks=(*function.checks, *prover.judge.entry))


class _Prover:
    """One function. `place` is the span of the statement being looked at, `asserts` what must stand before it,
    `choices` the conditions inside its expressions that lead to what is being looked at."""

    def __init__(self, function: ir.Function, context: Context, most_checks: int) -> None:
        self.report = context.report
        self.judge = Judge(function, context.report, most_checks)
        self.place: Span | None = function.span
        self.before: ir.Body = ()  # what stands in front of the current statement, in the same body
        self.asserts: dict[ir.Assert, None] = {}
        self.choices: list[tuple[ir.Expr, bool]] = []

    # --------------------------------------------------------------------------------------------- statements

    def body(self, body: ir.Body, facts: Facts) -> tuple[ir.Body, Facts]:
        out: list[ir.Stmt] = []
        for position, statement in enumerate(body):
            outer = self.place
            self.place = statement.span or outer
            self.before = body[:position]
            waiting, self.asserts = self.asserts, {}
            new, facts = self.statement(statement, facts)
            self.place = outer
            out += [*self.asserts, *([] if new is None else [new])]
            self.asserts = waiting
        changed = len(out) != len(body) or any(a is not b for a, b in zip(out, body, strict=True))
        return (tuple(out) if changed else body), facts

    def statement(self, s: ir.Stmt, facts: Facts) -> tuple[ir.Stmt | None, Facts]:
        """The statement with its checks (None if nothing is left of it), and what holds after it."""
        match s:
            case ir.Launch():
                region, _ = self.statement(s.kernel.region, facts)
                if region is s.kernel.region:
                    return s, facts
                assert isinstance(region, ir.Region)
                return dataclasses.replace(s, kernel=dataclasses.replace(s.kernel, region=region)), facts
            case ir.Region():
                inner = facts.forget(assigned(s.body))
                return self.nest(s, s.body, inner), inner
            case ir.For():
                s = _with(s, start=self.expr(s.start, facts), stop=self.expr(s.stop, facts))
                after = facts.forget(assigned(s.body))
                inner = enter(s, after)
                new = self.nest(s, s.body, inner.behind_a_guard() if leaves(s.body) else inner)
                return new, after.behind_a_guard() if ends(s.body) else after
            case ir.While():
                before = self.before
                after = facts.forget(assigned(s.body))
                s = _with(s, condition=self.expr(s.condition, after))
                inner = after.assume(s.condition)
                for condition in invariants(before, s):
                    inner = inner.assume(condition, guard=False)
                new = self.nest(s, s.body, inner)
                return new, after.behind_a_guard() if ends(s.body) else after
            case ir.If():
                return self.conditional(s, facts)
            case ir.Masked():
                s = _with(s, predicate=self.expr(s.predicate, facts))
                return self.nest(s, s.body, facts.assume(s.predicate)), facts.forget(assigned(s.body))
            case ir.Scope() | ir.Apply():
                new = self.nest(s, s.body, facts)
                facts = facts.forget(assigned(s.body))
                return new, facts.behind_a_guard() if leaves(s.body) else facts
            case ir.Assert():
                return self.assertion(s, facts), facts.assume(s.condition, guard=False)
            case _:
                new = self.plain(s, facts)
                return new, _after(new, facts)

    def assertion(self, s: ir.Assert, facts: Facts) -> ir.Stmt | None:
        """A run-time check: dropped if it always holds, an error if it surely fails."""
        checked = _with(s, condition=self.expr(s.condition, facts), values=self.parts(s.values, facts))
        ranged = _range_test(s.condition)
        if ranged is not None:
            verdict = self.judge.verdict(*ranged, facts)
            if verdict.outcome is Outcome.DISPROVEN:
                messages.assertion(self.report, s.span or self.place, s, ranged, verdict)
            return None if verdict.outcome is Outcome.PROVEN else checked
        known = decide(s.condition, facts)
        if known is False and not facts.guarded and not facts.trips and s.span is not None:
            self.report.error(s.code, f"assertion always fails: {s.message}", s.span)
        return None if known else checked

    def nest(self, s: ir.Stmt, body: ir.Body, facts: Facts) -> ir.Stmt:
        new, _ = self.body(body, facts)
        return _with(s, body=new)

    def conditional(self, s: ir.If, facts: Facts) -> tuple[ir.Stmt, Facts]:
        s = _with(s, condition=self.expr(s.condition, facts))
        then, _ = self.body(s.then, facts.assume(s.condition))
        other, _ = self.body(s.other, facts.assume(s.condition, truth=False))
        after = facts.forget(assigned(s.then) | assigned(s.other))
        if _never_falls_through(s.then):
            after = after.assume(s.condition, truth=False) if not assigned(s.other) else after
        elif _never_falls_through(s.other):
            after = after.assume(s.condition) if not assigned(s.then) else after
        if leaves(s.then) or leaves(s.other):
            after = after.behind_a_guard()
        return _with(s, then=then, other=other), after

    def plain(self, s: ir.Stmt, facts: Facts) -> ir.Stmt:
        """A statement without statements inside."""
        match s:
            case ir.Store():
                view, index, checks = self.access(s.view, s.index, facts, s.span)
                return _with(s, view=view, index=index, checks=checks, value=self.expr(s.value, facts))
            case ir.Atomic():
                view, index, checks = self.access(s.view, s.index, facts, s.span)
                expected = None if s.expected is None else self.expr(s.expected, facts)
                value = self.expr(s.value, facts)
                return _with(s, view=view, index=index, checks=checks, value=value, expected=expected)
            case ir.Copy():
                return _with(s, src=self.window(s.src, facts), dst=self.window(s.dst, facts))
            case ir.Let() | ir.Assign() | ir.Return() | ir.SpanOp():
                parts: dict[str, object] = {"value": self.part(s.value, facts)}
                if isinstance(s, ir.SpanOp):
                    parts["view"] = self.window(s.view, facts)
                return _with(s, **parts)
            case ir.Declare():
                return _with(s, init=self.part(s.init, facts))
            case ir.Print() | ir.Call():
                return _with(s, args=self.parts(s.args, facts))
            case ir.MmaLoad():
                return _with(s, view=self.window(s.view, facts))
            case ir.MmaStore():
                return _with(s, view=self.masked(s, facts) if s.mask else self.window(s.view, facts))
            case ir.Mma():
                return _with(s, a=self.part(s.a, facts), b=self.part(s.b, facts))
            case _:
                return s

    def parts(self, items: tuple[object, ...], facts: Facts) -> tuple[object, ...]:
        new = tuple(self.part(item, facts) for item in items)
        return items if all(a is b for a, b in zip(new, items, strict=True)) else new

    def part(self, item: object, facts: Facts) -> object:
        if isinstance(item, ir.View):
            return self.window(item, facts)
        if isinstance(item, ir.AddressOf):
            view, index, _ = self.access(item.view, item.index, facts, None)
            return _with(item, view=view, index=index)
        return self.expr(item, facts) if isinstance(item, ir.Expr) else item

    # -------------------------------------------------------------------------------------------- expressions

    def expr(self, e: E, facts: Facts) -> E:
        if not _accesses(e):
            return e  # nothing in it can go wrong
        return self._expr(e, facts)  # type: ignore[return-value]

    def _expr(self, e: ir.Expr, facts: Facts) -> ir.Expr:
        match e:
            case ir.Const() | ir.Var():
                return e
            case ir.Load():
                view, index, checks = self.access(e.view, e.index, facts, e.span)
                return _with(e, view=view, index=index, checks=checks)
            case ir.Select():
                yes, no = facts.assume(e.condition), facts.assume(e.condition, truth=False)
                condition = self._expr(e.condition, facts)
                then = self.chosen(e.then, yes, e.condition, True)
                return _with(e, condition=condition, then=then, other=self.chosen(e.other, no, e.condition, False))
            case ir.Binary(op="&&" | "||"):
                truth, right = e.op == "&&", e.right
                if _accesses(right):
                    right = self.chosen(right, facts.assume(e.left, truth), e.left, truth)
                return _with(e, left=self._expr(e.left, facts), right=right)
            case ir.Binary():
                return _with(e, left=self._expr(e.left, facts), right=self._expr(e.right, facts))
            case ir.Unary() | ir.Cast():
                return _with(e, operand=self._expr(e.operand, facts))
            case ir.Builtin():
                return _with(e, args=self.parts(e.args, facts))
            case _:
                return e

    def chosen(self, e: ir.Expr, facts: Facts, condition: ir.Expr, truth: bool) -> ir.Expr:
        """A part of an expression that is evaluated only if `condition` has this truth."""
        self.choices.append((condition, truth))
        try:
            return self.expr(e, facts)
        finally:
            self.choices.pop()

    # --------------------------------------------------------------------------------------- accesses, windows

    def access(
        self, view: ir.View, index: tuple[ir.Expr, ...], facts: Facts, span: Span | None
    ) -> tuple[ir.View, tuple[ir.Expr, ...], tuple[int, ...]]:
        """An element access: its view and index with their own checks, and the dimensions that are not proven."""
        new = tuple(self.expr(e, facts) for e in index)
        index = new if any(a is not b for a, b in zip(new, index, strict=True)) else index
        slot = self.slot(view, facts)
        checks, base = self.judge.element(view, index, facts, span or self.place)
        return _with(view, checks=base, slot=slot), index, checks

    def window(self, view: ir.View, facts: Facts) -> ir.View:
        """A view used as a whole."""
        slot = self.slot(view, facts)
        return _with(view, slot=slot, checks=self.judge.window(view, facts, view.span or self.place))

    def masked(self, s: ir.MmaStore, facts: Facts) -> ir.View:
        """The window of a masked store."""
        return _with(s.view, slot=self.slot(s.view, facts), checks=self.judge.masked(s, facts))

    def slot(self, view: ir.View, facts: Facts) -> tuple[ir.Expr, ...]:
        """Subscripts of a buffer array; what is not proven is asserted before the statement."""
        slot = tuple(self.expr(e, facts) for e in view.slot)
        self.asserts |= dict.fromkeys(self.judge.slot(view, facts, self.choices, view.span or self.place))
        return slot if any(a is not b for a, b in zip(slot, view.slot, strict=True)) else view.slot


def _with(node: T, **updates: object) -> T:
    """The node with changed fields; itself if none is."""
    changed = {
        name: new for name, new in updates.items() if new is not getattr(node, name) and new != getattr(node, name)
    }
    return dataclasses.replace(node, **changed) if changed else node  # type: ignore[type-var]


def _range_test(e: ir.Expr) -> tuple[ir.Expr, ir.Expr] | None:
    """Index and extent of a condition `0 <= index < extent`."""
    if not (isinstance(e, ir.Binary) and e.op == "&&"):
        return None
    low, high = e.left, e.right
    if not (isinstance(low, ir.Binary) and isinstance(high, ir.Binary) and low.op == ">=" and high.op == "<"):
        return None
    return (high.left, high.right) if low.left == high.left and integers.value(low.right) == 0 else None


def _after(s: ir.Stmt, facts: Facts) -> Facts:
    match s:
        case ir.Let(var=var, value=value) if value is not None and var.role is ir.Role.LET:
            return facts.let(var, value)
        case ir.Break() | ir.Continue() | ir.Yield() | ir.Return():
            return facts.behind_a_guard()
        case _:
            return facts.forget(assigned((s,)))


def _never_falls_through(body: ir.Body) -> bool:
    return bool(body) and isinstance(body[-1], (ir.Break, ir.Continue, ir.Yield, ir.Return))


def _accesses(e: ir.Expr) -> bool:
    """Whether an expression reads memory: nothing else in it can be out of range."""
    return not isinstance(e, (ir.Const, ir.Var)) and any(isinstance(node, ir.Load) for node in walk(e))
