"""Declarations of scalars, shapes and ituples (TYP, SHP codes)."""

from __future__ import annotations

from croq_magic.compiler import integers, ir, syntax
from croq_magic.compiler.check import (
    calls,
    shapes,
)
from croq_magic.compiler.check.context import Checker, Skip
from croq_magic.compiler.check.conversions import (
    as_scalar,
    cast,
    compute_type,
    store_as,
)
from croq_magic.compiler.check.expressions import evaluate
from croq_magic.compiler.check.values import (
    Bounded,
    FutureValue,
    ITuple,
    Scalar,
    Shape,
    SpanValue,
    is_index,
)
from croq_magic.compiler.source import Span
from croq_magic.compiler.types import BOOL, BY_NAME, S32, DType

_CONTROL = ("int", "bool")
_MOST_NODES = 64  # of an expression that takes the place of a name; what is made of such names grows without end


def mdspan(c: Checker, s: syntax.MdspanDecl) -> None:
    """`s : [4, 2]`."""
    value = evaluate(c, s.value)
    if isinstance(value, (SpanValue, FutureValue)):
        value = Shape(value.view.extents)
    if not isinstance(value, Shape):
        text = s.value.span.text
        c.fail("SHP08", f"`{text}` is {value.describe()}, not a shape", s.span, f"`{s.name.text} = {text};`")
    for dimension, extent in enumerate(value.extents):
        shapes.check_extent(c, extent, dimension, s.value.span)
    _check_rank(c, s.name, s.rank, len(value.extents))
    c.declare(s.name, value)


def ituple(c: Checker, s: syntax.ItupleDecl) -> None:
    """`ituple t = {4, 2}`."""
    value = evaluate(c, s.value)
    items = shapes.items_of(value)
    if items is None or isinstance(value, Shape):
        c.fail(
            "SYN02",
            f"`{s.value.span.text}` is {value.describe()}, not an ituple",
            s.span,
            "an ituple is written with `{ }`",
        )
    _check_rank(c, s.name, s.rank, len(items))
    c.declare(s.name, ITuple(items))


def _check_rank(c: Checker, name: syntax.Name, rank: syntax.IntLit | None, found: int) -> None:
    if rank is not None and rank.value != found:
        c.fail("TYP15", f"`{name.text}` is declared with rank {rank.value} but has rank {found}", rank.span)


def scalars(c: Checker, s: syntax.ScalarDecl) -> None:
    """`mutable s32 k = 0, j`."""
    if s.storage is not None:
        word = s.type.word if s.type else "s32"
        c.fail(
            "STO03",
            "scalars have no storage qualifier",
            s.storage.span,
            f"`{s.storage.word} {word} [1] {s.items[0].name.text}`",
        )
    for item in s.items:
        try:
            _scalar_item(c, s, item)
        except Skip:
            c.poison(item.name)


def _scalar_item(c: Checker, s: syntax.ScalarDecl, item: syntax.ScalarItem) -> None:
    name, word = item.name, s.type.name if s.type else None
    if item.value is None:
        if word is None:
            c.fail("TYP04", f"cannot infer the type of `{name.text}`", name.span, f"`mutable int {name.text} = 0;`")
        if word in _CONTROL:
            c.fail("TYP02", f"`{word}` needs an initialiser", name.span, f"`{word} {name.text} = 0;`")
        define(c, name, None, BY_NAME[word], mutable=True, span=s.span)
        return
    call = calls.as_call(c, item.value)
    if call is not None:
        if word is None or (word in _CONTROL and not s.mutable):
            calls.require_known(c, call)
            c.fail(
                "CAL04",
                "a call result needs a `mutable` variable with a written type",
                item.value.span,
                f"`mutable s32 {name.text} = ...`",
            )
        var = ir.Var(c.fresh(name.text), BY_NAME[word], ir.Role.MUTABLE)
        c.emit(ir.Let(var, None, span=s.span))
        calls.call_into(c, call, var)
        c.declare(name, variable(var, c))
        return
    value = evaluate(c, item.value)
    if word is None:
        if not isinstance(value, (Scalar, Bounded)):
            c.fail("TYP03", f"{value.describe()} cannot be mutable", item.value.span)
        found = as_scalar(c, value, item.value.span)
        define(c, name, found, found.narrow or found.type, mutable=True, span=s.span)
        return
    dtype = BY_NAME[word]
    found = as_scalar(c, value, item.value.span, item.value.span.text)
    if dtype is BOOL and found.type is not BOOL:
        c.fail(
            "TYP05",
            f"`{name.text}` is `bool` but the initialiser is `{'int' if found.type is S32 else found.type}`",
            item.value.span,
            "`true` or `false`" if isinstance(found.expr, ir.Const) else f"`{item.value.span.text} != 0`",
        )
    converted = store_as(c, found, dtype, item.value.span, item.value.span.text)
    mutable = s.mutable or word not in _CONTROL
    define(c, name, Scalar(converted, dtype), dtype, mutable=mutable, span=s.span)


def define(c: Checker, name: syntax.Name, value: Scalar | None, dtype: DType, *, mutable: bool, span: Span) -> None:
    """A scalar comes into being. Immutable integers that can be reasoned about are not variables at all: their
    expression takes their place."""
    expr = None if value is None else cast(value.expr, dtype)
    if not mutable and expr is not None and dtype is S32 and is_index(expr) and integers.size(expr) <= _MOST_NODES:
        c.declare(name, Scalar(expr, S32, depth=c.depth))
        return
    if not mutable and isinstance(expr, ir.Const):
        c.declare(name, Scalar(expr, dtype, depth=c.depth))
        return
    low_high: tuple[ir.Expr | None, ir.Expr | None] = (None, None)
    if not mutable and expr is not None and dtype.is_integer:
        low_high = _bounds(expr)
    var = ir.Var(c.fresh(name.text), dtype, ir.Role.MUTABLE if mutable else ir.Role.LET, *low_high)
    c.emit(ir.Let(var, expr, span=span))
    c.declare(name, variable(var, c) if mutable else Scalar(cast(var, compute_type(dtype)), dtype, depth=c.depth))


def _bounds(expr: ir.Expr) -> tuple[ir.Expr | None, ir.Expr | None]:

    low, high = integers.interval(expr)
    return (None if low is None else integers.constant(low), None if high is None else integers.constant(high + 1))


def variable(var: ir.Var, c: Checker) -> Scalar:
    """The value of an assignable variable."""
    return Scalar(cast(var, compute_type(var.dtype)), var.dtype, element=True, var=var, depth=c.depth)
