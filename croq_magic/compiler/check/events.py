"""Events: declarations, `trigger`, `wait`, spinning (EVT codes)."""

from __future__ import annotations

from croq_magic.compiler import integers, ir, syntax
from croq_magic.compiler.check.context import Checker, in_range, show
from croq_magic.compiler.check.expressions import integer, scalar
from croq_magic.compiler.check.names import resolve
from croq_magic.compiler.check.storage import array_dimensions
from croq_magic.compiler.check.values import EventValue, FutureValue, OperationValue, Scalar
from croq_magic.compiler.source import Span


def declaration(c: Checker, s: syntax.EventDecl) -> None:
    """`shared event<4> e, r[3] = ready`."""
    word = s.storage.word if s.storage else ("shared" if c.in_device else "global")
    if not c.in_device and word != "global":
        c.fail("STO01", f"`{word}` events exist only inside `parallel`", s.span)
    if c.in_device and word == "global":
        c.fail("STO02", "`global` events are declared on the host", s.span, "`shared event`")
    for item in s.items:
        if item.initial is not None and item.initial.text != "ready":
            c.fail("EVT01", "the only initial state is `ready`", item.initial.span)
        slots = array_dimensions(c, item.name, item.array)
        parties = s.count.value if s.count else 0
        event = ir.Event(c.fresh(item.name.text), ir.Storage(word), slots, parties, item.initial is not None)
        c.emit(ir.DeclareEvent(event, span=item.span))
        c.declare(item.name, EventValue(event, item.name.span, c.depth), ir.Storage(word))


def trigger(c: Checker, s: syntax.Trigger) -> None:
    _require_device(c, s.span)
    for item in s.items:  # before what may be wrong with the statement: its event is not one that nobody triggers
        named = c.find(item.name.text)
        if named is not None and isinstance(named.value, EventValue):
            named.value.triggered = item.span
    after: list[ir.Token] = []
    for item in s.after:
        after.append(_published(c, item))
    for item in s.items:
        value, slot, order, step = _operand(c, item)
        if step is not None and len(s.after) > 1:
            name = (
                item.at.operand.text
                if isinstance(item.at, syntax.Postfix) and isinstance(item.at.operand, syntax.NameRef)
                else "k"
            )
            c.fail("EVT04", f"with several futures advance `{name}` in its own statement", item.span)
        _warn_outside(c, value, s.span)
        c.emit(ir.Trigger(value.event, slot, order, tuple(after), s.cluster, span=s.span))
        if step is not None:
            c.emit(step)


def _require_device(c: Checker, span: Span) -> None:
    if not c.in_device:
        c.fail("PAR13", "events are triggered and waited on inside `parallel`", span)


def _published(c: Checker, item: syntax.Waitable) -> ir.Token:
    value = resolve(c, item.name.text, item.name.span).value
    name = item.name.text
    if isinstance(value, OperationValue):
        value.waited = item.span
        c.fail("EVT07", "MMA futures cannot publish events", item.span, f"`wait {name}; trigger ...;`")
    if not isinstance(value, FutureValue):
        c.fail("DMA08", f"`{name}` is {value.describe()}, not a future", item.span)
    if value.waited is not None:
        c.fail("EVT06", f"`{name}` was already waited on", item.span, "`trigger` without `after`")
    if value.engine != "tma" or value.token is None:
        value.waited = item.span
        c.fail("EVT05", "this transfer has no completion event", item.span, f"`wait {name}; trigger ...;`")
    value.waited = item.span
    return value.token


def wait_event(c: Checker, item: syntax.Waitable, span: Span) -> None:
    _require_device(c, span)
    value, slot, order, step = _operand(c, item)
    value.waited = item.span
    _warn_outside(c, value, span)
    c.emit(ir.WaitEvent(value.event, slot, order, span=span))
    if step is not None:
        c.emit(step)


def _warn_outside(c: Checker, value: EventValue, span: Span) -> None:
    between_blocks = value.event.storage is ir.Storage.GLOBAL  # blocks differ by conditions, too
    if (
        not c.masked
        and not between_blocks
        and value.triggered is not None
        and value.waited is not None
        and not value.warned
    ):
        value.warned = True
        c.warn("EVT08", "one program both triggers and waits; use `inthreads.async` roles", span)


def _operand(
    c: Checker, item: syntax.Waitable
) -> tuple[EventValue, tuple[ir.Expr, ...], ir.Expr | None, ir.Stmt | None]:
    """The event, its slot or order, and the statement that advances the order (`e.at(k++)`)."""
    name = item.name.text
    value = resolve(c, name, item.name.span).value
    if not isinstance(value, EventValue):
        c.fail("DMA08", f"`{name}` is {value.describe()}, neither a future nor an event", item.span)
    slots = value.event.slots
    if item.at is not None:
        if len(slots) != 1:
            c.fail("EVT02", "`.at(order)` needs an event array", item.span, f"`{name}` or `{name}[i]`")
        order, step = _order(c, item.at, slots[0], name)
        return value, (), order, step
    index = []
    if item.subscripts and len(item.subscripts) != len(slots):
        c.fail("VEW14", f"`{name}` needs {len(slots)} subscripts, found {len(item.subscripts)}", item.span)
    for subscript, extent in zip(item.subscripts, slots, strict=False):
        e = integer(c, subscript, "a slot")
        number = integers.value(e)
        inside = in_range(e, extent)
        message = f"slot {number if number is not None else f'`{show(e)}`'}, valid range is [0, {extent})"
        c.require(inside, "EVT09", message, subscript.span, values=(e,))
        index.append(e)
    return value, tuple(index), None, None


def _order(c: Checker, e: syntax.Expr, slots: int, name: str) -> tuple[ir.Expr, ir.Stmt | None]:
    e = syntax.strip_parens(e)
    if isinstance(e, syntax.Postfix):
        operand = syntax.strip_parens(e.operand)
        counter = resolve(c, operand.text, operand.span).value if isinstance(operand, syntax.NameRef) else None
        if not isinstance(counter, Scalar) or counter.var is None:
            c.fail("TYP01", f"`{e.operand.span.text}` is immutable", e.operand.span, "declare it `mutable`")
        one = ir.Const(1, counter.var.dtype)
        step = ir.Assign(counter.var, ir.Binary(e.op[0], counter.var, one, counter.var.dtype), span=e.span)
        # Old value first: the statement reads the counter, the increment follows it.
        return counter.expr, step
    if any(isinstance(node, syntax.Postfix) for node in syntax.walk(e)):
        postfix = next(node for node in syntax.walk(e) if isinstance(node, syntax.Postfix))
        c.fail("EVT03", f"`{postfix.span.text}` must be the whole argument", e.span)
    if isinstance(e, syntax.Binary) and e.op == "%":
        divisor = integers.value(scalar(c, e.right).expr)
        if divisor == slots:
            c.warn(
                "EVT12",
                f"`{e.span.text}` forgets the generation of a {slots}-slot ring",
                e.span,
                f"`{name}.at({e.left.span.text})`",
            )
    return scalar(c, e).expr, None


def spin(c: Checker, s: syntax.While, events: list[syntax.NameRef]) -> None:
    """`while (e);`: waits while events are pending, without advancing them."""
    for ref in events:
        value = resolve(c, ref.text, ref.span).value
        assert isinstance(value, EventValue)
        value.waited = ref.span
        c.emit(ir.WaitEvent(value.event, spin=True, span=s.span))


def spun_events(c: Checker, e: syntax.Expr) -> list[syntax.NameRef]:
    """The events of a `while` condition; EVT11 when they are mixed with values."""
    e = syntax.strip_parens(e)
    if isinstance(e, syntax.Binary) and e.op == "&&":
        left, right = spun_events(c, e.left), spun_events(c, e.right)
        if bool(left) != bool(right):
            c.fail("EVT11", "`&&` needs two events or two values", e.span)
        return left + right
    if isinstance(e, syntax.NameRef):
        symbol = c.find(e.text)
        if symbol is not None and isinstance(symbol.value, EventValue):
            return [e]
    return []
