"""Small cells for tests of passes: the front end's findings and IR."""

from __future__ import annotations

from croq_magic.compiler import ir, pipeline
from croq_magic.compiler.diagnostics import Report
from croq_magic.compiler.limits import CPU
from croq_magic.compiler.source import Source
from croq_magic.compiler.text import format_function


def host(body: str, params: str = "f32 [8, 16] g, int n") -> str:
    """A function with one line of host code, which is line 2 of the cell."""
    return f"__co__ void f({params}) {{\n{body}\n}}\n"


def front(text: str) -> tuple[dict[str, ir.Function], Report]:
    found = pipeline.front_end(Source(text), CPU, {})
    return found.functions, found.report


def found(text: str, code: str) -> list[str]:
    """Messages with a code, as `line:column: severity: message`."""
    _, report = front(text)
    return [f"{d.span.line}:{d.span.column}: {d.severity}: {d.message}" for d in report if d.code == code]


def errors(text: str) -> list[str]:
    return [f"{d.code} {d.message}" for d in front(text)[1].errors]


def printed(text: str, name: str = "f") -> str:
    functions, report = front(text)
    assert not report.errors, report.text()
    return format_function(functions[name])
