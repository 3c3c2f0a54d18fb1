"""Every exception a user of croq_magic can meet. All derive from `CroqError`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from croq_magic.compiler.diagnostics import Diagnostic


class CroqError(Exception):
    """Base of all errors of croq_magic."""

    def _render_traceback_(self) -> list[str]:
        """What IPython shows instead of a traceback: the user's mistake, not our call stack."""
        return f"{type(self).__name__}: {self}".split("\n")


class CompileError(CroqError):
    """The program is wrong. `diagnostics` holds all errors, warnings and notes, in the order of the text."""

    def __init__(self, diagnostics: Sequence[Diagnostic], message: str | None = None) -> None:
        self.diagnostics: tuple[Diagnostic, ...] = tuple(diagnostics)
        super().__init__(message if message is not None else "\n\n".join(map(str, self.diagnostics)))

    def _render_traceback_(self) -> list[str]:
        return [f"{type(self).__name__}:", *str(self).split("\n")]


class BindError(CroqError):
    """An argument does not fit the parameter it is bound to."""


class CheckError(CroqError):
    """A check failed while a function ran: an assertion, an index out of range, extents that disagree."""


class TargetError(CroqError):
    """A target, a compiler or a device cannot do what was asked."""
