"""What a pass is, and what it may know beside the function.

A pass is a frozen dataclass; its fields are its options. It reports what it finds through the context and returns a
function; it never edits its input.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Protocol

from croq_magic.compiler import ir
from croq_magic.compiler.diagnostics import Report
from croq_magic.compiler.limits import CPU, Limits


@dataclasses.dataclass
class Context:
    """`report` collects diagnostics; `limits` are the target's; `conformance` asks for bit-equal results on all
    targets."""

    report: Report = dataclasses.field(default_factory=Report)
    limits: Limits = CPU
    conformance: bool = False


class Pass(Protocol):
    """A named function on the IR."""

    @property
    def name(self) -> str: ...

    def __call__(self, function: ir.Function, context: Context) -> ir.Function: ...


def run_passes(function: ir.Function, passes: Iterable[Pass], context: Context) -> ir.Function:
    """The function after all passes, in order. A pass that reports errors is the last one."""
    before = len(context.report.errors)
    for step in passes:
        function = step(function, context)
        if len(context.report.errors) > before:
            break
    return function
