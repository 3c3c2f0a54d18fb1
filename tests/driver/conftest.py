"""A folder to work in, and the driver as a function."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from croq_magic.driver import main

FUNCTION = """\
__co__ s32 [N] twice(s32 [N] x) {
  s32 [N] r;
  parallel p by N
    r.at(p) = x.at(p) * 2;
  return r;
}
"""


class Result(NamedTuple):
    """What one command line came to."""

    status: int
    out: str
    err: str


Run = Callable[..., Result]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder: empty, and removed afterwards."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def croqtile(here: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs the driver in this process."""

    def run(*words: str) -> Result:
        capsys.readouterr()
        status = main(words)
        captured = capsys.readouterr()
        return Result(status, captured.out, captured.err)

    return run


@pytest.fixture
def function(here: Path) -> Path:
    """A file with one function and no `main`."""
    path = here / "twice.co"
    path.write_text(FUNCTION)
    return path
