"""Whether two different threads may touch the same element, before and after a point of a kernel."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterable, Sequence

from croq_magic.compiler import evaluate, integers, ir
from croq_magic.compiler.passes.accesses import Mode
from croq_magic.compiler.passes.owner_tables import MANY, Table, Tables, turns
from croq_magic.compiler.passes.touches import Loops, Touch
from croq_magic.compiler.visit import substitute

MOST_SHIFTS = 1 << 12


@dataclasses.dataclass(frozen=True)
class Item:
    """A touch as it is seen from a point. Threads of one unit of `unit` threads have met between them, if it is not 0.

    What is known of the turns of loops, by their ids: of the loops around the point it happens in the turn next to
    that of the point (`next`), in some other one (`moved`), or in any (`free`); where it is the only way to get there
    that the loop ends with the point's turn, the loop is in `left`. Of other loops it happens in the turn closest to
    the point (`edge`).
    """

    touch: Touch
    unit: int = 0
    next: frozenset[int] = frozenset()
    moved: frozenset[int] = frozenset()
    free: frozenset[int] = frozenset()
    left: frozenset[int] = frozenset()
    edge: frozenset[int] = frozenset()


class Dependences:
    """Compares touches before a point with those after it. `loops` are those around the point."""

    def __init__(self, tables: Tables, loops: Loops) -> None:
        self.tables = tables
        self.loops = loops

    def any(self, before: Sequence[Item], after: Sequence[Item]) -> bool:
        """Whether some pair needs an order that different threads do not have by themselves."""
        by_buffer: dict[ir.Buffer, list[Item]] = {}
        for item in after:
            if item.touch.buffer is not None:
                by_buffer.setdefault(item.touch.buffer, []).append(item)
        if any(_everything(item, after) for item in before) or any(_everything(item, before) for item in after):
            return True
        for item in before:
            buffer = item.touch.buffer
            if buffer is not None and any(self.pair(item, other) for other in by_buffer.get(buffer, ())):
                return True
        return False

    def pair(self, a: Item, b: Item) -> bool:
        """Whether two touches of one buffer, `a` before `b`, may be of one element by different threads."""
        if a.touch.mode is b.touch.mode and a.touch.mode is not Mode.WRITE:
            return False
        # Most barriers are needed, which a few elements of each thread show.
        return self._compare(a, b, True) or self._compare(a, b, False)

    def _compare(self, a: Item, b: Item, sample: bool) -> bool:
        unit = max(a.unit, b.unit, 1)
        first = self.tables.table(a.touch, self.loops, unit, a.edge, True, sample)
        second = self.tables.table(b.touch, self.loops, unit, b.edge, False, sample)
        if first is None or second is None:
            if sample:
                return False  # too many elements are no reason before the others have been looked at
            alone = self.tables.alone(a.touch, unit)
            return alone is None or alone != self.tables.alone(b.touch, unit)
        if not first.owners or not second.owners:
            return False
        shifts = self._shifts(a, b, first, second)
        if shifts is None:
            return not sample
        for shift in shifts:
            if first.low > second.high + shift or first.high < second.low + shift:
                continue
            self.tables.work -= len(second.owners)
            if self.tables.work <= 0:
                return not sample
            if _meet(first, second, shift):
                return True
        return False

    def _shifts(self, a: Item, b: Item, first: Table, second: Table) -> Iterable[int] | None:
        """How far the elements of `b` may lie behind their place in its table, seen from the table of `a`; None if
        that is not known."""
        renamed: dict[ir.Var, ir.Expr] = {}
        known: dict[str, _Turns] = {}  # by name of the loop's index; that of `b` has a prime where it may differ
        for s in self.loops:
            if not isinstance(s, ir.For):
                continue
            other = dataclasses.replace(s.var, name=f"{s.var.name}'")
            least, most = _distance(a, b, id(s))
            if (least, most) != (0, 0):
                renamed[s.var] = other
            known[s.var.name] = _Turns(s, least, most, -1 if id(s) in b.left and _same_turn(a, id(s)) else None)
            known[other.name] = _Turns(s, least, most, 0 if id(s) in a.left and _same_turn(b, id(s)) else None)
        difference = integers.sub(substitute(second.uniform, renamed), first.uniform)
        constant = integers.value(difference)
        if constant is not None:
            return (constant,)
        names = evaluate.free_variables((difference,))
        if not set(names) <= set(known):
            return None
        if len(names) == 2 and names[0].rstrip("'") == names[1].rstrip("'"):
            found = _steps(difference, known[names[0]], (first.low - second.high, first.high - second.low))
            if found is not None:
                return found
        return _values(difference, names, known)


@dataclasses.dataclass(frozen=True)
class _Turns:
    """A loop around the point, and by how many turns the second of two touches is later, None if that has no bound.
    `fixed` is the only turn of the touch whose index it is (0, or -1 for the last), if there is but one."""

    s: ir.For
    least: int | None
    most: int | None
    fixed: int | None

    @property
    def values(self) -> range | None:
        found = turns(self.s)
        if found is None or self.fixed is None:
            return found
        return found[:1] if self.fixed == 0 else found[-1:]


def _same_turn(item: Item, loop: int) -> bool:
    """Whether something happens in the point's own turn of a loop."""
    return not item.touch.loose and loop not in item.next | item.moved | item.free


def _distance(a: Item, b: Item, loop: int) -> tuple[int | None, int | None]:
    """By how many turns of a loop `b` is later than `a`: at least, at most."""
    if a.touch.loose or b.touch.loose or loop in a.free | b.free:
        return None, None
    least = sum(loop in item.next | item.moved for item in (a, b))
    return least, None if loop in a.moved | b.moved else least


def _everything(item: Item, others: Sequence[Item]) -> bool:
    """Whether one of the others is among what `item` stands for."""
    if item.touch.buffer is not None:
        return False
    if not item.touch.device:
        return bool(others)
    return any(o.touch.buffer is None or o.touch.buffer.storage is ir.Storage.GLOBAL for o in others)


def _meet(first: Table, second: Table, shift: int) -> bool:
    """Whether an element has two owners when the second table is moved by `shift`."""
    known = first.owners.get
    for place, owner in second.owners.items():
        other = known(place + shift)
        if other is not None and (other != owner or owner == MANY):
            return True
    return False


def _steps(difference: ir.Expr, loop: _Turns, window: tuple[int, int]) -> list[int] | None:
    """The values in a window of a difference that grows with the distance between two turns of a loop."""
    s = loop.s
    other = dataclasses.replace(s.var, name=f"{s.var.name}'")
    poly = integers.poly(difference)
    step, back = poly.coefficient(other), poly.coefficient(s.var)
    rest = integers.sub(difference, integers.mul(integers.constant(step), integers.sub(other, s.var)))
    start = integers.value(rest)
    if step != -back or start is None or step == 0:
        return None
    stride = step * s.step
    low, high = sorted((-(-(window[0] - start) // stride), (window[1] - start) // stride))
    low, high = low - 1, high + 1
    if loop.least is not None:
        low = max(low, loop.least)
    if loop.most is not None:
        high = min(high, loop.most)
    trips = turns(s)
    if trips is not None:
        low, high = max(low, 1 - len(trips)), min(high, len(trips) - 1)
    if high - low > MOST_SHIFTS:
        return None
    return [start + stride * d for d in range(low, high + 1)]


def _values(difference: ir.Expr, names: list[str], known: dict[str, _Turns]) -> set[int] | None:
    """All values of a difference over the turns of loops."""
    ranges = [known[name].values for name in names]
    if any(r is None for r in ranges) or math.prod(len(r or ()) for r in ranges) > MOST_SHIFTS:
        return None
    places = {name: position for position, name in enumerate(names)}
    pairs = [(places[n], places[f"{n}'"], known[n]) for n in names if f"{n}'" in places]

    def possible(point: tuple[int, ...]) -> bool:
        for i, j, loop in pairs:
            later = (point[j] - point[i]) // loop.s.step
            if (loop.least is not None and later < loop.least) or (loop.most is not None and later > loop.most):
                return False
        return True

    try:
        call = evaluate.function((difference,), names)
        return {int(call(*p)[0]) for p in itertools.product(*(r or () for r in ranges)) if possible(p)}
    except (ValueError, ZeroDivisionError):
        return None
