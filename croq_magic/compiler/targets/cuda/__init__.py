"""The CUDA target: CUDA C++ for GPUs from sm_75 on, built by NVRTC and launched through CuPy.

Building needs no GPU; launching does. `CROQ_CONFORMANCE=1` keeps multiplications and additions apart, so that results
are those of the CPU to the last bit.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from croq_magic.errors import CompileError, TargetError

if TYPE_CHECKING:
    from croq_magic.compiler import ir
    from croq_magic.compiler.diagnostics import Diagnostic
    from croq_magic.compiler.limits import Limits
    from croq_magic.compiler.passes.base import Pass
    from croq_magic.compiler.source import Source
    from croq_magic.compiler.split import Unit
    from croq_magic.compiler.targets.cuda.arrays import DeviceArrays
    from croq_magic.compiler.targets.cuda.module import CudaModule, Record
    from croq_magic.compiler.targets.cuda.timing import Times
    from croq_magic.compiler.targets.simt.emission import SimtEmission

DEFAULT_ARCH = "sm_80"


@dataclasses.dataclass(frozen=True)
class CudaTarget:
    """CUDA C++ for one architecture. `checks` is what "auto" means: a GPU does not stop for every access."""

    name: ClassVar[str] = "cuda"
    checks: ClassVar[str] = "entry"
    arch: str = DEFAULT_ARCH
    conformance: bool = False

    @property
    def limits(self) -> Limits:
        from croq_magic.compiler.limits import LIMITS

        return LIMITS[self.arch]

    def passes(self) -> Sequence[Pass]:
        """Passes after those that all targets share, in order."""
        from croq_magic.compiler.targets.cuda.passes import passes

        return passes()

    def advice(self, functions: Sequence[ir.Function]) -> list[Diagnostic]:
        """Notes about what costs speed in functions after `passes`."""
        from croq_magic.compiler.targets.simt.coalescing import advice

        return advice(functions)

    def emit(self, unit: Unit, functions: Sequence[ir.Function]) -> SimtEmission:
        """CUDA C++ for functions after `passes`, with the device text of the cell. CompileError (UNS01) for what this
        target cannot express."""
        from croq_magic.compiler.diagnostics import Diagnostic
        from croq_magic.compiler.source import Source, Span
        from croq_magic.compiler.targets.cpu.verbatim import device_text, knows_element_types
        from croq_magic.compiler.targets.cuda.build import DEVICE_HEADERS
        from croq_magic.compiler.targets.cuda.dialect import CudaDialect
        from croq_magic.compiler.targets.emit_cxx import Unsupported
        from croq_magic.compiler.targets.simt.emit import emit_module

        dialect = CudaDialect(self.limits.arch)
        try:
            pieces = device_text(unit, DEVICE_HEADERS)
            return emit_module(dialect, functions, pieces, unit.source, knows_element_types(unit))
        except Unsupported as problem:
            span = problem.span if isinstance(problem.span, Span) else Source("").whole()
            raise CompileError([Diagnostic("error", "UNS01", str(problem), span)]) from None

    def build(self, emission: SimtEmission, function: ir.Function) -> CudaModule:
        """Builds one function. CompileError (CXX01) when NVRTC refuses the cell's own text, TargetError without it."""
        from croq_magic.compiler.targets.cuda import complaints, module
        from croq_magic.compiler.targets.cuda.nvrtc import CompilationFailed

        try:
            return module.load(emission, function, self.arch, self.conformance)
        except CompilationFailed as failure:
            raise complaints.error(failure.log, emission) from None

    def identity(self) -> Mapping[str, str]:
        """What decides, besides the program, how a function is built."""
        from croq_magic.compiler.targets.cuda import build

        return {
            "arch": self.arch,
            "compiler": build.compiler(),
            "options": " ".join(build.options("", self.conformance)),
        }

    def restore(self, record: Record, source: Source) -> CudaModule | None:
        """A function built before, from its module's record; None if its cache entry is gone."""
        from croq_magic.compiler.targets.cuda import module

        return module.restore(record, source)

    def arrays(self) -> DeviceArrays:
        """What its functions take as arrays."""
        from croq_magic.compiler.targets.cuda import system
        from croq_magic.compiler.targets.cuda.arrays import DeviceArrays

        return DeviceArrays(None if system.problem() is not None else system.cupy())

    def finish(self) -> None:
        """Waits for CuPy's current stream; TargetError, with the kernel's name, for what failed on it."""
        from croq_magic.compiler.targets.cuda import launches

        launches.finish()

    def timed(self, function: Any, bound: Any) -> tuple[Any, Times]:
        """Runs a function twice, first to warm up and on copies of what it writes: its value, and how long the second
        run took on the device."""
        from croq_magic.compiler.targets.cuda import launches

        return launches.timed(function, bound)

    def shown(self, text: str, form: str, unit: Unit) -> str:
        """What the text of a unit compiles to: "ptx" or "sass". CompileError (CXX01) when NVRTC refuses the cell's own
        text, TargetError where the tools for this are missing."""
        from croq_magic.compiler.targets.cpu.verbatim import device_text
        from croq_magic.compiler.targets.cuda import build, complaints, disasm
        from croq_magic.compiler.targets.cuda.nvrtc import CompilationFailed
        from croq_magic.compiler.targets.simt.emission import SimtEmission

        try:
            if form == "ptx":
                return build.ptx(text, self.arch, self.conformance)
            return disasm.sass(build.cubin(text, self.arch, "all functions", self.conformance).cubin)
        except CompilationFailed as failure:
            pieces = device_text(unit, build.DEVICE_HEADERS)
            emission = SimtEmission(text, (), (), source=unit.source, verbatim=pieces)
            raise complaints.error(failure.log, emission) from None


def target(arch: str | None = None) -> CudaTarget:
    """The target for an architecture by its name, such as `sm_80`; `None` and "native" are the GPU's of this machine.
    TargetError for one that is not known, and without a GPU where it has to be asked."""
    from croq_magic.compiler.limits import LIMITS

    if arch in (None, "native"):
        from croq_magic.compiler.targets.cuda import system

        arch = system.current_arch()
    assert arch is not None
    if arch not in LIMITS or not LIMITS[arch].gpu:
        known = ", ".join(name for name, limits in LIMITS.items() if limits.gpu)
        raise TargetError(f"there is no architecture `{arch}` of `cuda`; known are {known}")
    return CudaTarget(arch, os.environ.get("CROQ_CONFORMANCE", "0") not in ("", "0"))
