"""Kernels whose instances meet at events: one fiber per instance.

A region becomes a C++ lambda that the runtime runs once per instance, each on its own stack. `inthreads.async` roles
are conditions inside; who takes part in a join or a trigger is counted before the fibers start, from the role's
predicate. Where a statement is collective, the participant that arrives last carries it out while the others wait.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator, Sequence

from croq_magic.compiler import integers, ir
from croq_magic.compiler.passes.joins import is_collective, meets_at_events, must_split
from croq_magic.compiler.passes.structure import nested
from croq_magic.compiler.source import Span
from croq_magic.compiler.targets.cpu.guards import ModuleState
from croq_magic.compiler.targets.cpu.statements import Statements
from croq_magic.compiler.targets.emit_cxx import INDEX, Names
from croq_magic.compiler.types import BOOL
from croq_magic.compiler.visit import rewrite, walk

STACK = (
    128 * 1024
)  # bytes of a fiber's stack besides the local storage of its instance; touched pages alone cost memory
_LANES = {ir.Level.GROUP: 32, ir.Level.GROUP4: 128}


@dataclasses.dataclass
class _Meeting:
    """Where the instances that satisfy `conditions` join, once for each unit of `scope`."""

    scope: ir.Level
    conditions: tuple[ir.Expr, ...]
    join: str
    expected: str


class _Fibers:
    """What is known while the lambda of one region is being written."""

    def __init__(self, chain: tuple[ir.Region, ...]) -> None:
        self.chain = chain
        self.axes = [pair for region in chain for pair in zip(region.indices, region.extents, strict=True)]
        self.role: tuple[ir.Expr, ...] = ()  # predicates around the current statement that choose instances
        self.meetings: list[_Meeting] = []
        self.parties: dict[tuple[ir.Expr, ...], str] = {}
        self.waited: dict[int, tuple[str, int]] = {}  # event -> the instance's counters of generations it has seen
        self.values: dict[str, ir.Expr] = {}  # immutable scalars of indices alone, for predicates
        self.stack_bytes = STACK


class FiberStatements(Statements):
    """Adds events and regions of fibers to the statements."""

    def __init__(self, state: ModuleState, names: Names, leave: str, depth: int = 0) -> None:
        super().__init__(state, names, leave, depth)
        self.fibers: _Fibers | None = None
        self.concurrent = False  # the kernel has events, so its regions were not split at joins
        self.waited_by_block: dict[int, tuple[str, int]] = {}

    # -------------------------------------------------------------------------------------------------- the region

    def region(self, s: ir.Region) -> None:
        if self.fibers is None and self.concurrent and (meets_at_events(s) or must_split(s)):
            self._fiber_region(s)
        else:
            super().region(s)

    def _fiber_region(self, s: ir.Region) -> None:
        chain = [s]
        while len(chain[-1].body) == 1 and isinstance(chain[-1].body[0], ir.Region):
            chain.append(chain[-1].body[0])
        body = chain[-1].body
        for inner in nested(body):
            if isinstance(inner, ir.Region) and (meets_at_events(inner) or must_split(inner)):
                self.unsupported("joins at two levels in a kernel with events are", inner.span)
        if any(integers.value(extent) is None for region in chain for extent in region.extents):
            self.unsupported("a symbolic number of instances in a kernel with events is", s.span)
        fibers = self.fibers = _Fibers(tuple(chain))
        outer, self.lines = self.lines, []
        loops, self._loops = self._loops, []
        leave, self.leave = self.leave, "return;"
        self.depth += 2
        for var, _ in fibers.axes:
            self.define(var)
        self.instance += [var for var, _ in fibers.axes]
        self._yields.append("")
        self.body(body)
        self._yields.pop()
        del self.instance[len(self.instance) - len(fibers.axes) :]
        self.depth -= 2
        inner_lines, self.lines = self.lines, outer
        self._loops, self.leave, self.fibers = loops, leave, None
        self._write(fibers, inner_lines)

    def _write(self, fibers: _Fibers, body: list[str]) -> None:
        self.forget_place()
        with self.block():
            self._count_participants(fibers)
            total = 1
            for _, extent in fibers.axes:
                total *= integers.value(extent) or 1
            stack = fibers.stack_bytes
            call = f"croq_fibers(lane, {total}, {stack}, [&]({INDEX} index_, croq_lane* lane)"
            with self.block(f"const bool stopped = {call}", "});"):
                self.coordinates("index_", fibers.axes)
                for name, slots in fibers.waited.values():
                    self.line(f"{INDEX} {name}[{slots}] = {{}};")
                self.lines += body
            self.line(f"if (stopped) {self.leave}")
        self.forget_place()

    def coordinates(self, linear: str, axes: Sequence[tuple[ir.Var, ir.Expr]]) -> None:
        """Declares the indices of `axes` from a linear index."""
        raise NotImplementedError

    def _count_participants(self, fibers: _Fibers) -> None:
        """How many instances take part in each trigger, and in each unit of each join."""
        for meeting in fibers.meetings:
            units = self._units(fibers, meeting.scope)
            self.line(f"croq_join {meeting.join}[{units}] = {{}};")
            self.line(f"{INDEX} {meeting.expected}[{units}] = {{}};")
        for name in fibers.parties.values():
            self.line(f"{INDEX} {name} = 0;")
        if not fibers.meetings and not fibers.parties:
            return
        heads = []
        for var, extent in fibers.axes:
            name = self.names.of(var)
            heads.append(f"for ({INDEX} {name} = 0; {name} < {self.expressions.index(extent)}; ++{name})")
        with self.nest(heads or [""]):
            for meeting in fibers.meetings:
                place = f"{meeting.expected}[{self._unit(fibers, meeting.scope)}]"
                self.line(f"{place} += {self._condition(meeting.conditions)};")
            for conditions, name in fibers.parties.items():
                self.line(f"{name} += {self._condition(conditions)};")

    def _condition(self, conditions: tuple[ir.Expr, ...]) -> str:
        return " && ".join(f"({self.expressions.value(c)})" for c in conditions) or "1"

    # ------------------------------------------------------------------------------------------------ participants

    def _unit(self, fibers: _Fibers, scope: ir.Level) -> str:
        """The unit of `scope` that the current instance belongs to, as an index."""
        linear: ir.Expr = integers.ZERO
        inner: ir.Expr = integers.ZERO
        stride = 1
        finest = ir.Level.BLOCK
        for region in fibers.chain:
            assert region.level is not None
            if region.level.depth <= scope.depth:
                finest = region.level
                for var, extent in zip(region.indices, region.extents, strict=True):
                    linear = integers.add(integers.mul(linear, extent), var)
            else:
                for var, extent in zip(region.indices, region.extents, strict=True):
                    inner = integers.add(inner, integers.mul(var, integers.constant(stride)))
                    stride *= integers.value(extent) or 1
        if scope in _LANES and finest.depth < scope.depth:  # units that the program did not write: runs of threads
            units = -(-stride // _LANES[scope])
            part = integers.floordiv(inner, integers.constant(_LANES[scope]))
            linear = integers.add(integers.mul(linear, integers.constant(units)), part)
        return self.expressions.index(linear)

    def _units(self, fibers: _Fibers, scope: ir.Level) -> int:
        outer = inner = 1
        finest = ir.Level.BLOCK
        for region in fibers.chain:
            assert region.level is not None
            size = 1
            for extent in region.extents:
                size *= integers.value(extent) or 1
            if region.level.depth <= scope.depth:
                finest, outer = region.level, outer * size
            else:
                inner *= size
        return outer * -(-inner // _LANES[scope]) if scope in _LANES and finest.depth < scope.depth else outer

    @contextlib.contextmanager
    def _meeting(self, scope: ir.Level, span: Span | None, what: str) -> Iterator[None]:
        """All participants wait for each other; what is emitted inside is done once, by the last to arrive."""
        fibers = self.fibers
        assert fibers is not None
        scope = ir.Level.BLOCK if scope.depth < ir.Level.BLOCK.depth else scope
        found = next((m for m in fibers.meetings if m.scope is scope and m.conditions == fibers.role), None)
        if found is None:
            names = (self.names.fresh("meeting"), self.names.fresh("expected"))
            found = _Meeting(scope, fibers.role, *names)
            fibers.meetings.append(found)
        unit = self._unit(fibers, scope)
        join, expected = f"{found.join}[{unit}]", f"{found.expected}[{unit}]"
        place = self._waiting_place(what, span)
        with self.block(f"if (croq_is_last({join}, {expected}))", "} else {"):
            yield
            self.line(f"croq_release(lane, {join});")
        self.depth += 1
        self.line(f"if (croq_await(lane, {join}, {place})) {self.leave}")
        self.depth -= 1
        self.line("}")

    def _waiting_place(self, what: str, span: Span | None) -> int:
        """The check that a deadlock at this place reports."""
        instance, self.instance = self.instance, []
        number = self.site(f"deadlock: no instance can go on; {what}", (), span, waits=True)
        self.instance = instance
        return number

    # -------------------------------------------------------------------------------------------------- statements

    def statement(self, s: ir.Stmt) -> None:
        fibers = self.fibers
        if fibers is None:
            super().statement(s)
            return
        if isinstance(s, ir.Let) and s.var.role is ir.Role.LET and s.value is not None:
            value = self._of_indices(s.value)
            if value is not None:
                fibers.values[s.var.name] = value
        if is_collective(s) and not isinstance(s, ir.Wait):
            self.at(s.span)
            with self._meeting(ir.Level.BLOCK, s.span, "waiting for a collective statement"):
                super().statement(s)
        else:
            super().statement(s)

    def _of_indices(self, e: ir.Expr) -> ir.Expr | None:
        """An expression written in indices and parameters alone; None if it depends on anything else."""
        assert self.fibers is not None
        values = self.fibers.values
        written = rewrite(e, lambda n: values.get(n.name) if isinstance(n, ir.Var) else None)
        own = {var.name for var, _ in self.fibers.axes}
        for node in walk(written):
            if isinstance(node, ir.Load) or (isinstance(node, ir.Var) and not self._known(node, own)):
                return None
        return written

    def _known(self, var: ir.Var, own: set[str]) -> bool:
        return var.name in own or var.role in (ir.Role.DIM, ir.Role.PARAM) or var in self.instance

    @contextlib.contextmanager
    def _chosen(self, predicate: ir.Expr, span: Span | None, required: bool) -> Iterator[None]:
        """Statements inside are carried out by the instances that satisfy a predicate."""
        assert self.fibers is not None
        written = self._of_indices(predicate)
        if written is None and required:
            self.unsupported("an `inthreads` condition on loaded or mutable values is", span)
        before = self.fibers.role
        if written is not None and any(
            isinstance(n, ir.Var) and any(n == var for var, _ in self.fibers.axes) for n in walk(written)
        ):
            self.fibers.role = (*before, written)
        yield
        self.fibers.role = before

    def _chosen_body(self, condition: ir.Expr, body: ir.Body, span: Span | None) -> None:
        with self._chosen(condition, span, False):
            self.body(body)

    def masked(self, s: ir.Masked) -> None:
        if self.fibers is None:
            super().masked(s)
            return
        if not s.is_async:
            with self._meeting(ir.Level.BLOCK, s.span, "waiting before `inthreads`"):
                pass
        with self.block(f"if ({self.expressions.value(s.predicate)})"), self._chosen(s.predicate, s.span, True):
            self.body(s.body)
        if not s.is_async:
            with self._meeting(ir.Level.BLOCK, s.span, "waiting after `inthreads`"):
                pass

    def branch(self, s: ir.If) -> None:
        if self.fibers is None:
            super().branch(s)
            return
        with self.block(f"if ({self.expressions.value(s.condition)})", "} else {" if s.other else "}"):
            self._chosen_body(s.condition, s.then, s.span)
        if s.other:
            self.depth += 1
            self._chosen_body(ir.Unary("!", s.condition, BOOL), s.other, s.span)
            self.depth -= 1
            self.line("}")

    def barrier(self, s: ir.Barrier) -> None:
        if self.fibers is not None:
            with self._meeting(s.scope, s.span, "waiting at a barrier"):
                pass

    def end_instance(self, s: ir.Yield) -> None:
        if self.fibers is not None and not self._yields[-1]:
            self.line("return;")
        else:
            super().end_instance(s)

    # ------------------------------------------------------------------------------------------------------ events

    def declare_event(self, s: ir.DeclareEvent) -> None:
        event = s.event
        count = 1
        for extent in event.slots:
            count *= extent
        slots = ", ".join(["{1, 0}" if event.ready else "{0, 0}"] * count)
        self.line(f"croq_event {self.names.of(event)}[{count}] = {{{slots}}};")

    def _slots(self, event: ir.Event, slot: tuple[ir.Expr, ...], order: ir.Expr | None) -> list[str]:
        """C++ indices of the slots that an operation is about."""
        if order is not None:
            return [f"croq_mod<{INDEX}>({self.expressions.index(order)}, {event.slots[0]})"]
        if slot:
            linear: ir.Expr = integers.ZERO
            for extent, index in zip(event.slots, slot, strict=True):
                linear = integers.add(integers.mul(linear, integers.constant(extent)), index)
            return [self.expressions.index(linear)]
        count = 1
        for extent in event.slots:
            count *= extent
        return [str(i) for i in range(count)]

    def trigger(self, s: ir.Trigger) -> None:
        if s.cluster:
            self.unsupported("`trigger.cluster` is", s.span)
        parties = str(s.event.parties or 1)
        if self.fibers is not None and not s.event.parties:
            known = self.fibers.parties
            parties = known.setdefault(self.fibers.role, "") or self.names.fresh("parties")
            known[self.fibers.role] = parties
        for slot in self._slots(s.event, s.slot, s.order):
            self.line(f"croq_trigger(lane, {self.names.of(s.event)}[{slot}], {parties});")

    def wait_event(self, s: ir.WaitEvent) -> None:
        event = s.event
        seen = self._seen(event)
        place = self._waiting_place(f"waiting for the event `{event.name}`", s.span)
        for slot in self._slots(event, s.slot, s.order):
            with self.block():
                self.line(f"const {INDEX} slot = {slot};")
                wait = f"croq_wait(lane, {self.names.of(event)}[slot], {seen}[slot], {place})"
                self.line(f"if ({wait}) {self.leave}")
                if not s.spin:  # spinning looks at the generation without taking it
                    self.line(f"++{seen}[slot];")

    def _seen(self, event: ir.Event) -> str:
        """The waiter's own counters of an event's generations, one a slot."""
        count = 1
        for extent in event.slots:
            count *= extent
        waited = self.fibers.waited if self.fibers is not None else self.waited_by_block
        if id(event) not in waited:
            waited[id(event)] = (self.names.fresh(f"{event.name}_seen"), count)
            if self.fibers is None:
                self.line(f"{INDEX} {waited[id(event)][0]}[{count}] = {{}};")
        return waited[id(event)][0]
