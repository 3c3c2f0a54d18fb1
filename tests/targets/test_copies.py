"""Transfers on the CPU, compared with NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from croq_magic.compiler import integers, ir, views
from croq_magic.compiler.types import F32, S16, S32, DType
from tests import ir_builders as b
from tests.targets.run_ir import emitted, run


def copied(src: np.ndarray, dst: tuple[int, ...], make: object, dtype: DType = S32) -> np.ndarray:
    """The result of a host copy from a parameter like `src` into a fresh array; `make(x, out)` gives the statement."""
    x, out = b.param("x", src.shape, dtype), b.buffer("out", dst, dtype, zeroed=True)
    assert x.buffer is not None
    function = b.returning("f", (x,), out, [make(x.buffer, out)])  # type: ignore[operator]
    return run(function, src)


def values(*shape: int) -> np.ndarray:
    return (np.arange(np.prod(shape), dtype=np.int32) * 7 + 1).reshape(shape)


def test_windows_of_every_shape() -> None:
    x = values(4, 6, 10)
    for origin, extents in [
        ((0, 0, 0), (4, 6, 10)),
        ((1, 2, 3), (2, 3, 4)),
        ((3, 0, 0), (1, 6, 10)),
        ((0, 5, 9), (4, 1, 1)),
    ]:
        place = tuple(map(integers.constant, origin))
        got = copied(x, extents, lambda s, o, p=place, e=extents: b.copy(b.chunk(s, p, e), o))
        np.testing.assert_array_equal(got, x[tuple(slice(p, p + e) for p, e in zip(origin, extents, strict=True))])
        into = copied(
            np.ascontiguousarray(x[: extents[0], : extents[1], : extents[2]]),
            (5, 7, 12),
            lambda s, o, p=place, e=extents: b.copy(s, b.chunk(o, p, e)),
        )
        expect = np.zeros((5, 7, 12), np.int32)
        expect[tuple(slice(p, p + e) for p, e in zip(origin, extents, strict=True))] = x[
            : extents[0], : extents[1], : extents[2]
        ]
        np.testing.assert_array_equal(into, expect)


def test_contiguous_copies_become_one_memcpy() -> None:
    x, out = b.param("x", (8, 4)), b.buffer("out", (8, 4), zeroed=True)
    assert x.buffer is not None
    text = emitted(b.returning("f", (x,), out, [b.copy(x.buffer, out)])).text
    assert "__builtin_memcpy(out, x, 128);" in text and "for (" not in text


@pytest.mark.parametrize("permutation", [(1, 0, 2), (2, 0, 1), (0, 2, 1), (2, 1, 0)])
def test_permutations(permutation: tuple[int, ...]) -> None:
    x = values(2, 3, 4).astype(np.int16)
    shape = tuple(x.shape[p] for p in permutation)
    got = copied(x, shape, lambda s, o: ir.Copy(views.whole(s), views.whole(o), permutation=permutation), S16)
    np.testing.assert_array_equal(got, np.transpose(x, permutation))


@pytest.mark.parametrize("low, high", [((1, 0), (2, 3)), ((0, 0), (0, 0)), ((0, 4), (1, 0))])
def test_padding(low: tuple[int, int], high: tuple[int, int]) -> None:
    x = values(4, 5)
    shape = tuple(n + a + z for n, a, z in zip(x.shape, low, high, strict=True))
    pad = tuple((integers.constant(a), integers.constant(z)) for a, z in zip(low, high, strict=True))
    got = copied(x, shape, lambda s, o: ir.Copy(views.whole(s), views.whole(o), pad=pad, pad_value=b.const(-1)))
    np.testing.assert_array_equal(got, np.pad(x, tuple(zip(low, high, strict=True)), constant_values=-1))


def test_partial_copy_clears_the_rest() -> None:
    x = values(2, 3)
    x_, out = b.param("x", (2, 3)), b.buffer("out", (4, 5))
    assert x_.buffer is not None
    dirty = ir.SpanOp(views.whole(out), b.const(9))
    function = b.returning("f", (x_,), out, [dirty, ir.Copy(views.whole(x_.buffer), views.whole(out), partial=True)])
    expect = np.zeros((4, 5), np.int32)
    expect[:2, :3] = x
    np.testing.assert_array_equal(run(function, x), expect)


@pytest.mark.parametrize("origin", [(0, 0), (-1, -2), (3, 4), (5, 6), (-9, 0), (20, 0), (2, -20)])
@pytest.mark.parametrize("extents", [(2, 3), (4, 8), (1, 1), (7, 9)])
def test_zero_filled_windows(origin: tuple[int, int], extents: tuple[int, int]) -> None:
    import dataclasses

    x = values(5, 7)
    place = tuple(map(integers.constant, origin))
    got = copied(x, extents, lambda s, o: b.copy(dataclasses.replace(b.chunk(s, place, extents), zfill=True), o))
    padded = np.pad(x, 40)
    expect = padded[40 + origin[0] :, 40 + origin[1] :][: extents[0], : extents[1]]
    np.testing.assert_array_equal(got, expect)


def test_strided_view() -> None:
    x = values(4, 15).astype(np.float32)
    strides = (b.const(15), b.const(3))
    got = copied(
        x,
        (4, 5),
        lambda s, o: b.copy(
            views.strided(views.whole(s), (b.const(0), b.const(0)), (b.const(4), b.const(5)), strides), o
        ),
        F32,
    )
    np.testing.assert_array_equal(got, x[:, ::3])


def test_symbolic_extents() -> None:
    m, n = b.dim("M"), b.dim("N")
    x, out = b.param("x", (m, n)), b.buffer("out", (m, n), zeroed=True)
    assert x.buffer is not None
    source = values(5, 9)
    function = b.returning("f", (x,), out, [b.copy(x.buffer, out)], (m, n))
    np.testing.assert_array_equal(run(function, source, dims={"M": 5, "N": 9}, shape=(5, 9)), source)
