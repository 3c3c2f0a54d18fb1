"""The emulator as a target: the very text that a GPU would get, compiled as C++ and run with a fiber per CUDA thread.

In the checked mode, which is the default, every access is looked at: races, stray accesses, shared memory that is read
before it is written. `CROQ_EMULATE=fast` leaves that out; `CROQ_EMULATE_SEED` shuffles the order of threads.
"""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from croq_magic.errors import CompileError, TargetError

if TYPE_CHECKING:
    from croq_magic.compiler import ir
    from croq_magic.compiler.diagnostics import Diagnostic
    from croq_magic.compiler.limits import Limits
    from croq_magic.compiler.passes.base import Pass
    from croq_magic.compiler.source import Source, Span
    from croq_magic.compiler.split import Unit
    from croq_magic.compiler.targets.cuda import CudaTarget
    from croq_magic.compiler.targets.emulate.module import EmulatedModule, Record
    from croq_magic.compiler.targets.simt.emission import SimtEmission

MODES = ("checked", "fast")
NO_ASSEMBLY = "the emulator cannot run inline assembly of a GPU"


@dataclasses.dataclass(frozen=True)
class EmulatedTarget:
    """The emulator in one of its modes, in the place of a GPU of some architecture."""

    name: ClassVar[str] = "emulate"
    cuda: CudaTarget
    checked: bool = True

    @property
    def limits(self) -> Limits:
        return self.cuda.limits

    def passes(self) -> Sequence[Pass]:
        """Those of the CUDA target."""
        return self.cuda.passes()

    def advice(self, functions: Sequence[ir.Function]) -> list[Diagnostic]:
        """Those of the CUDA target."""
        return self.cuda.advice(functions)

    def emit(self, unit: Unit, functions: Sequence[ir.Function]) -> SimtEmission:
        """The text of the CUDA target. CompileError (UNS01) for what it cannot express, here or in the host part."""
        from croq_magic.compiler.diagnostics import Diagnostic
        from croq_magic.compiler.source import Source, Span
        from croq_magic.compiler.targets.emit_cxx import Unsupported
        from croq_magic.compiler.targets.simt.host_emit import host_text

        no_assembly(functions)
        emission = self.cuda.emit(unit, functions)
        try:
            for function in functions:
                host_text(function, emission.kernels, self.name)
        except Unsupported as problem:
            span = problem.span if isinstance(problem.span, Span) else Source("").whole()
            raise CompileError([Diagnostic("error", "UNS01", str(problem), span)]) from None
        return emission

    def build(self, emission: SimtEmission, function: ir.Function) -> EmulatedModule:
        """Builds and loads one function. CompileError (CXX01) when the C++ compiler refuses the cell's own text,
        TargetError without a compiler."""
        from croq_magic.compiler.targets.cpu import toolchain
        from croq_magic.compiler.targets.emulate import module

        try:
            return module.load(emission, function, self.checked, self.limits.arch)
        except toolchain.CompilationFailed as failure:
            source = emission.source
            found = refusals(failure.output, source, emission.verbatim) if source is not None else []
            if found:
                raise CompileError(found) from None
            text = f"the C++ compiler refuses generated code, please report this:\n{failure.output}"
            raise TargetError(text) from None

    def identity(self) -> Mapping[str, str]:
        """Compiler, options, architecture and mode: what a module's cache key has besides its text."""
        from croq_magic.compiler.targets.emulate import build

        text = {f"text's {name}": value for name, value in self.cuda.identity().items()}
        return {**build.parts_of("", self.checked), **text, "target": self.name}

    def restore(self, record: Record, source: Source) -> EmulatedModule | None:
        """A function built before, from its module's record; None if its cache entry is gone."""
        from croq_magic.compiler.targets.emulate import module

        return module.restore(record, source)


def no_assembly(functions: Sequence[ir.Function]) -> None:
    """CompileError (UNS01) for the language's own inline assembly."""
    from croq_magic.compiler import ir, visit
    from croq_magic.compiler.diagnostics import Diagnostic
    from croq_magic.compiler.source import Source

    found = [node for function in functions for node in visit.walk(function.body) if isinstance(node, ir.Asm)]
    places = dict.fromkeys(node.span or Source("").whole() for node in found)  # passes may have made two of one
    if places:
        raise CompileError([Diagnostic("error", "UNS01", NO_ASSEMBLY, place) for place in places])


def refusals(output: str, source: Source, verbatim: Sequence[Span]) -> list[Diagnostic]:
    """What a compiler printed about lines of `source`, as `complaints.diagnostics` has it; where there is inline
    assembly, that alone."""
    from croq_magic.compiler.targets.cpu import complaints
    from croq_magic.compiler.targets.emulate import build

    found = complaints.diagnostics(output, source, verbatim)
    if build.ASSEMBLY not in output:
        return found
    told = [dataclasses.replace(d, message=NO_ASSEMBLY) for d in found if build.ASSEMBLY in d.message]
    return told or list(_assembly(verbatim)) or found


def _assembly(verbatim: Sequence[Span]) -> Iterator[Diagnostic]:
    """Errors for inline assembly of the cell: only a GPU has its instructions."""
    from croq_magic.compiler.diagnostics import Diagnostic
    from croq_magic.compiler.source import Span

    for piece in verbatim:
        for match in re.finditer(r"\b(?:asm|__asm__|__asm)\b", piece.text):
            place = Span(piece.source, piece.start + match.start(), piece.start + match.end())
            yield Diagnostic("error", "CXX01", NO_ASSEMBLY, place)


def target(arch: str | None = None) -> EmulatedTarget:
    """The target, for the registry: in the place of a GPU of this architecture, sm_80 if none is named. TargetError for
    "native" where there is no GPU."""
    from croq_magic.compiler.targets.cuda import target as cuda

    mode = os.environ.get("CROQ_EMULATE") or MODES[0]
    if mode not in MODES:
        raise TargetError(f"CROQ_EMULATE must be {' or '.join(MODES)}, not {mode!r}")
    if arch == "native":
        from croq_magic.compiler.targets.cuda import system

        if (problem := system.problem()) is not None and problem.no_gpu:
            raise TargetError(
                "the architecture `native` is that of a GPU, and none was found here; "
                "without `-a` the target emulate stands for sm_80, `-a sm_90a` names another one"
            )
    return EmulatedTarget(cuda(arch or "sm_80"), mode == "checked")
