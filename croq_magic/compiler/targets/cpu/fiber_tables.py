"""The tables that the fibers of a block share: events, meetings, and who takes part in them, as C++.

They stand at the start of a block (`declare`); who takes part is counted where fibers start (`prepare`), and an event
begins anew where the program declares it (`reset`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING

from croq_magic.compiler import integers, ir
from croq_magic.compiler.targets.cpu.fiber_plan import EventPlan, FiberPlan, Layer, Role
from croq_magic.compiler.targets.emit_cxx import INDEX, TIMES, Names, Unsupported

if TYPE_CHECKING:
    from croq_magic.compiler.targets.cpu.statements import Statements

NAMED_BARRIERS = 16
MOST_FIBERS = 1 << 17  # kMostFibers of croq_schedule.h
SMALL = 4096  # elements of a table on the stack of a block


class FiberTables:
    """Names of the tables of one kernel, and the text that makes them."""

    def __init__(self, plan: FiberPlan, names: Names) -> None:
        self.plan = plan
        self.events = {event: names.of(event) for event in plan.events}
        self.meetings = {role: names.fresh("meeting") for role in plan.meetings}
        self.counts: dict[Role, str] = {}  # members of the roles that trigger events
        self.members: dict[tuple[ir.Event, Layer], str] = {}  # who waits for an event
        for event, found in plan.events.items():
            for role in found.triggers:
                if not event.parties and role not in self.counts:
                    self.counts[role] = names.fresh("parties")
            for layer in found.places:
                self.members[event, layer] = names.fresh(f"{event.name}_waits")
        self.named = names.fresh("named_barriers") if plan.named_barriers else ""

    # ------------------------------------------------------------------------------------------------------ storage

    def declare(self, out: Statements) -> None:
        """Storage at the start of a block."""
        for role, name in self.meetings.items():
            _table(out, "croq_meeting", name, self._units(out, role))
        for role, name in self.counts.items():
            _table(out, "int32_t", name, self._units(out, role), self._constant(out, role.spread))
            if role.layer.is_block:
                out.line(f"{name}[0] = 1;")
        for (_, layer), name in self.members.items():
            count = self._count(out, layer)
            _table(out, "uint8_t", name, count)
            out.line(f"__builtin_memset({name}, 0, {count});")
        if self.named:
            blocks = self._constant(out, self.plan.blocks)
            _table(out, "croq_meeting", self.named, str(NAMED_BARRIERS), blocks)
            out.line(f"__builtin_memset({self.named}, 0, sizeof(croq_meeting) * {NAMED_BARRIERS} * {blocks});")
        for found in self.plan.events.values():
            self._declare_event(out, found)

    def _declare_event(self, out: Statements, found: EventPlan) -> None:
        event, name = found.event, self.events[found.event]
        tables = [out.names.fresh(f"{name}_{word}") for word in ("slots", "watches", "roles", "event")]
        units = self._constant(out, self.plan.units(found))
        slots = (units, str(found.each))
        _table(out, "croq_slot", tables[0], *slots)
        watches: list[str] = []
        turns: list[str] = []
        for layer in found.places:
            count = self._count(out, layer)
            per_unit = self._constant(out, self.plan.event_unit(found, layer))
            passed = out.names.fresh(f"{name}_passed")
            _table(out, "uint32_t", passed, *slots, count)
            watches.append(f"{{{passed}, {self.members[event, layer]}, {count}, {per_unit}}}")
        for role in found.triggers:
            rounds = out.names.fresh(f"{name}_rounds")
            _table(out, "croq_rounds", rounds, *slots)
            if event.parties:
                turns.append(f"{{nullptr, {rounds}, nullptr, 0}}")
                continue
            count, arrivals = self._count(out, role.layer), out.names.fresh(f"{name}_arrivals")
            _table(out, "uint32_t", arrivals, *slots, count)
            turns.append(f"{{{arrivals}, {rounds}, {self.counts[role]}, {count}}}")
        fields = [tables[0]]
        for kind, table, items in (("watch", tables[1], watches), ("turns", tables[2], turns)):
            if items:
                out.line(f"croq_{kind} {table}[] = {{{', '.join(items)}}};")
            fields.append(table if items else "nullptr")
        fields += [
            str(len(watches)),
            str(len(turns)),
            units,
            str(found.each),
            str(event.parties),
            str(int(event.ready)),
        ]
        out.line(f"croq_event {tables[3]} = {{{', '.join(fields)}}};")
        out.line(f"croq_event* const {name} = &{tables[3]};")

    def _count(self, out: Statements, layer: Layer) -> str:
        number = integers.value(layer.count)
        if number is not None and number > MOST_FIBERS:
            raise Unsupported(f"{number} instances that wait for each other; the CPU target runs at most {MOST_FIBERS}")
        return self._constant(out, layer.count)

    def _units(self, out: Statements, role: Role) -> str:
        return self._constant(out, integers.ceildiv(role.layer.count, role.per_unit))

    def _constant(self, out: Statements, e: ir.Expr) -> str:
        """A size as C++ text: a constant, or a value known at the start of a block."""
        known = self.plan.at_start(e)
        if known is None:
            what = "a number of fibers that depends on values of a block"
            raise Unsupported(f"{what} is not supported by the CPU target yet")
        return out.expressions.index(known, TIMES + 1)

    # ------------------------------------------------------------------------------------------- where fibers start

    def prepare(self, out: Statements, root: Layer) -> None:
        """Counts who takes part, before the fibers of a region start."""
        for layer in self.plan.layers.values():
            if layer.root is root:
                self._count_members(out, layer)
        for event, found in self.plan.events.items():
            if not found.home.is_block and found.home.root is root:
                self.reset(out, event)

    def reset(self, out: Statements, event: ir.Event) -> None:
        out.line(f"croq_reset({self.events[event]});")

    def _count_members(self, out: Statements, layer: Layer) -> None:
        meetings = [(role, name) for role, name in self.meetings.items() if role.layer is layer]
        counts = [(role, name) for role, name in self.counts.items() if role.layer is layer]
        members = [
            (event, name)
            for (event, found), name in self.members.items()
            if found.place == layer.place and layer in self.plan.events[event].waits
        ]
        if not meetings and not counts and not members:
            return
        for role, name in meetings:
            out.line(f"__builtin_memset({name}, 0, sizeof(croq_meeting) * {self._units(out, role)});")
        for role, name in counts:
            size = f"{self._units(out, role)} * {self._constant(out, role.spread)}"
            out.line(f"__builtin_memset({name}, 0, sizeof(int32_t) * {size});")
        number = out.names.fresh("i")
        with out.block(f"for ({INDEX} {number} = 0; {number} < {self._count(out, layer)}; ++{number})"):
            axes = [pair for r in reversed(layer.chain) for pair in zip(r.indices, r.extents, strict=True)]
            decode(out, number, axes)
            for role, name in meetings:
                out.line(f"{name}[{self._unit(out, number, role)}].expected += {holds(out, role.conditions)};")
            for role, name in counts:
                self._count_role(out, role, name, number)
            for event, name in members:
                roles = self.plan.events[event].waits[layer]
                either = " || ".join(f"({holds(out, role.conditions)})" for role in roles) or "false"
                out.line(f"{name}[{number}] |= {either};")

    def _count_role(self, out: Statements, role: Role, name: str, number: str) -> None:
        """Fiber `number`, if it is a member, with the events of all blocks that its unit spreads over."""
        unit, member = self._unit(out, number, role), holds(out, role.conditions)
        if integers.value(role.spread) == 1:
            out.line(f"{name}[{unit}] += {member};")
            return
        spread, block = self._constant(out, role.spread), out.names.fresh("block")
        with out.block(f"for ({INDEX} {block} = 0; {block} < {spread}; ++{block})"):
            out.line(f"{name}[({unit}) * {spread} + {block}] += {member};")

    def _unit(self, out: Statements, number: str, role: Role) -> str:
        if integers.equal(role.per_unit, role.layer.count):
            return "0"
        return f"{number} / {self._constant(out, role.per_unit)}"

    # ------------------------------------------------------------------------------------------------ inside fibers

    def unit(self, out: Statements, layer: Layer, per_unit: ir.Expr) -> str:
        """The unit that the current fiber belongs to, as an index."""
        if integers.equal(per_unit, layer.count):
            return "0"
        return f"fiber->number / {self._constant(out, per_unit)}"

    def turn(self, event: ir.Event, role: Role) -> int:
        return self.plan.events[event].triggers.index(role)

    def watch(self, event: ir.Event, layer: Layer) -> int:
        return [found.place for found in self.plan.events[event].places].index(layer.place)


def _table(out: Statements, kind: str, name: str, *factors: str) -> None:
    """An array of as many elements as the product of `factors`: on the stack if it is known to be small."""
    if all(factor.isdigit() for factor in factors) and math.prod(map(int, factors)) <= SMALL:
        out.line(f"{kind} {name}[{' * '.join(factor for factor in factors if factor != '1') or 1}];")
        return
    owner = out.names.fresh(f"{name}_storage")
    out.line(f"croq_storage {owner}(lane, croq_product({', '.join(factors)}, sizeof({kind})));")
    out.line(f"{kind}* const {name} = ({kind}*){owner}.data;")
    out.line(f"if (!{name}) {out.leave}")


def decode(out: Statements, linear: str, axes: list[tuple[ir.Var, ir.Expr]]) -> None:
    """Declares indices from a linear one; the first axis is the fastest."""
    divisors: list[str] = []
    for position, (var, extent) in enumerate(axes):
        out.define(var)
        name = out.names.of(var)
        size = out.expressions.index(extent, TIMES + 1)
        quotient = linear
        if divisors:
            quotient += f" / {divisors[0]}" if len(divisors) == 1 else f" / ({' * '.join(divisors)})"
        last = all(integers.value(e) == 1 for _, e in axes[position + 1 :])
        text = "0" if integers.value(extent) == 1 else quotient if last else f"{quotient} % {size}"
        out.line(f"const {INDEX} {name} = {text};")
        if integers.value(extent) != 1:
            divisors.append(size)


def holds(out: Statements, conditions: Iterable[ir.Expr]) -> str:
    """All conditions as one C++ truth value."""
    return " && ".join(f"({out.expressions.value(c)})" for c in conditions) or "true"
