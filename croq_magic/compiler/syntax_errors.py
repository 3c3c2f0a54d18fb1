"""A token the parser did not expect, explained in words: what was found, what could stand there, how to fix it."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

from croq_magic.compiler.diagnostics import Diagnostic
from croq_magic.compiler.lalr import Stack
from croq_magic.compiler.lexer import KEYWORDS, LEVELS, RESERVED, SCALAR_TYPES, STORAGES, Token
from croq_magic.compiler.type_words import FOREIGN_TYPES, not_a_type

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
    if (word := _type_word(tokens, at, token, accepted)) is not None:
        message, hint = not_a_type(word.text)
        return Diagnostic("error", "SYN01", message, word.span, hint=hint)
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


def statement_start(tokens: Sequence[Token], at: int) -> Token:
    """The first token of the statement that holds token `at`."""
    return tokens[_start_index(tokens, at)]


def _start_index(tokens: Sequence[Token], at: int) -> int:
    at = min(at, len(tokens) - 1)
    while at > 0 and tokens[at - 1].type not in ("SEMICOLON", "LBRACE", "RBRACE"):
        at -= 1
    return at


def _alternatives(accepted: set[str], most: int = 5) -> str:
    """At most five alternatives in words, first what ends or joins things: that is usually what is missing."""
    if accepted >= _STATEMENT:
        return "a statement" + (" or `}`" if "RBRACE" in accepted else " or `in`" if "IN" in accepted else "")
    rest = set(accepted)
    words = [_WORDS[closer] for closer in _CLOSERS if closer in rest]
    rest -= set(_CLOSERS)
    if accepted >= _EXPRESSION:
        rest -= _EXPRESSION_ALL | {"ENGINE", "MMA"}
        words.append("an expression")
    elif accepted >= _OPERATOR:
        if "VBAR" in rest and "LESSTHAN" not in rest:
            words.append("`|`")
        rest -= _OPERATOR_ALL | _CHAIN
        if words:  # with something more definite to say, operators and suffixes are noise
            rest.discard("LBRACE")
        else:
            words.append("an operator")
    for terminal in sorted(rest, key=lambda name: (name not in ("NAME", "NUMBER", "TYPE"), name)):
        word = _WORDS.get(terminal, f"`{terminal.lower()}`")
        if word not in words:
            words.append(word)
    words = words[:most]
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}" if words else ""


def _type_word(tokens: Sequence[Token], at: int, token: Token, accepted: set[str]) -> Token | None:
    """The name that stands where a type must, if that is the mistake: `q32 b = 1`, `f(q32 [4] x)`, `__to<q32>(x)`."""
    if token.type == "NAME" and "TYPE" in accepted and not accepted & {"NAME", "NUMBER"}:
        # A misspelt word of the language is likelier before something that no type has after it.
        return token if _text(tokens, at + 1) in ("[", "&", ">", ",", ")") or _type(tokens, at + 1) == "NAME" else None
    before = tokens[at - 1] if at else token
    first = _start_index(tokens, at)
    fragment = _text(tokens, first) == "frag"
    if fragment and token.text == "," and _type(tokens, first + 1) == "NAME" and _text(tokens, first + 2) == "[":
        return tokens[first + 1]  # `frag q32 [16, 8] c`
    if token.type not in ("NAME", "TYPE") or (token.type == "NAME" and not _ends_name(tokens, at + 1)):
        return None
    first += fragment or tokens[first].text == "mutable"
    start = tokens[first]
    if start.type != "NAME" or difflib.get_close_matches(start.text, _STATEMENT_WORDS, 1, 0.75):
        return None
    if token.type == "TYPE":
        return start if before is start and start.text in FOREIGN_TYPES else None  # `unsigned int k`
    shaped = before.text == "]" and _text(tokens, first + 1) == "["  # `q32 [4] t;`
    return start if before is start or shaped else None


def _ends_name(tokens: Sequence[Token], at: int) -> bool:
    """Whether what follows a name makes it the name of a declaration."""
    return _text(tokens, at) in ("=", ";", ",", "{", "[")


def _type(tokens: Sequence[Token], at: int) -> str:
    return tokens[at].type if at < len(tokens) else ""


def _hint(tokens: Sequence[Token], at: int, token: Token, accepted: set[str]) -> str | None:
    before = tokens[at - 1] if at else token
    start = statement_start(tokens, at)
    # An unknown first word: `forech i in 4`, `shred f32 [4] t`.
    first = start is before and start.type == "NAME" and token.type in ("NAME", "TYPE", "LBRACE", "STRING")
    if first and (near := difflib.get_close_matches(start.text, _FIRST_WORDS, 1, 0.75)):
        return f"did you mean `{near[0]}`?"
    if token.type == "NAME" and (near := difflib.get_close_matches(token.text, _texts(accepted), 1, 0.75)):
        return f"did you mean `{near[0]}`?"
    declared = start.type == "NAME" and token.type == "NAME" and before.text == "]"  # `float32 [4] t`
    if declared and (near := difflib.get_close_matches(start.text, (*SCALAR_TYPES, *STORAGES), 1, 0.7)):
        return f"did you mean `{near[0]}`?"
    if accepted >= _STATEMENT:
        return None
    if token.type == "STORAGE" and start.text in ("dma", "tma"):
        return f"`{token.text}` can only be the destination of a transfer, `=> {token.text}`"
    if token.text in RESERVED and "NAME" in accepted and token.kind == "name":
        return f"`{token.text}` is a reserved word; choose another name"
    if before.text in ("if", "while", "inthreads") and "LPAR" in accepted:
        return f"the condition of `{before.text}` stands in parentheses"
    if before.text == "sync":
        return "`sync.shared`, `sync.global`, `sync.local`, `sync.barrier : level` or `sync.fence : level`"
    if token.type in ("NAME", "NUMBER") and token.span.line == before.span.end_line:
        for closing, hint in (("RBRACE", "ituple items"), ("RSQB", "extents"), ("RPAR", "arguments")):
            if accepted >= {"COMMA", closing}:
                return f"separate {hint} with commas"
    if "SEMICOLON" in accepted and token.span.line > before.span.end_line:
        return f"a `;` is missing at the end of line {before.span.end_line}"
    return None


def _texts(accepted: set[str]) -> list[str]:
    """The words that stand behind terminals."""
    words = [terminal.lower() for terminal in accepted if terminal.lower() in KEYWORDS]
    groups = {"LEVEL": LEVELS, "TYPE": SCALAR_TYPES, "STORAGE": STORAGES}
    return words + [word for group, texts in groups.items() if group in accepted for word in texts]


def _known_mistake(tokens: Sequence[Token], at: int, token: Token) -> Diagnostic | None:
    """Mistakes that people make often enough to be explained in their own way."""
    before = [earlier.text for earlier in tokens[max(0, at - 6) : at]]
    previous = before[-1] if before else ""
    start = statement_start(tokens, at)

    def error(code: str, message: str, hint: str | None = None, at: Token = token) -> Diagnostic:
        return Diagnostic("error", code, message, at.span, hint=hint)

    if token.type == "ELSE":
        return error("SYN09", "`else` has no matching `if`; braces may have closed it early")
    if token.text == "[" and start is token and _text(tokens, at + 1) == "[":
        return error("SYN07", f"unknown attribute `{_text(tokens, at + 2)}`", _KNOWN_ATTRIBUTES)
    if token.text == "[" and previous == "parallel":
        hint = "`parallel p by 4`, `parallel {p, q} by [4, 2]`"
        return error("SYN08", "expected a name or `{names}` after `parallel`", hint)
    if token.text in ("++", "--") and (start is token or (start.text == previous and start.type == "NAME")):
        name = _text(tokens, at + 1) if start is token else previous
        return error("SYN01", f"`{token.text}` does not exist as a statement", f"`{name} {token.text[0]}= 1`")
    if token.text == "<" and previous == "wait":
        return error("SYN14", "`wait<...>` no longer exists", "`wait e.at(order)`")
    if token.type == "NAME" and previous == ")" and "swizzle" in before and {"dma", "tma"} & set(before):
        return error("SYN14", "this place for `swizzle` no longer exists", "`dma.copy.swiz<128>`")
    if start.text in FOREIGN_LOOPS and start.type == "NAME" and ("(" in before or start.text == previous):
        return error("SYN01", f"`{start.text}` does not exist", FOREIGN_LOOPS[start.text], start)
    if start.text in ("const", "constexpr", "let", "static", "auto") and start is not tokens[0]:
        hint = "variables are immutable unless they are declared `mutable`"
        return error("SYN01", f"`{start.text}` does not exist in declarations", hint, start)
    if token.text == "[" and len(before) > 1 and before[-2] in SCALAR_TYPES:
        hint = f"`{before[-2]} [...] {previous}`"
        return error("SYN01", "the shape stands between type and name", hint)
    if token.type == "$END":
        return error("SYN13", "the function ends here, but a `}` is missing")
    return None


FOREIGN_LOOPS = {"for": "`foreach i in [4] { ... }`", "switch": "`if ... else if ...`"}
_STATEMENT_WORDS = sorted((KEYWORDS - {"by", "in", "after", "true", "false", "inf", "nullptr"}) | STORAGES)
_FIRST_WORDS = [*_STATEMENT_WORDS, *SCALAR_TYPES]
_KNOWN_ATTRIBUTES = (
    "`[[launch_bounds(...)]]` and `[[maxnreg(...)]]` belong before `parallel`, `[[schedule(...)]]` before an MMA"
)


def _text(tokens: Sequence[Token], at: int) -> str:
    return tokens[at].text if at < len(tokens) else ""
