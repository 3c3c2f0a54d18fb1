"""Running whole programs: `run_program`, and what the magic runs cells with `main` by."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from croq_magic.compiler import store
from croq_magic.compiler.targets import base as targets
from croq_magic.compiler.whole import early
from croq_magic.compiler.whole.host import flags_of, host_of
from croq_magic.compiler.whole.process import Finished, require_success, run
from croq_magic.errors import CompileError, Interrupted, TargetError

if TYPE_CHECKING:
    from croq_magic.compiler.source import Source
    from croq_magic.compiler.whole.program import WholeProgram
    from croq_magic.program import Defines, Program

__all__ = ["Finished", "begun", "executable", "require_success", "run_program", "run_streamed", "transpiled"]


def run_program(
    source: str | Source,
    target: str = "auto",
    arch: str | None = None,
    defines: Defines | None = None,
    checks: str = "auto",
    args: Sequence[str] = (),
    check: bool = True,
) -> Finished:
    """Builds a whole program, a text with `int main()`, and runs it in a process of its own.

    `args` are its command line; the other parameters are those of `compile`. What it writes goes to Python's
    `sys.stdout` and `sys.stderr` as it comes, and is in the result's `stdout` and `stderr` too; its standard input is
    empty. The result's `returncode` is its exit status.

    Raises `CompileError` if the program is wrong or has no `main`, `TargetError` if it cannot be built, and, with
    `check`, `ProgramError` (a `CheckError`) if it does not end with status 0.
    """
    from croq_magic.program import _macros, _source, compile

    if isinstance(args, (str, bytes)):
        raise TypeError("args must be a sequence of strings, one a word")
    text = _source(source)
    with begun(store.Request(text, target, arch, tuple(sorted(_macros(defines).items())), checks)):
        program = compile(text, target, arch, defines, checks)
        for warning in program.warnings:
            print(warning, file=sys.stderr)
        path = executable(program)
    done = run_streamed(path, [str(word) for word in args])
    if check:
        require_success(done)
    return done


def begun(request: store.Request) -> AbstractContextManager[None]:
    """Inside, the C++ compiler reads the headers of a whole program that was not compiled before, while our own stages
    are at work."""
    from croq_magic.compiler.whole.main import is_whole_program

    if is_whole_program(request.source.text) and store.lookup(request) is None:
        try:
            host = host_of(targets.choose(request.target, request.arch))
            return early.begun(host, flags_of(request.source))
        except TargetError:  # met again, and reported, by those who need the target
            pass
    return nullcontext()


def executable(program: Program) -> Path:
    """The executable of a program, from the build cache if it was built before. Raises as `run_program` does."""
    from croq_magic import cache

    request = program.unit.request
    parts = {
        **request.parts,
        **host_of(program.unit.chosen).identity(),
        "what": "executable of a whole program",
    }
    if request.self_contained and (entry := cache.find(cache.key_of(parts))) is not None:
        built = cache.find(entry.read("key").decode())
        if built is not None and "program" in built.files:
            return built.files["program"]
    from croq_magic.compiler import whole
    from croq_magic.compiler.diagnostics import Diagnostic

    whole_program = transpiled(program)
    if whole_program.main is None:
        place = whole_program.source.whole()
        raise CompileError([Diagnostic("error", "CXX01", NO_MAIN, place, hint="a whole program has `int main()`")])
    path = whole.executable(whole_program)
    if request.self_contained:
        cache.store(parts, {"key": path.parent.name.encode()}, "whole program")
    return path


def transpiled(program: Program) -> WholeProgram:
    """The whole program that a compiled program is part of."""
    from croq_magic.compiler import whole

    unit = program.unit
    return whole.of_unit(unit.full if isinstance(unit, store.StoredUnit) else unit)


_SWITCHES = 2000  # between the streams, before which every piece is shown at once: in a notebook that takes time
NO_MAIN = "the program has no `main`: there is nothing to run"


def run_streamed(program: Path, args: Sequence[str]) -> Finished:
    """Runs an executable; what it writes goes to Python's streams. An interrupt ends it."""
    last, switches = "", 0

    def show(stream: str, text: str) -> None:
        nonlocal last, switches
        if last and stream != last and switches < _SWITCHES:  # what was written first is shown first
            switches += 1
            getattr(sys, last).flush()
        last = stream
        file = getattr(sys, stream)
        file.write(text)
        if switches < _SWITCHES:
            file.flush()

    try:
        return run(program, args, show)
    except KeyboardInterrupt:
        raise Interrupted("the program was interrupted and has ended") from None
