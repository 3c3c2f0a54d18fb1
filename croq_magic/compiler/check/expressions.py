"""Expressions: from syntax to values. Literals, names, elements; `operators` and `shape_expressions` add the rest."""

from __future__ import annotations

import functools

from croq_magic.compiler import integers, ir, syntax
from croq_magic.compiler.check.context import Checker, decide, in_range, show
from croq_magic.compiler.check.conversions import (
    as_scalar,
    cast,
    compute_type,
    condition_of,
)
from croq_magic.compiler.check.names import require_bound, resolve
from croq_magic.compiler.check.values import (
    ArrayValue,
    BoundedTuple,
    ChoiceValue,
    FragmentValue,
    FutureValue,
    ITuple,
    OperationValue,
    Scalar,
    Shape,
    SpanValue,
    Text,
    Value,
)
from croq_magic.compiler.source import Span
from croq_magic.compiler.types import BOOL, F32, F64, S32, S64, U32, U64

_INT_TYPES = {"int": S32, "s64": S64, "u32": U32, "u64": U64}


@functools.singledispatch
def _evaluate(e: syntax.Expr, c: Checker) -> Value:
    c.unsupported(f"`{type(e).__name__}` here", e.span)


evaluates = _evaluate.register  # how other modules add the expressions they know


def evaluate(c: Checker, e: syntax.Expr) -> Value:
    """The value of an expression; raises `Skip` after reporting an error."""
    return _evaluate(e, c)


def scalar(c: Checker, e: syntax.Expr) -> Scalar:
    """The value of an expression that must be one number."""
    return as_scalar(c, evaluate(c, e), e.span, e.span.text)


def integer(c: Checker, e: syntax.Expr, what: str) -> ir.Expr:
    """An integer for an index or a bound; bounded variables give their current value."""
    s = scalar(c, e)
    if s.type is BOOL or not s.type.is_integer:
        c.fail("SHP06", f"{what} must be an integer, found `{s.describe()}`", e.span)
    return s.expr


def condition(c: Checker, e: syntax.Expr) -> ir.Expr:
    """A truth value."""
    return condition_of(c, evaluate(c, e), e.span)


def constant_integer(c: Checker, e: syntax.Expr, code: str, message: str) -> int:
    """A compile-time integer; `message` may hold {found}."""
    number = integers.value(integer(c, e, "a compile-time constant"))
    if number is None:
        c.fail(code, message.format(found=e.span.text), e.span)
    return number


def flatten(c: Checker, items: tuple[syntax.Expr, ...]) -> list[tuple[Value, Span]]:
    """Arguments of views and indices: lists contribute all their elements, brackets around a full list are ignored."""
    out: list[tuple[Value, Span]] = []
    for item in items:
        if isinstance(item, syntax.ShapeLit):
            out += flatten(c, item.items)
            continue
        value = evaluate(c, item)
        if isinstance(value, BoundedTuple):
            out += [(b, item.span) for b in value.items]
        elif isinstance(value, ITuple):
            out += [(Scalar(e, S32), item.span) for e in value.items]
        elif isinstance(value, (Shape, SpanValue)):
            extents = value.extents if isinstance(value, Shape) else value.view.extents
            out += [(Scalar(e, S32), item.span) for e in extents]
        else:
            out.append((value, item.span))
    return out


# ------------------------------------------------------------------------------------------------------ literals


@_evaluate.register
def _(e: syntax.IntLit, c: Checker) -> Value:
    dtype = _INT_TYPES[e.type]
    return Scalar(ir.Const(e.value, dtype), dtype)


@_evaluate.register
def _(e: syntax.FloatLit, c: Checker) -> Value:
    dtype = F32 if e.is_f32 else F64
    value = e.value
    if e.is_f32:
        import struct

        try:
            value = struct.unpack("f", struct.pack("f", value))[0]
        except OverflowError:
            value = float("inf")
    return Scalar(ir.Const(value, dtype), dtype, element=True)


@_evaluate.register
def _(e: syntax.BoolLit, c: Checker) -> Value:
    return Scalar(ir.Const(e.value, BOOL), BOOL)


@_evaluate.register
def _(e: syntax.InfLit, c: Checker) -> Value:
    return Scalar(ir.Const(float("inf"), F32), F32, element=True)


@_evaluate.register
def _(e: syntax.StringLit, c: Checker) -> Value:
    return Text(e.value)


@_evaluate.register
def _(e: syntax.Wildcard, c: Checker) -> Value:
    c.fail(
        "NAM06", "`_` stands for a whole dimension and is only an argument of `chunkat`, `subspan` and `view`", e.span
    )


@_evaluate.register
def _(e: syntax.NullPtr, c: Checker) -> Value:
    c.fail("TYP09", "`nullptr` is only an argument of `call`", e.span)


@_evaluate.register
def _(e: syntax.NameArg, c: Checker) -> Value:
    name = e.name.text
    c.fail("CAL10", f"`{name}` is not a value of the language", e.span, f"`call {name}(...)`, `call {name}<...>(...)`")


@_evaluate.register
def _(e: syntax.Paren, c: Checker) -> Value:
    return evaluate(c, e.inner)


# ------------------------------------------------------------------------------------------- names and elements


@_evaluate.register
def _(e: syntax.NameRef, c: Checker) -> Value:
    value = resolve(c, e.text, e.span).value
    require_bound(c, value, e.text, e.span)
    if c.steps:
        from croq_magic.compiler.check.steps import snapshot

        return snapshot(c, e.text, value)
    return value


def buffer_value(c: Checker, ref: syntax.BufferRef) -> Value:
    """A plain name, an element of a buffer array, or the data of a future."""
    value = resolve(c, ref.name.text, ref.name.span).value
    require_bound(c, value, ref.name.text, ref.name.span)
    if ref.data and isinstance(value, OperationValue):
        name = ref.name.text
        c.fail(
            "TYP14",
            f"`{name}` reports completion of an MMA and holds no data; read the accumulator "
            f"`{value.accumulator}` instead",
            ref.span,
        )
    if ref.data:
        if not isinstance(value, FutureValue):
            c.fail(
                "TYP14",
                f"`{ref.name.text}` is {value.describe()} and has no `.{ref.data}`",
                ref.span,
                f"use `{ref.name.text}` itself" if isinstance(value, SpanValue) else None,
            )
        require_waited(c, value, ref)
        if ref.data == "mdata":
            from croq_magic.compiler.check.sparse import metadata

            value = SpanValue(metadata(c, value, ref), value.depth)
        else:
            value = value.data()
    if ref.subscripts:
        value = _subscript(c, value, ref)
    return value


def require_waited(c: Checker, value: FutureValue, ref: syntax.BufferRef) -> None:
    if value.token is not None and value.waited is None and not value.exchanged:
        name = ref.name.text
        c.fail("DMA09", f"`{ref.span.text}` is read before `wait {name}`", ref.span, f"`wait {name};` first")


def _subscript(c: Checker, value: Value, ref: syntax.BufferRef) -> Value:
    name = ref.name.text
    derived = None if isinstance(value, ArrayValue) else syntax.as_derivation(ref)
    if derived is not None and any(isinstance(node, syntax.DimRef) for node in syntax.walk(derived.items[0])):
        return evaluate(c, derived)  # `s[(1)]`: nothing else has dimensions in parentheses
    if isinstance(value, (ITuple, Shape, BoundedTuple)):
        c.fail(
            "SYN11",
            f"`{name}` is {value.describe()}",
            ref.span,
            f"`{name}({ref.subscripts[0].span.text})` picks an element",
        )
    if not isinstance(value, ArrayValue):
        places = ", ".join(s.span.text for s in ref.subscripts)
        c.fail(
            "SYN11",
            f"`{name}` is {value.describe()}, not a buffer array",
            ref.span,
            f"use `.at({places})` for elements",
        )
    slots = value.buffer.slots
    if len(ref.subscripts) != len(slots):
        c.fail(
            "VEW14",
            f"`{name}` needs {len(slots)} subscript{'s' * (len(slots) != 1)}, found {len(ref.subscripts)}",
            ref.span,
        )
    chosen: list[ir.Expr] = []
    for subscript, extent in zip(ref.subscripts, slots, strict=True):
        index = integer(c, subscript, "a subscript")
        number = integers.value(index)
        shown = number if number is not None else f"`{show(index)}`"
        inside = in_range(index, extent)
        if decide(inside) is False:
            c.fail("VEW13", f"subscript {shown} of `{name}`, valid range is [0, {extent})", subscript.span)
        c.require(
            inside,
            "VEW13",
            f"subscript {shown} of `{name}`, valid range is [0, {extent})",
            subscript.span,
            values=(index,),
        )
        chosen.append(index)
    from croq_magic.compiler import views

    return SpanValue(views.whole(value.buffer, tuple(chosen), ref.span), value.depth)


@_evaluate.register
def _(e: syntax.BufferRef, c: Checker) -> Value:
    return buffer_value(c, e)


@_evaluate.register
def _(e: syntax.View, c: Checker) -> Value:
    from croq_magic.compiler.check.views import view

    return view(c, e)


@_evaluate.register
def _(e: syntax.SpanOf, c: Checker) -> Value:
    name = e.base.name
    if e.base.data or e.base.subscripts:
        value = buffer_value(c, e.base)
    else:
        value = resolve(c, name.text, name.span).value
        require_bound(c, value, name.text, name.span)
    if isinstance(value, (SpanValue, FutureValue)):
        return Shape(value.view.extents)
    if isinstance(value, ChoiceValue):
        return Shape(value.spans[0].view.extents)
    if isinstance(value, FragmentValue) and value.shape is not None:
        return Shape(value.shape)
    if isinstance(value, ArrayValue):
        return Shape(value.buffer.shape)
    if isinstance(value, Shape):
        return value
    c.fail("TYP10", f"`{e.base.span.text}` is {value.describe()} and has no `.span`", e.span)


@_evaluate.register
def _(e: syntax.ElemRef, c: Checker) -> Value:
    symbol = c.find(e.base.name.text)
    if symbol is not None and isinstance(symbol.value, FragmentValue):
        from croq_magic.compiler.check.fragment_elements import element_value

        return element_value(c, e, symbol.value)
    if symbol is not None and isinstance(symbol.value, ChoiceValue) and not e.base.data:
        from croq_magic.compiler.check.handles import select_expr

        loads = []
        for span in symbol.value.spans:
            index = _index_of(c, e, span)
            loads.append(cast(ir.Load(span.view, index, span=e.span), compute_type(span.dtype)))
        return Scalar(select_expr(symbol.value.index, loads), symbol.value.spans[0].dtype, element=True)
    target, index = element(c, e)
    dtype = target.dtype
    return Scalar(cast(ir.Load(target.view, index, span=e.span), compute_type(dtype)), dtype, element=True)


def element(c: Checker, e: syntax.ElemRef) -> tuple[SpanValue, tuple[ir.Expr, ...]]:
    """The span and the index of `x.at(...)`, rank checked."""
    value = buffer_value(c, e.base)
    text = e.base.span.text
    if isinstance(value, FutureValue):
        places = ", ".join(i.span.text for i in e.index)
        c.fail("TYP13", f"`{text}` is a future", e.span, f"`{text}.data.at({places})`")
    if isinstance(value, ArrayValue):
        c.fail(
            "VEW14", f"`{text}` is an array of {value.buffer.slots[0]} spans; choose one, `{text}[0].at(...)`", e.span
        )
    if not isinstance(value, SpanValue):
        c.fail("TYP10", f"`{text}` is {value.describe()} and has no elements", e.span)
    return value, _index_of(c, e, value)


def _index_of(c: Checker, e: syntax.ElemRef, value: SpanValue) -> tuple[ir.Expr, ...]:
    text = e.base.span.text
    found = flatten(c, e.index)
    rank = value.view.rank
    if len(found) != rank:
        has = f"{len(found)} ind{'ex is' if len(found) == 1 else 'ices are'} given"
        c.fail("VEW11", f"`{text}` has rank {rank} but {has}", e.span)
    index: list[ir.Expr] = []
    for item, span in found:
        s = as_scalar(c, item, span, span.text)
        if not s.type.is_integer:
            c.fail("SHP06", f"an index must be an integer, found `{s.describe()}`", span)
        index.append(s.expr)
    return tuple(index)
