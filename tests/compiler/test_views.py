"""Chains of views against NumPy: the elements that a chain addresses are those of the sliced array, in order."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from croq_magic.compiler import integers, ir, views
from croq_magic.compiler.text import format_expr
from tests.compiler.expressions import evaluate
from tests.ir_builders import buffer, const, dim, index


def addressed(view: ir.View) -> tuple[np.ndarray, np.ndarray]:
    """Offsets of all elements of a view with constant extents, by its offset and by its base coordinates."""
    extents = [integers.value(e) for e in view.extents]
    shape = [integers.value(e) for e in view.buffer.shape]
    assert all(e is not None for e in extents)
    offsets = np.empty(extents, int)
    bases = np.empty(extents, int)
    for position in np.ndindex(*extents):  # type: ignore[arg-type]
        point = {c.name: p for c, p in zip(view.coords, position, strict=True)}
        offsets[position] = evaluate(view.offset, point)
        coordinates = [evaluate(e, point) for e in view.map]
        bases[position] = np.ravel_multi_index(coordinates, shape)  # type: ignore[arg-type]
    return offsets, bases


def numbered(shape: list[int]) -> tuple[ir.View, np.ndarray]:
    """A whole buffer, and an array of the same shape that holds every element's offset."""
    return views.whole(buffer("x", shape)), np.arange(int(np.prod(shape))).reshape(shape)


def consts(numbers: list[int]) -> tuple[ir.Expr, ...]:
    return tuple(map(const, numbers))


@st.composite
def chains(draw: st.DrawFn) -> tuple[ir.View, np.ndarray]:
    """A random chain of windows, reshapes and squeezes, on a view and on an array."""
    view, array = numbered(draw(st.lists(st.integers(1, 5), min_size=1, max_size=4)))
    for _ in range(draw(st.integers(1, 3))):
        kind = draw(st.sampled_from(["window", "reshape", "squeeze"]))
        if kind == "window":
            extents = [draw(st.integers(1, n)) for n in array.shape]
            origin = [draw(st.integers(0, n - e)) for n, e in zip(array.shape, extents, strict=True)]
            view = views.window(view, consts(origin), consts(extents))
            array = array[tuple(slice(o, o + e) for o, e in zip(origin, extents, strict=True))]
        elif kind == "reshape" and view.contiguous:
            shape = draw(st.sampled_from(factorisations(array.size)))
            view, array = views.reshape(view, consts(shape)), array.reshape(shape)
        else:
            view = views.squeeze(view)
            kept = [n for n in array.shape if n != 1] or [1]
            array = array.reshape(kept)
    return view, array


def factorisations(count: int) -> list[list[int]]:
    """Shapes of `count` elements with up to three dimensions."""
    divisors = [d for d in range(1, count + 1) if count % d == 0]
    return (
        [[count]]
        + [[a, count // a] for a in divisors]
        + [[a, b, count // a // b] for a in divisors for b in divisors if count % (a * b) == 0]
    )


@given(chains())
def test_chains_address_what_numpy_slices(chain: tuple[ir.View, np.ndarray]) -> None:
    view, array = chain
    offsets, bases = addressed(view)
    assert offsets.shape == array.shape
    np.testing.assert_array_equal(offsets, array)
    np.testing.assert_array_equal(bases, array)


@given(chains())
def test_contiguous_is_true_only_for_consecutive_elements(chain: tuple[ir.View, np.ndarray]) -> None:
    view, array = chain
    consecutive = bool((np.diff(array.ravel()) == 1).all())
    if view.contiguous:
        assert consecutive


@given(chains())
def test_strides_rebuild_the_offsets(chain: tuple[ir.View, np.ndarray]) -> None:
    view, array = chain
    found = views.strides(view)
    if found is None:
        return
    steps = [integers.value(s) for s in found]
    rebuilt = array.ravel()[0] + sum(
        np.arange(n).reshape([-1 if i == d else 1 for i in range(array.ndim)]) * step
        for d, (n, step) in enumerate(zip(array.shape, steps, strict=True))
    )
    np.testing.assert_array_equal(np.broadcast_to(rebuilt, array.shape), array)


@given(st.data())
def test_explicit_strides_count_elements_of_the_buffer(data: st.DataObject) -> None:
    view, array = numbered(data.draw(st.lists(st.integers(2, 6), min_size=2, max_size=2)))
    strides = [data.draw(st.integers(1, array.shape[1] + 1)), data.draw(st.integers(1, 2))]
    extents = [data.draw(st.integers(1, 2)), data.draw(st.integers(1, 3))]
    origin = [data.draw(st.integers(0, 1)), data.draw(st.integers(0, 2))]
    expected = np.array(
        [
            [sum((o + i) * s for o, i, s in zip(origin, ij, strides, strict=True)) for ij in row]
            for row in [[(i, j) for j in range(extents[1])] for i in range(extents[0])]
        ]
    )
    if expected.max() >= array.size:
        return
    made = views.strided(view, consts(origin), consts(extents), consts(strides))
    offsets, bases = addressed(made)
    np.testing.assert_array_equal(offsets, expected)
    np.testing.assert_array_equal(bases, expected)


def test_windows_of_a_matrix() -> None:
    view, _ = numbered([8, 16])
    p = index("p", 4, ir.Role.REGION)
    rows = views.window(view, (integers.mul(p, const(2)), const(0)), consts([2, 16]))
    assert [format_expr(e) for e in rows.map] == ["p * 2 + c0", "c1"]
    assert format_expr(rows.offset) == "p * 32 + c0 * 16 + c1"
    assert rows.contiguous
    columns = views.window(view, (const(0), p), consts([8, 1]))
    assert not columns.contiguous
    assert [format_expr(s) for s in views.strides(columns) or ()] == ["16", "1"]


def test_symbolic_extents() -> None:
    m, k = dim("M"), dim("K")
    view = views.whole(buffer("x", [m, k]))
    assert [format_expr(s) for s in views.strides(view) or ()] == ["K", "1"]
    flat = views.reshape(view, (integers.mul(m, k),))
    assert format_expr(flat.offset) == "c0"
    part = views.window(view, (const(1), const(0)), (const(2), k))
    assert part.contiguous
    assert format_expr(views.origin(part)[1]) == "K"


@pytest.mark.parametrize(("shape", "expected"), [([1, 4, 1], [4]), ([1, 1], [1]), ([2, 3], [2, 3])])
def test_squeeze(shape: list[int], expected: list[int]) -> None:
    view, _ = numbered(shape)
    assert [integers.value(e) for e in views.squeeze(view).extents] == expected


def test_element() -> None:
    view, array = numbered([4, 6])
    part = views.window(view, consts([1, 2]), consts([2, 3]))
    coordinates, offset = views.element(part, consts([1, 2]))
    assert [integers.value(e) for e in coordinates] == [2, 4]
    assert integers.value(offset) == array[2, 4]


@pytest.mark.parametrize(
    ("origin", "extents"),
    [
        ([0, 0, 0], [4, 6, 5]),
        ([1, 2, 0], [1, 1, 5]),
        ([1, 2, 1], [1, 1, 3]),
        ([1, 2, 1], [3, 1, 1]),
        ([1, 0, 2], [1, 1, 1]),
    ],
)
def test_contiguity_is_that_of_the_addresses(origin: list[int], extents: list[int]) -> None:
    """Of a part of a part: the rows of a tile are contiguous though the tile is not. Extents of 1 do not matter."""
    view, array = numbered([9, 8, 7])
    tile = views.window(view, consts([2, 1, 2]), consts([4, 6, 5]))
    part = views.window(tile, consts(origin), consts(extents))
    slices = tuple(slice(o, o + e) for o, e in zip(origin, extents, strict=True))
    expected = array[2:6, 1:7, 2:7][slices].flags.c_contiguous
    assert views.is_contiguous(part) == views.is_contiguous(views.squeeze(part)) == expected
