"""Whole-span integer division: as element divisions, a zero is reported."""

from __future__ import annotations

import numpy as np
import pytest

import croq_magic as croq


def run(statement: str, a: np.ndarray, b: np.ndarray, n: int = 1, dtype: str = "s32") -> np.ndarray:
    text = f"__co__ void f({dtype} [M, N]& a, {dtype} [N] b, int n) {{ parallel p by 1 : block {{ {statement} }} }}"
    croq.compile(text, target="cpu").f(a, b, n)
    return a


@pytest.mark.parametrize("dtype", ["s32", "u8", "s64"])
def test_quotients_and_remainders_truncate(dtype: str) -> None:
    kind = {"s32": np.int32, "u8": np.uint8, "s64": np.int64}[dtype]
    low = 0 if dtype == "u8" else -100
    a, b = np.arange(low, low + 15).reshape(3, 5).astype(kind), np.array([3, 7, 1, 2, 13], kind)
    exact = np.trunc(a / b).astype(kind)
    assert np.array_equal(run("a /= b;", a.copy(), b, dtype=dtype), exact)
    assert np.array_equal(run("a %= b;", a.copy(), b, dtype=dtype), a - exact * b)


@pytest.mark.parametrize("statement", ["a /= b;", "a %= b;"])
def test_a_zero_is_reported(statement: str) -> None:
    with pytest.raises(croq.CheckError, match="division by zero"):
        run(statement, np.ones((2, 3), np.int32), np.array([1, 2, 0], np.int32))


def test_a_zero_divisor_of_the_whole_span() -> None:
    with pytest.raises(croq.CheckError, match="division by zero"):
        run("a /= n;", np.ones((2, 3), np.int32), np.ones(3, np.int32), n=0)
    assert np.array_equal(run("a /= n;", np.full((2, 3), 7, np.int32), np.ones(3, np.int32), n=2), np.full((2, 3), 3))
