"""Tilings against loop nests written out in Python."""

from __future__ import annotations

import itertools

import ir_builders as build
import numpy as np
import pytest

from croq_magic import viz
from croq_magic.compiler import integers, ir
from croq_magic.errors import BindError

M, K, N, TILE = 8, 12, 6, (4, 3, 2)


def dma() -> dict[str, dict]:
    return viz.tiling(build.matmul_dma(M, K, N, TILE)).data["arrays"]


def test_owner_of_each_element_of_the_product() -> None:
    block, thread = np.full((M, N), -1), np.full((M, N), -1)
    px_of, qy_of = np.full((M, N), -1), np.full((M, N), -1)
    for px, py, qx, qy in itertools.product(range(2), range(2), range(4), range(3)):
        place = px * 4 + qx, py * 3 + qy
        block[place] = px + 2 * py  # the first index is the least significant
        thread[place] = qx + 4 * qy
        px_of[place], qy_of[place] = px, qy
    owner = dma()["output"]["owner"]
    np.testing.assert_array_equal(owner["block"], block)
    np.testing.assert_array_equal(owner["thread"], thread)
    np.testing.assert_array_equal(owner["px"], px_of)
    np.testing.assert_array_equal(owner["qy"], qy_of)


def test_chunks_of_an_operand() -> None:
    lhs = dma()["lhs"]
    assert (lhs["shape"], lhs["dtype"], lhs["storage"]) == ((M, K), "s32", "global")
    blocks, steps = lhs["levels"]
    assert (blocks["kind"], blocks["indices"], blocks["grid"], blocks["chunk"]) == ("block", ("px",), (2, 1), (4, 12))
    assert blocks["sharing"] == {"block": {"py": 2}}
    assert (steps["kind"], steps["indices"], steps["grid"]) == ("iteration", ("px", "tile_k"), (2, 6))
    rows = {
        (int(px), int(tile_k)): (tuple(low), tuple(high))
        for px, tile_k, low, high in zip(
            steps["index"]["px"],
            steps["index"]["tile_k"],
            steps["low"].tolist(),
            steps["high"].tolist(),
            strict=True,
        )
    }
    expected = {}
    for px, tile_k in itertools.product(range(2), range(6)):
        expected[px, tile_k] = ((px * 4, tile_k * 2), (px * 4 + 4, tile_k * 2 + 2))
    assert rows == expected


def test_shared_tiles_belong_to_their_block() -> None:
    tile = dma()["lhs_load"]
    assert tile["storage"] == "shared"
    assert tile["instances"] == 4
    assert [level["kind"] for level in tile["levels"]] == ["iteration", "thread", "iteration"]
    thread = tile["levels"][1]
    assert thread["sharing"] == {"thread": {"qy": 3}}
    np.testing.assert_array_equal(tile["owner"]["qx"], np.arange(4)[:, None].repeat(2, axis=1))


def test_every_kind_of_program_gives_owners_that_a_loop_gives() -> None:
    arrays = viz.tiling(build.ele_add((3, 4, 6), (2, 3))).data["arrays"]
    p_of, x_of, y_of = (np.full((3, 4, 6), -1) for _ in range(3))
    for p, x, y in itertools.product(range(3), range(2), range(3)):
        for i, j in itertools.product(range(2), range(2)):
            place = p, x * 2 + i, y * 2 + j
            p_of[place], x_of[place], y_of[place] = p, x, y
    for name in ("lhs", "rhs", "output"):
        owner = arrays[name]["owner"]
        np.testing.assert_array_equal(owner["block"], p_of)
        np.testing.assert_array_equal(owner["index_0"], x_of)
        np.testing.assert_array_equal(owner["index_1"], y_of)
        assert arrays[name]["levels"][1]["count"] == 3 * 2 * 3


def test_ragged_ends_are_cut_short() -> None:
    y = viz.tiling(build.saxpy(100, 32)).data["arrays"]["y"]
    blocks = y["levels"][0]
    assert blocks["ragged"]
    assert blocks["low"][:, 0].tolist() == [0, 32, 64, 96]
    assert blocks["high"][:, 0].tolist() == [32, 64, 96, 100]
    np.testing.assert_array_equal(y["owner"]["block"], np.arange(100) // 32)


def test_strided_owners_have_gaps() -> None:
    x = viz.tiling(build.row_sum(2, 12, threads=4)).data["arrays"]["x"]
    np.testing.assert_array_equal(x["owner"]["t"], np.tile(np.arange(12) % 4, (2, 1)))
    thread = x["levels"][1]
    assert not thread["dense"]
    assert "with gaps" in viz.tiling(build.row_sum(2, 12, threads=4)).text


def stencil() -> ir.Function:
    """out[i] = x[i] + x[i+1] + x[i+2] for 8 elements, blocks of 4; x has 12, of which the last two are never read."""
    x, out = build.param("x", (12,)), build.buffer("output", (8,))
    p, q = (build.index(name, n, ir.Role.REGION) for name, n in (("p", 2), ("q", 4)))
    i = build.compose(p, q, 4)
    assert x.buffer is not None
    terms = [build.at(x.buffer, integers.add(i, build.const(k))) for k in range(3)]
    body = build.store(out, (i,), build.plus(build.plus(terms[0], terms[1]), terms[2]))
    threads = build.region(build.THREAD, {"q": 4}, [body])
    return build.returning(
        "stencil", (x,), out, [build.launch("stencil", build.region(build.BLOCK, {"p": 2}, [threads]))]
    )


def test_halos_belong_to_several_and_the_rest_to_nobody() -> None:
    x = viz.tiling(stencil()).data["arrays"]["x"]
    assert x["owner"]["block"].tolist() == [0, 0, 0, 0, -2, -2, 1, 1, 1, 1, -1, -1]
    assert (x["nobody"], x["levels"][0]["several"]) == (2, 2)
    assert x["levels"][0]["chunk"] == (6,)
    assert x["levels"][0]["low"][:, 0].tolist() == [0, 4]


def test_chunks_that_are_no_boxes() -> None:
    """Row-major runs of 6 elements in an 6 by 8 array."""
    from croq_magic.compiler import views

    v, out = build.param("v", (6, 8)), build.buffer("output", (48,))
    p = build.index("p", 8, ir.Role.REGION)
    tile = build.buffer("tile", (6,), storage=ir.Storage.LOCAL)
    assert v.buffer is not None
    flat = views.reshape(views.whole(v.buffer), (build.const(48),))
    run = views.window(flat, (integers.mul(p, build.const(6)),), (build.const(6),))
    kernel = build.region(build.BLOCK, {"p": 8}, [ir.Declare(tile), build.copy(run, tile)])
    f = build.returning("runs", (v,), out, [build.launch("runs", kernel)])
    array = viz.tiling(f).data["arrays"]["v"]
    np.testing.assert_array_equal(array["owner"]["p"], (np.arange(48) // 6).reshape(6, 8))
    assert array["levels"][0]["grid"] is None
    assert viz.tiling(f).figure.axes


def test_large_grids_are_counted_and_not_listed() -> None:
    f = build.matmul_dma(*(build.dim(n) for n in "MKN"))
    diagram = viz.tiling(f, M=8192, K=4096, N=8192)
    output = diagram.data["arrays"]["output"]
    blocks = output["levels"][0]
    assert (blocks["grid"], blocks["count"], blocks["low"]) == ((512, 512), 512 * 512, None)
    assert output["owner"]["block"] is None
    assert sum(len(c.get_facecolors()) for c in diagram.figure.axes[0].collections) < 3000


def test_arrays_and_shapes_give_sizes() -> None:
    f = build.matmul_dma(*(build.dim(n) for n in "MKN"))
    lhs = np.zeros((32, 48), np.int32)
    assert viz.tiling(f, lhs=lhs, rhs=(48, 16)).data["arrays"]["output"]["shape"] == (32, 16)


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({}, r"has symbolic dimensions: give K=\.\.\., M=\.\.\., N=\.\.\., or the arrays \(lhs=lhs, rhs=rhs\)"),
        ({"lhs": (32, 48), "rhs": (64, 16)}, "K is 48 in dimension 1 of lhs but 64 in dimension 0 of rhs"),
        ({"lhs": (32,)}, "lhs has rank 2, but"),
        ({"Q": 3}, "no parameter or dimension 'Q'"),
        ({"lhs": 5}, "lhs is a span: give an array or its shape"),
    ],
)
def test_missing_and_wrong_sizes(sizes: dict, message: str) -> None:
    f = build.matmul_dma(*(build.dim(n) for n in "MKN"))
    with pytest.raises(BindError, match=message):
        viz.tiling(f, **sizes)


def test_scalars_that_decide_extents_must_be_given() -> None:
    n = ir.Var("n", build.S32, ir.Role.PARAM)
    out, p = build.buffer("output", (8,)), build.index("p", n, ir.Role.REGION)
    kernel = build.region(build.BLOCK, {"p": n}, [build.store(out, (p,), build.const(1))])
    f = build.returning("some", (ir.Param("n", "scalar", build.S32, var=n),), out, [build.launch("some", kernel)])
    assert viz.tiling(f, n=np.int32(5)).data["arrays"]["output"]["nobody"] == 3
    with pytest.raises(BindError, match=r"the extents in some depend on scalars: give n=\.\.\."):
        viz.tiling(f)


def test_text() -> None:
    assert viz.tiling(build.matmul_dma()).text == (
        """tiling of matmul

lhs: global s32 [128, 256], copied to shared lhs_load
  block px: 8 chunks of 16 × 256, each for 16 blocks (py)
  iteration tile_k: 8 × 16 = 128 chunks of 16 × 16

rhs: global s32 [256, 256], copied to shared rhs_load
  block py: 16 chunks of 256 × 16, each for 8 blocks (px)
  iteration tile_k: 16 × 16 = 256 chunks of 16 × 16

output: global s32 [128, 256], accumulated by element
  block px, py: 8 × 16 = 128 chunks of 16 × 16, each 16 times (tile_k)
  thread qx, qy: 128 × 256 = 32,768 single elements, each 16 times (k)

lhs_load: shared s32 [16, 16], read by element, one in each of 128 blocks
  iteration: whole, 16 times (tile_k)
  thread qx: 16 chunks of 1 × 16, each for 16 threads (qy)
  iteration k: 16 × 16 = 256 single elements

rhs_load: shared s32 [16, 16], read by element, one in each of 128 blocks
  iteration: whole, 16 times (tile_k)
  thread qy: 16 chunks of 16 × 1, each for 16 threads (qx)
  iteration k: 16 × 16 = 256 single elements"""
    )
