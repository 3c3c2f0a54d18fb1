"""The OpenCL target: OpenCL C built by a device's own compiler, run through pyopencl."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from croq_magic.errors import CompileError, TargetError

if TYPE_CHECKING:
    from croq_magic.compiler import ir
    from croq_magic.compiler.limits import Limits
    from croq_magic.compiler.passes.base import Pass
    from croq_magic.compiler.source import Source
    from croq_magic.compiler.split import Unit
    from croq_magic.compiler.targets.opencl.devices import Features
    from croq_magic.compiler.targets.opencl.module import OpenclModule, Record
    from croq_magic.compiler.targets.simt.emission import SimtEmission


@dataclasses.dataclass(frozen=True)
class OpenclTarget:
    """A device of this machine: the one that `arch` names by number, kind or name, else the best. It is looked for when
    it is needed first, so that a program can be checked where there is none."""

    name: ClassVar[str] = "opencl"
    arch: str | None = None

    @property
    def device(self) -> Any:
        """The device. TargetError if there is none."""
        from croq_magic.compiler.targets.opencl.devices import choose

        return choose(self.arch)

    @property
    def features(self) -> Features:
        from croq_magic.compiler.targets.opencl.devices import features

        return features(self.device)

    @property
    def limits(self) -> Limits:
        from croq_magic.compiler.limits import OPENCL

        return OPENCL

    def passes(self) -> Sequence[Pass]:
        """Passes after those that all targets share, in order."""
        from croq_magic.compiler.targets.opencl.passes import passes

        return passes(self.features)

    def emit(self, unit: Unit, functions: Sequence[ir.Function]) -> SimtEmission:
        """OpenCL C for functions after `passes`, with the device text of the cell. CompileError (UNS01) for what the
        device or the host part cannot express, CXX01 for device text that is not C."""
        from croq_magic.compiler.diagnostics import Diagnostic
        from croq_magic.compiler.source import Source, Span
        from croq_magic.compiler.targets.emit_cxx import Unsupported
        from croq_magic.compiler.targets.simt.host_emit import host_text

        try:
            emission = self.kernels(unit, functions)
            for function in functions:
                host_text(function, emission.kernels, self.name)  # what the host part cannot do is said here
        except Unsupported as problem:
            span = problem.span if isinstance(problem.span, Span) else Source("").whole()
            raise CompileError([Diagnostic("error", "UNS01", str(problem), span)]) from None
        return emission

    def kernels(self, unit: Unit, functions: Sequence[ir.Function]) -> SimtEmission:
        """The kernels alone, whatever their host part is. CompileError (CXX01) for device text that is not C,
        `Unsupported` for what the device cannot express."""
        from croq_magic.compiler.targets.opencl import foreign
        from croq_magic.compiler.targets.opencl.dialect import OpenclDialect
        from croq_magic.compiler.targets.opencl.words import renames
        from croq_magic.compiler.targets.simt.emit import emit_module

        pieces = foreign.pieces(unit)
        found = list(foreign.problems(unit, pieces))
        if found:
            raise CompileError(found)
        words = renames(foreign.plain("\n".join(piece.text for piece in pieces)))
        return emit_module(OpenclDialect(self.features, words), functions, pieces, unit.source, True)

    def build(self, emission: SimtEmission, function: ir.Function) -> OpenclModule:
        """Builds one function for the device. CompileError (CXX01) when its compiler refuses the cell's own text."""
        from croq_magic.compiler.targets.opencl import build, complaints, module

        try:
            return module.load(self.device, emission, function)
        except build.CompilationFailed as failure:
            found = complaints.diagnostics(failure.output, emission, self.features)
            if found:
                raise CompileError(found) from None
            text = f"the OpenCL compiler refuses generated code, please report this:\n{failure.output}"
            raise TargetError(text) from None

    def identity(self) -> Mapping[str, str]:
        """The device and its compiler: what a module's cache key has besides its text."""
        from croq_magic.compiler.targets.opencl import build

        return build.parts_of("", self.features)

    def restore(self, record: Record, source: Source) -> OpenclModule | None:
        """A function built before, from its module's record; None if its cache entry is gone."""
        from croq_magic.compiler.targets.opencl import module

        return module.restore(self.device, record, source)


def target(arch: str | None = None) -> OpenclTarget:
    """The target, for the registry. `arch` (or `CROQ_OPENCL_DEVICE`) chooses a device: "gpu", "cpu", a number, or a
    part of its name."""
    return OpenclTarget(arch or None)
