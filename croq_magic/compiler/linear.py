"""Closed forms for affine index expressions over rectangular domains: counts and sets of sums, no axis enumerated.

`linear` reads an expression as an offset and a factor per axis. `below` counts the points of a domain whose sum is
under a bound; `sums` is the set of the sums, as an arithmetic progression where it is one.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence

import numpy as np

from croq_magic.compiler import evaluate, ir, numeric
from croq_magic.compiler.numeric import Ints, Value

SEARCHED = 1 << 12  # values of one axis that `below` looks at one by one
ENUMERATED = 1 << 17  # sums that are kept one by one


class NotClosedError(Exception):
    """A count or set has no closed form here: the caller enumerates a part of it."""


@dataclasses.dataclass(frozen=True)
class Linear:
    """`offset + sum(terms[axis] * axis)`; no factor is 0."""

    terms: dict[str, int]
    offset: int = 0

    def plus(self, other: Linear, factor: int = 1) -> Linear:
        names = dict.fromkeys((*self.terms, *other.terms))
        terms = {n: self.terms.get(n, 0) + factor * other.terms.get(n, 0) for n in names}
        return Linear({n: k for n, k in terms.items() if k}, self.offset + factor * other.offset)

    def times(self, factor: int) -> Linear:
        return Linear({n: k * factor for n, k in self.terms.items() if factor}, self.offset * factor)

    def bounds(self, ranges: Mapping[str, range]) -> tuple[int, int]:
        """The smallest and largest value, over ranges that are not empty."""
        low = high = self.offset
        for name, k in self.terms.items():
            ends = k * ranges[name][0], k * ranges[name][-1]
            low, high = low + min(ends), high + max(ends)
        return low, high


def linear(e: ir.Expr, values: Mapping[str, Value], ranges: Mapping[str, range]) -> Linear | None:
    """`e` over the axes in `ranges`, if it is affine there; a division is, where the ranges say what it leaves."""
    if not any(name in ranges for name in evaluate.free_variables([e])):
        try:
            v = numeric.value(e, values)
        except (numeric.DataDependentError, ZeroDivisionError):
            return None
        return Linear({}, int(v)) if isinstance(v, int | np.integer) else None
    if isinstance(e, ir.Var):
        return Linear({e.name: 1})
    if isinstance(e, ir.Unary) and e.op == "-":
        inner = linear(e.operand, values, ranges)
        return inner.times(-1) if inner else None
    if isinstance(e, ir.Cast) and e.dtype.is_integer:
        inner = linear(e.operand, values, ranges)
        if inner is None:
            return None
        (low, high), (least, most) = inner.bounds(ranges), e.dtype.range
        return inner if least <= low and high <= most else None
    if isinstance(e, ir.Builtin) and e.name in ("__min", "__max") and len(e.args) == 2:
        return _extreme(e.name == "__min", linear(e.args[0], values, ranges), linear(e.args[1], values, ranges), ranges)
    if not isinstance(e, ir.Binary) or not e.dtype.is_integer:
        return None
    left, right = linear(e.left, values, ranges), linear(e.right, values, ranges)
    if left is None or right is None:
        return None
    if e.op in ("+", "-"):
        return left.plus(right, 1 if e.op == "+" else -1)
    if e.op == "*" and not (left.terms and right.terms):
        return left.times(right.offset) if not right.terms else right.times(left.offset)
    if e.op in ("/", "%") and not right.terms and right.offset > 0:
        return _divided(e.op, left, right.offset, ranges)
    return None


def _extreme(smaller: bool, a: Linear | None, b: Linear | None, ranges: Mapping[str, range]) -> Linear | None:
    """The one of two that is always the smaller (or the larger)."""
    if a is None or b is None:
        return None
    low, high = a.plus(b, -1).bounds(ranges)
    if high <= 0:
        return a if smaller else b
    if low >= 0:
        return b if smaller else a
    return None


def _divided(op: str, e: Linear, by: int, ranges: Mapping[str, range]) -> Linear | None:
    """`(16 * p + c) / 16` is `p` where `c` stays below 16."""
    whole = Linear({n: k for n, k in e.terms.items() if k % by == 0}, e.offset - e.offset % by)
    rest = e.plus(whole, -1)
    low, high = rest.bounds(ranges)
    if low < 0 or high >= by or e.bounds(ranges)[0] < 0:
        return None
    if op == "%":
        return rest
    return Linear({n: k // by for n, k in whole.terms.items()}, whole.offset // by)


# ---------------------------------------------------------------------------------------------------- sums

Steps = Sequence[tuple[int, int]]  # of sums of step * i for i in 0 .. count - 1; steps are positive


def steps(
    e: Linear, ranges: Mapping[str, range], names: Sequence[str] | None = None
) -> tuple[int, list[tuple[int, int]]]:
    """`e` over some of its axes as a smallest value and steps upwards; without its offset unless all are meant."""
    base, found = (e.offset if names is None else 0), []
    for name, k in e.terms.items():
        if names is not None and name not in names:
            continue
        r = ranges[name]
        base += min(k * r[0], k * r[-1])
        if len(r) > 1:
            found.append((abs(k * r.step), len(r)))
    return base, sorted(found)


def below(bound: int, of: Steps) -> int:
    """How many points have a sum under `bound`. Raises `NotClosedError` if too many values would have to be tried."""
    return _below(bound, tuple(sorted(of)), [SEARCHED])


def _below(bound: int, of: tuple[tuple[int, int], ...], budget: list[int]) -> int:
    if bound <= 0:
        return 0
    points = math.prod(n for _, n in of)
    reach = sum(s * (n - 1) for s, n in of)
    if bound > reach:
        return points
    *rest, (step, count) = of
    inner = reach - step * (count - 1)
    full = min(count, max(0, (bound - 1 - inner) // step + 1))
    possible = min(count, (bound - 1) // step + 1)
    budget[0] -= possible - full
    if budget[0] < 0:
        raise NotClosedError
    return full * (points // count) + sum(_below(bound - step * i, tuple(rest), budget) for i in range(full, possible))


@dataclasses.dataclass(frozen=True, eq=False)
class Sums:
    """A set of integers from 0 up: `step * i` for i below `count`, or the sorted `values`."""

    step: int
    count: int
    values: Ints | None = None

    @property
    def last(self) -> int:
        return int(self.values[-1]) if self.values is not None else self.step * (self.count - 1)

    @property
    def gap(self) -> int:
        """The largest distance between neighbours."""
        if self.values is not None:
            return int(np.diff(self.values).max(initial=1))
        return self.step if self.count > 1 else 1

    def under(self, bound: Ints) -> Ints:
        """How many of the numbers are less than each bound."""
        if self.values is not None:
            return np.searchsorted(self.values, bound, "left").astype(np.int64)
        return np.clip(-(-bound // self.step), 0, self.count)

    def at(self, place: Ints) -> Ints:
        if self.values is not None:
            return self.values[place]
        return self.step * place


def sums(of: Steps) -> Sums:
    """All different sums. Raises `NotClosedError` where they are many and no progression."""
    found = Sums(1, 1)
    for step, count in sorted(of):
        if found.values is None and (found.count == 1 or (step % found.step == 0 and step <= found.last + found.step)):
            own = found.step if found.count > 1 else step
            found = Sums(own, (found.last + step * (count - 1)) // own + 1)
            continue
        if found.count * count > ENUMERATED:
            raise NotClosedError
        inner = found.at(np.arange(found.count))
        values = np.unique(inner[None, :] + step * np.arange(count)[:, None])
        found = Sums(1, len(values), values)
    return found
