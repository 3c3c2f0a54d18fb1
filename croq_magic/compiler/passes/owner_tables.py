"""Elements of a buffer with the threads that touch them.

The offset of a touch is split: what is the same for all its threads stays an expression, the rest is enumerated over
the indices of the threads, the places of a transfer, and loops of the threads' own. A table may hold more than what is
really touched, never less; where that would be too much, there is none.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Mapping

from croq_magic.compiler import evaluate, integers, ir
from croq_magic.compiler.passes.kernel_scalars import Scalars, exact
from croq_magic.compiler.passes.touches import Loops, Touch
from croq_magic.compiler.targets.simt.parties import conjuncts
from croq_magic.compiler.types import BOOL
from croq_magic.compiler.visit import walk

MANY = -1  # owner of elements that several threads touch
MOST = 1 << 14  # entries of a table
MOST_CALLS = 1 << 12  # entries that are not sums of what their variables add
WORK = 1 << 18  # entries of all tables of a kernel, and comparisons of them: some ten milliseconds


@dataclasses.dataclass(frozen=True)
class Table:
    """Elements, without `uniform` (the part that all threads share), with their owners: a thread or `MANY`."""

    uniform: ir.Expr
    owners: Mapping[int, int]
    low: int
    high: int


class Tables:
    """Makes tables, each once. `work` is what may still be spent on them."""

    def __init__(self, scalars: Scalars) -> None:
        self.scalars = scalars
        self.work = WORK
        self.known: dict[tuple[object, ...], Table | None] = {}

    def table(
        self,
        touch: Touch,
        common: Loops,
        unit: int = 1,
        edge: frozenset[int] = frozenset(),
        last: bool = False,
        sample: bool = False,
    ) -> Table | None:
        """The elements of a touch with their owners, units of `unit` threads; None: anywhere. Indices of the loops in
        `common` stay in the uniform part where they can; of the loops in `edge` (by id) it is the first turn alone, or
        the last. A `sample` has but a few elements of each thread."""
        key = (id(touch), common, unit, edge, last, sample)
        if key not in self.known:
            self.known[key] = self._table(touch, common, unit, edge, last, sample)
        return self.known[key]

    def _table(
        self,
        touch: Touch,
        common: Loops,
        unit: int,
        edge: frozenset[int] = frozenset(),
        last: bool = False,
        sample: bool = False,
    ) -> Table | None:
        if touch.digits is None or touch.offset is None or touch.buffer is None or _packed(touch.buffer):
            return None
        digits = {var.name: (var, range(size), weight) for var, size, weight in touch.digits}
        offset = self.scalars.known(touch.offset)
        if offset is None or not (exact(offset) or _plain(offset)):
            return None
        loops = {s.var.name: s for s in touch.site.loops if isinstance(s, ir.For)}
        axes = {name for name, s in loops.items() if not any(s is around for around in common)}
        uniform: list[tuple[integers.Monomial, int]] = []
        own: list[tuple[integers.Monomial, int]] = []
        terms = [(m, c, set(evaluate.free_variables(m))) for m, c in integers.poly(offset).terms]
        while True:  # an index that is multiplied or divided with those of threads is enumerated like them
            numeric = set(digits) | axes
            mixed = [names for _, _, names in terms if names & numeric and names - numeric]
            if not mixed:
                break
            more = set().union(*mixed) - numeric
            if not more <= set(loops):
                return None
            axes |= more
        for monomial, coefficient, names in terms:
            (own if names & numeric else uniform).append((monomial, coefficient))
        used = set().union(*(names for _, _, names in terms))
        for name in sorted(axes & used):
            exactly = turns(loops[name])
            found = _at_most(loops[name]) if exactly is None else exactly
            if found is None:
                return None
            if exactly is not None and id(loops[name]) in edge:
                found = found[-1:] if last else found[:1]
            digits[name] = (loops[name].var, found, 0)
        conditions = [known for c in conjuncts(touch.site.conditions) if (known := self.scalars.known(c)) is not None]
        tested = [c for c in conditions if set(evaluate.free_variables((c,))) <= set(digits) and exact(c)]
        base = integers.expr(integers.Poly(tuple(uniform)))
        where = list(digits.values())
        if sample:
            where = [(var, numbers if weight else numbers[:1], weight) for var, numbers, weight in where]
        if self.work <= 0:
            return None
        owners = _owners(touch, integers.Poly(tuple(own)), where, tested, unit)
        self.work -= len(owners or ())
        if owners is None:
            return None
        return Table(base, owners, min(owners, default=0), max(owners, default=0))

    def alone(self, touch: Touch, unit: int) -> int | None:
        """The thread that makes a touch, as the number of its unit, if it is the same always."""
        if touch.landing or touch.size:
            return None
        found = self._table(dataclasses.replace(touch, offset=integers.ZERO), (), unit)
        owner = MANY if found is None else found.owners.get(0, MANY)
        return None if owner == MANY else owner


def _owners(
    touch: Touch,
    offset: integers.Poly,
    digits: list[tuple[ir.Var, range, int]],
    conditions: list[ir.Expr],
    unit: int,
) -> dict[int, int] | None:
    """Elements with their owners."""
    names = set(evaluate.free_variables((*(m for term, _ in offset.terms for m in term), *conditions)))
    many = touch.landing
    if unit == 1 and not touch.size:  # threads that differ in what the element does not depend on share it
        many = many or any(weight and len(r) > 1 and v.name not in names for v, r, weight in digits)
        digits = [d for d in digits if d[0].name in names]
    else:
        digits = [d for d in digits if d[2] or d[0].name in names]
    total = math.prod(len(r) for _, r, _ in digits)
    plain = not conditions and all(len(m) <= 1 and all(isinstance(a, ir.Var) for a in m) for m, _ in offset.terms)
    if total > (MOST if plain else MOST_CALLS):
        return None
    threads = [0]
    for _, numbers, weight in digits:
        threads = [t + weight * x for t in threads for x in numbers] if weight else _repeated(threads, len(numbers))
    if plain:
        places = [next((c for m, c in offset.terms if not m), 0)]
        for var, numbers, _ in digits:
            step = offset.coefficient(var)
            places = [p + step * x for p in places for x in numbers]
    else:
        wanted = (integers.expr(offset), *conditions)
        try:
            call = evaluate.function(wanted, [var.name for var, _, _ in digits])
            rows = [call(*point) for point in itertools.product(*(r for _, r, _ in digits))]
        except (ValueError, ZeroDivisionError):
            return None
        chosen = [(int(row[0]), t) for row, t in zip(rows, threads, strict=True) if all(row[1:])]
        places, threads = [p for p, _ in chosen], [t for _, t in chosen]
    if touch.size:
        threads = [touch.first + t % touch.size for t in threads]
    if many:
        return dict.fromkeys(places, MANY)
    owners: dict[int, int] = {}
    known = owners.setdefault
    for place, thread in zip(places, threads, strict=True):
        if known(place, thread // unit) != thread // unit:
            owners[place] = MANY
    return owners


def _repeated(items: list[int], times: int) -> list[int]:
    """Each item as often as that."""
    return [item for item in items for _ in range(times)]


def _packed(buffer: ir.Buffer) -> bool:
    """Whether several elements share a byte."""
    return buffer.dtype.bits < 8 and buffer.dtype is not BOOL


def _plain(e: ir.Expr) -> bool:
    """Whether an expression is mathematical whatever its types are: nothing in it goes back to a type."""
    return all(isinstance(n, (ir.Const, ir.Var, ir.Binary, ir.Unary)) and n.dtype.is_integer for n in walk(e))


def turns(s: ir.For) -> range | None:
    """The values of a loop's index, None if its bounds are not constant."""
    start, stop = integers.value(s.start), integers.value(s.stop)
    return None if start is None or stop is None else range(start, stop, s.step)


def _at_most(s: ir.For) -> range | None:
    """The values of a loop's index, or more."""
    low, high = integers.interval(s.start)[0], integers.interval(s.stop)[1]
    if low is None or high is None:
        return None
    return range(low, high, s.step if integers.value(s.start) is not None else 1)
