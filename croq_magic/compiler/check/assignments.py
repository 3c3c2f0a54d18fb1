"""Assignments: to names, elements, whole spans and fragments (TYP, PAR22 codes)."""

from __future__ import annotations

from croq_magic.compiler import ir, syntax
from croq_magic.compiler.check import (
    calls,
    fragment_elements,
    fragments,
    storage,
)
from croq_magic.compiler.check.context import Checker, Symbol
from croq_magic.compiler.check.conversions import (
    as_scalar,
    cast,
    common_type,
    compute_type,
    condition_of,
    promote,
    store_as,
)
from croq_magic.compiler.check.declarations import define, variable
from croq_magic.compiler.check.expressions import buffer_value, element, evaluate, scalar
from croq_magic.compiler.check.names import check_outer, resolve
from croq_magic.compiler.check.operators import binary
from croq_magic.compiler.check.values import (
    ArrayValue,
    Bounded,
    FragmentValue,
    FutureValue,
    Scalar,
    Shape,
    SpanValue,
    Text,
    Value,
)
from croq_magic.compiler.source import Span
from croq_magic.compiler.types import BOOL, F32, DType


def assign(c: Checker, s: syntax.Assign) -> None:
    """`x = e`, `x += e`, `x.at(i) = e`."""
    if _fragment_assignment(c, s):
        return
    if isinstance(s.target, syntax.ElemRef):
        _store(c, s, s.target)
    elif isinstance(s.target, syntax.BufferRef):
        value = buffer_value(c, s.target)
        if not isinstance(value, SpanValue) or s.op == "=":
            c.fail("TYP01", f"`{s.target.span.text}` cannot be assigned", s.target.span, "`dma.copy` copies spans")
        _span_operation(c, s, value)
    else:
        _name_assignment(c, s, s.target)


def _fragment_assignment(c: Checker, s: syntax.Assign) -> bool:
    """Handles an assignment whose target is a fragment, one of an array of them, or an element."""
    target = s.target
    if isinstance(target, syntax.ElemRef):
        base = target.base
    elif isinstance(target, syntax.BufferRef):
        base = target
    else:
        base = syntax.BufferRef(target.span, syntax.Name(target.span, target.text))
    symbol = c.find(base.name.text)
    if symbol is None or not isinstance(symbol.value, FragmentValue):
        return False
    if isinstance(target, syntax.NameRef) and s.op == "=":
        return False  # declares a name of its own
    if not isinstance(target, syntax.ElemRef):
        value, ref = fragments.reference(c, base, "the left side")
        fragment_elements.operation(c, s, value, ref)
        return True
    element_ref, index = fragment_elements.element_index(c, target, symbol.value)
    dtype = symbol.value.dtype or F32
    right = _right_side(c, s, dtype)
    symbol.value.replicated = symbol.value.replicated or len(index) < len(c.applied)
    if s.op == "=":
        converted = store_as(c, right, dtype, s.value.span, s.value.span.text)
    else:
        converted = cast(store_as(c, right, dtype, s.value.span, s.value.span.text), compute_type(dtype))
    c.emit(ir.FragmentStore(element_ref, index, converted, s.op[:-1], span=s.span))
    return True


def _name_assignment(c: Checker, s: syntax.Assign, target: syntax.NameRef) -> None:
    symbol = c.find(target.text)
    name = syntax.Name(target.span, target.text)
    if s.op != "=":
        symbol = resolve(c, target.text, target.span)
        if isinstance(symbol.value, SpanValue):
            _span_operation(c, s, symbol.value)
            return
        if isinstance(symbol.value, FutureValue):
            c.fail(
                "TYP13",
                f"`{target.text}` is a future",
                target.span,
                f"`{target.text}.data.at(...)` or `t = {target.text}.data; t {s.op} ...`",
            )
        _assign_scalar(c, s, symbol)
        return
    call = calls.as_call(c, s.value)
    if call is not None:
        if symbol is None or not (isinstance(symbol.value, Scalar) and symbol.value.var):
            calls.require_known(c, call)
            c.fail(
                "CAL04",
                "a call result needs a `mutable` variable with a written type",
                s.span,
                f"`mutable s32 {target.text} = ...`",
            )
        var = symbol.value.var
        check_outer(c, symbol, s.span)
        calls.call_into(c, call, var)
        return
    if symbol is not None and isinstance(symbol.value, Scalar) and symbol.value.var is not None:
        _assign_scalar(c, s, symbol)
        return
    here = c.find_here(target.text)
    if here is not None and not _is_poison(here):
        what = (
            "is a parameter"
            if any(p.name and p.name.text == target.text for p in c.function.params)
            else f"is {_immutable(here.value)}"
        )
        hint = (
            f"declare it `mutable int {target.text}`"
            if isinstance(here.value, (Scalar, Bounded))
            else "`dma.copy` copies spans"
            if isinstance(here.value, SpanValue)
            else None
        )
        c.fail("TYP01", f"`{target.text}` {what}", target.span, hint)
    _infer(c, s, name)


def _is_poison(symbol: Symbol) -> bool:
    from croq_magic.compiler.check.values import Poison

    return isinstance(symbol.value, Poison)


def _immutable(value: Value) -> str:
    return "immutable" if isinstance(value, (Scalar, Bounded)) else value.describe()


def _infer(c: Checker, s: syntax.Assign, name: syntax.Name) -> None:
    """`x = e` declares `x` with the type of `e`."""
    if isinstance(s.value, syntax.NameRef):
        symbol = c.find(s.value.text)
        if symbol is not None and isinstance(symbol.value, FutureValue) and symbol.value.place is not None:
            c.fail("DMA10", "a placeholder cannot be copied", s.value.span)
    value = evaluate(c, s.value)
    if isinstance(value, Text):
        c.fail("TYP09", "string variables do not exist; use the literal directly", s.value.span)
    if isinstance(value, Shape):
        text = s.value.span.text
        c.fail(
            "SYN02",
            f"`{text}` is a shape",
            s.span,
            f"`{name.text} : {text};` names a shape; an ituple is written with `{{ }}`",
        )
    if isinstance(value, FutureValue) and not isinstance(s.value, syntax.Select):
        c.fail(
            "DMA10",
            f"`{s.value.span.text}` is a future and cannot be copied",
            s.value.span,
            f"`{name.text} = {s.value.span.text}.data` names its data",
        )
    if isinstance(value, ArrayValue):
        c.fail("VEW14", f"`{s.value.span.text}` is an array of spans; choose one with `[i]`", s.value.span)
    if isinstance(value, Scalar):
        dtype = value.narrow or value.type
        define(c, name, value, dtype, mutable=value.element, span=s.span)
        return
    c.declare(name, value, value.storage if isinstance(value, SpanValue) else None)


def _assign_scalar(c: Checker, s: syntax.Assign, symbol: Symbol) -> None:
    value = symbol.value
    if not isinstance(value, Scalar) or value.var is None:
        hint = f"declare it `mutable int {symbol.name}`" if isinstance(value, Scalar) else None
        c.fail("TYP01", f"`{symbol.name}` is {_immutable(value)}", s.target.span, hint)
    check_outer(c, symbol, s.span)
    right = _right_side(c, s, value.var.dtype)
    if s.op != "=":
        right = binary(c, s.op[0], value, right, s.span)
    var = value.var
    if var.dtype is BOOL and right.type is not BOOL:
        c.fail(
            "TYP05",
            f"`{symbol.name}` is `bool` but the value is `{right.type}`",
            s.value.span,
            f"`{s.value.span.text} != 0`",
        )
    c.emit(ir.Assign(var, store_as(c, right, var.dtype, s.value.span, _new_value(s)), span=s.span))


def _new_value(s: syntax.Assign) -> str:
    """What is assigned, as the program would write it without `op=`."""
    value = s.value.span.text
    if s.op == "=":
        return value
    simple = isinstance(s.value, (syntax.NameRef, syntax.IntLit, syntax.FloatLit, syntax.ElemRef, syntax.Paren))
    return f"{s.target.span.text} {s.op[0]} {value if simple else f'({value})'}"


def _right_side(c: Checker, s: syntax.Assign, dtype: DType) -> Scalar:
    """The scalar on the right of an assignment; the result of a call there has the type of the left side."""
    call = calls.as_call(c, s.value)
    if call is None:
        return scalar(c, s.value)
    var = ir.Var(c.fresh("result"), dtype, ir.Role.MUTABLE)
    c.emit(ir.Let(var, None, span=s.span))
    calls.call_into(c, call, var)
    return variable(var, c)


def _store(c: Checker, s: syntax.Assign, target: syntax.ElemRef) -> None:
    value, index = element(c, target)
    dtype = value.dtype
    storage.check_local_owner(c, value, s.span)
    storage.mark_written(c, value.view, s.span)
    right = _right_side(c, s, dtype)
    if s.op == "=":
        if dtype is BOOL:
            c.emit(ir.Store(value.view, index, condition_of(c, right, s.value.span), span=s.span))
            return
        c.emit(ir.Store(value.view, index, store_as(c, right, dtype, s.value.span, s.value.span.text), span=s.span))
        return
    op = s.op[0]
    old = Scalar(cast(ir.Load(value.view, index, span=target.span), compute_type(dtype)), dtype, element=True)
    result = common_type(c, dtype, right.type, s.span)
    if op == "%" and not result.is_integer:
        c.fail("TYP10", f"`%` needs integers, found `{dtype}` and `{right.type}`", s.span)
    if op in "/%" and result.is_integer:
        divided = binary(c, op, old, right, s.span)
        c.emit(ir.Store(value.view, index, cast(divided.expr, dtype), span=s.span))
        return
    if compute_type(result) is compute_type(promote(dtype)):
        if result is not promote(dtype):
            store_as(c, Scalar(old.expr, result), dtype, s.span, _new_value(s))
        if result.is_float:
            store_as(c, right, dtype, s.value.span, s.value.span.text)  # for its warnings: what is stored is the sum
        c.emit(ir.Store(value.view, index, cast(right.expr, compute_type(dtype)), op, span=s.span))
        return
    combined = binary(c, op, old, right, s.span)
    c.emit(ir.Store(value.view, index, store_as(c, combined, dtype, s.span, _new_value(s)), span=s.span))


def _span_operation(c: Checker, s: syntax.Assign, target: SpanValue) -> None:
    """`a += b` on whole spans."""
    storage.check_local_owner(c, target, s.span)
    storage.mark_written(c, target.view, s.span)
    value = evaluate(c, s.value)
    if isinstance(value, FutureValue):
        c.fail("TYP13", f"`{s.value.span.text}` is a future", s.value.span, f"`{s.value.span.text}.data`")
    if isinstance(value, SpanValue):
        _check_broadcast(c, target, value, s.span)
        c.emit(ir.SpanOp(target.view, value.view, s.op[0], span=s.span))
        return
    found = as_scalar(c, value, s.value.span, s.value.span.text)
    store_as(c, found, target.dtype, s.value.span, s.value.span.text)  # for its warnings: what is stored is the result
    c.emit(ir.SpanOp(target.view, cast(found.expr, compute_type(target.dtype)), s.op[0], span=s.span))


def _check_broadcast(c: Checker, target: SpanValue, value: SpanValue, span: Span) -> None:
    from croq_magic.compiler import integers
    from croq_magic.compiler.check.context import show

    a, b = target.view.extents, value.view.extents
    if value.dtype is not target.dtype:
        c.fail(
            "DMA01",
            f"the left side is `{target.dtype}`, the right `{value.dtype}`; whole-span arithmetic does not convert",
            span,
        )
    if len(b) > len(a) or any(not integers.equal(x, y) for x, y in zip(a[len(a) - len(b) :], b, strict=True)):
        left, right = (", ".join(map(show, e)) for e in (a, b))
        c.fail("SHP14", f"shapes [{left}] and [{right}] do not broadcast", span, "trailing dimensions must agree")
