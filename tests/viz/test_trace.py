"""Traces against programs run by hand: loops in Python that note who reads what."""

from __future__ import annotations

import itertools
from collections import defaultdict

import ir_builders as build
import numpy as np
import pytest

from croq_magic import viz
from croq_magic.compiler import integers, ir
from croq_magic.errors import BindError


def elements(read: dict) -> set[tuple[int, ...]]:
    return set(map(tuple, read["coords"].tolist()))


def test_the_example_of_the_tutorial() -> None:
    """Block (2, 3), thread (5, 2); at tile_k = 0 rows 32..47 of lhs and columns 48..63 of rhs, K 0..15."""
    data = viz.trace(build.matmul_dma(), output=(37, 50)).data
    (write,) = data["writes"]
    assert write["block"] == {"px": 2, "py": 3}
    assert write["thread"] == {"qx": 5, "qy": 2}
    assert write["block_id"] == 2 + 8 * 3
    assert write["thread_id"] == 5 + 16 * 2
    assert write["count"] == 256
    lhs, rhs = data["loads"]
    assert (lhs["source"], lhs["target"], lhs["index"]["tile_k"][0]) == ("lhs", "lhs_load", 0)
    assert (lhs["low"][0].tolist(), lhs["high"][0].tolist()) == ([32, 0], [48, 16])
    assert (rhs["low"][0].tolist(), rhs["high"][0].tolist()) == ([0, 48], [16, 64])
    assert len(lhs["low"]) == 16
    assert elements(data["reads"]["lhs"]) == {(37, k) for k in range(256)}
    assert elements(data["reads"]["rhs"]) == {(k, 50) for k in range(256)}
    assert elements(data["reads"]["lhs_load"]) == {(5, k) for k in range(16)}
    assert data["chunk"] == ((32, 48), (48, 64))
    assert data["exact"]


def test_each_read_belongs_to_its_iteration() -> None:
    read = viz.trace(build.matmul_dma(), output=(37, 50)).data["reads"]["lhs"]
    k = read["iterations"]["tile_k"] * 16 + read["iterations"]["k"]
    np.testing.assert_array_equal(read["coords"], np.column_stack([np.full(256, 37), k]))
    assert k.tolist() == list(range(256))


def test_all_elements_of_a_small_product() -> None:
    m, k, n, (rows, columns, depth) = 8, 6, 6, (4, 3, 2)
    f = build.matmul_dma(m, k, n, (rows, columns, depth))
    owner, lhs, rhs = {}, defaultdict(set), defaultdict(set)
    for px, py in itertools.product(range(m // rows), range(n // columns)):
        for tile_k in range(k // depth):
            lhs_load = {(i, c): (px * rows + i, tile_k * depth + c) for i in range(rows) for c in range(depth)}
            rhs_load = {(c, j): (tile_k * depth + c, py * columns + j) for c in range(depth) for j in range(columns)}
            for qx, qy, c in itertools.product(range(rows), range(columns), range(depth)):
                place = px * rows + qx, py * columns + qy
                owner[place] = (px, py, qx, qy)
                lhs[place].add(lhs_load[qx, c])
                rhs[place].add(rhs_load[c, qy])
    for place in itertools.product(range(m), range(n)):
        data = viz.trace(f, output=place).data
        (write,) = data["writes"]
        assert (*write["block"].values(), *write["thread"].values()) == owner[place]
        assert elements(data["reads"]["lhs"]) == lhs[place]
        assert elements(data["reads"]["rhs"]) == rhs[place]


def test_the_scalar_product_reads_globals_directly() -> None:
    data = viz.trace(build.matmul_scalar(), output=(37, 50)).data
    (write,) = data["writes"]
    assert (write["block"], write["thread"]) == ({"p": 37 // 8}, {"q": 50 // 4})
    assert set(write["iterations"]["m"].tolist()) == {37 % 8}
    assert data["loads"] == []
    assert elements(data["reads"]["lhs"]) == {(37, k) for k in range(256)}


def test_through_a_device_function_all_it_is_passed_may_count() -> None:
    data = viz.trace(build.ele_add(), output=(3, 5, 70)).data
    (write,) = data["writes"]
    assert write["block"] == {"p": 3}
    assert {n: v.tolist() for n, v in write["iterations"].items()} == {"index_0": [5], "index_1": [2]}
    for name in ("lhs", "rhs"):
        assert elements(data["reads"][name]) == {(3, 5, c) for c in range(64, 96)}
    assert elements(data["reads"]["l1_out"]) == {(0, 0, 70 - 64)}
    assert not data["exact"]
    assert data["notes"] == ("a C++ function may read any element of the arrays it is passed",)


def test_sums_in_scalars_and_shared_buffers_are_followed() -> None:
    data = viz.trace(build.row_sum(8, 64, 16), output=(5,)).data
    (write,) = data["writes"]
    assert (write["block"], write["thread"], write["count"]) == ({"p": 5}, {}, 16)
    assert elements(data["reads"]["part"]) == {(t,) for t in range(16)}
    assert elements(data["reads"]["x"]) == {(5, c) for c in range(64)}


def test_in_place_updates_read_the_element_itself() -> None:
    data = viz.trace(build.saxpy(1000), output=(999,)).data
    assert data["array"] == "y"
    assert elements(data["reads"]["x"]) == elements(data["reads"]["y"]) == {(999,)}
    assert data["writes"][0]["block"] == {"p": 3}


def neighbours(shared: bool) -> ir.Function:
    """Threads store their element into a buffer, then read their left neighbour's (in a shared buffer) or their own."""
    x, out = build.param("x", (8,)), build.buffer("output", (8,))
    storage = ir.Storage.SHARED if shared else ir.Storage.LOCAL
    tile = build.buffer("tile", (4,), storage=storage)
    p, q = (build.index(name, n, ir.Role.REGION) for name, n in (("p", 2), ("q", 4)))
    i = build.compose(p, q, 4)
    left = ir.Binary("%", integers.add(q, build.const(3)), build.const(4), q.dtype)
    assert x.buffer is not None
    body = [
        build.store(tile, (q,), build.at(x.buffer, i)),
        ir.Barrier(build.BLOCK),
        build.store(out, (i,), build.at(tile, left if shared else q)),
    ]
    threads = build.region(build.THREAD, {"q": 4}, body if shared else [ir.Declare(tile), *body])
    blocks = [ir.Declare(tile), threads] if shared else [threads]
    return build.returning(
        "neighbours", (x,), out, [build.launch("neighbours", build.region(build.BLOCK, {"p": 2}, blocks))]
    )


@pytest.mark.parametrize("shared", [True, False])
def test_shared_buffers_pass_between_threads_and_local_ones_do_not(shared: bool) -> None:
    for e in range(8):
        p, q = divmod(e, 4)
        source = p * 4 + ((q + 3) % 4 if shared else q)
        data = viz.trace(neighbours(shared), output=(e,)).data
        assert elements(data["reads"]["x"]) == {(source,)}


def test_of_rewritten_buffers_the_last_write_before_the_read_counts() -> None:
    """A shared buffer outlives a loop that refills it: iteration i reads what iteration i stored."""
    x, out = build.param("x", (3, 4)), build.buffer("output", (3, 4))
    tile = build.buffer("tile", (4,), storage=ir.Storage.SHARED)
    i, q = build.index("i", 3), build.index("q", 4, ir.Role.REGION)
    assert x.buffer is not None
    body = [build.store(tile, (q,), build.at(x.buffer, i, q)), build.store(out, (i, q), build.at(tile, q))]
    loop = build.loop("i", 3, [build.region(build.THREAD, {"q": 4}, body)])
    kernel = build.region(build.BLOCK, {"p": 1}, [ir.Declare(tile), loop])
    f = build.returning("refill", (x,), out, [build.launch("refill", kernel)])
    for place in itertools.product(range(3), range(4)):
        assert elements(viz.trace(f, output=place).data["reads"]["x"]) == {place}


def test_an_index_from_data_may_be_any() -> None:
    v, rows, out = build.param("v", (10, 4)), build.param("rows", (8,)), build.buffer("output", (8, 4))
    p, t = build.index("p", 8, ir.Role.REGION), build.index("t", 4, ir.Role.REGION)
    assert v.buffer is not None and rows.buffer is not None
    body = build.store(out, (p, t), build.at(v.buffer, build.at(rows.buffer, p), t))
    kernel = build.region(build.BLOCK, {"p": 8}, [build.region(build.THREAD, {"t": 4}, [body])])
    f = build.returning("gather", (v, rows), out, [build.launch("gather", kernel)])
    data = viz.trace(f, output=(4, 2)).data
    assert elements(data["reads"]["v"]) == {(r, 2) for r in range(10)}
    assert elements(data["reads"]["rows"]) == {(4,)}
    assert not data["exact"]


def test_large_arrays_are_solved_and_not_searched() -> None:
    data = viz.trace(build.saxpy(build.dim("N")), output=(33_333_333,), N=50_000_000).data
    (write,) = data["writes"]
    assert (write["block"]["p"], write["thread"]["q"]) == divmod(33_333_333, 256)
    assert elements(data["reads"]["x"]) == {(33_333_333,)}
    assert data["exact"]


def test_an_element_that_nobody_writes() -> None:
    out = build.buffer("output", (8,))
    p = build.index("p", 4, ir.Role.REGION)
    kernel = build.region(build.BLOCK, {"p": 4}, [build.store(out, (p,), build.const(1))])
    f = build.returning("half", (), out, [build.launch("half", kernel)])
    diagram = viz.trace(f, output=(6,))
    assert diagram.data["writes"] == []
    assert "no statement writes this element" in diagram.text
    assert diagram.figure.axes


@pytest.mark.parametrize("index", [(128, 0), (0, -1), (0,), (0, 0, 0)])
def test_an_index_outside_the_array(index: tuple[int, ...]) -> None:
    with pytest.raises(BindError, match=r"matmul: output has shape \(128, 256\), so .* is no index of it"):
        viz.trace(build.matmul_dma(), output=index)


def test_another_array_can_be_traced_and_must_exist() -> None:
    assert viz.trace(build.matmul_dma(), output=(0, 0), array="output").data["array"] == "output"
    with pytest.raises(BindError, match=r"no global array 'tile' \(it has lhs, rhs, output\)"):
        viz.trace(build.matmul_dma(), output=(0, 0), array="tile")


def test_text() -> None:
    assert viz.trace(build.matmul_dma(), output=(37, 50)).text == (
        """trace of matmul: output[37, 50]

made by block px=2, py=3 (number 26), thread qx=5, qy=2 (number 37), 256 times: tile_k = 0..15, k = 0..15
    output[px * 16 + qx, py * 16 + qy] += lhs_load[qx, k] * rhs_load[k, qy]
lhs is copied to shared lhs_load 16 times:
    px=2, py=3, tile_k=0: lhs[32..47, 0..15]
    px=2, py=3, tile_k=1: lhs[32..47, 16..31]
    ...
    px=2, py=3, tile_k=15: lhs[32..47, 240..255]
rhs is copied to shared rhs_load 16 times:
    px=2, py=3, tile_k=0: rhs[0..15, 48..63]
    px=2, py=3, tile_k=1: rhs[16..31, 48..63]
    ...
    px=2, py=3, tile_k=15: rhs[240..255, 48..63]
reads from shared lhs_load[5, 0..15]: 16 elements
reads lhs[37, 0..255]: 256 elements
reads from shared rhs_load[0..15, 2]: 16 elements
reads rhs[0..255, 50]: 256 elements"""
    )
