"""Operators, casts, builtins and choices (TYP, VEW15 codes)."""

from __future__ import annotations

from croq_magic.compiler import integers, ir, syntax
from croq_magic.compiler.check import builtins, shapes, steps
from croq_magic.compiler.check.context import Checker, decide, in_range, show
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
from croq_magic.compiler.check.expressions import (
    condition,
    evaluate,
    evaluates,
    scalar,
)
from croq_magic.compiler.check.values import (
    Bounded,
    BoundedTuple,
    FutureValue,
    Scalar,
    SpanValue,
    Value,
    constant,
    is_entry,
    is_index,
)
from croq_magic.compiler.source import Span
from croq_magic.compiler.types import BOOL, BY_NAME, S32, DType

_BITWISE = ("&", "|", "^")
_COMPARISONS = ("<", "<=", ">", ">=", "==", "!=")


@evaluates
def _(e: syntax.Unary, c: Checker) -> Value:
    if e.op in ("++", "--"):
        return steps.prefix(c, e)
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


@evaluates
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
    left = condition(c, e.left)
    with c.guarded(left if e.op == "&&" else ir.Unary("!", left, BOOL)):
        right = condition(c, e.right)
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
    checked = op in ("/", "%") and dtype.is_integer and not divisor_is_known(c, right, span)
    expr = ir.Binary(op, left, right, compute_type(dtype), checked, span=span)
    if is_index(expr):
        expr = _fold(expr, dtype)
    narrow = _narrow(a, b) if dtype is S32 else None
    return Scalar(expr, dtype, narrow, a.element or b.element)


def divisor_is_known(c: Checker, divisor: ir.Expr, span: Span) -> bool:
    """Whether a divisor is certainly not zero: by its bounds, or because the function refuses to run otherwise. If not,
    the division is checked while running."""
    low, high = integers.interval(divisor)
    if (low is not None and low > 0) or (high is not None and high < 0):
        return True
    if not is_index(divisor) or not is_entry(divisor) or c.guards or c.maybe_skipped:
        return False
    message = f"division by zero: `{span.text}`"
    c.require(ir.Binary("!=", divisor, ir.Const(0, divisor.dtype), BOOL), "TYP22", message, span)
    return True


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


@evaluates
def _(e: syntax.Ternary, c: Checker) -> Value:
    test = condition(c, e.condition)
    with c.guarded(test):
        a = scalar(c, e.then)
    with c.guarded(ir.Unary("!", test, BOOL)):
        b = scalar(c, e.other)
    if a.type is BOOL and b.type is BOOL:
        dtype = BOOL
    else:
        dtype = a.type if a.type is b.type else common_type(c, a.type, b.type, e.span)
    left, right = value_of(a, dtype), value_of(b, dtype)
    if isinstance(test, ir.Const):
        return Scalar(left if test.value else right, dtype, element=a.element or b.element)
    return Scalar(ir.Select(test, left, right, left.dtype), dtype, element=a.element or b.element)


@evaluates
def _(e: syntax.Builtin, c: Checker) -> Value:
    if e.name.text == "cdiv":
        values = [evaluate(c, a) for a in e.args]
        if len(values) == 2 and any(shapes.is_list(_unwrap(v)) for v in values):
            return shapes.arithmetic(c, "cdiv", _unwrap(values[0]), _unwrap(values[1]), e.span)
    return builtins.call(c, e.name.text, [scalar(c, a) for a in e.args], e.span)


@evaluates
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


@evaluates
def _(e: syntax.CallLike, c: Checker) -> Value:
    c.fail("CAL06", "a call is not an operand", e.span, "bind the result first, `mutable s32 r = call f(...);`")


@evaluates
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
    inside = in_range(index, len(choices))
    message = f"selector `{show(index)}`, valid range is [0, {len(choices)})"
    c.require(inside, "RTA07", message, e.selector.span, values=(index,))
    result = value_of(choices[-1], dtype)
    for position, choice in reversed(list(enumerate(choices[:-1]))):
        result = ir.Select(
            ir.Binary("==", index, ir.Const(position), BOOL), value_of(choice, dtype), result, result.dtype
        )
    return Scalar(result, dtype, element=any(choice.element for choice in choices))


@evaluates
def _(e: syntax.AddressOf, c: Checker) -> Value:
    c.fail("CAL02", "an address is only an argument of `call`", e.span)
