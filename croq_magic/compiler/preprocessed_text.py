"""A program after the language's preprocessor, as text (`croqtile -E`).

Tileflow functions stand there with their macros expanded, dead branches, directives and comments removed; every other
byte is the source's own. Nothing moves to another line, so numbers of lines stay true.
"""

from __future__ import annotations

from collections.abc import Sequence

from croq_magic.compiler.lexer import Token
from croq_magic.compiler.preprocess import Preprocessed
from croq_magic.compiler.split import Region, Unit


def text(unit: Unit, preprocessed: Preprocessed) -> str:
    """The whole text. A tileflow function that a condition switches off becomes blank lines."""
    functions = {tokens[0].span.start: tokens for tokens in preprocessed.functions if tokens}
    parts = []
    for region in unit.regions:
        if region.kind != "tileflow":
            parts.append(region.text)
            continue
        found = next((t for start, t in functions.items() if region.span.start <= start < region.span.end), ())
        parts.append(_function(region, found))
    return "".join(parts)


def _function(region: Region, tokens: Sequence[Token]) -> str:
    source = region.span.source
    newline = "\r\n" if "\r\n" in region.text else "\n"
    line, last = source.line_index(region.span.start), source.line_index(region.span.end)
    out: list[str] = []
    previous: Token | None = None  # on the same line
    for token in tokens:
        at = source.line_index(token.span.start)
        if line < at:
            out.append(newline * (at - line))
            line, previous = at, None
        if previous is not None:
            out.append(" " * _gap(previous, token))
        elif token.span.start > region.span.start:
            indentation = source.text[source.line_starts[at] : token.span.start]
            out.append("".join(char if char.isspace() else " " for char in indentation))
        written = token.span.text if token.kind == "pragma" else token.text
        out.append(written)
        line += written.count("\n")
        previous = token
    out.append(newline * (last - line))
    return "".join(out)


def _gap(before: Token, after: Token) -> int:
    """Blanks between two tokens: those of the source, and of what macros expand to as many as keep tokens apart."""
    if after.span.start >= before.span.end and not (_expanded(before) or _expanded(after)):
        return after.span.start - before.span.end
    if after.span.start > before.span.end:
        return 1
    left, right = before.text[-1:], after.text[:1]
    words = (left.isalnum() or left in '_."') and (right.isalnum() or right in '_."')
    operators = left in "+-*/%<>=!&|#:?" and right in "+-*/%<>=!&|#:?"
    return int(words or operators)


def _expanded(token: Token) -> bool:
    return token.text != token.span.text
