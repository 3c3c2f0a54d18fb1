"""The CPU target: C++17 built by the system's compiler, run by a thread pool of our own."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from croq_magic.compiler.limits import CPU, Limits
from croq_magic.errors import CompileError, TargetError

if TYPE_CHECKING:
    from croq_magic.compiler import ir
    from croq_magic.compiler.passes.base import Pass
    from croq_magic.compiler.source import Source, Span
    from croq_magic.compiler.targets.base import Options
    from croq_magic.compiler.targets.cpu.emit import Emitted
    from croq_magic.compiler.targets.cpu.module import CpuModule


@dataclasses.dataclass(frozen=True)
class CpuTarget:
    """The default without a GPU, and the reference for every other target."""

    name: ClassVar[str] = "cpu"

    def limits(self, options: Options) -> Limits:
        return CPU

    def passes(self, options: Options) -> tuple[Pass, ...]:
        """Passes after level mapping, in order."""
        from croq_magic.compiler.passes.split_regions import SplitRegions

        return (SplitRegions(),)

    def emit(self, functions: Sequence[ir.Function], verbatim: Sequence[Span], options: Options) -> Emitted:
        """C++ for functions after `passes`, with the C++ text of the cell they call. CompileError (UNS01) for what
        this target cannot express."""
        from croq_magic.compiler.diagnostics import Diagnostic
        from croq_magic.compiler.source import Source, Span
        from croq_magic.compiler.targets.cpu.emit import emit_module
        from croq_magic.compiler.targets.emit_cxx import Unsupported

        try:
            return emit_module(functions, verbatim)
        except Unsupported as problem:
            span = problem.span if isinstance(problem.span, Span) else Source("").whole()
            raise CompileError([Diagnostic("error", "UNS01", str(problem), span)]) from None

    def load(self, emission: Emitted, label: str, source: Source | None, verbatim: Sequence[Span] = ()) -> CpuModule:
        """Builds and loads a module. CompileError (CXX01) when the compiler refuses the cell's own C++ text,
        TargetError without a compiler."""
        from croq_magic.compiler.targets.cpu import complaints, module, toolchain

        try:
            return module.load(emission, label, source)
        except toolchain.CompilationFailed as failure:
            found = complaints.diagnostics(failure.output, source, verbatim) if source is not None else []
            if found:
                raise CompileError(found) from None
            raise TargetError(f"the C++ compiler refuses generated code, please report this:\n{failure.output}") from None


def target() -> CpuTarget:
    """The target, for the registry."""
    return CpuTarget()
