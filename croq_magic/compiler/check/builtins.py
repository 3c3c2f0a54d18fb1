"""Mathematical builtins (interop section 9): arity, operand types and result type."""

from __future__ import annotations

from croq_magic.compiler import integers, ir
from croq_magic.compiler.check.context import Checker
from croq_magic.compiler.check.conversions import common_type, compute_type, promote, value_of
from croq_magic.compiler.check.values import Scalar, is_index
from croq_magic.compiler.source import Span
from croq_magic.compiler.types import F32, S32

_UNARY = [
    "sin",
    "cos",
    "tan",
    "asin",
    "acos",
    "atan",
    "sinh",
    "cosh",
    "tanh",
    "exp",
    "expm1",
    "exp2f",
    "log",
    "log1p",
    "sqrt",
    "rsqrt",
    "frcp_rn",
    "fabs",
    "sign",
    "ceil",
    "floor",
    "round",
    "isfinite",
    "sigmoid",
    "softplus",
    "gelu",
]
ARITY = {
    **{f"__{name}": 1 for name in _UNARY},
    **dict.fromkeys(("__atan2", "__pow", "__max", "__min", "__alignup", "__aligndown", "cdiv"), 2),
    "__fmaf": 3,
}
_INTEGER = ("__alignup", "__aligndown", "cdiv")


def call(c: Checker, name: str, args: list[Scalar], span: Span) -> Scalar:
    """The value of `name(args)`."""
    arity = ARITY.get(name)
    if arity is None:
        c.unsupported(f"`{name}`", span)
    if len(args) != arity:
        c.fail("CAL08", f"`{name}` takes {arity} argument{'s' * (arity != 1)}, found {len(args)}", span)
    if name in _INTEGER:
        return _integer(c, name, args, span)
    dtype = promote(args[0].type)
    for arg in args[1:]:
        dtype = common_type(c, dtype, arg.type, span)
    if dtype.is_integer and name not in ("__max", "__min"):
        c.fail("TYP10", f"`{name}` needs a float, found `{args[0].type}`", span, f"`{name}(__to<f32>(...))`")
    if name == "__exp2f":
        dtype = F32
    operands = tuple(value_of(arg, dtype) for arg in args)
    expr: ir.Expr = ir.Builtin(name, operands, compute_type(dtype))
    if dtype is S32 and is_index(expr):
        expr = integers.simplify(expr)
    return Scalar(expr, dtype, element=any(arg.element for arg in args))


def _integer(c: Checker, name: str, args: list[Scalar], span: Span) -> Scalar:
    for arg in args:
        if not arg.type.is_integer:
            c.fail("TYP10", f"`{name}` needs integers, found `{arg.type}`", span)
    a, b = args
    if integers.value(b.expr) == 0:
        c.fail("TYP22", f"division by zero: `{span.text}`", span)
    dtype = common_type(c, a.type, b.type, span)
    x, y = value_of(a, dtype), value_of(b, dtype)
    from croq_magic.compiler.check.operators import divisor_is_known

    checked = not divisor_is_known(c, y, span)
    make = integers.binary if is_index(x) and is_index(y) and not checked else ir.Binary

    def quotient(dividend: ir.Expr) -> ir.Expr:
        if checked:
            return ir.Binary("/", dividend, y, dtype, True, span)
        return make("/", dividend, y, dtype)

    if name == "__aligndown":
        result = make("*", quotient(x), y, dtype)
    else:
        rounded = make("-", make("+", x, y, dtype), ir.Const(1, dtype), dtype)
        result = quotient(rounded)
        if name == "__alignup":
            result = make("*", result, y, dtype)
    return Scalar(result, dtype, element=a.element or b.element)
