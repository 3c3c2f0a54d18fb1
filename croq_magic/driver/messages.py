"""What the driver says on standard error: findings about programs, and one line about anything else."""

from __future__ import annotations

import sys

from croq_magic.compiler.diagnostics import MAX_ERRORS, Diagnostic, Report, Severity, show
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
        self.warnings = 0

    @property
    def failed(self) -> bool:
        return self.errors > 0

    def report(self, report: Report) -> None:
        """Prints the findings of one stage or file, in the order of the text."""
        for found in report.as_errors() if self.options.werror else report:
            self.finding(found)

    def finding(self, found: Diagnostic) -> None:
        if found.severity == Severity.ERROR:
            self.errors += 1
            if self.errors > MAX_ERRORS:
                return
        else:
            if self.options.no_warnings:
                return
            self.warnings += 1
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
