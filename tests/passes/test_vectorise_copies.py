"""vectorise-copies: the widest access by alignment and extents."""

from __future__ import annotations

import pytest
from passes.cells import front

from croq_magic.compiler import ir
from croq_magic.compiler.passes.base import Context, run_passes
from croq_magic.compiler.passes.vectorise_copies import VectoriseCopies, width_of
from croq_magic.compiler.visit import walk


def widths(copy: str, params: str = "f32 [64, 96] x", **options: object) -> list[int]:
    """Bytes of the accesses of the copies in a kernel of 3 blocks."""
    functions, report = front(f"__co__ void f({params}) {{ parallel p by 3 : block, t by 32 : thread {{ {copy} }} }}")
    assert not report.errors, report.text()
    function = run_passes(functions["f"], [VectoriseCopies(**options)], Context())  # type: ignore[arg-type]
    return [width_of(node) for node in walk(function.body) if isinstance(node, ir.Copy)]


@pytest.mark.parametrize(
    ("copy", "width"),
    [
        ("a = dma.copy x => shared;", 16),
        ("a = dma.copy x.subspan(8, 32).at(p, p) => shared;", 16),
        ("a = dma.copy x.subspan(8, 6).at(p, p) => shared;", 8),  # columns start at multiples of 6
        ("a = dma.copy x.subspan(8, 2).at(p, p) => shared;", 8),
        ("a = dma.copy x.subspan(8, 3).at(p, p) => shared;", 4),
        ("a = dma.transp<1, 0> x => shared;", 4),
        ("a = dma.copy x.view(8, 32 : 96, 2).from(0, 0) => shared;", 4),  # every other column
        ("a = dma.copy x => local;", 4),
    ],
)
def test_windows_of_an_array(copy: str, width: int) -> None:
    assert widths(copy) == [width]


@pytest.mark.parametrize(
    ("element", "extent", "width"), [("f16", 8, 16), ("f16", 6, 4), ("u8", 16, 16), ("u8", 7, 1), ("f64", 3, 8)]
)
def test_element_types(element: str, extent: int, width: int) -> None:
    params = f"{element} [{extent * 4}] x"
    assert widths(f"a = dma.copy x.subspan({extent}).at(p) => shared;", params) == [width]


def test_symbolic_rows_are_as_wide_as_the_extents_allow() -> None:
    assert widths("a = dma.copy x.subspan(8, 32).at(0, p) => shared;", "f32 [M, N] x") == [4]
    assert widths("a = dma.copy x.subspan(8, 32).at(0, p) => shared;", "f32 [M, 96] x") == [16]


def test_zero_filled_edges() -> None:
    """Chunks that are inside or outside as a whole."""
    copy = "a = dma.copy x.subspan(8, 32).at(p, p).zfill => shared;"
    assert widths(copy, "f32 [21, 68] x") == [16]
    assert widths(copy, "f32 [21, 70] x") == [8]
    assert widths(copy, "f32 [21, 69] x") == [4]


def test_options() -> None:
    copy = "a = dma.copy x => shared;"
    assert widths(copy, largest=8) == [8]
    assert widths(copy, global_bytes=4) == [4]
    assert widths("a = dma.copy x.subspan(1, 96).at(p, 0) => local;", private=True) == [16]
