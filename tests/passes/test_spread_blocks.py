"""spread-blocks: instances of a lone level as threads, and what keeps them blocks."""

from __future__ import annotations

import pytest
from passes.cells import front

from croq_magic.compiler.passes.base import Context, run_passes
from croq_magic.compiler.passes.spread_blocks import SpreadBlocks
from croq_magic.compiler.text import format_function


def kernel(body: str, params: str = "s32 [M, 90]& x", **options: int) -> list[str]:
    """The lines of the kernel after the pass."""
    functions, report = front(f"__co__ void f({params}) {{ {body} }}")
    assert not report.errors, report.text()
    lines = format_function(run_passes(functions["f"], [SpreadBlocks(**options)], Context())).splitlines()
    start = next(i for i, line in enumerate(lines) if "region" in line)
    return [line.strip() for line in lines[start:] if line.strip(" }")]


def test_one_index() -> None:
    assert kernel("parallel p by 1000 x.at(0, p % 90) = p;", width=64, units=1) == [
        "region block [tile < 16] {",
        "region thread [unit < 64] implied {",
        "let p: s32 = tile * 64 + unit",
        "if p < 1000 {",
        "x[0, p % 90] = p",
    ]


def test_whole_blocks_need_no_condition() -> None:
    assert kernel("parallel p by 128 x.at(0, 1) = p;", width=64, units=1)[:3] == [
        "region block [tile < 2] {",
        "region thread [unit < 64] implied {",
        "let p: s32 = tile * 64 + unit",
    ]


def test_neighbours_run_along_memory() -> None:
    """`j` is the last dimension of `x`, so that it changes fastest, though `i` is the first index."""
    lines = kernel("parallel {i, j} by [7, 60] x.at(i, j) = i;")
    assert "let j: s32 = place % 60" in lines
    assert "let i: s32 = place / 60" in lines
    lines = kernel("parallel {i, j} by [60, 7] x.at(j, i) = i;")
    assert "let i: s32 = place % 60" in lines
    assert "let j: s32 = place / 60" in lines


def test_arrays_as_one_row() -> None:
    """Where all accesses are at the place of the instance itself, no index is computed for them."""
    assert kernel("parallel {i, j, k} by [3, 4, 2] y.at(i, j, k) = i;", "s32 [3, 4, 2]& y", width=64, units=1) == [
        "region block [tile < 1] {",
        "region thread [unit < 24] implied {",
        "let i: s32 = unit / 8",
        "y[unit / 8, unit / 2 % 4, unit % 2] = i",
    ]
    lines = kernel("parallel {i, j} by [7, 60] x.at(i, j) = 1;")  # a window of rows of 90
    assert "let j: s32 = place % 60" in lines and "let i: s32 = place / 60" in lines


def test_symbolic_extents() -> None:
    lines = kernel("parallel {i, j} by [M, 90] x.at(i, j) = i;")
    assert lines[0] == "region block [tile < (M * 90 + 255) / 256] {"
    assert "let place: s64 = tile * 256 + unit" in lines
    assert "if place < s64(90) * s64(M) {" in lines


def test_small_launches_have_small_blocks() -> None:
    """Enough blocks for all processors come before large blocks."""
    assert kernel("parallel p by 20 x.at(0, 1) = p;")[1] == "region thread [p < 20] implied {"
    assert kernel("parallel p by 5000 x.at(0, 1) = p;")[1] == "region thread [unit < 32] implied {"
    assert kernel("parallel p by 500000 x.at(0, 1) = p;")[1] == "region thread [unit < 256] implied {"


def test_an_index_that_nothing_uses_is_not_computed() -> None:
    lines = kernel("parallel {i, j} by [7, 9] x.at(0, j) = 3;")
    assert not any(line.startswith("let i") for line in lines)


@pytest.mark.parametrize(
    "body",
    [
        "parallel p by 9 { shared s32 [4] s; s.at(p % 4) = p; x.at(0, p) = s.at(p % 4); }",
        "parallel p by 9 { v = x.chunk(1, 90).at(0, 0); v += 1; }",
        "parallel p by 9 { dma.copy x.subspan(1, 9).at(0, 0) => x.subspan(1, 9).at(0, 9); }",
        'parallel p by 9 { println("p", p); }',
        "parallel p by 9 : block, t by 4 : thread { x.at(0, p) = t; }",
        "parallel p by 9 : block<cooperative> { x.at(0, p) = 1; }",
    ],
)
def test_instances_that_can_tell_stay_blocks(body: str) -> None:
    params = "s32 [M, 90]& x" if "chunk" not in body else "s32 [1, 90]& x"
    assert kernel(body, params)[0].startswith("region block [p < 9]")


def test_short_bodies_share_threads() -> None:
    """Several instances a thread, a block apart, where there are plenty of them; the last block has what is left."""
    text = "parallel p by 1000 y.at(p) = x.at(p * 2);"
    params = "s32 [2000] x, s32 [1000]& y"
    assert kernel(text, params, width=32, units=2) == [
        "region block [tile < 8] {",
        "region thread [unit < 32] implied {",
        "if tile < 7 {",
        "for unroll turn in 0..4 {",
        "let p: s32 = tile * 128 + unit + turn * 32",
        "y[p] = x[p * 2]",
        "} else {",
        "for p in tile * 128 + unit..1000 step 32 unroll(4) {",
        "y[p] = x[p * 2]",
    ]
    assert "turn in" not in "".join(kernel(text, params, width=32, units=8))  # too few
    assert "if tile" not in "".join(kernel(text.replace("1000", "896"), params, width=32, units=2))  # no rest


def test_neighbours_as_lanes_of_vectors() -> None:
    assert kernel("parallel p by 1000 y.at(p) = x.at(p);", "s32 [1000] x, s32 [1000]& y", width=32, units=2) == [
        "region block [tile < 4] {",
        "region thread [unit < 32] implied {",
        "if tile < 3 {",
        "for unroll turn in 0..2 {",
        "let place: s32 = tile * 256 + unit * 4 + turn * 128",
        "for unroll e in 0..4 {",
        "let p: s32 = place + e",
        "y[p] = x[p]",
        "} else {",
        "for p in tile * 256 + unit..1000 step 32 unroll(8) {",
        "y[p] = x[p]",
    ]


def test_lanes_along_rows() -> None:
    """An access that is not at the place of the instance needs the indices: lanes are those of a row of whole
    vectors."""
    text = "parallel {i, j} by [37, 24] y.at(i, j) = x.at(i, j) + z.at(j);"
    params = "f16 [37, 24] x, f16 [24] z, f16 [37, 24]& y"
    assert kernel(text, params, width=32, units=2) == [
        "region block [tile < 4] {",
        "region thread [unit < 32] implied {",
        "let place: s32 = tile * 32 + unit",
        "if place < 111 {",
        "let j_first: s32 = place % 3 * 8",
        "let i: s32 = place / 3",
        "for unroll e in 0..8 {",
        "let j: s32 = j_first + e",
        "y[i, j] = f16(f32(x[i, j]) + f32(z[j]))",
    ]
    odd = kernel(text.replace("24", "25"), params.replace("24", "25"), width=32, units=2)
    assert not any("unroll e" in line for line in odd)


@pytest.mark.parametrize(
    "body",
    [
        "parallel p by 1000 { foreach k in 2 y.at(p) += x.at(k); }",
        "parallel p by 1000 y.at(p) = x.at(x.at(p));",  # tested while running
        "parallel p by 1000 { if (x.at(p) > 0) yield; y.at(p) = 1; }",
    ],
)
def test_other_bodies_have_a_thread_each(body: str) -> None:
    lines = kernel(body, "s32 [1000] x, s32 [1000]& y", width=32, units=2)
    assert "turn in" not in "".join(lines) and "e in" not in "".join(lines)
