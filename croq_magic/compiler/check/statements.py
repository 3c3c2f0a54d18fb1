"""Statements: dispatch, scopes of bodies, declarations of scalars and shapes, assignments (TYP, NAM codes)."""

from __future__ import annotations

import functools
from collections.abc import Callable

from croq_magic.compiler import integers, ir, syntax
from croq_magic.compiler.check import (
    calls,
    escapes,
    events,
    handles,
    loops,
    parallel,
    shapes,
    storage,
    tensor,
    transfers,
)
from croq_magic.compiler.check.context import Checker, Skip, Symbol
from croq_magic.compiler.check.conversions import (
    as_scalar,
    cast,
    common_type,
    compute_type,
    condition_of,
    promote,
    store_as,
)
from croq_magic.compiler.check.expressions import binary, buffer_value, element, evaluate, scalar
from croq_magic.compiler.check.names import resolve
from croq_magic.compiler.check.values import (
    ArrayValue,
    Bounded,
    BoundedTuple,
    FragmentValue,
    FutureValue,
    ITuple,
    Scalar,
    Shape,
    SpanValue,
    Text,
    Value,
    is_index,
)
from croq_magic.compiler.source import Span
from croq_magic.compiler.types import BOOL, BY_NAME, F32, S32, DType

_CONTROL = ("int", "bool")


def statement(c: Checker, s: syntax.Stmt) -> None:
    """Checks one statement and emits its IR. A wrong statement is reported and leaves its names poisoned."""
    try:
        _check(s, c)
    except Skip:
        for name in _declared(s):
            c.poison(name)


def _declared(s: syntax.Stmt) -> list[syntax.Name]:
    if isinstance(
        s, syntax.Dma | syntax.Placeholder | syntax.MapView | syntax.MmaFill | syntax.MmaLoad | syntax.MmaMultiply
    ):
        return [s.result] if s.result else []
    if isinstance(s, syntax.MdspanDecl | syntax.ItupleDecl):
        return [s.name]
    if isinstance(s, syntax.ScalarDecl | syntax.SpanDecl | syntax.FragDecl | syntax.EventDecl):
        return [item.name for item in s.items]
    if isinstance(s, syntax.Assign) and isinstance(s.target, syntax.NameRef):
        return [syntax.Name(s.target.span, s.target.text)]
    return []


def body(c: Checker, s: syntax.Stmt, kind: str) -> ir.Body:
    """The statements of a body, in a scope of their own."""
    with c.scope(kind, s.span), c.collect() as statements:
        for inner in s.body if isinstance(s, syntax.Block) else (s,):
            statement(c, inner)
    return tuple(statements)


@functools.singledispatch
def _check(s: syntax.Stmt, c: Checker) -> None:
    c.unsupported("this statement", s.span)


def _register(cls: type[syntax.Stmt], function: Callable[[Checker, syntax.Stmt], None]) -> None:
    _check.register(cls)(lambda s, c: function(c, s))


_register(syntax.Parallel, parallel.parallel)  # type: ignore[arg-type]
_register(syntax.InThreads, parallel.inthreads)  # type: ignore[arg-type]
_register(syntax.Barrier, parallel.barrier)  # type: ignore[arg-type]
_register(syntax.Sync, parallel.sync)  # type: ignore[arg-type]
_register(syntax.Fence, parallel.fence)  # type: ignore[arg-type]
_register(syntax.Yield, parallel.yields)  # type: ignore[arg-type]
_register(syntax.With, loops.with_)  # type: ignore[arg-type]
_register(syntax.Foreach, loops.foreach)  # type: ignore[arg-type]
_register(syntax.While, loops.while_)  # type: ignore[arg-type]
_register(syntax.If, loops.if_)  # type: ignore[arg-type]
_register(syntax.Break, loops.break_)  # type: ignore[arg-type]
_register(syntax.Continue, loops.continue_)  # type: ignore[arg-type]
_register(syntax.Dma, transfers.dma)  # type: ignore[arg-type]
_register(syntax.Placeholder, handles.placeholder)  # type: ignore[arg-type]
_register(syntax.Swap, handles.swap)  # type: ignore[arg-type]
_register(syntax.Rotate, handles.rotate)  # type: ignore[arg-type]
_register(syntax.MapView, transfers.map_view)  # type: ignore[arg-type]
_register(syntax.CppEscape, escapes.cpp)  # type: ignore[arg-type]
_register(syntax.Asm, escapes.asm)  # type: ignore[arg-type]
_register(syntax.EventDecl, events.declaration)  # type: ignore[arg-type]
_register(syntax.Trigger, events.trigger)  # type: ignore[arg-type]
_register(syntax.FragDecl, tensor.fragment_declaration)  # type: ignore[arg-type]
_register(syntax.MmaFill, tensor.fill)  # type: ignore[arg-type]
_register(syntax.MmaLoad, tensor.load)  # type: ignore[arg-type]
_register(syntax.MmaMultiply, tensor.multiply)  # type: ignore[arg-type]
_register(syntax.MmaScale, tensor.scale)  # type: ignore[arg-type]
_register(syntax.MmaStore, tensor.store)  # type: ignore[arg-type]
_register(syntax.MmaCommit, tensor.commit)  # type: ignore[arg-type]
_register(syntax.Apply, tensor.apply)  # type: ignore[arg-type]
_register(syntax.FragReduce, tensor.reduce)  # type: ignore[arg-type]
_register(syntax.AllReduce, tensor.all_reduce)  # type: ignore[arg-type]
_register(syntax.FragCopy, tensor.copy)  # type: ignore[arg-type]
_register(syntax.Wait, transfers.wait)  # type: ignore[arg-type]
_register(syntax.SpanDecl, storage.span_declaration)  # type: ignore[arg-type]
_register(syntax.CallStmt, calls.call_statement)  # type: ignore[arg-type]
_register(syntax.Assert, calls.assertion)  # type: ignore[arg-type]
_register(syntax.Print, calls.prints)  # type: ignore[arg-type]
_register(syntax.PragmaIntrinsic, calls.pragma)  # type: ignore[arg-type]


@_check.register
def _(s: syntax.Empty, c: Checker) -> None:
    pass


@_check.register
def _(s: syntax.Block, c: Checker) -> None:
    c.emit(ir.Scope(body(c, s, "block"), span=s.span))


@_check.register
def _(s: syntax.Return, c: Checker) -> None:
    if c.in_device:
        c.fail("PAR19", "`return` is not allowed inside `parallel`", s.span, "`yield` ends one instance")
    value = None if s.value is None else evaluate(c, s.value)
    if isinstance(value, (ITuple, Shape, BoundedTuple, FutureValue, ArrayValue, Text)):
        c.fail("TYP20", f"{value.describe()} cannot be returned; return a span or a scalar", s.span)
    if isinstance(value, Bounded):
        value = value.scalar()
    if isinstance(value, SpanValue) and (value.storage is not ir.Storage.GLOBAL or not value.view.contiguous):
        c.fail("TYP20", "a view cannot be returned; copy it into a span of its own", s.span)
    if isinstance(value, Scalar):
        c.emit(ir.Return(cast(value.expr, value.type), span=s.span))
    else:
        c.emit(ir.Return(value.view if isinstance(value, SpanValue) else None, span=s.span))
    c.returns.append((value, s.span))


# ---------------------------------------------------------------------------------------------- declarations


@_check.register
def _(s: syntax.MdspanDecl, c: Checker) -> None:
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


@_check.register
def _(s: syntax.ItupleDecl, c: Checker) -> None:
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


@_check.register
def _(s: syntax.ScalarDecl, c: Checker) -> None:
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
    if not mutable and expr is not None and dtype is S32 and is_index(expr):
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
    from croq_magic.compiler import integers

    low, high = integers.interval(expr)
    return (None if low is None else integers.constant(low), None if high is None else integers.constant(high + 1))


def variable(var: ir.Var, c: Checker) -> Scalar:
    """The value of an assignable variable."""
    return Scalar(cast(var, compute_type(var.dtype)), var.dtype, element=True, var=var, depth=c.depth)


# ----------------------------------------------------------------------------------------------- assignments


@_check.register
def _(s: syntax.Assigns, c: Checker) -> None:
    for item in s.items:
        statement(c, item)


@_check.register
def _(s: syntax.Assign, c: Checker) -> None:
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
        value, ref = tensor.reference(c, base, "the left side")
        tensor.operation(c, s, value, ref)
        return True
    element_ref, index = tensor.element_index(c, target, symbol.value)
    dtype = symbol.value.dtype or F32
    right = _right_side(c, s, dtype)
    symbol.value.replicated = symbol.value.replicated or len(index) < c.applied
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
            c.fail(
                "CAL04",
                "a call result needs a `mutable` variable with a written type",
                s.span,
                f"`mutable s32 {target.text} = ...`",
            )
        var = symbol.value.var
        _check_outer(c, symbol, s.span)
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


def _check_outer(c: Checker, symbol: Symbol, span: Span) -> None:
    """PAR22: a scalar of an outer instance is shared by the instances inside."""
    inner = c.nest[symbol.depth :]
    count = integers.value(integers.product(extent for nest in inner for extent in nest.extents))
    if any(not nest.single for nest in inner):
        who = f"{count} {inner[-1].plural}" if count is not None else "several instances"
        message = f"{who} update `{symbol.name}` without synchronisation"
        c.fail("PAR22", message, span, "`__atomic_add` on a `shared s32 [1]`, or declare it inside")
    if inner and symbol.depth == 0:
        message = f"`{symbol.name}` belongs to the host; a launch gets its value and cannot change it"
        c.fail("PAR22", message, span, f"store into a span, or declare `{symbol.name}` inside")


def _assign_scalar(c: Checker, s: syntax.Assign, symbol: Symbol) -> None:
    value = symbol.value
    if not isinstance(value, Scalar) or value.var is None:
        hint = f"declare it `mutable int {symbol.name}`" if isinstance(value, Scalar) else None
        c.fail("TYP01", f"`{symbol.name}` is {_immutable(value)}", s.target.span, hint)
    _check_outer(c, symbol, s.span)
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
    text = s.value.span.text if s.op == "=" else s.span.text
    c.emit(ir.Assign(var, store_as(c, right, var.dtype, s.value.span, text), span=s.span))


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
    if compute_type(result) is compute_type(promote(dtype)):
        if result is not promote(dtype):
            store_as(c, Scalar(old.expr, result), dtype, s.span, s.span.text)
        operand = store_as(c, right, dtype, s.value.span, s.value.span.text) if result.is_float else right.expr
        c.emit(ir.Store(value.view, index, cast(operand, compute_type(dtype)), op, span=s.span))
        return
    combined = binary(c, op, old, right, s.span)
    c.emit(ir.Store(value.view, index, store_as(c, combined, dtype, s.span, s.span.text), span=s.span))


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
    converted = store_as(c, found, target.dtype, s.value.span, s.value.span.text)
    c.emit(ir.SpanOp(target.view, converted, s.op[0], span=s.span))


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
