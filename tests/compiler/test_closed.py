"""Closed forms against enumeration: the same accesses with and without tables, and sums counted one by one."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from croq_magic.compiler import ir, linear, periods
from croq_magic.compiler.closed import Closed, closed, selected, thinned, tightened
from croq_magic.compiler.linear import Linear, NotClosedError
from croq_magic.compiler.types import BOOL, S32

P, Q = ir.Var("p", S32, ir.Role.REGION), ir.Var("q", S32, ir.Role.REGION)


def op(sign: str, a: ir.Expr, b: ir.Expr | int) -> ir.Expr:
    b = ir.Const(b) if isinstance(b, int) else b
    return ir.Binary(sign, a, b, BOOL if sign in ("<", "<=", ">", ">=", "==", "!=") else S32)


STEPS = st.lists(st.tuples(st.integers(1, 9), st.integers(2, 5)), min_size=0, max_size=3)


def all_sums(of: list[tuple[int, int]]) -> list[int]:
    return [
        sum(s * i for (s, _), i in zip(of, point, strict=True))
        for point in itertools.product(*(range(n) for _, n in of))
    ]


@settings(max_examples=200, deadline=None)
@given(of=STEPS, bound=st.integers(-2, 90))
def test_points_below_a_bound(of: list[tuple[int, int]], bound: int) -> None:
    assert linear.below(bound, of) == sum(v < bound for v in all_sums(of))


@settings(max_examples=200, deadline=None)
@given(of=STEPS, bound=st.integers(-2, 90))
def test_the_set_of_sums(of: list[tuple[int, int]], bound: int) -> None:
    found, expected = linear.sums(of), sorted(set(all_sums(of)))
    assert found.at(np.arange(found.count)).tolist() == expected
    assert found.last == expected[-1]
    assert int(found.under(np.array(bound))) == sum(v < bound for v in expected)
    assert found.gap == max((b - a for a, b in itertools.pairwise(expected)), default=1)


def test_large_counts_by_hand() -> None:
    n = 10**9
    assert linear.below(n, [(256, -(-n // 256)), (1, 256)]) == n  # a guarded grid of blocks and threads
    assert linear.sums([(4, n), (1, 6)]).count == 4 * (n - 1) + 6  # windows of 6 every 4 elements
    with pytest.raises(NotClosedError):
        linear.sums([(1000, n), (1, 10)])  # runs of 10 with gaps
    with pytest.raises(NotClosedError):
        linear.below(n, [(1, n), (1, n)])


CASE = st.tuples(st.integers(-3, 5), st.integers(-3, 5), st.integers(-3, 3))


@settings(max_examples=300, deadline=None)
@given(
    sizes=st.tuples(st.integers(1, 6), st.integers(1, 6)),
    step=st.integers(1, 3),
    line=CASE,
    bound=CASE,
    least=st.integers(-6, 12),
    sign=st.sampled_from(["<", "<=", ">", ">=", "=="]),
    parallel=st.booleans(),
    names=st.sampled_from([(), ("p",), ("q",), ("p", "q")]),
)
def test_counts_and_chunks_of_a_guarded_access(
    sizes: tuple[int, int],
    step: int,
    line: tuple[int, int, int],
    bound: tuple[int, int, int],
    least: int,
    sign: str,
    parallel: bool,
    names: tuple[str, ...],
) -> None:
    """`if (b0*p + b1*q + b2 < least) touch [l0*p + l1*q + l2]`; a parallel bound is a multiple of the coordinate."""
    ranges = {"p": range(1, 1 + sizes[0] * step, step), "q": range(sizes[1])}
    if parallel:
        bound = (2 * line[0], 2 * line[1], bound[2])

    def of(k: tuple[int, int, int]) -> ir.Expr:
        return op("+", op("+", op("*", P, k[0]), op("*", Q, k[1])), k[2])

    compare = {"<": int.__lt__, "<=": int.__le__, ">": int.__gt__, ">=": int.__ge__, "==": int.__eq__}[sign]
    points = [
        (p, q, line[0] * p + line[1] * q + line[2])
        for p, q in itertools.product(ranges["p"], ranges["q"])
        if compare(bound[0] * p + bound[1] * q + bound[2], least)
    ]
    condition = op(sign, of(bound), least)
    tight, rest = tightened(ranges, [condition], {})
    for name, place in (("p", 0), ("q", 1)):  # no value is lost
        assert {point[place] for point in points} <= set(tight[name])
    form = closed(tight, rest, {0: of(line)}, {})
    if form is None:
        assert not all(map(len, tight.values())) or (rest and not (bound[0] or bound[1]))
        return
    for count, expected in ((lambda: form.count, len(points)), (lambda: form.distinct, len({v for *_, v in points}))):
        try:
            assert count() == expected
        except NotClosedError:
            assert form.other is not None or form.low > form.line.bounds(tight)[0]
    chunks: dict[tuple[int, ...], set[int]] = {}
    for p, q, v in points:
        chunks.setdefault(tuple({"p": p, "q": q}[n] for n in names), set()).add(v)
    try:
        index, low, high, elements = form.chunks(names)
        count = form.chunk_count(names)
    except NotClosedError:
        return
    rows = [tuple(int(index[n][i]) for n in names) for i in range(len(low))]
    found = {row: (int(a), int(b), int(c)) for row, a, b, c in zip(rows, low, high, elements, strict=True)}
    assert found == {row: (min(v), max(v) + 1, len(v)) for row, v in chunks.items()}
    assert count == len(chunks) or not names


def test_a_million_chunks_list_a_selection_with_its_ends() -> None:
    n = 1_000_000_007
    ranges = {"p": range(-(-n // 16)), "c": range(16)}
    form = Closed(Linear({"p": 16, "c": 1}), ranges, 0, n)
    index, low, high, elements = form.chunks(("p",))
    assert len(low) <= 1 << 17
    assert index["p"][:3].tolist() == [0, 1, 2]
    assert (int(index["p"][-1]), int(low[-1]), int(high[-1]), int(elements[-1])) == (62_500_000, n - 7, n, 7)
    assert (form.count, form.distinct, form.chunk_count(("p",))) == (n, n, 62_500_001)


def test_bounds_on_the_coordinate_bound_the_axes() -> None:
    """Of a million blocks only four do anything, and all their chunks are listed."""
    flat = op("+", op("*", P, 256), Q)
    form = closed({"p": range(10**6), "q": range(256)}, [op("<", flat, 1000)], {0: flat}, {})
    assert form is not None
    assert (form.ranges["p"], form.count) == (range(4), 1000)
    index, low, _, _ = form.chunks(("p", "q"))
    assert low.tolist() == list(range(1000))
    assert (index["p"] * 256 + index["q"]).tolist() == list(range(1000))


def test_divisions_that_the_ranges_settle_are_affine() -> None:
    ranges = {"p": range(1000), "q": range(16)}
    flat = op("+", op("*", P, 16), Q)
    assert linear.linear(op("/", flat, 16), {}, ranges) == Linear({"p": 1})
    assert linear.linear(op("%", flat, 16), {}, ranges) == Linear({"q": 1})
    assert linear.linear(op("/", flat, 7), {}, ranges) is None
    assert linear.linear(op("*", P, Q), {}, ranges) is None


@pytest.mark.parametrize(
    ("e", "expected"),
    [
        (op("/", P, 10), 10),
        (op("-", op("*", op("/", P, 4), 4), op("%", P, 6)), 12),
        (op("/", op("/", P, 3), 5), 15),
        (op("/", op("-", P, 5), 2), None),  # truncates towards zero below 5
        (op("*", P, P), None),
        (op("+", P, Q), 1),
    ],
)
def test_periods(e: ir.Expr, expected: int | None) -> None:
    assert periods.period(e, "p", {}, {"p": range(100), "q": range(4)}) == expected


def test_thinning_keeps_the_ends_and_the_limit() -> None:
    for sizes in ([10**9], [10**9, 16], [10**5, 10**5, 3], [5]):
        assert np.prod(thinned(sizes, 1000), dtype=float) <= max(1000, 8 ** len(sizes))
    values = selected(range(5, 10**9, 3), 100)
    assert values[:4].tolist() == [5, 8, 11, 14]
    assert values[-1] == range(5, 10**9, 3)[-1]
    assert len(values) <= 106
    assert selected(range(5, 10**9, 3), 2).tolist() == [5, values[-1]]
    assert selected(range(4), 8).tolist() == [0, 1, 2, 3]
    assert selected(range(10**18 - 1), 100).max() == 10**18 - 2  # not a float
