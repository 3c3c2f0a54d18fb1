"""A program on the CPU: emitted, built and loaded."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, NamedTuple

from croq_magic import cache
from croq_magic.compiler.source import Source
from croq_magic.compiler.targets.cpu import build
from croq_magic.compiler.targets.cpu.checks import CheckSite
from croq_magic.compiler.targets.cpu.entry import EntryPoint
from croq_magic.compiler.targets.cpu.launch import Launcher
from croq_magic.compiler.targets.cpu.runtime import prepare, runtime

if TYPE_CHECKING:
    from croq_magic.compiler.targets.cpu.emit import Emitted

Record = tuple[str, EntryPoint, tuple[CheckSite, ...]]  # key of the cache entry, how to call it, its checks


class CpuModule(NamedTuple):
    """One function of a loaded program. `cached` says that no compiler had to run, `key` names the cache entry, and
    `record` is what `restore` needs to load it again."""

    launch: Launcher
    cached: bool
    key: str
    record: Record


def load(emitted: Emitted, label: str) -> CpuModule:
    """Builds (or finds in the cache) and loads what was emitted.

    Raises `toolchain.CompilationFailed` with the compiler's messages, TargetError without a compiler.
    """
    prepare()  # the first time, the runtime is built beside the module
    library = build.library(emitted.text, label)
    entry = next(e for e in emitted.entries if e.function == label)
    return _attach(library, entry, emitted.checks, emitted.source)


def restore(record: Record, source: Source) -> CpuModule | None:
    """A module loaded before, from its record; None if its cache entry is gone."""
    key, entry, checks = record
    found = cache.find(key)
    if found is None:
        return None
    path = found.files["module.so"]
    try:
        library = build.Library(ctypes.PyDLL(str(path)), path, key, True)
    except OSError:
        return None
    return _attach(library, entry, checks, source)


def _attach(
    library: build.Library, entry: EntryPoint, checks: tuple[CheckSite, ...], source: Source | None
) -> CpuModule:
    table = runtime()
    library.handle.croq_attach.argtypes = (ctypes.c_void_p,)
    library.handle.croq_attach.restype = None
    library.handle.croq_attach(table.table)
    address = ctypes.cast(getattr(library.handle, entry.symbol), ctypes.c_void_p).value
    assert address is not None
    launcher = Launcher(table, address, entry, checks, source)
    return CpuModule(launcher, library.cached, library.key, (library.key, entry, checks))
