"""Evaluates an access over its iteration domain: which index values touch which elements.

The ranges of the axes come first, then the conditions are sorted by the axes they depend on, and each group of axes
that coordinates or conditions share becomes one factor, evaluated by NumPy broadcasting.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from croq_magic.compiler import ir, numeric, periods
from croq_magic.compiler.access import Access, Axis
from croq_magic.compiler.closed import bounds_of, closed, selected, thinned, tightened
from croq_magic.compiler.evaluate import free_variables
from croq_magic.compiler.linear import linear
from croq_magic.compiler.numeric import DataDependentError, Ints, Value
from croq_magic.compiler.relation import LIMIT, Factor, Relation
from croq_magic.compiler.types import BOOL, S32


def relation(
    access: Access,
    values: Mapping[str, Value],
    limit: int = LIMIT,
    at: Sequence[int] | None = None,
    fixed: Mapping[str, int] | None = None,
) -> Relation:
    """Evaluates an access; `values` gives every dimension and scalar parameter that it depends on.

    `at` keeps only the points that touch that element. A table that is too large is then not thinned but solved for
    its longest axis, if the map is affine in it. `fixed` gives some axes a single value.
    """
    built = _Builder(access, dict(values), limit, at, fixed or {}).build()
    return built if at is None else built.select(at)


def conjuncts(e: ir.Expr) -> list[ir.Expr]:
    """The parts of a condition that must all hold: kept apart, they tie fewer axes together."""
    if isinstance(e, ir.Binary) and e.op == "&&":
        return [*conjuncts(e.left), *conjuncts(e.right)]
    if isinstance(e, ir.Unary) and e.op == "!":
        inner = e.operand
        if isinstance(inner, ir.Unary) and inner.op == "!":
            return conjuncts(inner.operand)
        if isinstance(inner, ir.Binary) and inner.op == "||":
            return [part for side in (inner.left, inner.right) for part in conjuncts(ir.Unary("!", side, BOOL))]
    return [e]


class _Builder:
    def __init__(
        self,
        access: Access,
        values: dict[str, Value],
        limit: int,
        at: Sequence[int] | None,
        fixed: Mapping[str, int],
    ) -> None:
        self.access, self.values, self.limit, self.at, self.fixed = access, values, limit, at, fixed
        self.ranges: dict[str, range] = {}
        self.conditions: list[tuple[ir.Expr, set[str]]] = []
        self.notes = list(access.notes)

    def build(self) -> Relation:
        for axis in self.access.axes:
            self._range(axis)
        for condition in (part for c in self.access.conditions for part in conjuncts(c)):
            if self._known(condition):
                if self._always(condition):
                    continue
                self.conditions.append((condition, self._over(condition)))
            else:
                self.notes.append("a condition that depends on data is taken to hold")
        shape = tuple(int(numeric.value(e, self.values)) for e in self.access.buffer.shape)
        coords: dict[int, ir.Expr] = {}
        for d, e in enumerate(self.access.coords):
            if self._known(e):
                coords[d] = e
            else:
                self.notes.append("an index that depends on data may be any")
                name = f"any {d}"
                self.ranges[name] = range(shape[d])
                coords[d] = ir.Var(name)
        sets = [over for _, over in self.conditions] + [self._over(e) for e in coords.values()]
        groups = _connected([s for s in sets if s])
        factors = [self._factor(group, coords) for group in groups]
        constant = {d: e for d, e in coords.items() if not self._over(e)}
        if constant or any(not over for _, over in self.conditions):
            factors += self._constant(constant)
        used = set().union(*groups) if groups else set()
        extents = {name: len(r) for name, r in self.ranges.items()}
        free = {name: n for name, n in extents.items() if name not in used}
        starts = {name: self.ranges[name][0] if n else 0 for name, n in free.items()}
        return Relation(self.access, shape, tuple(factors), extents, free, starts, tuple(dict.fromkeys(self.notes)))

    def _always(self, condition: ir.Expr) -> bool:
        """Whether the axes' ranges alone make a condition hold: it then ties no axes together."""
        if not all(map(len, self.ranges.values())):
            return False
        found = bounds_of(condition, self.values, self.ranges)
        if found is None:
            return False
        line, start, stop = found
        low, high = line.bounds(self.ranges)
        return (start is None or start <= low) and (stop is None or high < stop)

    def _known(self, e: ir.Expr) -> bool:
        try:
            numeric.value(e, self.values | dict.fromkeys(self.ranges, 1))
        except DataDependentError:
            return False
        except ZeroDivisionError:
            return True
        return True

    def _over(self, e: ir.Expr) -> set[str]:
        return {name for name in free_variables([e]) if name in self.ranges}

    def _range(self, axis: Axis) -> None:
        """Values of an axis; bounds that depend on other axes give the widest range and a condition."""
        start, stop = self._bound(axis.start, min), self._bound(axis.stop, max)
        if start is None or stop is None:
            self.notes.append(f"the bounds of {axis.name} depend on data")
            start = start or 0
            high = axis.var.upper if stop is None else None
            stop = stop if stop is not None else self._bound(high, max) if high is not None else None
            stop = start + 1 if stop is None else stop
        step = axis.step
        moving = self._over(axis.start) | self._over(axis.stop)
        self.ranges[axis.name] = range(start, stop, 1 if self._over(axis.start) else step)
        if axis.name in self.fixed:
            self.ranges[axis.name] = range(self.fixed[axis.name], self.fixed[axis.name] + 1)
        if moving:
            for op, left, right in ((">=", axis.var, axis.start), ("<", axis.var, axis.stop)):
                condition = ir.Binary(op, left, right, BOOL)
                self.conditions.append((condition, self._over(condition)))
            if step != 1 and self._over(axis.start):
                offset = ir.Binary("%", ir.Binary("-", axis.var, axis.start, S32), ir.Const(step), S32)
                condition = ir.Binary("==", offset, ir.Const(0), BOOL)
                self.conditions.append((condition, self._over(condition)))

    def _bound(self, e: ir.Expr, choose: object) -> int | None:
        if not self._known(e):
            return None
        names = self._over(e)
        line = linear(e, self.values, self.ranges) if all(len(self.ranges[n]) for n in names) else None
        if line is not None:
            return line.bounds(self.ranges)[0 if choose is min else 1]
        grids = self._grid({n: r for n, r in self.ranges.items() if n in names})[0]
        v = numeric.value(e, self.values | grids)
        if isinstance(v, np.ndarray):
            return (int(v.min()) if choose is min else int(v.max())) if v.size else 0
        return int(v)

    def _grid(self, ranges: Mapping[str, range]) -> tuple[dict[str, Ints], tuple[int, ...]]:
        """Broadcastable arrays of the axes' values, thinned to the limit, and their common shape."""
        full = math.prod(len(r) for r in ranges.values())
        limit = self.limit if full <= self.limit else self.limit // 16
        sizes = thinned([len(r) for r in ranges.values()], limit)
        arrays = {
            name: selected(r, sizes[place]).reshape([-1 if i == place else 1 for i in range(len(ranges))])
            for place, (name, r) in enumerate(ranges.items())
        }
        return arrays, tuple(v.size for v in arrays.values())

    def _factor(self, group: set[str], coords: dict[int, ir.Expr]) -> Factor:
        dims = [d for d, e in coords.items() if (over := self._over(e)) and over <= group]
        conditions = [c for c, over in self.conditions if over and over <= group]
        ranges = {name: r for name, r in self.ranges.items() if name in group}
        ranges, conditions = tightened(ranges, conditions, self.values)
        full = math.prod(len(r) for r in ranges.values())
        solved = form = None
        if full > self.limit:
            if self.at is not None:
                solved = self._solve(ranges, [(coords[d], self.at[d]) for d in dims])
            else:
                form = closed(ranges, conditions, {d: coords[d] for d in dims}, self.values)
        grid, shape = solved or self._grid(ranges)
        values = self.values | grid
        mask: np.ndarray | None = None
        for condition in conditions:
            holds = np.broadcast_to(np.asarray(numeric.value(condition, values), bool), shape)
            mask = holds if mask is None else mask & holds
        flat = None if mask is None else mask.ravel()

        def table(v: Value) -> Ints:
            column = np.broadcast_to(np.asarray(v, np.int64), shape).ravel()
            return column if flat is None else column[flat]

        evaluated = {d: table(numeric.value(coords[d], values)) for d in dims}
        tried = full if solved else math.prod(shape)
        return Factor({name: table(grid[name]) for name in ranges}, evaluated, full, tried, form)

    def _solve(
        self, ranges: Mapping[str, range], equations: Sequence[tuple[ir.Expr, int]]
    ) -> tuple[dict[str, Ints], tuple[int, ...]] | None:
        """Candidates for the points where the expressions have the given values: the other axes' values enumerated,
        the longest axis computed from the first expression that is affine in it, or is in steps of some period. None
        where that cannot be done."""
        longest = max(ranges, key=lambda name: len(ranges[name]))
        others = {name: r for name, r in ranges.items() if name != longest}
        r, least = ranges[longest], {name: v[0] for name, v in ranges.items() if len(v)}
        for e, target in equations:
            period = periods.period(e, longest, self.values, ranges) if len(least) == len(ranges) else None
            if period is None:
                continue
            every = period // math.gcd(period, r.step)  # of so many values of the axis each, the map is affine
            digits = range(min(every, len(r)))
            if math.prod(len(o) for o in others.values()) * len(digits) > self.limit:
                continue
            grid, shape = self._grid({**others, longest: digits})
            flat = {name: np.broadcast_to(v, shape).ravel() for name, v in grid.items()}
            digit = r.start + r.step * flat.pop(longest)
            zero, one = (
                np.broadcast_to(np.asarray(numeric.value(e, self.values | flat | {longest: digit + v})), digit.shape)
                for v in (0, r.step * every)
            )
            slope = one - zero
            if (slope == 0).any():
                continue
            turn = (target - zero) // slope
            candidate = digit + turn * (r.step * every)
            good = (turn * slope == target - zero) & (candidate >= r.start) & (candidate < r.stop)
            return {longest: candidate[good]} | {n: v[good] for n, v in flat.items()}, (int(good.sum()),)
        return None

    def _constant(self, coords: dict[int, ir.Expr]) -> list[Factor]:
        """Coordinates and conditions that depend on no axis: one row each, or none."""
        holds = all(bool(numeric.value(c, self.values)) for c, over in self.conditions if not over)
        rows = 1 if holds else 0
        factors = [
            Factor({}, {d: np.full(rows, int(numeric.value(e, self.values)), np.int64)}, 1, 1)
            for d, e in coords.items()
        ]
        return factors or [Factor({"": np.zeros(rows, np.int64)}, {}, 1, 1)]


def _connected(sets: Sequence[set[str]]) -> list[set[str]]:
    groups: list[set[str]] = []
    for s in sets:
        touching = [g for g in groups if g & s]
        groups = [g for g in groups if not g & s]
        groups.append(s.union(*touching))
    return groups
