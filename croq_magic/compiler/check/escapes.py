"""Escapes to the target: `__cpp__` text and inline assembly (interop sections 3 and 4)."""

from __future__ import annotations

import re

from croq_magic.compiler import ir, syntax
from croq_magic.compiler.check.context import Checker
from croq_magic.compiler.check.expressions import element, scalar
from croq_magic.compiler.check.storage import mark_written
from croq_magic.compiler.check.values import Bounded, Scalar, SpanValue

_IDENTIFIER = re.compile(r"[A-Za-z_]\w*")


def cpp(c: Checker, s: syntax.CppEscape) -> None:
    """`__cpp__("text")`: scalars keep their source spelling in it, also those that are not variables of their own."""
    text = s.text.value
    named: list[ir.Stmt] = []
    views: list[ir.View] = []
    scalars: list[ir.Var] = []
    for name in dict.fromkeys(_IDENTIFIER.findall(text)):
        symbol = c.find(name)
        if symbol is None:
            continue
        value = symbol.value
        if isinstance(value, SpanValue) and not value.chain and value.view.buffer.name == name:
            views.append(value.view)
        expr = value.value if isinstance(value, Bounded) else value.expr if isinstance(value, Scalar) else None
        if isinstance(expr, ir.Var) and expr.name == name:
            scalars.append(expr)
            continue
        if expr is None:
            continue
        if isinstance(value, Scalar) and value.var is not None and value.var.name == name:
            scalars.append(value.var)
            continue
        named.append(ir.Let(ir.Var(name, expr.dtype, ir.Role.LET), expr, span=s.span))
    text_statement = ir.CxxText(text + "\n", tuple(views), tuple(scalars), span=s.span)
    c.emit(ir.Scope((*named, text_statement), span=s.span) if named else text_statement)


def asm(c: Checker, s: syntax.Asm) -> None:
    """GNU extended assembly in device code; outputs are assignable, inputs any number."""
    if not c.in_device:
        c.fail("CAL01", "inline assembly is allowed only inside `parallel`", s.span)
    outputs = [(o.name.text if o.name else "", o.constraint, _lvalue(c, o.value)) for o in s.outputs]
    inputs = [(i.name.text if i.name else "", i.constraint, scalar(c, i.value).expr) for i in s.inputs]
    c.emit(ir.Asm(s.template.value, tuple(outputs), tuple(inputs), s.clobbers, span=s.span))


def _lvalue(c: Checker, e: syntax.Expr) -> ir.Node:
    e = syntax.strip_parens(e)
    if isinstance(e, syntax.ElemRef):
        value, index = element(c, e)
        mark_written(c, value.view, e.span)
        return ir.AddressOf(value.view, index)
    found = scalar(c, e)
    if found.var is None:
        c.fail("TYP01", f"`{e.span.text}` is immutable; an output must be assignable", e.span)
    return found.var
