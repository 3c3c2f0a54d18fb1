"""The options of `croqtile`: one table that parses them and is their help text.

They follow the habits of C++ compilers: a value may be joined (`-Iinclude`, `-DN=4`, `-oout`) or the next word
(`-I include`), long names take `=` too (`--target=cpu`), options and files come in any order, `--` ends options.
"""

from __future__ import annotations

import dataclasses
import difflib
import re
import textwrap
from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

from croq_magic.errors import CroqError

STANDARD = "-"  # standard input as a file, standard output as an output
CHECK_LEVELS = ("none", "entry", "low", "medium", "high", "all")
CUDA_KINDS = ("cuda", "ptx", "sass")
SHOW_KINDS = ("launches", "mapping", "tiling", "ir", "target-ir")
DEFAULT_SHOW = ("launches", "tiling")


class UsageError(CroqError):
    """The command line is wrong: exit status 2."""


class Option(NamedTuple):
    """One option. `metavar` is "" for a flag; `joined` says that its value may follow without a blank."""

    flags: tuple[str, ...]
    field: str
    metavar: str
    help: str
    group: str
    joined: bool = False
    constant: str = ""  # the value of a flag that stands for one


@dataclasses.dataclass
class Options:
    """What a command line says. `stage` is how far to go: "" is an executable."""

    inputs: list[str] = dataclasses.field(default_factory=list)
    stage: str = ""
    emit: str = ""
    output: str | None = None
    target: str = "auto"
    arch: str | None = None
    checks: str = "entry"
    jobs: int = 1
    defines: dict[str, str] = dataclasses.field(default_factory=dict)
    macro_flags: list[str] = dataclasses.field(default_factory=list)  # -D and -U for the C++ compiler, in order
    include: list[str] = dataclasses.field(default_factory=list)
    link: list[str] = dataclasses.field(default_factory=list)  # -l and -L, in order
    passed: list[str] = dataclasses.field(default_factory=list)  # -Xcompiler
    show: tuple[str, ...] = ()
    sizes: dict[str, int] = dataclasses.field(default_factory=dict)
    debug: bool = False
    verbose: bool = False
    no_warnings: bool = False
    werror: bool = False
    no_comments: bool = False
    conformance: bool = False
    explain: str | None = None
    help: bool = False
    version: bool = False


_STAGES, _CODE, _SAY, _REST = "How far to go", "How to compile", "What to say", "Other"

OPTIONS = (
    Option(("-E",), "stage", "", "preprocess only: macros and conditions of tileflow functions", _STAGES, False, "-E"),
    Option(("-e",), "stage", "", "print the syntax tree", _STAGES, False, "-e"),
    Option(("-i",), "stage", "", "print the inferred type of every name", _STAGES, False, "-i"),
    Option(("-ii",), "stage", "", "the same with strides and storage", _STAGES, False, "-ii"),
    Option(("-es",), "stage", "", "emit the target's source", _STAGES, False, "-es"),
    Option(
        ("-gs",), "stage", "", "emit a self-contained shell script that builds and, with --execute, runs the program",
        _STAGES, False, "-gs",
    ),
    Option(("--emit",), "emit", "FORM", "print the device's part as cuda, ptx or sass; no GPU is needed", _STAGES),
    Option(("-S",), "stage", "", "compile to assembly", _STAGES, False, "-S"),
    Option(("-c",), "stage", "", "compile to an object", _STAGES, False, "-c"),
    Option(("--lib",), "stage", "", "all inputs into one static library, without any `main`", _STAGES, False, "--lib"),
    Option(
        ("--show",), "show", "[KINDS]",
        "print how functions are cut up: launches,tiling (default), mapping, ir, target-ir; -o FILE.svg draws", _STAGES,
    ),
    Option(("--sizes",), "sizes", "NAME=N,...", "values of symbolic dimensions for --show", _STAGES),
    Option(("-o",), "output", "FILE", "where the result goes; - is standard output", _STAGES, True),
    Option(("-t", "--target"), "target", "TARGET", "cpu (alias cc), cuda (cute, gpu), opencl, auto (default)", _CODE),
    Option(("-arch", "--arch"), "arch", "ARCH", "architecture of the target: native, sm_80, sm_90a, ...", _CODE),
    Option(("-D",), "define", "NAME[=VALUE]", "define a macro, for C++ text too; without a value it is 1", _CODE, True),
    Option(("-U",), "undefine", "NAME", "undefine a macro", _CODE, True),
    Option(("-I",), "include", "DIR", "where #include looks", _CODE, True),
    Option(
        ("-rtc", "--runtime-check"), "checks", "LEVEL",
        f"checks while running: {', '.join(CHECK_LEVELS)}; each has the ones before it (default entry)", _CODE,
    ),
    Option(("--disable-runtime-check",), "checks", "", "no checks while running", _CODE, False, "none"),
    Option(("--conformance",), "conformance", "", "targets agree bit for bit: no contraction", _CODE),
    Option(("-g",), "debug", "", "debug information with the lines of the program", _CODE),
    Option(("-l",), "library", "NAME", "link with a library", _CODE, True),
    Option(("-L",), "library_dir", "DIR", "where -l looks", _CODE, True),
    Option(("-Xcompiler",), "passed", "OPTION", "an option for the target's own C++ compiler", _CODE),
    Option(("-n",), "no_comments", "", "drop the comments of host text from what is emitted", _CODE),
    Option(("-j", "--jobs"), "jobs", "N", "compile up to N files at a time", _CODE, True),
    Option(("-w",), "no_warnings", "", "no warnings", _SAY),
    Option(("-Werror",), "werror", "", "warnings are errors", _SAY),
    Option(("-v", "--verbose"), "verbose", "", "show the programs that are run", _SAY),
    Option(("--explain",), "explain", "CODE", "what a diagnostic means, with an example", _SAY),
    Option(("--version",), "version", "", "the version", _SAY),
    Option(("-h", "--help"), "help", "", "this text", _SAY),
)  # fmt: skip

_BY_FLAG = {flag: option for option in OPTIONS for flag in option.flags}
_JOINED = {flag: option for flag, option in _BY_FLAG.items() if option.joined and len(flag) == 2}
_NAME = re.compile(r"[A-Za-z_]\w*")
_COMMANDS = ("doctor",)
COMPILED = ("", "-c", "-S", "--lib")  # stages that run the target's compiler
JOINED = ("", "--lib", "-gs")  # stages that make one thing of all inputs
LINKED = (".o", ".a", ".so", ".obj", ".lo")  # inputs of the linker


def parse(words: Sequence[str]) -> Options:
    """The options of a command line. Raises `UsageError`."""
    options = Options()
    rest = deque(words)
    while rest:
        word = rest.popleft()
        if word == "--":
            options.inputs += rest
            break
        if word == STANDARD or not word.startswith("-"):
            options.inputs.append(word)
            continue
        option, value = _match(word, rest)
        if option.field == "show" and value is None and rest and _lists_kinds(rest[0]):
            value = rest.popleft()
        _set(options, option, value)
    if not (options.help or options.version or options.explain is not None):
        _agree(options)
    return options


def _match(word: str, rest: deque[str]) -> tuple[Option, str | None]:
    """The option that a word is, and its value: joined, after `=`, or the next word."""
    option = _BY_FLAG.get(word)
    if option is not None:
        if not option.metavar or option.field == "show":
            return option, None
        if not rest:
            raise UsageError(f"{word} needs a value: {word} {option.metavar}")
        return option, rest.popleft()
    name, equals, value = word.partition("=")
    option = _BY_FLAG.get(name)
    if equals and option is not None and not option.joined:
        if not option.metavar:
            raise UsageError(f"{name} takes no value")
        return option, value
    option = _JOINED.get(word[:2])
    if option is not None and not (option.field == "jobs" and not word[2:].isdigit()):
        return option, word[2:]
    if equals and (option := _BY_FLAG.get(name)) is not None:
        return option, value
    raise UsageError(f"unknown option {word}{_nearest(name)}")


def _nearest(name: str) -> str:
    near = difflib.get_close_matches(name, _BY_FLAG, n=1, cutoff=0.6)
    if not near and name.startswith("-"):  # one dash too many or too few
        bare = name.lstrip("-")
        near = [flag for flag in _BY_FLAG if flag.lstrip("-") == bare]
    return f" (did you mean {near[0]}?)" if near else " (croqtile -h lists them)"


def _lists_kinds(word: str) -> bool:
    """Whether the word after a bare `--show` belongs to it."""
    return word != "" and all(kind in SHOW_KINDS for kind in word.split(","))


def _set(options: Options, option: Option, value: str | None) -> None:
    text = value or ""
    match option.field:
        case "stage":
            if options.stage and options.stage != option.constant:
                raise UsageError(f"{options.stage} and {option.constant} exclude each other")
            options.stage = option.constant
        case "show":
            options.show = _kinds(text) if value is not None else DEFAULT_SHOW
        case "emit":
            if text not in CUDA_KINDS:
                raise UsageError(f"--emit: no form {text!r}; there are {', '.join(CUDA_KINDS)}")
            if options.stage or options.emit:
                raise UsageError(f"{options.stage or '--emit'} and --emit exclude each other")
            options.emit, options.stage = text, "--emit"
        case "sizes":
            options.sizes |= _sizes(text)
        case "define":
            name, equals, body = text.partition("=")
            _require_name(name, option)
            options.defines[name] = body if equals else "1"
            options.macro_flags.append(f"-D{text}")
        case "undefine":
            _require_name(text, option)
            options.defines.pop(text, None)
            options.macro_flags.append(f"-U{text}")
        case "include":
            options.include.append(_filled(text, option))
        case "library" | "library_dir":
            options.link.append(option.flags[0] + _filled(text, option))
        case "passed":
            options.passed.append(text)
        case "checks":
            level = option.constant or text
            if level not in CHECK_LEVELS:
                raise UsageError(f"{option.flags[-1]}: no level {level!r}; there are {', '.join(CHECK_LEVELS)}")
            options.checks = level
        case "jobs":
            if not text.isdigit() or int(text) < 1:
                raise UsageError(f"-j needs a number of at least 1, not {text!r}")
            options.jobs = int(text)
        case "output":
            if options.output is not None and options.output != text:
                raise UsageError(f"two outputs: {options.output} and {text}")
            options.output = _filled(text, option)
        case "target" | "arch" | "explain":
            setattr(options, option.field, _filled(text, option))
        case _:
            setattr(options, option.field, True)


def _filled(text: str, option: Option) -> str:
    if not text:
        raise UsageError(f"{option.flags[0]} needs a value: {option.flags[0]} {option.metavar}")
    return text


def _require_name(name: str, option: Option) -> None:
    if not _NAME.fullmatch(name):
        raise UsageError(f"{option.flags[0]}: {name!r} is not the name of a macro")


def _kinds(text: str) -> tuple[str, ...]:
    kinds = tuple(kind.strip() for kind in text.split(",") if kind.strip())
    for kind in kinds:
        if kind not in SHOW_KINDS:
            near = difflib.get_close_matches(kind, SHOW_KINDS, n=1)
            more = f"did you mean {near[0]}?" if near else f"there are {', '.join(SHOW_KINDS)}"
            raise UsageError(f"--show: no kind {kind!r}; {more}")
    return kinds or DEFAULT_SHOW


def _sizes(text: str) -> dict[str, int]:
    found = {}
    for item in text.split(","):
        match = re.fullmatch(r"\s*([A-Za-z_]\w*)\s*=\s*(-?\d+)\s*", item)
        if match is None:
            raise UsageError(f"--sizes: {item!r} is not of the form NAME=N")
        found[match[1]] = int(match[2])
    return found


def _agree(options: Options) -> None:
    """What no single option can know."""
    if not options.inputs:
        raise UsageError("no input file (croqtile -h explains the options)")
    if options.show and options.stage:
        raise UsageError(f"--show and {options.stage} exclude each other")
    if options.inputs.count(STANDARD) > 1:
        raise UsageError("standard input can be read only once")
    many = len(options.inputs) > 1
    if many and options.output is not None and (options.show or options.stage not in JOINED):
        raise UsageError(f"-o names one file, but {options.stage or '--show'} makes one for each of the inputs")
    if options.output == STANDARD and options.stage in ("--lib", "") and not options.show:
        what = "a library" if options.stage else "an executable"
        raise UsageError(f"{what} cannot go to standard output; -o needs the name of a file")
    repeated = next((name for name in options.inputs if options.inputs.count(name) > 1), None)
    if repeated is not None and not options.show and options.stage in COMPILED:
        raise UsageError(f"{repeated} is given twice")


def help_text() -> str:
    """What `-h` prints."""
    lines = [
        "usage: croqtile [options] FILE.co ...",
        "       croqtile doctor",
        "",
        "Compiles Croqtile programs: files of host C++, device code and tileflow (__co__) functions.",
        "FILE may be - for standard input; objects and libraries (.o, .a, .so) go to the linker.",
        "Without an option that stops earlier, one executable is made (a.out, or -o FILE).",
    ]
    for group in (_STAGES, _CODE, _SAY):
        lines += ["", f"{group}:"]
        for option in OPTIONS:
            if option.group == group:
                lines += _entry(option)
    lines += [
        "",
        "Exit status: 0 success, 1 errors in the program, 2 a wrong command line, 3 a fault of the compiler itself.",
        "Environment: CXX and NVCC name the target's compiler, CHOREO_VERBOSE=1 is -v.",
    ]
    return "\n".join(lines)


def _entry(option: Option) -> list[str]:
    names = ", ".join(option.flags) + (f" {option.metavar}" if option.metavar else "")
    body = textwrap.wrap(option.help, 76)
    if len(names) <= 30:
        first = [f"  {names:32}{body[0]}"]
    else:
        first = [f"  {names}", " " * 34 + body[0]]
    return first + [" " * 34 + line for line in body[1:]]
