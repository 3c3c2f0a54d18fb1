"""Whole programs on OpenCL: a C++ file for the host, in which the device's file stands as a string.

The program is linked against nothing of OpenCL. It opens the loader when a tileflow function is called first, and its
device's compiler builds the kernels then.
"""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from croq_magic import cache
from croq_magic.compiler.targets.cpu import toolchain
from croq_magic.compiler.targets.cpu.whole import CpuHost
from croq_magic.compiler.targets.emit_cxx import cxx_string
from croq_magic.compiler.whole.host import HostCode, Kind
from croq_magic.errors import CompileError, TargetError

if TYPE_CHECKING:
    from croq_magic.compiler import ir
    from croq_magic.compiler.split import Unit
    from croq_magic.compiler.targets.opencl import OpenclTarget
    from croq_magic.compiler.whole.program import WholeProgram

HEADER = "croq_host_opencl.h"
_BEGINS = "// ---- The device's file begins: OpenCL C, which the device's compiler builds when the program runs ----"
_ENDS = "// ---- The device's file ends ----"


class OpenclHost(CpuHost):
    """The host side of the OpenCL target; see `HostTarget`."""

    def __init__(self, target: OpenclTarget) -> None:
        self.device = target

    @property
    def early_header(self) -> str:
        return HEADER if super().early_header else ""

    def emit(self, unit: Unit, functions: Sequence[ir.Function], shown: Mapping[str, str]) -> HostCode:
        import dataclasses

        from croq_magic.compiler.targets.opencl import build
        from croq_magic.compiler.targets.opencl.devices import shown as device_name
        from croq_magic.compiler.targets.simt import callers

        emission = self.device.kernels(unit, functions)
        text = build.complete(emission.text) if emission.kernels else ""
        words = (" ".join(build.options(self.device.features)), self.device.arch or "", device_name(self.device.device))
        strings = ", ".join(f'"{cxx_string(word.encode())}"' for word in words)
        module = f"static croq_device::module {callers.MODULE}({raw_string(text)}, {strings});"
        if text:
            module = f"{_BEGINS}\n{module}\n{_ENDS}"
        code = callers.emit(unit, functions, shown, emission, "opencl", HEADER, module)
        return dataclasses.replace(code, device=text, device_suffix=".cl")

    def compile_command(
        self, source: str, output: str, kind: Kind, *, debug: bool = False, flags: Sequence[str] = ()
    ) -> list[str]:
        command = super().compile_command(source, output, kind, debug=debug, flags=flags)
        return [*command, "-ldl"] if kind == "executable" else command

    def link_command(self, objects: Sequence[str], output: str) -> list[str]:
        return [*super().link_command([*objects, str(_places())], output), "-ldl"]

    def device_objects(self, program: WholeProgram, folder: Path) -> Sequence[Path]:
        """None; but device text of the program is compiled, so that what is wrong with it is said here and not when the
        program runs. CompileError (CXX01)."""
        from croq_magic.compiler.targets.opencl import build, complaints, foreign
        from croq_magic.compiler.targets.simt.emission import SimtEmission

        pieces = foreign.pieces(program.unit)
        if not pieces or not program.code.device:
            return ()
        try:
            build.program(self.device.device, program.code.device, "whole program")
        except build.CompilationFailed as failure:
            emission = SimtEmission(program.code.device, (), (), source=program.source, verbatim=pieces)
            found = complaints.diagnostics(failure.output, emission, self.device.features)
            if found:
                raise CompileError(found) from None
            text = f"the OpenCL compiler refuses generated code, please report this:\n{failure.output}"
            raise TargetError(text) from None
        return ()

    def runtime_objects(self) -> Sequence[Path]:
        return ()  # croq_alone.h is enough

    def identity(self) -> Mapping[str, str]:
        device = {f"device {name}": text for name, text in self.device.identity().items()}
        return {**super().identity(), **device, "places": _places_text()}


def raw_string(text: str) -> str:
    """Text as a C++ string literal of several lines, which may be read where it stands."""
    tag = "cl"
    while f'){tag}"' in text:
        tag += "_"
    return f'R"{tag}(\n{text.removesuffix(chr(10))}\n){tag}"'


def _places_text() -> str:
    """C++ that tells programs linked here where loader and runtimes lie that the system does not know."""
    import sysconfig

    from croq_magic.compiler.targets.opencl import runtimes

    packages = Path(sysconfig.get_path("platlib"))
    loaders = [*packages.glob("pyopencl/.libs/libOpenCL*.so*"), *packages.glob("pyopencl.libs/libOpenCL*.so*")]
    loader = str(loaders[0]) if loaders else ""
    texts = [f'"{cxx_string(text.encode())}"' for text in (loader, ":".join(map(str, runtimes.bundled())))]
    return f'extern "C" const char* croq_opencl_places(int which) {{ return which ? {texts[1]} : {texts[0]}; }}\n'


def _places() -> Path:
    """The object of that text."""
    text, compiler = _places_text(), toolchain.find()
    parts = {"source": text, "compiler": compiler.version, "command": " ".join(compiler.command)}
    label = "places of OpenCL"
    entry = cache.lookup(parts, label)
    if entry is None:
        with tempfile.TemporaryDirectory(prefix="croq_magic-") as folder:
            source, made = Path(folder, "places.cpp"), Path(folder, "places.o")
            source.write_text(text)
            command = [*compiler.command, "-fPIC", "-c", str(source), "-o", str(made)]
            done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL)
            if done.returncode != 0:
                raise TargetError(f"the C++ compiler refuses generated code, please report this:\n{done.stderr}")
            entry = cache.store(parts, {"places.o": made}, label)
    return entry.files["places.o"]


def host(target: OpenclTarget) -> OpenclHost:
    """The host side of an OpenCL target."""
    return OpenclHost(target)
