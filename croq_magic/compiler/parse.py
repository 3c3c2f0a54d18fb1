"""Tokens to a syntax tree, with recovery after syntax errors.

The parser is LALR(1), made by lark from grammar.lark. Tokens are fed one by one, so that after an error parsing can go
on at the next statement: the stack is cut back to the innermost open block and the rest of the statement is skipped.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

from croq_magic.compiler import syntax
from croq_magic.compiler.diagnostics import MAX_ERRORS, Report
from croq_magic.compiler.lexer import Token, lex
from croq_magic.compiler.source import Source, Span

_LOCK = threading.Lock()
# In a block, and only there, all of these can come next.
_STATEMENT = frozenset(["PARALLEL", "SEMICOLON", "RBRACE", "FOREACH"])


def parse(tokens: Sequence[Token], report: Report) -> syntax.Function | None:
    """The function that the tokens spell, or None if there was a syntax error; all errors are in `report`."""
    from lark.exceptions import UnexpectedToken

    from croq_magic.compiler import syntax_errors, tables

    if not tokens:
        return None
    own = Report()
    with _LOCK:
        parser, actions = tables.load()
        actions.begin(own)
        state = parser.parse_interactive("").parser_state
        function: Any = None
        at = 0
        errors = 0
        end = _end_token(tokens[-1])
        while at <= len(tokens):
            token = tokens[at] if at < len(tokens) else end
            try:
                function = state.feed_token(token, token is end)
            except UnexpectedToken:
                own.add(syntax_errors.explain(state, tokens, at, token))
                errors += 1
                recovered = _recover(state, tokens, at) if errors < MAX_ERRORS and token is not end else None
                if recovered is None:
                    break
                at = recovered
                continue
            at += 1
    report.extend(own)
    return function if isinstance(function, syntax.Function) and not own.has_errors else None


def parse_text(text: str, report: Report, name: str = "cell", first_line: int = 1) -> syntax.Function | None:
    """One tileflow function given as text, without preprocessing."""
    source = Source(text, name, first_line)
    tokens = lex(source, 0, len(text), report)
    function = parse(tokens, report)
    return None if report.has_errors else function


def _end_token(last: Token) -> Token:
    return Token("end", "", Span(last.span.source, last.span.end, last.span.end), "$END")


def _recover(state: Any, tokens: Sequence[Token], at: int) -> int | None:
    """Cuts the stack back to the innermost block and returns where to go on; None outside of every block."""
    states = state.parse_conf.states
    depth = len(state.state_stack)
    while depth and not states[state.state_stack[depth - 1]].keys() >= _STATEMENT:
        depth -= 1
    if not depth:
        return None
    dropped = state.value_stack[depth - 1 :]
    del state.state_stack[depth:]
    del state.value_stack[depth - 1 :]
    # An open brace that was dropped with the broken statement still has its closing brace ahead.
    nested = sum(isinstance(value, Token) and value.type == "LBRACE" for value in dropped)
    while at < len(tokens):
        kind = tokens[at].type
        if kind == "LBRACE":
            nested += 1
        elif kind == "RBRACE":
            if nested == 0:
                return at
            nested -= 1
            if nested == 0 and not _continues(tokens, at + 1):
                return at + 1
        elif kind == "SEMICOLON" and nested == 0:
            return at + 1
        at += 1
    return at


def _continues(tokens: Sequence[Token], at: int) -> bool:
    """Whether a statement goes on after a closing brace: `{1} , ...`, `} else`."""
    return at < len(tokens) and tokens[at].type in ("COMMA", "ELSE", "RPAR", "RSQB", "BY", "EQUAL", "OP", "MORETHAN", "SEMICOLON")
