"""One access evaluated over its iteration domain: which index values touch which elements.

Coordinates of different dimensions mostly depend on different indices: in `lhs[px*16 + c0, tile_k*16 + c1]` rows depend
on (px, c0) and columns on (tile_k, c1). The relation is therefore kept as a product of factors, each a table over the
indices that some coordinates or conditions share; indices that nothing depends on only multiply counts. A table is
evaluated by NumPy broadcasting. One with more than `limit` points is thinned to a sixteenth of that: a subset of the
values of its longest axes, the first and last few always among them, so boxes of monotone maps stay exact; `exact` is
False then.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property

import numpy as np

from croq_magic.compiler import ir, numeric
from croq_magic.compiler.access import Access, Axis
from croq_magic.compiler.evaluate import free_variables
from croq_magic.compiler.numeric import DataDependentError, Ints, Value
from croq_magic.compiler.types import BOOL, S32

LIMIT = 2_000_000
NOBODY, SEVERAL = -1, -2


@dataclasses.dataclass(frozen=True, eq=False)
class Factor:
    """A table: row i says that the axes' values `points[name][i]` touch `coords[dim][i]` in dimension `dim`."""

    points: dict[str, Ints]
    coords: dict[int, Ints]
    full: int  # points of the axes' ranges, before conditions
    tried: int  # how many of them were evaluated

    @property
    def exact(self) -> bool:
        return self.tried == self.full

    @property
    def rows(self) -> int:
        return len(next(iter((*self.points.values(), *self.coords.values())), np.zeros(1)))

    def where(self, mask: np.ndarray) -> Factor:
        """The rows that a boolean or index array selects."""
        points = {name: v[mask] for name, v in self.points.items()}
        return dataclasses.replace(self, points=points, coords={d: v[mask] for d, v in self.coords.items()})

    def key(self, names: Iterable[str]) -> Ints:
        """One number a row that tells apart the values of the axes in `names`."""
        key = np.zeros(self.rows, np.int64)
        for name in names:
            if name in self.points:
                values = self.points[name]
                low, high = (int(values.min()), int(values.max())) if len(values) else (0, 0)
                key = key * (high - low + 1) + (values - low)
        return key


@dataclasses.dataclass(frozen=True, eq=False)
class Chunks:
    """What each value of some axes touches in the dimensions of one factor: bounding boxes, in the axes' order.

    `index` holds the axes' values, `low` and `high` (exclusive) the box, one row a chunk; `elements` counts distinct
    elements, so a chunk is dense where it equals the box's volume.
    """

    dims: tuple[int, ...]
    index: dict[str, Ints]
    low: Ints
    high: Ints
    elements: Ints

    @property
    def dense(self) -> bool:
        return bool((np.prod(self.high - self.low, axis=1) == self.elements).all())


@dataclasses.dataclass(frozen=True, eq=False)
class Relation:
    """An access over its domain. `extents` counts each axis's values; `free` names the axes that change neither
    coordinates nor conditions, with their extents."""

    access: Access
    shape: tuple[int, ...]
    factors: tuple[Factor, ...]
    extents: dict[str, int]
    free: dict[str, int]
    starts: dict[str, int]
    notes: tuple[str, ...]

    @property
    def exact(self) -> bool:
        return not self.notes and all(f.exact for f in self.factors)

    @cached_property
    def count(self) -> int:
        """How often an element is touched, all instances and iterations together."""
        counts = (f.rows if f.exact else f.rows * f.full // f.tried for f in self.factors)
        return math.prod(counts) * math.prod(self.free.values())

    @cached_property
    def distinct(self) -> int:
        """Number of different elements touched; of a thinned relation, a lower bound."""
        return math.prod(_distinct(f, self.shape) for f in self.factors if f.coords) if self.count else 0

    def chunks(self, fixed: Sequence[str]) -> tuple[Chunks, ...]:
        """Per factor with coordinates: what one value of the axes in `fixed` touches while the others vary."""
        return tuple(_chunks(f, fixed, self.shape) for f in self.factors if f.coords)

    def owners(self, weights: Mapping[str, int], limit: int = LIMIT) -> Ints | None:
        """For each element the sum of `weights[axis] * value` of who touches it: with the weights of a linear id, who.

        NOBODY (-1) where nobody does, SEVERAL (-2) where different ones do. Axes on which the access does not depend
        count 0. None for arrays of more than `limit` elements or a thinned relation.
        """
        if math.prod(self.shape) > limit or not all(f.exact for f in self.factors):
            return None
        if not self.count:
            return np.full(self.shape, NOBODY, np.int64)
        total = np.zeros(self.shape, np.int64)
        nobody, several = np.zeros(self.shape, bool), np.zeros(self.shape, bool)
        for f in self.factors:
            if not f.coords:
                continue
            dims = sorted(f.coords)
            low, high = _extremes(f, weights, [self.shape[d] for d in dims])
            place = tuple(self.shape[d] if d in f.coords else 1 for d in range(len(self.shape)))
            low, high = low.reshape(place), high.reshape(place)
            nobody |= high < 0
            several |= (high >= 0) & (low != high)
            total = total + high
        return np.where(nobody, NOBODY, np.where(several, SEVERAL, total))

    def select(self, coords: Sequence[int]) -> Relation:
        """Only the points that touch the element at `coords`."""
        factors = []
        for f in self.factors:
            mask = np.ones(f.rows, bool)
            for d, values in f.coords.items():
                mask &= values == coords[d]
            factors.append(f.where(mask))
        return dataclasses.replace(self, factors=tuple(factors))

    def points(self, limit: int = LIMIT) -> dict[str, Ints]:
        """All points, one array per axis, in the order of the program's loops; at most `limit` of them."""
        sizes = [f.rows for f in self.factors] + list(self.free.values())
        if math.prod(sizes) == 0:
            return {a.name: np.zeros(0, np.int64) for a in self.access.axes}
        while math.prod(sizes) > limit:
            sizes[sizes.index(max(sizes))] //= 2
        grid = np.indices(sizes).reshape(len(sizes), -1) if sizes else np.zeros((0, 1), np.int64)
        table: dict[str, Ints] = {}
        for f, rows in zip(self.factors, grid, strict=False):
            table.update({name: v[rows] for name, v in f.points.items()})
        steps = {a.name: a.step for a in self.access.axes}
        for name, rows in zip(self.free, grid[len(self.factors) :], strict=True):
            table[name] = self.starts[name] + rows * steps[name]
        names = [a.name for a in self.access.axes]
        order = np.lexsort([table[name] for name in reversed(names)]) if names else np.arange(1)
        return {name: table[name][order] for name in names}


def relation(
    access: Access, values: Mapping[str, Value], limit: int = LIMIT, at: Sequence[int] | None = None
) -> Relation:
    """Evaluates an access; `values` gives every dimension and scalar parameter that it depends on.

    `at` keeps only the points that touch that element. A table that is too large is then not thinned but solved for
    its longest axis, if the map is affine in it.
    """
    built = _Builder(access, dict(values), limit, at).build()
    return built if at is None else built.select(at)


class _Builder:
    def __init__(self, access: Access, values: dict[str, Value], limit: int, at: Sequence[int] | None) -> None:
        self.access, self.values, self.limit, self.at = access, values, limit, at
        self.ranges: dict[str, Ints] = {}
        self.conditions: list[tuple[ir.Expr, set[str]]] = []
        self.notes = list(access.notes)

    def build(self) -> Relation:
        for axis in self.access.axes:
            self._range(axis)
        for condition in self.access.conditions:
            if self._known(condition):
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
                self.ranges[name] = np.arange(shape[d])
                coords[d] = ir.Var(name)
        sets = [over for _, over in self.conditions] + [self._over(e) for e in coords.values()]
        groups = _connected([s for s in sets if s])
        factors = [self._factor(group, coords) for group in groups]
        constant = {d: e for d, e in coords.items() if not self._over(e)}
        factors += self._constant(constant)
        used = set().union(*groups) if groups else set()
        extents = {name: len(r) for name, r in self.ranges.items()}
        free = {name: n for name, n in extents.items() if name not in used}
        starts = {name: int(self.ranges[name][0]) if n else 0 for name, n in free.items()}
        return Relation(self.access, shape, tuple(factors), extents, free, starts, tuple(dict.fromkeys(self.notes)))

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
        self.ranges[axis.name] = np.arange(start, stop, 1 if self._over(axis.start) else step, dtype=np.int64)
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
        grids = self._grid([n for n in self.ranges if n in names])[0]
        v = numeric.value(e, self.values | grids)
        if isinstance(v, np.ndarray):
            return (int(v.min()) if choose is min else int(v.max())) if v.size else 0
        return int(v)

    def _grid(self, names: Sequence[str]) -> tuple[dict[str, Ints], tuple[int, ...]]:
        """Broadcastable arrays of the axes' values, thinned to the limit, and their common shape."""
        chosen = [self.ranges[name] for name in names]
        limit = self.limit if math.prod(len(r) for r in chosen) <= self.limit else self.limit // 16
        while math.prod(len(r) for r in chosen) > max(limit, 16 ** len(chosen)):
            longest = max(range(len(chosen)), key=lambda i: len(chosen[i]))
            r = chosen[longest]
            spread = np.linspace(0, len(r) - 1, max(2, len(r) // 2)).astype(np.int64)
            ends = np.r_[0:4, len(r) - 2 : len(r)] if len(r) > 16 else np.array([0, len(r) - 1])
            chosen[longest] = r[np.unique(np.r_[ends, spread])]
        shape = tuple(len(r) for r in chosen)
        arrays = {
            name: r.reshape([-1 if i == place else 1 for i in range(len(chosen))])
            for place, (name, r) in enumerate(zip(names, chosen, strict=True))
        }
        return arrays, shape

    def _factor(self, group: set[str], coords: dict[int, ir.Expr]) -> Factor:
        names = [name for name in self.ranges if name in group]
        dims = [d for d, e in coords.items() if (over := self._over(e)) and over <= group]
        full = math.prod(len(self.ranges[name]) for name in names)
        solved = None
        if self.at is not None and full > self.limit:
            solved = self._solve(names, [(coords[d], self.at[d]) for d in dims])
        grid, shape = solved or self._grid(names)
        values = self.values | grid
        mask: np.ndarray | None = None
        for condition, over in self.conditions:
            if over and over <= group:
                holds = np.broadcast_to(np.asarray(numeric.value(condition, values), bool), shape)
                mask = holds if mask is None else mask & holds
        flat = None if mask is None else mask.ravel()

        def table(v: Value) -> Ints:
            column = np.broadcast_to(np.asarray(v, np.int64), shape).ravel()
            return column if flat is None else column[flat]

        evaluated = {d: table(numeric.value(coords[d], values)) for d in dims}
        tried = full if solved else math.prod(shape)
        return Factor({name: table(grid[name]) for name in names}, evaluated, full, tried)

    def _solve(
        self, names: Sequence[str], equations: Sequence[tuple[ir.Expr, int]]
    ) -> tuple[dict[str, Ints], tuple[int, ...]] | None:
        """Candidates for the points where the expressions have the given values: the other axes' values enumerated,
        the longest axis computed from the first expression that is affine in it. None where that cannot be done."""
        longest = max(names, key=lambda name: len(self.ranges[name]))
        others = [name for name in names if name != longest]
        if math.prod(len(self.ranges[name]) for name in others) > self.limit:
            return None
        grid, shape = self._grid(others)
        rows = math.prod(shape)
        flat = {name: np.broadcast_to(v, shape).ravel() for name, v in grid.items()}
        for e, target in equations:
            zero, one, two = (
                np.broadcast_to(np.asarray(numeric.value(e, self.values | flat | {longest: np.full(rows, v)})), rows)
                for v in (0, 1, 2)
            )
            slope = one - zero
            if (slope == 0).any() or (two - one != slope).any():
                continue
            candidate = (target - zero) // slope
            values = self.ranges[longest]
            good = (candidate * slope == target - zero) & np.isin(candidate, values)
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


def _linear(f: Factor, shape: Sequence[int]) -> Ints:
    """Row-major number of the element each row touches, in the factor's dimensions."""
    linear = np.zeros(f.rows, np.int64)
    for d in sorted(f.coords):
        linear = linear * shape[d] + f.coords[d]
    return linear


def _distinct(f: Factor, shape: Sequence[int]) -> int:
    linear, size = _linear(f, shape), math.prod(shape[d] for d in f.coords)
    if size > 16 * LIMIT or (len(linear) and (linear.min() < 0 or linear.max() >= size)):
        return len(np.unique(linear))
    touched = np.zeros(size, bool)
    touched[linear] = True
    return int(np.count_nonzero(touched))


def _chunks(f: Factor, fixed: Sequence[str], shape: Sequence[int]) -> Chunks:
    dims, names = tuple(sorted(f.coords)), [name for name in fixed if name in f.points]
    key, linear = f.key(names), _linear(f, shape)
    order = np.lexsort((linear, key))
    key, linear = key[order], linear[order]
    first = np.flatnonzero(np.r_[True, key[1:] != key[:-1]]) if len(key) else np.zeros(0, np.int64)
    new = np.r_[True, (key[1:] != key[:-1]) | (linear[1:] != linear[:-1])] if len(key) else np.zeros(0, bool)
    columns = [f.coords[d][order] for d in dims]
    if not len(first):
        empty = np.zeros((0, len(dims)), np.int64)
        return Chunks(dims, {n: np.zeros(0, np.int64) for n in names}, empty, empty, np.zeros(0, np.int64))
    low = np.stack([np.minimum.reduceat(c, first) for c in columns], axis=1)
    high = np.stack([np.maximum.reduceat(c, first) for c in columns], axis=1) + 1
    elements = np.add.reduceat(new.astype(np.int64), first)
    index = {name: f.points[name][order][first] for name in names}
    return Chunks(dims, index, low, high, elements)


def _extremes(f: Factor, weights: Mapping[str, int], shape: Sequence[int]) -> tuple[Ints, Ints]:
    """Smallest and largest weighted sum that touches each element; -1 as the largest where none does."""
    owner = np.zeros(f.rows, np.int64)
    for name, weight in weights.items():
        if name in f.points:
            owner = owner + weight * f.points[name]
    linear = np.zeros(f.rows, np.int64)
    inside = np.ones(f.rows, bool)
    for d, extent in zip(sorted(f.coords), shape, strict=True):
        inside &= (f.coords[d] >= 0) & (f.coords[d] < extent)
        linear = linear * extent + f.coords[d]
    size = math.prod(shape)
    low, high = np.full(size, np.iinfo(np.int64).max), np.full(size, NOBODY, np.int64)
    np.minimum.at(low, linear[inside], owner[inside])
    np.maximum.at(high, linear[inside], owner[inside])
    return low.reshape(shape), high.reshape(shape)
