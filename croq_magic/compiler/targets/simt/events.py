"""Events: barriers in the block's memory, or in device memory, at which some threads arrive and others wait.

An event completes a generation when as many threads have arrived as reach its triggers. Every waiter keeps the parity
of the generation it waits for, a bit a slot; `e.at(n)` gives it by `n` itself.

What a block triggers for all blocks of its cluster stands in the memory of each of them where the device has clusters:
they meet before the first arrival and at the end, so that no arrival goes to a block that is not ready, or has ended.
Otherwise such events, like those of the launch, are words in device memory, a copy a block; then all blocks must run at
the same time.
"""

from __future__ import annotations

import math

from croq_magic.compiler import integers, ir
from croq_magic.compiler.targets.emit_cxx import TIMES, Names
from croq_magic.compiler.targets.simt import copies
from croq_magic.compiler.targets.simt.arrivals import arrivals_of, writes_beside
from croq_magic.compiler.targets.simt.emission import KernelArgument
from croq_magic.compiler.targets.simt.guards import ModuleState
from croq_magic.compiler.targets.simt.parties import Axes, parties
from croq_magic.compiler.targets.simt.statements import Statements
from croq_magic.compiler.targets.simt.threads import Threads
from croq_magic.compiler.visit import walk

BITS = 32  # slots whose parities a waiter keeps in one word


class Events(Statements):
    """Emits triggers and waits, and afterwards the definitions of the events that were seen."""

    def __init__(self, state: ModuleState, names: Names, threads: Threads) -> None:
        super().__init__(state, names, threads)
        self._seen: dict[int, ir.Event] = {}  # by id
        self.parties: dict[int, int] = {}
        self.counted: dict[int, str] = {}  # name of the variable with a waiter's parities
        self.local_units: dict[int, int] = {}
        self.far: dict[int, KernelArgument] = {}  # events in device memory
        self.party_names: dict[int, str] = {}  # of constants, as triggers may come after waits
        nodes = list(walk(threads.root.body))
        self.of_cluster = {id(n.event) for n in nodes if isinstance(n, ir.Trigger) and n.cluster}
        roles = [inner for n in nodes if isinstance(n, ir.Masked) for inner in walk(n.body)]
        self.of_roles = {id(n.event) for n in roles if isinstance(n, ir.Trigger)}
        # Events in the memory of every block of a cluster, at which all of its blocks arrive.
        self.spread = self.of_cluster if self.cluster_size else set()
        self.arrivals = arrivals_of(threads.root, self._is_asynchronous, self.of_cluster)

    def grid_axes(self) -> Axes:
        """Indices and extents of all blocks of the launch."""
        raise NotImplementedError

    def cluster_axes(self) -> Axes:
        """Indices and extents of the blocks of a cluster."""
        raise NotImplementedError

    @property
    def cluster_size(self) -> int:
        """Blocks of a cluster of the device; 0 where it has none, or none so large."""
        raise NotImplementedError

    def event_endings(self) -> list[str]:
        """The lines at the end of the kernel."""
        return [f"  {self.dialect.cluster_barrier()}"] if self.spread else []

    def event_definitions(self) -> list[str]:
        """The lines that define all events and make them ready for use."""
        d = self.dialect
        lines = [d.event_array(self._name(e), self._count(e)) for e in self.events]
        for key, name in self.counted.items():
            words = -(-math.prod(self._seen[key].slots) // BITS)
            lines.append(f"unsigned {name} = 0;" if words == 1 else f"unsigned {name}[{words}] = {{0}};")
        for key, name in self.party_names.items():
            event = self._seen[key]
            lines.append(f"const unsigned {name} = {self.parties.get(key, event.parties or 1)};")
        for meeting in self.meetings.values():
            lines += [d.event_array(meeting.name, meeting.slots), f"unsigned {meeting.turn} = 0;"]
        if not self.events and not self.meetings:
            return ["  " + line for line in lines]
        lines.append(f"if ({self.thread} == 0) {{" if not self.single else "{")
        made = [(self._name(e), self._count(e), self.parties.get(id(e), e.parties or 1)) for e in self.events]
        made += [(meeting.name, meeting.slots, meeting.parties) for meeting in self.meetings.values()]
        for name, count, arrivals in made:
            if count == 1:
                lines.append(f"  {d.event_init(f'{name}[0]', str(arrivals))}")
            else:
                lines.append(f"  for (int i = 0; i < {count}; ++i) {d.event_init(f'{name}[i]', str(arrivals))}")
        lines.append("}")
        lines.append(d.cluster_barrier() if self.spread else d.block_barrier())
        return ["  " + line for line in lines]

    @property
    def events(self) -> list[ir.Event]:
        """Events in the block's memory that the kernel triggers or waits for, in order of appearance."""
        return [e for e in self._seen.values() if id(e) not in self.far]

    def _name(self, e: ir.Event) -> str:
        return self.names.of(e)

    def _count(self, e: ir.Event) -> int:
        return math.prod(e.slots) * self.local_units.get(id(e), 1)

    def _note(self, e: ir.Event) -> None:
        self._seen.setdefault(id(e), e)
        outside = id(e) in self.of_cluster - self.spread
        if (e.storage is ir.Storage.GLOBAL or outside) and id(e) not in self.far:
            words: ir.Expr = integers.constant(math.prod(e.slots))
            if outside:
                words = integers.mul(words, integers.product(extent for _, extent in self.grid_axes()))
            self.far[id(e)] = KernelArgument(self._name(e), "counter", words=words, written=True)
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
        blocks: Axes = self.cluster_axes() if s.cluster else ()
        if id(s.event) in self.far and not s.cluster and self._is_global(s.event):
            blocks = self.grid_axes()
        slot = (*s.slot, *((s.order,) if s.order is not None else ()))
        if s.event.parties:
            return s.event.parties
        found = parties(self.threads, self.chain, self.conditions, self.divergent(), blocks, slot)
        if not found:
            raise self.unsupported("an event triggered by threads that are selected by changing values is", s.span)
        if s.event.storage is ir.Storage.LOCAL and self.unit()[2] is not None:
            lanes = integers.value(self.unit()[1]) or 1
            return len([t for t in found if t // lanes == found[0] // lanes])
        return len(found)

    @staticmethod
    def _is_global(e: ir.Event) -> bool:
        return e.storage is ir.Storage.GLOBAL

    def trigger(self, s: ir.Trigger) -> None:
        self._note(s.event)
        if self._is_seed(s):
            self._seed(s)
            return
        count = self._parties(s)
        known = self.parties.setdefault(id(s.event), count)
        if known != count:
            raise self.unsupported(f"`{s.event.name}`: triggers by {known} and by {count} threads are", s.span)
        allowed = self.pending_groups(s)
        if allowed is not None:
            self.line(self.dialect.async_wait(allowed))
        if s.cluster:
            self._trigger_cluster(s)
            return
        follows = id(s) in self.arrivals.triggers
        alone = follows and not writes_beside(self.threads, self.chain, self.conditions, s, self._is_asynchronous)
        for slot in self._slots(s.event, s.slot, s.order):
            if follows:
                self.line(self.dialect.event_follow(slot, alone))
            if not alone:
                far = id(s.event) in self.far
                self.line(self.dialect.far_arrive(slot) if far else self.dialect.event_arrive(slot))

    def _is_seed(self, s: ir.Trigger) -> bool:
        """Whether the whole block triggers what else a role of its threads does: it arrives for that role."""
        inner = {ir.Level.GROUP4, ir.Level.GROUP, ir.Level.THREAD}
        inside = self.conditions or any(region.level in inner for region in self.chain)
        near = s.event.storage is ir.Storage.SHARED and not s.cluster and id(s.event) not in self.far
        return near and not inside and not s.after and id(s.event) in self.of_roles and bool(self.threads.count)

    def _seed(self, s: ir.Trigger) -> None:
        """As many arrivals as the role has threads, behind a barrier, since those who arrive speak for all."""
        self.join(ir.Level.BLOCK, s.span)
        arrivals = self._parties_name(s.event)
        i = self.names.fresh("i")
        with self.block(f"for (unsigned {i} = {self.thread}; {i} < {arrivals}; {i} += {self.threads.count})"):
            for slot in self._slots(s.event, s.slot, s.order):
                self.line(self.dialect.event_arrive(slot))

    def _is_asynchronous(self, s: ir.Copy) -> bool:
        return copies.is_asynchronous(self.dialect, s)

    def is_group(self, s: ir.Copy) -> bool:
        return self._is_asynchronous(s) and (s.token is None or s.token.name not in self.arrivals.tokens)

    def is_pending(self, s: ir.Copy) -> bool:
        """Whether a copy may be under way behind its statement and is waited for as a group."""
        return self.is_group(s) and (s.token is None or s.token.name not in self.arrivals.narrow)

    def copy(self, s: ir.Copy) -> None:
        super().copy(s)
        if s.token is not None and s.token.name in self.arrivals.narrow:
            # A thread can only say of its own copies that they are complete.
            if self._is_asynchronous(s):
                self.line(self.dialect.async_wait(0))
            self.join_crew(s.span)

    def _trigger_cluster(self, s: ir.Trigger) -> None:
        """An arrival at the copy of every block of the cluster."""
        if self.spread:
            block = self.names.fresh("block")
            self.line(self.dialect.unroll(None))
            with self.block(f"for (int {block} = 0; {block} < {self.cluster_size}; ++{block})"):
                for slot in self._slots(s.event, s.slot, s.order):
                    self.line(self.dialect.cluster_arrive(slot, block))
            return
        size = self.expressions.index(integers.product(extent for _, extent in self.cluster_axes()), TIMES + 1)
        name, slots = self._name(s.event), math.prod(s.event.slots)
        number = self.dialect.block_index(0)
        block = self.names.fresh("block")
        first = f"{number} / {size} * {size}"
        with self.block(f"for (unsigned {block} = {first}; {block} < {first} + {size}; ++{block})"):
            for text, _ in self._places(s.event, s.slot, s.order):
                self.line(self.dialect.far_arrive(f"{name}[{block} * {slots} + {text}]"))

    def _slots(self, e: ir.Event, slot: tuple[ir.Expr, ...], order: ir.Expr | None) -> list[str]:
        """Lvalues of the chosen slots."""
        return [self._lvalue(e, text) for text, _ in self._places(e, slot, order)]

    def _lvalue(self, e: ir.Event, text: str) -> str:
        name = self._name(e)
        if id(e) not in self.far:
            return f"{name}[{self._unit_offset(e)}{text}]"
        base = f"{self.dialect.block_index(0)} * {math.prod(e.slots)} + " if id(e) in self.of_cluster else ""
        return f"{name}[{base}{text}]"

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
        d = self.dialect

        def wait(slot: str, generation: str) -> str:
            if id(s.event) in self.far:
                return d.far_wait(slot, self._parties_name(s.event), generation)
            if id(s.event) in self.spread:
                return d.cluster_wait(slot, generation)
            return d.event_wait(slot, generation)

        for text, place in self._places(s.event, s.slot, s.order):
            slot = self._lvalue(s.event, text)
            if s.order is not None:
                generation = integers.floordiv(s.order, integers.constant(math.prod(s.event.slots)))
                if s.event.ready:
                    generation = integers.add(generation, integers.ONE)
                self.expressions.modular = True  # only the lowest bit counts
                generation_text = self.expressions.index(generation)
                self.expressions.modular = False
                self.line(wait(slot, generation_text))
                continue
            bits, shift = self._counted(s), self.expressions.index(place, 12)
            if math.prod(s.event.slots) > BITS:
                bits, shift = f"{bits}[({shift}) / {BITS}]", f"({shift}) % {BITS}"
            first = integers.value(place) == 0
            turn = bits if first else f"({bits} >> {shift})"
            self.line(wait(slot, f"{turn} + 1" if s.event.ready else turn))
            if not s.spin:
                self.line(f"{bits} ^= 1u;" if first else f"{bits} ^= 1u << {shift};")

    def _parties_name(self, e: ir.Event) -> str:
        if id(e) not in self.party_names:
            self.party_names[id(e)] = self.names.fresh(f"{e.name}_parties")
        return self.party_names[id(e)]

    def _counted(self, s: ir.WaitEvent) -> str:
        e = s.event
        if id(e) not in self.counted:
            self.counted[id(e)] = self.names.fresh(f"{e.name}_turns")
        return self.counted[id(e)]
