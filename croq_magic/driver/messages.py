"""What the driver says on standard error: findings about programs, and one line about anything else."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Iterable

from croq_magic.compiler.diagnostics import MAX_ERRORS, Diagnostic, Severity, show
from croq_magic.driver.options import Options


def say(text: str, kind: str = "error") -> None:
    """`croqtile: error: text`, for what has no place in a file."""
    sys.stderr.write(f"croqtile: {kind}: {text}\n" if kind else f"{text}\n")
    sys.stderr.flush()


class Messages:
    """Prints findings as the options want them, counts errors over all files and stops printing after `MAX_ERRORS`."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.errors = 0
        self.found = 0  # findings, shown or not

    @property
    def failed(self) -> bool:
        return self.errors > 0

    def findings(self, found: Iterable[Diagnostic]) -> None:
        """Prints the findings of one file, in the order they come."""
        for each in found:
            self.finding(each)

    def finding(self, found: Diagnostic) -> None:
        """Prints one. A warning may count as an error, or not be wanted."""
        self.found += 1
        if found.severity == Severity.WARNING and self.options.werror:
            found = dataclasses.replace(found, severity=Severity.ERROR.value)
        if found.severity == Severity.ERROR:
            self.errors += 1
            if self.errors > MAX_ERRORS:
                return
        elif self.options.no_warnings:
            return
        sys.stderr.write(show(found) + "\n")

    def error(self, text: str) -> None:
        """An error without a place in a text."""
        self.errors += 1
        if self.errors <= MAX_ERRORS:
            say(text)

    def total(self) -> None:
        """The last line, after more errors than are shown."""
        if self.errors > MAX_ERRORS:
            sys.stderr.write(f"{self.errors} errors, the first {MAX_ERRORS} are shown\n")
        sys.stderr.flush()
