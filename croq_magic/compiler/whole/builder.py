"""From a transpiled program to an executable, an object or assembly."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path

from croq_magic import cache
from croq_magic.compiler import store
from croq_magic.compiler.bundled import INCLUDE
from croq_magic.compiler.targets import base as targets
from croq_magic.compiler.whole import complaints, early
from croq_magic.compiler.whole.bundled_text import flatten
from croq_magic.compiler.whole.host import Kind, host_of
from croq_magic.compiler.whole.program import WholeProgram
from croq_magic.errors import CompileError, TargetError


def build(
    program: WholeProgram,
    output: Path,
    kind: Kind = "executable",
    debug: bool = False,
    verbose: bool = False,
) -> None:
    """Compiles a program to a file. Objects and assembly need nothing of croq_magic to be linked and run.

    Raises `CompileError` when the compiler refuses the program's own text, `TargetError` without a compiler, for a
    fault in generated code, and if the file cannot be written. Nothing is left behind then. `verbose` prints the
    command lines that are run on standard error.
    """
    with tempfile.TemporaryDirectory(prefix="croq_magic-") as folder:
        made = Path(folder, "program" + {"executable": "", "object": ".o", "assembly": ".s"}[kind])
        if kind == "executable":
            _executable(program, Path(folder), made, debug, verbose)
        else:
            source = Path(folder, "program.cpp")
            source.write_text(program.portable, encoding="utf-8", newline="")
            _compile(program, program.command(str(source), str(made), kind, debug), verbose)
            if kind == "object":
                _with_kernels(program, made, Path(folder), verbose)
        _place(made, output)


def executable(program: WholeProgram, debug: bool = False) -> Path:
    """An executable in the build cache, built if it is not there. Raises as `build` does."""
    parts = {
        "source": program.compact,
        "headers": "".join(flatten(program.code.headers)),
        "flags": repr(program.flags),
        "debug": str(debug),
        **program.host.identity(),
    }
    label = "whole program"
    entry = cache.lookup(parts, label) if store.self_contained(program.source) else None
    if entry is None:
        with tempfile.TemporaryDirectory(prefix="croq_magic-") as folder:
            made = Path(folder, "program")
            _executable(program, Path(folder), made, debug, False)
            if not store.self_contained(program.source):  # the same text may become another program
                parts["built"] = hashlib.blake2b(made.read_bytes()).hexdigest()
            entry = cache.store(parts, {"program": made}, label)
    path = entry.files["program"]
    path.chmod(0o700)
    return path


def link(objects: Sequence[Path], output: Path, target: str = "auto", arch: str | None = None) -> None:
    """Links objects made by `build`. Raises `CompileError` with the linker's complaint, `TargetError` otherwise."""
    host = host_of(targets.choose(target, arch))
    with tempfile.TemporaryDirectory(prefix="croq_magic-") as folder:
        made = Path(folder, "program")
        done = run_tool(host.link_command([str(o) for o in objects], str(made)), False)
        if done.returncode != 0:
            raise TargetError(complaints.of_linker(done.stderr))
        _place(made, output)


def _with_kernels(program: WholeProgram, made: Path, folder: Path, verbose: bool) -> None:
    """Joins an object with those that hold its kernels."""
    kernels = program.host.device_objects(program, folder)
    if not kernels:
        return
    host = folder / "host.o"
    made.rename(host)
    command = [*program.host.link_command([], str(made))[:1], "-r", "-nostdlib", str(host), *map(str, kernels)]
    done = run_tool([*command, "-o", str(made)], verbose)
    if done.returncode != 0:
        raise TargetError(f"the objects of host and kernels cannot be joined: {done.stderr}")


def _executable(program: WholeProgram, folder: Path, output: Path, debug: bool, verbose: bool) -> None:
    """Compiles the program and, beside it, the runtime, if that was not done before; then links."""
    source, made = folder / "compact.cpp", folder / "compact.o"
    runtime = _Runtime(program, folder)
    runtime.start()
    started = None if debug or verbose else early.take(program.flags)
    try:
        first = f'#include "{started.header}"\n' if started is not None else ""
        if started is not None and program.compact.startswith(first):  # no macro stands before it
            rest = program.compact.removeprefix(first)
            _require(program, started.finish(rest))
            made = started.output
        else:
            source.write_text(program.compact, encoding="utf-8", newline="")
            command = program.command(str(source), str(made), "object", debug)
            _compile(program, [*command, f"-I{INCLUDE}"], verbose)
        objects = [str(made), *map(str, runtime.objects())]
        done = run_tool(program.host.link_command(objects, str(output)), verbose)
    except KeyboardInterrupt:
        runtime.join(0.5)  # its compiler was interrupted too, and leaves files that it removes
        raise
    finally:
        if started is not None:
            started.close()
    if done.returncode != 0:
        raise complaints.error_of_linker(program, done.stderr)


class _Runtime(threading.Thread):
    """Gets the objects of the runtime and of the kernels while something else is compiled."""

    def __init__(self, program: WholeProgram, folder: Path) -> None:
        super().__init__(name="croq-runtime", daemon=True)
        self._program = program
        self._folder = folder
        self._found: Sequence[Path] = ()
        self._error: Exception | None = None

    def run(self) -> None:
        try:
            kernels = self._program.host.device_objects(self._program, self._folder)
            self._found = [*kernels, *self._program.host.runtime_objects()]
        except Exception as error:
            self._error = error

    def objects(self) -> Sequence[Path]:
        self.join()
        if self._error is not None:
            raise self._error
        return self._found


def _compile(program: WholeProgram, command: Sequence[str], verbose: bool) -> None:
    _require(program, run_tool(command, verbose))


def _require(program: WholeProgram, done: subprocess.CompletedProcess[str]) -> None:
    """Raises the error for a compilation that failed."""
    if done.returncode == 0:
        return
    found = complaints.diagnostics(program, done.stderr or done.stdout)
    if found:
        raise CompileError(found)
    text = done.stderr or done.stdout or f"exit status {done.returncode}"
    raise TargetError(f"the C++ compiler refuses generated code, please report this:\n{text}")


def run_tool(command: Sequence[str], verbose: bool) -> subprocess.CompletedProcess[str]:
    """Runs a compiler or linker."""
    import shlex
    import sys

    if verbose:
        print(shlex.join(command), file=sys.stderr)
    environment = dict(os.environ, LC_ALL="C")  # messages are parsed
    try:
        return subprocess.run(
            command, capture_output=True, text=True, errors="replace", env=environment, stdin=subprocess.DEVNULL
        )
    except OSError as error:
        raise TargetError(f"the compiler {command[0]} does not start: {error}") from error


def _place(made: Path, output: Path) -> None:
    """Moves a finished file to where it was wanted, in one step."""
    handle = None
    try:
        folder = output.parent if str(output.parent) else Path(".")
        handle, name = tempfile.mkstemp(prefix=f".{output.name}.", dir=folder)
        os.close(handle)
        shutil.copyfile(made, name)
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(name, (made.stat().st_mode & 0o111 | 0o666) & ~mask)
        os.replace(name, output)
    except OSError as error:
        if handle is not None:
            with __import__("contextlib").suppress(OSError):
                os.unlink(name)
        raise TargetError(f"{output}: cannot be written: {error.strerror or error}") from None
