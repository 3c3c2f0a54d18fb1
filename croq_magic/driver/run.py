"""From options to results: which stages run for which input, and where what they make goes."""

from __future__ import annotations

import difflib
import sys

from croq_magic._version import __version__
from croq_magic.compiler.diagnostics import Report
from croq_magic.compiler.source import Source
from croq_magic.compiler.targets import base as targets
from croq_magic.driver import files, options, show
from croq_magic.driver.messages import Messages
from croq_magic.driver.options import COMPILED, LINKED, STANDARD, Options, UsageError
from croq_magic.errors import CompileError


def run(chosen: Options) -> int:
    """Does what a command line asks for; returns 0, or 1 after errors in programs. Raises `CroqError`."""
    if chosen.help:
        print(options.help_text())
        return 0
    if chosen.version:
        print(f"croqtile {__version__}")
        return 0
    if chosen.explain is not None:
        from croq_magic.driver.explain import explain

        print(explain(chosen.explain))
        return 0
    target = _target(chosen)
    if chosen.output is not None:
        files.require_writable(chosen.output, chosen.inputs)
    messages = Messages(chosen)
    if chosen.stage in ("-es", "-gs", *COMPILED) and not chosen.show:
        from croq_magic.driver import build

        build.run(chosen, target, messages)
    else:
        _refuse_objects(chosen)
        for source in files.read_all(chosen.inputs, messages.error):
            _inspect(chosen, target, source, messages)
    messages.total()
    return int(messages.failed)


def _refuse_objects(chosen: Options) -> None:
    for name in chosen.inputs:
        if name.endswith(LINKED):
            raise UsageError(f"{name}: {chosen.stage or '--show'} needs a program, not an input of the linker")


def _target(chosen: Options) -> targets.Target:
    """The target by any of its names. `UsageError` for an unknown word, `TargetError` for what cannot be used here."""
    if chosen.target not in targets.words():
        near = difflib.get_close_matches(chosen.target, targets.words(), n=1)
        more = f"did you mean {near[0]}?" if near else f"there are {', '.join(targets.words())}"
        raise UsageError(f"no target {chosen.target}; {more}")
    target = "cuda" if chosen.emit and chosen.target == "auto" else chosen.target
    if chosen.arch is None:
        chosen.arch = targets.offline_arch(target, None)  # compiling needs no GPU
    found = targets.choose(target, chosen.arch)
    if chosen.emit and found.name != "cuda":
        raise UsageError(f"--emit {chosen.emit} is of the target cuda, not {chosen.target}")
    return found


def _inspect(chosen: Options, target: targets.Target, source: Source, messages: Messages) -> None:
    """The stages that need no target's compiler: `-E`, `-e`, `-i`, `--show`."""
    try:
        report, text = _shown(chosen, target, source)
    except CompileError as error:  # the target cannot express something
        messages.findings(error.diagnostics)
        return
    before = messages.errors
    messages.findings(report)
    if messages.errors == before and text is not None:
        files.write(chosen.output or STANDARD, text.encode())


def _shown(chosen: Options, target: targets.Target, source: Source) -> tuple[Report, str | None]:
    """What one of these options prints, None where there are errors or pictures were written."""
    if chosen.stage in ("-E", "-e"):
        return _preprocessed(chosen, target, source)
    from croq_magic.compiler import pipeline, store

    front = pipeline.front_end(source, target.limits, chosen.defines, chosen.checks, chosen.include, cell=False)
    sys.stderr.write(front.printed)
    if front.report.has_errors:
        return front.report, None
    if chosen.emit:
        request = store.Request(source, target.name, chosen.arch, tuple(sorted(chosen.defines.items())), chosen.checks)
        text = pipeline.CompiledUnit(front, target, chosen.checks, request).source()
        if chosen.emit != "cuda":
            text = target.shown(text, chosen.emit, front.unit)  # type: ignore[attr-defined]
        return front.report, text
    if chosen.stage:
        from croq_magic.compiler import types_text

        text = types_text.text(front.trees, front.functions, front.symbols, chosen.stage == "-ii")
        return front.report, text + "\n" if text else ""
    request = store.Request(source, target.name, chosen.arch, tuple(sorted(chosen.defines.items())), chosen.checks)
    functions = list(pipeline.CompiledUnit(front, target, chosen.checks, request).functions.values())
    if show.is_picture(chosen.output):
        assert chosen.output is not None
        show.pictures(functions, chosen.show, chosen.sizes, chosen.output)
        return front.report, None
    return front.report, show.text(functions, chosen.show, chosen.sizes) if functions else ""


def _preprocessed(chosen: Options, target: targets.Target, source: Source) -> tuple[Report, str | None]:
    from croq_magic.compiler import preprocessed_text, syntax_text
    from croq_magic.compiler.parse import parse
    from croq_magic.compiler.preprocess import preprocess
    from croq_magic.compiler.split import split

    report = Report()
    unit = split(source, report)
    preprocessed = preprocess(unit, chosen.defines, report, target.limits, chosen.include)
    if chosen.stage == "-E":
        return report, preprocessed_text.text(unit, preprocessed)
    trees = [parse(tokens, report) for tokens in preprocessed.functions]
    return report, "".join(syntax_text.dump(tree) + "\n" for tree in trees if tree is not None)
