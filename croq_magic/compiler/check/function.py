"""A whole tileflow function: signature, body, result (NAM03, TYP18-21, DYN, STO07-09 codes)."""

from __future__ import annotations

import contextlib
import dataclasses

from croq_magic.compiler import integers, ir, syntax, views
from croq_magic.compiler.check.context import Checker, Skip, Symbol, UnitNames, show
from croq_magic.compiler.check.conversions import compute_type
from croq_magic.compiler.check.expressions import constant_integer, evaluate
from croq_magic.compiler.check.fragments import complete
from croq_magic.compiler.check.handles import find_groups
from croq_magic.compiler.check.statements import statement
from croq_magic.compiler.check.steps import find_steps
from croq_magic.compiler.check.values import Bounded, FragmentValue, Scalar, Shape, SpanValue, StreamValue, Value
from croq_magic.compiler.diagnostics import Report
from croq_magic.compiler.limits import Limits
from croq_magic.compiler.source import Span
from croq_magic.compiler.types import BY_NAME, S32, DType


def check_function(
    function: syntax.Function, report: Report, limits: Limits, unit: UnitNames, symbol: str = ""
) -> ir.Function | None:
    """The IR of a function with levels still open, or None when it has errors. `symbol` is its name in the IR, where
    that is not its own (`compiler/overloads.py`)."""
    settled: dict[tuple[int, str], FragmentValue] = {}
    while True:
        found = Report()
        found.share_expansions(report)
        c = Checker(function, found, limits, unit)
        c.settled = settled
        c.symbol = symbol or c.symbol
        checked = _check(c)
        new = {v.key: v for v in c.fragments if v.key in c.unsettled and v.shape is not None}
        if not new.keys() - settled.keys():
            break
        settled = {**settled, **new}  # fragments were used before the statement that gives their shape: once more
    report.extend(found)
    return checked


def _check(c: Checker) -> ir.Function | None:
    function = c.function
    c.groups = find_groups(function)
    c.steps = find_steps(function)
    params: list[ir.Param] = []
    dims: dict[str, ir.Var] = {}
    with c.scope("function", function.span):
        _declare_dims(c, dims)
        for param in function.params:
            try:
                params.append(_param(c, param, dims))
            except Skip:
                c.poison(param.name)
        with c.collect() as statements:
            for s in function.body.body:
                statement(c, s)
        body: ir.Body = ()
        result = None
        with contextlib.suppress(Skip):  # what is wrong has been reported
            body = complete(c, tuple(statements))
            result = _result(c, function, dims)
    if c.report.has_errors:
        return None
    params = [
        dataclasses.replace(p, written=p.in_out or p.buffer in c.written, escapes=p.buffer in c.escaped)
        if p.buffer
        else p
        for p in params
    ]
    return ir.Function(
        c.symbol,
        tuple(params),
        result,
        body,
        tuple(dims.values()),
        tuple(c.checks),
        function.span,
        function.name.text if c.symbol != function.name.text else "",
    )


def _declare_dims(c: Checker, dims: dict[str, ir.Var]) -> None:
    """Symbolic dimensions are visible from the start of the body."""
    for param in c.function.params:
        for dim in param.type.shape.dims if param.type.shape else ():
            if dim.kind == "symbol" and dim.symbol and dim.symbol not in dims:
                var = ir.Var(c.fresh(dim.symbol), S32, ir.Role.DIM, integers.ONE, None)
                dims[dim.symbol] = var
                c.scopes[-1].symbols[dim.symbol] = Symbol(dim.symbol, Scalar(var, S32), dim.span)


def _param(c: Checker, p: syntax.Param, dims: dict[str, ir.Var]) -> ir.Param:
    name = p.name.text if p.name else c.fresh("unnamed")
    if p.name and any(q.name and q.name.text == name for q in c.function.params[: c.function.params.index(p)]):
        c.fail("NAM03", f"parameter `{name}` is declared twice", p.name.span)
    if p.storage is not None and p.storage.word != "global":
        c.fail("STO07", f"parameters cannot be `{p.storage.word}`", p.storage.span)
    is_global = p.storage is not None
    if is_global and p.by_ref:
        c.fail("STO09", "`global` parameters are written in place; drop `&`", p.span)
    if p.type.word == "stream":
        _bind(c, p, StreamValue())
        return ir.Param(name, "stream", None, span=p.span)
    assert p.type.type is not None
    dtype = BY_NAME[p.type.type.name]
    if p.type.shape is None:
        if p.by_ref:
            c.fail("TYP21", "scalars are passed by value; return the result or use a span", p.span)
        var = ir.Var(c.fresh(name), dtype, ir.Role.PARAM)
        from croq_magic.compiler.check.conversions import cast

        _bind(c, p, Scalar(cast(var, compute_type(dtype)), dtype))
        return ir.Param(name, "scalar", dtype, var=var, span=p.span)
    extents = _param_extents(c, p, name, dims, is_global)
    buffer = ir.Buffer(c.fresh(name), dtype, ir.Storage.GLOBAL, extents, span=p.span)
    c.params[buffer] = p
    _bind(c, p, SpanValue(views.whole(buffer, span=p.span)))
    return ir.Param(name, "span", dtype, buffer, None, extents, p.by_ref, is_global, span=p.span)


def _bind(c: Checker, p: syntax.Param, value: Value) -> None:
    if p.name is not None:
        c.scopes[-1].symbols[p.name.text] = Symbol(p.name.text, value, p.name.span)


def _param_extents(
    c: Checker, p: syntax.Param, name: str, dims: dict[str, ir.Var], is_global: bool
) -> tuple[ir.Expr, ...]:
    assert p.type.shape is not None
    extents: list[ir.Expr] = []
    for position, dim in enumerate(p.type.shape.dims):
        if dim.kind == "symbol":
            assert dim.symbol is not None
            extents.append(dims[dim.symbol])
        elif dim.kind in ("any", "unbounded"):
            if dim.kind == "unbounded" and not is_global:
                c.fail("DYN03", "an unbounded extent needs a `global` parameter", dim.span)
            var = ir.Var(c.fresh(f"{name}_{position}"), S32, ir.Role.DIM, integers.ONE, None)
            if dim.kind == "unbounded":
                c.unbounded.add(var)
            dims[var.name] = var
            extents.append(var)
        else:
            assert dim.value is not None
            number = constant_integer(c, dim.value, "DYN01", "`{found}` is not a constant")
            if number < 1:
                c.fail("SHP01", f"extent {number} of dimension {position} must be at least 1", dim.span)
            extents.append(integers.constant(number))
    if len(extents) > 8:
        c.fail("SHP03", f"rank {len(extents)} is too large; spans have at most 8 dimensions", p.span)
    return tuple(extents)


# ------------------------------------------------------------------------------------------------------- result


def _result(c: Checker, function: syntax.Function, dims: dict[str, ir.Var]) -> ir.Result | None:
    declared = function.result
    values = [(value, span) for value, span in c.returns]
    name = function.name.text
    if declared.word == "void":
        for value, span in values:
            if value is not None:
                c.error("TYP19", f"void function `{name}` returns a value", span)
        return None
    with_value = [(value, span) for value, span in values if value is not None]
    if not with_value:
        if declared.word != "auto" and not c.report.has_errors:
            c.error("TYP19", f"non-void function `{name}` never returns a value", function.name.span)
        return None
    for value, span in values:
        if value is None:
            c.error("TYP19", f"non-void function `{name}` returns without a value here", span)
    if declared.word != "auto" and not always_returns(function.body):
        c.error("TYP19", f"non-void function `{name}` can end without returning a value", function.name.span)
    value, span = with_value[0]
    result = _result_of(value)
    if declared.word != "auto":
        result = _check_declared(c, declared, result, value, span, dims) or result
    for other, other_span in with_value[1:]:
        found = _result_of(other)
        if found.dtype is not result.dtype or not _same_extents(found.extents, result.extents):
            c.error("TYP18", f"returns {_show(found)} here and {_show(result)} at line {span.line}", other_span)
    return result


def always_returns(s: syntax.Stmt) -> bool:
    """Whether a statement returns on every path."""
    if isinstance(s, syntax.Return):
        return True
    if isinstance(s, syntax.Block):
        return any(map(always_returns, s.body))
    if isinstance(s, syntax.If):
        return s.other is not None and always_returns(s.then) and always_returns(s.other)
    return isinstance(s, syntax.With) and always_returns(s.body)


def _result_of(value: Value | None) -> ir.Result:
    if isinstance(value, SpanValue):
        return ir.Result(value.dtype, value.view.extents)
    assert isinstance(value, Scalar)
    return ir.Result(value.type, None)


def _same_extents(a: tuple[ir.Expr, ...] | None, b: tuple[ir.Expr, ...] | None) -> bool:
    if a is None or b is None:
        return a is b
    return len(a) == len(b) and all(integers.equal(x, y) for x, y in zip(a, b, strict=True))


def _show(result: ir.Result) -> str:
    if result.extents is None:
        return f"`{result.dtype}`"
    return f"`{result.dtype} [{', '.join(map(show, result.extents))}]`"


def _declared_extent(c: Checker, e: syntax.Expr) -> ir.Expr:
    """An extent of the declared result: a constant. What is more than that is what `auto` is for."""
    value = evaluate(c, e)
    extent = value.value if isinstance(value, Bounded) else None
    if isinstance(value, Scalar) and not value.type.is_float:
        extent = value.expr
    if isinstance(value, (Shape, SpanValue)) or (extent is not None and integers.value(extent) is None):
        hint = f"`__co__ auto {c.function.name.text}(...)` takes the shape of what is returned"
        what = f"`{e.span.text}` is not a constant; a declared result has constants and dimensions of parameters"
        c.fail("DYN01", what, e.span, hint)
    return integers.constant(constant_integer(c, e, "DYN01", "`{found}` is not a constant"))


def _check_declared(
    c: Checker, declared: syntax.ParamType, found: ir.Result, value: Value | None, span: Span, dims: dict[str, ir.Var]
) -> ir.Result | None:
    assert declared.type is not None
    dtype: DType = BY_NAME[declared.type.name]
    extents: tuple[ir.Expr, ...] | None = None
    if declared.shape is not None:
        items: list[ir.Expr] = []
        for position, dim in enumerate(declared.shape.dims):
            if dim.kind == "symbol" and dim.symbol in dims:
                items.append(dims[dim.symbol])
            elif dim.kind == "symbol":
                c.error("DYN01", f"`{dim.symbol}` is unknown; dynamic extents come from parameters", dim.span)
                return None
            elif dim.kind == "const" and dim.value is not None:
                items.append(_declared_extent(c, dim.value))
            elif found.extents is not None and position < len(found.extents):
                items.append(found.extents[position])
            else:
                items.append(integers.ONE)
        extents = tuple(items)
    promised = ir.Result(dtype, extents)
    if extents is None and found.extents is None:
        return promised  # scalars convert
    if (
        dtype is found.dtype
        and extents is not None
        and found.extents is not None
        and len(extents) == len(found.extents)
    ):
        from croq_magic.compiler.types import BOOL

        for position, (want, have) in enumerate(zip(extents, found.extents, strict=True)):
            if integers.value(want) is not None and integers.value(have) is not None:
                continue
            message = f"returns extent `{show(have)}` in dimension {position} where `{show(want)}` is promised"
            c.require(ir.Binary("==", have, want, BOOL), "TYP18", message, span, values=(have, want))
        if all(
            integers.equal(w, h) or None in (integers.value(w), integers.value(h))
            for w, h in zip(extents, found.extents, strict=True)
        ):
            return promised
    c.error("TYP18", f"returns {_show(found)} but the function promises {_show(promised)}", span)
    return None
