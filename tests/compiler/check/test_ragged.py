"""Tiles that stick out of their array, also ones that are larger than all of it."""

from __future__ import annotations

import numpy as np
import pytest

import croq_magic as croq

SOURCE = """
__co__ auto by_modifier(s32 [N] x) {
  s32 [cdiv(N, 16) * 16] r;
  parallel p by cdiv(N, 16) : block { a = dma.copy.zfill x.subspan(16).at(p) => local; dma.copy a => r.chunkat(p); }
  return r;
}
__co__ auto by_suffix(s32 [N] x) {
  s32 [cdiv(N, 16) * 16] r;
  parallel p by cdiv(N, 16) : block { a = dma.copy x.subspan(16).at(p).zfill => local; dma.copy a => r.chunkat(p); }
  return r;
}
__co__ void product(s8 [P, 16] a, s8 [16, Q] b, s32 [P, Q]& c) {
  parallel {n, m} by [cdiv(Q, 8), cdiv(P, 8)] : block, w by 1 : group {
    sa = dma.copy.zfill a.subspan(8, 16).at(m, 0) => shared;
    sb = dma.copy.zfill b.subspan(16, 8).at(0, n) => shared;
    acc = mma.fill.s32 0;
    mma.row.col acc, sa, sb;
    mma.store.mask acc, c.subspan(8, 8).at(m, n), P - m * 8, Q - n * 8;
  }
}
"""


@pytest.fixture
def program() -> croq.Program:
    return croq.compile(SOURCE, target="cpu")


@pytest.mark.parametrize("name", ["by_modifier", "by_suffix"])
@pytest.mark.parametrize("n", [1, 15, 16, 17, 33])
def test_a_ragged_tile_is_filled_with_zeros(program: croq.Program, name: str, n: int) -> None:
    x = np.arange(1, n + 1, dtype=np.int32)
    np.testing.assert_array_equal(program.functions[name](x), np.pad(x, (0, -n % 16)))


@pytest.mark.parametrize(("p", "q"), [(1, 1), (3, 13), (8, 8), (19, 5)])
def test_a_masked_store_is_clipped(program: croq.Program, p: int, q: int) -> None:
    rng = np.random.default_rng(p * q)
    a, b = rng.integers(-5, 5, (p, 16)).astype(np.int8), rng.integers(-5, 5, (16, q)).astype(np.int8)
    c = np.zeros((p, q), np.int32)
    program.product(a, b, c)
    np.testing.assert_array_equal(c, a.astype(np.int32) @ b.astype(np.int32))


def test_without_zero_fill_a_tile_must_fit() -> None:
    (found,) = croq.check("__co__ void f(s32 [8] x) { parallel by 1 { dma.copy x.subspan(9) => local; } }")
    assert (found.code, found.message) == ("VEW05", "tile extent 9 exceeds 8 in dimension 0")
