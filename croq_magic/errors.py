"""Every exception a user of croq_magic can meet. All derive from `CroqError`."""

from __future__ import annotations

import os
import traceback
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from croq_magic.compiler.diagnostics import Diagnostic


class CroqError(Exception):
    """Base of all errors of croq_magic."""

    def _render_traceback_(self) -> list[str]:
        """What IPython shows instead of a traceback: the user's mistake and the user's own lines that led to it."""
        return [*user_frames(self), *f"{type(self).__name__}: {self}".split("\n")]


class CompileError(CroqError):
    """The program is wrong. `diagnostics` holds all errors, warnings and notes, in the order of the text."""

    def __init__(self, diagnostics: Sequence[Diagnostic], message: str | None = None) -> None:
        self.diagnostics: tuple[Diagnostic, ...] = tuple(diagnostics)
        super().__init__(message if message is not None else "\n\n".join(map(str, self.diagnostics)))

    def _render_traceback_(self) -> list[str]:
        return [*user_frames(self), f"{type(self).__name__}:", *str(self).split("\n")]


class BindError(CroqError):
    """An argument does not fit the parameter it is bound to."""


class CheckError(CroqError):
    """A check failed while a function ran: an assertion, an index out of range, extents that disagree."""


class ProgramError(CheckError):
    """A whole program, run in a process of its own, did not end with exit status 0. `returncode` is its status, or the
    number of the signal that ended it, negative."""

    def __init__(self, message: str, returncode: int = 1) -> None:
        super().__init__(message)
        self.returncode = returncode


class TargetError(CroqError):
    """A target, a compiler or a device cannot do what was asked."""


class OptionError(CroqError):
    """The options of a `%%croqtile` line are wrong."""


class ShapeWarning(UserWarning):
    """The extents of arguments are legal, but probably not what is meant: chunks that leave a remainder out."""


class Interrupted(KeyboardInterrupt):
    """Ctrl-C or the stop button ended a function while it ran; the message says which arrays it had begun to write."""

    def _render_traceback_(self) -> list[str]:
        return [*user_frames(self), *f"KeyboardInterrupt: {self}".split("\n")]


def user_frames(error: BaseException) -> list[str]:
    """The lines of the user's own Python code on the way to an error, outermost first, one or two texts a frame.

    Our frames, IPython's and the call of the magic itself are left out: they say nothing about the mistake.
    """
    ours = os.path.dirname(os.path.abspath(__file__)) + os.sep
    machinery = {"IPython", "ipykernel", "traitlets", "decorator"}
    lines: list[str] = []
    for frame in traceback.extract_tb(error.__traceback__):
        if frame.filename.startswith((ours, "<tileflow")):
            break  # from here on it is our code and what that calls
        if machinery.intersection(frame.filename.replace(os.sep, "/").split("/")):
            continue
        text = frame.line or ""
        if text.startswith("get_ipython()."):
            continue
        cell = not os.path.exists(frame.filename) or "ipykernel_" in frame.filename
        where = "cell" if cell else f"file {frame.filename}"
        lines.append(f"{where}, line {frame.lineno}" + ("" if frame.name == "<module>" else f", in {frame.name}"))
        if text:
            lines.append(f"    {text}")
    return lines
