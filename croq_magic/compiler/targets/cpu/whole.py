"""Whole programs on the CPU: how they are compiled and linked."""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from croq_magic.compiler.targets.cpu import build, objects, toolchain

if TYPE_CHECKING:
    from croq_magic.compiler import ir
    from croq_magic.compiler.split import Unit
    from croq_magic.compiler.targets.cpu import CpuTarget
    from croq_magic.compiler.whole.host import HostCode, Kind
    from croq_magic.compiler.whole.program import WholeProgram


_GCC = re.compile(r"(?:[\w.]+-)*g\+\+(?:-[\d.]+)?")


class CpuHost:
    """The host side of the CPU target; see `HostTarget`."""

    suffix = ".cpp"
    optimisation = "-O3"

    def __init__(self, target: CpuTarget) -> None:
        self.target = target

    @property
    def early_header(self) -> str:
        # g++ itself reads a pipe, once and when it comes to it; a wrapper such as ccache might read it twice.
        command = toolchain.find().command
        name = os.path.basename(os.path.realpath(command[0]))
        is_gcc = sys.platform == "linux" and len(command) == 1 and _GCC.fullmatch(name) is not None
        return "croq_host.h" if is_gcc else ""

    def begin(self) -> None:
        pass  # the runtime is compiled in less time than a program

    def emit(self, unit: Unit, functions: Sequence[ir.Function], shown: Mapping[str, str]) -> HostCode:
        from croq_magic.compiler.targets.cpu import callers

        return callers.emit(unit, functions, shown)

    def flags(self, debug: bool = False) -> tuple[str, ...]:
        compiler = toolchain.find()
        kept = [f for f in toolchain.flags(compiler) if f not in ("-fno-exceptions", "-fvisibility=hidden", "-fPIC")]
        kept = [f for f in kept if f not in ("-fno-plt", "-fno-builtin-printf")]
        kept = [self.optimisation if f == "-O3" else f for f in kept]
        return (*kept, "-pthread", *(("-g",) if debug else ()))

    def compile_command(
        self, source: str, output: str, kind: Kind, *, debug: bool = False, flags: Sequence[str] = ()
    ) -> list[str]:
        stage = {"executable": (), "object": ("-c",), "assembly": ("-S",)}[kind]
        return [*toolchain.find().command, *self.flags(debug), *flags, *stage, source, "-o", output]

    def source_command(self, source: str, output: str) -> list[str]:
        return self.compile_command(source, output, "executable")

    def link_command(self, parts: Sequence[str], output: str) -> list[str]:
        return [*toolchain.find().command, "-pthread", *parts, "-o", output]

    def identity(self) -> Mapping[str, str]:
        compiler = toolchain.find()
        command = shlex.join([*compiler.command, *self.flags()])
        return {"compiler": compiler.version, "command": command, "processor": toolchain.processor()}

    def device_objects(self, program: WholeProgram, folder: Path) -> Sequence[Path]:
        return ()

    def runtime_objects(self) -> Sequence[Path]:
        return (objects.bundled("croq_runtime.cpp", build.RUNTIME_HEADERS, "CPU runtime", "the CPU runtime"),)


def host(target: CpuTarget) -> CpuHost:
    """The host side of a CPU target."""
    return CpuHost(target)
