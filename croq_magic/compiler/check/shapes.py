"""Shapes and ituples: their arithmetic and what may be an extent (SHP codes)."""

from __future__ import annotations

from collections.abc import Callable

from croq_magic.compiler import integers, ir
from croq_magic.compiler.check.context import Checker, free_variables, show
from croq_magic.compiler.check.conversions import as_scalar
from croq_magic.compiler.check.values import (
    Bounded,
    BoundedTuple,
    FutureValue,
    ITuple,
    Scalar,
    Shape,
    SpanValue,
    Value,
    is_index,
)
from croq_magic.compiler.source import Span
from croq_magic.compiler.types import BOOL

ARITHMETIC = ("+", "-", "*", "/", "%", "cdiv")


def apply(c: Checker, op: str, a: ir.Expr, b: ir.Expr, span: Span) -> ir.Expr:
    """One integer operation of shape arithmetic."""
    if op in ("/", "%", "cdiv") and integers.value(b) == 0:
        c.fail("TYP22", f"division by zero: `{show(a)} {op} 0`", span)
    if op == "cdiv":
        return integers.ceildiv(a, b)
    return integers.binary(op, a, b)


def items_of(value: Value) -> tuple[ir.Expr, ...] | None:
    """Integers of a list-like value; None for anything else."""
    if isinstance(value, ITuple):
        return value.items
    if isinstance(value, Shape):
        return value.extents
    if isinstance(value, BoundedTuple):
        return tuple(b.value for b in value.items)
    return None


def is_list(value: Value) -> bool:
    return isinstance(value, (ITuple, Shape, BoundedTuple))


def arithmetic(c: Checker, op: str, a: Value, b: Value, span: Span) -> Value:
    """Arithmetic in which at least one operand is a shape or an ituple: the table of types-and-shapes section 5."""
    if isinstance(a, Shape) and isinstance(b, Shape):
        if op in ("+", "-", "*"):
            c.fail("SHP02", f"`{op}` is not defined on two shapes", span, f"use an ituple, `{op} {{{_text(b)}}}`")
        _same_rank(c, a.extents, b.extents, span)
        return ITuple(tuple(apply(c, op, x, y, span) for x, y in zip(a.extents, b.extents, strict=True)))
    kind: Callable[[tuple[ir.Expr, ...]], Value] = Shape if Shape in (type(a), type(b)) else ITuple
    left, right = items_of(a), items_of(b)
    if left is None:
        left = (_integer(c, a, span),) * len(right or ())
    elif right is None:
        right = (_integer(c, b, span),) * len(left)
    assert right is not None
    _same_rank(c, left, right, span)
    return kind(tuple(apply(c, op, x, y, span) for x, y in zip(left, right, strict=True)))


def _text(value: Value) -> str:
    return ", ".join(map(show, items_of(value) or ()))


def _same_rank(c: Checker, a: tuple[ir.Expr, ...], b: tuple[ir.Expr, ...], span: Span) -> None:
    if len(a) != len(b):
        hint = "`with v in n` (no brackets) makes `#v` an integer" if 1 in (len(a), len(b)) else None
        c.fail("SHP03" if 1 not in (len(a), len(b)) else "SHP10", f"ranks differ: {len(a)} and {len(b)}", span, hint)


def _integer(c: Checker, value: Value, span: Span) -> ir.Expr:
    s = as_scalar(c, value, span)
    if not s.type.is_integer:
        c.fail("SHP06", f"shape arithmetic needs integers, found `{s.type}`", span)
    return s.expr


def flatten_extents(c: Checker, values: list[tuple[Value, Span]]) -> tuple[ir.Expr, ...]:
    """Extents of a declared shape: integers, ituples, shapes and spans' shapes are concatenated."""
    extents: list[ir.Expr] = []
    for value, span in values:
        found = _extents(c, value, span)
        for position, extent in enumerate(found):
            check_extent(c, extent, len(extents) + position, span)
        extents.extend(found)
    if len(extents) > 8:
        c.fail("SHP03", f"rank {len(extents)} is too large; spans have at most 8 dimensions", values[0][1])
    return tuple(extents)


def _extents(c: Checker, value: Value, span: Span) -> tuple[ir.Expr, ...]:
    if isinstance(value, SpanValue):
        return value.view.extents
    if isinstance(value, FutureValue):
        return value.view.extents
    if isinstance(value, (Bounded, BoundedTuple)):
        first = value.items[0] if isinstance(value, BoundedTuple) else value
        if first.driver is not None or free_variables(first.value):
            name = first.driver.name if first.driver else show(first.value)
            size = integers.value(first.extent)
            hint = f"`#{name}` is its extent" + (f" ({size})" if size is not None else "")
            c.fail("SHP04", f"extent must not depend on the value of `{name}`", span, hint)
    items = items_of(value)
    if items is not None:
        return items
    s = as_scalar(c, value, span)
    if not s.type.is_integer:
        c.fail("SHP06", f"extents are integers, found `{s.type}`", span)
    return (_stable(c, s, span),)


def _stable(c: Checker, s: Scalar, span: Span) -> ir.Expr:
    for var in free_variables(s.expr):
        if isinstance(var, ir.Var) and var.role is ir.Role.MUTABLE:
            c.fail("SHP05", f"`{var.name}` is mutable; extents need immutable integers", span)
        if isinstance(var, ir.Var) and var.role in (ir.Role.REGION, ir.Role.LOOP):
            c.fail(
                "SHP04", f"extent must not depend on the value of `{var.name}`", span, f"`#{var.name}` is its extent"
            )
    if not is_index(s.expr):
        c.fail(
            "SHP05",
            f"`{show(s.expr)}` is not known before the launch; extents need constants, dimensions or parameters",
            span,
        )
    return s.expr


def check_extent(c: Checker, extent: ir.Expr, dimension: int, span: Span) -> None:
    """Every extent is at least 1: a compile error, or an entry check."""
    number = integers.value(extent)
    if number is not None:
        if number < 1:
            c.fail("SHP01", f"extent {number} of dimension {dimension} must be at least 1", span)
        return
    c.require(
        ir.Binary(">=", extent, integers.ONE, BOOL),
        "RTA03",
        f"extent `{show(extent)}` of dimension {dimension} must be at least 1",
        span,
        runtime=f"extent `{show(extent)}` must be at least 1",
        values=(extent,),
    )
