"""Access maps against plain loops: every expected value below is counted by a loop nest written out in Python."""

from __future__ import annotations

import itertools
import math
from collections import Counter, defaultdict
from fractions import Fraction

import ir_builders as build
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from croq_magic.compiler import integers, ir, views
from croq_magic.compiler.access import Access, Mode, collect
from croq_magic.compiler.domain import relation
from croq_magic.compiler.relation import NOBODY, SEVERAL
from croq_magic.compiler.types import BOOL, S32

REGION = ir.Role.REGION


def find(function: ir.Function, buffer: str, mode: Mode, role: str | None = None) -> Access:
    """The only access of that kind."""
    (found,) = (
        a for a in collect(function).items if a.buffer.name == buffer and a.mode is mode and role in (None, a.role)
    )
    return found


def touched(access: Access, **values: int) -> Counter[tuple[int, ...]]:
    """How often each element is touched, by enumerating the relation."""
    table = relation(access, values).points()
    scope = values | table
    from croq_magic.compiler import numeric

    columns = [np.broadcast_to(numeric.value(c, scope), len(next(iter(table.values())))) for c in access.coords]
    return Counter(zip(*(c.tolist() for c in columns), strict=True))


def test_accesses_of_the_tiled_matrix_product() -> None:
    m, k, n, tile = 8, 12, 6, (4, 3, 2)
    f = build.matmul_dma(m, k, n, tile)
    lhs, rhs, out = Counter(), Counter(), Counter()
    shared = Counter()
    for px, py, tile_k in itertools.product(range(2), range(2), range(6)):
        for i, kk in itertools.product(range(4), range(2)):
            lhs[px * 4 + i, tile_k * 2 + kk] += 1
        for kk, j in itertools.product(range(2), range(3)):
            rhs[tile_k * 2 + kk, py * 3 + j] += 1
        for qx, qy, kk in itertools.product(range(4), range(3), range(2)):
            out[px * 4 + qx, py * 3 + qy] += 1
            shared[qx, kk] += 1
    assert touched(find(f, "lhs", Mode.READ)) == lhs
    assert touched(find(f, "rhs", Mode.READ)) == rhs
    assert touched(find(f, "output", Mode.UPDATE)) == out
    assert touched(find(f, "lhs_load", Mode.READ)) == shared


def test_counts_and_distinct_elements() -> None:
    r = relation(find(build.matmul_dma(), "lhs", Mode.READ), {})
    assert (r.count, r.distinct, r.exact) == (128 * 16 * 16 * 16, 128 * 256, True)
    assert r.free == {"py": 16}
    r = relation(find(build.matmul_scalar(), "lhs", Mode.READ), {})
    assert (r.count, r.distinct) == (128 * 256 * 256, 128 * 256)


def test_symbolic_extents_take_their_values_from_the_caller() -> None:
    f = build.matmul_dma(*(build.dim(name) for name in "MKN"))
    r = relation(find(f, "lhs", Mode.READ), {"M": 64, "K": 32, "N": 48})
    assert r.shape == (64, 32)
    assert r.count == (64 // 16) * (48 // 16) * (32 // 16) * 256


def test_owners_of_elements_by_block_and_thread() -> None:
    f = build.matmul_scalar(8, 4, 12, blocks=4, threads=3)
    access = find(f, "output", Mode.UPDATE)
    by_block, by_thread = np.full((8, 12), NOBODY), np.full((8, 12), NOBODY)
    for p, q, i, j in itertools.product(range(4), range(3), range(2), range(4)):
        by_block[p * 2 + i, q * 4 + j] = p
        by_thread[p * 2 + i, q * 4 + j] = q
    r = relation(access, {})
    np.testing.assert_array_equal(r.owners({"p": 1}), by_block)
    np.testing.assert_array_equal(r.owners({"q": 1}), by_thread)


def test_owner_is_several_where_halos_overlap_and_nobody_outside() -> None:
    """Blocks of 4 elements read one more on each side of their own; element 0 is never read."""
    x, out = build.param("x", (20,)), build.buffer("output", (20,))
    p, i = build.index("p", 4, REGION), build.index("i", 6)
    position = integers.add(integers.mul(p, build.const(4)), integers.add(i, build.const(1)))
    assert x.buffer is not None
    body = [build.loop("i", 6, [build.store(out, (p,), build.at(x.buffer, position), "+")])]
    f = build.returning("halo", (x,), out, [build.launch("halo", build.region(build.BLOCK, {"p": 4}, body))])
    readers: dict[int, set[int]] = defaultdict(set)
    for block, step in itertools.product(range(4), range(6)):
        readers[block * 4 + step + 1].add(block)
    expected = [
        NOBODY if not readers[e] else SEVERAL if len(readers[e]) > 1 else next(iter(readers[e])) for e in range(20)
    ]
    assert relation(find(f, "x", Mode.READ), {}).owners({"p": 1}).tolist() == expected
    assert SEVERAL in expected and NOBODY in expected


def test_chunks_are_what_one_instance_touches() -> None:
    f = build.matmul_dma(8, 12, 6, (4, 3, 2))
    rows, columns = relation(find(f, "lhs", Mode.READ), {}).chunks(["px", "tile_k"])
    assert rows.dims == (0,) and columns.dims == (1,)
    assert rows.index["px"].tolist() == [0, 1]
    assert (rows.low[:, 0].tolist(), rows.high[:, 0].tolist()) == ([0, 4], [4, 8])
    assert columns.low[:, 0].tolist() == [0, 2, 4, 6, 8, 10]
    assert rows.dense and columns.dense


def test_a_strided_chunk_is_not_dense() -> None:
    r = relation(find(build.row_sum(2, 12, threads=4), "x", Mode.READ), {})
    (chunks,) = (c for c in r.chunks(["p", "t"]) if c.dims == (1,))
    assert not chunks.dense
    assert chunks.low[:, 0].tolist() == [0, 1, 2, 3]
    assert chunks.high[:, 0].tolist() == [9, 10, 11, 12]
    assert chunks.elements.tolist() == [3, 3, 3, 3]


def test_an_if_filters_the_domain() -> None:
    for n in (1, 255, 256, 257, 1000):
        r = relation(find(build.saxpy(), "x", Mode.READ), {})
        assert r.count == 1000
        r = relation(find(build.saxpy(build.dim("N")), "x", Mode.READ), {"N": n})
        assert (r.count, r.distinct, r.exact) == (n, n, True)


def guarded(condition: ir.Expr, exits: bool) -> ir.Function:
    """Blocks p < 6, loop i < 5, store into output[p, i] under a condition."""
    out = build.buffer("output", (6, 5))
    p, i = build.index("p", 6, REGION), build.index("i", 5)
    write = build.store(out, (p, i), build.const(1))
    if exits:
        body: list[ir.Stmt] = [ir.If(ir.Unary("!", condition, BOOL), (ir.Continue(),)), write]
    else:
        body = [ir.If(condition, (write,))]
    kernel = build.region(build.BLOCK, {"p": 6}, [build.loop("i", 5, body)])
    return build.returning("guarded", (), out, [build.launch("guarded", kernel)])


@pytest.mark.parametrize("exits", [False, True])
def test_conditions_may_join_axes(exits: bool) -> None:
    p, i = build.index("p", 6, REGION), build.index("i", 5)
    condition = ir.Binary("<=", ir.Binary("%", build.plus(p, i), ir.Const(4), S32), i, BOOL)
    expected = Counter((a, b) for a in range(6) for b in range(5) if (a + b) % 4 <= b)
    assert touched(find(guarded(condition, exits), "output", Mode.WRITE)) == expected


def test_guards_of_two_dimensions_do_not_tie_them_together() -> None:
    """`if (i >= 100 || j >= 70) yield;` on a grid of 16 by 16 tiles that sticks out on both sides."""
    out = build.buffer("output", (100, 70))
    names = {"px": 7, "py": 5, "qx": 16, "qy": 16}
    px, py, qx, qy = (build.index(name, n, REGION) for name, n in names.items())
    row, column = build.compose(px, qx, 16), build.compose(py, qy, 16)
    outside = [ir.Binary(">=", v, ir.Const(n), BOOL) for v, n in ((row, 100), (column, 70))]
    leave = ir.If(ir.Binary("||", *outside, BOOL), (ir.Yield(),))
    threads = build.region(build.THREAD, {"qx": 16, "qy": 16}, [leave, build.store(out, (row, column), build.const(1))])
    kernel = build.region(build.BLOCK, {"px": 7, "py": 5}, [threads])
    f = build.returning("fill", (), out, [build.launch("fill", kernel)])
    r = relation(find(f, "output", Mode.WRITE), {})
    assert touched(r.access) == Counter(itertools.product(range(100), range(70)))
    assert sorted(len(factor.coords) for factor in r.factors) == [1, 1]


def test_a_loop_whose_bounds_move_with_an_outer_index() -> None:
    """`foreach i` from p to 2p+1 in steps of 2."""
    out = build.buffer("output", (6, 12))
    p, i = build.index("p", 6, REGION), build.index("i", 12)
    stop = integers.add(integers.mul(p, build.const(2)), integers.ONE)
    body = [ir.For(i, p, stop, 2, (build.store(out, (p, i), build.const(1)),))]
    kernel = build.region(build.BLOCK, {"p": 6}, body)
    f = build.returning("moving", (), out, [build.launch("moving", kernel)])
    expected = Counter((a, b) for a in range(6) for b in range(a, 2 * a + 1, 2))
    assert touched(find(f, "output", Mode.WRITE)) == expected


def test_zero_fill_reads_nothing_outside_the_array() -> None:
    x, tile = build.param("x", (10,)), build.buffer("tile", (4,), storage=ir.Storage.SHARED)
    p = build.index("p", 3, REGION)
    assert x.buffer is not None
    window = build.chunk(x.buffer, (integers.mul(p, build.const(4)),), (4,))
    filled = ir.View(**{**window.__dict__, "zfill": True})
    kernel = build.region(build.BLOCK, {"p": 3}, [ir.Declare(tile), build.copy(filled, tile)])
    f = ir.Function("fill", (x,), None, (build.launch("fill", kernel),))
    assert touched(find(f, "x", Mode.READ)) == Counter((e,) for e in range(10))
    assert relation(find(f, "tile", Mode.WRITE), {}).count == 12


def test_a_copy_into_shared_memory_happens_once_a_block_even_at_thread_level() -> None:
    x, tile = build.param("x", (12,)), build.buffer("tile", (4,), storage=ir.Storage.SHARED)
    p = build.index("p", 3, REGION)
    assert x.buffer is not None
    window = build.chunk(x.buffer, (integers.mul(p, build.const(4)),), (4,))
    threads = build.region(build.THREAD, {"q": 32}, [ir.Declare(tile), build.copy(window, tile)])
    f = ir.Function("fill", (x,), None, (build.launch("fill", build.region(build.BLOCK, {"p": 3}, [threads])),))
    assert relation(find(f, "x", Mode.READ), {}).count == 12
    local = build.buffer("tile", (4,), storage=ir.Storage.LOCAL)
    threads = build.region(build.THREAD, {"q": 32}, [ir.Declare(local), build.copy(window, local)])
    f = ir.Function("fill", (x,), None, (build.launch("fill", build.region(build.BLOCK, {"p": 3}, [threads])),))
    assert relation(find(f, "x", Mode.READ), {}).count == 12 * 32


def test_an_index_from_data_may_be_any_and_says_so() -> None:
    x, rows = build.param("x", (5, 4)), build.param("rows", (3,))
    out = build.buffer("output", (3, 4))
    p, i = build.index("p", 3, REGION), build.index("i", 4)
    assert x.buffer is not None and rows.buffer is not None
    gather = build.store(out, (p, i), build.at(x.buffer, build.at(rows.buffer, p), i))
    kernel = build.region(build.BLOCK, {"p": 3}, [build.loop("i", 4, [gather])])
    f = build.returning("gather", (x, rows), out, [build.launch("gather", kernel)])
    r = relation(find(f, "x", Mode.READ), {})
    assert not r.exact
    assert r.notes == ("an index that depends on data may be any",)
    assert r.distinct == 20
    assert relation(find(f, "rows", Mode.READ), {}).exact


def test_a_condition_from_data_is_taken_to_hold() -> None:
    x, out = build.param("x", (6,)), build.buffer("output", (6,))
    p = build.index("p", 6, REGION)
    assert x.buffer is not None
    positive = ir.Binary(">", build.at(x.buffer, p), ir.Const(0), BOOL)
    kernel = build.region(build.BLOCK, {"p": 6}, [ir.If(positive, (build.store(out, (p,), build.const(1)),))])
    f = build.returning("where", (x,), out, [build.launch("where", kernel)])
    r = relation(find(f, "output", Mode.WRITE), {})
    assert r.count == 6 and not r.exact
    assert relation(find(f, "x", Mode.READ), {}).count == 6


def test_a_transposed_copy_links_each_element_to_its_source() -> None:
    x, tile = build.param("x", (3, 5)), build.buffer("tile", (5, 3), storage=ir.Storage.SHARED)
    assert x.buffer is not None
    transposed = ir.Copy(views.whole(x.buffer), views.whole(tile), permutation=(1, 0))
    kernel = build.region(build.BLOCK, {"p": 1}, [ir.Declare(tile), transposed])
    f = ir.Function("transpose", (x,), None, (build.launch("transpose", kernel),))
    write = find(f, "tile", Mode.WRITE)
    (read,) = write.inputs
    point = {name: int(v[0]) for name, v in relation(write, {}).select((4, 2)).points().items()}
    from croq_magic.compiler import numeric

    assert [numeric.value(c, point) for c in read.coords] == [2, 4]


AFFINE = st.tuples(st.integers(-2, 3), st.integers(0, 3), st.integers(-1, 2), st.integers(0, 6))


@settings(max_examples=100, deadline=None)
@given(
    extents=st.tuples(*[st.integers(1, 4)] * 3),
    rows=AFFINE,
    columns=AFFINE,
    bound=AFFINE,
    divisor=st.integers(1, 4),
)
def test_any_affine_access_under_a_condition(
    extents: tuple[int, ...], rows: tuple[int, ...], columns: tuple[int, ...], bound: tuple[int, ...], divisor: int
) -> None:
    """`if (bound >= 0) output[rows, columns / divisor] = 1` in a block, thread and loop index."""
    names = ("p", "t", "i")
    variables = [build.index(n, e, REGION if n != "i" else ir.Role.LOOP) for n, e in zip(names, extents, strict=True)]

    def linear(factors: tuple[int, ...]) -> ir.Expr:
        e = build.const(factors[3])
        for factor, v in zip(factors, variables, strict=False):
            e = ir.Binary("+", e, ir.Binary("*", ir.Const(factor), v, S32), S32)
        return e

    def number(factors: tuple[int, ...], point: tuple[int, ...]) -> int:
        return sum(f * v for f, v in zip(factors, point, strict=False)) + factors[3]

    shape = (40, 40)
    out = build.buffer("output", shape)
    place = (linear(rows), ir.Binary("/", linear(columns), ir.Const(divisor), S32))
    guarded = ir.If(ir.Binary(">=", linear(bound), ir.Const(0), BOOL), (build.store(out, place, ir.Const(1)),))
    threads = build.region(build.THREAD, {"t": extents[1]}, [build.loop("i", extents[2], [guarded])])
    kernel = build.region(build.BLOCK, {"p": extents[0]}, [threads])
    access = find(build.returning("any", (), out, [build.launch("any", kernel)]), "output", Mode.WRITE)

    def touches(point: tuple[int, ...]) -> tuple[int, int]:
        return number(rows, point), math.trunc(Fraction(number(columns, point), divisor))

    expected: Counter[tuple[int, ...]] = Counter()
    owners: dict[tuple[int, ...], set[int]] = defaultdict(set)
    points = list(itertools.product(*map(range, extents)))
    for point in points:
        if number(bound, point) >= 0:
            element = touches(point)
            expected[element] += 1
            owners[element].add(point[0])
    r = relation(access, {})
    assert r.exact
    assert (r.count, r.distinct) == (sum(expected.values()), len(expected))
    if expected:
        assert touched(access) == expected
    by_block = r.owners({"p": 1})
    if all(touches(point) == touches((0, *point[1:])) for point in points):
        return  # no block owns anything: all touch the same
    for element in itertools.product(range(shape[0]), range(shape[1])):
        of = owners.get(element, set())
        assert by_block[element] == (NOBODY if not of else SEVERAL if len(of) > 1 else next(iter(of)))


def test_large_domains_are_counted_in_closed_form() -> None:
    n = 20_000_000
    r = relation(find(build.saxpy(build.dim("N")), "x", Mode.READ), {"N": n}, limit=100_000)
    assert r.exact
    assert (r.count, r.distinct, r.untouched) == (n, n, 0)
    (chunks,) = r.chunks(["p"])
    assert (chunks.low[0, 0], chunks.high[0, 0]) == (0, 256)
    assert chunks.high.max() == n
    unguarded = relation(find(build.matmul_scalar(), "lhs", Mode.READ), {}, limit=100)
    assert unguarded.count == 128 * 256 * 256


@settings(max_examples=150, deadline=None)
@given(
    extents=st.tuples(st.integers(1, 40), st.integers(1, 20), st.integers(1, 12)),
    row=st.tuples(st.integers(-20, 20), st.integers(-3, 12), st.integers(0, 2), st.integers(600, 700)),
    column=st.integers(0, 3),
    bound=st.integers(500, 900),
    modulus=st.sampled_from([1, 1, 1, 2, 5]),
)
def test_what_is_called_exact_is_what_a_full_table_gives(
    extents: tuple[int, int, int], row: tuple[int, ...], column: int, bound: int, modulus: int
) -> None:
    """`if (row < bound && p % modulus == 0) output[row, column * i] = 1`; `row` has p / modulus; small and whole."""
    p, t, i = (build.index(n, e, REGION if n != "i" else ir.Role.LOOP) for n, e in zip("pti", extents, strict=True))
    line: ir.Expr = ir.Const(row[3])
    for factor, v in zip(row, (p, t, i), strict=False):
        line = ir.Binary("+", line, ir.Binary("*", ir.Const(factor), v, S32), S32)
    line = ir.Binary("+", line, ir.Binary("*", ir.Binary("/", p, ir.Const(modulus), S32), ir.Const(7), S32), S32)
    out = build.buffer("output", (2000, 40))
    store = build.store(out, (line, ir.Binary("*", ir.Const(column), i, S32)), ir.Const(1))
    even = ir.Binary("==", ir.Binary("%", p, ir.Const(modulus), S32), ir.Const(0), BOOL)
    guard = ir.Binary("&&", ir.Binary("<", line, ir.Const(bound), BOOL), even, BOOL)
    body = [build.loop("i", extents[2], [ir.If(guard, (store,))])]
    kernel = build.region(build.BLOCK, {"p": extents[0]}, [build.region(build.THREAD, {"t": extents[1]}, body)])
    access = find(build.returning("some", (), out, [build.launch("some", kernel)]), "output", Mode.WRITE)
    whole, small = relation(access, {}), relation(access, {}, limit=16)
    assert whole.exact
    if small.exact:
        assert small.count == whole.count
    if small.untouched is not None:
        assert small.untouched == whole.untouched == 2000 * 40 - whole.distinct
    for fixed in ([], ["p"], ["p", "t"], ["t"], ["i"]):
        for a, b in zip(small.chunks(fixed), whole.chunks(fixed), strict=False):
            if a.exact and a.dims == b.dims:
                assert a.count == b.count
                for x, y in (
                    (a.low, b.low),
                    (a.high, b.high),
                    (a.elements, b.elements),
                    *zip(a.index.values(), b.index.values(), strict=True),
                ):
                    np.testing.assert_array_equal(x, y)
    points = whole.points()
    for number in {0, whole.count // 2, whole.count - 1} if whole.count else ():  # looked for in the small table
        p0, t0, i0 = (int(points[name][number]) for name in "pti")
        place = row[0] * p0 + row[1] * t0 + row[2] * i0 + row[3] + p0 // modulus * 7, column * i0
        found = relation(access, {}, limit=16 * 20 * 5, at=place)
        assert found.exact or row[0] * modulus + 7 == 0 or not row[1]
        assert not found.exact or found.count == whole.select(place).count > 0


def test_scalars_that_never_change_are_followed() -> None:
    out = build.buffer("output", (12,))
    p, i = build.index("p", 3, REGION), build.index("i", 4)
    base = ir.Var("base", S32, ir.Role.LET)
    let = ir.Let(base, integers.mul(p, build.const(4)))
    body = [let, build.loop("i", 4, [build.store(out, (integers.add(base, i),), build.const(1))])]
    f = build.returning("let", (), out, [build.launch("let", build.region(build.BLOCK, {"p": 3}, body))])
    assert touched(find(f, "output", Mode.WRITE)) == Counter((e,) for e in range(12))
    assert relation(find(f, "output", Mode.WRITE), {}).owners({"p": 1}).tolist() == [e // 4 for e in range(12)]
