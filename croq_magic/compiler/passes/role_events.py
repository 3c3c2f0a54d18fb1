"""What events do, tried out while compiling: roles as sequences of triggers and waits, and the state of their events.

The rules are those of `include/croq_fiber.h`, with a role in the place of its threads: all threads of a role do the
same, so a trigger of a role completes a generation and a wait of a role passes one.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator, Mapping

from croq_magic.compiler import evaluate, ir
from croq_magic.compiler.passes.joins import has_events
from croq_magic.compiler.passes.structure import leaves

MOST_STEPS = 1 << 13  # triggers and waits that are tried out, twice; two or three microseconds each


class NotKnown(Exception):
    """What roles do depends on values of the run, breaks a rule of events, or takes too long to try out."""


@dataclasses.dataclass(frozen=True, eq=False)
class Operation:
    """A trigger or a wait of one role: on which slots, and in which generation it says it is."""

    event: ir.Event
    is_wait: bool
    slot: tuple[ir.Expr, ...]
    order: ir.Expr | None


def operation(s: ir.Stmt) -> Operation | None:
    """The operation of a statement, if it is one."""
    if not isinstance(s, (ir.Trigger, ir.WaitEvent)):
        return None
    if (isinstance(s, ir.WaitEvent) and s.spin) or (isinstance(s, ir.Trigger) and s.cluster):
        raise NotKnown
    return Operation(s.event, isinstance(s, ir.WaitEvent), s.slot, s.order)


class Numbers:
    """What the loops of roles do, in numbers. Nodes are known by identity: the program that has them outlives this."""

    def __init__(self) -> None:
        self._meets: dict[int, bool] = {}
        self._compiled: dict[int, tuple[ir.Expr, list[str], Callable[..., tuple[float, ...]]]] = {}

    def meets(self, s: ir.Stmt) -> bool:
        """Whether there are events in a statement."""
        found = self._meets.get(id(s))
        if found is None:
            found = self._meets[id(s)] = has_events(s)
        return found

    def of(self, e: ir.Expr, loops: Mapping[str, int]) -> int:
        if isinstance(e, ir.Const):
            return int(e.value)
        found = self._compiled.get(id(e))
        if found is None:
            names = evaluate.free_variables((e,))
            try:
                found = self._compiled[id(e)] = (e, names, evaluate.function((e,), names))
            except ValueError:
                raise NotKnown from None
        try:
            return int(found[2](*(loops[name] for name in found[1]))[0])
        except (KeyError, ZeroDivisionError):
            raise NotKnown from None

    def trips(self, s: ir.For, loops: Mapping[str, int]) -> range:
        if leaves(s.body):
            raise NotKnown
        return range(self.of(s.start, loops), self.of(s.stop, loops), s.step)


class Events:
    """How far each slot of each event is, and how far each role that waits for it."""

    def __init__(self, waiters: Mapping[ir.Event, set[int]]) -> None:
        self.waiters = waiters
        self.ready = {event: [int(event.ready)] * math.prod(event.slots) for event in waiters}
        self.passed = {(event, role): [0] * math.prod(event.slots) for event in waiters for role in waiters[event]}
        self.steps = 0
        self.numbers = Numbers()

    def copy(self) -> Events:
        new = Events(self.waiters)
        new.ready = {event: list(slots) for event, slots in self.ready.items()}
        new.passed = {key: list(slots) for key, slots in self.passed.items()}
        new.steps, new.numbers = self.steps, self.numbers
        return new

    def slots(self, o: Operation, role: int, loops: Mapping[str, int]) -> list[int]:
        """The slots of an operation."""
        self.steps += 1
        if self.steps > MOST_STEPS:
            raise NotKnown
        count = math.prod(o.event.slots)
        if o.order is not None:
            order = self.numbers.of(o.order, loops)
            slot, generation = order % count, order // count
            if order < 0 or (o.is_wait and not self._agrees(generation, self.passed[o.event, role][slot])):
                raise NotKnown
            return [slot]
        if not o.slot:
            return list(range(count))
        linear = 0
        for extent, index in zip(o.event.slots, o.slot, strict=True):
            at = self.numbers.of(index, loops)
            if not 0 <= at < extent:
                raise NotKnown
            linear = linear * extent + at
        return [linear]

    @staticmethod
    def _agrees(generation: int, passed: int) -> bool:
        return generation == passed or (generation < 2 and not (generation ^ passed) & 1)

    def passes(self, o: Operation, role: int, loops: Mapping[str, int]) -> bool:
        """Whether a role may pass a wait now; then it has passed it."""
        slots, passed = self.slots(o, role, loops), self.passed[o.event, role]
        if any(self.ready[o.event][slot] <= passed[slot] for slot in slots):
            return False
        for slot in slots:
            passed[slot] += 1
        return True

    def complete(self, event: ir.Event, slots: list[int]) -> None:
        """The next generation of slots is ready. None may be two ahead of a role that waits for it."""
        for slot in slots:
            self.ready[event][slot] += 1
            slowest = min((self.passed[event, role][slot] for role in self.waiters[event]), default=None)
            if slowest is not None and self.ready[event][slot] - slowest > 1:
                raise NotKnown


def steps(body: ir.Body, numbers: Numbers, loops: dict[str, int]) -> Iterator[tuple[Operation, dict[str, int]]]:
    """All operations of a role, in order, each with the loops around it."""
    for s in body:
        if (found := operation(s)) is not None:
            yield found, loops
        elif isinstance(s, ir.For) and numbers.meets(s):
            for value in numbers.trips(s, loops):
                yield from steps(s.body, numbers, {**loops, s.var.name: value})
        elif numbers.meets(s):
            raise NotKnown


def run_freely(roles: list[ir.Body], events: Events) -> None:
    """Runs roles as fibers do, each until it must wait. Raises `NotKnown` where they break a rule or wait for ever."""
    left = [(role, steps(body, events.numbers, {})) for role, body in enumerate(roles)]
    held: dict[int, tuple[Operation, dict[str, int]]] = {}
    while left:
        going = []
        moved = False
        for role, more in left:
            at = held.pop(role, None) or next(more, None)
            while at is not None:
                o, loops = at
                if o.is_wait and not events.passes(o, role, loops):
                    held[role] = at
                    going.append((role, more))
                    break
                if not o.is_wait:
                    events.complete(o.event, events.slots(o, role, loops))
                moved = True
                at = next(more, None)
            else:
                moved = True
        if not moved:
            raise NotKnown
        left = going
