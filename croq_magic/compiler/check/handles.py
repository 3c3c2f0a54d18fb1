"""Handles: what `swap`, `rotate` and `select` act on becomes slots of one buffer (DMA10 to DMA15).

Futures that are exchanged, and buffers that one `select` chooses from, are found before a function is checked. All
members of such a group share one buffer with a slot each. A future's slot is a variable, so `swap` is an exchange of
two integers; `select` of buffers is arithmetic on their slots.
"""

from __future__ import annotations

import dataclasses

from croq_magic.compiler import integers, ir, syntax, views
from croq_magic.compiler.check.context import Checker, Group, Skip, in_range, show
from croq_magic.compiler.check.names import require_bound, resolve
from croq_magic.compiler.check.values import ChoiceValue, FutureValue, Poison, SpanValue, Value
from croq_magic.compiler.source import Span
from croq_magic.compiler.types import BOOL, S32, DType


def find_groups(function: syntax.Function) -> dict[str, Group]:
    """Groups by member name; overlapping groups are joined."""
    groups: dict[str, Group] = {}
    for node in syntax.walk(function.body):
        if isinstance(node, syntax.Swap):
            _join(groups, [node.left.text, node.right.text], rotates=True)
        elif isinstance(node, syntax.Rotate):
            _join(groups, [name.text for name in node.names], rotates=True)
        elif isinstance(node, syntax.Select):
            names = [n for n in (_plain_name(choice) for choice in node.choices) if n is not None]
            if len(names) == len(node.choices):
                _join(groups, names, rotates=False)
    return groups


def _plain_name(e: syntax.Expr) -> str | None:
    e = syntax.strip_parens(e)
    if isinstance(e, syntax.NameRef):
        return e.text
    if isinstance(e, syntax.View) and not e.ops:
        return _plain_name(e.base)
    if isinstance(e, syntax.BufferRef) and not e.subscripts:
        return e.name.text
    return None


def _join(groups: dict[str, Group], names: list[str], rotates: bool) -> None:
    merged = Group([], rotates)
    for name in names:
        old = groups.get(name)
        for member in old.names if old else [name]:
            if member not in merged.names:
                merged.names.append(member)
        merged.rotates = merged.rotates or (old is not None and old.rotates)
    for name in merged.names:
        groups[name] = merged


def shared_slot(
    c: Checker,
    name: str,
    dtype: DType,
    storage: ir.Storage,
    extents: tuple[ir.Expr, ...],
    layout: int,
    span: Span,
    place: FutureValue | None = None,
) -> ir.View | None:
    """The view of a group member's slot; None for a name that is in no group.

    The buffer is declared with the first member (at `place`, if that is a placeholder). A member of another type gets
    None too and so a buffer of its own; the `swap` or `select` that names it says what is wrong.
    """
    group = c.groups.get(name)
    if group is None or len(group.names) < 2:
        return None
    if group.buffer is None:
        label = "_".join(group.names)
        label = c.fresh(label if len(label) <= 24 else f"{group.names[0]}_slots")
        group.buffer = ir.Buffer(label, dtype, storage, extents, (len(group.names),), layout, 128, span=span)
        group.scope = c.scope_of(name) or c.scopes[-1]
        _emit(c, place, ir.Declare(group.buffer, span=span))
    buffer = group.buffer
    same = len(extents) == len(buffer.shape) and all(map(integers.equal, extents, buffer.shape))
    if buffer.dtype is not dtype or buffer.storage is not storage or not same or buffer.layout != layout:
        return None
    slot: ir.Expr = integers.constant(group.names.index(name))
    if group.rotates:
        slot = _slot_variable(c, name, place, span)
        _adopt_placeholders(c, group, name, span)
    return views.whole(buffer, (slot,), span)


def _emit(c: Checker, place: FutureValue | None, statement: ir.Stmt) -> None:
    if place is not None and place.place is not None:
        place.emit_at_place(statement)
    else:
        c.emit(statement)


def _slot_variable(c: Checker, name: str, place: FutureValue | None, span: Span) -> ir.Var:
    """The slot of a future whose buffer is exchanged: a variable that starts at the future's own slot."""
    group = c.groups[name]
    count = integers.constant(len(group.names))
    var = ir.Var(c.fresh(f"{name}_slot"), S32, ir.Role.MUTABLE, integers.ZERO, count)
    _emit(c, place, ir.Let(var, integers.constant(group.names.index(name)), span=span))
    return var


def _adopt_placeholders(c: Checker, group: Group, bound: str, span: Span) -> None:
    """Placeholders of a group get their slots as soon as the buffer exists, so that `swap` can exchange them."""
    assert group.buffer is not None
    for name in group.names:
        symbol = c.find(name)
        if (
            name != bound
            and symbol is not None
            and isinstance(symbol.value, FutureValue)
            and symbol.value.bound is None
        ):
            slot = _slot_variable(c, name, symbol.value, span)
            symbol.value.bound = views.whole(group.buffer, (slot,), span)


# ------------------------------------------------------------------------------------------------- placeholders


def placeholder(c: Checker, s: syntax.Placeholder) -> None:
    """`f = dma.any`: a name that transfers are bound to later, as often as the program likes."""
    name = s.result.text
    exchanged = name in c.groups and c.groups[name].rotates
    transfers = (node for node in syntax.walk(c.function.body) if isinstance(node, syntax.Dma))
    if not exchanged and not any(node.result and node.result.text == name for node in transfers):
        c.fail("DMA11", f"placeholder `{name}` is never bound", s.result.span, "assign a transfer to it")
    value = FutureValue(None, None, s.result.span, c.depth, exchanged=True, place=(c.body, len(c.body)))
    c.declare(s.result, value)
    group = c.groups.get(name)
    if exchanged and group is not None and group.buffer is not None:
        slot = _slot_variable(c, name, value, s.span)
        value.bound = views.whole(group.buffer, (slot,), s.span)


# ------------------------------------------------------------------------------------------------ swap and rotate


def swap(c: Checker, s: syntax.Swap) -> None:
    _rotate(c, (s.left, s.right), s.span)


def rotate(c: Checker, s: syntax.Rotate) -> None:
    _rotate(c, s.names, s.span)


def _rotate(c: Checker, names: tuple[syntax.Name, ...], span: Span) -> None:
    found: list[tuple[syntax.Name, FutureValue]] = []
    scopes = set()
    for name in names:
        symbol = resolve(c, name.text, name.span)
        if not isinstance(symbol.value, FutureValue):
            c.fail("DMA12", f"`{name.text}` is {symbol.value.describe()}, not a future", name.span)
        found.append((name, symbol.value))
        scopes.add(next(i for i, scope in enumerate(c.scopes) if scope.symbols.get(name.text) is symbol))
    first_name, first = found[0]
    if len(scopes) > 1:
        both = " and ".join(f"`{name.text}`" for name, _ in found)
        c.fail(
            "DMA13", f"{both} belong to different scopes", span, "declare them in one scope, with `dma.any` if need be"
        )
    for name, value in found[1:]:
        if None not in (value.is_async, first.is_async) and value.is_async != first.is_async:
            words = {True: "asynchronous", False: "synchronous"}
            a, b = words[bool(first.is_async)], words[bool(value.is_async)]
            c.fail("DMA12", f"`{first_name.text}` is {a}, `{name.text}` {b}", span)
        if value.bound and first.bound and value.bound.buffer is not first.bound.buffer:
            a, b = SpanValue(first.bound).type_text(), SpanValue(value.bound).type_text()
            c.fail("DMA12", f"`{first_name.text}` is `{a}`, `{name.text}` `{b}`", span)
    slots = []
    for name, value in found:
        require_bound(c, value, name.text, name.span)
        slot = value.view.slot[0]
        assert isinstance(slot, ir.Var)
        slots.append(slot)
    c.emit(ir.Rotate(tuple(slots), span=span))


# --------------------------------------------------------------------------------------------------------- select


def select(c: Checker, s: syntax.Select) -> SpanValue | FutureValue | ChoiceValue:
    """The span or future that `select(i, v0, v1, ...)` chooses, in index order; spans of different buffers as they
    are, with the index."""
    from croq_magic.compiler.check.expressions import evaluate, scalar

    values: list[Value] = [evaluate(c, choice) for choice in s.choices]
    first = values[0]
    for value, choice in zip(values, s.choices, strict=True):
        if type(value) is not type(first) or not isinstance(value, (SpanValue, FutureValue)):
            c.fail(
                "DMA15",
                f"`{choice.span.text}` is {value.describe()}; all choices must be spans or futures",
                choice.span,
            )
    index = scalar(c, s.selector).expr
    number = integers.value(index)
    if number is not None and not 0 <= number < len(values):
        c.fail("DMA14", f"selector {number}, valid range is [0, {len(values)})", s.selector.span)
    spans = [_span_of(c, value, choice) for value, choice in zip(values, s.choices, strict=True)]
    for span, choice in zip(spans, s.choices, strict=True):
        if span.type_text() != spans[0].type_text():
            c.fail("DMA15", f"choices differ: `{spans[0].type_text()}` and `{span.type_text()}`", s.span)
        if isinstance(first, FutureValue) and span.view.buffer is not spans[0].view.buffer:
            c.unsupported("`select` of these futures", choice.span, "choose from their `.data`")
    inside = in_range(index, len(values))
    message = f"selector `{show(index)}`, valid range is [0, {len(values)})"
    c.require(inside, "RTA07", message, s.selector.span, values=(index,))
    if any(span.view.buffer is not spans[0].view.buffer for span in spans):
        return ChoiceValue(index, tuple(spans))
    chosen = dataclasses.replace(spans[0], view=dataclasses.replace(_chosen(index, spans), span=s.span), chain=True)
    if isinstance(first, FutureValue):
        return FutureValue(chosen.view, first.token, s.span, first.depth, first.waited, True, first.is_async)
    return chosen


def _span_of(c: Checker, value: Value, choice: syntax.Expr) -> SpanValue:
    if isinstance(value, Poison):
        raise Skip
    if isinstance(value, FutureValue):
        require_bound(c, value, choice.span.text, choice.span)
        return value.data()
    assert isinstance(value, SpanValue)
    return value


def _chosen(index: ir.Expr, spans: list[SpanValue]) -> ir.View:
    """The view among those of one buffer that an index chooses: by its slot, its origin, or all of its map."""
    found = [span.view for span in spans]
    first = found[0]
    slots = [[integers.value(e) for e in view.slot] for view in found]
    if slots == [[i] for i in range(len(found))] and all(view.offset == first.offset for view in found):
        return dataclasses.replace(first, slot=(index,))
    origins = [views.origin(view) for view in found]
    offset = _pick(index, [view.offset for view in found], [offset for _, offset in origins])
    mapped = tuple(
        _pick(index, [view.map[d] for view in found], [base[d] for base, _ in origins]) for d in range(len(first.map))
    )
    slot = tuple(select_expr(index, [view.slot[d] for view in found]) for d in range(len(first.slot)))
    contiguous = all(view.contiguous for view in found)
    zfill = any(view.zfill for view in found)
    return dataclasses.replace(first, map=mapped, offset=offset, slot=slot, contiguous=contiguous, zfill=zfill)


def _pick(index: ir.Expr, choices: list[ir.Expr], origins: list[ir.Expr]) -> ir.Expr:
    """One of several expressions of a view's coordinates; where all run alike, only their origins are chosen from."""
    runs = integers.sub(choices[0], origins[0])
    if all(integers.equal(integers.sub(e, origin), runs) for e, origin in zip(choices, origins, strict=True)):
        return integers.add(select_expr(index, origins), runs)
    return select_expr(index, choices)


def select_expr(index: ir.Expr, choices: list[ir.Expr]) -> ir.Expr:
    if all(integers.equal(e, choices[0]) for e in choices):
        return choices[0]
    value = choices[-1]
    for position, choice in reversed(list(enumerate(choices[:-1]))):
        value = ir.Select(ir.Binary("==", index, integers.constant(position), BOOL), choice, value, choice.dtype)
    return value


def emit_each(c: Checker, choice: ChoiceValue, statements: list[ir.Stmt]) -> None:
    """One of several statements: the one of the chosen span."""
    body: ir.Body = (statements[-1],)
    for position, statement in reversed(list(enumerate(statements[:-1]))):
        test = ir.Binary("==", choice.index, integers.constant(position), BOOL)
        body = (ir.If(test, (statement,), body, span=statement.span),)
    c.emit(body[0])
