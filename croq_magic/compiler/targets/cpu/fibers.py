"""Regions of fibers as C++: one function a region, run by the runtime once per instance, each on its own stack.

The function gets what it uses of the block (pointers, scalars, tables) in a frame, as the block function itself does.
What happens at events and meetings is in croq_fiber.h; who takes part is known from `fiber_plan.py`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from croq_magic.compiler import integers, ir
from croq_magic.compiler.passes.choose_strategy import polls
from croq_magic.compiler.source import Span
from croq_magic.compiler.targets.cpu import vector
from croq_magic.compiler.targets.cpu.fiber_plan import EventPlan, FiberPlan, Where, negated
from croq_magic.compiler.targets.cpu.fiber_tables import NAMED_BARRIERS, FiberTables, decode, holds
from croq_magic.compiler.targets.cpu.guards import ModuleState
from croq_magic.compiler.targets.cpu.statements import Statements
from croq_magic.compiler.targets.cpu.storage import byte_size, is_shared, shared_buffers
from croq_magic.compiler.targets.cpu.waits import Kind
from croq_magic.compiler.targets.emit_cxx import INDEX, TIMES, Names, ctype

# Bytes of a fiber's stack besides the storage that the program declares; only pages that are touched cost memory.
STACK = 256 * 1024


class FiberStatements(Statements):
    """Adds events, meetings and regions of fibers to the statements."""

    def __init__(self, state: ModuleState, names: Names, leave: str, depth: int, plan: FiberPlan, where: Where) -> None:
        super().__init__(state, names, leave, depth)
        self.plan = plan
        self.where = where
        self.tables = FiberTables(plan, names)
        self.functions: list[FiberFunction] = []  # of all regions of fibers in the kernel, inner ones first
        self.read_only: frozenset[ir.Buffer] = frozenset()

    def table(self, name: str, kind: str) -> str:
        """C++ text of a table of the block (`kind` is a pointer type)."""
        return name

    def owns(self, var: ir.Var) -> bool:
        """Whether a scalar lives in this function or in one around it, inside the block."""
        return var.name in self.declared

    # ------------------------------------------------------------------------------------------------------ regions

    def region(self, s: ir.Region) -> None:
        if s.fibers is None:
            super().region(s)
            return
        function = FiberFunction(self, s)
        function.emit()
        self.functions.append(function)
        layer = function.where.layer
        with self.block():
            if self.where.layer.is_block:
                self.tables.prepare(self, layer)
            frame = "nullptr"
            if function.captured:
                frame = self.names.fresh("frame")
                fields = ", ".join(value for _, value in function.captured.values())
                self.line(f"const {function.frame_type} {frame} = {{{fields}}};")
                frame = f"&{frame}"
            count = self.expressions.index(integers.product(e for r in layer.regions for e in r.extents))
            call = f"croq_run_fibers(fiber, {function.symbol}, {frame}, {count}, {layer.fibers.units})"
            self.line(f"if ({call}) {self.leave}")

    @contextlib.contextmanager
    def _under(self, condition: ir.Expr, mask: bool) -> Iterator[None]:
        outer = self.where
        self.where = self.plan.narrowed(outer, condition, mask)
        yield
        self.where = outer

    def masked(self, s: ir.Masked) -> None:
        with self.block(f"if ({self.expressions.value(s.predicate)})"), self._under(s.predicate, True):
            self.body(s.body)

    def branch(self, s: ir.If) -> None:
        head = f"if ({self.expressions.value(s.condition)})"
        with self.block(head, "} else {" if s.other else "}"), self._under(s.condition, False):
            self.body(s.then)
        if s.other:
            self.depth += 1
            with self._under(negated(s.condition), False):
                self.body(s.other)
            self.depth -= 1
            self.line("}")

    # ----------------------------------------------------------------------------------------------------- meetings

    def wait_site(self, kind: Kind, what: str, span: Span | None, slots: tuple[int, ...] = ()) -> int:
        """The check that says what a fiber waits for, or did wrong with it."""
        instance, self.instance = self.instance, []
        number = self.site(what, (), span, slots, kind=kind)
        self.instance = instance
        return number

    def _meeting(self, s: ir.Barrier | ir.Once) -> str:
        role = self.plan.meeting(self.where, s)
        name = self.table(self.tables.meetings[role], "croq_meeting*")
        return f"&{name}[{self.tables.unit(self, role.layer, role.per_unit)}]"

    def barrier(self, s: ir.Barrier) -> None:
        if self.where.layer.is_block:
            return  # all inner regions have ended
        what = "a barrier" if not s.reason else "a join of `inthreads`" if s.reason == "inthreads" else "a join"
        site = self.wait_site("meeting", what, s.span)
        self.line(f"if (croq_barrier(fiber, {self._meeting(s)}, {site})) {self.leave}")

    def once(self, s: ir.Once) -> None:
        if self.where.layer.is_block:
            self.body(s.body)
            return
        meeting = self._meeting(s)
        site = self.wait_site("meeting", "a collective statement", s.span)
        turn = self.names.fresh("turn")
        with self.block(f"if (const int32_t {turn} = croq_arrive(fiber, {meeting}, {site}, true))"):
            self.line(f"if ({turn} == CROQ_LEAVE) {self.leave}")
            self.body(s.body)
            self.line(f"croq_part(fiber, {meeting});")

    def named_barrier(self, s: ir.NamedBarrier) -> None:
        number, threads = self.expressions.index(s.number), self.expressions.index(s.threads)
        if self.where.layer.is_block:
            return  # all threads of the block come by together
        site = self.wait_site("named", "named barrier", s.span)
        name = self.table(self.tables.named, "croq_meeting*")
        unit = self.tables.unit(self, self.where.layer, self.plan.per_unit(self.where.layer, ir.Level.BLOCK))
        name = name if unit == "0" else f"{name} + {unit} * {NAMED_BARRIERS}"
        waits = "false" if s.arrives else "true"
        arguments = f"fiber, {name}, {number}, {threads}, {self.where.layer.fibers.threads}, {waits}, {site}"
        self.line(f"if (croq_named_barrier({arguments})) {self.leave}")

    # ------------------------------------------------------------------------------------------------------- events

    def declare_event(self, s: ir.DeclareEvent) -> None:
        if self.where.layer.is_block:
            self.tables.reset(self, s.event)

    def _event(self, event: ir.Event) -> tuple[EventPlan, str, str]:
        """Plan and name of an event, and the first slot of the current unit."""
        found = self.plan.event(event)
        unit = self.tables.unit(self, self.where.layer, self.plan.event_unit(found, self.where.layer))
        base = "0" if unit == "0" else f"{unit} * {found.each}"
        return found, self.table(self.tables.events[event], "croq_event*"), base

    @contextlib.contextmanager
    def _slots(self, s: ir.Trigger | ir.WaitEvent, found: EventPlan, base: str, ordered: str) -> Iterator[str]:
        """Around the operation on one slot: gives the slot's text. `ordered` computes it from the order."""
        name = self.names.fresh("slot")
        if s.order is not None:
            with self.block():
                self.line(f"const {INDEX} {name} = {ordered};")
                self.line(f"if ({name} < 0) {self.leave}")
                yield name
        elif s.slot or found.each == 1:
            linear: ir.Expr = integers.ZERO
            for extent, index in zip(s.event.slots, s.slot, strict=False):
                linear = integers.add(integers.mul(linear, integers.constant(extent)), index)
            text = self.expressions.index(linear)
            yield text if base == "0" else base if text == "0" else f"{base} + ({text})"
        else:
            with self.block(f"for ({INDEX} {name} = {base}; {name} < {base} + {found.each}; ++{name})"):
                yield name

    def trigger(self, s: ir.Trigger) -> None:
        found, name, base = self._event(s.event)
        role = self.tables.turn(s.event, self.plan.trigger_role(found, self.where, s))
        site = self.wait_site("trigger", s.event.name, s.span, s.event.slots)
        weight = self.where.layer.fibers.threads
        ordered = "" if s.order is None else self.expressions.index(s.order)
        with contextlib.ExitStack() as around:
            if s.cluster and s.event.storage is ir.Storage.SHARED:
                base = around.enter_context(self._blocks_of_cluster(found.each))
            text = f"croq_slot_of(fiber, {name}, {base}, {ordered}, {site})"
            slot = around.enter_context(self._slots(s, found, base, text))
            self.line(f"croq_trigger(fiber, {name}, {role}, {slot}, {weight}, {site});")

    @contextlib.contextmanager
    def _blocks_of_cluster(self, each: int) -> Iterator[str]:
        """Around an arrival at the events of all blocks in the cluster: the first slot of each."""
        blocks, layer = self.plan.cluster_blocks(self.where.layer), self.where.layer
        count = self.expressions.index(blocks, TIMES)
        cluster = self.tables.unit(self, layer, self.plan.per_unit(layer, ir.Level.CLUSTER))
        block, first = self.names.fresh("block"), self.names.fresh("first")
        self.line(f"const {INDEX} {first} = {cluster} * {count};")
        with self.block(f"for ({INDEX} {block} = {first}; {block} < {first} + {count}; ++{block})"):
            yield f"{block} * {each}"

    def wait_event(self, s: ir.WaitEvent) -> None:
        found, name, base = self._event(s.event)
        watch = self.tables.watch(s.event, self.where.layer)
        site = self.wait_site("event", s.event.name, s.span, s.event.slots)
        spins = "true" if s.spin else "false"
        ordered = "" if s.order is None else self.expressions.index(s.order)
        text = f"croq_ordered(fiber, {name}, {watch}, {base}, {ordered}, {site})"
        with self._slots(s, found, base, text) as slot:
            self.line(f"if (croq_wait(fiber, {name}, {watch}, {slot}, {spins}, {site})) {self.leave}")


class FiberFunction(FiberStatements):
    """The function that every fiber of one layer runs."""

    def __init__(self, outer: FiberStatements, region: ir.Region) -> None:
        where = Where(outer.plan.layer(region))
        super().__init__(outer.state, outer.names, "return;", 1, outer.plan, where)
        self.outer = outer
        self.regions = where.layer.regions
        self.tables = outer.tables
        self.functions = outer.functions
        self.read_only = outer.read_only
        self.resident = outer.resident
        self.expressions.constants = dict(outer.expressions.constants)
        self.instance = [*outer.instance, *(var for one in self.regions for var in one.indices)]
        level = self.regions[-1].level or ir.Level.THREAD
        self.symbol = self.names.fresh(f"{level.value.replace('-', '')}_fiber")
        self.frame_type = f"{self.symbol}_frame"
        self.captured: dict[str, tuple[str, str]] = {}  # name -> declaration in the frame, value in the outer function
        self.references: set[str] = set()  # captured by address
        self.placed: set[int] = set()  # ids of buffers on the fiber's own stack
        self.stack_bytes = STACK

    def emit(self) -> None:
        self._yields.append("")
        self.line("croq_lane* const lane = fiber->lane;")
        axes = [axis for one in reversed(self.regions) for axis in zip(one.indices, one.extents, strict=True)]
        decode(self, "fiber->index", axes)
        for block in (one for one in self.regions if one.level is ir.Level.BLOCK):
            for buffer in shared_buffers(block.body):
                self.placed.add(id(buffer))
                self.allocate(buffer, restrict=False)
        self.body(self.regions[-1].body)
        inner = self.lines
        self.lines, self.depth = [], 0
        if self.captured:
            with self.block(f"struct {self.frame_type}", "};"):
                for declaration, _ in self.captured.values():
                    self.line(f"{declaration};")
        with self.block(f"static void {self.symbol}(const void* frame, croq_fiber* fiber)"):
            if self.captured:
                self.line(f"const {self.frame_type}& captured = *(const {self.frame_type}*)frame;")
            for name, (declaration, _) in self.captured.items():
                if name in self.references:
                    self.line(f"{declaration.replace('*', '&')} = *captured.{name};")
                else:
                    self.line(f"{declaration if '*' in declaration else f'const {declaration}'} = captured.{name};")
            self.lines += inner
        self.forget_place()

    # ------------------------------------------------------------------------------------------------ what it captures

    def table(self, name: str, kind: str) -> str:
        self.captured.setdefault(name, (f"{kind} {name}", self.outer.table(name, kind)))
        return name

    def owns(self, var: ir.Var) -> bool:
        return var.name in self.declared or self.outer.owns(var)

    def variable(self, var: ir.Var) -> str:
        name = self.names.of(var)
        if var.name in self.declared or name in self.captured:
            return name
        kind = INDEX if var.role in (ir.Role.DIM, ir.Role.LOOP, ir.Role.REGION) else ctype(var.dtype)
        value = self.outer.variable(var)
        if var.role is ir.Role.MUTABLE and self.outer.owns(var):
            self.references.add(name)
            self.captured[name] = (f"{kind}* {name}", f"&{value}")
        else:
            self.captured[name] = (f"{kind} {name}", value)
        return name

    def pointer(self, buffer: ir.Buffer) -> str:
        name = self.names.of(buffer)
        if id(buffer) not in self.placed and name not in self.captured:
            lanes = self.resident.get(id(buffer))
            kind = vector.vector_name(buffer.dtype, lanes) if lanes is not None else ctype(buffer.dtype)
            # Others may write while this fiber waits: only what nobody writes is known to stay as it is.
            restrict = " CROQ_RESTRICT" if buffer in self.read_only else ""
            self.captured[name] = (f"{kind}*{restrict} {name}", self.outer.pointer(buffer))
        return name

    # -------------------------------------------------------------------------------------------------- statements

    def declare_storage(self, s: ir.Declare) -> None:
        buffer = s.buffer
        if buffer.storage is ir.Storage.GLOBAL:
            self.unsupported("`global` storage inside a kernel is", s.span)
        if not is_shared(buffer):
            self._place_buffer(buffer)
        if buffer.zeroed and s.init is None:
            self.fill_buffer(buffer, ir.Const(0, buffer.dtype))

    def _place_buffer(self, buffer: ir.Buffer) -> None:
        size, name = byte_size(buffer), self.names.of(buffer)
        self.placed.add(id(buffer))
        if size is None:
            self.allocate(buffer, restrict=False)
            return
        lanes = self.resident.get(id(buffer))
        alignment = max(64, buffer.alignment)
        self.stack_bytes += size + alignment
        if lanes is not None:
            self.state.vectors.add((buffer.dtype, lanes))
            count = size // buffer.dtype.size // lanes
            self.line(f"{vector.vector_name(buffer.dtype, lanes)} {name}[{count}];")
            return
        self.line(f"alignas({alignment}) {ctype(buffer.dtype)} {name}[{max(1, size // buffer.dtype.size)}];")

    def while_loop(self, s: ir.While) -> None:
        if not polls(s):
            super().while_loop(s)
            return
        self._loops.append("")
        with self.block(f"while ({self.expressions.value(s.condition)})"):
            self.line(f"if (croq_stop(lane) || croq_pause(fiber)) {self.leave}")
            self.body(s.body)
        self._loops.pop()

    def end_instance(self, s: ir.Yield) -> None:
        if self._yields[-1]:
            super().end_instance(s)
            return
        for role, name in self.tables.meetings.items():
            if role.layer is self.where.layer:
                unit = self.tables.unit(self, role.layer, role.per_unit)
                quit_ = f"croq_quit(fiber, &{self.table(name, 'croq_meeting*')}[{unit}]);"
                self.line(f"if ({holds(self, role.conditions)}) {quit_}")
        self.line("return;")
