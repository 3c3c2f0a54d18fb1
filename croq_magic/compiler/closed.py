"""A factor of a relation in closed form: one affine coordinate (or none) over a box of axes, between two bounds.

`parallel p by N { r.at(p) = a.at(p); }` with N = 1e9 is such a factor, also with 16 elements a chunk and a ragged end
(`p * 16 + c < N`): how many points there are, how many elements, and the box of each chunk follow without a table.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from functools import cached_property

import numpy as np

from croq_magic.compiler import ir
from croq_magic.compiler.linear import Linear, NotClosedError, Sums, below, linear, steps, sums
from croq_magic.compiler.numeric import Ints, Value

LISTED = 1 << 16  # chunks that are computed one by one; of more, a selection
SELECTED = 1 << 12  # chunks of a selection, about
OPPOSITE = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "==": "=="}
NEGATED = {"<": ">=", "<=": ">", ">": "<=", ">=": "<", "!=": "=="}


@dataclasses.dataclass(frozen=True, eq=False)
class Closed:
    """Points of the axes' `ranges` where `low <= line < high`, and `least <= other < most` if there is such a line.

    `line` is the coordinate; `other` runs differently, as in `if (p * 16 + i < N) { s += tile[i]; }`. What cannot be
    told raises `NotClosedError`.
    """

    line: Linear
    ranges: dict[str, range]
    low: int
    high: int
    other: Linear | None = None
    least: int = 0
    most: int = 0

    @cached_property
    def count(self) -> int:
        """The number of points."""
        if self.other is not None:
            start, stop = self.line.bounds(self.ranges)
            if self.low > start or self.high <= stop:
                raise NotClosedError
            return Closed(self.other, self.ranges, self.least, self.most).count
        base, of = steps(self.line, self.ranges)
        others = math.prod(len(r) for n, r in self.ranges.items() if n not in self.line.terms)
        return (below(self.high - base, of) - below(self.low - base, of)) * others

    @cached_property
    def distinct(self) -> int:
        """The number of different coordinates."""
        self._check(())
        base, of = steps(self.line, self.ranges)
        low, high = sums(of).under(np.array([self.low - base, self.high - base]))
        return max(0, int(high - low))

    def chunk_count(self, names: Sequence[str]) -> int:
        """How many values of the axes `names` touch anything."""
        self._check(names)
        fixed, of = steps(self.line, self.ranges, names)
        inner, rest = self._inner(names)
        if rest.gap > self.high - self.low:
            raise NotClosedError
        base = fixed + inner
        others = math.prod(len(r) for n, r in self.ranges.items() if n in names and n not in self.line.terms)
        return max(0, below(self.high - base, of) - below(self.low - rest.last - base, of)) * others

    def chunks(self, names: Sequence[str]) -> tuple[dict[str, Ints], Ints, Ints, Ints]:
        """Values of the axes `names`, sorted, with the first and last coordinate (exclusive) each touches and how many
        different ones; of more than `LISTED` a selection, the first and last few always in it."""
        self._check(names)
        index = self._selection(names)
        inner, rest = self._inner(names)
        base = np.zeros(len(next(iter(index.values()), np.zeros(1))), np.int64) + inner
        for name, v in index.items():
            base = base + self.line.terms.get(name, 0) * v
        first, stop = rest.under(self.low - base), rest.under(self.high - base)
        kept = np.flatnonzero(stop > first)
        base, first, stop = base[kept], first[kept], stop[kept]
        return {n: v[kept] for n, v in index.items()}, base + rest.at(first), base + rest.at(stop - 1) + 1, stop - first

    def _check(self, names: Sequence[str]) -> None:
        """Whether the other line's bounds can be met at every coordinate and every value of the axes `names`."""
        if self.other is None:
            return
        free = [n for n in self.other.terms if n not in names and n not in self.line.terms]
        base, of = steps(self.other, self.ranges, free)
        tied = Linear({n: k for n, k in self.other.terms.items() if n not in free}, self.other.offset)
        low, high = tied.bounds(self.ranges)
        rest = sums(of)
        met = low + base + rest.last >= self.least and high + base < self.most
        if not met or rest.gap > self.most - self.least:
            raise NotClosedError

    def _inner(self, names: Sequence[str]) -> tuple[int, Sums]:
        """What the axes other than `names` add: the least of it, offset included, and all sums from there."""
        others = [n for n in self.line.terms if n not in names]
        least, of = steps(self.line, self.ranges, others)
        return least + self.line.offset, sums(of)

    def _selection(self, names: Sequence[str]) -> dict[str, Ints]:
        sizes = [len(self.ranges[n]) for n in names]
        if math.prod(sizes) > LISTED:
            sizes = thinned(sizes, SELECTED)
        chosen = [selected(self.ranges[n], size) for n, size in zip(names, sizes, strict=True)]
        grids = np.meshgrid(*chosen, indexing="ij") if chosen else []
        table = np.stack([g.ravel() for g in grids], axis=1) if chosen else np.zeros((1, 0), np.int64)
        if math.prod(len(self.ranges[n]) for n in names) > len(table):
            table = np.unique(np.concatenate([table, self._ends(names)]), axis=0)
        return {n: table[:, i] for i, n in enumerate(names)}

    def _ends(self, names: Sequence[str]) -> Ints:
        """The values of the axes with the smallest and the largest coordinate inside the bounds."""
        rows = []
        for up in (False, True):
            left = (self.high - 1 if up else self.low) - self.line.offset
            free = sorted(self.line.terms, key=lambda n: -abs(self.line.terms[n] * self.ranges[n].step))
            row = {n: self.ranges[n][0] for n in names}
            for i, name in enumerate(free):
                least, rest = steps(self.line, self.ranges, free[i + 1 :])
                room = left - least - (0 if up else sum(s * (n - 1) for s, n in rest))
                k, r = self.line.terms[name], self.ranges[name]
                step, start = abs(k * r.step), min(k * r[0], k * r[-1])
                place = (room - start) // step if up else -((start - room) // step)
                place = min(max(place, 0), len(r) - 1)
                value = r[place] if k > 0 else r[len(r) - 1 - place]
                left -= k * value
                if name in row:
                    row[name] = value
            rows.append([row[n] for n in names])
        return np.array(rows, np.int64).reshape(2, len(names))


def thinned(sizes: Sequence[int], limit: int) -> list[int]:
    """Sizes with a product of about `limit` at most, the largest ones cut; none below 8."""
    left = list(sizes)
    while math.prod(left) > limit and max(left) > 8:
        longest = max(range(len(left)), key=lambda i: left[i])
        others = math.prod(n for i, n in enumerate(left) if i != longest)
        second = max((n for i, n in enumerate(left) if i != longest), default=1)
        left[longest] = max(8, limit // others, min(second, left[longest] // 2))
    return left


def selected(r: range, most: int) -> Ints:
    """About `most` values of a range, evenly spread, the first four and the last two among them if 8 may be."""
    if len(r) <= most:
        return np.arange(r.start, r.stop, r.step, dtype=np.int64)
    if most < 8:
        return r.start + np.unique(_spread(len(r), max(1, most))) * r.step
    spread = _spread(len(r), min(most, LISTED))
    place = np.unique(np.r_[0:4, len(r) - 2 : len(r), spread])
    return r.start + place * r.step


def _spread(count: int, most: int) -> Ints:
    """Places from 0 to `count - 1`, which a float may round up beyond."""
    return np.minimum(np.linspace(0, count - 1, most).astype(np.int64), count - 1)


def tightened(
    ranges: dict[str, range], conditions: Sequence[ir.Expr], values: dict[str, Value]
) -> tuple[dict[str, range], list[ir.Expr]]:
    """Ranges without the values that a condition on one axis excludes, and the conditions that are left."""
    ranges, left = dict(ranges), []
    for condition in conditions:
        found = bounds_of(condition, values, ranges) if all(map(len, ranges.values())) else None
        if found is None or len(found[0].terms) > 1:
            left.append(condition)
            continue
        line, low, high = found
        for name, k in line.terms.items():
            least = None if low is None else low - line.offset
            most = None if high is None else high - 1 - line.offset
            ranges[name] = _clipped(ranges[name], k, least, most)
        if not line.terms and not ((low is None or low <= line.offset) and (high is None or line.offset < high)):
            left.append(condition)
    return ranges, left


def _clipped(r: range, k: int, least: int | None, most: int | None) -> range:
    """The values of a range with `least <= k * value <= most`."""
    if k < 0:
        k, least, most = -k, (None if most is None else -most), (None if least is None else -least)
    first = r.start if least is None else -(-least // k)
    last = r[-1] if most is None else min(r[-1], most // k)
    start = max(r.start, r.start + -((r.start - first) // r.step) * r.step)
    return range(start, last + 1, r.step)


def bounds_of(
    condition: ir.Expr, values: dict[str, Value], ranges: dict[str, range]
) -> tuple[Linear, int | None, int | None] | None:
    """A comparison of affine sides as `low <= line < high`."""
    negated = False
    while isinstance(condition, ir.Unary) and condition.op == "!":
        condition, negated = condition.operand, not negated
    if not isinstance(condition, ir.Binary) or not condition.left.dtype.is_integer:
        return None
    op = NEGATED.get(condition.op) if negated else condition.op
    if op not in OPPOSITE:
        return None
    left, right = linear(condition.left, values, ranges), linear(condition.right, values, ranges)
    if left is None or right is None:
        return None
    line = left.plus(right, -1)
    low = {">=": 0, ">": 1, "==": 0}.get(op)
    high = {"<": 0, "<=": 1, "==": 1}.get(op)
    return line, low, high


def closed(
    ranges: dict[str, range],
    conditions: Sequence[ir.Expr],
    coords: dict[int, ir.Expr],
    values: dict[str, Value],
) -> Closed | None:
    """The factor with these axes in closed form; None where it has none."""
    if len(coords) > 1 or not all(map(len, ranges.values())):
        return None
    limits = []
    for condition in conditions:
        found = bounds_of(condition, values, ranges)
        if found is None:
            return None
        limits.append(found)
    line = Linear({})
    if coords:
        (coordinate,) = coords.values()
        main = linear(coordinate, values, ranges)
        if main is None:
            return None
        line = main
    elif limits:
        line = limits[0][0]
    first, last = line.bounds(ranges)
    low, high = first, last + 1
    second: Linear | None = None
    least = most = 0
    for other, start, stop in limits:
        smallest, largest = other.bounds(ranges)
        if (start is None or start <= smallest) and (stop is None or largest < stop):
            continue
        if _ratio(other, line) is not None:
            low, high = _narrowed(other, line, start, stop, low, high)
            continue
        if second is None:
            second, least, most = other, smallest, largest + 1
        if _ratio(other, second) is None:
            return None
        least, most = _narrowed(other, second, start, stop, least, most)
    if low < high and second is None:
        for name, k in line.terms.items():
            first, last = line.bounds(ranges)
            ends = sorted((k * ranges[name][0], k * ranges[name][-1]))
            kept = _clipped(ranges[name], k, low - (last - ends[1]), high - 1 - (first - ends[0]))
            if not kept:
                return Closed(line, ranges, low, low)
            ranges = ranges | {name: kept}
    return Closed(line, ranges, low, high, second, least, most)


def _narrowed(other: Linear, line: Linear, start: int | None, stop: int | None, low: int, high: int) -> tuple[int, int]:
    """The bounds `low` and `high` of `line` where also `start <= other < stop`."""
    ratio = _ratio(other, line)
    assert ratio is not None
    k, shift = ratio  # other = k * line + shift
    if k < 0:
        k, shift = -k, -shift
        start, stop = (None if stop is None else 1 - stop), (None if start is None else 1 - start)
    if start is not None:
        low = max(low, -((shift - start) // k))
    if stop is not None:
        high = min(high, -((shift - stop) // k))
    return low, max(low, high)


def _ratio(a: Linear, b: Linear) -> tuple[int, int] | None:
    """k and c with `a = k * b + c`."""
    if a.terms.keys() != b.terms.keys() or not a.terms:
        return None
    name = next(iter(a.terms))
    k = a.terms[name] // b.terms[name]
    if not k or any(a.terms[n] != k * b.terms[n] for n in a.terms):
        return None
    return k, a.offset - k * b.offset
