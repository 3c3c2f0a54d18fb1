"""Transpilation: a program's text with C++ in the place of its tileflow functions."""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from croq_magic.compiler import describe, recursion
from croq_magic.compiler.diagnostics import Diagnostic
from croq_magic.compiler.passes.base import Context, run_passes
from croq_magic.compiler.pipeline import front_end, optimising_passes
from croq_magic.compiler.signature import Signature
from croq_magic.compiler.source import Source, Span
from croq_magic.compiler.targets import base as targets
from croq_magic.compiler.targets.emit_cxx import Unsupported
from croq_magic.compiler.whole import merge
from croq_magic.compiler.whole.host import HostCode, HostTarget, Kind
from croq_magic.compiler.whole.main import find_main
from croq_magic.errors import CompileError, TargetError

if TYPE_CHECKING:
    from croq_magic.compiler.split import Unit


@dataclasses.dataclass(frozen=True, eq=False)
class WholeProgram:
    """A transpiled program.

    `text` is one self-contained file of the target's language (`suffix` is its file name's end); `diagnostics` holds
    warnings; `signatures` the tileflow functions by name of the IR; `main` the place of `main` in the source, if it has
    one; `printed` what `print!` says. `defines` and `include_dirs` are what the C++ compiler gets too.
    """

    source: Source
    unit: Unit
    target: str
    host: HostTarget
    code: HostCode
    signatures: Mapping[str, Signature]
    diagnostics: tuple[Diagnostic, ...]
    printed: str
    defines: tuple[tuple[str, str], ...] = ()
    include_dirs: tuple[str, ...] = ()
    extra_flags: tuple[str, ...] = ()  # what else the command line has for the C++ compiler

    @property
    def suffix(self) -> str:
        return self.host.suffix

    @cached_property
    def main(self) -> Span | None:
        return find_main(self.unit)

    @cached_property
    def text(self) -> str:
        """One file that any C++ compiler builds by itself."""
        return merge.merge(self.unit, self.code, self_contained=True, command=self.command("FILE.cpp", "PROGRAM"))

    @cached_property
    def compact(self) -> str:
        """The same without the runtime and with `#include`s of bundled headers: it compiles faster."""
        return merge.merge(self.unit, self.code, self_contained=False)

    def command(self, source: str, output: str, kind: Kind = "executable", debug: bool = False) -> list[str]:
        """The command line that compiles `text`, in the file `source`. Raises `TargetError` without a compiler."""
        return self.host.compile_command(source, output, kind, debug=debug, flags=self.flags)

    @cached_property
    def flags(self) -> list[str]:
        """Macros and folders of headers for the C++ compiler; a file's own folder is among them."""
        folders = [*self.include_dirs]
        parent = Path(self.source.name).parent
        own = [] if self.source.name.startswith("<") else [f"-iquote{parent}"]
        return [
            *(f"-D{name}={value}" for name, value in self.defines),
            *(f"-I{each}" for each in folders),
            *own,
            *self.extra_flags,
        ]


def transpile(
    source: Source | str,
    target: str = "auto",
    arch: str | None = None,
    defines: Mapping[str, str] | None = None,
    include_dirs: Sequence[str | Path] = (),
    checks: str = "auto",
) -> WholeProgram:
    """Everything but the target's compiler. `defines` are macros, as texts, for tileflow functions and for C++.

    Raises `CompileError` with all diagnostics if the program is wrong, `TargetError` if the target cannot build whole
    programs.
    """
    text = source if isinstance(source, Source) else Source(source)
    chosen = targets.choose(target, arch)
    host = host_of(chosen)
    folders = tuple(map(str, include_dirs))
    front = front_end(text, chosen.limits, defines or {}, checks, folders, cell=False)
    front.report.raise_errors()
    lowered = []
    context = Context(front.report, chosen.limits)
    with recursion.deep():
        for function in front.functions.values():
            lowered.append(run_passes(function, [*optimising_passes(), *chosen.passes()], context))
        signatures = {function.name: describe.signature(function) for function in front.functions.values()}
        try:
            code = host.emit(front.unit, lowered, {name: each.text for name, each in signatures.items()})
        except Unsupported as problem:
            span = problem.span if isinstance(problem.span, Span) else text.whole()
            raise CompileError([Diagnostic("error", "UNS01", str(problem), span)]) from None
    return WholeProgram(
        text,
        front.unit,
        chosen.name,
        host,
        code,
        signatures,
        tuple(front.report),
        front.printed,
        tuple((defines or {}).items()),
        folders,
    )


def host_of(target: targets.Target) -> HostTarget:
    """The host side of a target. TargetError if it has none."""
    name = f"croq_magic.compiler.targets.{target.name}.whole"
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name:
            raise
        raise TargetError(f"the target `{target.name}` cannot build whole programs yet") from None
    found: HostTarget = module.host(target)
    return found
