"""The text of a module: what the cell says about the device, and a kernel for every launch."""

from __future__ import annotations

from collections.abc import Sequence

from croq_magic.compiler import ir
from croq_magic.compiler.source import Source, Span
from croq_magic.compiler.targets.cpu.verbatim import macros
from croq_magic.compiler.targets.cpu.writer import Writer
from croq_magic.compiler.targets.emit_cxx import Unsupported
from croq_magic.compiler.targets.simt.dialect import Dialect
from croq_magic.compiler.targets.simt.emission import SimtEmission, SimtKernel
from croq_magic.compiler.targets.simt.guards import ModuleState
from croq_magic.compiler.targets.simt.kernel import BODY, WIDE_FORM, KernelEmitter
from croq_magic.compiler.visit import walk


def emit_module(
    dialect: Dialect,
    functions: Sequence[ir.Function],
    verbatim: Sequence[Span] = (),
    source: Source | None = None,
    element_types: bool = False,
) -> SimtEmission:
    """The kernels of tileflow functions (after the target's passes) behind the device text of the cell, which knows the
    names of element types if `element_types` says so.

    Raises `emit_cxx.Unsupported` for a construct that the device cannot express.
    """
    state = ModuleState(dialect)
    out = Writer()
    for line in dialect.head(element_types):
        out.line(line)
    for piece in verbatim:
        out.at(piece)
        out.verbatim(" " * (piece.column - 1) + dialect.foreign_text(piece))  # columns stay those of the cell
    if verbatim:
        out.verbatim('#line 1 "generated"')
        if not any(isinstance(n, ir.CxxText) for f in functions for n in walk(f.body)):
            for name in macros(tuple(verbatim)):  # a macro must not rewrite generated text
                out.line(f"#undef {name}")
    out.line()
    for line in dialect.opening():
        out.line(line)
    kernels: list[SimtKernel] = []
    symbols: set[str] = set()
    for function in functions:
        called = {n.function.split("::")[0] for n in walk(function.body) if isinstance(n, ir.Call)}
        for launch in function.launches():
            symbol = launch.kernel.name
            while {symbol, symbol + BODY, symbol + WIDE_FORM} & (symbols | called):
                symbol += "_"
            symbols |= {symbol, symbol + BODY, symbol + WIDE_FORM}
            try:
                emitter = KernelEmitter(state, launch, symbol, called | {symbol})
                kernels += emitter.emit()
            except Unsupported as problem:
                problem.span = problem.span or launch.span or function.span
                raise
            out.extend(emitter)
            out.line()
    for line in dialect.closing():
        out.line(line)
    parts = (tuple(kernels), tuple(functions), tuple(state.checks), source, tuple(verbatim))
    return SimtEmission(out.text(), *parts)
