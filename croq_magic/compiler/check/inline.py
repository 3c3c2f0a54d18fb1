"""Device functions written in the language (`__co_device__`): a call is checked in the function's place.

The body sees its parameters and nothing of the caller. A span parameter is the argument itself, a scalar parameter a
variable of its own.
"""

from __future__ import annotations

from croq_magic.compiler import integers, ir, syntax
from croq_magic.compiler.check import returns
from croq_magic.compiler.check.context import Checker, Scope, show
from croq_magic.compiler.check.conversions import as_scalar, cast, compute_type, store_as
from croq_magic.compiler.check.expressions import constant_integer, evaluate, scalar
from croq_magic.compiler.check.steps import find_steps
from croq_magic.compiler.check.values import FutureValue, Scalar, SpanValue
from croq_magic.compiler.diagnostics import Note
from croq_magic.compiler.types import BOOL, BY_NAME, S32

_MAX_DEPTH = 16


def call(c: Checker, e: syntax.CallExpr, function: syntax.Function, result: ir.Var | None) -> None:
    """`call f(a, b)` of a device function in tileflow syntax."""
    name = function.name.text
    if len(e.args) != len(function.params):
        count = len(function.params)
        c.fail("CAL08", f"`{name}` takes {count} argument{'s' * (count != 1)}, found {len(e.args)}", e.span)
    if name in c.inlined or len(c.inlined) >= _MAX_DEPTH:
        c.fail("CAL05", f"`{name}` calls itself; device functions in tileflow syntax cannot", e.span)
    scope = Scope("function", function.span)
    with c.collect() as statements:
        for param, argument in zip(function.params, e.args, strict=True):
            _bind(c, scope, param, argument)
        outer, c.scopes = c.scopes, [scope]
        steps, c.steps = c.steps, find_steps(function)
        c.inlined.append(name)
        try:
            _body(c, function, result)
        finally:
            c.inlined.pop()
            c.scopes, c.steps = outer, steps
    c.emit(ir.Scope(tuple(statements), span=e.span))


def _bind(c: Checker, scope: Scope, param: syntax.Param, argument: syntax.Expr) -> None:
    from croq_magic.compiler.check.context import Symbol

    if param.name is None or param.type.type is None:
        return
    dtype = BY_NAME[param.type.type.name]
    name = param.name
    if param.type.shape is None:
        value = scalar(c, argument)
        var = ir.Var(c.fresh(name.text), dtype, ir.Role.MUTABLE)
        c.emit(ir.Let(var, store_as(c, value, dtype, argument.span, argument.span.text), span=argument.span))
        bound = Scalar(cast(var, compute_type(dtype)), dtype, element=True, var=var, depth=c.depth)
        scope.symbols[name.text] = Symbol(name.text, bound, name.span, c.depth)
        return
    found = evaluate(c, argument)
    if isinstance(found, FutureValue):
        c.fail("CAL03", f"pass `{argument.span.text}.data`", argument.span)
    if not isinstance(found, SpanValue):
        c.fail("CAL02", f"`{name.text}` is a span, {found.describe()} is passed", argument.span)
    note = Note("the parameter", param.span)
    if found.dtype is not dtype:
        c.fail(
            "DMA01", f"`{name.text}` is `{dtype}`, `{argument.span.text}` is `{found.dtype}`", argument.span, None, note
        )
    dims = param.type.shape.dims
    if len(dims) != found.view.rank:
        c.fail("DMA02", f"ranks differ: {found.view.rank} and {len(dims)}", argument.span, None, note)
    for position, (dim, extent) in enumerate(zip(dims, found.view.extents, strict=True)):
        if dim.kind == "symbol" and dim.symbol and dim.symbol not in scope.symbols:
            scope.symbols[dim.symbol] = Symbol(dim.symbol, Scalar(extent, S32), dim.span, c.depth)
        want = _extent(c, scope, dim)
        if want is not None:
            message = f"`{name.text}` has {show(want)} elements in dimension {position}, the argument {show(extent)}"
            c.require(ir.Binary("==", extent, want, BOOL), "DMA03", message, argument.span, values=(extent, want))
    scope.symbols[name.text] = Symbol(name.text, found, name.span, found.depth, found.storage)


def _extent(c: Checker, scope: Scope, dim: syntax.ParamDim) -> ir.Expr | None:
    if dim.kind == "const" and dim.value is not None:
        return integers.constant(constant_integer(c, dim.value, "DYN01", "`{found}` is not a constant"))
    if dim.kind == "symbol" and dim.symbol:
        value = scope.symbols[dim.symbol].value
        return value.expr if isinstance(value, Scalar) else None
    return None


def _body(c: Checker, function: syntax.Function, result: ir.Var | None) -> None:
    from croq_magic.compiler.check.function import always_returns
    from croq_magic.compiler.check.statements import statement

    name = function.name
    if result is not None and not always_returns(function.body):
        c.error("TYP19", f"non-void function `{name.text}` can end without returning a value", name.span)
    outer, c.result = c.result, result
    with c.collect() as statements:
        for s in function.body.body:
            statement(c, s)
    c.result = outer
    for each in returns.structured(tuple(statements), c.fresh(f"{name.text}_returned")):
        c.emit(each)


def leave(c: Checker, s: syntax.Return) -> None:
    """`return` in a device function: its value, then the mark that `returns.structured` replaces."""
    if s.value is not None and c.result is not None:
        value = as_scalar(c, evaluate(c, s.value), s.value.span, s.value.span.text)
        converted = store_as(c, value, c.result.dtype, s.value.span, s.value.span.text)
        c.emit(ir.Assign(c.result, converted, span=s.span))
    c.emit(ir.Return(span=s.span))
