"""Whole programs on OpenCL: a C++ file for the host, in which the device's file stands as a string.

The program is linked against nothing of OpenCL. It opens the loader when a tileflow function is called first, and its
device's compiler builds the kernels then, unless they are in the program as it built them before.
"""

from __future__ import annotations

import contextlib
import subprocess
import tempfile
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from croq_magic import cache
from croq_magic.compiler.targets.cpu import objects, toolchain
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
_RUNTIME_HEADERS = ("croq_device_functions.h", "croq_opencl_module.h", "croq_opencl_runtime.h")
_BEGINS = "// ---- The device's file begins: OpenCL C, which the device's compiler builds when the program runs ----"
_ENDS = "// ---- The device's file ends ----"


class OpenclHost(CpuHost):
    """The host side of the OpenCL target; see `HostTarget`."""

    optimisation = "-O2"  # of the host: kernels are compiled apart, and -O3 takes a quarter longer

    def __init__(self, target: OpenclTarget) -> None:
        self.device = target

    @property
    def early_header(self) -> str:
        return HEADER if super().early_header else ""

    def emit(self, unit: Unit, functions: Sequence[ir.Function], shown: Mapping[str, str]) -> HostCode:
        import dataclasses

        from croq_magic.compiler.targets.opencl import build
        from croq_magic.compiler.targets.opencl.devices import shown as device_name
        from croq_magic.compiler.targets.simt import callers, images

        emission = self.device.kernels(unit, functions)
        text = build.complete(emission.text) if emission.kernels else ""
        words = (" ".join(build.options(self.device.features)), self.device.arch or "", device_name(self.device.device))
        strings = ", ".join(f'"{cxx_string(word.encode())}"' for word in words)
        if text:
            symbol = images.symbol_of(text)  # not there in a program that is built without croqtile
            driver = cxx_string(self.device.device.driver_version.strip().encode())
            strings += f', {symbol}, {symbol}_end, "{driver}"'
        module = f"static croq_device::module {callers.MODULE}({raw_string(text)}, {strings});"
        if text:
            module = f"{images.declaration(symbol, weak=True)}{_BEGINS}\n{module}\n{_ENDS}"
        code = callers.emit(unit, functions, shown, emission, "opencl", HEADER, module)
        return dataclasses.replace(code, device=text, device_suffix=".cl")

    def compile_command(
        self, source: str, output: str, kind: Kind, *, debug: bool = False, flags: Sequence[str] = ()
    ) -> list[str]:
        command = super().compile_command(source, output, kind, debug=debug, flags=flags)
        return [*command, "-ldl"] if kind == "executable" else command

    def link_command(self, parts: Sequence[str], output: str) -> list[str]:
        return [*super().link_command([*parts, str(_places())], output), "-ldl"]

    def device_objects(self, program: WholeProgram, folder: Path) -> Sequence[Path]:
        """What the device's compiler makes of the kernels, so that the program need not ask it again, and what is wrong
        with device text is said here and not when the program runs. CompileError (CXX01)."""
        from croq_magic.compiler.targets.opencl import build, complaints, foreign
        from croq_magic.compiler.targets.simt import images
        from croq_magic.compiler.targets.simt.emission import SimtEmission

        text = program.code.device
        if not text:
            return ()
        try:
            made = build.binary(self.device.device, text, "kernels")
        except build.CompilationFailed as failure:
            pieces = foreign.pieces(program.unit)
            emission = SimtEmission(text, (), (), source=program.source, verbatim=pieces)
            found = complaints.diagnostics(failure.output, emission, self.device.features)
            if found:
                raise CompileError(found) from None
            said = f"the OpenCL compiler refuses generated code, please report this:\n{failure.output}"
            raise TargetError(said) from None
        return (images.data_object({images.symbol_of(text): made}, folder),)

    def begin(self) -> None:
        threading.Thread(target=_prepare, name="croq-opencl-runtime", daemon=True).start()

    def runtime_objects(self) -> Sequence[Path]:
        return (_runtime(),)

    def identity(self) -> Mapping[str, str]:
        device = {f"device {name}": text for name, text in self.device.identity().items()}
        return {**super().identity(), **device, "places": _places_text()}


def _runtime() -> Path:
    """The object of croq_opencl_runtime.cpp. Its functions ask a device for work, so it need not be fast."""
    return objects.bundled(
        "croq_opencl_runtime.cpp", _RUNTIME_HEADERS, "OpenCL runtime", "the OpenCL runtime", ("-O1",)
    )


def _prepare() -> None:
    """Makes what all programs are linked with. What goes wrong is said by those who need it."""
    with contextlib.suppress(TargetError, OSError):
        _runtime()
        _places()


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
