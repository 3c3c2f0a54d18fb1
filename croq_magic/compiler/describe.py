"""From the IR of a function to its `Signature`."""

from __future__ import annotations

from croq_magic.compiler import evaluate, ir
from croq_magic.compiler.codes import CODES
from croq_magic.compiler.diagnostics import excerpt
from croq_magic.compiler.signature import EntryCheck, Parameter, Signature
from croq_magic.compiler.text import format_expr


def signature(function: ir.Function) -> Signature:
    """The function as its callers see it."""
    dims = tuple(dim.name for dim in function.dims)
    scalars = tuple(p.var.name for p in function.params if p.kind == "scalar" and p.var is not None)
    names = [*dims, *scalars]
    result = function.result
    extents = result.extents if result is not None else None
    conditions = [check.condition for check in function.checks]
    shown = [value for check in function.checks for value in check.values]
    used = set(evaluate.free_variables([*(extents or ()), *conditions, *shown]))
    return Signature(
        function.public or function.name,
        tuple(_parameter(p, index) for index, p in enumerate(function.params)),
        result.dtype.name if result is not None else "",
        tuple(map(format_expr, extents)) if extents is not None else None,
        evaluate.text(extents, names) if extents is not None else "",
        dims,
        scalars,
        tuple(name for name in scalars if name in used),
        tuple(_check(check, names) for check in function.checks),
    )


def _parameter(p: ir.Param, index: int) -> Parameter:
    """An anonymous dimension has a name of its own, and is `?` in texts."""
    anonymous = {f"{p.name}_{axis}": "?" for axis in range(len(p.extents))}
    texts = tuple(anonymous.get(text, text) for text in map(format_expr, p.extents))
    extents = tuple(int(e.value) if isinstance(e, ir.Const) else format_expr(e) for e in p.extents)
    return Parameter(
        p.name or f"argument {index + 1}",
        bool(p.name),
        p.kind,
        p.dtype.name if p.dtype is not None else "",
        extents,
        texts,
        p.in_out,
        p.is_global,
        p.kind == "span" and (p.in_out or p.written),
    )


def _check(check: ir.Assert, names: list[str]) -> EntryCheck:
    span = check.span
    values = tuple(
        (format_expr(value), evaluate.text([value], names)) for value in check.values if not isinstance(value, ir.Const)
    )
    return EntryCheck(
        evaluate.text([check.condition], names),
        check.message,
        check.code,
        CODES[check.code].severity == "warning",
        values,
        f"{span.name}:{span.line}:{span.column}" if span is not None else "",
        tuple(excerpt(span)) if span is not None else (),
    )
