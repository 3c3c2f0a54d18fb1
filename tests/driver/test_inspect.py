"""The stages without a C++ compiler: `-E`, `-e`, `-i`, `--show`, `--explain`."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from driver.conftest import Run

from croq_magic.compiler.codes import CODES
from croq_magic.driver.explain import explain

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = sorted((ROOT / "tests" / "programs").glob("*/*.co"))

MACROS = """\
#include <cstdio>
#define ROWS(a, b) ((a) * (b) + 1)
#define N 16  // the extent
/* host */ int host() { return N; }\t
__co__ s32 [N] f(s32 [N] x) {   // a comment
#if N > 8
  s32 [N] r;   /* two
  lines */ int k = ROWS(2, N)+-N;
#else
  nonsense N;
#endif
\tparallel p by N
    r.at(p) = x.at(p) + #p * __LINE__
       + k;
  return r;
}
#if 0
__co__ void g() { N }
#endif
int main() { return host(); }
"""
EXPANDED = """\
#include <cstdio>
#define ROWS(a, b) ((a) * (b) + 1)
#define N 16  // the extent
/* host */ int host() { return N; }\t
__co__ s32 [16] f(s32 [16] x) {

  s32 [16] r;
           int k = (( 2)*(16)+1) +-16;



\tparallel p by 16
    r.at(p) = x.at(p) + #p * 13
       + k;
  return r;
}
#if 0

#endif
int main() { return host(); }
"""


def test_preprocessing_touches_tileflow_functions_only(here: Path, croqtile: Run) -> None:
    (here / "m.co").write_text(MACROS)
    assert croqtile("-E", "m.co") == (0, EXPANDED, "")


def test_line_ends_stay(here: Path, croqtile: Run) -> None:
    (here / "m.co").write_bytes(MACROS.replace("\n", "\r\n").encode())
    croqtile("-E", "m.co", "-o", "out")
    assert (here / "out").read_bytes() == EXPANDED.replace("\n", "\r\n").encode()


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_preprocessing_twice_is_preprocessing_once(path: Path, here: Path, croqtile: Run) -> None:
    once = croqtile("-E", str(path))
    (here / "once.co").write_text(once.out)
    assert croqtile("-E", "once.co") == once
    assert once.out.count("\n") == path.read_text().count("\n")


def test_definitions_from_outside(function: Path, croqtile: Run) -> None:
    assert "s32 [4] twice(s32 [4] x)" in croqtile("-E", "-DN=4", "twice.co").out
    assert "s32 [N] twice(s32 [N] x)" in croqtile("-E", "-DN=4", "-UN", "twice.co").out


def test_quoted_includes_are_looked_for_in_folders(here: Path, croqtile: Run) -> None:
    (here / "inc").mkdir()
    (here / "inc" / "sizes.h").write_text("#define N 23\n")
    (here / "a.co").write_text('#include "sizes.h"\n__co__ void f(s32 [N]& x) { x.at(0) = N; }\n')
    assert "x.at(0) = N;" in croqtile("-E", "a.co").out
    assert "s32 [23]& x) { x.at(0) = 23;" in croqtile("-E", "-Iinc", "a.co").out


def test_the_tree(function: Path, croqtile: Run) -> None:
    result = croqtile("-e", "twice.co")
    assert result.status == 0
    assert "Parallel" in result.out
    assert "@3:3" in result.out


def test_types(here: Path, croqtile: Run) -> None:
    (here / "a.co").write_text(
        """\
__co__ f32 [M, 6] f(f32 [M, 6] x, int n) {
  f32 [M, 6] r;
  t = {4, 2};
  parallel p by M {
    y = dma.copy x.subspan(1, 3).at(p, 1) => local;
    mutable f32 s = 0.0f;
    foreach i in [3] s += y.data.at(0, i);
    r.at(p, 0) = s;
  }
  return r;
}
"""
    )
    plain = croqtile("-i", "a.co")
    assert plain.status == 0
    rows = {tuple(line.split(maxsplit=2)) for line in plain.out.splitlines()[1:]}
    assert plain.out.splitlines()[0] == "f32 [M, 6] f(f32 [M, 6] x, s32 n)"
    assert rows == {
        ("1:26", "M", "s32"),
        ("1:32", "x", "f32 [M, 6]"),
        ("1:39", "n", "s32"),
        ("2:14", "r", "f32 [M, 6]"),
        ("3:3", "t", "ituple<2> {4, 2}"),
        ("4:12", "p", "int in 0..M"),
        ("5:5", "y", "future of local f32 [1, 3]"),
        ("6:17", "s", "mutable f32"),
        ("7:13", "i", "ituple<1> in [3]"),
    }
    detailed = croqtile("-ii", "a.co").out
    assert "x  f32 [M, 6]                  strides (6, 1), contiguous, in global x" in detailed
    assert "strides (3, 1), contiguous, in local y" in detailed


def test_types_of_a_wrong_program_are_not_shown(here: Path, croqtile: Run) -> None:
    (here / "a.co").write_text("__co__ void f(s32 [4]& x) { x.at(0) = y; }\n")
    result = croqtile("-i", "a.co")
    assert (result.status, result.out) == (1, "")
    assert result.err.startswith("a.co:1:39: error: unknown name `y` [NAM10]\n")


def test_show(function: Path, croqtile: Run) -> None:
    result = croqtile("--show", "-DN=12", "twice.co")
    assert result.status == 0
    assert "launches of twice\n  " in result.out
    assert "grid 1 × 1 × 1, block 12 × 1 × 1, 0 bytes shared" in result.out or "grid 12" in result.out
    symbolic = croqtile("--show", "twice.co")
    assert symbolic.status == 1
    assert symbolic.err == "croqtile: error: twice has symbolic dimensions; --sizes N=N gives them\n"
    assert croqtile("--show", "--sizes", "N=12,K=4", "twice.co").out == result.out
    assert "func twice" in croqtile("--show=ir", "twice.co").out


def test_pictures(function: Path, croqtile: Run, here: Path) -> None:
    assert croqtile("--show=tiling", "-DN=12", "twice.co", "-o", "t.svg") == (0, "", "")
    assert "<svg" in (here / "t.svg").read_text()
    assert croqtile("--show=tiling,mapping", "-DN=12", "twice.co", "-o", "p.png").status == 0
    for kind in ("tiling", "mapping"):
        assert (here / f"p-twice-{kind}.png").read_bytes().startswith(b"\x89PNG")
    assert "ir is text" in croqtile("--show=ir", "twice.co", "-o", "t.svg").err


def test_standard_input(croqtile: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "__co__ void f(s32 [4]& x) { x.at(0) = y; }\n"
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(text.encode())))
    assert croqtile("-i", "-").err.startswith("<stdin>:1:39: error: unknown name `y`")
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(text.encode())))
    assert croqtile("-E", "-o", "-", "-").out == text


def test_several_files(function: Path, here: Path, croqtile: Run) -> None:
    (here / "b.co").write_text("int x;\n")
    assert croqtile("-E", "b.co", "twice.co").out == "int x;\n" + function.read_text()


@pytest.mark.parametrize("code", CODES)
def test_every_code_is_explained(code: str) -> None:
    text = explain(code.lower())
    assert text.startswith(f"{code} ({CODES[code].severity}): {CODES[code].title}")
    assert "\nSubject: " in text


def test_explain(croqtile: Run) -> None:
    assert "more chunks" not in croqtile("--explain", "NAM10").out.lower()
    assert "hint: did you mean `tile`?" in croqtile("--explain=NAM10").out
    wrong = croqtile("--explain", "VEW0")
    assert wrong.status == 2
    assert "no diagnostic VEW0; did you mean VEW" in wrong.err
