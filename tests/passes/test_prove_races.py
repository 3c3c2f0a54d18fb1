"""Races between instances: language reference, execution model, section 11.1."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from croq_magic.compiler import integers, ir
from croq_magic.compiler.passes.base import Context
from croq_magic.compiler.passes.insert_joins import InsertJoins
from croq_magic.compiler.passes.prove_races import ProveRaces
from croq_magic.compiler.source import Source
from tests.ir_builders import (
    BLOCK,
    THREAD,
    at,
    buffer,
    const,
    dim,
    ele_add,
    index,
    launch,
    matmul_dma,
    matmul_scalar,
    region,
    row_sum,
    saxpy,
)
from tests.passes.cells import front, host

PARAMS = "f32 [8, 16]& g, int n"


def races(body: str, params: str = PARAMS) -> list[str]:
    functions, report = front(host(body, params))
    assert not report.errors, report.text()
    context = Context()
    ProveRaces()(functions["f"], context)
    return [f"{d.severity} {d.code} {d.span.line}:{d.span.column}: {d.message}" for d in context.report]


def test_one_element_for_all_blocks() -> None:
    (text,) = races("parallel p by 8 { g.at(0, 0) = 1.0f * p; }")
    assert text.startswith("warning RAC01 2:19: race on `g`: p = ")
    assert text.endswith(" write the same element [0, 0]")


def test_one_element_for_all_threads_of_a_block() -> None:
    (text,) = races("parallel p by 8 { parallel q by 16 : thread { g.at(p, 0) += 1.0f; } }")
    assert "write the same element [" in text


def test_reader_and_writer() -> None:
    (text,) = races(
        "parallel p by 8 { parallel q by 16 : thread { shared f32 [16] s; s.at(q) = 1.0f * q; x = s.at(15 - q); } }"
    )
    assert text.startswith("warning RAC01 2:90: race on `s`: ") and " writes the element [" in text
    _, report = front(host("parallel p by 2 : block {}"))
    assert not report.errors


RACES = [
    "parallel c by 2 : cluster { g.at(c, 0) = 1.0f; parallel b by 4 : block { g.at(c, b + 4) = g.at(1 - c, 0); } }",
    "parallel p by 7 { g.at(p, 0) = 1.0f * p; g.at(p + 1, 0) = 2.0f; }",
    "parallel p by 4 { foreach i in 4 { g.at(p + i, 0) = 1.0f * i; } }",
    "parallel p by 8 { parallel q by 16 : thread { if (q < 3) g.at(p, 0) += 1.0f; } }",
    "parallel p by 2 { shared f32 [16] s; parallel q by 16 : thread { s.at(q / 2) = 1.0f * q; } }",
    "parallel p by 2 { parallel q by 16 : thread { if (n > 3) g.at(p, 0) = 1.0f * q; } }",
    "parallel p by 4 { t = dma.copy g.subspan(4, 16).at(0, 0) => shared; dma.copy t => g.subspan(4, 16).at(1, 0); }",
    "parallel p by 4 { g.at(p, 0) = g.at(p + 1, 0); }",
]


@pytest.mark.parametrize("body", RACES)
def test_races(body: str) -> None:
    assert len(races(body)) == 1


FREE = [
    # A cluster's own statements and its blocks are joined.
    "parallel c by 2 : cluster { g.at(c, 0) = 1.0f; parallel b by 4 : block { g.at(c, b + 4) = g.at(c, 0); } }",
    "parallel p by 8 { g.at(p, 0) = 1.0f; }",
    "parallel p by 8 { g.at(7 - p, 0) = 1.0f * p; }",
    "parallel p by 4 { foreach i in 2 { g.at(p#i, 0) = 1.0f * i; } }",
    "parallel p by 8, q by 16 { g.at(p, q) += 1.0f; }",
    "parallel p by 8 { parallel q by 16 : thread { if (q == 3) g.at(p, 0) += 1.0f; } }",
    "parallel p by 8 { if (p == 0) { g.at(0, 0) = 1.0f; } }",
    "parallel p by 2 { shared f32 [16] s; parallel q by 16 : thread { s.at(q) = 1; sync.shared; x = s.at(15 - q); } }",
    "parallel p by 2 { shared f32 [16] s; parallel q by 16 : thread { s.at(q) = 1.0f; } g.at(p, 0) = s.at(3); }",
    "parallel p by 2 { shared s32 [1] s {0}; parallel q by 16 : thread { __atomic_add(s.at(0), 1); } }",
    "parallel p by 2 { parallel q by 16 : thread { g.at(p, 0) = 1.0f; } }",  # the same value
    "parallel p by 2 { parallel q by 16 : thread { t = dma.copy g.chunkat(p, _) => shared; } }",  # one copy a block
    "parallel p by 2 { local f32 [4] t; foreach i in 4 { t.at(0) = 1.0f * i; } }",
    "parallel p by 8 { g.at(__to<s32>(g.at(p, 0)), 1) = 1.0f * p; }",  # not known
    "parallel p by 8 { mutable s32 k = p; g.at(k, 1) = 1.0f * p; }",  # not known
    "parallel p by 8 { if (g.at(p, 3) > 0.0f) g.at(0, 1) = 1.0f * p; }",  # not known
    "g.at(0, 0) = 1.0f; g.at(0, 0) = 2.0f;",
    "parallel c by 2 : cluster, p by 4 : block { g.at(c#p, 0) = 1.0f * p; sync.barrier : cluster; "
    "x = g.at(c * 4 + (p + 1) % 4, 0); }",
]


@pytest.mark.parametrize("body", FREE)
def test_no_certain_race(body: str) -> None:
    assert races(body) == []


@pytest.mark.parametrize(
    "program",
    [
        matmul_dma(),
        matmul_scalar(),
        ele_add(),
        row_sum(),
        saxpy(),
        saxpy(dim("M")),
        matmul_dma(dim("M"), dim("K"), dim("N")),
    ],
    ids=lambda f: f.name,
)
def test_well_known_programs_have_none(program: ir.Function) -> None:
    context = Context()
    assert ProveRaces()(InsertJoins()(program, context), context) is not None
    assert not list(context.report)


P, T, K = index("p", 3, ir.Role.REGION), index("t", 4, ir.Role.REGION), index("k", 2)
FACTORS = st.tuples(st.integers(0, 4), st.integers(0, 4), st.integers(0, 3), st.integers(0, 2))


def combined(factors: tuple[int, int, int, int]) -> ir.Expr:
    a, b, c, d = factors
    terms = [integers.mul(const(f), v) for f, v in ((a, P), (b, T), (c, K))]
    return integers.add(integers.add(terms[0], terms[1]), integers.add(terms[2], const(d)))


@settings(max_examples=80, deadline=None)
@given(FACTORS, FACTORS, st.sampled_from([ir.Storage.GLOBAL, ir.Storage.SHARED]), st.integers(0, 4))
def test_against_enumeration(
    write: tuple[int, int, int, int], read: tuple[int, int, int, int], storage: ir.Storage, limit: int
) -> None:
    """One store and one load in a loop of every thread, the store only in threads below a limit."""
    place = Source("store load").span(0, 5)
    out = buffer("out", (64,), storage=storage)
    other = buffer("other", (64, 64))
    store = ir.Store(_whole(out), (combined(write),), ir.Binary("+", P, T, P.dtype), span=place)
    load = ir.Store(_whole(other), (integers.add(integers.mul(P, const(8)), K), T), at(out, combined(read)), span=place)
    guarded = ir.If(ir.Binary("<", T, const(limit), ir.BOOL), (store,))
    body = ir.For(K, const(0), const(2), 1, (guarded, load))
    kernel = region(BLOCK, {"p": 3}, [region(THREAD, {"t": 4}, [body])])
    context = Context()
    ProveRaces()(ir.Function("f", (), None, (launch("f", kernel),)), context)
    found = any("`out`" in d.message for d in context.report)

    touches = [
        ((p, t), sum(f * v for f, v in zip(factors, (p, t, i, 1), strict=True)), writes)
        for p, t, i in itertools.product(range(3), range(4), range(2))
        for factors, writes in ((write, True), (read, False))
        if not writes or t < limit
    ]
    shared = storage is ir.Storage.SHARED
    expected = any(
        one != two and x == y and (w or v) and (not shared or one[0] == two[0])
        for (one, x, w), (two, y, v) in itertools.combinations(touches, 2)
    )
    assert found is expected


def _whole(b: ir.Buffer) -> ir.View:
    return at(b, *([const(0)] * len(b.shape))).view
