"""The C++ compiler of the CPU target: finding it, its flags, running it.

Measured with g++ 12 on a small module: 50 ms as a plain shared library, 35 ms with `-nostdlib -lgcc` (the linker then
opens no libstdc++); libc and libm are in the process anyway. A module that needs more is linked again in full.
zig builds its C++ library from source (50 s) unless `-nostdlib++` says that it is not needed.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import platform
import shutil
import sys
import tempfile
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from croq_magic import cache
from croq_magic.errors import TargetError

_NAMES = ("g++", "clang++", "c++")
NO_COMPILER = (
    "no C++ compiler was found: install g++ or clang++, name one with the environment variable CXX, "
    "or run `pip install ziglang`"
)


class Compiler(NamedTuple):
    """A C++ compiler: how to start it, its family ("gcc", "clang" or "zig") and the first line of its version."""

    command: tuple[str, ...]
    family: str
    version: str

    def __str__(self) -> str:
        return self.version


class CompilationFailed(Exception):
    """The compiler refused a translation unit; `output` is what it printed."""

    def __init__(self, output: str) -> None:
        super().__init__(output)
        self.output = output


def find() -> Compiler:
    """The compiler to use: `$CXX`, g++, clang++, c++, or zig from the package `ziglang`. TargetError without one."""
    return _find(os.environ.get("CXX") or "", os.environ.get("PATH") or "")


@lru_cache(maxsize=8)
def _find(chosen: str, path: str) -> Compiler:
    if chosen:
        # CXX may carry arguments ("ccache g++"); a path with blanks is taken whole when it exists.
        words = (chosen,) if shutil.which(chosen) else tuple(chosen.split())
        program = shutil.which(words[0]) if words else None
        if program is None:
            raise TargetError(f"the C++ compiler named by CXX was not found: {chosen}")
        return _identify((program, *words[1:]))
    for name in _NAMES:
        if program := shutil.which(name, path=path):
            return _identify((program,))
    if (zig := _zig()) is not None:
        return _identify((zig, "c++"))
    raise TargetError(NO_COMPILER)


def _zig() -> str | None:
    """The zig program in the package `ziglang`: started directly, it saves a Python interpreter's start."""
    spec = importlib.util.find_spec("ziglang")
    for folder in (spec.submodule_search_locations or ()) if spec is not None else ():
        for name in ("zig", "zig.exe"):
            if os.access(path := os.path.join(folder, name), os.X_OK):
                return path
    return None


def _identify(command: tuple[str, ...]) -> Compiler:
    """Family and version, remembered on disk by path, time and size so that a new process starts no subprocess."""
    program = command[0]
    is_zig = command[1:] == ("c++",)
    info = os.stat(program)
    fingerprint = json.dumps([command, os.path.realpath(program), info.st_mtime_ns, info.st_size])
    name = "compiler-" + hashlib.blake2b(fingerprint.encode(), digest_size=12).hexdigest() + ".json"
    remembered = cache.directory() / "toolchain" / name
    try:
        family, version = json.loads(remembered.read_text())
        return Compiler(command, str(family), str(version))
    except (OSError, ValueError):
        pass
    import subprocess  # not at the top: a program that comes from the cache starts none

    query = [*command[:-1], "version"] if is_zig else [*command, "--version"]
    try:
        done = subprocess.run(query, capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise TargetError(f"the C++ compiler {command[0]} does not start: {error}") from error
    text = (done.stdout or done.stderr).strip()
    if done.returncode != 0 or not text:
        raise TargetError(f"the C++ compiler {command[0]} does not answer --version: {text or done.returncode}")
    family = "zig" if is_zig else "clang" if "clang" in text.lower() else "gcc"
    version = f"zig {text}" if is_zig else text.splitlines()[0]
    _write_atomically(remembered, json.dumps([family, version]))
    return Compiler(command, family, version)


def _write_atomically(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(mode=0o700, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=path.parent, delete=False) as file:
            file.write(text)
        os.replace(file.name, path)
    except OSError:
        pass  # not remembering costs the next process one subprocess


def flags(compiler: Compiler, native: bool = True) -> tuple[str, ...]:
    """Compile flags of a module, or (not `native`) of the runtime, which is built once and must be built quickly.

    Contraction is off so that all targets round alike; integers wrap; math functions set no errno. `printf` is
    ours and must not become `puts`. Warnings about generated code help nobody; errors are mapped to the cell.
    """
    # An exception has nowhere to go but to end the process, and on a GPU there are none.
    language = ("-std=c++17", "-fno-exceptions", "-fwrapv", "-ffp-contract=off", "-fno-builtin-printf")
    common = (*language, "-w", "-fPIC", "-fvisibility=hidden")
    if not native:
        own: tuple[str, ...] = ("-O1", "-fno-rtti")
    else:
        arm = platform.machine().lower() in ("arm64", "aarch64")
        own = ("-O3", "-mcpu=native" if arm else "-march=native", "-fno-math-errno", "-fno-trapping-math")
    family = {"gcc": ("-fno-plt", "-pipe"), "clang": ("-fno-plt",)}.get(compiler.family, ())
    return (*common, *own, *family)


def link_flags(compiler: Compiler, full: bool) -> tuple[str, ...]:
    """Link flags: lean (everything else is found in the process) or, for a module that needs it, full."""
    if compiler.family == "zig":
        return ("-shared",) if full else ("-shared", "-nostdlib++")
    if full or sys.platform == "darwin":
        return ("-shared",)
    return ("-shared", "-nostdlib", "-lgcc")


def compile_shared(
    compiler: Compiler,
    source: Path,
    output: Path,
    full: bool = False,
    native: bool = True,
    include: Sequence[Path] = (),
) -> None:
    """Compiles one C++ file to a shared library; `CompilationFailed` carries the compiler's messages."""
    command = [
        *compiler.command,
        *flags(compiler, native),
        *(f"-I{p}" for p in include),
        str(source),
        "-o",
        str(output),
    ]
    command += link_flags(compiler, full)
    environment = dict(os.environ, LC_ALL="C")  # messages are parsed
    import subprocess

    try:
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", env=environment, stdin=subprocess.DEVNULL
        )
    except OSError as error:
        raise TargetError(f"the C++ compiler {compiler.command[0]} does not start: {error}") from error
    if done.returncode != 0:
        raise CompilationFailed(done.stderr or done.stdout or f"exit status {done.returncode}")
    if not output.exists():
        raise TargetError(f"the C++ compiler {compiler.command[0]} reports success and has made nothing; is it one?")


@lru_cache(maxsize=1)
def processor() -> str:
    """What `-march=native` depends on, as text. Home folders are shared between machines, so it is part of the key."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            block = file.read(1 << 16).split("\n\n", 1)[0]
        wanted = ("model name", "flags", "Features", "CPU implementer", "CPU architecture", "CPU part", "CPU variant")
        lines = [line for line in block.splitlines() if line.split("\t")[0].strip() in wanted]
        text = "\n".join(lines)
    except OSError:
        text = platform.processor()
    model = next((line.split(":", 1)[1].strip() for line in text.splitlines() if line.startswith("model name")), "")
    digest = hashlib.blake2b(text.encode(), digest_size=8).hexdigest()
    return f"{platform.machine()} {model or platform.processor()} {digest}".strip()
