"""Tile programming in the notebook: the Croqtile language, its compiler, the `%%croqtile` magic and diagrams.

    import croq_magic as croq
    program = croq.compile(source)      # -> Program
    out = program.matmul(lhs, rhs)      # NumPy arrays in, a NumPy array out

In a notebook: `%load_ext croq_magic`, then cells that begin with `%%croqtile`.

Everything is loaded at first use: importing this package costs a few milliseconds and pulls in neither the compiler
nor matplotlib nor CuPy.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from croq_magic._version import __version__

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from croq_magic import cache, viz
    from croq_magic.errors import BindError, CheckError, CompileError, CroqError, ProgramError, TargetError
    from croq_magic.program import Program, TileFunction, check, compile
    from croq_magic.run import run_program

# Public name -> module that defines it.
_LAZY = {
    **dict.fromkeys(("BindError", "CheckError", "CompileError", "CroqError"), "croq_magic.errors"),
    **dict.fromkeys(("ProgramError", "TargetError"), "croq_magic.errors"),
    **dict.fromkeys(("Program", "TileFunction", "check", "compile"), "croq_magic.program"),
    "run_program": "croq_magic.run",
}
_SUBMODULES = ("cache", "viz")

__all__ = [
    "BindError",
    "CheckError",
    "CompileError",
    "CroqError",
    "Program",
    "ProgramError",
    "TargetError",
    "TileFunction",
    "__version__",
    "cache",
    "check",
    "compile",
    "load_ipython_extension",
    "run_program",
    "unload_ipython_extension",
    "viz",
]


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        value = getattr(importlib.import_module(_LAZY[name]), name)
    elif name in _SUBMODULES:
        value = importlib.import_module(f"croq_magic.{name}")
    else:
        raise AttributeError(f"module 'croq_magic' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def load_ipython_extension(shell: InteractiveShell) -> None:
    """Registers `%%croqtile` and `%croqtile`: what `%load_ext croq_magic` calls."""
    from croq_magic import magic

    magic.load(shell)


def unload_ipython_extension(shell: InteractiveShell) -> None:
    """What `%unload_ext croq_magic` calls."""
    from croq_magic import magic

    magic.unload(shell)
