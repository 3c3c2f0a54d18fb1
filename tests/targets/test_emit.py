"""Whole functions of hand-built IR: emitted, compiled, run, compared with NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from croq_magic.compiler import integers, ir, views
from croq_magic.compiler.source import Source
from croq_magic.compiler.targets.emit_cxx import Names, Unsupported, cxx_string
from croq_magic.compiler.types import BOOL, F16, F32, F64, S8, S32, S64, U8, DType
from tests import ir_builders as b
from tests.targets.run_ir import emitted, run

RNG = np.random.default_rng(1)
BLOCK, THREAD = ir.Level.BLOCK, ir.Level.THREAD


def integers_like(*shape: int) -> np.ndarray:
    return RNG.integers(-10, 10, shape).astype(np.int32)


@pytest.mark.parametrize("m, k, n", [(128, 256, 256), (16, 16, 16), (48, 32, 80)])
def test_matmul_dma(m: int, k: int, n: int) -> None:
    lhs, rhs = integers_like(m, k), integers_like(k, n)
    np.testing.assert_array_equal(run(b.matmul_dma(m, k, n), lhs, rhs), lhs @ rhs)


def test_matmul_with_symbolic_extents() -> None:
    m, k, n = map(b.dim, "MKN")
    lhs, rhs = integers_like(32, 48), integers_like(48, 64)
    out = run(b.matmul_dma(m, k, n), lhs, rhs, dims={"M": 32, "K": 48, "N": 64}, shape=(32, 64))
    np.testing.assert_array_equal(out, lhs @ rhs)


def test_matmul_scalar() -> None:
    lhs, rhs = integers_like(64, 40), integers_like(40, 128)
    np.testing.assert_array_equal(run(b.matmul_scalar(64, 40, 128, 8, 16), lhs, rhs), lhs @ rhs)


def test_device_function() -> None:
    lhs, rhs = integers_like(6, 17, 128), integers_like(6, 17, 128)
    text = (
        "__device__ void kernel(int* a, int* b, int* c, int n) {\n  for (int i = 0; i < n; ++i) c[i] = a[i] + b[i];\n}"
    )
    np.testing.assert_array_equal(run(b.ele_add(), lhs, rhs, verbatim=text), lhs + rhs)


@pytest.mark.parametrize("n", [1, 255, 256, 1000])
def test_scalar_parameter_and_in_place(n: int) -> None:
    x, y = RNG.random(n, np.float32), RNG.random(n, np.float32)
    expect = np.float32(2.5) * x + y
    run(b.saxpy(b.dim("N")), 2.5, x, y, dims={"N": n})
    np.testing.assert_array_equal(y, expect)


def test_row_sum() -> None:
    x = integers_like(8, 64)
    np.testing.assert_array_equal(run(b.row_sum(), x), x.sum(axis=1))


def host_function(
    result: DType, params: list[ir.Param], body: list[ir.Stmt], extents: tuple[int, ...] | None = None
) -> ir.Function:
    shape = None if extents is None else tuple(map(b.const, extents))
    return ir.Function("host", tuple(params), ir.Result(result, shape), tuple(body))


def test_scalar_result_of_host_code() -> None:
    x = b.param("x", (9,))
    acc, i = ir.Var("acc", S32, ir.Role.MUTABLE), b.index("i", 9)
    assert x.buffer is not None
    add = ir.Assign(acc, b.plus(acc, b.at(x.buffer, i)))
    values = integers_like(9)
    result = run(host_function(S32, [x], [ir.Let(acc, b.const(0)), b.loop("i", 9, [add]), ir.Return(acc)]), values)
    assert result == values.sum() and result.dtype == np.int32


def test_returned_parameter_is_a_copy() -> None:
    x = b.param("x", (5,))
    assert x.buffer is not None
    values = integers_like(5)
    out = run(host_function(S32, [x], [ir.Return(views.whole(x.buffer))], (5,)), values)
    np.testing.assert_array_equal(out, values)


def test_early_return_and_temporary_storage() -> None:
    x = b.param("x", (4,))
    t, r = b.buffer("t", (4,), zeroed=True), b.buffer("r", (4,), zeroed=True)
    i = b.index("i", 4)
    assert x.buffer is not None
    early = ir.If(ir.Binary("<", b.at(x.buffer, b.const(0)), b.const(0), BOOL), (ir.Return(views.whole(r)),))
    body = [
        ir.Declare(r),
        early,
        ir.Declare(t),
        b.loop("i", 4, [b.store(t, (i,), b.at(x.buffer, i), "+")]),
        b.copy(t, r),
        ir.Return(views.whole(r)),
    ]
    function = host_function(S32, [x], body, (4,))
    np.testing.assert_array_equal(run(function, np.array([1, 2, 3, 4], np.int32)), [1, 2, 3, 4])
    np.testing.assert_array_equal(run(function, np.array([-1, 2, 3, 4], np.int32)), [0, 0, 0, 0])


def test_blocks_of_three_dimensions_are_each_run_once() -> None:
    out = b.buffer("out", (3, 4, 5), zeroed=True)
    x, y, z = (b.index(n, e, ir.Role.REGION) for n, e in (("x", 3), ("y", 4), ("z", 5)))
    value = b.plus(b.plus(b.times(x, b.const(100)), b.times(y, b.const(10))), z)
    thin = b.region(BLOCK, {"x": 3, "y": 4, "z": 5}, [b.store(out, (x, y, z), value, "+")])
    expect = np.add.outer(np.add.outer(100 * np.arange(3), 10 * np.arange(4)), np.arange(5))
    np.testing.assert_array_equal(run(b.returning("f", (), out, [b.launch("f", thin)])), expect)
    shared = b.buffer("s", (1,), storage=ir.Storage.SHARED)
    body = [
        ir.Declare(shared),
        b.store(shared, (b.const(0),), value),
        b.store(out, (x, y, z), b.at(shared, b.const(0)), "+"),
    ]
    thick = b.region(BLOCK, {"x": 3, "y": 4, "z": 5}, body)
    np.testing.assert_array_equal(run(b.returning("f", (), out, [b.launch("f", thick)])), expect)


def test_large_block_storage_comes_from_the_heap() -> None:
    out = b.buffer("out", (4,), zeroed=True)
    big = b.buffer("big", (300, 1000), storage=ir.Storage.SHARED)  # 1.2 MB
    p = b.index("p", 4, ir.Role.REGION)
    i, j = b.index("i", 300), b.index("j", 1000)
    fill = b.loop("i", 300, [b.loop("j", 1000, [b.store(big, (i, j), b.plus(p, j))])])
    total = b.loop("i", 300, [b.loop("j", 1000, [b.store(out, (p,), b.at(big, i, j), "+")])])
    kernel = b.region(BLOCK, {"p": 4}, [ir.Declare(big), fill, total])
    expect = [300 * (1000 * p + 499500) for p in range(4)]
    np.testing.assert_array_equal(run(b.returning("f", (), out, [b.launch("f", kernel)])), expect)


def test_break_out_of_a_long_loop() -> None:
    out = b.buffer("out", (2,), zeroed=True)
    p, i = b.index("p", 2, ir.Role.REGION), b.index("i", 1 << 30)
    stop = ir.If(ir.Binary(">=", i, b.plus(b.const(5_000_000), p), BOOL), (ir.Break(),))
    body = b.loop("i", 1 << 30, [stop, b.store(out, (p,), b.const(1), "+")])
    kernel = b.region(BLOCK, {"p": 2}, [body])
    np.testing.assert_array_equal(run(b.returning("f", (), out, [b.launch("f", kernel)])), [5_000_000, 5_000_001])


def test_span_operations_broadcast() -> None:
    x, y = b.param("x", (3, 4), written=True), b.param("y", (4,))
    assert x.buffer is not None and y.buffer is not None
    body = (
        ir.SpanOp(views.whole(x.buffer), views.whole(y.buffer), "+"),
        ir.SpanOp(views.whole(x.buffer), b.const(3), "*"),
    )
    a, c = integers_like(3, 4), integers_like(4)
    expect = (a + c) * 3
    run(ir.Function("f", (x, y), None, body), a, c)
    np.testing.assert_array_equal(a, expect)


@pytest.mark.parametrize("dtype", [S8, U8, S32, S64, F16, F32, F64])
@pytest.mark.parametrize("op", ["", "+", "-", "*", "/"])
def test_compound_stores_round_and_wrap_as_numpy_does(dtype: DType, op: str) -> None:
    x, y = b.param("x", (64,), dtype, written=True), b.param("y", (64,), dtype)
    i = b.index("i", 64)
    assert x.buffer is not None and y.buffer is not None
    body = b.loop("i", 64, [b.store(x.buffer, (i,), b.at(y.buffer, i), op)])
    kind = np.dtype(dtype.numpy)
    a, c = RNG.integers(0, 100, 64).astype(kind), RNG.integers(1, 100, 64).astype(kind)
    with np.errstate(over="ignore"):
        wide = (a.astype(np.float32), c.astype(np.float32)) if dtype is F16 else (a, c)
        if op == "/" and dtype.is_integer:
            expect = np.trunc(a.astype(np.float64) / c).astype(kind)
        else:
            expect = {"": lambda p, q: q, "+": np.add, "-": np.subtract, "*": np.multiply, "/": np.divide}[op](*wide)
            expect = expect.astype(kind)
    run(ir.Function("f", (x, y), None, (body,)), a, c)
    np.testing.assert_array_equal(a, expect)


def test_generated_text_keeps_the_names_of_the_program() -> None:
    text = emitted(b.matmul_dma()).text
    for name in ("px", "py", "tile_k", "lhs_load", "output", "qx"):
        assert f" {name}" in text
    assert "<cmath>" not in text and "<iostream>" not in text


def test_names_that_cxx_forbids() -> None:
    out = b.buffer("class", (2,), zeroed=True)
    index = b.index("lane", 2, ir.Role.REGION)
    kernel = b.region(BLOCK, {"lane": 2}, [b.store(out, (index,), b.plus(index, b.const(1)))])
    np.testing.assert_array_equal(run(b.returning("register", (), out, [b.launch("register", kernel)])), [1, 2])
    names = Names({"kernel"})
    assert names.of(ir.Var("kernel")) == "kernel_2"
    assert names.of(ir.Var("p.1")) == "p_1" and names.of(ir.Var("p_1")) == "p_1_2"
    assert names.of(ir.Var("größe")) != names.of(ir.Var("gr__e"))


def test_line_markers_lead_to_the_cell() -> None:
    source = Source("%%croqtile line\none\ntwo\nthree\n", first_line=1)
    span = source.span(source.text.index("two"), source.text.index("two") + 3)
    out = b.buffer("out", (2,), zeroed=True)
    i = b.index("i", 2)
    store = ir.Store(views.whole(out), (i,), b.const(1), span=span)
    text = emitted(b.returning("f", (), out, [b.loop("i", 2, [store])])).text.splitlines()
    marker = text.index('#line 3 "cell"')
    assert "out[i] = 1" in text[marker + 1]


def test_unsupported_statement_says_where() -> None:
    source = Source("mma.commit;")
    function = ir.Function("f", (), None, (ir.MmaCommit(span=source.whole()),))
    with pytest.raises(Unsupported) as caught:
        emitted(function)
    assert caught.value.span == source.whole()
    assert "not supported" in str(caught.value)


def test_strings_survive() -> None:
    assert cxx_string(b'a"b\\c\n?\xc3') == 'a\\"b\\\\c\\n\\077\\303'


def test_offset_of_an_array_of_buffers() -> None:
    out = b.buffer("out", (3, 4), zeroed=True)
    t = ir.Buffer("t", S32, ir.Storage.SHARED, (b.const(4),), (3,))
    p, k, i = b.index("p", 1, ir.Role.REGION), b.index("k", 3), b.index("i", 4)
    slot = views.whole(t, (k,))
    write = ir.Store(slot, (i,), b.plus(b.times(k, b.const(10)), i))
    read = b.store(out, (k, i), ir.Load(slot, (i,)))
    body = [ir.Declare(t), b.loop("k", 3, [b.loop("i", 4, [write])]), b.loop("k", 3, [b.loop("i", 4, [read])])]
    result = run(b.returning("f", (), out, [b.launch("f", b.region(BLOCK, {"p": 1}, body))]))
    np.testing.assert_array_equal(result, np.add.outer(10 * np.arange(3), np.arange(4)))
    assert integers.value(p.upper) == 1  # type: ignore[arg-type]
