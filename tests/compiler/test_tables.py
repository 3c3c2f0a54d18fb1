from __future__ import annotations

from pathlib import Path

import pytest

from croq_magic.compiler import tables


def test_the_stored_table_belongs_to_the_grammar() -> None:
    """After a change of grammar.lark: `python -m croq_magic.compiler.tables`."""
    pytest.importorskip("lark")
    grammar = tables.GRAMMAR.read_text()
    assert tables.FILE.read_text() == tables.encode(tables.build(grammar), grammar)


def test_the_stored_table_is_the_built_one() -> None:
    pytest.importorskip("lark")
    stored = tables.load.__wrapped__()
    built = tables.build(tables.GRAMMAR.read_text())
    assert list(stored.states) == list(built.states)
    assert list(stored.rules) == list(built.rules)
    assert (stored.start, stored.accept) == (built.start, built.accept)


@pytest.mark.parametrize("contents", [None, "", "{", '{"grammar": "of another grammar"}'])
def test_without_a_usable_file_the_table_is_built(
    contents: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("lark")
    expected = tables.load()
    monkeypatch.setattr(tables, "FILE", tmp_path / "table.json")
    if contents is not None:
        tables.FILE.write_text(contents)
    assert list(tables.load.__wrapped__().states) == list(expected.states)


def test_the_only_conflicts_are_the_known_ones(caplog: pytest.LogCaptureFixture) -> None:
    """lark resolves shift-reduce conflicts silently; a new one would be a mistake in the grammar."""
    lark = pytest.importorskip("lark")
    lark.logger.setLevel("DEBUG")
    lark.logger.propagate = True
    try:
        with caplog.at_level("DEBUG", logger=lark.logger.name):
            options = {"parser": "lalr", "keep_all_tokens": True, "maybe_placeholders": True, "debug": True}
            lark.Lark(tables.GRAMMAR.read_text(), lexer=tables.no_lexer(), **options)
    finally:
        lark.logger.setLevel("CRITICAL")
    conflicts = {
        record.getMessage().split("terminal ")[1].split(":")[0]
        for record in caplog.records
        if "conflict" in record.getMessage()
    }
    assert conflicts == {"ELSE", "LPAR", "STRING"}
