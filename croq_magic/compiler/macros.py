"""Macros: pcpp's expansion and condition evaluation, used on our own tokens.

pcpp never sees text (its output loses columns and knows nothing of `#p`). Our tokens are wrapped so that pcpp can read
and copy them; afterwards each knows whether it came from a macro's body or from the text itself.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pcpp

from croq_magic.compiler.diagnostics import Note, Report
from croq_magic.compiler.lexer import Token
from croq_magic.compiler.source import Span

_CPP_TYPES = {"name": "CPP_ID", "string": "CPP_STRING", "raw": "CPP_STRING"}
_CPP_OPERATORS = {
    "+": "CPP_PLUS", "-": "CPP_MINUS", "*": "CPP_STAR", "/": "CPP_FSLASH", "%": "CPP_PERCENT", "|": "CPP_BAR",
    "&": "CPP_AMPERSAND", "~": "CPP_TILDE", "^": "CPP_HAT", "<": "CPP_LESS", ">": "CPP_GREATER", "?": "CPP_QUESTION",
    "!": "CPP_EXCLAMATION", "(": "CPP_LPAREN", ")": "CPP_RPAREN", ",": "CPP_COMMA", ":": "CPP_COLON",
    "<<": "CPP_LSHIFT", ">>": "CPP_RSHIFT", "<=": "CPP_LESSEQUAL", ">=": "CPP_GREATEREQUAL", "||": "CPP_LOGICALOR",
    "&&": "CPP_LOGICALAND", "==": "CPP_EQUALITY", "!=": "CPP_INEQUALITY", "##": "CPP_DPOUND",
}  # fmt: skip


@dataclass(frozen=True)
class Macro:
    """A definition: `params` is None for `#define NAME body`."""

    name: str
    params: tuple[str, ...] | None
    body: tuple[Token, ...]
    span: Span

    def unsupported(self) -> str | None:
        """Operators of C macros that would collide with `#` of the language."""
        for token, following in zip(self.body, (*self.body[1:], None), strict=False):
            if token.text == "##":
                return "`##`"
            if token.text == "#" and following is not None and following.text in (self.params or ()):
                return f"`#{following.text}`"
        return None

    def same_as(self, other: Macro) -> bool:
        mine, theirs = ([token.text for token in macro.body] for macro in (self, other))
        return self.params == other.params and mine == theirs


class _Wrapped:
    """One of our tokens with the fields that pcpp reads and sets."""

    def __init__(self, token: Token, index: int) -> None:
        self.token = token
        self.lineno = index  # pcpp hands this on to what a macro expands to: it leads back to the place of use
        self.value = token.text
        self.source = ""
        self.type = _CPP_TYPES.get(token.kind) or _CPP_OPERATORS.get(token.text, token.type)
        if token.kind == "number":
            self.type = "CPP_INTEGER" if re.fullmatch(r"(0[xX][\da-fA-F]+|\d+)[uUlL]*", token.text) else "CPP_FLOAT"


MAX_TOKENS = 50_000  # that macros may become over all rounds, and as many for every thousand tokens of the text


class _TooMany(Exception):
    """Macros whose uses of each other grow beyond every measure."""


class Expander(pcpp.Preprocessor):  # type: ignore[misc]
    """Holds the macros that are defined at one place of the text."""

    def __init__(self, report: Report) -> None:
        super().__init__()
        self.report = report
        self.definitions: dict[str, Macro] = {}
        self.macros.clear()  # pcpp's own __DATE__ and so on
        self.expand_linemacro = self.expand_countermacro = False
        self._current: Sequence[Token] = ()
        self._failure: str | None = None
        self._work = 0

    def expand_macros(self, tokens: list[Any], expanding_from: list[str] | None = None) -> list[Any]:
        """pcpp's, which calls itself for every macro in a body; its work is limited."""
        self._work += len(tokens)
        if self._work > MAX_TOKENS * (1 + len(self._current) / 1000):
            raise _TooMany
        expanded: list[Any] = super().expand_macros(tokens, expanding_from or [])
        return expanded

    def add(self, macro: Macro) -> None:
        self.definitions[macro.name] = macro
        body = [_Wrapped(token, 0) for token in macro.body]
        theirs = pcpp.preprocessor.Macro(macro.name, body, list(macro.params) if macro.params is not None else None)
        if macro.params is not None:
            self.macro_prescan(theirs)
        self.macros[macro.name] = theirs

    def remove(self, name: str) -> None:
        self.definitions.pop(name, None)
        self.macros.pop(name, None)

    def defined(self, name: str) -> bool:
        return name in self.definitions

    def expand(self, tokens: Sequence[Token]) -> list[Token]:
        """The tokens with all macros replaced. What comes from a body gets the span of the macro's name in `tokens`;
        every use is recorded, so that a finding there can point to the definition."""
        used = [at for at, token in enumerate(tokens) if token.kind == "name" and token.text in self.definitions]
        if not used:
            return list(tokens)
        for at in used:
            macro = self.definitions[tokens[at].text]
            if operator := macro.unsupported():
                self._error(tokens[at], f"{operator} in the body of the macro `{macro.name}` is not supported", "PRE07")
                return list(tokens)
        own = {id(token) for token in tokens}
        self._current = tokens
        self._work = 0
        try:
            expanded = self.expand_macros([_Wrapped(token, at) for at, token in enumerate(tokens)])
        except _TooMany:
            name = tokens[used[0]].text
            self._error(tokens[used[0]], f"`{name}` and what it uses become more than {MAX_TOKENS:,} tokens", "PRE07")
            return list(tokens)
        result = []
        for wrapped in expanded:
            if not isinstance(wrapped, _Wrapped) or wrapped.value == " ":
                continue  # a blank that pcpp adds
            if id(wrapped.token) in own:
                result.append(wrapped.token)
                continue
            use = tokens[wrapped.lineno]
            self.report.expanded(use.span, self.definitions[use.text].name, self.definitions[use.text].span)
            result.append(replace(wrapped.token, span=use.span))
        return result

    def evaluate(self, tokens: Sequence[Token]) -> tuple[bool, str | None]:
        """The truth of a condition, and what is wrong with it if anything is."""
        self._current, self._failure, self._work = tokens, None, 0
        value: Any = 0
        if not tokens:
            return False, "the condition is missing"
        with contextlib.suppress(Exception):  # whatever pcpp trips over: the condition counts as false
            value, _ = self.evalexpr([_Wrapped(token, at) for at, token in enumerate(tokens)])
            return bool(value), self._failure
        return False, self._failure or "cannot evaluate this condition"

    def on_error(self, file: str, line: int, msg: str) -> None:
        """pcpp's complaints: `line` is the index of a token."""
        if match := re.match(r"Macro (\w+) requires (\d+) arguments? but was passed (\d+)", msg):
            name, wanted, found = match[1], int(match[2]), match[3]
            plural = "argument" if wanted == 1 else "arguments"
            token = self._current[line] if line < len(self._current) else self._current[0]
            self._error(token, f"`{name}` takes {wanted} {plural}, found {found}", "PRE04")
        elif "ZeroDivision" in msg or "division" in msg:
            self._failure = "division by zero in `#if`"
        else:
            self._failure = "cannot evaluate this condition"

    def _error(self, token: Token, message: str, code: str) -> None:
        macro = self.definitions.get(token.text)
        notes = [Note(f"`{macro.name}` is defined here", macro.span)] if macro else []
        self.report.error(code, message, token.span, notes=notes)


def predefined(names: Mapping[str, str]) -> list[tuple[str, str]]:
    """Pairs of name and text, `-D NAME` without a value counting as 1."""
    return [(name, text if text.strip() else "1") for name, text in names.items()]
