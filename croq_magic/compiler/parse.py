"""Tokens to a syntax tree, with recovery after syntax errors.

The grammar is LALR(1), in grammar.lark. Tokens are fed one by one, so that after an error parsing can go on at the
next statement: the stack is cut back to the innermost open block and the rest of the statement is skipped.
"""

from __future__ import annotations

from collections.abc import Sequence

from croq_magic.compiler import lalr, syntax, tables
from croq_magic.compiler.actions import Actions
from croq_magic.compiler.diagnostics import MAX_ERRORS, Report
from croq_magic.compiler.lexer import Token, lex
from croq_magic.compiler.source import Source, Span
from croq_magic.compiler.syntax_errors import FOREIGN_LOOPS, explain, statement_start

# In a block, and only there, all of these can come next.
_STATEMENT = ("PARALLEL", "SEMICOLON", "RBRACE")
# After the `}` of an ituple or an initialiser the statement goes on.
_CONTINUES = frozenset(["COMMA", "ELSE", "RPAR", "RSQB", "BY", "IN", "EQUAL", "OP", "MORETHAN", "SEMICOLON"])


def parse(tokens: Sequence[Token], report: Report) -> syntax.Function | None:
    """The function that the tokens spell, or None if there was a syntax error; all errors are in `report`."""
    if not tokens:
        return None
    own = Report()
    own.share_expansions(report)
    stack = lalr.Stack(tables.load(), lalr.builders(tables.load(), Actions(own)))
    last = tokens[-1].span
    end = Token("end", "", Span(last.source, last.end, last.end), lalr.END)
    odd = [d.span.start for d in report if d.severity == "error"]  # what is no token is reported, and missing here
    at = 0
    errors = 0
    while at <= len(tokens):
        token = tokens[at] if at < len(tokens) else end
        if stack.feed(token.type, token):
            at += 1
            continue
        start = statement_start(tokens, at).span.start
        if not any(start <= place <= token.span.end for place in odd):
            own.add(explain(stack, tokens, at, token))
        errors += 1
        going_on = _recover(stack, tokens, at) if errors < MAX_ERRORS and token is not end else None
        if going_on is None:
            break
        at = going_on
    report.extend(own)
    function = stack.values[0] if stack.values else None
    return function if isinstance(function, syntax.Function) and not errors and not own.has_errors else None


def parse_text(text: str, report: Report, name: str = "cell", first_line: int = 1) -> syntax.Function | None:
    """One tileflow function given as text, without preprocessing."""
    source = Source(text, name, first_line)
    tokens = lex(source, 0, len(text), report)
    function = parse(tokens, report)
    return None if report.has_errors else function


def _recover(stack: lalr.Stack, tokens: Sequence[Token], at: int) -> int | None:
    """Cuts the stack back to the innermost block and returns where to go on; None outside of every block."""
    top = stack.values[-1] if stack.values else None
    if isinstance(top, Token) and top.type == "RBRACE":
        stack.settle("SEMICOLON")  # a block that ends here is complete, whatever follows it
    dropped = stack.cut(_STATEMENT)
    if dropped is None:
        return None
    if statement_start(tokens, at).text in FOREIGN_LOOPS:
        at = _after_parentheses(tokens, at)
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
            if nested == 0 and not (at + 1 < len(tokens) and tokens[at + 1].type in _CONTINUES):
                return at + 1
        elif kind == "SEMICOLON" and nested == 0 and not (at + 1 < len(tokens) and tokens[at + 1].type == "ELSE"):
            return at + 1
        at += 1
    return at


def _after_parentheses(tokens: Sequence[Token], at: int) -> int:
    """Past the `)` of `for (...; ...; ...)`, whose semicolons end no statement; `at` is inside the parentheses."""
    depth = 1
    for ahead in range(at, len(tokens)):
        if tokens[ahead].type in ("LBRACE", "RBRACE"):
            return at
        depth += (tokens[ahead].type == "LPAR") - (tokens[ahead].type == "RPAR")
        if depth == 0:
            return ahead + 1
    return at
