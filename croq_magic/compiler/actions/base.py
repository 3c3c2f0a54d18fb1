"""What all actions share: the values of a rule's symbols, names and types, and where findings go."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from croq_magic.compiler import syntax as s
from croq_magic.compiler.diagnostics import Report
from croq_magic.compiler.lexer import ALIASES, RESERVED, SCALAR_TYPES, Token
from croq_magic.compiler.source import Span
from croq_magic.compiler.type_words import not_a_type

Kids = list[Any]  # the values of a rule's symbols: tokens, nodes, tuples of nodes and None


def cover(first: Token | s.Node, last: Token | s.Node) -> Span:
    """From the start of `first` to the end of `last`."""
    start, end = first.span, last.span
    return Span(start.source, start.start, max(start.end, end.end))


def nodes(kids: Kids) -> tuple[Any, ...]:
    """What is not punctuation."""
    return tuple(kid for kid in kids if kid is not None and not isinstance(kid, Token))


class BaseActions:
    """`report` takes the findings; `derivations` are the `a[i, j]` for which no shape context has been seen yet."""

    def __init__(self, report: Report) -> None:
        self.report = report
        self.derivations: list[s.Derivation] = []

    def error(self, code: str, message: str, at: Token | s.Node | Span, hint: str | None = None) -> None:
        self.report.error(code, message, at if isinstance(at, Span) else at.span, hint=hint)

    def new_name(self, token: Token) -> s.Name:
        """A name that is declared."""
        if token.text in RESERVED:
            self.error("SYN01", f"`{token.text}` is a reserved word and cannot be declared", token)
        return s.Name(token.span, token.text)

    def names(self, kids: Kids) -> tuple[s.Name, ...]:
        return tuple(self.new_name(kid) for kid in kids if kid.type == "NAME")

    def type_word(self, token: Token) -> s.ElemType:
        return s.ElemType(token.span, ALIASES.get(token.text, token.text), token.text)

    def dot_type(self, word: str, span: Span) -> s.ElemType:
        """`.f32` as a type."""
        name = word[1:]
        if name not in SCALAR_TYPES:
            message, hint = not_a_type(name)
            self.error("SYN01", message, span, hint)
        return s.ElemType(span, ALIASES.get(name, name), name)

    def qualified(self, tokens: Sequence[Token]) -> s.QName:
        parts = tuple(s.Name(token.span, token.text) for token in tokens)
        return s.QName(cover(parts[0], parts[-1]), parts)

    def storage_word(self, token: Token | None) -> s.StorageWord | None:
        return None if token is None else s.StorageWord(token.span, token.text)  # type: ignore[arg-type]

    def shape_context(self, span: Span) -> None:
        """Inside `span`, `a[i, j]` is a derivation."""
        self.derivations = [derivation for derivation in self.derivations if derivation.span not in span]
