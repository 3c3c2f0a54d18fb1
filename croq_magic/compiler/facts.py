"""What holds at one place of a program."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping

from croq_magic.compiler import integers, ir
from croq_magic.compiler.presburger import fits, range_of
from croq_magic.compiler.visit import rewrite, walk

_MOST_NODES = 64
_MOST_CONDITIONS = 64  # a proof needs a few of them; those nearest to the place are kept


@dataclasses.dataclass(frozen=True)
class Facts:
    """What holds at one place. `conditions` are (expression, truth) pairs; `guarded` says that control may not pass
    here for every value of the indices; `steps` holds start and step of loops that skip values; `trips` are the trip
    counts of loops around that may not run at all."""

    conditions: tuple[tuple[ir.Expr, bool], ...] = ()
    guarded: bool = False
    values: Mapping[str, ir.Expr] = dataclasses.field(default_factory=dict)
    steps: Mapping[str, tuple[ir.Expr, int]] = dataclasses.field(default_factory=dict)
    trips: tuple[ir.Expr, ...] = ()

    def assume(self, condition: ir.Expr, truth: bool = True, guard: bool = True, exact: bool = False) -> Facts:
        """With a condition that holds (or, if not `truth`, does not hold); `guard` if control depends on it, `exact` if
        it is evaluated with integers of any size."""
        found = [
            (part, positive)
            for part, positive in conjunction(self.resolve(condition), truth)
            if not any(isinstance(node, ir.Load) or (may_wrap(node) and not exact) for node in walk(part))
        ]
        conditions = (self.conditions + tuple(found))[-_MOST_CONDITIONS:]
        return dataclasses.replace(self, conditions=conditions, guarded=self.guarded or guard)

    def behind_a_guard(self) -> Facts:
        return self if self.guarded else dataclasses.replace(self, guarded=True)

    def forget(self, names: Iterable[str]) -> Facts:
        """Without what is known of variables that get new values."""
        lost = set(names)
        if not lost:
            return self
        kept = tuple(c for c in self.conditions if lost.isdisjoint(names_in(c[0])))
        values = {n: e for n, e in self.values.items() if n not in lost and lost.isdisjoint(names_in(e))}
        return dataclasses.replace(self, conditions=kept, values=values)

    def let(self, var: ir.Var, value: ir.Expr) -> Facts:
        """With an immutable integer whose value is arithmetic that does not wrap."""
        if not (var.dtype.is_integer and value.dtype.is_integer):
            return self
        resolved = self.resolve(value)
        if integers.size(resolved) > _MOST_NODES:
            return self  # proofs get nothing out of it
        if any(isinstance(node, ir.Load) or may_wrap(node) for node in walk(resolved)):
            return self
        wide = var.dtype.is_signed and var.dtype.bits >= 32
        if fits(resolved, var.dtype) or (wide and not depends_on_run(resolved)):
            return dataclasses.replace(self, values={**self.values, var.name: resolved})
        return self

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


def conjunction(e: ir.Expr, truth: bool) -> Iterable[tuple[ir.Expr, bool]]:
    """The parts that all hold if `e` has this truth, each with its own."""
    waiting = [(e, truth)]
    while waiting:
        part, positive = waiting.pop()
        if isinstance(part, ir.Unary) and part.op == "!":
            waiting.append((part.operand, not positive))
        elif isinstance(part, ir.Binary) and part.op == ("&&" if positive else "||"):
            waiting += [(part.right, positive), (part.left, positive)]
        elif isinstance(part, ir.Binary):
            yield part, positive


def names_in(e: ir.Node) -> set[str]:
    """Names of the variables of an expression."""
    return {node.name for node in walk(e) if isinstance(node, ir.Var)}


def depends_on_run(e: ir.Expr) -> bool:
    """Whether an expression depends on a value that only the running program knows."""
    roles = (ir.Role.PARAM, ir.Role.LET, ir.Role.MUTABLE)
    return any(isinstance(n, ir.Load) or (isinstance(n, ir.Var) and n.role in roles) for n in walk(e))


def may_wrap(e: ir.Node) -> bool:
    """Whether arithmetic outside an index, which has a width, may differ from that of mathematical integers."""
    if not (isinstance(e, ir.Binary) and e.op in ("+", "-", "*", "<<") and e.dtype.is_integer):
        return False
    if fits(e, e.dtype):
        return False
    return not e.dtype.is_signed or depends_on_run(e)
