"""The CUDA target: CUDA C++ for GPUs from sm_75 to sm_90a."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from croq_magic.errors import CompileError, TargetError

if TYPE_CHECKING:
    from croq_magic.compiler import ir
    from croq_magic.compiler.limits import Limits
    from croq_magic.compiler.passes.base import Pass
    from croq_magic.compiler.split import Unit
    from croq_magic.compiler.targets.simt.emission import SimtEmission

DEFAULT_ARCH = "sm_80"


@dataclasses.dataclass(frozen=True)
class CudaTarget:
    """CUDA C++ for one architecture."""

    name: ClassVar[str] = "cuda"
    arch: str = DEFAULT_ARCH

    @property
    def limits(self) -> Limits:
        from croq_magic.compiler.limits import LIMITS

        return LIMITS[self.arch]

    def passes(self) -> Sequence[Pass]:
        """Passes after those that all targets share, in order."""
        from croq_magic.compiler.targets.cuda.passes import passes

        return passes()

    def emit(self, unit: Unit, functions: Sequence[ir.Function]) -> SimtEmission:
        """CUDA C++ for functions after `passes`, with the device text of the cell. CompileError (UNS01) for what this
        target cannot express."""
        from croq_magic.compiler.diagnostics import Diagnostic
        from croq_magic.compiler.source import Source, Span
        from croq_magic.compiler.targets.cpu.verbatim import device_text, knows_element_types
        from croq_magic.compiler.targets.cuda.dialect import CudaDialect
        from croq_magic.compiler.targets.emit_cxx import Unsupported
        from croq_magic.compiler.targets.simt.emit import emit_module

        dialect = CudaDialect(self.limits.arch)
        try:
            return emit_module(dialect, functions, device_text(unit), unit.source, knows_element_types(unit))
        except Unsupported as problem:
            span = problem.span if isinstance(problem.span, Span) else Source("").whole()
            raise CompileError([Diagnostic("error", "UNS01", str(problem), span)]) from None

    def build(self, emission: SimtEmission, function: ir.Function) -> Any:
        """Builds and loads one function."""
        raise TargetError("this version emits CUDA C++ and does not build it")

    def identity(self) -> Mapping[str, str]:
        """What decides, besides the program, how a function is built."""
        return {"arch": self.arch}

    def restore(self, record: Any, source: Any) -> None:
        """A function built before, from its module's record."""
        return


def target(arch: str | None = None) -> CudaTarget:
    """The target for an architecture by its name, such as `sm_80`. TargetError for one that is not known."""
    from croq_magic.compiler.limits import LIMITS

    chosen = arch or DEFAULT_ARCH
    if chosen not in LIMITS or not LIMITS[chosen].gpu:
        known = ", ".join(name for name, limits in LIMITS.items() if limits.gpu)
        raise TargetError(f"there is no architecture `{arch}` of `cuda`; known are {known}")
    return CudaTarget(chosen)
