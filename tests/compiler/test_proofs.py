"""Judgements about indices against the enumeration of everything that may happen."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from croq_magic.compiler import integers, ir
from croq_magic.compiler.facts import Facts
from croq_magic.compiler.presburger import Problem
from croq_magic.compiler.proofs import Outcome, decide, enter, judge, requirements
from croq_magic.compiler.text import format_expr
from croq_magic.compiler.types import BOOL, S8, S32, S64, U8, U32
from croq_magic.compiler.visit import substitute
from tests.compiler.expressions import conditions, evaluate, expressions, points, var
from tests.ir_builders import buffer, compose, const, dim, index

P, Q = var("p", 0, 4, ir.Role.REGION), var("q", -2, 3)
T = ir.Var("t", S32, ir.Role.LOOP, ir.Const(0), integers.add(P, const(1)))
VARIABLES = (P, Q, T)
POINTS = list(points(VARIABLES))
PROVEN, DISPROVEN, UNKNOWN = Outcome.PROVEN, Outcome.DISPROVEN, Outcome.UNKNOWN


@settings(max_examples=80, deadline=None)
@given(expressions(VARIABLES), st.integers(1, 12))
def test_unguarded(e: ir.Expr, size: int) -> None:
    verdict = judge(e, const(size), Facts())
    found = [evaluate(e, point) for point in POINTS]
    inside = [0 <= value < size for value in found]
    if verdict.outcome is PROVEN:
        assert all(inside)
    elif verdict.outcome is DISPROVEN:
        assert not all(inside)
        assert verdict.reached is None or verdict.reached in found
        if verdict.witness.keys() >= {v.name for v in VARIABLES}:
            assert evaluate(e, verdict.witness) == verdict.reached


@settings(max_examples=80, deadline=None)
@given(expressions(VARIABLES, depth=2), conditions(VARIABLES), st.booleans(), st.integers(1, 12))
def test_guarded(e: ir.Expr, condition: ir.Expr, truth: bool, size: int) -> None:
    verdict = judge(e, const(size), Facts().assume(condition, truth))
    found = [evaluate(e, point) for point in POINTS if bool(evaluate(condition, point)) is truth]
    inside = [0 <= value < size for value in found]
    if verdict.outcome is PROVEN:
        assert all(inside)
    elif verdict.outcome is DISPROVEN:
        assert not any(inside)


M = dim("M")
LANE = ir.Var("lane", S32, ir.Role.REGION, ir.Const(0), M)


@settings(max_examples=60, deadline=None)
@given(expressions((P, M, LANE), depth=2), conditions((P, M, LANE)), st.integers(0, 2))
def test_symbolic(e: ir.Expr, condition: ir.Expr, extra: int) -> None:
    size = integers.add(M, const(extra))
    verdict = judge(e, size, Facts().assume(condition))
    for m in range(1, 7):
        found = [
            0 <= evaluate(e, point) < m + extra
            for p in range(4)
            for lane in range(m)
            if evaluate(condition, point := {"p": p, "M": m, "lane": lane})
        ]
        if verdict.outcome is PROVEN:
            assert all(found)
        elif verdict.outcome is DISPROVEN:
            assert not any(found)


def outcome(e: ir.Expr, size: int | ir.Expr, facts: Facts | None = None) -> Outcome:
    return judge(e, const(size), facts or Facts()).outcome


def less(a: ir.Expr, b: int | ir.Expr, op: str = "<") -> ir.Expr:
    return ir.Binary(op, a, const(b), BOOL)


X = ir.Var("x", S32, ir.Role.PARAM)


def test_what_is_really_reached_is_an_error() -> None:
    i = index("i", 9)
    verdict = judge(i, const(8), Facts())
    assert (verdict.outcome, verdict.reached, dict(verdict.witness)) == (DISPROVEN, 8, {"i": 8})
    px, qx = index("px", 8, ir.Role.REGION), index("qx", 17, ir.Role.REGION)
    verdict = judge(compose(px, qx, 16), const(128), Facts())
    assert (verdict.outcome, verdict.reached, dict(verdict.witness)) == (DISPROVEN, 128, {"px": 7, "qx": 16})
    assert judge(integers.sub(i, const(1)), const(9), Facts()).reached == -1


def test_estimates_are_errors_only_wholly_outside() -> None:
    i = index("i", 9)
    rest = ir.Binary("%", X, const(9), S32)
    assert outcome(rest, 8) is UNKNOWN
    assert outcome(integers.add(rest, const(20)), 8) is DISPROVEN
    assert outcome(i, 8, Facts().assume(less(X, 5))) is UNKNOWN
    assert outcome(const(9), 8, Facts().assume(less(X, 5))) is DISPROVEN
    element = ir.Load(ir.View(buffer("b", (4,), U8), (), (), integers.ZERO, ()), ())
    assert outcome(element, 8) is UNKNOWN
    assert outcome(element, 256) is PROVEN


def test_dead_code_is_in_range() -> None:
    i = index("i", 4)
    assert outcome(const(99), 8, Facts().assume(less(i, 10, ">"))) is PROVEN


def test_conditions_bound_an_index() -> None:
    facts = Facts().assume(ir.Binary("&&", less(X, 0, ">="), less(X, 8), BOOL))
    assert outcome(X, 8, facts) is PROVEN
    assert outcome(integers.add(X, const(1)), 8, facts) is UNKNOWN
    assert outcome(X, 8, Facts().assume(less(X, 0, ">="))) is UNKNOWN
    otherwise = Facts().assume(ir.Binary("||", less(X, 0), less(X, 8, ">="), BOOL), truth=False)
    assert outcome(X, 8, otherwise) is PROVEN


def test_conditions_work_through_other_variables() -> None:
    y = ir.Var("y", S32, ir.Role.PARAM)
    facts = Facts().assume(less(X, y)).assume(less(y, 8)).assume(less(X, 0, ">="))
    assert outcome(X, 7, facts) is PROVEN
    assert outcome(X, 6, facts) is UNKNOWN


def test_forgotten_facts_do_not_count() -> None:
    k = ir.Var("k", S32, ir.Role.MUTABLE)
    facts = Facts().assume(less(k, 8)).assume(less(k, 0, ">="))
    assert outcome(k, 8, facts) is PROVEN
    assert outcome(k, 8, facts.forget({"k"})) is UNKNOWN


def test_values_of_immutable_scalars() -> None:
    i, w = index("i", 4), ir.Var("w", S32)
    facts = Facts().let(w, integers.mul(i, const(2)))
    assert outcome(w, 7, facts) is PROVEN
    assert outcome(w, 6, facts) is DISPROVEN
    narrow = ir.Var("n", S8)
    assert outcome(narrow, 200, Facts().let(narrow, ir.Binary("*", i, const(60), S32))) is UNKNOWN


def test_arithmetic_that_may_wrap_proves_nothing() -> None:
    small = ir.Var("u", U32, ir.Role.PARAM)
    wraps = ir.Binary("<", ir.Binary("-", small, ir.Const(3, U32), U32), ir.Const(5, U32), BOOL)
    assert outcome(integers.sub(small, const(3)), 5, Facts().assume(wraps)) is UNKNOWN
    overflow = less(ir.Binary("+", X, const(1), S32), 9)
    assert outcome(X, 8, Facts().assume(overflow).assume(less(X, 0, ">="))) is UNKNOWN


def test_conversions_that_change_nothing() -> None:
    i = index("i", 8)
    assert outcome(ir.Cast(i, S64), 8) is PROVEN
    assert outcome(ir.Cast(X, U8), 256) is PROVEN
    assert outcome(ir.Cast(i, U32), 7) is DISPROVEN


def test_loops_with_steps() -> None:
    i = index("i", 16)
    loop = ir.For(i, const(0), const(16), 4, ())
    facts = enter(loop, Facts())
    assert outcome(integers.add(i, const(3)), 16, facts) is PROVEN
    assert outcome(integers.add(i, const(4)), 16, facts) is DISPROVEN
    assert outcome(integers.add(i, const(4)), 16, Facts()) is DISPROVEN
    assert outcome(integers.add(i, const(3)), 16, Facts()) is DISPROVEN


def test_tiles_of_symbolic_extents() -> None:
    n = dim("N")
    p, q = index("p", 4, ir.Role.REGION), index("q", n, ir.Role.REGION)
    quarter = integers.floordiv(M, const(4))
    c = index("c", quarter, ir.Role.COORD)
    assert outcome(integers.add(integers.mul(p, quarter), c), M) is PROVEN
    part = integers.floordiv(M, n)  # M / N, a product with q leaves the affine
    d = index("d", part, ir.Role.COORD)
    assert outcome(integers.add(integers.mul(q, part), d), M) is PROVEN
    sixteen = index("s", integers.ceildiv(M, const(16)), ir.Role.REGION)
    row = compose(sixteen, index("r", 16), 16)
    assert outcome(row, M) is UNKNOWN
    assert outcome(row, M, Facts().assume(less(row, M))) is PROVEN
    whole = ir.Binary("==", integers.mod(M, const(16)), const(0), BOOL)
    assert outcome(row, M, Facts().assume(whole, guard=False)) is PROVEN
    assert outcome(M, M) is DISPROVEN
    assert outcome(integers.sub(M, const(1)), M) is PROVEN


def needs(e: ir.Expr, size: int, facts: Facts | None = None) -> str | None:
    condition = requirements(e, const(size), facts or Facts())
    return None if condition is None else format_expr(condition)


def test_what_is_needed_of_parameters() -> None:
    n, m = (ir.Var(name, S32, ir.Role.PARAM) for name in "nm")
    assert needs(integers.add(n, index("i", 4)), 8) == "n >= 0 && -n + 4 >= 0"
    assert needs(n, 8, Facts().assume(less(X, 3))) is None
    assert needs(ir.Var("k", S32, ir.Role.MUTABLE), 8) is None
    assert needs(index("i", n), 8) == "n <= 0 || -n + 8 >= 0"
    positive = Facts().assume(less(n, 1, ">="), guard=False)
    assert needs(index("i", n), 8, positive) == "-n + 8 >= 0"
    around = enter(ir.For(index("j", m), const(0), m, 1, ()), Facts())
    assert needs(n, 8, around) == "(m <= 0 || n >= 0) && (m <= 0 || -n + 7 >= 0)"


@settings(max_examples=60, deadline=None)
@given(expressions((P, Q, var("n", -20, 20, ir.Role.PARAM)), depth=2), st.integers(1, 9))
def test_requirements_are_exact(e: ir.Expr, size: int) -> None:
    n = ir.Var("n", S32, ir.Role.PARAM)
    e = substitute(e, {var("n", -20, 20, ir.Role.PARAM): n})
    condition = requirements(e, const(size), Facts())
    if condition is not None:
        for value in range(-20, 20):
            inside = all(0 <= evaluate(e, {**point, "n": value}) < size for point in points((P, Q)))
            assert bool(evaluate(condition, {"n": value})) is inside


@settings(max_examples=80, deadline=None)
@given(conditions(VARIABLES), conditions(VARIABLES))
def test_decisions(condition: ir.Expr, known: ir.Expr) -> None:
    found = {bool(evaluate(condition, point)) for point in POINTS if evaluate(known, point)}
    decided = decide(condition, Facts().assume(known))
    if decided is not None:
        assert found <= {decided}


def test_hard_questions_end() -> None:
    """A query beyond its budget is unknown, within a fraction of a second."""
    names = [ir.Var(f"v{i}", S32, ir.Role.PARAM) for i in range(8)]
    total: ir.Expr = const(0)
    for factor, v in zip((3, 7, 11, 13, 17, 19, 23, 29), names, strict=True):
        total = integers.add(total, ir.Binary("%", integers.mul(v, const(factor)), const(factor + 31), S32))
    problem = Problem()
    for shift in range(5):
        problem.assume(less(ir.Binary("%", integers.add(total, const(shift)), const(37 + shift), S32), shift, "=="))
    started = time.perf_counter()
    assert problem.empty() in (None, False)
    assert time.perf_counter() - started < 5


@pytest.mark.parametrize(
    ("e", "text"),
    [
        (ir.Binary("&", X, const(7), S32), 8),
        (ir.Binary(">>", index("i", 64), const(3), S32), 8),
        (ir.Builtin("__min", (X, const(7)), S32), None),
        (ir.Select(less(X, 8), ir.Builtin("__max", (X, const(0)), S32), const(7), S32), 8),
        (ir.Binary("%", ir.Binary("+", ir.Binary("%", X, const(8), S32), const(8), S32), const(8), S32), 8),
    ],
)
def test_other_forms(e: ir.Expr, text: int | None) -> None:
    """Masks, shifts, minima, choices and the usual way to wrap around."""
    facts = Facts().assume(less(X, -1000, ">"), guard=False)
    if text is None:
        assert outcome(e, 8, facts.assume(less(X, 0, ">="))) is PROVEN
    else:
        assert outcome(e, text, facts) is PROVEN
        assert outcome(e, text - 1, facts) is UNKNOWN
