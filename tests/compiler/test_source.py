from __future__ import annotations

import pytest

from croq_magic.compiler.source import Source, Span


def test_positions_are_counted_from_one() -> None:
    source = Source("ab\ncd\n", "p.co")
    span = source.span(4, 5)
    assert (span.name, span.line, span.column, span.end_line, span.end_column) == ("p.co", 2, 2, 2, 3)
    assert span.text == "d"


def test_a_magic_line_shifts_the_lines() -> None:
    assert Source("x\ny", "cell", first_line=2).span(2, 3).line == 3


def test_the_end_of_a_span_is_after_its_last_character() -> None:
    span = Source("ab\ncd").span(1, 5)
    assert (span.line, span.column, span.end_line, span.end_column) == (1, 2, 2, 3)


def test_a_span_that_ends_with_a_newline_ends_on_its_line() -> None:
    span = Source("ab\ncd").span(0, 3)
    assert (span.end_line, span.end_column) == (1, 4)


def test_the_end_of_the_text_is_a_place() -> None:
    span = Source("ab\n").span(3, 3)
    assert (span.line, span.column, span.end_line, span.end_column) == (2, 1, 2, 1)
    empty = Source("").span(0, 0)
    assert (empty.line, empty.column) == (1, 1)


def test_spans_join_to_what_covers_both() -> None:
    source = Source("0123456789")
    assert source.span(2, 4) | source.span(6, 8) == Span(source, 2, 8)
    assert source.span(6, 8).to(source.span(2, 4)) == Span(source, 2, 8)
    assert source.span(2, 8) | source.span(3, 4) == Span(source, 2, 8)
    assert source.span(3, 4) in source.span(2, 8)
    assert source.span(2, 8) not in source.span(3, 4)


def test_a_span_of_another_source_is_left_out() -> None:
    one, two = Source("abc"), Source("abc")
    assert one != two
    assert one.span(0, 1) | two.span(1, 2) == one.span(0, 1)
    assert two.span(0, 1) not in one.span(0, 3)


@pytest.mark.parametrize(
    ("offset", "expected"),
    [(0, ("cell", 5, 1)), (12, ("gen.co", 20, 1)), (14, ("gen.co", 21, 1))],
)
def test_line_directives_are_honoured(offset: int, expected: tuple[str, int, int]) -> None:
    source = Source('#line 20 "gen.co"\nx\ny\n'.replace("#line", "\n#line"), "cell", 5)
    text = source.text
    place = {0: 0, 12: text.index("x"), 14: text.index("y")}[offset]
    assert source.location(place) == expected


def test_line_text_has_no_newline() -> None:
    source = Source("ab\r\ncd")
    assert source.line_text(1) == "ab"
    assert source.line_text(5) == "cd"
