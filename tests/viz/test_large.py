"""Diagrams of programs over a thousand million elements: values found by hand, in little time and memory."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pytest

import croq_magic as croq
from croq_magic import viz
from croq_magic.errors import BindError

FLAT = "__co__ auto f(s32 [N] a) { s32 [N] r; parallel p by N { r.at(p) = a.at(p); } return r; }"
RAGGED = """__co__ auto f(s32 [N] a) { s32 [N] r; parallel p by cdiv(N, 16) {
    t = dma.copy a.subspan(16).at(p).zfill => shared;
    foreach i in [16] { if (p * 16 + i < N) { r.at(p * 16 + i) = t.data.at(i); } } } return r; }"""
GUARDED = """__co__ auto f(s32 [N] a) { s32 [N] r; parallel p by cdiv(N, 256) { parallel q by 256 {
    if (p * 256 + q < N) { r.at(p * 256 + q) = a.at(p * 256 + q); } } } return r; }"""
STENCIL = """__co__ auto f(s32 [N] a) { s32 [N] r; parallel p by N {
    if (p > 0 && p < N - 1) { r.at(p) = a.at(p - 1) + a.at(p) + a.at(p + 1); } } return r; }"""
EVEN = "__co__ auto f(s32 [N] a) { s32 [N] r; parallel p by N { if (p % 2 == 0) { r.at(p) = a.at(p); } } return r; }"
TURNED = "__co__ auto f(s32 [N] a) { s32 [N] r; parallel p by N { r.at(p/10*10 + 9 - p%10) = a.at(p); } return r; }"
TOTAL = """__co__ auto f(s32 [N] a) { s32 [1] r; parallel p by 1 { mutable s32 s = 0;
    foreach i in [N] { s = s + a.at(i); } r.at(0) = s; } return r; }"""
SIZES = [16, 23, 10_000, 10_000_000, 1_000_000_007]
CHUNK = {FLAT: 1, RAGGED: 16, GUARDED: 256}


def function(source: str) -> Any:
    return croq.compile(source).f


@pytest.mark.parametrize("n", [1, 7, *SIZES])
@pytest.mark.parametrize("source", CHUNK)
def test_chunks_counts_and_the_last_of_them(source: str, n: int) -> None:
    f, size = function(source), CHUNK[source]
    if source == RAGGED and n < 16:
        pytest.skip("a window of 16 elements needs as many")
    diagram = viz.tiling(f, N=n)
    blocks, last = -(-n // size), n - (-(-n // size) - 1) * size
    for name in ("a", "r"):
        array = diagram.data["arrays"][name]
        assert (array["exact"], array["nobody"]) == (True, 0)
        if blocks > 1:
            level = array["levels"][0]
            assert (level["count"], level["chunk"], level["dense"]) == (blocks, (min(size, n),), True)
            assert level["ragged"] == (last != size)
            segments = level["segments"][0]
            assert segments["count"] == blocks
            assert (segments["low"][:2].tolist(), segments["high"][-1]) == ([0, size], n)
            assert (segments["index"]["p"][-1], segments["low"][-1]) == (blocks - 1, n - last)
        if n <= 10_000:
            np.testing.assert_array_equal(array["owner"]["block"], np.arange(n) // size)
        else:
            assert array["owner"]["block"] is None
    traffic = viz.mapping(f, N=n).data["traffic"]
    assert (traffic["a"]["read"], traffic["r"]["written"]) == (n, n)
    assert all(t["exact"] for t in traffic.values())


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("source", [FLAT, RAGGED, GUARDED, TURNED])
def test_the_maker_of_an_element(source: str, n: int) -> None:
    for place in {0, n // 2, n - n % 10 - 1, n // 10 * 10 - 1}:
        data = viz.trace(function(source), output=(place,), N=n).data
        (write,) = data["writes"]
        origin = place // 10 * 10 + 9 - place % 10 if source == TURNED else place
        assert write["block"] == {"p": origin // CHUNK.get(source, 1)}
        assert data["reads"]["a"]["coords"].tolist() == [[origin]]
        assert data["exact"]


@pytest.mark.parametrize("n", SIZES)
def test_halos(n: int) -> None:
    arrays = viz.tiling(function(STENCIL), N=n).data["arrays"]
    assert arrays["r"]["nobody"] == 2
    assert arrays["r"]["levels"][0]["count"] == n - 2
    assert arrays["a"]["levels"][0]["chunk"] == (3,)
    assert viz.mapping(function(STENCIL), N=n).data["traffic"]["a"]["read"] == 3 * (n - 2)
    assert viz.trace(function(STENCIL), output=(n - 2,), N=n).data["reads"]["a"]["coords"].ravel().tolist() == [
        n - 3,
        n - 2,
        n - 1,
    ]


def test_what_has_no_closed_form_says_so() -> None:
    n = 1_000_000_000
    diagram = viz.tiling(function(EVEN), N=n)
    level = diagram.data["arrays"]["r"]["levels"][0]
    assert not level["exact"]
    assert n // 2 <= level["count"] <= n
    assert "block p: at most 1,000,000,000 single elements" in diagram.text
    assert "not exact: the chunks are those of a selection of the instances" in diagram.text
    traffic = viz.mapping(function(EVEN), N=n).data["traffic"]["r"]
    assert not traffic["exact"]
    assert abs(traffic["written"] - n / 2) < n / 10
    small = viz.tiling(function(EVEN), N=10_000).data["arrays"]["r"]
    assert (small["exact"], small["levels"][0]["count"], small["nobody"]) == (True, 5000, 5000)


def test_a_long_sum_is_followed_in_part_with_its_ends() -> None:
    data = viz.trace(function(TOTAL), output=0, N=1_000_000_000).data
    a = data["reads"]["a"]
    assert (a["low"], a["high"]) == ((0,), (1_000_000_000,))
    assert len(a["coords"]) < 100_000
    assert "only a part of a long iteration is followed" in data["notes"]


@pytest.mark.parametrize("source", [FLAT, RAGGED, GUARDED, STENCIL, EVEN, TURNED, TOTAL])
def test_little_memory_and_a_bounded_picture(source: str) -> None:
    f = function(source)
    tracemalloc.start()
    try:
        for make in (viz.tiling, viz.mapping, lambda f, N: viz.trace(f, output=(0,), N=N)):
            diagram = make(f, N=1_000_000_007)
            assert sum(len(c.get_facecolors()) for c in diagram.figure.axes[0].collections) < 3000
        assert tracemalloc.get_traced_memory()[1] < 100 << 20
    finally:
        tracemalloc.stop()


def test_extents_below_one_are_refused() -> None:
    for wrong in (0, -3, 1.5, True):
        with pytest.raises(BindError, match="extents are integers of at least 1"):
            viz.tiling(function(FLAT), N=wrong)
    with pytest.raises(BindError, match="N is 0 in dimension 0 of a"):
        viz.mapping(function(FLAT), a=(0,))


def test_an_index_that_is_none_names_the_valid_range() -> None:
    for wrong in ((1.5,), "3", (1, 2), (), (12,), -1, None):
        with pytest.raises(BindError, match=r"\[0\.\.11\]"):
            viz.trace(function(FLAT), output=wrong, N=12)
    assert viz.trace(function(FLAT), output=np.int64(11), N=12).data["index"] == (11,)
