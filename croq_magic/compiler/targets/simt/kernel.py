"""One launch as a kernel: its parameters, its storage, and the coordinates of blocks and threads."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterable, Sequence

from croq_magic.compiler import integers, ir
from croq_magic.compiler.passes.accesses import written_buffers
from croq_magic.compiler.passes.place_shared import byte_size, place_shared
from croq_magic.compiler.passes.structure import nested
from croq_magic.compiler.targets.emit_cxx import TIMES, Names
from croq_magic.compiler.targets.simt.dialect import Space
from croq_magic.compiler.targets.simt.emission import KernelArgument, SimtKernel
from croq_magic.compiler.targets.simt.events import Events
from croq_magic.compiler.targets.simt.groups import pending_groups
from croq_magic.compiler.targets.simt.guards import REPORT, ModuleState
from croq_magic.compiler.targets.simt.index_limits import IndexLimits
from croq_magic.compiler.targets.simt.overflow import watched
from croq_magic.compiler.targets.simt.parties import Axes
from croq_magic.compiler.targets.simt.storage import (
    ALIGNMENT,
    SWIZZLED,
    alignment_of,
    element_count,
    register_dims,
    shared_layout,
)
from croq_magic.compiler.targets.simt.threads import grid_chain, threads_of
from croq_magic.compiler.types import S32, S64, DType
from croq_magic.compiler.visit import children, walk

Level = ir.Level
Extents = tuple[ir.Expr, ir.Expr, ir.Expr]
BODY, WIDE_FORM = "_body", "_wide"  # behind a kernel's name: the function of open extents, the kernel of 64 bits
COUNTER = "croq_counter"
ARENA = "croq_shared"
INDEX = "croq_index"  # the type of extents that is left open
_AXES = 3
_MAX_GRID = 65535  # blocks along y and z
_NAMELESS = (ir.Store, ir.Assign, ir.If, ir.For, ir.While, ir.Barrier, ir.Fence)
_RESERVED = ("thread", REPORT, COUNTER, ARENA, INDEX)


class KernelEmitter(Events):
    """Emits the kernel of one launch. `emit` returns what a launch of it needs."""

    def __init__(self, state: ModuleState, launch: ir.Launch, symbol: str, reserved: Iterable[str]) -> None:
        self.grid = grid_chain(launch.kernel.region)
        self.block_region = self.grid[-1]
        self.extents_open = state.dialect.templates and any(
            isinstance(n, ir.Var) and n.role is ir.Role.DIM for n in walk(launch.kernel.region)
        )
        if self.extents_open:
            state = ModuleState(state.dialect.with_index(INDEX), state.checks)
        super().__init__(state, Names({*reserved, *_RESERVED, *state.dialect.keywords}), threads_of(self.grid[-1]))
        if self.extents_open:
            self.expressions.limits = IndexLimits()
        self.launch = launch
        self.symbol = symbol
        self.root = launch.kernel.region
        self.taken = {n.name for n in walk(self.root) if isinstance(n, (ir.Var, ir.Buffer))}  # names of the IR
        self.cooperative = self.block_region.attributes.cooperative
        self.declared: set[str] = set()
        self.read: set[str] = set()  # variables that the text uses
        self.same: set[str] = set()  # those that are the number of the thread
        self.register_dims = register_dims(self.root)
        self.arguments: dict[str, KernelArgument] = {}
        self.uses_counter = False
        self.written = written_buffers(list(walk(self.root)))
        self.watched = watched(self.root)
        self.layout = shared_layout(
            self.block_region, place_shared(self.block_region), self.dialect.static_shared_bytes
        )
        self.slots: list[str] = []  # definitions of results that one thread hands to the others
        self.waits = pending_groups(self.block_region, self.is_pending, self.arrivals.triggers)
        self._ends: list[str] = []

    def emit(self) -> tuple[SimtKernel, ...]:
        """The kernel; behind its wide form where it has one."""
        self.instance = [var for region in self.grid for var in region.indices]
        for var in self.instance:
            self.define(var)
        self._open(self.block_region, [])
        body, self.lines = self.lines, []
        self._place = None
        grid = self._grid()
        head, self.lines = self.lines, []
        events = self.event_definitions()
        prologue = [*self._thread_number(), *head, *self._shared(), *events]
        arguments = self._all_arguments()
        dynamic, declaration = ("", "")
        if self.layout.dynamic:
            dynamic, declaration = self.dialect.dynamic_shared(ARENA, self._alignment())
        self.depth = 0
        self._place = None
        self.at(self.launch.span)
        text = [*([f"  {declaration}"] if declaration else []), *prologue, *body, *self.event_endings(), "}"]
        kernel = self._kernel(self.symbol, arguments, grid)
        limits = self.expressions.limits
        if limits is None or not (_extents(arguments) or any(INDEX in line for line in text)):
            self.line(self._head(kernel, [*map(self._parameter, arguments), *([dynamic] if dynamic else [])]) + " {")
            self.lines += text
            return (kernel,)
        name = f"{self.symbol}{BODY}"
        self.lines += self.dialect.function_head(name, list(map(self._parameter, arguments)), INDEX).split("\n")
        self.lines[-1] += " {"
        self.lines += text
        return self._entries(kernel, name, limits)

    def _kernel(self, symbol: str, arguments: tuple[KernelArgument, ...], grid: Extents) -> SimtKernel:
        together = self.cooperative or bool(self.far)
        total = self.layout.total if self.layout.dynamic else integers.ZERO
        cluster = (self.cluster_size, 1, 1) if self.cluster_size > 1 else ()
        return SimtKernel(symbol, self.launch, arguments, grid, self.threads.block, total, together, cluster)

    def _head(self, kernel: SimtKernel, parameters: list[str]) -> str:
        shape = tuple(integers.value(extent) or 0 for extent in self.threads.block)
        attributes = self.block_region.attributes
        count = self.threads.count or 0
        return self.dialect.kernel_head(kernel.symbol, parameters, count, attributes, shape, self.cluster_size)

    def _entries(self, kernel: SimtKernel, name: str, limits: IndexLimits) -> tuple[SimtKernel, ...]:
        """Kernels of a function whose type of extents is open: one for extents that 32 bits hold, one for all."""
        fits = limits.condition()
        kinds: list[tuple[str, str, DType]] = [("", "int", S32), (WIDE_FORM, "int64_t", S64)]
        kinds = kinds[1:] if not limits.possible else kinds[:1] if fits is ir.TRUE else kinds
        found: list[SimtKernel] = []
        for suffix, index, dtype in kinds:
            arguments = tuple(
                dataclasses.replace(a, dtype=dtype) if a in _extents(kernel.arguments) else a for a in kernel.arguments
            )
            symbol = kernel.symbol + (suffix if len(kinds) > 1 else "")
            found.append(dataclasses.replace(kernel, symbol=symbol, arguments=arguments))
            parameters = [self._parameter(a, index) for a in arguments]
            self.lines += ["", self._head(found[-1], parameters) + " {"]
            self.lines.append(f"  {name}<{index}>({', '.join(a.name for a in arguments)});")
            self.lines.append("}")
        if len(found) == 1:
            return tuple(found)
        narrow, wide = found
        return wide, dataclasses.replace(narrow, wide=wide, fits=fits)

    # --------------------------------------------------------------------------------------------------- parameters

    def pointer(self, buffer: ir.Buffer) -> str:
        name = self.names.of(buffer)
        if buffer.storage is ir.Storage.GLOBAL:
            written = buffer in self.written
            self.arguments.setdefault(name, KernelArgument(name, "buffer", buffer.dtype, buffer, written))
        return name

    def variable(self, var: ir.Var) -> str:
        name = self.names.of(var)
        self.read.add(var.name)
        if var.name not in self.declared:  # dimensions, parameters, scalars and loop indices of the host part
            dtype = S64 if var.role is ir.Role.DIM else var.dtype
            if self.expressions.limits is not None and var.role is ir.Role.DIM:
                self.expressions.limits.admit(var)
            self.arguments.setdefault(name, KernelArgument(name, "scalar", dtype, var))
        return name

    def define(self, var: ir.Var) -> None:
        self.declared.add(var.name)

    def is_defined(self, var: ir.Var) -> bool:
        return var.name in self.declared

    def _all_arguments(self) -> tuple[KernelArgument, ...]:
        found = sorted(self.arguments.values(), key=lambda a: a.kind != "buffer")
        found += self.far.values()
        if self.uses_counter:
            found.append(KernelArgument(COUNTER, "counter", written=True))
        if self.reports:
            found.append(KernelArgument(REPORT, "report", written=True))
        return tuple(found)

    def _parameter(self, a: KernelArgument, index: str = INDEX) -> str:
        if a.kind == "report":
            return self.dialect.report_parameter(REPORT)
        if a.kind == "counter":
            return self.dialect.counter_parameter(a.name)
        if a.kind == "buffer":
            assert a.dtype is not None
            return self.dialect.buffer_parameter(a.dtype, a.name, not a.written, True)
        if self.extents_open and isinstance(a.node, ir.Var) and a.node.role is ir.Role.DIM:
            return f"{index} {a.name}"
        return self.dialect.scalar_parameter(a.dtype, a.name)

    # ---------------------------------------------------------------------------------------------------- the grid

    def grid_axes(self) -> Axes:
        return [pair for region in self.grid for pair in zip(region.indices, region.extents, strict=True)]

    def cluster_axes(self) -> Axes:
        return list(zip(self.block_region.indices, self.block_region.extents, strict=True))

    @property
    def cluster_size(self) -> int:
        """Blocks of a cluster, which are neighbours along x: the grid of more than one level is linear, the block's
        indices the fastest."""
        inside = any(region.level is Level.CLUSTER for region in self.grid)
        size = integers.value(integers.product(extent for _, extent in self.cluster_axes())) if inside else None
        return size if size is not None and size <= self.dialect.cluster_blocks else 0

    def _grid(self) -> tuple[ir.Expr, ir.Expr, ir.Expr]:
        """Declares the indices of the grid and returns its extents."""
        axes = [pair for region in reversed(self.grid) for pair in zip(region.indices, region.extents, strict=True)]
        used = self.read
        levels = [region for region in self.grid if region.indices and region.level is not Level.DEVICE]
        small = all((integers.value(extent) or _MAX_GRID + 1) <= _MAX_GRID for _, extent in axes[1:])
        if len(levels) <= 1 and len(axes) <= _AXES and small:
            for axis, (var, extent) in enumerate(axes):
                if var.name in used:
                    text = "0" if integers.value(extent) == 1 else self.dialect.block_index(axis)
                    self.line(f"const int {self.names.of(var)} = {text};")
            extents = (*(extent for _, extent in axes), integers.ONE, integers.ONE, integers.ONE)
            return extents[0], extents[1], extents[2]
        self._decode(self.dialect.block_index(0), axes, used, whole=True)
        return integers.product(extent for _, extent in axes), integers.ONE, integers.ONE

    def _decode(
        self,
        linear: str,
        axes: list[tuple[ir.Var, ir.Expr]],
        used: set[str],
        whole: bool,
        stride: ir.Expr = integers.ONE,
    ) -> None:
        """Declares indices from a linear number, the first fastest; `whole`: the last takes all that is left."""
        for position, (var, extent) in enumerate(axes):
            if var.name in used:
                text = linear
                if integers.value(stride) != 1:
                    text += f" / {self.expressions.index(stride, TIMES + 1)}"
                last = position == len(axes) - 1 or all(integers.value(e) == 1 for _, e in axes[position + 1 :])
                if not (last and whole):
                    text += f" % {self.expressions.index(extent, TIMES + 1)}"
                self.line(f"const int {self.names.of(var)} = {'0' if integers.value(extent) == 1 else text};")
            stride = integers.mul(stride, extent)

    # -------------------------------------------------------------------------------------------------- the threads

    def _thread_number(self) -> list[str]:
        if not self.uses_thread:
            return []
        d = self.dialect
        x, y, z = (integers.value(extent) for extent in self.threads.block)
        text = d.thread_index(0)
        if z != 1 or y != 1:
            width = self.expressions.index(self.threads.block[0], TIMES + 1)
            rest = d.thread_index(1)
            if z != 1:
                height = self.expressions.index(self.threads.block[1], TIMES + 1)
                rest = f"({rest} + {height} * {d.thread_index(2)})"
            text = f"{text} + {width} * {rest}" if x != 1 else rest
        return [f"  const int thread = {text};"]

    def region(self, s: ir.Region) -> None:
        if not s.body:  # it only says how many threads there are
            return
        if self._counts_threads(s):
            self.names.adopt(s.indices[0], "thread")
            self.same.add(s.indices[0].name)
        with contextlib.nullcontext() if self.is_last or self._declares_nothing(s) else self.block():
            self.chain.append(s)
            around = list(self.instance)
            self.instance += s.indices
            for var in s.indices:
                self.define(var)
            outside, self.lines = self.lines, []
            self.forget_place()  # lines will be put before the body
            conditions, self.conditions = self.conditions, list(self.conditions)
            self._open(s, self._spare())
            self.conditions = conditions
            body, self.lines = self.lines, outside
            place = self._place
            self._coordinates(s)
            self._place = place
            self.lines += body
            self.instance = around
            self.chain.pop()

    def _declares_nothing(self, s: ir.Region) -> bool:
        """Whether the text of a region has no names of its own: those of its indices, or of scalars and storage."""
        if not all(isinstance(each, _NAMELESS) for each in s.body) or self._spare():
            return False
        names = {var.name for var in s.indices} - self.same

        def needed(node: ir.Node | tuple[ir.Node, ...]) -> bool:
            if isinstance(node, tuple):
                return any(map(needed, node))
            if isinstance(node, (ir.Load, ir.Store)) and node.view.buffer.storage is ir.Storage.REGISTER:
                own = node.index[self.register_dims.get(id(node.view.buffer), 0) :]
                return needed((*own, node.value) if isinstance(node, ir.Store) else own)
            return (isinstance(node, ir.Var) and node.name in names) or any(map(needed, children(node)))

        return not needed(s.body)

    def _coordinates(self, s: ir.Region) -> None:
        """Declares those indices of a region that its text uses."""
        axes = list(zip(s.indices, s.extents, strict=True))
        if s.indices and s.indices[0].name in self.same:
            self.uses_thread = self.uses_thread or s.indices[0].name in self.read
        elif self.threads.axes:
            for axis, (var, extent) in enumerate(axes):
                if var.name in self.read:
                    text = "0" if integers.value(extent) == 1 else self.dialect.thread_index(axis)
                    self.line(f"const int {self.names.of(var)} = {text};")
        elif any(var.name in self.read for var, _ in axes):
            self._decode(self.thread, axes, self.read, _alone(self.chain[:-1]), self.unit_size)

    def _counts_threads(self, s: ir.Region) -> bool:
        """Whether the index of a region that a pass made is the number of the thread in its block."""
        made = s.implied and s.level is Level.THREAD and len(s.indices) == 1
        return made and not self.threads.axes and not self.single and _alone(self.chain)

    def _spare(self) -> list[str]:
        """The condition that leaves out threads that a region has no instances for."""
        needed: ir.Expr = integers.ONE
        for region in self.chain:
            needed = integers.mul(needed, integers.product(region.extents))
        needed = integers.mul(needed, self.unit_size if self.level is not Level.THREAD else integers.ONE)
        if integers.equal(needed, self.threads.total):
            return []
        return [f"if ({self.thread} < {self.expressions.index(needed)})"]

    def _open(self, s: ir.Region, guards: list[str]) -> None:
        """The body of an instance; `yield` jumps behind it."""
        yields = any(isinstance(n, ir.Yield) for n in nested(s.body))
        label = self.names.fresh("end_of_instance") if yields else ""
        if yields and self._is_last(s) and not self.spread:
            label = "return"
        self._ends.append(label)
        with self.nest(guards):
            if yields and label != "return":
                with self.block():
                    self.body(s.body)
                self.label(f"{label}:;")
            else:
                self.body(s.body)
        self._ends.pop()

    def _is_last(self, s: ir.Region) -> bool:
        """Whether nothing follows a region in the kernel."""
        place: ir.Stmt = self.block_region
        while place is not s:
            body = place.body if isinstance(place, ir.Region) else ()
            if not body or not isinstance(body[-1], ir.Region):
                return False
            place = body[-1]
        return True

    def finish_instance(self) -> None:
        label = self._ends[-1]
        self.line("return;" if label == "return" else f"goto {label};")

    def cluster_barrier(self) -> None:
        if not self.cluster_size:
            raise self.unsupported("a barrier of the blocks of a cluster that the device does not have is", None)
        self.meet(self.dialect.cluster_barrier())

    def grid_barrier(self) -> None:
        self.uses_counter = True
        blocks = " * ".join(self.dialect.grid_extent(axis) for axis in range(_AXES))
        self.line(self.dialect.grid_barrier(COUNTER, blocks))

    # ---------------------------------------------------------------------------------------------------- storage

    def declare_storage(self, s: ir.Declare) -> None:
        b = s.buffer
        if b.storage is ir.Storage.GLOBAL:
            raise self.unsupported("`global` storage inside a kernel is", s.span)
        if b.storage is ir.Storage.SHARED:
            return
        skipped = self.register_dims.get(id(b), 0)
        count = element_count(b, skipped)
        if count is None:
            raise self.unsupported(f"`{b.name}`: storage of a thread of symbolic size is", b.span)
        name = self.names.of(b)
        if b.storage is ir.Storage.REGISTER and count == 1:
            self.line(f"{self.dialect.ctype(b.dtype)} {name};")
        else:
            self.line(self.dialect.private_array(b.dtype, name, max(1, count)))

    def register(self, view: ir.View, index: tuple[ir.Expr, ...]) -> str | None:
        """An element of a `REGISTER` buffer: a thread has those whose leading indices are its own."""
        b = view.buffer
        if b.storage is not ir.Storage.REGISTER:
            return None
        skipped = self.register_dims.get(id(b), 0)
        name = self.names.of(b)
        if element_count(b, skipped) == 1:
            return name
        offset: ir.Expr = integers.ZERO
        for extent, place in zip(b.shape[skipped:], index[skipped:], strict=True):
            offset = integers.add(integers.mul(offset, extent), place)
        return f"{name}[{self.expressions.index(offset)}]"

    def _alignment(self) -> int:
        return max((alignment_of(b) for b in self.layout.buffers), default=ALIGNMENT)

    def _shared(self) -> list[str]:
        """Definitions of the block's memory."""
        d, layout = self.dialect, self.layout
        lines: list[str] = []
        if layout.arena and not layout.dynamic:
            lines.append(d.shared_array(None, ARENA, integers.value(layout.total) or 0, self._alignment()))
        for buffer in layout.buffers:
            name = self.names.of(buffer)
            if not layout.arena:
                size = byte_size(buffer) or buffer.dtype.size
                alignment = SWIZZLED if buffer.layout else ALIGNMENT
                lines.append(d.shared_array(buffer.dtype, name, max(1, size // buffer.dtype.size), alignment))
                continue
            pointer = d.pointer_type(buffer.dtype, Space.SHARED)
            offset = self.expressions.index(layout.offsets[id(buffer)], 13)
            start = ARENA if offset == "0" else f"({ARENA} + {offset})"
            lines.append(f"{pointer} const {name} = ({pointer}){start};")
        lines += self.slots
        return ["  " + line for line in lines]

    def shared_slot(self, var: ir.Var) -> str:
        units = 1
        size = integers.value(self.unit_size)
        if self.level is not Level.BLOCK and size and self.threads.count:
            units = self.threads.count // size
        name = self.names.fresh(f"{var.name}_shared")
        self.slots.append(self.dialect.shared_array(var.dtype, name, units, 16))
        return f"{name}[{self.thread} / {size}]" if units > 1 else f"{name}[0]"

    def pending_groups(self, s: ir.Wait | ir.Trigger) -> int | None:
        return self.waits.get(id(s))


def _alone(chain: Sequence[ir.Region]) -> bool:
    """Whether regions have one instance each."""
    return all(integers.value(extent) == 1 for region in chain for extent in region.extents)


def _extents(arguments: tuple[KernelArgument, ...]) -> list[KernelArgument]:
    """Those arguments that are symbolic extents."""
    return [a for a in arguments if isinstance(a.node, ir.Var) and a.node.role is ir.Role.DIM]
