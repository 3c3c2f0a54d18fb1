"""order-loops: the loop nests of kernels for a processor, as text; that they compute the same is tested by running
them (tests/targets/test_vector_loops.py)."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import pytest

from croq_magic.compiler import ir
from croq_magic.compiler.passes.base import Context, run_passes
from croq_magic.compiler.passes.order_loops import OrderLoops
from croq_magic.compiler.passes.promote_accumulators import PromoteAccumulators
from croq_magic.compiler.passes.register_tiles import column_pieces, row_pieces
from croq_magic.compiler.text import format_body, format_expr
from croq_magic.compiler.types import BF16, F32, S32
from tests import ir_builders as build

AVX512, AVX2 = (64, 32), (32, 16)


def ordered(function: ir.Function, vectors: tuple[int, int] = AVX512) -> str:
    """The first kernel after the pass."""
    after = run_passes(function, [PromoteAccumulators(), OrderLoops(*vectors)], Context())
    return format_body((next(after.launches()).kernel.region,))


def test_a_tile_of_threads_lives_in_registers_over_all_of_k() -> None:
    assert (
        ordered(build.matmul_dma())
        == """\
region block [px < 8, py < 16] {
  register output_acc: s32 [16, 16]
  for unroll i in 0..16 {
    for vector j in 0..16 {
      output_acc[i, j] = output[px * 16 + i, py * 16 + j]
    }
  }
  for tile_k in 0..16 {
    shared lhs_load: s32 [16, 16]
    copy lhs[px * 16 + c0, tile_k * 16 + c1 : 16, 16] => lhs_load
    shared rhs_load: s32 [16, 16]
    copy rhs[tile_k * 16 + c0, py * 16 + c1 : 16, 16] => rhs_load
    for k in 0..16 {
      for unroll i_2 in 0..16 {
        for vector j_2 in 0..16 {
          output_acc[i_2, j_2] += lhs_load[i_2, k] * rhs_load[k, j_2]
        }
      }
    }
  }
  for unroll i_3 in 0..16 {
    for vector j_3 in 0..16 {
      output[px * 16 + i_3, py * 16 + j_3] = output_acc[i_3, j_3]
    }
  }
}
"""
    )


def test_too_large_a_tile_is_worked_on_in_parts() -> None:
    """With sixteen registers of 32 bytes: four rows of two vectors at a time, the rest waits in memory."""
    text = ordered(build.matmul_dma(), AVX2)
    start = text.index("for qx0_2")
    assert (
        text[start : text.index("\n  for qx0_3")]
        == """\
for qx0_2 in 0..16 step 4 {
      register output_acc_acc_2: s32 [4, 16]
      for unroll i_2 in 0..4 {
        for vector j_2 in 0..16 unroll(2) {
          output_acc_acc_2[i_2, j_2] = output_acc[qx0_2 + i_2, j_2]
        }
      }
      for k in 0..16 {
        for unroll i_2 in 0..4 {
          for vector j_2 in 0..16 unroll(2) {
            output_acc_acc_2[i_2, j_2] = output_acc_acc_2[i_2, j_2] + lhs_load[qx0_2 + i_2, k] * rhs_load[k, j_2]
          }
        }
      }
      for unroll i_2 in 0..4 {
        for vector j_2 in 0..16 unroll(2) {
          output_acc[qx0_2 + i_2, j_2] = output_acc_acc_2[i_2, j_2]
        }
      }
    }
  }"""
    )


def test_a_composed_index_becomes_one_column_loop() -> None:
    """`q#n` is contiguous over all threads; k moves inside the tile although the program has it innermost."""
    assert (
        ordered(build.matmul_scalar())
        == """\
region block [p < 16] {
  for q_n0 in 0..256 step 32 {
    register output_acc_2: s32 [8, 32]
    for unroll i in 0..8 {
      for vector j in 0..32 unroll(2) {
        output_acc_2[i, j] = output[p * 8 + i, q_n0 + j]
      }
    }
    for k in 0..256 {
      for unroll i in 0..8 {
        for vector j in 0..32 unroll(2) {
          output_acc_2[i, j] = output_acc_2[i, j] + lhs[p * 8 + i, k] * rhs[k, q_n0 + j]
        }
      }
    }
    for unroll i in 0..8 {
      for vector j in 0..32 unroll(2) {
        output[p * 8 + i, q_n0 + j] = output_acc_2[i, j]
      }
    }
  }
}
"""
    )


M, N, K = 64, 128, 32
a, b, c = (build.buffer(name, shape) for name, shape in (("a", (M, K)), ("b", (K, N)), ("c", (M, N))))
x, y = build.buffer("x", (M, N)), build.buffer("y", (M, N))
i, j = build.index("i", M, ir.Role.REGION), build.index("j", N, ir.Role.REGION)
k = build.index("k", K)


def kernel(region: ir.Region) -> ir.Function:
    return ir.Function("f", (), None, (build.launch("f", region),))


def in_block(region: ir.Region) -> ir.Function:
    return kernel(build.region(build.BLOCK, {"p": 4}, [region]))


def update() -> ir.Stmt:
    return build.loop("k", K, [build.store(c, (i, j), build.times(build.at(a, i, k), build.at(b, k, j)), "+")])


def test_a_grid_of_single_elements_becomes_a_grid_of_tiles() -> None:
    text = ordered(kernel(build.region(build.BLOCK, {"i": M, "j": N}, [update()])))
    assert text.startswith("""\
region block [i_tile < 8, j_tile < 2] {
  for j0 in 0..64 step 32 {
    register c_acc_2: s32 [8, 32]
""")
    assert "c_acc_2[i_2, j_2] + a[i_tile * 8 + i_2, k] * b[k, j_tile * 64 + j0 + j_2]" in text


def test_blocks_that_are_rows_share_what_they_load() -> None:
    """One row a block, one column a thread: rows of several blocks are one tile."""
    text = ordered(kernel(build.region(build.BLOCK, {"i": M}, [build.region(build.THREAD, {"j": N}, [update()])])))
    assert text.startswith("region block [i_tile < 8, j_tile < 2] {")


@pytest.mark.parametrize("indices", [{"i": M, "j": N}, {"j": N, "i": M}])
def test_the_innermost_loop_is_contiguous_whatever_the_order(indices: dict[str, int]) -> None:
    add = build.store(c, (i, j), build.plus(build.at(x, i, j), build.at(y, i, j)))
    expected = """\
for i in 0..64 {
      for parallel j in 0..128 {
        c[i, j] = x[i, j] + y[i, j]
      }
    }
"""
    text = ordered(in_block(build.region(build.THREAD, indices, [add])))
    assert text.replace("\n  ", "\n    ").split("{\n    ", 1)[1].startswith(expected)
    grid = ordered(kernel(build.region(build.BLOCK, indices, [add])))
    assert grid.startswith("region block [i < 64, j < 128] {"), "the last axis of the grid is contiguous"


def test_a_serial_order_that_matters_stays() -> None:
    """The program sums over k outside of n: each element still sees its k in order, with n as vectors."""
    n = build.index("n", 8)
    place = build.compose(j, n, 8)
    wide, rhs = build.buffer("wide", (M, N * 8)), build.buffer("rhs", (K, N * 8))
    value = build.times(build.at(a, i, k), build.at(rhs, k, place))
    body = build.loop("k", K, [build.loop("n", 8, [build.store(wide, (i, place), value, "+")])])
    text = ordered(in_block(build.region(build.THREAD, {"i": M, "j": N}, [body])))
    order = [text.index(word) for word in ("for j_n0", "for i0", "for k", "for vector")]
    assert order[3] < order[2] and order[:2] == sorted(order[:2]), "loads of the tile, then k around the tile"
    assert text.count("for k in 0..32") == 1


def transposed(depth: int) -> str:
    """The product with rows of the second operand: neighbouring columns lie a row apart."""
    left, right = build.buffer("left", (M, depth)), build.buffer("right", (N, depth))
    step = build.index("k", depth)
    value = build.times(build.at(left, i, step), build.at(right, j, step))
    body = build.loop("k", depth, [build.store(c, (i, j), value, "+")])
    return ordered(in_block(build.region(build.THREAD, {"i": M, "j": N}, [body])))


def test_a_strip_of_a_transposed_operand_is_laid_out_once_for_all_rows() -> None:
    text = transposed(32)
    start = text.index("  for j0")
    assert (
        text[start : text.index("    for i0")]
        == """\
  for j0 in 0..128 step 32 {
    local right_packed: s32 [32, 32]
    for k_2 in 0..32 step 16 {
      for j_2 in 0..32 {
        for k_3 in 0..16 {
          right_packed[k_2 + k_3, j_2] = right[j0 + j_2, k_2 + k_3]
        }
      }
    }
"""
    )
    assert "left[i0 + i_2, k] * right_packed[k, j_3]" in text


def test_a_strip_that_is_too_large_is_gathered() -> None:
    assert "packed" not in transposed(1 << 12)


def test_rows_are_scalars_where_lanes_would_be_collected_one_by_one() -> None:
    """A product of a matrix and a vector: neighbouring results read elements a whole row apart."""
    vector, out = build.buffer("vector", (K,)), build.buffer("out", (M,))
    update = build.store(out, (i,), build.times(build.at(a, i, k), build.at(vector, k)), "+")
    text = ordered(in_block(build.region(build.THREAD, {"i": M}, [build.loop("k", K, [update])])))
    assert "for i0 in 0..64 step 8" in text and "vector j" not in text
    assert "out_acc_2[i_2, 0] = out_acc_2[i_2, 0] + a[i0 + i_2, k] * vector[k]" in text


def test_what_no_cache_holds_is_streamed() -> None:
    """64 rows of 1024 elements of four bytes are more than 64 KiB; rows of a grid become vectors."""
    wide = [build.buffer(name, (M, 1024)) for name in "xyz"]
    column = build.index("j", 1024, ir.Role.REGION)
    add = build.store(wide[2], (i, column), build.plus(*(build.at(buffer, i, column) for buffer in wide[:2])))
    grid = kernel(build.region(build.BLOCK, {"j": 1024, "i": M}, [add]))
    after = OrderLoops(*AVX512, cache=1 << 16)(grid, Context())
    assert (
        format_body((next(after.launches()).kernel.region,))
        == """\
region block [i < 64] {
  for j0 in 0..1024 step 32 {
    for vector j_2 in 0..32 unroll(2) {
      z[i, j0 + j_2] = x[i, j0 + j_2] + y[i, j0 + j_2] streaming
    }
  }
}
"""
    )
    roomy = OrderLoops(*AVX512, cache=1 << 20)(grid, Context())
    assert "streaming" not in format_body((next(roomy.launches()).kernel.region,))


def test_what_is_read_again_is_not_streamed() -> None:
    wide = [build.buffer(name, (M, 1024)) for name in "xy"]
    column = build.index("j", 1024, ir.Role.REGION)
    for op, value in (("+", build.at(wide[0], i, column)), ("", build.at(wide[1], i, column))):
        grid = kernel(build.region(build.BLOCK, {"i": M, "j": 1024}, [build.store(wide[1], (i, column), value, op)]))
        after = OrderLoops(*AVX512, cache=1 << 16)(grid, Context())
        assert "streaming" not in format_body((next(after.launches()).kernel.region,))


def guarded() -> ir.Function:
    return build.saxpy()


def all_store_one_element() -> ir.Function:
    store = build.store(c, (i, build.const(0)), build.at(x, i, j), "+")
    return in_block(build.region(build.THREAD, {"i": M, "j": N}, [store]))


def reads_its_neighbour() -> ir.Function:
    other = build.at(c, i, ir.Binary("-", build.const(N - 1), j, S32))
    return in_block(build.region(build.THREAD, {"i": M, "j": N}, [build.store(c, (i, j), other)]))


def checked() -> ir.Function:
    load = dataclasses.replace(build.at(x, i, j), checks=(0,))
    return in_block(build.region(build.THREAD, {"i": M, "j": N}, [build.store(c, (i, j), load)]))


def gathered_index() -> ir.Function:
    index = build.buffer("index", (N,))
    store = build.store(c, (i, j), build.at(x, i, build.at(index, j)))
    return in_block(build.region(build.THREAD, {"i": M, "j": N}, [store]))


def calls() -> ir.Function:
    body = [build.store(c, (i, j), build.at(x, i, j)), ir.Call("f", ())]
    return in_block(build.region(build.THREAD, {"i": M, "j": N}, body))


def ragged_loop() -> ir.Function:
    update = build.store(c, (i, j), build.times(build.at(a, i, k), build.at(b, k, j)), "+")
    loop = ir.For(k, build.const(0), i, 1, (update,))
    return in_block(build.region(build.THREAD, {"i": M, "j": N}, [loop]))


def sums_of_bf16() -> ir.Function:
    p, q, out = (build.buffer(name, (M, N), BF16) for name in ("p", "q", "out"))
    wide = ir.Cast(build.times(build.at(p, i, k), build.at(q, k, j)), F32)
    update = build.loop("k", K, [build.store(out, (i, j), wide, "+")])
    return in_block(build.region(build.THREAD, {"i": M, "j": N}, [update]))


@pytest.mark.parametrize(
    "function",
    [guarded, all_store_one_element, reads_its_neighbour, checked, gathered_index, calls, ragged_loop, sums_of_bf16],
)
def test_what_is_not_understood_stays(function: Callable[[], ir.Function]) -> None:
    made = function()
    assert OrderLoops(*AVX512)(made, Context()) is made


@pytest.mark.parametrize(
    ("size", "lanes", "pieces"),
    [
        (256, 16, [(0, 256, 32)]),
        (16, 16, [(0, 16, 16)]),
        (48, 16, [(0, 48, 48)]),
        (17, 16, [(0, 16, 16), (16, 17, 1)]),
        (30, 8, [(0, 24, 24), (24, 28, 4), (28, 30, 2)]),
        (1, 16, [(0, 1, 1)]),
    ],
)
def test_columns(size: int, lanes: int, pieces: list[tuple[int, int, int]]) -> None:
    assert _values(column_pieces(build.const(size), lanes)) == pieces


@pytest.mark.parametrize(
    ("size", "most", "pieces"),
    [
        (16, 8, [(0, 16, 8)]),
        (16, 6, [(0, 16, 4)]),
        (17, 8, [(0, 12, 6), (12, 17, 5)]),
        (23, 8, [(0, 16, 8), (16, 23, 7)]),
        (5, 8, [(0, 5, 5)]),
    ],
)
def test_rows(size: int, most: int, pieces: list[tuple[int, int, int]]) -> None:
    assert _values(row_pieces(build.const(size), most)) == pieces


def test_symbolic_extents_end_in_single_elements() -> None:
    found = [(format_expr(p.start), format_expr(p.stop), p.size) for p in column_pieces(build.dim("N"), 16)]
    assert found == [("0", "N / 32 * 32", 32), ("N / 32 * 32", "N / 16 * 16", 16), ("N / 16 * 16", "N", 1)]


def _values(pieces: tuple) -> list[tuple[int, int, int]]:
    return [(int(format_expr(p.start)), int(format_expr(p.stop)), p.size) for p in pieces]
