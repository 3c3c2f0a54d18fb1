"""`with`, `foreach`, `while`, `if`, `break`, `continue`."""

from __future__ import annotations

import dataclasses

from croq_magic.compiler import integers, ir, syntax
from croq_magic.compiler.check import shapes, waiting
from croq_magic.compiler.check.context import Checker, Symbol, decide, show
from croq_magic.compiler.check.conversions import as_scalar
from croq_magic.compiler.check.events import spin, spun_events
from croq_magic.compiler.check.expressions import condition, constant_integer, evaluate, integer
from croq_magic.compiler.check.names import resolve
from croq_magic.compiler.check.values import Bounded, BoundedTuple, Driver, FutureValue, SpanValue, Value, is_index
from croq_magic.compiler.source import Span
from croq_magic.compiler.types import BOOL, S32


def _body(c: Checker, s: syntax.Stmt, kind: str) -> ir.Body:
    from croq_magic.compiler.check.statements import body

    return body(c, s, kind)


# ----------------------------------------------------------------------------------------------------- binding


def with_(c: Checker, s: syntax.With) -> None:
    with c.scope("`with`", s.span):
        for binding in s.bindings:
            bind(c, binding)
        for tie in s.ties:
            _tie(c, tie)
        inner = s.body
        statements = _body(c, inner, "`with`")
    for statement in statements:
        c.emit(statement)


def bind(c: Checker, binding: syntax.Binding) -> list[syntax.Name]:
    """Declares the bounded variables of a binding; gives the names that a `foreach` of it iterates."""
    extents, is_list = _bound(c, binding)
    whole, names = binding.whole, binding.names
    if names and len(names) != len(extents):
        c.fail("SHP09", f"{len(names)} name{'s' * (len(names) != 1)} for a bound of rank {len(extents)}", binding.span)
    labels = [n.text for n in names]
    if not labels and whole is not None:
        labels = [whole.text] if len(extents) == 1 else [f"{whole.text}{i}" for i in range(len(extents))]
    items = []
    for position, (label, extent) in enumerate(zip(labels, extents, strict=True)):
        span = names[position].span if names else binding.span
        items.append(Bounded(integers.ZERO, extent, Driver(label, False, c.depth + len(c.scopes), span), c.depth))
    for name, item in zip(names, items, strict=False):
        c.declare(name, item)
    if whole is not None:
        c.declare(whole, BoundedTuple(tuple(items)) if is_list or names else items[0])
        return [whole]
    return list(names)


def _bound(c: Checker, binding: syntax.Binding) -> tuple[tuple[ir.Expr, ...], bool]:
    """Extents of a bound, and whether it is a list."""
    e = binding.bound
    if isinstance(e, syntax.Count):
        c.fail("SYN17", "a count is not a bound", e.span, f"`[{e.span.text}]`")
    value: Value
    if isinstance(e, syntax.ShapeLit):
        extents: list[ir.Expr] = []
        for item in e.items:
            inner = evaluate(c, item)
            found = shapes.items_of(inner) if shapes.is_list(inner) else None
            extents += found if found is not None else [_extent(c, inner, item.span)]
        return tuple(_checked(c, x, i, e.span) for i, x in enumerate(extents)), True
    if isinstance(e, syntax.BufferRef):
        value = evaluate(c, syntax.as_derivation(e) or e)
    else:
        value = evaluate(c, e)
    if isinstance(value, (SpanValue, FutureValue)):
        return value.view.extents, True
    items = shapes.items_of(value)
    if isinstance(value, BoundedTuple):
        c.fail(
            "TYP11",
            f"`{e.span.text}` is already bounded",
            e.span,
            "iterate it with `foreach` and no `in`, or use `#` of it as the bound",
        )
    if items is not None:
        return tuple(_checked(c, x, i, e.span) for i, x in enumerate(items)), True
    return (_checked(c, _extent(c, value, e.span), 0, e.span),), False


def _extent(c: Checker, value: Value, span: Span) -> ir.Expr:
    s = as_scalar(c, value, span, span.text)
    if not s.type.is_integer:
        c.fail("SHP06", f"a bound is an integer, found `{s.describe()}`", span)
    return s.expr


def _checked(c: Checker, extent: ir.Expr, dimension: int, span: Span) -> ir.Expr:
    """Bounds may be mutable and are evaluated once; constants must be positive."""
    c.require_bounded(extent, span)
    c.require_countable(extent, span)
    number = integers.value(extent)
    if number is not None and number < 1:
        detail = f" ({span.text})" if not span.text.isdigit() else ""
        c.fail("SHP13" if detail else "SHP01", f"extent {number} of dimension {dimension}{detail}", span)
    return once(c, extent, "bound", span)


def once(c: Checker, e: ir.Expr, name: str, span: Span) -> ir.Expr:
    """An expression evaluated now: a variable of its own when it depends on memory or on mutable variables."""
    if is_index(e):
        return e
    low, high = integers.interval(e)
    var = ir.Var(
        c.fresh(name),
        S32,
        ir.Role.LET,
        None if low is None else integers.constant(low),
        None if high is None else integers.constant(high + 1),
    )
    c.emit(ir.Let(var, e if e.dtype is S32 else ir.Cast(e, S32), span=span))
    return var


def _tie(c: Checker, tie: syntax.Tie) -> None:
    sides: list[Bounded] = []
    for name in (tie.left, tie.right):
        symbol = c.find_here(name.text)
        if symbol is None or not isinstance(symbol.value, (Bounded, BoundedTuple)):
            c.fail("NAM11", f"`{name.text}` is not bound by this `with`", name.span)
        value = symbol.value.items[0] if isinstance(symbol.value, BoundedTuple) else symbol.value
        sides.append(value)
    a, b = sides
    message = f"`{tie.left.text}` has extent {show(a.extent)}, `{tie.right.text}` has extent {show(b.extent)}"
    c.require(ir.Binary("==", a.extent, b.extent, BOOL), "SHP12", message, tie.span)
    left, right = c.scopes[-1].symbols[tie.left.text], c.scopes[-1].symbols[tie.right.text]
    right.value = dataclasses.replace(b, driver=a.driver)
    if isinstance(left.value, BoundedTuple):
        left.value = a


# ----------------------------------------------------------------------------------------------------- foreach


@dataclasses.dataclass(frozen=True)
class _Axis:
    """One loop: the driver it sets (None for an alias), the name the body uses, bounds and step."""

    item: Bounded
    label: str
    lower: ir.Expr
    upper: ir.Expr
    step: int
    alias: syntax.Name | None
    span: Span


def foreach(c: Checker, s: syntax.Foreach) -> None:
    with c.scope("`foreach`", s.span):
        axes: list[_Axis] = []
        for binding in s.bindings:
            for name in bind(c, binding):
                axes += _axes(c, syntax.Range(name.span, name))
        for item in s.ranges:
            axes += _axes(c, item)
        _check_names(c, s)
        _nest(c, s, axes)


def _check_names(c: Checker, s: syntax.Foreach) -> None:
    seen: set[str] = set()
    for item in s.ranges:
        name = item.alias or item.name
        if name.text in seen:
            c.fail("NAM09", f"local loop variable `{name.text}` is used twice in this `foreach`", name.span)
        seen.add(name.text)


def _axes(c: Checker, item: syntax.Range) -> list[_Axis]:
    value = resolve(c, item.name.text, item.name.span).value
    if isinstance(value, Bounded):
        items: tuple[Bounded, ...] = (value,)
    elif isinstance(value, BoundedTuple):
        items = value.items
    else:
        hint = f"`foreach i in {item.name.text}`"
        c.fail(
            "TYP11",
            f"`{item.name.text}` is {'`int`' if not shapes.is_list(value) else value.describe()}, not bounded",
            item.name.span,
            hint,
        )
    axes = []
    for part in items:
        if part.driver is None:
            c.fail(
                "TYP11",
                f"`{item.name.text}` is computed and cannot be iterated",
                item.name.span,
                f"`foreach i in #{item.name.text}`",
            )
        if part.driver.parallel:
            c.fail("TYP12", f"`{item.name.text}` is driven by `parallel` and cannot be iterated", item.name.span)
        lower = once(c, integer(c, item.lower, "a range bound"), "lower", item.span) if item.lower else integers.ZERO
        shift = once(c, integer(c, item.upper, "a range bound"), "upper", item.span) if item.upper else integers.ZERO
        step = item.step.value if item.step else 1
        if step < 1:
            c.fail("SHP01", "the step of a range must be positive", item.span)
        upper = integers.add(part.extent, shift)
        axes.append(
            _Axis(part, item.alias.text if item.alias else part.driver.name, lower, upper, step, item.alias, item.span)
        )
    return axes


def _nest(c: Checker, s: syntax.Foreach, axes: list[_Axis]) -> None:
    unroll = _unroll(c, s, axes)
    with c.scope("`foreach`", s.span, hidden=True):
        skipped = 0
        variables = []
        for axis in axes:
            var = ir.Var(c.fresh(axis.label), S32, ir.Role.LOOP, axis.lower, axis.upper)
            variables.append(var)
            _rebind(c, axis, var)
            if decide(ir.Binary("<", axis.lower, axis.upper, BOOL)) is not True:
                skipped = 1
        c.maybe_skipped += skipped
        c.loops += 1
        statements = _body(c, s.body, "`foreach`")
        c.loops -= 1
        c.maybe_skipped -= skipped
    for position, (axis, var) in reversed(list(enumerate(zip(axes, variables, strict=True)))):
        factor = unroll if position == len(axes) - 1 else 0
        statements = (ir.For(var, axis.lower, axis.upper, axis.step, statements, unroll=factor, span=s.span),)
    for statement in statements:
        c.emit(statement)


def _rebind(c: Checker, axis: _Axis, var: ir.Var) -> None:
    """Inside the loop every name of the driver has the loop's value; with an alias only the alias has."""
    scope = c.scopes[-1]
    bounded = dataclasses.replace(axis.item, value=var)
    if axis.alias is not None:
        scope.symbols[axis.alias.text] = Symbol(axis.alias.text, bounded, axis.alias.span, c.depth)
        return
    driver = axis.item.driver
    seen: set[str] = set()
    for outer in reversed(c.scopes):
        for name, symbol in list(outer.symbols.items()):
            if name in seen:
                continue
            seen.add(name)
            value = symbol.value
            if isinstance(value, Bounded) and value.driver is driver:
                scope.symbols[name] = Symbol(name, dataclasses.replace(value, value=var), symbol.span, symbol.depth)
            elif isinstance(value, BoundedTuple) and any(item.driver is driver for item in value.items):
                items = tuple(dataclasses.replace(i, value=var) if i.driver is driver else i for i in value.items)
                scope.symbols[name] = Symbol(name, BoundedTuple(items), symbol.span, symbol.depth)


def _unroll(c: Checker, s: syntax.Foreach, axes: list[_Axis]) -> int:
    for hint in s.hints:
        if hint.kind != "unroll":
            continue
        trips = integers.value(integers.sub(axes[-1].upper, axes[-1].lower)) if axes else None
        if hint.factor is None:
            return trips or 0
        factor = constant_integer(c, hint.factor, "PAR26", "unroll factor must be a constant, found `{found}`")
        if factor < 1:
            c.fail("PAR26", "unroll factor must be positive", hint.span)
        if trips is not None and factor > trips:
            c.fail("PAR21", f"unroll factor {factor} exceeds the trip count {trips}", hint.span)
        return factor
    return 0


# ------------------------------------------------------------------------------------------------- while and if


def while_(c: Checker, s: syntax.While) -> None:
    events = spun_events(c, s.condition)
    if events:
        spin(c, s, events)
        return
    with c.collect() as steps:  # what the condition does each time it is evaluated: `while (k++ < 5)`, checks
        test = condition(c, s.condition)
    c.loops += 1
    c.guards.append(test)
    statements = _body(c, s.body, "`while`")
    c.guards.pop()
    c.loops -= 1
    if steps:
        leave = ir.If(ir.Unary("!", test, BOOL), (ir.Break(span=s.span),), span=s.condition.span)
        test, statements = ir.TRUE, (*steps, leave, *statements)
    c.emit(ir.While(test, statements, span=s.span))


def if_(c: Checker, s: syntax.If) -> None:
    from croq_magic.compiler.check import calls

    call = calls.as_call(c, s.condition)
    if call is not None:
        var = ir.Var(c.fresh("test"), S32, ir.Role.MUTABLE)
        c.emit(ir.Let(var, None, span=s.span))
        calls.call_into(c, call, var)
        test: ir.Expr = ir.Binary("!=", var, ir.Const(0), BOOL)
    else:
        test = condition(c, s.condition)
    c.guards.append(test)
    futures = waiting.pending(c)
    then = _body(c, s.then, "`if`")
    waits = waiting.take_back(futures)
    other = _body(c, s.other, "`else`") if s.other is not None else ()
    waiting.join(futures, waits, s.condition, bool(test.value) if isinstance(test, ir.Const) else None)
    c.guards.pop()
    if isinstance(test, ir.Const):
        c.emit(ir.Scope(then if test.value else other, span=s.span))
        return
    c.emit(ir.If(test, then, other, span=s.span))


def break_(c: Checker, s: syntax.Break) -> None:
    _require_loop(c, "break", s.span)
    c.emit(ir.Break(span=s.span))


def continue_(c: Checker, s: syntax.Continue) -> None:
    _require_loop(c, "continue", s.span)
    c.emit(ir.Continue(span=s.span))


def _require_loop(c: Checker, word: str, span: Span) -> None:
    if not c.loops:
        c.fail("PAR20", f"`{word}` needs an enclosing loop", span)
