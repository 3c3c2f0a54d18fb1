"""C++ for a program: one entry per tileflow function, one block function per launch.

An entry takes an array of 8-byte words: per parameter a pointer or a scalar's bits, then the symbolic dimensions, then
the address of the result (an array of zeros, or room for a scalar).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from croq_magic.compiler import integers, ir, views
from croq_magic.compiler.source import Source, Span
from croq_magic.compiler.targets.cpu import copies, cost, vector
from croq_magic.compiler.targets.cpu.checks import CheckSite
from croq_magic.compiler.targets.cpu.statements import STACK_BYTES, ModuleState, Statements, has_print
from croq_magic.compiler.targets.cpu.verbatim import macros
from croq_magic.compiler.targets.cpu.writer import Writer
from croq_magic.compiler.targets.emit_cxx import INDEX, Names, ctype
from croq_magic.compiler.visit import walk

THIN = 4000  # units of work below which a block is a mere loop iteration: rows of blocks become one inner loop
ROW_WORK = 1 << 18


@dataclasses.dataclass(frozen=True)
class EntryPoint:
    """How to call one function.

    `kinds` has one letter per parameter: "a" array, "i" integer or truth value, "f" f32, "d" f64, "h" f16, "b" bf16,
    "-" stream; `dims` names the symbolic dimensions; `result` is the NumPy name of the element type of what is
    returned, None for nothing.
    """

    function: str
    symbol: str
    kinds: str
    dims: tuple[str, ...]
    result: str | None

    @property
    def params(self) -> int:
        return len(self.kinds)


@dataclasses.dataclass(frozen=True)
class Emitted:
    """A module's text, its entries, its run-time checks, and the parts of the cell that it contains unchanged."""

    text: str
    entries: tuple[EntryPoint, ...]
    checks: tuple[CheckSite, ...]
    source: Source | None = None
    verbatim: tuple[Span, ...] = ()


def emit_module(
    functions: Sequence[ir.Function], verbatim: Sequence[Span] = (), source: Source | None = None
) -> Emitted:
    """C++ for tileflow functions (after the target's passes) and the C++ text of the cell they call.

    Raises `emit_cxx.Unsupported` for a construct this target cannot express.
    """
    state = ModuleState()
    out = Writer()
    out.line('#include "croq_cpu.h"')
    if any(isinstance(node, ir.Builtin) for function in functions for node in walk(function.body)):
        out.line('#include "croq_math.h"')
    if verbatim:
        out.line('#include "croq_device.h"')
    for piece in verbatim:
        out.at(piece)
        out.verbatim(" " * (piece.column - 1) + piece.text)  # columns stay those of the cell
    if verbatim:
        out.verbatim('#line 1 "generated"')
        if not any(isinstance(node, ir.CxxText) for function in functions for node in walk(function.body)):
            for name in macros(tuple(verbatim)):  # a macro must not rewrite generated text
                out.line(f"#undef {name}")
    out.line('extern "C" CROQ_EXPORT void croq_attach(const croq_runtime* table) { croq_rt = table; }')
    out.line()
    out.line("namespace croq_cell {")
    typedefs = len(out.lines)
    entries = []
    for function in functions:
        emitter = HostFunction(state, function)
        emitter.emit()
        out.extend(emitter)
        entries.append(emitter.entry)
    out.line("}  // namespace croq_cell")
    out.lines[typedefs:typedefs] = vector.typedefs(state.vectors)
    return Emitted(out.text(), tuple(entries), tuple(state.checks), source, tuple(verbatim))


def _kind(param: ir.Param) -> str:
    if param.kind == "span":
        return "a"
    if param.kind == "stream" or param.dtype is None:
        return "-"
    if param.dtype.is_float:
        return {"f32": "f", "tf32": "f", "f64": "d", "f16": "h", "bf16": "b"}[param.dtype.name]
    return "i"


def _called(function: ir.Function) -> set[str]:
    """Names of foreign functions: a variable of that name would hide them."""
    return {node.function.split("::")[0] for node in walk(function.body) if isinstance(node, ir.Call)}


def byte_size(buffer: ir.Buffer) -> int | None:
    """Bytes of all slots of a buffer, None when an extent is not constant."""
    total = buffer.dtype.size
    for extent in buffer.shape:
        value = integers.value(extent)
        if value is None:
            return None
        total *= value
    for slots in buffer.slots:
        total *= slots
    return total


def element_count(buffer: ir.Buffer) -> ir.Expr:
    return integers.mul(integers.product(buffer.shape), integers.product(map(integers.constant, buffer.slots)))


class HostFunction(Statements):
    """The host body of one tileflow function; the kernels it launches are written before it."""

    def __init__(self, state: ModuleState, function: ir.Function) -> None:
        super().__init__(state, Names(_called(function)), "return CROQ_INTERRUPTED;", 1)
        self.function = function
        self.kernels: list[Writer] = []
        self.entry = EntryPoint(
            function.name,
            f"croq_entry_{function.name}",
            "".join(map(_kind, function.params)),
            tuple(dim.name for dim in function.dims),
            function.result.dtype.numpy if function.result is not None else None,
        )
        self.in_result = _result_buffer(function)
        self._nesting = 0

    def emit(self) -> None:
        words = iter(range(len(self.function.params) + len(self.function.dims)))
        head: list[str] = []
        for param in self.function.params:
            word = next(words)
            if param.buffer is not None:
                c = ctype(param.buffer.dtype)
                head.append(f"{c}* CROQ_RESTRICT {self.names.of(param.buffer)} = ({c}*)words[{word}];")
            elif param.var is not None:
                self.define(param.var)
                c = ctype(param.var.dtype)
                head.append(f"const {c} {self.names.of(param.var)} = croq_load<{c}>(words, {word});")
        for dim in self.function.dims:
            head.append(f"const {INDEX} {self.names.of(dim)} = words[{next(words)}];")
        self.result_word = f"words[{len(self.function.params) + len(self.function.dims)}]"
        for line in head:
            self.line(line)
        self.body(self.function.body)
        if not self.function.body or not isinstance(self.function.body[-1], ir.Return):
            self.line("return CROQ_OK;")
        inner = self.lines
        self.lines, self.depth = [], 0
        for kernel in self.kernels:
            self.extend(kernel)
            self.line()
        self.line(f'extern "C" CROQ_EXPORT int32_t {self.entry.symbol}(croq_lane* lane, const int64_t* words) {{')
        self.lines += inner
        self.lines.append("}")
        self.line()

    def body(self, statements: ir.Body) -> None:
        self._nesting += 1
        super().body(statements)
        self._nesting -= 1

    def declare_storage(self, s: ir.Declare) -> None:
        buffer, c, name = s.buffer, ctype(s.buffer.dtype), self.names.of(s.buffer)
        if buffer is self.in_result:
            self.line(f"{c}* CROQ_RESTRICT {name} = ({c}*){self.result_word};")
            return
        bytes_ = self.expressions.index(integers.mul(element_count(buffer), integers.constant(buffer.dtype.size)))
        owner = self.names.fresh(f"{name}_storage")
        self.line(f"croq_storage {owner}(lane, {bytes_});")
        self.line(f"{c}* CROQ_RESTRICT {name} = ({c}*){owner}.data;")
        self.line(f"if (!{name}) return CROQ_MEMORY;")

    def finish(self, s: ir.Return) -> None:
        if isinstance(s.value, ir.View):
            if s.value.buffer is not self.in_result:
                result = ir.Buffer("result", s.value.buffer.dtype, ir.Storage.GLOBAL, s.value.extents)
                with self.block():
                    c = ctype(result.dtype)
                    self.line(f"{c}* CROQ_RESTRICT {self.names.of(result)} = ({c}*){self.result_word};")
                    copies.emit_copy(self, ir.Copy(s.value, views.whole(result), span=s.span))
        elif s.value is not None:
            assert self.function.result is not None
            dtype = self.function.result.dtype
            value = self.expressions.value(s.value)
            if s.value.dtype is not dtype:
                value = self.expressions.cast(value, s.value.dtype, dtype)
            self.line(f"*({ctype(dtype)}*){self.result_word} = {value};")
        self.line("return CROQ_OK;")

    def launch(self, s: ir.Launch) -> None:
        kernel = KernelFunction(self.state, self, s.kernel)
        kernel.emit()
        self.kernels.append(kernel)
        site = self.names.fresh("site")
        with self.block():
            self.line(f"static croq_site {site};")
            fields = ", ".join(kernel.frame_values)
            self.line(f"const {kernel.frame_type} captured = {{{fields}}};")
            blocks = self.expressions.index(integers.product(kernel.extents))
            flags = "CROQ_SERIAL" if kernel.serial else "0"
            call = (
                f"croq_rt->launch(lane, &{site}, {kernel.symbol}, &captured, {blocks}, {kernel.scratch_bytes}, {flags})"
            )
            self.line(f"if (const int32_t code = {call}) return code;")

    def region(self, s: ir.Region) -> None:
        self.unsupported("a `parallel` outside a launch is", s.span)


def _result_buffer(function: ir.Function) -> ir.Buffer | None:
    """The declared buffer that can live in the caller's result array: returned whole by every `return`, and declared
    once, outside loops, before anything could have been returned."""
    returns = [node for node in walk(function.body) if isinstance(node, ir.Return)]
    buffers = {id(r.value.buffer): r.value.buffer for r in returns if isinstance(r.value, ir.View)}
    if len(buffers) != 1:
        return None
    buffer = next(iter(buffers.values()))
    declared = any(isinstance(s, ir.Declare) and s.buffer is buffer for s in function.body)
    whole = all(
        isinstance(r.value, ir.View)
        and not r.value.slot
        and r.value.contiguous
        and len(r.value.extents) == len(buffer.shape)
        and all(integers.equal(a, b) for a, b in zip(r.value.extents, buffer.shape, strict=True))
        for r in returns
    )
    return buffer if declared and whole and not buffer.slots else None


class KernelFunction(Statements):
    """The block function of one launch: runs a range of blocks of the linearised grid."""

    def __init__(self, state: ModuleState, host: HostFunction, kernel: ir.Kernel) -> None:
        super().__init__(state, host.names, "return;", 1)
        self.host = host
        self.kernel = kernel
        self.symbol = host.names.fresh(f"{kernel.name}_blocks")
        self.frame_type = host.names.fresh(f"{kernel.name}_frame")
        self.grid = [kernel.region]
        while self.grid[-1].level in (ir.Level.DEVICE, ir.Level.CLUSTER) and len(self.grid[-1].body) == 1:
            inner = self.grid[-1].body[0]
            if not isinstance(inner, ir.Region):
                break
            self.grid.append(inner)
        self.serial = has_print(kernel.region)
        pairs = [list(zip(region.indices, region.extents, strict=True)) for region in self.grid]
        if self.serial:  # prints appear by the linear index, whose first index is the fastest
            pairs = [level[::-1] for level in pairs]
        self.axes = [pair for level in pairs for pair in level]
        self.extents = [extent for _, extent in self.axes]
        self.scratch_bytes = 0
        self._scratch: dict[int, int] = {}
        self._captured: dict[str, str] = {}  # C++ name -> declaration in the frame
        self._host_declared = set(host.declared)

    def emit(self) -> None:
        body = self.grid[-1].body
        self.resident = vector.resident_buffers(body)
        for var, _ in self.axes:
            self.define(var)
        shared = [node.buffer for node in walk(body) if isinstance(node, ir.Declare) and _is_shared(node.buffer)]
        work = cost.body_cost(body)
        self.instance += [var for region in self.grid[:-1] for var in region.indices]
        if work < THIN and not shared and self.axes:
            self._thin_blocks(body, work)
        else:
            self._thick_blocks(body, shared)
        inner = self.lines
        self.lines, self.depth = [], 0
        with self.block(f"struct {self.frame_type}", "};"):
            for declaration in self._captured.values():
                self.line(f"{declaration};")
        with self.block(
            f"static void {self.symbol}(const void* frame, {INDEX} begin, {INDEX} end, croq_lane* lane)"
        ):
            if self._captured:
                self.line(f"const {self.frame_type}& captured = *(const {self.frame_type}*)frame;")
            for name, declaration in self._captured.items():
                self.line(f"const auto {name} = captured.{name};" if "*" not in declaration
                          else f"{declaration} = captured.{name};")
            self.lines += inner
        self._place = None

    @property
    def frame_values(self) -> list[str]:
        return list(self._captured)

    # --------------------------------------------------------------------------------------------------- the grid

    def _thick_blocks(self, body: ir.Body, shared: Sequence[ir.Buffer]) -> None:
        with self.block(f"for ({INDEX} block_ = begin; block_ < end; ++block_)"):
            self.line(f"if (croq_stop(lane)) {self.leave}")
            rest = "block_"
            stride = ""
            for position in range(len(self.axes) - 1, -1, -1):
                var, extent = self.axes[position]
                size = self.expressions.index(extent, 15)
                quotient = f"block_ / {stride}" if stride else rest
                if integers.value(extent) == 1:
                    value = "0"
                elif position == 0 or all(integers.value(e) == 1 for _, e in self.axes[:position]):
                    value = quotient
                else:
                    value = f"{quotient} % {size}"
                self.line(f"const {INDEX} {self.names.of(var)} = {value};")
                if integers.value(extent) != 1:
                    stride = f"({stride[1:-1]} * {size})" if stride.startswith("(") else (
                        f"({stride} * {size})" if stride else size)
            for buffer in shared:
                self._place_buffer(buffer)
            with self.an_instance(self.grid[-1]):
                self.body(body)

    def _thin_blocks(self, body: ir.Body, work: int) -> None:
        """Blocks that are single loop iterations: the last axis is an inner loop that the compiler can vectorise."""
        (last, extent), outer = self.axes[-1], self.axes[:-1]
        name, stop = self.names.of(last), self.names.fresh("row_end")
        size = self.expressions.index(extent, 15)
        limit = max(64, ROW_WORK // max(1, work))
        one_row = all(integers.value(e) == 1 for _, e in outer)
        with self.block(f"for ({INDEX} block_ = begin; block_ < end;)"):
            self.line(f"if (croq_stop(lane)) {self.leave}")
            row = self.names.fresh("row")
            start = self.names.fresh("row_begin")
            if one_row:
                self.line(f"const {INDEX} {start} = block_;")
            else:
                self.line(f"const {INDEX} {row} = block_ / {size}, {start} = block_ % {size};")
            self.line(
                f"const {INDEX} {stop} = croq_min<{INDEX}>({start} + croq_min<{INDEX}>(end - block_, {limit}), {size});"
            )
            self.line(f"block_ += {stop} - {start};")
            stride = ""
            for position in range(len(outer) - 1, -1, -1):
                var, e = outer[position]
                axis = self.expressions.index(e, 15)
                quotient = f"{row} / {stride}" if stride else row
                value = "0" if integers.value(e) == 1 else quotient if position == 0 else f"{quotient} % {axis}"
                self.line(f"const {INDEX} {self.names.of(var)} = {value};")
                if integers.value(e) != 1:
                    stride = f"({stride[1:-1]} * {axis})" if stride.startswith("(") else (
                        f"({stride} * {axis})" if stride else axis)
            with self.block(f"for ({INDEX} {name} = {start}; {name} < {stop}; ++{name})"):
                with self.an_instance(self.grid[-1]):
                    self.body(body)

    def region(self, s: ir.Region) -> None:
        if s.level is ir.Level.BLOCK:  # blocks below a cluster that has statements of its own
            shared = [n.buffer for n in walk(s.body) if isinstance(n, ir.Declare) and _is_shared(n.buffer)]
            for buffer in shared:
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
        if not _is_shared(s.buffer):
            self._place_buffer(s.buffer)
        if s.buffer.zeroed and s.init is None:
            zero = ir.Const(0, s.buffer.dtype)
            for slot in _slots(s.buffer):
                copies.fill(self, views.whole(s.buffer, slot), zero)

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
            self.unsupported(f"`{buffer.name}`: block storage of symbolic size is", buffer.span)
            return
        alignment = max(64, buffer.alignment)
        if size <= STACK_BYTES:
            self.line(f"alignas({alignment}) {c} {name}[{max(1, size // buffer.dtype.size)}];")
            return
        offset = self._scratch.get(id(buffer))
        if offset is None:
            offset = -(-self.scratch_bytes // 128) * 128
            self._scratch[id(buffer)] = offset
            self.scratch_bytes = offset + size
        self.line(f"{c}* CROQ_RESTRICT {name} = ({c}*)__builtin_assume_aligned(lane->scratch + {offset}, 128);")


def _is_shared(buffer: ir.Buffer) -> bool:
    return buffer.storage is ir.Storage.SHARED


def _slots(buffer: ir.Buffer) -> list[tuple[ir.Expr, ...]]:
    from croq_magic.compiler.targets.cpu.statements import _all_slots

    return _all_slots(buffer)
