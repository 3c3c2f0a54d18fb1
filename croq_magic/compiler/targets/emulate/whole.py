"""Whole programs on the emulator: the host's C++ with the kernels as a shared library inside, and the runtime."""

from __future__ import annotations

import dataclasses
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from croq_magic import cache
from croq_magic.compiler.targets import emulate
from croq_magic.compiler.targets.cpu import objects, toolchain
from croq_magic.compiler.targets.cpu.whole import CpuHost
from croq_magic.compiler.targets.simt import images
from croq_magic.compiler.whole.host import HostCode, Kind
from croq_magic.errors import CompileError, TargetError

if TYPE_CHECKING:
    from croq_magic.compiler import ir
    from croq_magic.compiler.split import Unit
    from croq_magic.compiler.targets.emulate import EmulatedTarget
    from croq_magic.compiler.whole.program import WholeProgram

HEADER = "croq_host_emulate.h"


class EmulatedHost(CpuHost):
    """The host side of the emulator; see `HostTarget`. What `-es` writes is the text for a GPU."""

    suffix = ".cu"
    optimisation = "-O2"  # of the host: kernels are compiled apart, and -O3 takes a quarter longer

    def __init__(self, target: EmulatedTarget) -> None:
        self.emulator = target

    @property
    def early_header(self) -> str:
        return HEADER if super().early_header else ""

    def emit(self, unit: Unit, functions: Sequence[ir.Function], shown: Mapping[str, str]) -> HostCode:
        from croq_magic.compiler.targets.cuda import single_source
        from croq_magic.compiler.targets.simt import callers

        emulate.no_assembly(functions)
        emission = self.emulator.cuda.emit(unit, functions)
        symbol = images.symbol_of(emission.text)
        module = f"static croq_device::module {callers.MODULE}(nullptr, nullptr, nullptr);"
        head = ""
        if emission.kernels:
            head = images.declaration(symbol) + images.declaration(f"{symbol}_facts")
            module = f"static croq_device::module {callers.MODULE}({symbol}, {symbol}_end, {symbol}_facts);"
        code = callers.emit(unit, functions, shown, emission, "emulate", HEADER, module)
        names = tuple(kernel.symbol for kernel in emission.kernels)
        return dataclasses.replace(
            code,
            prelude=head + code.prelude,
            source=lambda: single_source.emit(unit, functions, shown, self.emulator.limits.arch),
            device=emission.text,
            device_suffix=".cu",
            kernels=names,
        )

    def compile_command(
        self, source: str, output: str, kind: Kind, *, debug: bool = False, flags: Sequence[str] = ()
    ) -> list[str]:
        command = super().compile_command(source, output, kind, debug=debug, flags=flags)
        return [*command, "-rdynamic", "-ldl"] if kind == "executable" else command

    def source_command(self, source: str, output: str) -> list[str]:
        return ["nvcc", "-std=c++17", "-O3", f"-arch={self.emulator.cuda.arch}", source, "-o", output]

    def link_command(self, parts: Sequence[str], output: str) -> list[str]:
        return [*super().link_command([*parts, str(_runtime())], output), "-rdynamic", "-ldl"]

    def device_objects(self, program: WholeProgram, folder: Path) -> Sequence[Path]:
        """The kernels' library and what is to be known of it. CompileError (CXX01) when the C++ compiler refuses device
        text of the program."""
        from croq_magic.compiler.targets.cpu.verbatim import device_text
        from croq_magic.compiler.targets.emulate import build

        code = program.code
        if not code.kernels:
            return ()
        checked = self.emulator.checked
        whole = build.host_text(code.device, code.kernels, self.emulator.limits.arch)
        parts = {**build.parts_of(whole, checked), "what": "kernels of a whole program"}
        entry = cache.lookup(parts, "kernels")
        if entry is None:
            try:
                data = build.compiled(toolchain.find(), whole, checked)
            except toolchain.CompilationFailed as failure:
                found = emulate.refusals(failure.output, program.source, device_text(program.unit))
                if found:
                    raise CompileError(found) from None
                text = f"the C++ compiler refuses generated code, please report this:\n{failure.output}"
                raise TargetError(text) from None
            facts = _facts(data, code.device, checked, program.source.name)
            entry = cache.store(parts, {"module.so": data, "facts": facts}, "kernels")
        symbol = images.symbol_of(code.device)
        pieces = {symbol: entry.read("module.so"), f"{symbol}_facts": entry.read("facts")}
        return (images.data_object(pieces, folder),)

    def identity(self) -> Mapping[str, str]:
        device = {f"device {name}": text for name, text in self.emulator.identity().items()}
        return {**super().identity(), **device}


def _facts(data: bytes, text: str, checked: bool, name: str) -> bytes:
    """What croq_host_emulate.h has to know of a library, as it reads it."""
    from croq_magic.compiler.targets.emulate.build import shared_arrays
    from croq_magic.compiler.targets.emulate.elf import Elf, Lines

    elf = Elf(data)
    variables = elf.variables()
    anchor = next((v for v in variables if "croq_anchor_place" in v.symbol), None)
    size = elf.tls_size if anchor is not None and len(variables) > 1 else 0
    rows = []
    if checked:
        lines = Lines(elf)
        for address in dict.fromkeys(lines.addresses):
            line = lines.at(address + 1)
            rows.append((address, line.line if line else 0, int(line is not None and line.file == name)))
    serial = "printf" in text or "croq_grid_sync" in text
    arrays = shared_arrays(variables)
    head = struct.pack("<6q", size, anchor.offset if anchor else 0, checked, serial, len(arrays), len(rows))
    head += b"".join(struct.pack("<2q", v.offset, v.size) for v in arrays)
    return head + b"".join(struct.pack("<3I", *row) for row in rows)


def _runtime() -> Path:
    """The emulator's runtime as an object."""
    from croq_magic.compiler.targets.emulate.runtime import HEADERS

    return objects.bundled("croq_emulate.cpp", HEADERS, "emulator", "the emulator")


def host(target: EmulatedTarget) -> EmulatedHost:
    """The host side of the emulator."""
    return EmulatedHost(target)
