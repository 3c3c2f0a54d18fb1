"""A token the parser did not expect, explained in words: what was found, what could stand there, how to fix it."""

from __future__ import annotations

from collections.abc import Sequence

from croq_magic.compiler.diagnostics import Diagnostic
from croq_magic.compiler.lalr import Stack
from croq_magic.compiler.lexer import KEYWORDS, RESERVED, SCALAR_TYPES, Token

# What a person calls a terminal. Terminals of one group are named together when all of the group's core is possible.
_WORDS = {
    "NAME": "a name",
    "NUMBER": "a number",
    "STRING": "a string",
    "DOTWORD": "a word after a dot, such as `.copy`",
    "TYPE": "a type",
    "STORAGE": "`global`, `shared` or `local`",
    "LEVEL": "a level (`block`, `group-4`, `group`, `thread`)",
    "OP": "an operator",
    "ASSIGN": "`=`",
    "FUNCTION": "`__co__`",
    "ENGINE": "`dma`",
    "ROTATE": "`swap`",
    "PRINT": "`print`",
    "ASM": "`__asm__`",
    "ARROW": "`=>`",
    "TIE": "`<->`",
    "UNBOUNDED": "`??`",
    "SCOPE": "`::`",
    "INCREMENT": "`++`",
    "DECREMENT": "`--`",
    "ATTRIBUTE": "an attribute",
    "LPAR": "`(`",
    "RPAR": "`)`",
    "LSQB": "`[`",
    "RSQB": "`]`",
    "LBRACE": "`{`",
    "RBRACE": "`}`",
    "COMMA": "`,`",
    "SEMICOLON": "`;`",
    "COLON": "`:`",
    "QMARK": "`?`",
    "EQUAL": "`=`",
    "LESSTHAN": "`<`",
    "MORETHAN": "`>`",
    "AMPERSAND": "`&`",
    "VBAR": "`|`",
    "PLUS": "`+`",
    "MINUS": "`-`",
    "BANG": "`!`",
    "TILDE": "`~`",
    "HASH": "`#`",
    "$END": "the end of the function",
}
_EXPRESSION = frozenset(["NAME", "NUMBER", "LPAR", "MINUS"])
_EXPRESSION_ALL = frozenset(
    (
        *("NAME", "NUMBER", "STRING", "LPAR", "LBRACE", "LSQB", "MINUS", "PLUS", "BANG", "TILDE", "HASH", "VBAR"),
        *("AMPERSAND", "INCREMENT", "DECREMENT", "INF", "TRUE", "FALSE", "NULLPTR", "__TO", "CALL", "SELECT"),
    )
)
_OPERATOR = frozenset(["OP", "PLUS", "MINUS"])
_OPERATOR_ALL = frozenset(
    ["OP", "PLUS", "MINUS", "LESSTHAN", "MORETHAN", "AMPERSAND", "VBAR", "HASH", "QMARK", "INCREMENT", "DECREMENT"]
)
_CHAIN = frozenset(["DOTWORD", "DOTMAP", "LSQB", "LPAR", "SCOPE"])
_STATEMENT = frozenset(["PARALLEL", "FOREACH", "SEMICOLON"])
_CLOSERS = ("COMMA", "SEMICOLON", "RPAR", "RSQB", "RBRACE", "COLON", "EQUAL", "ARROW")


def explain(stack: Stack, tokens: Sequence[Token], at: int, token: Token) -> Diagnostic:
    """The diagnostic for `token`, at which the parser stopped; `at` is its index in `tokens`."""
    known = _known_mistake(tokens, at, token)
    if known is not None:
        return known
    accepted = stack.acceptable()
    expected = _alternatives(accepted)
    message = f"unexpected {describe(token)}"
    if expected:
        message += f"; expected {expected}"
    return Diagnostic("error", "SYN01", message, token.span, hint=_hint(tokens, at, token, accepted))


def describe(token: Token) -> str:
    """What was found, as it is called in messages."""
    if token.type == "$END":
        return "end of the function"
    if token.type == "NAME":
        return f"name `{token.text}`"
    if token.type == "NUMBER":
        return f"number `{token.text}`"
    if token.type == "STRING":
        return "string"
    if token.text in KEYWORDS:
        return f"keyword `{token.text}`"
    if token.text in SCALAR_TYPES:
        return f"type `{token.text}`"
    return f"`{token.text}`"


def _alternatives(accepted: set[str], most: int = 5) -> str:
    """At most five alternatives in words, first what ends or joins things: that is usually what is missing."""
    words = []
    rest = set(accepted)
    for closer in _CLOSERS:
        if closer in rest:
            words.append(_WORDS[closer])
            rest.discard(closer)
    if accepted >= _STATEMENT:
        return "a statement" + (" or `}`" if "RBRACE" in accepted else "")
    if accepted >= _EXPRESSION:
        rest -= _EXPRESSION_ALL
        words.append("an expression")
    if accepted >= _OPERATOR and not accepted >= _EXPRESSION:
        rest -= _OPERATOR_ALL
        words.append("an operator")
        if words[:-1]:  # with something more definite to say, operators and suffixes are noise
            words.pop()
        rest -= _CHAIN
    for terminal in sorted(rest, key=lambda name: (name not in ("NAME", "NUMBER", "TYPE"), name)):
        word = _WORDS.get(terminal, f"`{terminal.lower()}`")
        if word not in words:
            words.append(word)
    words = words[:most]
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}" if words else ""


def _hint(tokens: Sequence[Token], at: int, token: Token, accepted: set[str]) -> str | None:
    before = tokens[at - 1] if at else None
    if token.text in RESERVED and "NAME" in accepted and token.kind == "name":
        return f"`{token.text}` is a reserved word; choose another name"
    if accepted >= {"COMMA", "RBRACE"} and token.type in ("NAME", "NUMBER"):
        return "separate ituple items with commas"
    if accepted >= {"COMMA", "RSQB"} and token.type in ("NAME", "NUMBER"):
        return "separate extents with commas"
    if accepted >= {"COMMA", "RPAR"} and token.type in ("NAME", "NUMBER"):
        return "separate arguments with commas"
    if "SEMICOLON" in accepted and before is not None and token.span.line > before.span.end_line:
        return f"a `;` is missing at the end of line {before.span.end_line}"
    if token.type == "NAME" and token.text == "ready":
        return None
    return None


def _known_mistake(tokens: Sequence[Token], at: int, token: Token) -> Diagnostic | None:
    """Mistakes that people make often enough to have their own code."""

    def error(code: str, message: str, hint: str | None = None, first: int = at, last: int = at) -> Diagnostic:
        last = min(last, len(tokens) - 1)
        span = tokens[first].span.to(tokens[last].span) if first < len(tokens) else token.span
        return Diagnostic("error", code, message, span, hint=hint)

    before = [earlier.text for earlier in tokens[max(0, at - 6) : at]]
    previous = before[-1] if before else ""
    if token.type == "ELSE":
        return error("SYN09", "`else` has no matching `if`; braces may have closed it early")
    if token.text == "[" and previous == "[" and at > 1:
        return error("SYN07", f"unknown attribute `{_text(tokens, at + 1)}`", _KNOWN_ATTRIBUTES, at - 1)
    if token.text == "[" and _text(tokens, at + 1) == "[" and previous in ("", ";", "{", "}", ")"):
        return error("SYN07", f"unknown attribute `{_text(tokens, at + 2)}`", _KNOWN_ATTRIBUTES, at, at + 2)
    if token.text == "[" and previous == "parallel":
        hint = "`parallel p by 4`, `parallel {p, q} by [4, 2]`"
        return error("SYN08", "expected a name or `{names}` after `parallel`", hint)
    if token.text == "<" and previous == "wait":
        return error("SYN14", "`wait<...>` no longer exists", "`wait e.at(order)`")
    if token.type == "NAME" and previous == ")" and "swizzle" in before and {"dma", "tma"} & set(before):
        return error("SYN14", "this place for `swizzle` no longer exists", "`dma.copy.swiz<128>`")
    if token.type == "$END" or (token.type == "FUNCTION" and at):
        return error("SYN13", "the function ends here, but a `}` is missing")
    return None


_KNOWN_ATTRIBUTES = (
    "`[[launch_bounds(...)]]` and `[[maxnreg(...)]]` belong before `parallel`, `[[schedule(...)]]` before an MMA"
)


def _text(tokens: Sequence[Token], at: int) -> str:
    return tokens[at].text if at < len(tokens) else ""
