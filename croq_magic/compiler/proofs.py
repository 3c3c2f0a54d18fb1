"""Is an index in range? Three outcomes: proven (no code), disproven (an error with a witness), unknown (a check).

`Facts` is what holds at one place of a program: the conditions that dominate it, the values of immutable scalars, the
indices around it. `judge` asks the cheap reasoners first: intervals, one dominating condition at a time, and corners
(an expression that is monotone in an index takes its extreme at an end of it, which also decides products such as
`p*(M/16)`). Only then it asks isl.

When an index that may be out of range is an error is said by the language reference, types and shapes, section 10: in
unguarded code, when the program really reaches the bad value; else only when no value is in range.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Iterable, Mapping

from croq_magic.compiler import integers, ir
from croq_magic.compiler.presburger import Problem, fits, range_of
from croq_magic.compiler.visit import rewrite, substitute, walk

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


@dataclasses.dataclass(frozen=True)
class Facts:
    """What holds at one place. `conditions` are (expression, truth) pairs; `guarded` says that control may not pass
    here for every value of the indices; `steps` holds start and step of loops that skip values."""

    conditions: tuple[tuple[ir.Expr, bool], ...] = ()
    guarded: bool = False
    values: Mapping[str, ir.Expr] = dataclasses.field(default_factory=dict)
    steps: Mapping[str, tuple[ir.Expr, int]] = dataclasses.field(default_factory=dict)

    def assume(self, condition: ir.Expr, truth: bool = True, guard: bool = True) -> Facts:
        """With a condition that holds (or, if not `truth`, does not hold); `guard` if control depends on it."""
        found = [
            (part, positive)
            for part, positive in _conjunction(self.resolve(condition), truth)
            if not any(isinstance(node, ir.Load) or _may_wrap(node) for node in walk(part))
        ]
        return dataclasses.replace(self, conditions=self.conditions + tuple(found), guarded=self.guarded or guard)

    def behind_a_guard(self) -> Facts:
        return self if self.guarded else dataclasses.replace(self, guarded=True)

    def forget(self, names: Iterable[str]) -> Facts:
        """Without what is known of variables that get new values."""
        lost = set(names)
        if not lost:
            return self
        kept = tuple(c for c in self.conditions if lost.isdisjoint(_names(c[0])))
        values = {n: e for n, e in self.values.items() if n not in lost and lost.isdisjoint(_names(e))}
        return dataclasses.replace(self, conditions=kept, values=values)

    def let(self, var: ir.Var, value: ir.Expr) -> Facts:
        """With an immutable integer whose value is arithmetic that does not wrap."""
        if not (var.dtype.is_integer and value.dtype.is_integer):
            return self
        resolved = self.resolve(value)
        if any(isinstance(node, ir.Load) or _may_wrap(node) for node in walk(resolved)):
            return self
        wide = var.dtype.is_signed and var.dtype.bits >= 32
        if fits(resolved, var.dtype) or (wide and not _free(resolved)):
            return dataclasses.replace(self, values={**self.values, var.name: resolved})
        return self

    def loop(self, s: ir.For) -> Facts:
        """Inside a loop."""
        return self if s.step == 1 else dataclasses.replace(self, steps={**self.steps, s.var.name: (s.start, s.step)})

    def resolve(self, e: ir.Expr) -> ir.Expr:
        """The expression with the values of immutable scalars in place and conversions that change nothing dropped."""

        def change(node: ir.Node) -> ir.Node | None:
            if isinstance(node, ir.Var):
                return self.values.get(node.name)
            if isinstance(node, ir.Cast) and node.dtype.is_integer and node.operand.dtype.is_integer:
                low, high = range_of(node.operand.dtype)
                least, most = node.dtype.range
                widens = low is not None and high is not None and least <= low and high <= most
                return node.operand if widens or fits(node.operand, node.dtype) else None
            return None

        return rewrite(e, change)


def _conjunction(e: ir.Expr, truth: bool) -> Iterable[tuple[ir.Expr, bool]]:
    if isinstance(e, ir.Unary) and e.op == "!":
        yield from _conjunction(e.operand, not truth)
    elif isinstance(e, ir.Binary) and e.op == ("&&" if truth else "||"):
        yield from _conjunction(e.left, truth)
        yield from _conjunction(e.right, truth)
    elif isinstance(e, ir.Binary):
        yield e, truth


def _names(e: ir.Node) -> set[str]:
    return {node.name for node in walk(e) if isinstance(node, ir.Var)}


def _free(e: ir.Expr) -> bool:
    """Whether an expression depends on a value that only the running program knows."""
    roles = (ir.Role.PARAM, ir.Role.LET, ir.Role.MUTABLE)
    return any(isinstance(n, ir.Load) or (isinstance(n, ir.Var) and n.role in roles) for n in walk(e))


def _may_wrap(e: ir.Node) -> bool:
    """Whether arithmetic outside an index, which has a width, may differ from that of mathematical integers."""
    if not (isinstance(e, ir.Binary) and e.op in ("+", "-", "*", "<<") and e.dtype.is_integer):
        return False
    if fits(e, e.dtype):
        return False
    return not e.dtype.is_signed or _free(e)


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
        hidden = {n for a in p.atoms() if not isinstance(a, ir.Var) for n in _index_names(a)}
        if hidden:
            return None
        if not indices:
            break
        bounds = {v: _index_names(v.lower) | _index_names(v.upper) for v in indices}
        var = next((v for v in indices if all(v.name not in names for names in bounds.values())), None)
        end = None if var is None else _end(p, var, facts)
        if var is None or end is None:
            return None
        place.append((var, end))
        p = integers.poly(substitute(integers.expr(p), {var: end}))
    resolved: dict[ir.Var, ir.Expr] = {}
    for var, end in reversed(place):
        resolved[var] = integers.simplify(substitute(end, resolved))
    attained = all(_runs(v, resolved) for v, _ in place)
    attained = attained and all(isinstance(a, ir.Var) and a.role is not ir.Role.MUTABLE for a in p.atoms())
    return Corner(integers.expr(p), tuple(resolved.items()), attained)


def _index_names(e: ir.Expr | None) -> set[str]:
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


def _runs(var: ir.Var, values: Mapping[ir.Var, ir.Expr]) -> bool:
    """Whether an index takes a value at all, the other indices given."""
    if var.lower is None or var.upper is None:
        return False
    trips = substitute(integers.sub(var.upper, var.lower), dict(values))
    low, _ = integers.interval(trips)
    return low is not None and low >= 1


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
    if facts.conditions or _needs_isl(e) or _needs_isl(size) or not _names(e).isdisjoint(facts.steps):
        return _ask(e, size, facts)
    return _estimate(e, size)


def _estimate(e: ir.Expr, size: ir.Expr) -> Verdict:
    """Without conditions: disproven only if the interval lies wholly outside."""
    below, above = e, integers.sub(integers.sub(size, integers.ONE), e)
    if not (_negative(below) or _negative(above)):
        return UNKNOWN
    low, high = integers.interval(e)
    return Verdict(Outcome.DISPROVEN, low if low == high else high if _negative(below) else low)


def _at_least_zero(target: ir.Expr, facts: Facts) -> bool:
    low, _ = integers.interval(target)
    if low is not None and low >= 0:
        return True
    for condition, truth in facts.conditions:
        for fact in _differences(condition, truth):
            low, _ = integers.interval(integers.sub(target, fact))
            if low is not None and low >= 0:
                return True
    corner = least(target, facts)
    if corner is None or not corner.place:
        return False
    low, _ = integers.interval(corner.value)
    return low is not None and low >= 0


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
    """Whether isl knows more of an expression than its interval does."""
    for atom in integers.poly(e).atoms():
        if isinstance(atom, ir.Var):
            if atom.role in (ir.Role.DIM, ir.Role.PARAM):
                return True
            if any(bound is not None and integers.value(bound) is None for bound in (atom.lower, atom.upper)):
                return True
        elif not isinstance(atom, ir.Load) and _names(atom):
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
    mapping: dict[ir.Var, ir.Expr] = {
        node: integers.constant(values[node.name])
        for node in walk(e)
        if isinstance(node, ir.Var) and node.name in values
    }
    return integers.value(substitute(e, mapping))


# ------------------------------------------------------------------------------------------------- requirements


def requirements(index: ir.Expr, extent: ir.Expr, facts: Facts) -> tuple[ir.Expr, ...] | None:
    """What must be at least 0 for the index to be in range, over dimensions and scalar parameters alone; None if that
    does not decide it. For unguarded code only: then these can be checked when arguments are bound."""
    if facts.guarded:
        return None
    e, size = facts.resolve(index), facts.resolve(extent)
    needed = []
    for target in (e, integers.sub(integers.sub(size, integers.ONE), e)):
        if _at_least_zero(target, facts):
            continue
        corner = least(target, facts)
        if corner is None or not corner.attained:
            return None
        roles = {node.role for node in walk(corner.value) if isinstance(node, ir.Var)}
        if not roles <= {ir.Role.DIM, ir.Role.PARAM} or _free_loads(corner.value):
            return None
        needed.append(corner.value)
    return tuple(needed)


def _free_loads(e: ir.Expr) -> bool:
    return any(isinstance(node, ir.Load) for node in walk(e))
