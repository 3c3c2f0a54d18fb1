"""Statements: which module checks which, scopes of bodies, `return`."""

from __future__ import annotations

import functools
from collections.abc import Callable

from croq_magic.compiler import ir, syntax
from croq_magic.compiler.check import (
    assignments,
    calls,
    declarations,
    escapes,
    events,
    fragment_elements,
    fragments,
    handles,
    inline,
    loops,
    mma,
    parallel,
    storage,
    transfers,
)
from croq_magic.compiler.check.context import Checker, Skip
from croq_magic.compiler.check.conversions import (
    cast,
)
from croq_magic.compiler.check.expressions import evaluate
from croq_magic.compiler.check.values import (
    ArrayValue,
    Bounded,
    BoundedTuple,
    FutureValue,
    ITuple,
    Scalar,
    Shape,
    SpanValue,
    Text,
)


def statement(c: Checker, s: syntax.Stmt) -> None:
    """Checks one statement and emits its IR. A wrong statement is reported and leaves its names poisoned."""
    around = c.statement, c.statement_guards
    c.statement, c.statement_guards = s.span, len(c.guards)
    try:
        _check(s, c)
    except Skip:
        for name in _declared(s):
            c.poison(name)
    c.statement, c.statement_guards = around


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


_register(syntax.MdspanDecl, declarations.mdspan)  # type: ignore[arg-type]
_register(syntax.ItupleDecl, declarations.ituple)  # type: ignore[arg-type]
_register(syntax.ScalarDecl, declarations.scalars)  # type: ignore[arg-type]
_register(syntax.Assign, assignments.assign)  # type: ignore[arg-type]
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
_register(syntax.FragDecl, fragments.fragment_declaration)  # type: ignore[arg-type]
_register(syntax.MmaFill, mma.fill)  # type: ignore[arg-type]
_register(syntax.MmaLoad, mma.load)  # type: ignore[arg-type]
_register(syntax.MmaMultiply, mma.multiply)  # type: ignore[arg-type]
_register(syntax.MmaScale, mma.scale)  # type: ignore[arg-type]
_register(syntax.MmaStore, mma.store)  # type: ignore[arg-type]
_register(syntax.MmaCommit, mma.commit)  # type: ignore[arg-type]
_register(syntax.Apply, fragment_elements.apply)  # type: ignore[arg-type]
_register(syntax.FragReduce, fragment_elements.reduce)  # type: ignore[arg-type]
_register(syntax.AllReduce, fragment_elements.all_reduce)  # type: ignore[arg-type]
_register(syntax.FragCopy, fragment_elements.copy)  # type: ignore[arg-type]
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
    if c.inlined:
        inline.leave(c, s)
        return
    if c.in_device:
        c.fail("PAR19", "`return` is not allowed inside `parallel`", s.span, "`yield` ends one instance")
    value = None if s.value is None else evaluate(c, s.value)
    if isinstance(value, (ITuple, Shape, BoundedTuple, FutureValue, ArrayValue, Text)):
        c.fail("TYP20", f"{value.describe()} cannot be returned; return a span or a scalar", s.span)
    if isinstance(value, Bounded):
        value = value.scalar()
    if isinstance(value, SpanValue) and (value.storage is not ir.Storage.GLOBAL or not value.view.contiguous):
        c.fail("TYP20", "a view cannot be returned; copy it into a span of its own", s.span)
    if isinstance(s.value, syntax.View) and s.value.ops:
        c.fail("TYP20", "a view cannot be returned; copy it into a span of its own", s.span)
    if isinstance(value, Scalar):
        c.emit(ir.Return(cast(value.expr, value.type), span=s.span))
    else:
        c.emit(ir.Return(value.view if isinstance(value, SpanValue) else None, span=s.span))
    c.returns.append((value, s.span))


@_check.register
def _(s: syntax.Assigns, c: Checker) -> None:
    for item in s.items:
        statement(c, item)
