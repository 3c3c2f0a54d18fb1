"""The programs in the documentation compile without a word."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import croq_magic as croq

DOCS = Path(__file__).parent.parent / "docs"
CELLS = re.findall(r"```croqtile\n(.*?)```", (DOCS / "language.md").read_text(), re.DOTALL)


@pytest.mark.parametrize("cell", CELLS, ids=lambda cell: re.findall(r"__co__ .*?(\w+)\(", cell)[0])
def test_program_of_the_language_page(cell: str) -> None:
    assert [str(d) for d in croq.check(cell, target="cpu")] == []


def test_there_are_programs() -> None:
    assert len(CELLS) == 6
