"""A program on the CPU: emitted, built and loaded."""

from __future__ import annotations

import ctypes
import dataclasses
from collections.abc import Mapping

from croq_magic.compiler.source import Source
from croq_magic.compiler.targets.cpu import build
from croq_magic.compiler.targets.cpu.emit import Emitted
from croq_magic.compiler.targets.cpu.launch import Launcher
from croq_magic.compiler.targets.cpu.runtime import runtime


@dataclasses.dataclass(frozen=True)
class CpuModule:
    """The functions of a loaded program by name; `cached` says that no compiler had to run."""

    functions: Mapping[str, Launcher]
    cached: bool
    key: str


def load(emitted: Emitted, label: str, source: Source | None) -> CpuModule:
    """Builds (or finds in the cache) and loads what was emitted.

    Raises `toolchain.CompilationFailed` with the compiler's messages, TargetError without a compiler.
    """
    table = runtime()
    library = build.library(emitted.text, label)
    library.handle.croq_attach.argtypes = (ctypes.c_void_p,)
    library.handle.croq_attach.restype = None
    library.handle.croq_attach(table.table)
    functions = {}
    for entry in emitted.entries:
        address = ctypes.cast(getattr(library.handle, entry.symbol), ctypes.c_void_p).value
        assert address is not None
        functions[entry.function] = Launcher(table, address, entry, emitted.checks, source)
    return CpuModule(functions, library.cached, library.key)
