"""Events of a block: barriers in its memory at which some threads arrive and others wait.

An event completes a generation when as many threads have arrived as reach its triggers. Every waiter keeps the parity
of the generation it waits for, a bit a slot; `e.at(n)` gives it by `n` itself.
"""

from __future__ import annotations

import math

from croq_magic.compiler import integers, ir
from croq_magic.compiler.evaluate import free_variables
from croq_magic.compiler.targets.emit_cxx import TIMES, Names
from croq_magic.compiler.targets.simt.expressions import depends_on
from croq_magic.compiler.targets.simt.guards import ModuleState
from croq_magic.compiler.targets.simt.statements import Statements
from croq_magic.compiler.targets.simt.threads import Threads, select

MAX_SLOTS = 32  # of an event whose waiters count for themselves: a bit a slot


class Events(Statements):
    """Emits triggers and waits, and afterwards the definitions of the events that were seen."""

    def __init__(self, state: ModuleState, names: Names, threads: Threads) -> None:
        super().__init__(state, names, threads)
        self._seen: dict[int, ir.Event] = {}  # by id
        self.parties: dict[int, int] = {}
        self.counted: dict[int, str] = {}  # name of the variable with a waiter's parities
        self.local_units: dict[int, int] = {}

    def event_definitions(self) -> list[str]:
        """The lines that define all events and make them ready for use."""
        if not self.events:
            return []
        d = self.dialect
        lines = [d.event_array(self._name(e), self._count(e)) for e in self.events]
        lines += [f"unsigned {name} = 0;" for name in self.counted.values()]
        lines.append(f"if ({self.thread} == 0) {{" if not self.single else "{")
        for e in self.events:
            parties = self.parties.get(id(e), e.parties or 1)
            name, count = self._name(e), self._count(e)
            if count == 1:
                lines.append(f"  {d.event_init(f'{name}[0]', str(parties))}")
            else:
                lines.append(f"  for (int i = 0; i < {count}; ++i) {d.event_init(f'{name}[i]', str(parties))}")
        lines.append("}")
        lines.append(d.block_barrier())
        return ["  " + line for line in lines]

    @property
    def events(self) -> list[ir.Event]:
        """Events that the kernel triggers or waits for, in order of appearance."""
        return list(self._seen.values())

    def _name(self, e: ir.Event) -> str:
        return self.names.of(e)

    def _count(self, e: ir.Event) -> int:
        return math.prod(e.slots) * self.local_units.get(id(e), 1)

    def _note(self, e: ir.Event) -> None:
        if e.storage is ir.Storage.GLOBAL:
            raise self.unsupported(f"`{e.name}`: an event of all blocks is", None)
        self._seen.setdefault(id(e), e)
        if e.storage is ir.Storage.LOCAL and id(e) not in self.local_units:
            _, size, region = self.unit()
            count = integers.value(size)
            if region is not None and count and self.threads.count:
                self.local_units[id(e)] = self.threads.count // count

    def _unit_offset(self, e: ir.Event) -> str:
        """The first slot of an event that every group has for itself."""
        if self.local_units.get(id(e), 1) == 1:
            return ""
        size = self.expressions.index(self.unit()[1], TIMES + 1)
        return f"{self.thread} / {size} * {math.prod(e.slots)} + "

    # ----------------------------------------------------------------------------------------------------- parties

    def _parties(self, s: ir.Trigger) -> int:
        """How many threads get to a trigger."""
        names = self.divergent()
        indices = {var.name for region in self.chain for var in region.indices}
        divergent = [c for c in self.conditions if depends_on(c, names)]
        found = select(self.threads, self.chain, divergent)
        if found is None or any(not _only(c, indices) for c in divergent):
            if s.event.parties:
                return s.event.parties
            raise self.unsupported("an event triggered by threads that are selected by changing values is", s.span)
        if s.event.storage is ir.Storage.LOCAL:
            _, size, region = self.unit()
            if region is not None:
                lanes = integers.value(size) or 1
                first = found.threads[0] // lanes if found.threads else 0
                return len([t for t in found.threads if t // lanes == first])
        return len(found.threads)

    def trigger(self, s: ir.Trigger) -> None:
        if s.cluster:
            raise self.unsupported("events of other blocks of a cluster are", s.span)
        self._note(s.event)
        parties = self._parties(s)
        known = self.parties.setdefault(id(s.event), parties)
        if known != parties:
            what = f"`{s.event.name}`: triggers by {known} and by {parties} threads are"
            raise self.unsupported(what, s.span)
        allowed = self.pending_groups(s)
        if allowed is not None:
            self.line(self.dialect.async_wait(allowed))
        for slot in self._slots(s.event, s.slot, s.order):
            self.line(self.dialect.event_arrive(slot))

    def _slots(self, e: ir.Event, slot: tuple[ir.Expr, ...], order: ir.Expr | None) -> list[str]:
        """Lvalues of the chosen slots."""
        name, base = self._name(e), self._unit_offset(e)
        return [f"{name}[{base}{text}]" if base else f"{name}[{text}]" for text, _ in self._places(e, slot, order)]

    def _places(self, e: ir.Event, slot: tuple[ir.Expr, ...], order: ir.Expr | None) -> list[tuple[str, ir.Expr]]:
        count = math.prod(e.slots)
        if order is not None:
            place = integers.mod(order, integers.constant(count))
            return [(self.expressions.index(place, TIMES), place)]
        if slot:
            linear: ir.Expr = integers.ZERO
            for extent, position in zip(e.slots, slot, strict=True):
                linear = integers.add(integers.mul(linear, integers.constant(extent)), position)
            return [(self.expressions.index(linear, TIMES), linear)]
        return [(str(i), integers.constant(i)) for i in range(count)]

    # ------------------------------------------------------------------------------------------------------- waits

    def wait_event(self, s: ir.WaitEvent) -> None:
        self._note(s.event)
        base = self._unit_offset(s.event)
        for text, place in self._places(s.event, s.slot, s.order):
            slot = f"{self._name(s.event)}[{base}{text}]"
            if s.order is not None:
                generation = integers.floordiv(s.order, integers.constant(math.prod(s.event.slots)))
                if s.event.ready:
                    generation = integers.add(generation, integers.ONE)
                self.expressions.modular = True  # only the lowest bit counts
                text = self.expressions.index(generation)
                self.expressions.modular = False
                self.line(self.dialect.event_wait(slot, text))
                continue
            bits = self._counted(s)
            shift = self.expressions.index(place, 12)
            turn = f"({bits} >> {shift})" if integers.value(place) != 0 else bits
            self.line(self.dialect.event_wait(slot, f"{turn} + 1" if s.event.ready else turn))
            if not s.spin:
                self.line(f"{bits} ^= 1u << {shift};" if integers.value(place) != 0 else f"{bits} ^= 1u;")

    def _counted(self, s: ir.WaitEvent) -> str:
        e = s.event
        if math.prod(e.slots) > MAX_SLOTS:
            raise self.unsupported(f"`{e.name}`: more than {MAX_SLOTS} slots without `.at` are", s.span)
        if id(e) not in self.counted:
            self.counted[id(e)] = self.names.fresh(f"{e.name}_turns")
        return self.counted[id(e)]


def _only(condition: ir.Expr, names: set[str]) -> bool:
    return set(free_variables((condition,))) <= names
