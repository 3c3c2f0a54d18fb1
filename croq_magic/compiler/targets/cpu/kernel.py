"""The block function of a launch: runs a range of blocks of the linearised grid."""

from __future__ import annotations

from collections.abc import Sequence

from croq_magic.compiler import integers, ir
from croq_magic.compiler.passes.accesses import Mode, of_statement
from croq_magic.compiler.targets.cpu import cost, vector
from croq_magic.compiler.targets.cpu.fiber_plan import FiberPlan, Where
from croq_magic.compiler.targets.cpu.fibers import FiberStatements
from croq_magic.compiler.targets.cpu.guards import ModuleState
from croq_magic.compiler.targets.cpu.loops import has_print
from croq_magic.compiler.targets.cpu.statements import Statements
from croq_magic.compiler.targets.cpu.storage import byte_size, is_shared, shared_buffers
from croq_magic.compiler.targets.emit_cxx import INDEX, TIMES, ctype
from croq_magic.compiler.visit import walk

THIN = 4000  # units of work below which a block is a mere loop iteration: rows of blocks become one inner loop
ROW_WORK = 1 << 18
# Larger block or instance storage, and what exceeds this in sum, comes from the thread's scratch memory.
STACK_BYTES, ALL_STACK_BYTES = 32 * 1024, 512 * 1024


class KernelFunction(FiberStatements):
    """The block function of one launch: runs a range of blocks of the linearised grid."""

    def __init__(self, state: ModuleState, host: Statements, kernel: ir.Kernel) -> None:
        plan = FiberPlan(kernel.region.body)
        super().__init__(state, host.names, "return;", 1, plan, Where(plan.block))
        self.kernel = kernel
        self.symbol = host.names.fresh(f"{kernel.name}_blocks")
        self.frame_type = host.names.fresh(f"{kernel.name}_frame")
        self.grid = [kernel.region]
        while self.grid[-1].level in (ir.Level.DEVICE, ir.Level.CLUSTER) and len(self.grid[-1].body) == 1:
            inner = self.grid[-1].body[0]
            if not isinstance(inner, ir.Region) or inner.fibers:
                break
            self.grid.append(inner)
        self.serial = has_print(kernel.region)
        pairs = [list(zip(region.indices, region.extents, strict=True)) for region in self.grid]
        if self.serial:  # prints appear by the linear index, whose first index is the fastest
            pairs = [level[::-1] for level in pairs]
        self.axes = [pair for level in pairs for pair in level]
        self.extents = [extent for _, extent in self.axes]
        self.scratch_bytes = 0
        self._stack_bytes = 0
        self._scratch: dict[int, int] = {}
        self._captured: dict[str, str] = {}  # C++ name -> declaration in the frame
        self.instance = list(host.instance)  # loops of the host part belong to the place of a failure

    def emit(self) -> None:
        body = self.grid[-1].body
        self.resident = vector.resident_buffers(body)
        for var, _ in self.axes:
            self.define(var)
        shared = shared_buffers(body)
        work = cost.body_cost(body)
        if self.plan.needed:
            self.read_only = _read_only(body)
        self.instance += [var for region in self.grid[:-1] for var in region.indices]
        sized = [buffer for buffer in shared if byte_size(buffer) is None]
        for buffer in sized:  # their extents are known when the launch starts: one piece for all blocks of a thread
            self._place_buffer(buffer)
        shared = [buffer for buffer in shared if buffer not in sized]
        if work < THIN and self.axes and not self.plan.needed:
            self._thin_blocks(body, work, shared)
        else:
            self._thick_blocks(body, shared)
        if any(isinstance(node, ir.Store) and node.streaming for node in walk(body)):
            self.line("croq_stream_end();")
        inner = self.lines
        self.lines, self.depth = [], 0
        with self.block(f"struct {self.frame_type}", "};"):
            for declaration in self._captured.values():
                self.line(f"{declaration};")
        with self.block(f"static void {self.symbol}(const void* frame, {INDEX} begin, {INDEX} end, croq_lane* lane)"):
            if self._captured:
                self.line(f"const {self.frame_type}& captured = *(const {self.frame_type}*)frame;")
            for name, declaration in self._captured.items():
                self.line(
                    f"const auto {name} = captured.{name};"
                    if "*" not in declaration
                    else f"{declaration} = captured.{name};"
                )
            if self.plan.needed:
                stack = max((f.stack_bytes for f in self.functions), default=0)
                self.line(f"croq_crew crew(lane, {stack}, {self.wait_site('deadlock', 'deadlock', None)});")
                self.line("croq_fiber* const fiber = &crew.main;")
            self.lines += inner
        own, self.lines = self.lines, []
        for function in self.functions:
            self.extend(function)
        self.lines += own
        self._place = None

    @property
    def frame_values(self) -> list[str]:
        return list(self._captured)

    # --------------------------------------------------------------------------------------------------- the grid

    def _coordinates(self, linear: str, axes: Sequence[tuple[ir.Var, ir.Expr]]) -> None:
        """Declares the indices of `axes` from a linear index whose last axis is the fastest."""
        wide = [position for position, (_, extent) in enumerate(axes) if integers.value(extent) != 1]
        divisor: list[str] = []
        values = dict.fromkeys(range(len(axes)), "0")
        for position in reversed(wide):
            size = self.expressions.index(axes[position][1], TIMES + 1)
            quotient = linear if not divisor else f"{linear} / {divisor[0]}"
            if len(divisor) > 1:
                quotient = f"{linear} / ({' * '.join(divisor)})"
            values[position] = quotient if position == wide[0] else f"{quotient} % {size}"
            divisor.append(size)
        for position, (var, _) in enumerate(axes):
            self.line(f"const {INDEX} {self.names.of(var)} = {values[position]};")

    def _thick_blocks(self, body: ir.Body, shared: Sequence[ir.Buffer]) -> None:
        with self.block(f"for ({INDEX} block_ = begin; block_ < end; ++block_)"):
            self.line(f"if (croq_stop(lane)) {self.leave}")
            self._coordinates("block_", self.axes)
            for buffer in shared:
                self._place_buffer(buffer)
            if self.plan.needed:
                self.tables.declare(self)
            with self.an_instance(self.grid[-1]):
                self.body(body)

    def _thin_blocks(self, body: ir.Body, work: int, shared: Sequence[ir.Buffer]) -> None:
        """Blocks that are single loop iterations: the last axis is an inner loop that the compiler can vectorise."""
        (last, extent), outer = self.axes[-1], self.axes[:-1]
        name, start, stop = self.names.of(last), self.names.fresh("row_begin"), self.names.fresh("row_end")
        size = self.expressions.index(extent, TIMES + 1)
        limit = max(64, ROW_WORK // max(1, work))
        with self.block(f"for ({INDEX} block_ = begin; block_ < end;)"):
            self.line(f"if (croq_stop(lane)) {self.leave}")
            if all(integers.value(e) == 1 for _, e in outer):
                self.line(f"const {INDEX} {start} = block_;")
                self._coordinates("0", outer)
            else:
                row = self.names.fresh("row")
                self.line(f"const {INDEX} {row} = block_ / {size}, {start} = block_ % {size};")
                self._coordinates(row, outer)
            most = f"croq_min<{INDEX}>(end - block_, {limit})"
            self.line(f"const {INDEX} {stop} = croq_min<{INDEX}>({start} + {most}, {size});")
            self.line(f"block_ += {stop} - {start};")
            head = f"for ({INDEX} {name} = {start}; {name} < {stop}; ++{name})"
            with self.block(head):
                for buffer in shared:
                    self._place_buffer(buffer)
                with self.an_instance(self.grid[-1]):
                    self.body(body)

    def region(self, s: ir.Region) -> None:
        if s.level is ir.Level.BLOCK and s.fibers is None:  # blocks below a cluster that has statements of its own
            for buffer in shared_buffers(s.body):
                self._place_buffer(buffer)
        super().region(s)

    # ---------------------------------------------------------------------------------------------------- storage

    def pointer(self, buffer: ir.Buffer) -> str:
        name = self.names.of(buffer)
        if buffer.storage is ir.Storage.GLOBAL:
            self._captured.setdefault(name, f"{ctype(buffer.dtype)}* CROQ_RESTRICT {name}")
        return name

    def variable(self, var: ir.Var) -> str:
        name = self.names.of(var)
        if var.name not in self.declared:  # dimensions, parameters, scalars and loop indices of the host part
            is_index = var.role in (ir.Role.DIM, ir.Role.LOOP, ir.Role.REGION)
            self._captured.setdefault(name, f"{INDEX if is_index else ctype(var.dtype)} {name}")
        return name

    def declare_storage(self, s: ir.Declare) -> None:
        if s.buffer.storage is ir.Storage.GLOBAL:
            self.unsupported("`global` storage inside a kernel is", s.span)
        if not is_shared(s.buffer):
            self._place_buffer(s.buffer)
        if s.buffer.zeroed and s.init is None:
            self.fill_buffer(s.buffer, ir.Const(0, s.buffer.dtype))

    def _place_buffer(self, buffer: ir.Buffer) -> None:
        """Block and instance storage: an array on the stack, or a part of the thread's scratch memory if large."""
        size, c, name = byte_size(buffer), ctype(buffer.dtype), self.names.of(buffer)
        lanes = self.resident.get(id(buffer))
        if lanes is not None and size is not None:
            self.state.vectors.add((buffer.dtype, lanes))
            count = size // buffer.dtype.size // lanes
            self.line(f"{vector.vector_name(buffer.dtype, lanes)} {name}[{count}];")
            return
        if size is None:
            self.allocate(buffer)
            return
        alignment = max(64, buffer.alignment)
        if size <= STACK_BYTES and self._stack_bytes + size <= ALL_STACK_BYTES:
            self._stack_bytes += size
            self.line(f"alignas({alignment}) {c} {name}[{max(1, size // buffer.dtype.size)}];")
            return
        offset = self._scratch.get(id(buffer))
        if offset is None:
            offset = -(-self.scratch_bytes // 128) * 128
            self._scratch[id(buffer)] = offset
            self.scratch_bytes = offset + size
        self.line(f"{c}* CROQ_RESTRICT {name} = ({c}*)__builtin_assume_aligned(lane->scratch + {offset}, 128);")


def _read_only(body: ir.Body) -> frozenset[ir.Buffer]:
    """Buffers that a kernel never writes, as far as its statements tell."""
    nodes = list(walk(body))
    if any(isinstance(n, (ir.CxxText, ir.Asm)) for n in nodes):
        return frozenset()
    touched = {access.buffer: False for n in nodes if isinstance(n, ir.Stmt) for access in of_statement(n)}
    for n in nodes:
        if isinstance(n, ir.Stmt):
            touched |= {access.buffer: True for access in of_statement(n) if access.mode is not Mode.READ}
    return frozenset(buffer for buffer, written in touched.items() if not written)
