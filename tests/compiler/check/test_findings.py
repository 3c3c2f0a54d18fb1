"""Findings beside those of the catalogue: one line each, with its code, the text under the caret and its message."""

from __future__ import annotations

import numpy as np
import pytest

import croq_magic as croq

FINDINGS = [
    ("a = dma.copy g.chunk(0, 1).at(0, 0) => local;", "SHP01", "0", "chunk count 0 of dimension 0 must be at least 1"),
    (
        "a = dma.copy g.subspan(1, 1).step(1, 0).at(0, 0) => local;",
        "SHP01",
        "0",
        "step 0 of dimension 1 must be at least 1",
    ),
    (
        "a = dma.copy g.view(2, 2 : -1, 1).from(0, 0) => local;",
        "VEW07",
        ".view(2, 2 : -1, 1).from(0, 0)",
        "stride -1 of dimension 0 must not be negative",
    ),
    (
        "a = dma.copy g.view(2, 2 : 16, 1).from(0, 0 - 1) => local;",
        "VEW07",
        ".view(2, 2 : 16, 1).from(0, 0 - 1)",
        "origin -1 of dimension 1 must not be negative",
    ),
    ("shared f32 [9, 16] t; dma.copy g => t;", "DMA04", "t", "row 8 of `t` becomes zero"),
    ("shared f32 [8, 20] t; dma.copy g => t;", "DMA04", "t", "elements 16..19 of dimension 1 of `t` become zero"),
    (
        "with k in 7 { a = dma.copy g.chunkat(k, _) => local; }",
        "VEW03",
        "k",
        "8 is not a multiple of 7; row 7 is never addressed",
    ),
    ("x = 1 + call use();", "CAL06", "call use()", "a call is not an operand"),
]


@pytest.mark.parametrize(("text", "code", "marked", "message"), FINDINGS)
def test_finding(text: str, code: str, marked: str, message: str) -> None:
    source = f"__co__ void f(f32 [8, 16] g, int n) {{\n parallel b by 1 : block {{\n  {text}\n }}\n}}\n"
    (found,) = [d for d in croq.check(source, target="cpu") if d.code == code]
    assert (found.code, found.span.text, found.message) == (code, marked, message)
    assert found.span.line == 3


@pytest.mark.parametrize(
    ("text", "n", "message"),
    [
        ("dma.copy g.subspan(2, 2).step(n, 1).at(1, 0) => r;", 0, "step n of dimension 0 must be at least 1 (n = 0)"),
        ("dma.copy g.view(2, 2 : n, 1).from(0, 0) => r;", -1, "stride n of dimension 0 must not be negative (n = -1)"),
        ("dma.copy g.view(2, 2 : 16, 1).from(0, n) => r;", -1, "origin n of dimension 1 must not be negative (n = -1)"),
    ],
)
def test_what_depends_on_arguments_is_checked_at_entry(text: str, n: int, message: str) -> None:
    source = f"__co__ auto f(f32 [8, 16] g, int n) {{ f32 [2, 2] r; parallel by 1 : block {{ {text} }} return r; }}"
    program = croq.compile(source, target="cpu")
    with pytest.raises(croq.CheckError) as caught:
        program.f(np.zeros((8, 16), np.float32), n)
    assert message in str(caught.value)


def test_contiguity_that_depends_on_extents_is_checked_at_entry() -> None:
    source = (
        "__co__ f32 [4] f(f32 [M, N] x) { f32 [4] r; parallel by 1 "
        "{ v = x.chunk(1, 2).at(0, 1).span_as(4); dma.copy v => r; } return r; }"
    )
    program = croq.compile(source, target="cpu")
    found = [d.code for d in program.diagnostics if d.severity == "warning"]
    assert [code for code in found if code != "DMA26"] == ["VEW09"]  # on a GPU the copy is a slow one, besides
    x = np.arange(8, dtype=np.float32)
    np.testing.assert_array_equal(program.f(x[None]), x[4:])
    with pytest.raises(croq.CheckError, match=r"the view is not contiguous \(strides N, 1\)"):
        program.f(x.reshape(2, 4))
