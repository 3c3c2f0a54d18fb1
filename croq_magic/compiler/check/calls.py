"""Calls of foreign functions, atomics, prints, assertions (CAL codes)."""

from __future__ import annotations

from croq_magic.compiler import integers, ir, syntax, views
from croq_magic.compiler.check.context import Checker, decide, free_variables
from croq_magic.compiler.check.conversions import as_scalar, cast, store_as
from croq_magic.compiler.check.expressions import buffer_value, condition, element, evaluate, scalar
from croq_magic.compiler.check.names import check_outer, resolve
from croq_magic.compiler.check.parallel import named_barrier
from croq_magic.compiler.check.storage import mark_written
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
)
from croq_magic.compiler.lexer import MATH
from croq_magic.compiler.nearest import nearest
from croq_magic.compiler.text import format_expr
from croq_magic.compiler.types import BY_NAME, DType

Argument = ir.Expr | ir.View | ir.Fragment | ir.AddressOf | ir.CxxCast

_CXX_TYPES = {"f64": "double", "f32": "float", "int": "int", "bool": "bool"}


def call_statement(c: Checker, s: syntax.CallStmt) -> None:
    call_into(c, s.call, None)


def as_call(c: Checker, e: syntax.Expr) -> syntax.CallLike | None:
    """`e` as a call, if it is one: `x = hw_read(3)` reads like an element of `hw_read` until the name is known."""
    if isinstance(e, syntax.CallLike):
        return e
    if not isinstance(e, syntax.Pick) or not isinstance(e.base, syntax.NameRef) or c.find(e.base.text) is not None:
        return None
    if not any(e.base.text.startswith(prefix) for prefix in c.prefixes):
        return None
    name = syntax.Name(e.base.span, e.base.text)
    return syntax.IntrinsicCall(e.span, syntax.QName(name.span, (name,)), (e.index,))


def require_known(c: Checker, e: syntax.CallLike) -> None:
    """A call without `call` is one of a registered intrinsic."""
    if isinstance(e, syntax.IntrinsicCall):
        _check_intrinsic(c, e)


def call_into(c: Checker, e: syntax.CallLike, result: ir.Var | None) -> None:
    """A call as a statement or as the whole right-hand side; `result` gets its value."""
    if isinstance(e, syntax.AtomicCall):
        _atomic(c, e, result)
        return
    if isinstance(e, syntax.BarrierCall):
        if result is not None:
            c.fail("CAL04", f"`{e.name.text}` has no result", e.span)
        named_barrier(c, e)
        return
    if not c.in_device:
        c.fail("CAL01", "`call` is allowed only inside `parallel`", e.span)
    if isinstance(e, syntax.CallExpr) and e.callee.text in c.unit.device_functions:
        from croq_magic.compiler.check import inline

        inline.call(c, e, c.unit.device_functions[e.callee.text], result)
        return
    template: tuple[str | ir.Expr, ...] = ()
    if isinstance(e, syntax.CallExpr):
        name, args = e.callee.text, e.args
        template = tuple(_template_argument(c, t) for t in e.template_args)
    elif isinstance(e, syntax.IntrinsicCall):
        name, args = e.callee.text, e.args
        require_known(c, e)
    else:
        c.unsupported("this call", e.span)
    if name in c.unit.functions:
        c.fail(
            "CAL05",
            "tileflow functions cannot be called from tileflow functions",
            e.span,
            f"call `{name}` from the host, or make the shared part a `__device__` function",
        )
    copies: list[tuple[ir.Var, ir.View]] = []
    converted = tuple(_argument(c, a, copies) for a in args)
    c.emit(ir.Call(name, converted, template, result, span=e.span))
    for var, place in copies:
        c.emit(ir.Assign(var, cast(ir.Load(place, (integers.ZERO,)), var.dtype), span=e.span))


def _check_intrinsic(c: Checker, e: syntax.IntrinsicCall) -> None:
    name = e.callee.text
    if any(name.startswith(prefix) for prefix in c.prefixes) or any(
        name.startswith(space + "::") for space in c.namespaces
    ):
        return
    close = nearest(name, ("cdiv", *sorted(MATH)))
    hint = f"did you mean `{close}`?" if close else f"`call {e.span.text}`"
    c.fail("CAL10", f"`{name}` is neither declared nor a registered intrinsic", e.span, hint)


def _template_argument(c: Checker, e: syntax.Expr) -> str | ir.Expr:
    if isinstance(e, syntax.TypeArg):
        return cxx_type(BY_NAME[e.type.name])
    if isinstance(e, syntax.NameArg):
        return e.name.text
    if isinstance(e, syntax.NameRef) and c.find(e.text) is None:
        c.warn("CAL02", f"`{e.text}` is unknown here and passed on as it is", e.span)
        return e.text
    return scalar(c, e).expr


def cxx_type(dtype: DType) -> str:
    """The host type of an element type, as C++ text."""
    if dtype.name in _CXX_TYPES:
        return _CXX_TYPES[dtype.name]
    if dtype.is_integer and dtype.bits >= 8:
        return {
            ("s", 8): "signed char",
            ("u", 8): "unsigned char",
            ("s", 16): "short",
            ("u", 16): "unsigned short",
            ("s", 32): "int",
            ("u", 32): "unsigned int",
            ("s", 64): "long long",
            ("u", 64): "unsigned long long",
        }[(dtype.name[0], dtype.bits)]
    return dtype.name


def _argument(c: Checker, e: syntax.Expr, copies: list[tuple[ir.Var, ir.View]]) -> Argument:
    """What is passed; `copies` gets the variables whose address is taken, and where they live during the call."""
    e = syntax.strip_parens(e)
    if isinstance(e, syntax.NullPtr):
        return ir.CxxCast("nullptr_t", None)
    if isinstance(e, syntax.AddressOf):
        return _address(c, e, copies)
    if isinstance(e, syntax.Cast) and isinstance(e.type, syntax.StringLit):
        inner = None if isinstance(e.operand, syntax.NullPtr) else scalar(c, e.operand).expr
        return ir.CxxCast(e.type.value, inner)
    value = evaluate(c, e)
    if isinstance(value, SpanValue):
        _pass_pointer(c, value.view)
        return value.view
    if isinstance(value, FragmentValue):
        return value.fragment
    if isinstance(value, ArrayValue):
        return views.whole(value.buffer, (ir.Const(0),) * len(value.buffer.slots))
    if isinstance(value, FutureValue):
        c.fail("CAL03", f"pass `{e.span.text}.data`", e.span)
    if isinstance(value, (Scalar, Bounded)):
        s = as_scalar(c, value, e.span)
        return cast(s.expr, s.type)
    hint = f"`{e.span.text}(0)` or `|{e.span.text}|`" if isinstance(value, (Shape, BoundedTuple)) else None
    c.fail("CAL02", f"{value.describe()} cannot be passed", e.span, hint)


def _address(c: Checker, e: syntax.AddressOf, copies: list[tuple[ir.Var, ir.View]]) -> Argument:
    operand = e.operand
    if isinstance(operand, syntax.ElemRef):
        value, index = element(c, operand)
        _pass_pointer(c, value.view)
        return ir.AddressOf(value.view, index)
    whole = evaluate(c, operand) if isinstance(operand, syntax.NameRef) else buffer_value(c, operand)
    if isinstance(whole, Scalar) and whole.var is not None and isinstance(operand, syntax.NameRef):
        place = _copied(c, operand, whole.var)
        copies.append((whole.var, place))
        return place
    if not isinstance(whole, SpanValue):
        hint = f"declare it `mutable {whole.describe()} {operand.span.text}`" if isinstance(whole, Scalar) else None
        c.fail("CAL02", f"the address of {whole.describe()} cannot be taken", e.span, hint)
    _pass_pointer(c, whole.view)
    return whole.view


def _copied(c: Checker, e: syntax.NameRef, var: ir.Var) -> ir.View:
    """A place in memory with the value of a variable: variables themselves have none, so that passes see all that
    changes them."""
    check_outer(c, resolve(c, e.text, e.span), e.span)
    buffer = ir.Buffer(c.fresh(e.text), var.dtype, ir.Storage.LOCAL, (integers.ONE,), span=e.span)
    c.emit(ir.Declare(buffer, var, span=e.span))
    return views.whole(buffer, (), e.span)


def _pass_pointer(c: Checker, view: ir.View) -> None:
    c.escaped.add(view.buffer)
    if view.buffer.layout:
        c.warn(
            "CAL02",
            f"`{view.buffer.name}` is swizzled; the callee sees the physical order",
            view.span or c.function.span,
        )


# ------------------------------------------------------------------------------------------------------ atomics

_ATOMICS = {f"__atomic_{op}": op for op in ("add", "sub", "exch", "min", "max", "and", "or", "xor", "cas")}


def _atomic(c: Checker, e: syntax.AtomicCall, result: ir.Var | None) -> None:
    op = _ATOMICS.get(e.name.text)
    if op is None:
        c.unsupported(f"`{e.name.text}`", e.span)
    arity = 3 if op == "cas" else 2
    if len(e.args) != arity:
        c.fail("CAL08", f"`{e.name.text}` takes {arity} arguments, found {len(e.args)}", e.span)
    target = syntax.strip_parens(e.args[0])
    if not isinstance(target, syntax.ElemRef):
        c.fail("CAL07", "the operand must be an element of a shared or global span", target.span)
    value, index = element(c, target)
    if value.storage is ir.Storage.LOCAL:
        c.fail(
            "CAL07",
            "the operand must be an element of a shared or global span",
            target.span,
            "a `local` element needs no atomic",
        )
    if not c.in_device:
        c.fail("CAL01", "atomics are allowed only inside `parallel`", e.span)
    mark_written(c, value.view, e.span)
    operands = [store_as(c, scalar(c, a), value.dtype, a.span, a.span.text) for a in e.args[1:]]
    expected = operands[0] if op == "cas" else None
    c.emit(ir.Atomic(op, value.view, index, operands[-1], expected, result, span=e.span))


# --------------------------------------------------------------------------------------- prints and assertions


def prints(c: Checker, s: syntax.Print) -> None:
    if s.compile_time:
        c.unit.printed.append("".join(_compile_time_text(c, e) for e in s.args) + "\n" * s.newline)
        return
    args: list[ir.Expr | str] = []
    for e in s.args:
        value = evaluate(c, e)
        if isinstance(value, Text):
            args.append(value.text)
            continue
        if not isinstance(value, (Scalar, Bounded, BoundedTuple)):
            c.fail("CAL02", f"{value.describe()} cannot be printed", e.span, "print its elements with `.at(...)`")
        found = as_scalar(c, value, e.span)
        args.append(cast(found.expr, found.type) if not found.type.is_float else found.expr)
    c.emit(ir.Print(tuple(args), s.newline, span=s.span))


def _compile_time_text(c: Checker, e: syntax.Expr) -> str:
    """What `print!` shows of a value: itself where it is known, dimensions by name, `?` for what only runs."""
    value = evaluate(c, e)
    if isinstance(value, Text):
        return value.text
    if isinstance(value, Shape):
        return f"[{', '.join(map(_known, value.extents))}]"
    if isinstance(value, ITuple):
        return f"{{{', '.join(map(_known, value.items))}}}"
    if isinstance(value, BoundedTuple) and len(value.items) > 1:
        return f"{{{', '.join(_known(item.value) for item in value.items)}}}"
    found = as_scalar(c, value, e.span, e.span.text)
    return _known(cast(found.expr, found.type))


def _known(e: ir.Expr) -> str:
    from croq_magic.compiler.check.values import is_entry

    if isinstance(e, ir.Const) and e.dtype.is_float:
        return f"{e.value:f}"
    return format_expr(e) if is_entry(e) else "?"


def assertion(c: Checker, s: syntax.Assert) -> None:
    test = condition(c, s.condition)
    known = decide(test)
    message = s.message
    if known is False and not c.guards:
        if isinstance(test, ir.Const):
            c.fail("RTA06", message, s.span)
        facts = _facts(test)
        c.fail("DYN06", f"assertion is always false: {facts}" if facts else message, s.span)
    c.require(test, "RTA06", message, s.span)


def _facts(test: ir.Expr) -> str:
    """What is known of the variables of an impossible condition."""
    from croq_magic.compiler import integers

    out = []
    for var in free_variables(test):
        low, high = integers.interval(var)
        if low is not None and high is None:
            out.append(f"{format_expr(var)} is at least {low}")
        elif low is not None and high is not None:
            out.append(f"{format_expr(var)} is in [{low}, {high}]")
    return ", ".join(out)


def pragma(c: Checker, s: syntax.PragmaIntrinsic) -> None:
    (c.prefixes if s.kind == "prefix" else c.namespaces).append(s.name.text)
