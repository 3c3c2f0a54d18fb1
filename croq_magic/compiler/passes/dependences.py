"""Whether two different threads may touch the same element, before and after a point of a kernel."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterable, Sequence

from croq_magic.compiler import evaluate, integers, ir
from croq_magic.compiler.passes.accesses import Mode
from croq_magic.compiler.passes.touches import MANY, Loops, Table, Touch, Toucher, turns
from croq_magic.compiler.visit import substitute

MOST_SHIFTS = 1 << 12


@dataclasses.dataclass(frozen=True)
class Item:
    """A touch as it is seen from a point. Threads of one unit of `unit` threads have met between them, if it is not 0.
    It happens in another turn of the loops in `moved` (by id), in any turn of those in `free`."""

    touch: Touch
    unit: int = 0
    moved: frozenset[int] = frozenset()
    free: frozenset[int] = frozenset()


class Dependences:
    """Compares touches before a point with those after it. `loops` are those around the point."""

    def __init__(self, toucher: Toucher, loops: Loops) -> None:
        self.toucher = toucher
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
        unit = max(a.unit, b.unit, 1)
        first, second = (self.toucher.table(i.touch, self.loops, unit) for i in (a, b))
        if first is None or second is None:
            alone = self.toucher.alone(a.touch, unit)
            return alone is None or alone != self.toucher.alone(b.touch, unit)
        if not first.owners or not second.owners:
            return False
        shifts = self._shifts(a, b, first, second)
        return shifts is None or any(_meet(first, second, shift) for shift in shifts)

    def _shifts(self, a: Item, b: Item, first: Table, second: Table) -> Iterable[int] | None:
        """How far the elements of `b` may lie behind their place in its table, seen from the table of `a`; None if
        that is not known."""
        renamed: dict[ir.Var, ir.Expr] = {}
        later: dict[str, ir.For] = {}  # by name of the loop's index in `a`; in `b` it has a larger value
        known: dict[str, ir.For] = {}
        for s in self.loops:
            if not isinstance(s, ir.For):
                continue
            other = dataclasses.replace(s.var, name=f"{s.var.name}'")
            known[s.var.name] = known[other.name] = s
            free = a.touch.loose or b.touch.loose or id(s) in a.free | b.free
            if free or id(s) in a.moved | b.moved:
                renamed[s.var] = other
                if not free:
                    later[s.var.name] = s
        difference = integers.sub(substitute(second.uniform, renamed), first.uniform)
        fixed = integers.value(difference)
        if fixed is not None:
            return (fixed,)
        names = evaluate.free_variables((difference,))
        if not set(names) <= set(known):
            return None
        if len(names) == 2 and names[0].rstrip("'") == names[1].rstrip("'"):
            found = _steps(difference, known[names[0]], later, (first.low - second.high, first.high - second.low))
            if found is not None:
                return found
        return _values(difference, names, known, later)


def _everything(item: Item, others: Sequence[Item]) -> bool:
    """Whether one of the others is among what `item` stands for."""
    if item.touch.buffer is not None:
        return False
    if not item.touch.device:
        return bool(others)
    return any(o.touch.buffer is None or o.touch.buffer.storage is ir.Storage.GLOBAL for o in others)


def _meet(first: Table, second: Table, shift: int) -> bool:
    """Whether an element has two owners when the second table is moved by `shift`."""
    if first.low > second.high + shift or first.high < second.low + shift:
        return False
    known = first.owners.get
    for place, owner in second.owners.items():
        other = known(place + shift)
        if other is not None and (other != owner or owner == MANY):
            return True
    return False


def _steps(difference: ir.Expr, s: ir.For, later: dict[str, ir.For], window: tuple[int, int]) -> list[int] | None:
    """The values in a window of a difference that grows with the distance between two turns of a loop."""
    other = dataclasses.replace(s.var, name=f"{s.var.name}'")
    poly = integers.poly(difference)
    step, back = poly.coefficient(other), poly.coefficient(s.var)
    rest = integers.sub(difference, integers.mul(integers.constant(step), integers.sub(other, s.var)))
    start = integers.value(rest)
    if step != -back or start is None or step == 0:
        return None
    stride = step * (s.step if integers.value(s.start) is not None else 1)
    trips = turns(s)
    most = None if trips is None else len(trips) - 1
    low, high = sorted((-(-(window[0] - start) // stride), (window[1] - start) // stride))
    low, high = low - 1, high + 1
    if s.var.name in later:
        low = max(low, 1)
    if most is not None:
        low, high = max(low, -most), min(high, most)
    if high - low > MOST_SHIFTS:
        return None
    return [start + stride * d for d in range(low, high + 1)]


def _values(
    difference: ir.Expr, names: list[str], known: dict[str, ir.For], later: dict[str, ir.For]
) -> set[int] | None:
    """All values of a difference over the turns of loops."""
    ranges = [turns(known[name]) for name in names]
    if any(r is None for r in ranges) or math.prod(len(r or ()) for r in ranges) > MOST_SHIFTS:
        return None
    places = {name: position for position, name in enumerate(names)}
    ordered = [(places[n], places[f"{n}'"]) for n in later if n in places and f"{n}'" in places]
    try:
        call = evaluate.function((difference,), names)
        points = itertools.product(*(r or () for r in ranges))
        return {int(call(*p)[0]) for p in points if all(p[i] < p[j] for i, j in ordered)}
    except (ValueError, ZeroDivisionError):
        return None
