"""Shorthands for tests of the front end."""

from __future__ import annotations

from croq_magic.compiler import syntax
from croq_magic.compiler.diagnostics import Diagnostic, Report
from croq_magic.compiler.limits import CPU, Limits
from croq_magic.compiler.parse import parse
from croq_magic.compiler.preprocess import preprocess
from croq_magic.compiler.source import Source
from croq_magic.compiler.split import split
from croq_magic.compiler.syntax_text import expression as show

__all__ = ["expression", "function", "mistake", "read", "show", "statement"]


def read(
    text: str, defines: dict[str, str] | None = None, limits: Limits = CPU, name: str = "cell", first_line: int = 1
) -> tuple[list[syntax.Function | None], list[Diagnostic]]:
    """Everything up to the syntax tree: the functions (None for one with an error) and the findings."""
    report = Report()
    unit = split(Source(text, name, first_line), report)
    preprocessed = preprocess(unit, defines or {}, report, limits)
    return [parse(tokens, report) for tokens in preprocessed.functions], list(report)


def function(text: str, defines: dict[str, str] | None = None) -> syntax.Function:
    """The only function of a text without findings."""
    functions, findings = read(text, defines)
    assert not findings, "\n".join(map(str, findings))
    (tree,) = functions
    assert tree is not None
    return tree


def statement(text: str) -> syntax.Stmt:
    """One statement."""
    (only,) = function("__co__ void f(f32 [8, 16] g, int n) {\n" + text + "\n}").body.body
    return only


def expression(text: str) -> syntax.Expr:
    """The right-hand side of `x = ...`."""
    assign = statement(f"x = {text};")
    assert isinstance(assign, syntax.Assign)
    return assign.value


def mistake(fragment: str) -> Diagnostic:
    """The only finding about a bad statement, which stands on line 2 from column 1."""
    _, findings = read("__co__ void f(f32 [8, 16] g, int n) {\n" + fragment + "\n}")
    assert len(findings) == 1, "\n\n".join(map(str, findings))
    return findings[0]
