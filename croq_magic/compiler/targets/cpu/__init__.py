"""The CPU target: C++17 built by the system's compiler, run by a thread pool of our own."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from croq_magic.errors import CompileError, TargetError

if TYPE_CHECKING:
    from croq_magic.compiler import ir
    from croq_magic.compiler.limits import Limits
    from croq_magic.compiler.passes.base import Pass
    from croq_magic.compiler.source import Source
    from croq_magic.compiler.split import Unit
    from croq_magic.compiler.targets.cpu.emit import Emitted
    from croq_magic.compiler.targets.cpu.module import CpuModule, Record


@dataclasses.dataclass(frozen=True)
class CpuTarget:
    """The default without a GPU, and the reference for every other target."""

    name: ClassVar[str] = "cpu"
    strategy: str = "auto"  # how instances run, see `passes/choose_strategy.py`

    @property
    def limits(self) -> Limits:
        from croq_magic.compiler.limits import CPU

        return CPU

    def passes(self) -> Sequence[Pass]:
        """Passes after those that all targets share, in order."""
        from croq_magic.compiler.targets.cpu.passes import passes

        return passes(self.strategy)

    def emit(self, unit: Unit, functions: Sequence[ir.Function]) -> Emitted:
        """C++ for functions after `passes`, with the C++ text of the cell they call. CompileError (UNS01) for what
        this target cannot express."""
        from croq_magic.compiler.diagnostics import Diagnostic
        from croq_magic.compiler.source import Source, Span
        from croq_magic.compiler.targets.cpu.emit import emit_module
        from croq_magic.compiler.targets.cpu.verbatim import device_text, knows_element_types
        from croq_magic.compiler.targets.emit_cxx import Unsupported

        try:
            return emit_module(functions, device_text(unit), unit.source, knows_element_types(unit))
        except Unsupported as problem:
            span = problem.span if isinstance(problem.span, Span) else Source("").whole()
            raise CompileError([Diagnostic("error", "UNS01", str(problem), span)]) from None

    def build(self, emission: Emitted, function: ir.Function) -> CpuModule:
        """Builds and loads one function. CompileError (CXX01) when the compiler refuses the cell's own C++ text,
        TargetError without a compiler."""
        from croq_magic.compiler.targets.cpu import complaints, module, toolchain

        try:
            return module.load(emission, function.name)
        except toolchain.CompilationFailed as failure:
            found = []
            if emission.source is not None:
                found = complaints.diagnostics(failure.output, emission.source, emission.verbatim)
            if found:
                raise CompileError(found) from None
            text = f"the C++ compiler refuses generated code, please report this:\n{failure.output}"
            raise TargetError(text) from None

    def identity(self) -> Mapping[str, str]:
        """Compiler, options and processor: what a module's cache key has besides its text. TargetError without a
        compiler."""
        from croq_magic.compiler.targets.cpu import build

        return {**build.parts_of(""), "strategy": self.strategy}

    def restore(self, record: Record, source: Source) -> CpuModule | None:
        """A function built before, from its module's record; None if its cache entry is gone."""
        from croq_magic.compiler.targets.cpu import module

        return module.restore(record, source)


def target(arch: str | None = None) -> CpuTarget:
    """The target, for the registry. The processor's own architecture is the only one. `CROQ_STRATEGY` (auto, loops,
    roles or fibers) makes programs run one way where several are possible."""
    if arch not in (None, "", "native"):
        raise TargetError(f"the CPU target compiles for this machine only; it has no architecture `{arch}`")
    strategy = os.environ.get("CROQ_STRATEGY", "auto")
    if strategy not in ("auto", "loops", "roles", "fibers"):
        raise TargetError(f"CROQ_STRATEGY must be auto, loops, roles or fibers, not {strategy!r}")
    return CpuTarget(strategy)
