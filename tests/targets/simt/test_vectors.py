"""Element-wise levels and loops as vectors: values by the emulator against NumPy, for all lengths of what is left over.

The emulator checks every access: one outside its array, or not aligned, or of two threads, is an error."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import croq_magic as croq
from croq_magic.compiler import pipeline

NUMPY: dict[str, Any] = {
    "s8": np.int8,
    "u16": np.uint16,
    "s32": np.int32,
    "s64": np.int64,
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "f32": np.float32,
    "f64": np.float64,
}


@pytest.fixture
def all_shapes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Functions are built once, for all shapes."""
    monkeypatch.setattr(pipeline, "MAX_VARIANTS", 0)


def numbers(dtype: str, *shape: int) -> np.ndarray:
    """Small whole numbers, which every type holds."""
    values = np.arange(int(np.prod(shape))) * 7 % 11 - (0 if dtype.startswith("u") else 5)
    return values.reshape(shape).astype(NUMPY[dtype])


def function(text: str) -> Any:
    return next(iter(croq.compile(text, target="emulate", checks="all").functions.values()))


@pytest.mark.parametrize("dtype", list(NUMPY))
def test_lengths(all_shapes: None, dtype: str) -> None:
    """One function for every length: whole blocks as vectors, the rest by elements."""
    add = function(
        f"__co__ void f({dtype} [N] a, {dtype} [N] b, {dtype} [N]& c)"
        " { parallel p by N c.at(p) = a.at(p) + b.at(p); }"
    )
    assert "uint4" in add.source()
    share = 256 * 16 // np.dtype(NUMPY[dtype]).itemsize
    for count in (1, 2, 31, share - 1, share, share + 1, 2 * share + 257, 10007):
        a, b = numbers(dtype, count), numbers(dtype, count)[::-1].copy()
        c = np.zeros_like(a)
        add(a, b, c)
        np.testing.assert_array_equal(c, a + b, err_msg=f"{count} elements")


@pytest.mark.parametrize("rows, columns", [(1, 1), (3, 7), (131, 67), (257, 31), (64, 64), (1, 4099)])
def test_rows_of_any_length(all_shapes: None, rows: int, columns: int) -> None:
    add = function(
        "__co__ void f(f16 [M, N] a, s32 [M, N] b, f32 [M, N]& c)"
        " { parallel {i, j} by [M, N] c.at(i, j) = a.at(i, j) + b.at(i, j); }"
    )
    assert "uint4" in add.source() and "uint2" in add.source()
    a, b = numbers("f16", rows, columns), numbers("s32", rows, columns)
    c = np.zeros((rows, columns), np.float32)
    add(a, b, c)
    np.testing.assert_array_equal(c, a.astype(np.float32) + b)


PROGRAMS: dict[str, tuple[str, list[tuple[str, tuple[int, ...]]], Any]] = {
    "a row for all": (
        "__co__ void f(f32 [211, 164] x, f32 [164] y, f32 [211, 164]& r)"
        " { parallel {i, j} by [211, 164] r.at(i, j) = x.at(i, j) + y.at(j); }",
        [("f32", (211, 164)), ("f32", (164,)), ("f32", (211, 164))],
        lambda x, y, r: x + y,
    ),
    "a column for all": (
        "__co__ void f(f16 [331, 264] x, f16 [331] y, f16 [331, 264]& r)"
        " { parallel {i, j} by [331, 264] r.at(i, j) = x.at(i, j) * y.at(i); }",
        [("f16", (331, 264)), ("f16", (331,)), ("f16", (331, 264))],
        lambda x, y, r: x * y[:, None],
    ),
    "in place": (
        "__co__ void f(s8 [3, 61, 757]& r) { parallel {i, j, k} by [3, 61, 757] r.at(i, j, k) += i + j % 5 + k % 3; }",
        [("s8", (3, 61, 757))],
        lambda r: (r + sum(n % m for n, m in zip(np.indices(r.shape), (3, 5, 3), strict=True))).astype(np.int8),
    ),
    "indices as values": (
        "__co__ void f(s32 [197, 173] x, s32 [197, 173]& r)"
        " { parallel {i, j} by [197, 173] r.at(i, j) = x.at(i, j) * 1000 + i * 3 - j; }",
        [("s32", (197, 173)), ("s32", (197, 173))],
        lambda x, r: x * 1000 + 3 * np.arange(197)[:, None] - np.arange(173),
    ),
    "a store that not all make": (
        "__co__ void f(s32 [33811] x, s32 [33811]& r) { parallel p by 33811 if (x.at(p) > 0) r.at(p) = p; }",
        [("s32", (33811,)), ("s32", (33811,))],
        lambda x, r: np.where(x > 0, np.arange(33811), r),
    ),
    "an element that not all have": (
        "__co__ void f(s32 [10] x, s32 [40000] y, s32 [40000]& r)"
        " { parallel p by 40000 { if (p < 10) r.at(p) = y.at(p) + x.at(p); else r.at(p) = y.at(p); } }",
        [("s32", (10,)), ("s32", (40000,)), ("s32", (40000,))],
        lambda x, y, r: y + np.pad(x, (0, 39990)),
    ),
    "a neighbour": (
        "__co__ void f(f32 [50001] x, f32 [50000]& r) { parallel p by 50000 r.at(p) = x.at(p + 1) - x.at(p); }",
        [("f32", (50001,)), ("f32", (50000,))],
        lambda x, r: x[1:] - x[:-1],
    ),
    "every other element": (
        "__co__ void f(f32 [50000] x, f32 [100000]& r) { parallel p by 50000 r.at(p * 2) = x.at(p); }",
        [("f32", (50000,)), ("f32", (100000,))],
        lambda x, r: np.stack([x, r[1::2]], 1).reshape(-1),
    ),
    "transposed": (
        "__co__ void f(f32 [212, 180] x, f32 [180, 212]& r) { parallel {i, j} by [180, 212] r.at(i, j) = x.at(j, i); }",
        [("f32", (212, 180)), ("f32", (180, 212))],
        lambda x, r: x.T,
    ),
    "a window": (
        "__co__ void f(f32 [300, 200] x, f32 [300, 200]& r) {"
        " v = r.subspan(256, 160).at(0, 0); parallel {i, j} by [256, 160] v.at(i, j) = x.at(i + 44, j + 40); }",
        [("f32", (300, 200)), ("f32", (300, 200))],
        lambda x, r: np.block([[x[44:, 40:], r[:256, 160:]], [r[256:]]]),
    ),
    "one value": (
        "__co__ void f(s8 [600001]& r) { parallel p by 600001 r.at(p) = 3; }",
        [("s8", (600001,))],
        lambda r: np.full_like(r, 3),
    ),
    "a loop of a thread": (
        "__co__ void f(s32 [6, 24] x, s32 [6, 24]& r) { parallel t by 6 : thread"
        " { foreach k in 24 r.at(t, k) = x.at(t, k) * 2 + k; } }",
        [("s32", (6, 24)), ("s32", (6, 24))],
        lambda x, r: x * 2 + np.arange(24),
    ),
    "a sum of a thread": (
        "__co__ void f(f32 [5, 40] x, f32 [5]& r) { parallel t by 5 : thread"
        " { f32 s = 0.0f; foreach k in 40 s += x.at(t, k); r.at(t) = s; } }",
        [("f32", (5, 40)), ("f32", (5,))],
        lambda x, r: x.sum(1),
    ),
    "a loop that runs on": (
        "__co__ void f(s32 [4, 16]& r) { parallel t by 4 : thread { foreach k in 15 r.at(t, k + 1) += r.at(t, k); } }",
        [("s32", (4, 16))],
        lambda r: np.cumsum(r, 1),
    ),
}


@pytest.mark.parametrize("name", list(PROGRAMS))
def test_programs(name: str) -> None:
    text, arrays, wanted = PROGRAMS[name]
    values = [numbers(dtype, *shape) for dtype, shape in arrays]
    right = wanted(*(value.copy() for value in values))
    function(text)(*values)
    np.testing.assert_array_equal(values[-1], right)


@pytest.mark.parametrize(
    "name", ["a row for all", "a column for all", "in place", "indices as values", "one value", "a loop of a thread"]
)
def test_these_are_vectors(name: str) -> None:
    assert "uint4" in function(PROGRAMS[name][0]).source()


@pytest.mark.parametrize(
    "name", ["a store that not all make", "a neighbour", "every other element", "a loop that runs on"]
)
def test_these_are_not(name: str) -> None:
    assert "uint4" not in function(PROGRAMS[name][0]).source()


def test_views_of_arrays() -> None:
    """Arrays that do not lie together or not at a multiple of 16 bytes are given to the kernel as copies that do."""
    add = function("__co__ void f(f32 [40000] a, f32 [40000]& c) { parallel p by 40000 c.at(p) += a.at(p); }")
    wide = numbers("f32", 80002)
    c = np.ones(40001, np.float32)
    add(wide[1:80001:2], c[1:])
    np.testing.assert_array_equal(c, np.concatenate([[1], 1 + wide[1:80001:2]]))
