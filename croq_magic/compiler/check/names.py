"""Names: looking one up, and what to say when there is none (NAM codes)."""

from __future__ import annotations

from typing import NoReturn

from croq_magic.compiler import integers, ir
from croq_magic.compiler.check.context import Checker, Skip, Symbol
from croq_magic.compiler.check.values import FutureValue, Poison, Value
from croq_magic.compiler.diagnostics import Note
from croq_magic.compiler.lexer import MATH
from croq_magic.compiler.nearest import nearest
from croq_magic.compiler.source import Span


def resolve(c: Checker, name: str, span: Span) -> Symbol:
    """The visible symbol; reports an unknown name."""
    symbol = c.find(name)
    if symbol is None:
        _unknown(c, name, span)
    if isinstance(symbol.value, Poison):
        raise Skip
    return symbol


def require_bound(c: Checker, value: Value, name: str, span: Span) -> None:
    """A placeholder that no transfer is bound to yet has no data."""
    if isinstance(value, FutureValue) and value.bound is None:
        c.fail("DMA10", f"`{name}` is a placeholder and not bound to a transfer yet", span)


def _unknown(c: Checker, name: str, span: Span) -> NoReturn:
    for scope in reversed(c.scopes):
        if name in scope.ended:
            symbol, ended = scope.ended[name]
            if isinstance(symbol.value, Poison):
                raise Skip
            note = Note("declared here", symbol.span)
            if symbol.storage in (ir.Storage.SHARED, ir.Storage.LOCAL) and not c.in_device:
                c.fail(
                    "STO04",
                    f"`{name}` lives only inside the launch that ended at line {ended.span.end_line}",
                    span,
                    "copy it to a global span before the launch ends",
                    note,
                )
            hint = f"declare `{name}` before the {ended.kind}"
            if symbol.storage is not None:
                hint = f"declare `{name} = dma.any;` outside"
            c.fail(
                "NAM05",
                f"`{name}` is local to the {ended.kind} that ended at line {ended.span.end_line}",
                span,
                hint,
                note,
            )
    later = _declared_later(c, name, span) if span in c.function.span else None
    if later is not None:
        c.fail(
            "NAM01",
            f"`{name}` is used before its declaration (line {later.line})",
            span,
            None,
            Note("declared here", later),
        )
    if name in c.unit.dims:
        c.fail(
            "NAM07",
            f"`{name}` is not declared here; dimension names belong to the function whose parameter introduces them",
            span,
            f"`{name}` is a dimension of `{c.unit.dims[name]}`; name it in a parameter of this function",
        )
    functions = MATH if name.startswith("__") else ()
    close = nearest(name, (*(symbol for scope in c.scopes for symbol in scope.symbols), *sorted(functions)))
    c.fail("NAM10", f"unknown name `{name}`", span, f"did you mean `{close}`?" if close else None)


def check_outer(c: Checker, symbol: Symbol, span: Span) -> None:
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


def _declared_later(c: Checker, name: str, span: Span) -> Span | None:
    from croq_magic.compiler import syntax

    for node in syntax.walk(c.function.body):
        declared: list[syntax.Name] = []
        if isinstance(node, syntax.ScalarItem | syntax.BufferItem | syntax.MdspanDecl | syntax.ItupleDecl):
            declared = [node.name]
        elif isinstance(node, syntax.Assign) and isinstance(node.target, syntax.NameRef):
            declared = [syntax.Name(node.target.span, node.target.text)]
        elif isinstance(node, syntax.Dma) and node.result:
            declared = [node.result]
        for item in declared:
            if item.text == name and item.span.start > span.start:
                return item.span
    return None
