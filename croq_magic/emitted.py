"""What `--emit` shows of a program."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from croq_magic import choice, options

if TYPE_CHECKING:
    from croq_magic.program import Program


def arch(kind: str | None, target: str, given: str | None) -> str | None:
    """The architecture to compile for; where only code is shown there is one without a GPU too."""
    if kind not in options.CUDA_KINDS:
        return given
    from croq_magic.compiler.targets import base

    return base.offline_arch(target, given)


def text(program: Program, kind: str, given: str | None) -> str:
    """The program in one of the forms of `options.EMIT_KINDS` or `options.CUDA_KINDS`."""
    if kind == "source" and choice.is_whole(program):
        from croq_magic import run

        return run.transpiled(program).compact
    if kind in options.CUDA_KINDS:
        return _cuda(program, kind, given)
    shown: str = getattr(program, kind)()
    return shown


def _cuda(program: Program, kind: str, given: str | None) -> str:
    """The program's CUDA C++, or what NVRTC makes of it, whatever target the cell runs on."""
    if program.target != "cuda":
        from croq_magic import program as programs
        from croq_magic.compiler.targets import base

        r = program.unit.request
        program = programs.compile(r.source, "cuda", base.offline_arch("cuda", given), dict(r.defines), r.checks)
    chosen: Any = program.unit.chosen
    return program.source() if kind == "cuda" else chosen.shown(program.source(), kind, program.unit.regions)
