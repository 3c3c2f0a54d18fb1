"""One access evaluated over its iteration domain: which index values touch which elements.

Coordinates of different dimensions mostly depend on different indices: in `lhs[px*16 + c0, tile_k*16 + c1]` rows depend
on (px, c0) and columns on (tile_k, c1). The relation is therefore kept as a product of factors, each a table over the
indices that some coordinates or conditions share; indices that nothing depends on only multiply counts. A table is
evaluated by NumPy broadcasting. One with more than `limit` points is thinned to a sixteenth of that: a subset of the
values of its longest axes, the first and last few always among them, so boxes of monotone maps stay exact. Where the
factor has a closed form (`closed.py`), that gives counts and chunks and the table is only a sample; where it has none,
`exact` is False.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property

import numpy as np

from croq_magic.compiler.access import Access
from croq_magic.compiler.closed import Closed
from croq_magic.compiler.linear import NotClosedError
from croq_magic.compiler.numeric import Ints

LIMIT = 1 << 20
NOBODY, SEVERAL = -1, -2


@dataclasses.dataclass(frozen=True, eq=False)
class Factor:
    """A table: row i says that the axes' values `points[name][i]` touch `coords[dim][i]` in dimension `dim`."""

    points: dict[str, Ints]
    coords: dict[int, Ints]
    full: int  # points of the axes' ranges, before conditions
    tried: int  # how many of them were evaluated
    closed: Closed | None = None

    @property
    def complete(self) -> bool:
        """Whether the table holds every point."""
        return self.tried == self.full

    @cached_property
    def exact(self) -> bool:
        """Whether counts and chunks are those of all points."""
        return self.complete or self._closed_count is not None

    @property
    def free(self) -> bool:
        """Whether it stands for an index that depends on data: one access, of any element."""
        return bool(self.points) and all(name.startswith("any ") for name in self.points)

    @cached_property
    def count(self) -> int:
        """The number of points; of a thinned table, about."""
        if self.complete or self._closed_count is None:
            return self.rows if self.complete else self.rows * self.full // self.tried
        return self._closed_count

    @cached_property
    def _closed_count(self) -> int | None:
        try:
            return None if self.closed is None else self.closed.count
        except NotClosedError:
            return None

    @property
    def rows(self) -> int:
        return len(next(iter((*self.points.values(), *self.coords.values())), np.zeros(1)))

    def inside(self, shape: Sequence[int]) -> bool:
        """Whether all coordinates surely lie in an array of this shape."""
        if self.complete:
            return all(((v >= 0) & (v < shape[d])).all() for d, v in self.coords.items())
        c = self.closed
        if c is None:
            return False
        low, high = c.line.bounds(c.ranges)
        return all(max(low, c.low) >= 0 and min(high + 1, c.high) <= shape[d] for d in self.coords)

    def where(self, mask: np.ndarray) -> Factor:
        """The rows that a boolean or index array selects."""
        points = {name: v[mask] for name, v in self.points.items()}
        coords = {d: v[mask] for d, v in self.coords.items()}
        return dataclasses.replace(self, points=points, coords=coords, closed=None)

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
    elements, so a chunk is dense where it equals the box's volume. `count` is the number of chunks, of which a large
    factor lists a selection; `exact` is False where they are those of a part of the instances.
    """

    dims: tuple[int, ...]
    index: dict[str, Ints]
    low: Ints
    high: Ints
    elements: Ints
    count: int
    exact: bool = True

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
        counts = (f.count if not f.free else min(f.count, 1) for f in self.factors)
        return math.prod(counts) * math.prod(self.free.values())

    @cached_property
    def distinct(self) -> int:
        """Number of different elements touched; of a thinned relation, a lower bound."""
        return math.prod(_least(f, self.shape) for f in self.factors if f.coords) if self.count else 0

    @cached_property
    def untouched(self) -> int | None:
        """Number of elements that are not touched; None where that is not known."""
        if not self.count:
            return math.prod(self.shape) if self.exact else None
        if not self.exact or not all(f.inside(self.shape) for f in self.factors):
            return None
        try:
            return math.prod(self.shape) - math.prod(_distinct(f, self.shape) for f in self.factors if f.coords)
        except NotClosedError:
            return None

    def chunks(self, fixed: Sequence[str]) -> tuple[Chunks, ...]:
        """Per factor with coordinates: what one value of the axes in `fixed` touches while the others vary."""
        return tuple(_chunks(f, fixed, self.shape, self.extents) for f in self.factors if f.coords)

    def owners(self, weights: Mapping[str, int], limit: int = LIMIT) -> Ints | None:
        """For each element the sum of `weights[axis] * value` of who touches it: with the weights of a linear id, who.

        NOBODY (-1) where nobody does, SEVERAL (-2) where different ones do. Axes on which the access does not depend
        count 0. None for arrays of more than `limit` elements or a thinned relation.
        """
        if math.prod(self.shape) > limit or not all(f.complete for f in self.factors):
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


def _linear(f: Factor, shape: Sequence[int]) -> Ints:
    """Row-major number of the element each row touches, in the factor's dimensions."""
    linear = np.zeros(f.rows, np.int64)
    for d in sorted(f.coords):
        linear = linear * shape[d] + f.coords[d]
    return linear


def _distinct(f: Factor, shape: Sequence[int]) -> int:
    if f.complete:
        return _least(f, shape)
    if f.closed is None:
        raise NotClosedError
    return f.closed.distinct


def _least(f: Factor, shape: Sequence[int]) -> int:
    if not f.complete:
        try:
            return _distinct(f, shape)
        except NotClosedError:
            pass
    linear, size = _linear(f, shape), math.prod(shape[d] for d in f.coords)
    if size > 16 * LIMIT or (len(linear) and (linear.min() < 0 or linear.max() >= size)):
        return len(np.unique(linear))
    touched = np.zeros(size, bool)
    touched[linear] = True
    return int(np.count_nonzero(touched))


def _chunks(f: Factor, fixed: Sequence[str], shape: Sequence[int], extents: Mapping[str, int]) -> Chunks:
    dims, names = tuple(sorted(f.coords)), [name for name in fixed if name in f.points]
    if f.closed is not None and not f.complete:
        try:
            index, start, stop, elements = f.closed.chunks(names)
            return Chunks(dims, index, start[:, None], stop[:, None], elements, f.closed.chunk_count(names))
        except NotClosedError:
            pass
    key, linear = f.key(names), _linear(f, shape)
    order = np.lexsort((linear, key))
    key, linear = key[order], linear[order]
    first = np.flatnonzero(np.r_[True, key[1:] != key[:-1]]) if len(key) else np.zeros(0, np.int64)
    new = np.r_[True, (key[1:] != key[:-1]) | (linear[1:] != linear[:-1])] if len(key) else np.zeros(0, bool)
    columns = [f.coords[d][order] for d in dims]
    if not len(first):
        empty = np.zeros((0, len(dims)), np.int64)
        return Chunks(
            dims, {n: np.zeros(0, np.int64) for n in names}, empty, empty, np.zeros(0, np.int64), 0, f.complete
        )
    low = np.stack([np.minimum.reduceat(c, first) for c in columns], axis=1)
    high = np.stack([np.maximum.reduceat(c, first) for c in columns], axis=1) + 1
    elements = np.add.reduceat(new.astype(np.int64), first)
    index = {name: f.points[name][order][first] for name in names}
    count = len(first)
    if not f.complete and names:
        count = min(math.prod(extents[name] for name in names), math.prod(shape[d] for d in dims))
    return Chunks(dims, index, low, high, elements, count, f.complete)


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
