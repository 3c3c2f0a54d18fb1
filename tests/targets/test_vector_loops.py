"""Ordered, tiled and vectorised kernels give NumPy's results: awkward extents, all vector widths, all element types."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence

import numpy as np
import pytest

import croq_magic as croq
from croq_magic.compiler import ir
from croq_magic.compiler.passes.base import Context, run_passes
from croq_magic.compiler.passes.order_loops import OrderLoops
from croq_magic.compiler.passes.promote_accumulators import PromoteAccumulators
from croq_magic.compiler.targets.cpu import module
from croq_magic.compiler.targets.cpu.emit import Emitted, emit_module
from croq_magic.compiler.types import F32, F64, S8, S16, S32, S64, U8, U32, DType
from croq_magic.compiler.visit import rewrite
from tests import ir_builders as build

WIDTHS = [(16, 16), (32, 16), (64, 32), (16, 32)]  # SSE, AVX2, AVX-512, NEON: any of them compiles everywhere
TYPE_WIDTHS = [(16, 16), (64, 32)]
SCALAR = [
    (34, 5, 30, 2, 6),  # 17 rows, 30 columns: neither divides anything
    (1, 9, 101, 1, 101),  # a single row of a prime number of columns
    (46, 3, 62, 2, 31),  # 23 rows: two heights of tiles
    (32, 16, 256, 16, 64),
]
TILES = [(16, 16, 16), (17, 31, 4), (32, 32, 8), (1, 48, 2), (5, 2, 3)]
TYPES = [S8, U8, S16, S32, U32, S64, F32, F64]
GRIDS = [(128, 24, 64), (37, 11, 101), (2, 3, 500), (257, 2, 3)]  # M, K, N
Case = tuple[ir.Function, tuple[int, int]]


def grid_product(
    m: build.Extent, k: build.Extent, n: build.Extent, threads: bool = False, transposed: bool = False
) -> ir.Function:
    """One element of the product a block (or a thread, with a row a block); `transposed` reads rows of the second."""
    lhs, rhs = build.param("lhs", (m, k)), build.param("rhs", (n, k) if transposed else (k, n))
    out = build.buffer("output", (m, n), zeroed=True)
    i, j = build.index("i", m, ir.Role.REGION), build.index("j", n, ir.Role.REGION)
    step = build.index("step", k)
    assert lhs.buffer is not None and rhs.buffer is not None
    other = build.at(rhs.buffer, j, step) if transposed else build.at(rhs.buffer, step, j)
    update = build.store(out, (i, j), build.times(build.at(lhs.buffer, i, step), other), "+")
    body = build.loop("step", k, [update])
    if threads:
        kernel = build.region(build.BLOCK, {"i": m}, [build.region(build.THREAD, {"j": n}, [body])])
    else:
        kernel = build.region(build.BLOCK, {"i": m, "j": n}, [body])
    dims = [e for e in (m, k, n) if isinstance(e, ir.Var)]
    return build.returning("matmul", (lhs, rhs), out, [build.launch("matmul", kernel)], dims)


def matrix_vector(m: int, k: int) -> ir.Function:
    """One element of the product of a matrix and a vector a block."""
    lhs, rhs = build.param("lhs", (m, k), F32), build.param("rhs", (k,), F32)
    out = build.buffer("output", (m,), F32, zeroed=True)
    i, step = build.index("i", m, ir.Role.REGION), build.index("step", k)
    assert lhs.buffer is not None and rhs.buffer is not None
    update = build.store(out, (i,), build.times(build.at(lhs.buffer, i, step), build.at(rhs.buffer, step)), "+")
    kernel = build.region(build.BLOCK, {"i": m}, [build.loop("step", k, [update])])
    return build.returning("matmul", (lhs, rhs), out, [build.launch("matmul", kernel)])


def columns_first() -> ir.Function:
    """Blocks are columns and threads rows, against the order in memory; every element is a multiple of its column."""
    x, out = build.param("x", (37, 29)), build.buffer("output", (37, 29), zeroed=True)
    i, j = build.index("i", 37, ir.Role.REGION), build.index("j", 29, ir.Role.REGION)
    assert x.buffer is not None
    store = build.store(out, (i, j), build.times(build.at(x.buffer, i, j), j))
    kernel = build.region(build.BLOCK, {"j": 29}, [build.region(build.THREAD, {"i": 37}, [store])])
    return build.returning("scale", (x,), out, [build.launch("scale", kernel)])


def cases() -> dict[str, Case]:
    found: dict[str, Case] = {}
    for width in WIDTHS:
        for m, k, n, blocks, threads in SCALAR:
            found[f"scalar_{width}_{m}_{n}"] = build.matmul_scalar(m, k, n, blocks, threads), width
        for tile in TILES:
            rows, columns, depth = tile
            found[f"tiles_{width}_{tile}"] = build.matmul_dma(2 * rows, 2 * depth, 3 * columns, tile, F32), width
        for dtype in TYPES if width in TYPE_WIDTHS else ():
            found[f"type_{width}_{dtype}"] = build.matmul_dma(32, 48, 32, dtype=dtype), width
    found["order"] = build.matmul_dma(32, 64, 32, dtype=F32), (64, 32)
    found["gather"] = build.row_sum(8, 64, 16), (32, 16)
    for width in TYPE_WIDTHS:
        for size in GRIDS:
            found[f"grid_{width}_{size}"] = grid_product(*size), width
            found[f"rows_{width}_{size}"] = grid_product(*size, threads=True), width
            found[f"transposed_{width}_{size}"] = grid_product(*size, transposed=True), width
        found[f"vector_{width}"] = matrix_vector(37, 19), width
        found[f"streamed_{width}"] = large_add(), width
    found["columns_first"] = columns_first(), (64, 32)
    names = build.dim("M"), build.dim("K"), build.dim("N")
    found["grid_symbolic"] = grid_product(*names), (32, 16)
    found["symbolic"] = build.matmul_dma(*names), (64, 32)
    return found


def large_add() -> ir.Function:
    """Rows of 1100 elements, blocks of one element; more than the cache that `ordered` is told of."""
    x, out = build.param("x", (5, 1100), F32), build.buffer("output", (5, 1100), F32, zeroed=True)
    i, j = build.index("i", 5, ir.Role.REGION), build.index("j", 1100, ir.Role.REGION)
    assert x.buffer is not None
    store = build.store(out, (i, j), build.plus(build.at(x.buffer, i, j), build.at(x.buffer, i, j)))
    return build.returning(
        "add", (x,), out, [build.launch("add", build.region(build.BLOCK, {"i": 5, "j": 1100}, [store]))]
    )


def ordered(case: Case) -> ir.Function:
    """The function after the passes for that vector width; it must have been changed by them."""
    function, width = case
    before = run_passes(function, [PromoteAccumulators()], Context())
    after = OrderLoops(*width, cache=1 << 14)(before, Context())
    assert after is not before, "nothing was ordered"
    return after


@pytest.fixture(scope="module")
def emitted() -> Emitted:
    """One module with all cases: one run of the C++ compiler."""
    return emit_module([_named(ordered(case), _symbol(name)) for name, case in cases().items()])


def _named(function: ir.Function, name: str) -> ir.Function:
    def kernel(node: ir.Node) -> ir.Node | None:
        return dataclasses.replace(node, name=f"{name}_0") if isinstance(node, ir.Kernel) else None

    return dataclasses.replace(function, name=name, body=rewrite(function.body, kernel))


def _symbol(name: str) -> str:
    return re.sub(r"\W+", "_", name)


def run(emitted: Emitted, name: str, arrays: Sequence[np.ndarray], result: np.ndarray, **dims: int) -> np.ndarray:
    module.load(emitted, _symbol(name)).launch(tuple(arrays), dims, result)
    return result


def operands(dtype: DType, m: int, k: int, n: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(m * 10007 + k * 101 + n)
    kind = np.dtype(dtype.numpy)
    low = 0 if kind.kind == "u" else -7
    return rng.integers(low, 8, (m, k)).astype(kind), rng.integers(low, 8, (k, n)).astype(kind)


def product(lhs: np.ndarray, rhs: np.ndarray) -> np.ndarray:
    """The product with the sums taken in order of k and rounded or wrapped at every step, as the program says."""
    out = np.zeros((lhs.shape[0], rhs.shape[1]), lhs.dtype)
    for k in range(lhs.shape[1]):
        out = (out + lhs[:, k, None] * rhs[None, k, :]).astype(lhs.dtype)
    return out


@pytest.mark.parametrize("width", WIDTHS, ids=str)
@pytest.mark.parametrize(("m", "k", "n", "blocks", "threads"), SCALAR)
def test_scalar_product(
    emitted: Emitted, width: tuple[int, int], m: int, k: int, n: int, blocks: int, threads: int
) -> None:
    lhs, rhs = operands(S32, m, k, n)
    got = run(emitted, f"scalar_{width}_{m}_{n}", (lhs, rhs), np.zeros((m, n), np.int32))
    np.testing.assert_array_equal(got, product(lhs, rhs))


@pytest.mark.parametrize("width", WIDTHS, ids=str)
@pytest.mark.parametrize("tile", TILES, ids=str)
def test_product_of_shared_tiles(emitted: Emitted, width: tuple[int, int], tile: tuple[int, int, int]) -> None:
    m, n, k = 2 * tile[0], 3 * tile[1], 2 * tile[2]
    lhs, rhs = operands(F32, m, k, n)
    got = run(emitted, f"tiles_{width}_{tile}", (lhs, rhs), np.zeros((m, n), np.float32))
    np.testing.assert_array_equal(got, product(lhs, rhs))


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("width", TYPE_WIDTHS, ids=str)
def test_element_types(emitted: Emitted, dtype: DType, width: tuple[int, int]) -> None:
    lhs, rhs = operands(dtype, 32, 48, 32)
    got = run(emitted, f"type_{width}_{dtype}", (lhs, rhs), np.zeros((32, 32), dtype.numpy))
    np.testing.assert_array_equal(got, product(lhs, rhs))


def test_sums_keep_the_order_of_the_program(emitted: Emitted) -> None:
    """Sums of f32 that round differently in any other order."""
    rng = np.random.default_rng(1)
    lhs, rhs = (rng.standard_normal(shape).astype(np.float32) for shape in ((32, 64), (64, 32)))
    got = run(emitted, "order", (lhs, rhs), np.zeros((32, 32), np.float32))
    np.testing.assert_array_equal(got, product(lhs, rhs))
    assert not np.array_equal(got, product(lhs[:, ::-1], rhs[::-1])), "the data do not tell orders apart"


def test_accumulation_starts_from_what_is_there(emitted: Emitted) -> None:
    lhs, rhs = operands(S32, 32, 48, 32)
    start = np.arange(32 * 32, dtype=np.int32).reshape(32, 32)
    got = run(emitted, f"type_{(64, 32)}_s32", (lhs, rhs), start.copy())
    np.testing.assert_array_equal(got, start + product(lhs, rhs))


def test_strided_reads_are_gathered(emitted: Emitted) -> None:
    """A row sum by threads that read every sixteenth element."""
    x = np.arange(8 * 64, dtype=np.int32).reshape(8, 64)
    got = run(emitted, "gather", (x,), np.zeros(8, np.int32))
    np.testing.assert_array_equal(got, x.sum(axis=1))


@pytest.mark.parametrize("width", TYPE_WIDTHS, ids=str)
@pytest.mark.parametrize("size", GRIDS, ids=str)
@pytest.mark.parametrize("kind", ["grid", "rows", "transposed"])
def test_grids_of_single_elements(
    emitted: Emitted, kind: str, size: tuple[int, int, int], width: tuple[int, int]
) -> None:
    m, k, n = size
    lhs, rhs = operands(S32, m, k, n)
    second = np.ascontiguousarray(rhs.T) if kind == "transposed" else rhs
    got = run(emitted, f"{kind}_{width}_{size}", (lhs, second), np.zeros((m, n), np.int32))
    np.testing.assert_array_equal(got, product(lhs, rhs))


@pytest.mark.parametrize("width", TYPE_WIDTHS, ids=str)
def test_matrix_and_vector(emitted: Emitted, width: tuple[int, int]) -> None:
    rng = np.random.default_rng(2)
    lhs, rhs = (rng.standard_normal(shape).astype(np.float32) for shape in ((37, 19), (19, 1)))
    got = run(emitted, f"vector_{width}", (lhs, rhs), np.zeros(37, np.float32))
    np.testing.assert_array_equal(got, product(lhs, rhs)[:, 0])


@pytest.mark.parametrize("width", TYPE_WIDTHS, ids=str)
@pytest.mark.parametrize("offset", [0, 1, 4], ids="offset {}".format)
def test_streamed_stores_at_any_address(emitted: Emitted, width: tuple[int, int], offset: int) -> None:
    x = np.arange(5 * 1100, dtype=np.float32).reshape(5, 1100)
    space = np.zeros(5 * 1100 + 8, np.float32)
    assert "croq_stream((f32x" in emitted.text
    got = run(emitted, f"streamed_{width}", (x,), space[offset : offset + x.size].reshape(x.shape))
    np.testing.assert_array_equal(got, 2 * x)
    assert not space[:offset].any() and not space[offset + x.size :].any()


def test_columns_first(emitted: Emitted) -> None:
    x = np.arange(37 * 29, dtype=np.int32).reshape(37, 29)
    got = run(emitted, "columns_first", (x,), np.zeros((37, 29), np.int32))
    np.testing.assert_array_equal(got, x * np.arange(29, dtype=np.int32))


def test_a_grid_of_single_elements_of_unknown_extents(emitted: Emitted) -> None:
    lhs, rhs = operands(S32, 41, 7, 83)
    got = run(emitted, "grid_symbolic", (lhs, rhs), np.zeros((41, 83), np.int32), M=41, K=7, N=83)
    np.testing.assert_array_equal(got, product(lhs, rhs))


def test_extents_known_only_when_it_runs(emitted: Emitted) -> None:
    lhs, rhs = operands(S32, 48, 32, 80)
    got = run(emitted, "symbolic", (lhs, rhs), np.zeros((48, 80), np.int32), M=48, K=32, N=80)
    np.testing.assert_array_equal(got, product(lhs, rhs))


def test_a_condition_on_what_every_thread_has_of_its_own() -> None:
    text = """__co__ s32 [32] f(s32 [32] x) {
      s32 [32] r;
      parallel t by 32 : thread {
        shared s32 [32] s;
        s.at(t) = x.at(t);
        sync.shared;
        mutable int hop = 1;
        while (hop < 32) {
          sync.shared;
          s.at(t) += hop;
          sync.shared;
          hop = hop * 2;
        }
        r.at(t) = s.at(t);
      }
      return r;
    }"""
    x = np.arange(32, dtype=np.int32)
    np.testing.assert_array_equal(croq.compile(text, target="cpu").f(x), x + 31)
