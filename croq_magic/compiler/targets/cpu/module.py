"""A program on the CPU: emitted, built and loaded."""

from __future__ import annotations

import ctypes
import dataclasses

from croq_magic.compiler.targets.cpu import build
from croq_magic.compiler.targets.cpu.emit import Emitted
from croq_magic.compiler.targets.cpu.launch import Launcher
from croq_magic.compiler.targets.cpu.runtime import runtime


@dataclasses.dataclass(frozen=True)
class CpuModule:
    """One function of a loaded program. `cached` says that no compiler had to run, `key` names the cache entry."""

    launch: Launcher
    cached: bool
    key: str


def load(emitted: Emitted, label: str) -> CpuModule:
    """Builds (or finds in the cache) and loads what was emitted.

    Raises `toolchain.CompilationFailed` with the compiler's messages, TargetError without a compiler.
    """
    table = runtime()
    library = build.library(emitted.text, label)
    library.handle.croq_attach.argtypes = (ctypes.c_void_p,)
    library.handle.croq_attach.restype = None
    library.handle.croq_attach(table.table)
    entry = next(e for e in emitted.entries if e.function == label)
    address = ctypes.cast(getattr(library.handle, entry.symbol), ctypes.c_void_p).value
    assert address is not None
    return CpuModule(Launcher(table, address, entry, emitted.checks, emitted.source), library.cached, library.key)
