"""Expressions: from syntax to values (TYP, SHP, VEW15 codes)."""

from __future__ import annotations

import functools

from croq_magic.compiler import integers, ir, syntax
from croq_magic.compiler.check import builtins, shapes
from croq_magic.compiler.check.context import Checker, decide, show
from croq_magic.compiler.check.conversions import (
    as_scalar,
    cast,
    common_type,
    compute_type,
    condition_of,
    constant_as,
    promote,
    value_of,
)
from croq_magic.compiler.check.names import require_bound, resolve
from croq_magic.compiler.check.values import (
    ArrayValue,
    Bounded,
    BoundedTuple,
    FragmentValue,
    FutureValue,
    ITuple,
    OperationValue,
    Scalar,
    Shape,
    SpanValue,
    Text,
    Value,
    constant,
    is_index,
)
from croq_magic.compiler.source import Span
from croq_magic.compiler.types import BOOL, BY_NAME, F32, F64, S32, S64, U32, U64, DType

_BITWISE = ("&", "|", "^")
_COMPARISONS = ("<", "<=", ">", ">=", "==", "!=")
_INT_TYPES = {"int": S32, "s64": S64, "u32": U32, "u64": U64}


@functools.singledispatch
def _evaluate(e: syntax.Expr, c: Checker) -> Value:
    c.unsupported(f"`{type(e).__name__}` here", e.span)


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
def _(e: syntax.Paren, c: Checker) -> Value:
    return evaluate(c, e.inner)


# ------------------------------------------------------------------------------------------- names and elements


@_evaluate.register
def _(e: syntax.NameRef, c: Checker) -> Value:
    value = resolve(c, e.text, e.span).value
    require_bound(c, value, e.text, e.span)
    return value


def buffer_value(c: Checker, ref: syntax.BufferRef) -> Value:
    """A plain name, an element of a buffer array, or the data of a future."""
    value = resolve(c, ref.name.text, ref.name.span).value
    require_bound(c, value, ref.name.text, ref.name.span)
    if ref.data == "mdata":
        c.unsupported("`.mdata`", ref.span)
    if ref.data == "data" and isinstance(value, OperationValue):
        name = ref.name.text
        c.fail(
            "TYP14",
            f"`{name}` reports completion of an MMA and holds no data; read the accumulator "
            f"`{value.accumulator}` instead",
            ref.span,
        )
    if ref.data == "data":
        if not isinstance(value, FutureValue):
            c.fail(
                "TYP14",
                f"`{ref.name.text}` is {value.describe()} and has no `.data`",
                ref.span,
                f"use `{ref.name.text}` itself" if isinstance(value, SpanValue) else None,
            )
        require_waited(c, value, ref)
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
        inside = ir.Binary(
            "&&", ir.Binary(">=", index, ir.Const(0), BOOL), ir.Binary("<", index, ir.Const(extent), BOOL), BOOL
        )
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
        from croq_magic.compiler.check.tensor import element_value

        return element_value(c, e, symbol.value)
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
    return value, tuple(index)


# ------------------------------------------------------------------------------------------- shapes and ituples


@_evaluate.register
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


@_evaluate.register
def _(e: syntax.ShapeLit, c: Checker) -> Value:
    extents = _list_items(c, e.items, "extents")
    for dimension, extent in enumerate(extents):
        shapes.check_extent(c, extent, dimension, e.items[min(dimension, len(e.items) - 1)].span)
    return Shape(tuple(extents))


@_evaluate.register
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


@_evaluate.register
def _(e: syntax.DimRef, c: Checker) -> Value:
    items = c.derivation or ()
    if not 0 <= e.index < len(items):
        c.fail("SHP07", f"dimension {e.index} does not exist, rank is {len(items)}", e.span)
    return Scalar(items[e.index], S32)


@_evaluate.register
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


@_evaluate.register
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


@_evaluate.register
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


@_evaluate.register
def _(e: syntax.SizeOf, c: Checker) -> Value:
    return constant(BY_NAME[e.type.name].size)


# ---------------------------------------------------------------------------------------------------- operators


@_evaluate.register
def _(e: syntax.Unary, c: Checker) -> Value:
    if e.op in ("++", "--"):
        c.unsupported(f"`{e.op}`", e.span, "write `x = x + 1`")
    if e.op == "!":
        inner = condition(c, e.operand)
        return Scalar(
            ir.Const(not inner.value, BOOL) if isinstance(inner, ir.Const) else ir.Unary("!", inner, BOOL), BOOL
        )
    value = evaluate(c, e.operand)
    if e.op == "-" and shapes.is_list(value) and not (isinstance(value, BoundedTuple) and len(value.items) == 1):
        return shapes.arithmetic(c, "-", constant(0), value, e.span)
    s = as_scalar(c, value, e.operand.span, e.operand.span.text)
    result = promote(s.type)
    operand = value_of(s, result)
    if e.op == "+":
        return Scalar(operand, result, s.narrow, s.element)
    if e.op == "~" and not result.is_integer:
        c.fail("TYP10", f"`~` needs an integer, found `{s.type}`", e.span)
    if isinstance(operand, ir.Const) and not isinstance(operand.value, bool):
        number = -operand.value if e.op == "-" else ~int(operand.value)
        if not result.is_integer or constant_as(number, result) is not None:
            return Scalar(ir.Const(number, operand.dtype), result, element=s.element)
    expr: ir.Expr = ir.Unary(e.op, operand, operand.dtype)
    return Scalar(integers.simplify(expr) if is_index(expr) else expr, result, s.narrow, s.element)


@_evaluate.register
def _(e: syntax.Postfix, c: Checker) -> Value:
    c.unsupported(f"`{e.op}`", e.span, "write `x = x + 1`")


@_evaluate.register
def _(e: syntax.Binary, c: Checker) -> Value:
    if e.op in ("&&", "||"):
        return _logical(c, e)
    if e.op not in _BITWISE:
        _warn_precedence(c, e)
    left, right = evaluate(c, e.left), evaluate(c, e.right)
    if e.op == "#":
        return _compose(c, e, left, right)
    if e.op in ("#+", "#-", "#*", "#/", "#%"):
        return _change_extent(c, e, left, right)
    left, right = _unwrap(left), _unwrap(right)
    if shapes.is_list(left) or shapes.is_list(right):
        if e.op not in shapes.ARITHMETIC:
            c.fail(
                "TYP10", f"`{e.op}` is not defined on {(left if shapes.is_list(left) else right).describe()}", e.span
            )
        return shapes.arithmetic(c, e.op, left, right, e.span)
    a = as_scalar(c, left, e.left.span, e.left.span.text)
    b = as_scalar(c, right, e.right.span, e.right.span.text)
    result = binary(c, e.op, a, b, e.span)
    if result.type is S32 and e.op in ("+", "-", "*", "/", "%"):
        if isinstance(left, Bounded) and not isinstance(right, Bounded):
            return Bounded(result.expr, left.extent, None, left.depth)
        if isinstance(right, Bounded) and not isinstance(left, Bounded) and e.op in ("+", "*"):
            return Bounded(result.expr, right.extent, None, right.depth)
    return result


def _unwrap(value: Value) -> Value:
    """A bounded ituple of rank 1 behaves as a bounded integer."""
    return value.items[0] if isinstance(value, BoundedTuple) and len(value.items) == 1 else value


def _logical(c: Checker, e: syntax.Binary) -> Value:
    left, right = condition(c, e.left), condition(c, e.right)
    for a, b in ((left, right), (right, left)):
        if isinstance(a, ir.Const):
            return Scalar(a if bool(a.value) is (e.op == "||") else b, BOOL)
    return Scalar(ir.Binary(e.op, left, right, BOOL), BOOL)


def _warn_precedence(c: Checker, e: syntax.Binary) -> None:
    for side in (e.left, e.right):
        if isinstance(side, syntax.Binary) and side.op in _BITWISE:
            left, right = (f"({x.span.text})" if x is side else x.span.text for x in (e.left, e.right))
            message = f"`{side.op}` binds tighter than `{e.op}` here: read as `{left} {e.op} {right}`"
            c.warn("TYP17", message, e.span, "add parentheses")


def binary(c: Checker, op: str, a: Scalar, b: Scalar, span: Span) -> Scalar:
    """Arithmetic, comparison, shift or bitwise operation on two numbers."""
    shift = op in ("<<", ">>")
    dtype = promote(a.type) if shift else common_type(c, a.type, b.type, span)
    if (shift or op in ("&", "|", "^", "%")) and not (dtype.is_integer and promote(b.type).is_integer):
        c.fail("TYP10", f"`{op}` needs integers, found `{a.describe()}` and `{b.describe()}`", span)
    left, right = value_of(a, dtype), value_of(b, promote(b.type) if shift else dtype)
    if op in ("/", "%") and dtype.is_integer and isinstance(right, ir.Const) and right.value == 0:
        c.fail("TYP22", f"division by zero: `{span.text}`", span)
    if op in _COMPARISONS:
        expr: ir.Expr = ir.Binary(op, left, right, BOOL)
        if isinstance(left, ir.Const) and isinstance(right, ir.Const):
            known = decide(expr)
            expr = expr if known is None else ir.Const(known, BOOL)
        return Scalar(expr, BOOL)
    expr = ir.Binary(op, left, right, compute_type(dtype))
    if is_index(expr):
        expr = _fold(expr, dtype)
    narrow = _narrow(a, b) if dtype is S32 else None
    return Scalar(expr, dtype, narrow, a.element or b.element)


def _fold(expr: ir.Expr, dtype: DType) -> ir.Expr:
    simplified = integers.simplify(expr)
    if isinstance(simplified, ir.Const):
        value = int(simplified.value)
        low, high = dtype.range
        return ir.Const((value - low) % (high - low + 1) + low, dtype)
    return simplified if dtype is S32 else expr


def _narrow(a: Scalar, b: Scalar) -> DType | None:
    """The narrow type of an operation on two values of it, or on one and a literal that it holds."""
    x, y = a.narrow or a.type, b.narrow or b.type
    if isinstance(b.expr, ir.Const) and constant_as(b.expr.value, x) is not None:
        y = x
    elif isinstance(a.expr, ir.Const) and constant_as(a.expr.value, y) is not None:
        x = y
    return x if x is y and x.is_integer and x.bits < 32 else None


def _compose(c: Checker, e: syntax.Binary, left: Value, right: Value) -> Value:
    a, b = _unwrap(left), _unwrap(right)
    for value, side in ((a, e.left), (b, e.right)):
        if not isinstance(value, Bounded):
            c.fail("TYP11", f"`#` composes bounded integers; `{side.span.text}` is {value.describe()}", side.span)
    assert isinstance(a, Bounded) and isinstance(b, Bounded)
    if a.driver and b.driver and not a.driver.parallel and b.driver.parallel and a.driver.depth > b.driver.depth:
        c.warn(
            "VEW15",
            f"`{e.span.text}` strides by the outer extent; tiles are normally `{b.driver.name}#{a.driver.name}`",
            e.span,
        )
    return Bounded(
        integers.add(integers.mul(a.value, b.extent), b.value),
        integers.mul(a.extent, b.extent),
        None,
        max(a.depth, b.depth),
    )


def _change_extent(c: Checker, e: syntax.Binary, left: Value, right: Value) -> Value:
    a = _unwrap(left)
    if not isinstance(a, Bounded):
        c.fail(
            "TYP11",
            f"`{e.op}` changes the extent of a bounded integer; `{e.left.span.text}` is {a.describe()}",
            e.left.span,
        )
    k = as_scalar(c, right, e.right.span).expr
    return Bounded(a.value, shapes.apply(c, e.op[1:], a.extent, k, e.span), a.driver, a.depth)


@_evaluate.register
def _(e: syntax.Ternary, c: Checker) -> Value:
    test = condition(c, e.condition)
    a, b = scalar(c, e.then), scalar(c, e.other)
    if a.type is BOOL and b.type is BOOL:
        dtype = BOOL
    else:
        dtype = a.type if a.type is b.type else common_type(c, a.type, b.type, e.span)
    left, right = value_of(a, dtype), value_of(b, dtype)
    if isinstance(test, ir.Const):
        return Scalar(left if test.value else right, dtype, element=a.element or b.element)
    return Scalar(ir.Select(test, left, right, left.dtype), dtype, element=a.element or b.element)


@_evaluate.register
def _(e: syntax.Builtin, c: Checker) -> Value:
    if e.name.text == "cdiv":
        values = [evaluate(c, a) for a in e.args]
        if len(values) == 2 and any(shapes.is_list(_unwrap(v)) for v in values):
            return shapes.arithmetic(c, "cdiv", _unwrap(values[0]), _unwrap(values[1]), e.span)
    return builtins.call(c, e.name.text, [scalar(c, a) for a in e.args], e.span)


@_evaluate.register
def _(e: syntax.Cast, c: Checker) -> Value:
    if isinstance(e.type, syntax.StringLit):
        c.fail("TYP16", f'`__to<"{e.type.value}">` is a C cast; it stands only as an argument of `call`', e.span)
    dtype = BY_NAME.get(e.type.name, S32)
    if dtype.is_float and dtype.bits < 8:
        c.fail("TYP16", f"`{dtype}` cannot be computed with on this target", e.span)
    s = scalar(c, e.operand)
    if dtype is BOOL:
        return Scalar(condition_of(c, s, e.span), BOOL, element=True)
    rounded = cast(s.expr, dtype)
    if isinstance(s.expr, ir.Const) and isinstance(rounded, ir.Cast):
        rounded = ir.Cast(s.expr, dtype)
    return Scalar(cast(rounded, compute_type(dtype)), dtype, element=True)


@_evaluate.register
def _(e: syntax.CallLike, c: Checker) -> Value:
    c.fail("CAL06", "a call is not an operand", e.span, "bind the result first, `mutable s32 r = call f(...);`")


@_evaluate.register
def _(e: syntax.Select, c: Checker) -> Value:
    from croq_magic.compiler.check.handles import select

    if isinstance(evaluate(c, e.choices[0]), SpanValue | FutureValue):
        return select(c, e)
    choices = [scalar(c, choice) for choice in e.choices]
    selector = scalar(c, e.selector)
    number = integers.value(selector.expr)
    if number is not None:
        if not 0 <= number < len(choices):
            c.fail("DMA14", f"selector {number}, valid range is [0, {len(choices)})", e.selector.span)
        return choices[number]
    dtype = choices[0].type
    for choice in choices[1:]:
        dtype = dtype if dtype is choice.type else common_type(c, dtype, choice.type, e.span)
    index = cast(selector.expr, S32)
    inside = ir.Binary(
        "&&", ir.Binary(">=", index, ir.Const(0), BOOL), ir.Binary("<", index, ir.Const(len(choices)), BOOL), BOOL
    )
    message = f"selector `{show(index)}`, valid range is [0, {len(choices)})"
    c.require(inside, "RTA07", message, e.selector.span, values=(index,))
    result = value_of(choices[-1], dtype)
    for position, choice in reversed(list(enumerate(choices[:-1]))):
        result = ir.Select(
            ir.Binary("==", index, ir.Const(position), BOOL), value_of(choice, dtype), result, result.dtype
        )
    return Scalar(result, dtype, element=any(choice.element for choice in choices))


@_evaluate.register
def _(e: syntax.AddressOf, c: Checker) -> Value:
    c.fail("CAL02", "an address is only an argument of `call`", e.span)
