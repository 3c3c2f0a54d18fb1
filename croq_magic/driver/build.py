"""The stages that make something of a whole program: target source, script, assembly, object, library, executable."""

from __future__ import annotations

import dataclasses
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from croq_magic._version import __version__
from croq_magic.compiler.diagnostics import Diagnostic, Note
from croq_magic.compiler.source import Source
from croq_magic.compiler.targets import base as targets
from croq_magic.compiler.whole import WholeProgram, build, early, executable, link, transpile
from croq_magic.compiler.whole.host import Kind, flags_of, has_hosts, host_of
from croq_magic.driver import files, remembered, script
from croq_magic.driver.comments import without_comments
from croq_magic.driver.messages import Messages
from croq_magic.driver.options import LINKED, STANDARD, Options, UsageError
from croq_magic.errors import CompileError, CroqError, TargetError

DEFAULT_PROGRAM = "a.out"
OBJECTS = (".o", ".obj", ".lo")
MADE_FOR: dict[str, Kind] = {"-c": "object", "-S": "assembly"}


@dataclasses.dataclass(frozen=True)
class Input:
    """One input: a program, or a file that only the linker reads."""

    name: str
    program: WholeProgram | None = None


def run(chosen: Options, target: targets.Target, messages: Messages) -> None:
    """Does what `chosen.stage` asks for. Findings go to `messages`; where there are errors nothing is written."""
    alone = _is_alone(chosen, target)
    if alone and (path := remembered.find(chosen, target)) is not None:
        output = chosen.output or DEFAULT_PROGRAM
        files.require_writable(output, chosen.inputs)
        files.write(output, path.read_bytes(), executable=True)
        return
    with _begun(chosen, target) if alone else nullcontext():
        _run(chosen, target, messages)


def _is_alone(chosen: Options, target: targets.Target) -> bool:
    """Whether one program becomes an executable by itself."""
    alone = chosen.stage == "" and len(chosen.inputs) == 1 and not chosen.link and not chosen.verbose
    return alone and has_hosts(target) and not chosen.inputs[0].endswith(LINKED)


def _begun(chosen: Options, target: targets.Target) -> AbstractContextManager[None]:
    """A single program's compiler reads its headers while the program is transpiled."""
    if chosen.debug:
        return nullcontext()
    name = "<stdin>" if chosen.inputs[0] == STANDARD else chosen.inputs[0]
    return early.begun(host_of(target), flags_of(Source("", name), chosen.include, _flags(chosen)))


def _run(chosen: Options, target: targets.Target, messages: Messages) -> None:
    if chosen.stage == "-es" and not has_hosts(target):
        _kernels(chosen, target, messages)
        return
    inputs = _inputs(chosen, target, messages)
    if messages.failed:
        return
    programs = [each.program for each in inputs if each.program is not None]
    if chosen.stage in ("", "-gs"):
        _require_one_main(chosen, inputs, messages)
        if messages.failed:
            return
    if chosen.stage == "-es":
        for program in programs:
            _source(chosen, program)
    elif chosen.stage == "-gs":
        text = _script(chosen, programs)
        files.write(chosen.output or STANDARD, text.encode(), executable=True)
    elif chosen.stage in MADE_FOR:
        _each(chosen, inputs, messages)
    elif chosen.stage == "--lib":
        _library(chosen, inputs, messages)
    else:
        _executable(chosen, target, inputs, messages)


def _source(chosen: Options, program: WholeProgram) -> None:
    """`-es`: the program's file. A target whose device has a file of its own (OpenCL) gets that too, beside it; the
    host's holds it as a string, so that standard output has all there is."""
    output = chosen.output or STANDARD
    device = program.code.device if program.code.source is None else ""
    if not device or output == STANDARD or not (Path(output).is_file() or not Path(output).exists()):
        files.write(output, program.text.encode())
        return
    if not Path(output).suffix:
        output += program.suffix
    beside = str(Path(output).with_suffix(program.code.device_suffix))
    for name in (output, beside):
        files.require_writable(name, chosen.inputs)
    files.write(output, program.text.encode())
    files.write(beside, device.encode())


def _kernels(chosen: Options, target: targets.Target, messages: Messages) -> None:
    """`-es` for a target without hosts: the device's source, which a notebook would launch."""
    from croq_magic.compiler import pipeline, store

    texts = []
    for source in files.read_all(chosen.inputs, messages.error):
        front = pipeline.front_end(source, target.limits, chosen.defines, chosen.checks, chosen.include, cell=False)
        sys.stderr.write(front.printed)
        messages.findings(front.report)
        if messages.failed:
            continue
        request = store.Request(source, target.name, chosen.arch, tuple(sorted(chosen.defines.items())), chosen.checks)
        try:
            texts.append(pipeline.CompiledUnit(front, target, chosen.checks, request).source())
        except CompileError as error:
            messages.findings(error.diagnostics)
    if not messages.failed:
        files.write(chosen.output or STANDARD, "".join(texts).encode())


def _inputs(chosen: Options, target: targets.Target, messages: Messages) -> list[Input]:
    found = []
    for name in chosen.inputs:
        if name.endswith(LINKED):
            if chosen.stage not in ("", "--lib"):
                raise UsageError(f"{name}: {chosen.stage} needs a program, not an input of the linker")
            if chosen.stage == "--lib" and not name.endswith(OBJECTS):
                raise UsageError(f"{name}: a library is made of programs and objects, not of libraries")
            if not Path(name).is_file():
                messages.error(f"{name}: no such file")
            found.append(Input(name))
            continue
        try:
            source = files.read(name)
        except files.FileError as error:
            messages.error(str(error))
            continue
        program = _transpiled(chosen, target, source, messages)
        if program is not None:
            found.append(Input(name, program))
    return found


def _transpiled(chosen: Options, target: targets.Target, source: Source, messages: Messages) -> WholeProgram | None:
    if chosen.no_comments:
        source = without_comments(source)
    try:
        program = transpile(source, chosen.target, chosen.arch, chosen.defines, chosen.include, chosen.checks)
    except CompileError as error:
        messages.findings(error.diagnostics)
        return None
    messages.findings(program.diagnostics)
    sys.stderr.write(program.printed)
    return dataclasses.replace(program, extra_flags=tuple(_flags(chosen)))


def _require_one_main(chosen: Options, inputs: list[Input], messages: Messages) -> None:
    """What the linker would say about `main`, in words; with inputs that only the linker knows it has the last word."""
    mains = [(each.name, each.program.main) for each in inputs if each.program is not None and each.program.main]
    if not mains and all(each.program is not None for each in inputs) and not chosen.link:
        names = ", ".join(chosen.inputs)
        messages.error(
            f"no main: {names} can be compiled with -c, -es or --lib, but is no program without `int main()`"
        )
    first = mains[0][1] if mains else None
    for name, place in mains[1:]:
        assert place is not None
        notes = (Note(f"the one of {mains[0][0]}", first),)
        messages.finding(Diagnostic("error", "CXX01", f"a second `main`, in {name}", place, notes))


# ---------------------------------------------------------------------------------------------------- what is written


def _flags(chosen: Options) -> list[str]:
    """What the C++ compiler gets besides the program's own flags; `-D` is among those."""
    return [*(flag for flag in chosen.macro_flags if flag.startswith("-U")), *chosen.passed]


def _script(chosen: Options, programs: list[WholeProgram]) -> str:
    include = [Path(os.path.abspath(folder)) for folder in chosen.include]
    texts: dict[Path, str] = {}
    places = []
    for program in programs:
        name = program.source.name
        origin = Path(os.path.abspath("stdin.co" if name.startswith("<") else name))
        text = program.text
        if text.startswith("// Compile with:"):
            text = text.partition("\n")[2]
        place = origin.with_name(origin.name + program.suffix)
        try:
            texts |= script.headers(program.source.text, origin, include)
        except (OSError, UnicodeDecodeError) as error:
            raise files.FileError(f"{name}: a header cannot be read: {files.reason(error)}") from None
        texts[place] = text
        places.append(place)
    root = script.common_folder([*texts, *(folder / "x" for folder in include)])
    relative = {path: path.relative_to(root).as_posix() for path in (*texts, *include)}
    found = []
    for program, place in zip(programs, places, strict=True):
        found.append((_building(program, chosen.debug), place))
    compiler = len(_compiler(found[0][0]))
    shared = [word for word in found[0][0][compiler:] if word not in ("SOURCE", "OUTPUT", "-o")]
    step = [
        *shared,
        *(f"-I{script.source(relative[folder])}" for folder in include),
        *_flags(chosen),
        *(script.source(relative[place]) for _, place in found),
        "-o",
        script.OUTPUT,
        *chosen.link,
    ]
    tool = script.NVCC if programs[0].suffix == ".cu" else script.CXX
    sources = {relative[path]: text for path, text in texts.items()}
    name = chosen.inputs[0] if chosen.inputs[0] != STANDARD else "stdin"
    return script.write(name, programs[0].target, __version__, sources, [step], tool)


def _building(program: WholeProgram, debug: bool) -> list[str]:
    """The command line that builds a program's text."""
    if program.code.source is None:
        return program.host.compile_command("SOURCE", "OUTPUT", "executable", debug=debug)
    return [*program.host.source_command("SOURCE", "OUTPUT"), *(["-g"] if debug else [])]


def _compiler(command: list[str]) -> list[str]:
    """The words of a command line that name the compiler (`ccache g++`, `zig c++`)."""
    return command[: next(at for at, word in enumerate(command) if at and (word.startswith("-") or word == "SOURCE"))]


# -------------------------------------------------------------------------------------------------------- compilation


def _each(chosen: Options, inputs: list[Input], messages: Messages) -> None:
    """`-c` and `-S`: one output for each input."""
    outputs = _outputs(chosen)
    with tempfile.TemporaryDirectory(prefix="croqtile-") as folder:
        made = _compile_all(chosen, inputs, Path(folder), MADE_FOR[chosen.stage], messages)
        for each, path in zip(inputs, made, strict=True):
            if path is not None:
                files.write(outputs[each.name], path.read_bytes())


def _outputs(chosen: Options) -> dict[str, str]:
    """The output of every input. `UsageError` where two would be one file, `FileError` where one would be an input."""
    suffix = {"-c": ".o", "-S": ".s"}[chosen.stage]
    outputs: dict[str, str] = {}
    for name in chosen.inputs:
        output = chosen.output or ("stdin" if name == STANDARD else Path(name).stem) + suffix
        if output in outputs.values():
            other = next(each for each, made in outputs.items() if made == output)
            raise UsageError(f"{other} and {name} would both become {output}; compile them one by one with -o")
        files.require_writable(output, chosen.inputs)
        outputs[name] = output
    return outputs


def _compile_all(
    chosen: Options, inputs: list[Input], folder: Path, kind: Kind, messages: Messages
) -> list[Path | None]:
    """Compiles every program, up to `-j` at a time; inputs of the linker stay as they are, None where it failed."""

    def compile_one(index: int) -> Path | CroqError:
        each = inputs[index]
        if each.program is None:
            return Path(each.name)
        output = folder / f"{index}-{Path(each.name).stem}.{'s' if kind == 'assembly' else 'o'}"
        program = each.program
        if chosen.stage == "--lib" and program.main is not None:
            # The library's user has a `main` of its own; this one gets a name that nobody calls.
            renamed = (*program.extra_flags, f"-Dmain=croqtile_main_of_input_{index}", "-Wno-return-type")
            program = dataclasses.replace(program, extra_flags=renamed)
        try:
            # What was built before comes from the cache, unless headers decide that may have changed since.
            if kind == "executable" and not chosen.verbose and not chosen.include:
                return executable(program, chosen.debug)
            build(program, output, kind, chosen.debug, chosen.verbose)
        except (CompileError, TargetError) as error:
            return error
        return output

    if min(chosen.jobs, len(inputs)) < 2:  # an interrupt ends the compiler at once
        results = [compile_one(index) for index in range(len(inputs))]
    else:
        with ThreadPoolExecutor(max_workers=chosen.jobs) as pool:
            results = list(pool.map(compile_one, range(len(inputs))))
    made: list[Path | None] = []
    for result in results:
        if isinstance(result, CompileError):
            messages.findings(result.diagnostics)
        elif isinstance(result, CroqError):
            messages.error(str(result))
        made.append(None if isinstance(result, CroqError) else result)
    return made


def _library(chosen: Options, inputs: list[Input], messages: Messages) -> None:
    archiver = shutil.which("ar") or shutil.which("llvm-ar")
    if archiver is None:
        raise TargetError("--lib needs the program `ar`, which was not found")
    output = chosen.output or f"lib{Path(inputs[0].name).stem}.a"
    files.require_writable(output, chosen.inputs)
    with tempfile.TemporaryDirectory(prefix="croqtile-") as folder:
        made = _compile_all(chosen, inputs, Path(folder), "object", messages)
        if messages.failed:
            return
        result = Path(folder, "result.a")
        command = [archiver, "rcs", str(result), *map(str, made)]
        _say_command(chosen, command)
        done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL)
        if done.returncode != 0:
            raise TargetError(f"`ar` fails: {done.stderr.strip() or done.returncode}")
        files.write(output, result.read_bytes())


def _executable(chosen: Options, target: targets.Target, inputs: list[Input], messages: Messages) -> None:
    output = chosen.output or DEFAULT_PROGRAM
    files.require_writable(output, chosen.inputs)
    with tempfile.TemporaryDirectory(prefix="croqtile-") as folder:
        result = Path(folder, "program")
        first = inputs[0].program
        if len(inputs) == 1 and first is not None and not chosen.link:
            made = _compile_all(chosen, inputs, Path(folder), "executable", messages)
            result = made[0] or result
            if _is_alone(chosen, target) and made[0] is not None and not messages.found and not first.printed:
                remembered.remember(chosen, target, first.source, result)
        else:
            made = _compile_all(chosen, inputs, Path(folder), "object", messages)
            if messages.failed:
                return
            objects = [path for path in made if path is not None]
            link([*objects, *map(Path, chosen.link)], result, chosen.target, chosen.arch)
        if not messages.failed:
            files.write(output, result.read_bytes(), executable=True)


def _say_command(chosen: Options, command: list[str]) -> None:
    """`-v`: what is run."""
    if chosen.verbose:
        sys.stderr.write(shlex.join(command) + "\n")
