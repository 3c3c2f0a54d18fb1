"""Shapes, ituples and extents as expressions (SHP codes)."""

from __future__ import annotations

from croq_magic.compiler import integers, ir, syntax
from croq_magic.compiler.check import shapes
from croq_magic.compiler.check.context import Checker
from croq_magic.compiler.check.conversions import (
    as_scalar,
)
from croq_magic.compiler.check.expressions import (
    constant_integer,
    evaluate,
    evaluates,
    flatten,
    integer,
)
from croq_magic.compiler.check.names import resolve
from croq_magic.compiler.check.values import (
    ArrayValue,
    Bounded,
    BoundedTuple,
    FutureValue,
    ITuple,
    Scalar,
    Shape,
    SpanValue,
    Value,
    constant,
    is_index,
)
from croq_magic.compiler.types import BY_NAME, S32


@evaluates
def _(e: syntax.TupleLit, c: Checker) -> Value:
    return ITuple(tuple(_list_items(c, e.items, "items")))


def _list_items(c: Checker, items: tuple[syntax.Expr, ...], what: str) -> list[ir.Expr]:
    out: list[ir.Expr] = []
    for value, span in flatten(c, items):
        s = as_scalar(c, value, span)
        if not s.type.is_integer:
            c.fail("SHP06", f"{what} are integers, found `{s.describe()}`", span)
        if s.var is not None or not is_index(s.expr):
            c.fail("SHP05", f"`{span.text}` is mutable; shapes and ituples need immutable integers", span)
        out.append(s.expr)
    return out


@evaluates
def _(e: syntax.ShapeLit, c: Checker) -> Value:
    extents = _list_items(c, e.items, "extents")
    for dimension, extent in enumerate(extents):
        shapes.check_extent(c, extent, dimension, e.items[min(dimension, len(e.items) - 1)].span)
    return Shape(tuple(extents))


@evaluates
def _(e: syntax.Derivation, c: Checker) -> Value:
    base = evaluate(c, e.base)
    items = base.view.extents if isinstance(base, (SpanValue, FutureValue)) else shapes.items_of(base)
    if items is None:
        c.fail(
            "TYP10", f"`{e.base.span.text}` is {base.describe()}; only shapes and ituples can be derived from", e.span
        )
    previous, c.derivation = c.derivation, items
    try:
        found = tuple(_list_items(c, e.items, "extents" if e.kind == "shape" else "items"))
    finally:
        c.derivation = previous
    return Shape(found) if e.kind == "shape" else ITuple(found)


@evaluates
def _(e: syntax.DimRef, c: Checker) -> Value:
    items = c.derivation or ()
    if not 0 <= e.index < len(items):
        c.fail("SHP07", f"dimension {e.index} does not exist, rank is {len(items)}", e.span)
    return Scalar(items[e.index], S32)


@evaluates
def _(e: syntax.Pick, c: Checker) -> Value:
    base = evaluate(c, e.base)
    if isinstance(base, BoundedTuple) and len(base.items) == 1:
        base = base.items[0]
    k = constant_integer(c, e.index, "SHP07", "`{found}` must be known when the program is compiled")
    if isinstance(base, Bounded):
        value = integers.constant(k) if k >= 0 else integers.add(base.extent, integers.constant(k))
        return Bounded(value, base.extent)
    if isinstance(base, (SpanValue, FutureValue)):
        c.fail(
            "TYP10",
            f"`{e.base.span.text}` is a span",
            e.span,
            f"`{e.base.span.text}.span({k})` is an extent, `.at({k})` an element",
        )
    items: tuple[Value, ...]
    if isinstance(base, BoundedTuple):
        items = base.items
    else:
        found = shapes.items_of(base)
        if found is None:
            c.fail(
                "SHP07",
                f"`{e.base.span.text}` is {base.describe()}; only shapes, ituples and bounded values have parts",
                e.span,
            )
        items = tuple(Scalar(item, S32) for item in found)
    if not 0 <= k < len(items):
        c.fail("SHP07", f"dimension {k} does not exist, rank is {len(items)}", e.index.span)
    picked = items[k]
    if isinstance(picked, Scalar):
        c.require_bounded(picked.expr, e.span)
    return picked


@evaluates
def _(e: syntax.Extent, c: Checker) -> Value:
    value = resolve(c, e.name.text, e.name.span).value
    if isinstance(value, Bounded):
        return Scalar(value.extent, S32)
    if isinstance(value, BoundedTuple):
        return ITuple(tuple(b.extent for b in value.items))
    c.fail(
        "TYP11",
        f"`{e.name.text}` is {value.describe()} and has no extent",
        e.span,
        f"`|{e.name.text}.span|` counts its elements" if isinstance(value, SpanValue) else None,
    )


@evaluates
def _(e: syntax.Count, c: Checker) -> Value:
    value = evaluate(c, e.operand)
    if isinstance(value, (SpanValue, FutureValue)):
        extents: tuple[ir.Expr, ...] | None = value.view.extents
    elif isinstance(value, ArrayValue):
        extents = value.buffer.shape
    else:
        extents = shapes.items_of(value)
    if extents is None:
        return Scalar(integer(c, e.operand, "a count"), S32)
    count = integers.product(extents)
    c.require_bounded(count, e.span)
    return Scalar(count, S32)


@evaluates
def _(e: syntax.SizeOf, c: Checker) -> Value:
    return constant(BY_NAME[e.type.name].size)
