"""From C++ text to a loaded library, through the on-disk cache; and the compiler's complaints as diagnostics."""

from __future__ import annotations

import ctypes
import tempfile
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from croq_magic import cache
from croq_magic.compiler.targets.cpu import toolchain
from croq_magic.errors import TargetError

HEADERS = ("croq_types.h", "croq_cpu.h", "croq_small.h", "croq_wide.h", "croq_math.h", "croq_device.h", "croq_fiber.h")
RUNTIME_HEADERS = (
    "croq_types.h",
    "croq_cpu.h",
    "croq_small.h",
    "croq_fiber.h",
    "croq_calls.h",
    "croq_stacks.h",
    "croq_schedule.h",
    "croq_launch.h",
)
INCLUDE = Path(__file__).resolve().parents[2] / "include"


class Library(NamedTuple):
    """A loaded shared library; `cached` says whether it came from the cache, `key` names its entry."""

    handle: ctypes.PyDLL
    path: Path
    key: str
    cached: bool


@lru_cache(maxsize=8)
def header(name: str) -> str:
    """Text of a bundled C++ file."""
    return (INCLUDE / name).read_text()


def parts_of(source: str, native: bool = True, headers: tuple[str, ...] = HEADERS) -> Mapping[str, str]:
    """What the cache key of a C++ build is made of."""
    compiler = toolchain.find()
    parts = {
        "source": source,
        "headers": "".join(map(header, headers)),
        "options": " ".join((*compiler.command, *toolchain.flags(compiler, native))),
        "compiler": compiler.version,
    }
    return {**parts, "processor": toolchain.processor()} if native else parts


def library(source: str, label: str, native: bool = True, headers: tuple[str, ...] = HEADERS) -> Library:
    """Compiles (or finds) and loads a C++ text.

    Raises `toolchain.CompilationFailed` with the compiler's messages, TargetError without a compiler.
    """
    parts = parts_of(source, native, headers)
    entry = cache.lookup(parts, label)
    if entry is not None:
        try:
            path = entry.files["module.so"]
            return Library(ctypes.PyDLL(str(path)), path, entry.key, True)
        except (OSError, KeyError):
            pass  # evicted between the lookup and the load, or built against another C library: build again
    full = False
    while True:
        built = _compile(source, native, full)
        entry = cache.store(parts, {"module.so": built, "module.cpp": source.encode()}, label)
        path = entry.files["module.so"]
        try:
            return Library(ctypes.PyDLL(str(path)), path, entry.key, False)
        except OSError as error:
            if full:
                raise toolchain.CompilationFailed(f"error: the module does not load: {error}") from error
            cache.drop(entry)  # the module needs a library that the process does not have: link it in full
            full = True


def _compile(source: str, native: bool, full: bool) -> bytes:
    compiler = toolchain.find()
    try:
        return _compile_in_folder(compiler, source, native, full)
    except OSError as error:
        where = tempfile.gettempdir()
        raise TargetError(f"the C++ compiler's files cannot be written to {where}: {error.strerror or error}") from None


def _compile_in_folder(compiler: toolchain.Compiler, source: str, native: bool, full: bool) -> bytes:
    with tempfile.TemporaryDirectory(prefix="croq_magic-") as folder:
        text, output = Path(folder, "module.cpp"), Path(folder, "module.so")
        text.write_text(source)
        try:
            toolchain.compile_shared(compiler, text, output, full, native, (INCLUDE,))
        except toolchain.CompilationFailed as failure:
            # Lean, the linker knows no C++ library; with zig the compiler does not find its headers either.
            if full or not any(sign in failure.output for sign in ("undefined", "file not found")):
                raise
            toolchain.compile_shared(compiler, text, output, True, native, (INCLUDE,))
        return output.read_bytes()
