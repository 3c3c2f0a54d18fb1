from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest
from compiler.catalogue import CATALOGUE

from croq_magic.compiler.codes import CODES
from croq_magic.compiler.diagnostics import Diagnostic, Note, Report, show, underline
from croq_magic.compiler.source import Source
from croq_magic.errors import CompileError, CroqError


@pytest.fixture
def source() -> Source:
    return Source("int k = 1;\n\tk = 22;\n", "cell", first_line=2)


def test_the_full_text(source: Source) -> None:
    found = Diagnostic(
        "error",
        "TYP01",
        "`k` is immutable",
        source.span(12, 13),
        (Note("declared here", source.span(4, 5)), Note("scalars are immutable by default")),
        "declare it `mutable int k`",
    )
    assert str(found) == (
        "cell:3:2: error: `k` is immutable [TYP01]\n"
        "    \tk = 22;\n"
        "    \t^\n"
        "cell:2:5: note: declared here\n"
        "    int k = 1;\n"
        "        ^\n"
        "note: scalars are immutable by default\n"
        "hint: declare it `mutable int k`"
    )


def test_a_span_is_underlined() -> None:
    assert underline("x = 22;", 4, 6) == "    ^~"
    assert underline("\tx = 22;", 1, 2) == "\t^"
    assert underline('f("漢字", y)', 8, 9) == " " * 10 + "^"


def test_a_span_of_several_lines_is_underlined_to_the_end_of_its_first() -> None:
    source = Source("parallel {\n}\n")
    text = show(Diagnostic("error", "SYN01", "m", source.span(0, 12)))
    assert text.splitlines()[2] == "    ^~~~~~~~~~"


def test_a_place_at_the_end_shows_no_empty_line() -> None:
    source = Source("x\n")
    assert show(Diagnostic("error", "SYN13", "m", source.span(2, 2))) == "cell:2:1: error: m [SYN13]"


def test_a_report_is_sorted_and_without_repetitions(source: Source) -> None:
    report = Report()
    report.error("TYP01", "second", source.span(12, 13))
    report.warning("TYP06", "first", source.span(0, 3))
    report.error("TYP01", "second", source.span(12, 13))
    report.report("TYP07", "by its code a warning", source.span(13, 14))
    assert [found.message for found in report] == ["first", "second", "by its code a warning"]
    assert [found.severity for found in report] == ["warning", "error", "warning"]
    assert len(report.errors) == 1
    assert len(report.warnings) == 2


def test_errors_are_raised_with_everything_that_was_found(source: Source) -> None:
    report = Report()
    report.warning("TYP06", "careful", source.span(0, 3))
    report.raise_errors()
    report.error("TYP01", "wrong", source.span(12, 13))
    with pytest.raises(CompileError, match="wrong") as caught:
        report.raise_errors()
    assert [found.code for found in caught.value.diagnostics] == ["TYP06", "TYP01"]
    assert isinstance(caught.value, CroqError)
    assert "CompileError:" in caught.value._render_traceback_()


def test_after_twenty_errors_comes_a_total(source: Source) -> None:
    report = Report()
    for number in range(25):
        report.error("TYP01", f"error {number:02}", source.span(0, 1))
    text = report.text()
    assert text.count("[TYP01]") == 20
    assert text.endswith("25 errors, the first 20 are shown")


def test_warnings_can_count_as_errors(source: Source) -> None:
    report = Report()
    report.warning("TYP06", "careful", source.span(0, 3))
    assert not report.has_errors
    assert report.as_errors().has_errors


def test_a_finding_in_a_macro_points_to_its_definition(source: Source) -> None:
    report = Report()
    report.expanded(source.span(12, 13), "k", source.span(4, 5))
    report.error("TYP01", "wrong", source.span(12, 13))
    (found,) = report
    assert found.notes == (Note("in expansion of macro `k`", source.span(4, 5)),)


def test_the_table_has_every_code_of_the_catalogue() -> None:
    assert {entry.code for entry in CATALOGUE} <= set(CODES)
    assert len(CATALOGUE) == 199
    for code in CODES.values():
        assert code.severity in ("error", "warning", "note")
        assert code.title


def test_the_documentation_is_in_step() -> None:
    """After a change of the codes: `python scripts/diagnostics_doc.py`."""
    root = Path(__file__).parents[2]
    specification = importlib.util.spec_from_file_location("doc", root / "scripts" / "diagnostics_doc.py")
    assert specification is not None
    assert specification.loader is not None
    script = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(script)
    text = (root / "docs" / "diagnostics.md").read_text(encoding="utf-8")
    assert text == script.page()
    examples = root / "croq_magic" / "compiler" / "explanations.json"
    assert examples.read_text(encoding="utf-8") == script.explanations()
    for code in CODES.values():
        assert f"| {code.code} | {code.severity} | {code.title} |" in text, code.code
