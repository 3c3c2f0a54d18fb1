"""Whole programs on CUDA: the host's C++ with machine code of the kernels inside, or one file for nvcc.

A program is built without a CUDA toolkit: NVRTC compiles the kernels, and the program opens the driver when it runs.
What `-es` writes is the other form, a single source that nvcc compiles (`single_source.py`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from croq_magic.compiler.targets.cpu.whole import CpuHost
from croq_magic.compiler.targets.emit_cxx import cxx_string
from croq_magic.compiler.targets.simt import images
from croq_magic.compiler.whole.host import HostCode, Kind

if TYPE_CHECKING:
    from croq_magic.compiler import ir
    from croq_magic.compiler.split import Unit
    from croq_magic.compiler.targets.cuda import CudaTarget
    from croq_magic.compiler.whole.program import WholeProgram

HEADER = "croq_host_cuda.h"


class CudaHost(CpuHost):
    """The host side of the CUDA target; see `HostTarget`."""

    suffix = ".cu"
    optimisation = "-O2"  # of the host: kernels are compiled apart, and -O3 takes a quarter longer

    def __init__(self, target: CudaTarget) -> None:
        self.cuda = target

    @property
    def early_header(self) -> str:
        return HEADER if super().early_header else ""

    def emit(self, unit: Unit, functions: Sequence[ir.Function], shown: Mapping[str, str]) -> HostCode:
        from croq_magic.compiler.targets.cuda import single_source
        from croq_magic.compiler.targets.simt import callers

        emission = self.cuda.emit(unit, functions)
        symbol = images.symbol_of(emission.text)
        head, pointers = "", "nullptr, nullptr, nullptr"
        if emission.kernels:
            names = [symbol, *([f"{symbol}_ptx"] if self.has_ptx else [])]
            head = "".join(map(images.declaration, names))
            pointers = f"{symbol}, {symbol}_end, {names[1] if self.has_ptx else 'nullptr'}"
        arch = cxx_string(self.cuda.arch.encode())
        module = f'static croq_device::module {callers.MODULE}({pointers}, "{arch}");'
        code = callers.emit(unit, functions, shown, emission, "cuda", HEADER, module, "cudaStream_t")
        names_of_kernels = tuple(kernel.symbol for kernel in emission.kernels)
        return dataclasses.replace(
            code,
            prelude=head + code.prelude,
            source=lambda: single_source.emit(unit, functions, shown, self.cuda.limits.arch),
            device=emission.text,
            device_suffix=".cu",
            kernels=names_of_kernels,
        )

    @property
    def has_ptx(self) -> bool:
        """Whether the kernels have a form that later GPUs run: not those for one architecture alone."""
        return not self.cuda.arch.endswith("a")

    def compile_command(
        self, source: str, output: str, kind: Kind, *, debug: bool = False, flags: Sequence[str] = ()
    ) -> list[str]:
        command = super().compile_command(source, output, kind, debug=debug, flags=flags)
        return [*command, "-ldl"] if kind == "executable" else command

    def source_command(self, source: str, output: str) -> list[str]:
        exact = ["-fmad=false"] if self.cuda.conformance else []
        return ["nvcc", "-std=c++17", "-O3", f"-arch={self.cuda.arch}", *exact, source, "-o", output]

    def link_command(self, parts: Sequence[str], output: str) -> list[str]:
        return [*super().link_command(parts, output), "-ldl"]

    def device_objects(self, program: WholeProgram, folder: Path) -> Sequence[Path]:
        """Machine code of the kernels. CompileError (CXX01) when NVRTC refuses device text of the program, TargetError
        without NVRTC."""
        from croq_magic.compiler.targets.cpu.verbatim import device_text
        from croq_magic.compiler.targets.cuda import build, complaints
        from croq_magic.compiler.targets.cuda.nvrtc import CompilationFailed
        from croq_magic.compiler.targets.simt.emission import SimtEmission

        text = program.code.device
        if not program.code.kernels:
            return ()
        try:
            conformance = self.cuda.conformance
            pieces = {images.symbol_of(text): build.cubin(text, self.cuda.arch, "kernels", conformance).cubin}
            if self.has_ptx:
                ptx = build.ptx(text, self.cuda.arch.replace("sm_", "compute_"), conformance)
                pieces[f"{images.symbol_of(text)}_ptx"] = ptx.encode() + b"\0"
        except CompilationFailed as failure:
            emission = SimtEmission(text, (), (), source=program.source, verbatim=device_text(program.unit))
            raise complaints.error(failure.log, emission) from None
        return (images.data_object(pieces, folder),)

    def runtime_objects(self) -> Sequence[Path]:
        return ()  # croq_alone.h is enough

    def identity(self) -> Mapping[str, str]:
        device = {f"device {name}": text for name, text in self.cuda.identity().items()}
        return {**super().identity(), **device}


def host(target: CudaTarget) -> CudaHost:
    """The host side of a CUDA target."""
    return CudaHost(target)
