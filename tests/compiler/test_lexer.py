from __future__ import annotations

import re

import pytest

from croq_magic.compiler import lexer, tables
from croq_magic.compiler.diagnostics import Report
from croq_magic.compiler.source import Source


def texts(text: str) -> list[str]:
    report = Report()
    tokens = lexer.lex(Source(text), 0, len(text), report)
    assert not len(report), report.text()
    return [token.text for token in tokens]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("p#q #- 1 #-1 # -1", ["p", "#", "q", "#-", "1", "#-", "1", "#", "-", "1"]),
        ("a<->b => c", ["a", "<->", "b", "=>", "c"]),
        ("x.data . at(1)", ["x", ".data", ".at", "(", "1", ")"]),
        ("a += b - = c", ["a", "+=", "b", "-=", "c"]),
        ("a == b >= c", ["a", "==", "b", ">=", "c"]),
        ("?? ? a::b i(1::2)", ["??", "?", "a", "::", "b", "i", "(", "1", ":", ":", "2", ")"]),
        (": group-4 group", [":", "group-4", "group"]),
        ("1.5f .5 1. 1e-3 2.0e4f 0x1F 17ull", ["1.5f", ".5", "1.", "1e-3", "2.0e4f", "0x1F", "17ull"]),
        ("a-1.0f", ["a", "-", "1.0f"]),
        ("0x1E-1", ["0x1E", "-", "1"]),
        ("a/b//c\n/*d*/e", ["a", "/", "b", "e"]),
        ("[[launch_bounds(1)]] [[M]]", ["[[", "launch_bounds", "(", "1", ")", "]", "]", "[", "[", "M", "]", "]"]),
    ],
)
def test_tokens(text: str, expected: list[str]) -> None:
    assert texts(text) == expected


def test_positions() -> None:
    source = Source("  ab\n\tc", "cell", 2)
    spans = [token.span for token in lexer.lex(source, 0, 7, Report())]
    assert [(span.line, span.column, span.end_column) for span in spans] == [(2, 3, 5), (3, 2, 3)]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('"a\\n\\t\\"\\\\"', 'a\n\t"\\'),
        ('"100\\%"', "100\\%"),
        ('R"(a\\n")"', 'a\\n"'),
        ('R"x(a)")x"', 'a)"'),
    ],
)
def test_strings(text: str, value: str) -> None:
    (token,) = lexer.lex(Source(text), 0, len(text), Report())
    assert lexer.string_value(token) == value


@pytest.mark.parametrize(
    ("text", "value"),
    [("17", 17), ("0", 0), ("0X1f", 31), ("17u", 17), ("17LL", 17), ("2.5f", 2.5), ("1e3", 1000.0), (".5", 0.5)],
)
def test_numbers(text: str, value: float) -> None:
    assert lexer.spell_number(text) == value
    assert isinstance(lexer.spell_number(text), type(value))


@pytest.mark.parametrize("text", ["017", "1.2.3", "0x", "12abc", "1f", "3uu", "1e"])
def test_malformed_numbers(text: str) -> None:
    assert lexer.spell_number(text) is None


@pytest.mark.parametrize(
    ("text", "column", "message"),
    [
        ('x "abc', 3, "a string is not closed on its line"),
        ("x 'a'", 3, "character literals do not exist: 'a'"),
        ("x $", 3, "unexpected character `$`"),
        ("naïve", 1, "`naïve`: names consist of the letters a-z, digits and `_`"),
        ("x /* y", 3, "end of file inside a comment opened at line 1"),
    ],
)
def test_bad_characters(text: str, column: int, message: str) -> None:
    report = Report()
    lexer.lex(Source(text), 0, len(text), report)
    (found,) = report
    assert (found.message, found.span.column) == (message, column)


def test_the_lexer_and_the_grammar_name_the_same_terminals() -> None:
    """Every word and sign that stands in quotes in the grammar is a token of the lexer with the grammar's name."""
    grammar = tables.GRAMMAR.read_text()
    rules = re.sub(r"//.*", "", grammar)
    words = set(re.findall(r'"([^"]+)"', rules))
    assert {"parallel", "=>", "["} <= words
    terminals = {symbol for row in tables.load().states for symbol in row if symbol.isupper()}
    for word in words - {"[["}:  # one token only before the name of an attribute
        (token,) = lexer.lex(Source(word), 0, len(word), Report())
        assert token.type in terminals, word
