"""Is an index in range? Three outcomes: proven (no code), disproven (an error with a witness), unknown (a check).

`judge` asks the cheap reasoners first: intervals, one dominating condition at a time, and corners
(an expression that is monotone in an index takes its extreme at an end of it, which also decides products such as
`p*(M/16)`). Only then it asks isl.

When an index that may be out of range is an error is said by the language reference, types and shapes, section 10: in
unguarded code, when the program really reaches the bad value; else only when no value is in range.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Iterable, Mapping

from croq_magic.compiler import evaluate, integers, ir
from croq_magic.compiler.facts import Facts, conjunction, depends_on_run, may_wrap, names_in
from croq_magic.compiler.presburger import Problem
from croq_magic.compiler.types import BOOL
from croq_magic.compiler.visit import substitute, walk

_COMPARISONS = ("<", "<=", ">", ">=", "==", "!=")
_INDICES = (ir.Role.REGION, ir.Role.LOOP, ir.Role.COORD)
_MINUS_ONE = integers.constant(-1)


class Outcome(enum.Enum):
    PROVEN = "proven"
    DISPROVEN = "disproven"
    UNKNOWN = "unknown"


@dataclasses.dataclass(frozen=True)
class Verdict:
    """`witness` gives values of indices and dimensions at which the index takes the value `reached`, if known."""

    outcome: Outcome
    reached: int | None = None
    witness: Mapping[str, int] = dataclasses.field(default_factory=dict)


PROVEN = Verdict(Outcome.PROVEN)
UNKNOWN = Verdict(Outcome.UNKNOWN)


# ------------------------------------------------------------------------------------------------------- corners


@dataclasses.dataclass(frozen=True)
class Corner:
    """The least value of an expression: as an expression without indices, with the indices' values there. `attained`:
    unguarded code really reaches it."""

    value: ir.Expr
    place: tuple[tuple[ir.Var, ir.Expr], ...]
    attained: bool


def least(e: ir.Expr, facts: Facts) -> Corner | None:
    """The least value over all indices, if the expression is monotone in each of them."""
    place: list[tuple[ir.Var, ir.Expr]] = []
    p = integers.poly(e)
    while True:
        indices = [a for a in p.atoms() if isinstance(a, ir.Var) and a.role in _INDICES]
        hidden = {n for a in p.atoms() if not isinstance(a, ir.Var) for n in _indexnames_in(a)}
        if hidden:
            return None
        if not indices:
            break
        bounds = {v: _indexnames_in(v.lower) | _indexnames_in(v.upper) for v in indices}
        var = next((v for v in indices if all(v.name not in names for names in bounds.values())), None)
        end = None if var is None else _end(p, var, facts)
        if var is None or end is None:
            return None
        place.append((var, end))
        p = integers.poly(substitute(integers.expr(p), {var: end}))
    found: dict[ir.Var, ir.Expr] = {}
    for var, end in reversed(place):
        found[var] = integers.simplify(substitute(end, found))
    resolved = {var: found[var] for var, _ in place}
    attained = all(_runs(v, resolved, facts) for v, _ in place)
    attained = attained and all(isinstance(a, ir.Var) and a.role is not ir.Role.MUTABLE for a in p.atoms())
    return Corner(integers.expr(p), tuple(resolved.items()), attained)


def _indexnames_in(e: ir.Expr | None) -> set[str]:
    if e is None:
        return set()
    return {n.name for n in walk(e) if isinstance(n, ir.Var) and n.role in _INDICES}


def _end(p: integers.Poly, var: ir.Var, facts: Facts) -> ir.Expr | None:
    """The end of an index at which a polynomial is least; None if that is not known."""
    if any(monomial.count(var) > 1 for monomial, _ in p.terms):
        return None
    rest = [(tuple(a for a in m if a != var), c) for m, c in p.terms if var in m]
    low, high = integers.interval(integers.expr(integers.Poly(tuple(rest))))
    if low is not None and low >= 0:
        return var.lower
    if high is not None and high <= 0 and var.upper is not None:
        start, step = facts.steps.get(var.name, (integers.ZERO, 1))
        last = integers.add(var.upper, _MINUS_ONE)
        if step == 1:
            return last
        return integers.add(
            start,
            integers.mul(
                integers.floordiv(integers.sub(last, start), integers.constant(step)), integers.constant(step)
            ),
        )
    return None


def _runs(var: ir.Var, values: Mapping[ir.Var, ir.Expr], facts: Facts) -> bool:
    """Whether an index takes a value at all, the other indices given."""
    if var.lower is None or var.upper is None:
        return False
    trips = substitute(integers.sub(var.upper, var.lower), dict(values))
    low, _ = integers.interval(trips)
    return (low is not None and low >= 1) or _implied(integers.sub(trips, integers.ONE), facts)


def enter(s: ir.For, facts: Facts) -> Facts:
    """What holds inside a loop."""
    if s.step != 1:
        facts = dataclasses.replace(facts, steps={**facts.steps, s.var.name: (s.start, s.step)})
    trips = integers.sub(s.stop, s.start)
    if not _at_least_zero(integers.sub(trips, integers.ONE), facts):
        facts = dataclasses.replace(facts, trips=(*facts.trips, facts.resolve(trips)))
    return facts


# ------------------------------------------------------------------------------------------------------ judgement


def judge(index: ir.Expr, extent: ir.Expr, facts: Facts) -> Verdict:
    """Whether 0 <= index < extent whenever control passes here."""
    e, size = facts.resolve(index), facts.resolve(extent)
    below = e  # both must be at least 0
    above = integers.sub(integers.sub(size, integers.ONE), e)
    if _at_least_zero(below, facts) and _at_least_zero(above, facts):
        return PROVEN
    if not facts.guarded:
        for target in (below, above):
            corner = least(target, facts)
            if corner is not None and corner.attained and _negative(corner.value):
                return _reached(e, corner)
    if facts.conditions or _needs_isl(e) or _needs_isl(size) or not names_in(e).isdisjoint(facts.steps):
        return _ask(e, size, facts)
    return _estimate(e, size)


def _estimate(e: ir.Expr, size: ir.Expr) -> Verdict:
    """Without conditions: disproven only if the interval lies wholly outside."""
    below, above = e, integers.sub(integers.sub(size, integers.ONE), e)
    if not (_negative(below) or _negative(above)):
        return UNKNOWN
    low, high = integers.interval(e)
    return Verdict(Outcome.DISPROVEN, low if low == high else None)  # the ends of an interval need not be reached


def _at_least_zero(target: ir.Expr, facts: Facts) -> bool:
    low, _ = integers.interval(target)
    if low is not None and low >= 0:
        return True
    if _implied(target, facts):
        return True
    corner = least(target, facts)
    if corner is None or not corner.place:
        return False
    low, _ = integers.interval(corner.value)
    return low is not None and low >= 0


def _implied(target: ir.Expr, facts: Facts) -> bool:
    """Whether one condition alone makes an expression at least 0."""
    for condition, truth in facts.conditions:
        for fact in _differences(condition, truth):
            low, _ = integers.interval(integers.sub(target, fact))
            if low is not None and low >= 0:
                return True
    return False


def _differences(e: ir.Expr, truth: bool) -> Iterable[ir.Expr]:
    """Expressions that are at least 0 because a comparison holds."""
    if not (isinstance(e, ir.Binary) and e.op in _COMPARISONS and e.left.dtype.is_integer):
        return
    op = e.op if truth else {"<": ">=", "<=": ">", ">": "<=", ">=": "<", "==": "!=", "!=": "=="}[e.op]
    more = integers.sub(e.left, e.right)
    fewer = integers.sub(e.right, e.left)
    if op in (">", ">=", "=="):
        yield integers.sub(more, integers.ONE) if op == ">" else more
    if op in ("<", "<=", "=="):
        yield integers.sub(fewer, integers.ONE) if op == "<" else fewer


def _negative(e: ir.Expr) -> bool:
    _, high = integers.interval(e)
    return high is not None and high < 0


def _reached(e: ir.Expr, corner: Corner) -> Verdict:
    """The verdict at a corner; symbolic dimensions are taken as small as they may be."""
    smallest: dict[ir.Var, ir.Expr] = {}
    for node in walk((e, *(end for _, end in corner.place))):
        if isinstance(node, ir.Var) and node.role in (ir.Role.DIM, ir.Role.PARAM):
            low, _ = integers.interval(node)
            smallest[node] = integers.constant(low if low is not None else 0)
    place = {var: substitute(end, smallest) for var, end in corner.place}
    reached = integers.value(substitute(substitute(e, place), smallest))
    known = {var.name: integers.value(end) for var, end in (*place.items(), *smallest.items())}
    return Verdict(Outcome.DISPROVEN, reached, {n: v for n, v in known.items() if v is not None})


def _needs_isl(e: ir.Expr) -> bool:
    """Whether isl knows more of an expression than its interval does. Without conditions it knows no more of values
    that only the running program has."""
    for atom in integers.poly(e).atoms():
        if isinstance(atom, ir.Var):
            if atom.role is ir.Role.DIM:
                return True
            if any(bound is not None and integers.value(bound) is None for bound in (atom.lower, atom.upper)):
                return True
        elif names_in(atom) and not depends_on_run(atom):
            return True
    return False


def _ask(e: ir.Expr, size: ir.Expr, facts: Facts) -> Verdict:
    """isl's answer. A corner, if there is one, is the smaller question."""
    if not facts.conditions:
        corners = [least(target, facts) for target in (e, integers.sub(integers.sub(size, integers.ONE), e))]
        if all(corner is not None for corner in corners):
            # Nothing but the corners matters.
            proven = all(corner is not None and _never_negative(corner.value) for corner in corners)
            return PROVEN if proven else _estimate(e, size)
    base = _situation((e, size), facts)
    text, limit = base.affine(e), base.affine(size)
    outside = base.copy()
    outside.require(f"{text} < 0 or {text} >= {limit}")
    if outside.empty():
        return PROVEN
    inside = base.copy()
    inside.require(f"0 <= {text} < {limit}")
    if not inside.empty():
        return UNKNOWN
    everything = Problem()
    for condition, truth in facts.conditions:
        everything.assume(condition, truth)
    if base.empty() or everything.empty():
        return PROVEN  # nothing ever comes here
    witness = outside.point() or {}
    return Verdict(
        Outcome.DISPROVEN, _evaluate(e, witness) if outside.exact else None, witness if outside.exact else {}
    )


def _never_negative(e: ir.Expr) -> bool:
    problem = Problem()
    problem.require(f"{problem.affine(e)} < 0")
    return problem.empty() is True


def _situation(expressions: tuple[ir.Expr, ...], facts: Facts) -> Problem:
    """The conditions that bear on expressions, directly or through each other."""
    problem = Problem()
    touched = {name for e in expressions for name in _names_with_bounds(e)}
    waiting = list(facts.conditions)
    while True:
        relevant = [c for c in waiting if not touched.isdisjoint(_names_with_bounds(c[0]))]
        if not relevant:
            break
        for condition, truth in relevant:
            problem.assume(condition, truth)
            touched |= _names_with_bounds(condition)
            waiting.remove((condition, truth))
    for node in {v.name: v for e in expressions for v in walk(e) if isinstance(v, ir.Var)}.values():
        if node.name in facts.steps:
            start, step = facts.steps[node.name]
            problem.require(f"({problem.affine(node)} - {problem.affine(start)}) mod {step} = 0")
    return problem


def _names_with_bounds(e: ir.Expr) -> set[str]:
    names: set[str] = set()
    for node in walk(e):
        if isinstance(node, ir.Var):
            names.add(node.name)
            for bound in (node.lower, node.upper):
                if bound is not None:
                    names |= _names_with_bounds(bound)
    return names


def _evaluate(e: ir.Expr, values: Mapping[str, int]) -> int | None:
    names = list(values)
    try:
        (found,) = evaluate.function((e,), names)(*values.values())
    except (ValueError, ZeroDivisionError):
        return None
    return int(found)


# ------------------------------------------------------------------------------------------------- requirements


def requirements(index: ir.Expr, extent: ir.Expr, facts: Facts) -> ir.Expr | None:
    """A condition over dimensions and scalar parameters alone that holds exactly if the index stays in range; None if
    there is none. Such a condition can be checked when arguments are bound."""
    if facts.guarded or not all(map(_of_arguments, facts.trips)):
        return None
    e, size = facts.resolve(index), facts.resolve(extent)
    result: ir.Expr | None = None
    for target in (e, integers.sub(integers.sub(size, integers.ONE), e)):
        if _at_least_zero(target, facts):
            continue
        corner = least(target, facts)
        if corner is None or not _of_arguments(corner.value):
            return None
        idle = [*facts.trips]
        for var, _ in corner.place:
            if not _runs(var, dict(corner.place), facts):
                assert var.lower is not None and var.upper is not None
                idle.append(substitute(integers.sub(var.upper, var.lower), dict(corner.place)))
        if not all(map(_of_arguments, idle)):
            return None
        needed: ir.Expr = ir.Binary(">=", corner.value, integers.ZERO, BOOL)
        for trips in dict.fromkeys(idle):
            needed = ir.Binary("||", ir.Binary("<=", trips, integers.ZERO, BOOL), needed, BOOL)
        result = needed if result is None else ir.Binary("&&", result, needed, BOOL)
    return result


def _of_arguments(e: ir.Expr) -> bool:
    """Whether an expression depends on dimensions and scalar parameters alone."""
    nodes = list(walk(e))
    roles = {node.role for node in nodes if isinstance(node, ir.Var)}
    return roles <= {ir.Role.DIM, ir.Role.PARAM} and not any(isinstance(node, ir.Load) for node in nodes)


# ------------------------------------------------------------------------------------------------- any condition


def decide(condition: ir.Expr, facts: Facts) -> bool | None:
    """Whether a condition always or never holds where `facts` do; None if neither is known."""
    known = evident(condition, facts)
    if known is not None:
        return known
    resolved = facts.resolve(condition)
    if any(isinstance(node, ir.Load) or may_wrap(node) for node in walk(resolved)):
        return None
    if not facts.conditions and (depends_on_run(resolved) or not names_in(resolved)):
        return None
    base = _situation((resolved,), facts)
    for truth in (True, False):
        opposite = base.copy()
        text = opposite.condition(resolved, not truth)
        if text is not None:
            opposite.require(text)
            if opposite.empty():
                return truth if base.empty() is False else None
    return None


def evident(condition: ir.Expr, facts: Facts) -> bool | None:
    """`decide` by intervals, corners and single conditions alone, in microseconds."""
    resolved = facts.resolve(condition)
    if isinstance(resolved, ir.Const):
        return bool(resolved.value)
    if any(isinstance(node, ir.Load) or may_wrap(node) for node in walk(resolved)):
        return None
    if _certain(resolved, True, facts):
        return True
    return False if _certain(resolved, False, facts) else None


def _certain(e: ir.Expr, truth: bool, facts: Facts) -> bool:
    """Whether each comparison of a conjunction holds by intervals, corners and single conditions."""
    parts = list(conjunction(e, truth))
    for part, positive in parts:
        if isinstance(part, ir.Binary) and part.op == ("==" if positive else "!="):
            return False
        needed = list(_differences(part, positive))
        if not needed or not all(_at_least_zero(n, facts) for n in needed):
            return False
    return bool(parts)
