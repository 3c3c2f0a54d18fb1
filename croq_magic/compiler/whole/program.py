"""Transpilation: a program's text with C++ in the place of its tileflow functions."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from croq_magic.compiler import recursion, store
from croq_magic.compiler.diagnostics import Diagnostic
from croq_magic.compiler.pipeline import CompiledUnit, front_end
from croq_magic.compiler.signature import Signature
from croq_magic.compiler.source import Source, Span
from croq_magic.compiler.targets import base as targets
from croq_magic.compiler.targets.emit_cxx import Unsupported
from croq_magic.compiler.whole import merge
from croq_magic.compiler.whole.host import HostCode, HostTarget, Kind, flags_of, host_of
from croq_magic.compiler.whole.main import find_main
from croq_magic.errors import CompileError

if TYPE_CHECKING:
    from croq_magic.compiler.split import Unit


@dataclasses.dataclass(frozen=True, eq=False)
class WholeProgram:
    """A transpiled program.

    `text` is one self-contained file of the target's language (`suffix` is its file name's end); `diagnostics` holds
    warnings; `signatures` the tileflow functions by name of the IR; `main` the place of `main` in the source, if it has
    one; `printed` what `print!` says. `defines` stand in the text; `include_dirs` are what the C++ compiler gets too.
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
        """One file that the target's compiler builds by itself."""
        if self.code.source is None:
            return self.portable
        command = self.host.source_command(f"FILE{self.suffix}", "PROGRAM")
        return merge.merge(self.unit, self.code.source(), self_contained=True, command=command, defines=self.defines)

    @cached_property
    def portable(self) -> str:
        """One file for the host's C++ compiler, whatever `text` is for."""
        command = self.host.compile_command("FILE.cpp", "PROGRAM", "executable")
        return merge.merge(self.unit, self.code, self_contained=True, command=command, defines=self.defines)

    @cached_property
    def compact(self) -> str:
        """The same without the runtime and with `#include`s of bundled headers: it compiles faster."""
        return merge.merge(self.unit, self.code, self_contained=False, defines=self.defines)

    def command(self, source: str, output: str, kind: Kind = "executable", debug: bool = False) -> list[str]:
        """The command line that compiles `text`, in the file `source`. Raises `TargetError` without a compiler."""
        return self.host.compile_command(source, output, kind, debug=debug, flags=self.flags)

    @cached_property
    def flags(self) -> list[str]:
        """Folders of headers for the C++ compiler, a file's own among them, and what else the command line has."""
        return flags_of(self.source, self.include_dirs, self.extra_flags)


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
    host_of(chosen)  # said before anything else
    folders = tuple(map(str, include_dirs))
    front = front_end(text, chosen.limits, defines or {}, checks, folders, cell=False)
    front.report.raise_errors()
    request = store.Request(text, target, arch, tuple((defines or {}).items()), checks)
    return of_unit(CompiledUnit(front, chosen, checks, request), folders)


def of_unit(unit: CompiledUnit, include_dirs: Sequence[str] = ()) -> WholeProgram:
    """The whole program of a unit that is compiled already. Raises as `transpile` does."""
    host = host_of(unit.chosen)
    functions = unit.functions
    with recursion.deep():
        try:
            shown = {name: function.signature.text for name, function in functions.items()}
            code = host.emit(unit.regions, [function.lowered for function in functions.values()], shown)
        except Unsupported as problem:
            span = problem.span if isinstance(problem.span, Span) else unit.regions.source.whole()
            raise CompileError([Diagnostic("error", "UNS01", str(problem), span)]) from None
    return WholeProgram(
        unit.regions.source,
        unit.regions,
        unit.target,
        host,
        code,
        {name: function.signature for name, function in functions.items()},
        tuple(unit.report),
        unit.printed,
        unit.request.defines,
        tuple(include_dirs),
    )
