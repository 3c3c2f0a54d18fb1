"""Whatever is typed, the front end answers with findings, never with an exception of its own."""

from __future__ import annotations

from pathlib import Path

from compiler.catalogue import CATALOGUE, program
from compiler.frontend import read
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from croq_magic.compiler.diagnostics import Report, show
from croq_magic.compiler.lexer import lex
from croq_magic.compiler.source import Source
from croq_magic.compiler.syntax_text import dump

TEXTS = [path.read_text() for path in sorted((Path(__file__).parents[1] / "programs").rglob("*.co"))]
TEXTS += [program(entry) for entry in CATALOGUE]
WORDS = sorted(
    {token.text for text in TEXTS for token in lex(Source(text), 0, len(text), Report()) if len(token.text) < 20}
)

quick = settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))


def judge(text: str) -> None:
    functions, findings = read(text)
    for found in findings:
        assert 0 <= found.span.start <= found.span.end <= len(text)
        assert show(found)
    for function in functions:
        if function is not None:
            assert dump(function)
    if any(function is None for function in functions):
        assert any(found.severity == "error" for found in findings)


@quick
@given(st.data())
def test_programs_with_tokens_changed(data: st.DataObject) -> None:
    text = data.draw(st.sampled_from(TEXTS))
    spans = [token.span for token in lex(Source(text), 0, len(text), Report())]
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(spans) - 1))
        start, end = spans[at].start, spans[at].end
        word = data.draw(st.sampled_from(["", *WORDS]))
        keep = data.draw(st.booleans())
        text = text[:start] + (text[start:end] if keep else "") + f" {word} " + text[end:]
        if len(text) < max(span.end for span in spans):
            break
    judge(text)


@quick
@given(st.lists(st.sampled_from(WORDS), max_size=40))
def test_words_in_any_order(words: list[str]) -> None:
    judge("__co__ void f(f32 [8, 16] g, int n) {\n" + " ".join(words) + "\n}\n")


@quick
@given(st.text(alphabet="{}()[];,.#=+-<>|&:?!\"'/*\\\n x1_R", max_size=60))
def test_characters_in_any_order(text: str) -> None:
    judge("__co__ void f() { " + text)
    judge(text)


@quick
@given(st.data())
def test_programs_cut_short(data: st.DataObject) -> None:
    text = data.draw(st.sampled_from(TEXTS))
    judge(text[: data.draw(st.integers(0, len(text)))])
