"""C++ for a program: one entry per tileflow function, one block function per launch.

An entry takes an array of 8-byte words: per parameter a pointer or a scalar's bits, then the symbolic dimensions, then
the address of the result (an array of zeros, or room for a scalar).
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence

from croq_magic.compiler import integers, ir, views
from croq_magic.compiler.passes.drop_zeroing import reads_zeros
from croq_magic.compiler.source import Source, Span
from croq_magic.compiler.targets.cpu import copies, vector
from croq_magic.compiler.targets.cpu.checks import CheckSite
from croq_magic.compiler.targets.cpu.entry import EntryPoint
from croq_magic.compiler.targets.cpu.guards import ModuleState
from croq_magic.compiler.targets.cpu.kernel import KernelFunction
from croq_magic.compiler.targets.cpu.statements import Statements
from croq_magic.compiler.targets.cpu.verbatim import macros
from croq_magic.compiler.targets.cpu.writer import Writer
from croq_magic.compiler.targets.emit_cxx import INDEX, Names, Unsupported, ctype, is_narrow
from croq_magic.compiler.visit import walk

_PRINTF = re.compile(r"\bprintf\s*\(")


@dataclasses.dataclass(frozen=True)
class Emitted:
    """A module's text, its entries, its run-time checks, and the parts of the cell that it contains unchanged."""

    text: str
    entries: tuple[EntryPoint, ...]
    checks: tuple[CheckSite, ...]
    source: Source | None = None
    verbatim: tuple[Span, ...] = ()


def emit_module(
    functions: Sequence[ir.Function],
    verbatim: Sequence[Span] = (),
    source: Source | None = None,
    element_types: bool = False,
) -> Emitted:
    """C++ for tileflow functions (after the target's passes) and the C++ text of the cell they call, which knows the
    names of element types if `element_types` says so.

    Raises `emit_cxx.Unsupported` for a construct this target cannot express.
    """
    spliced = [node for function in functions for node in walk(function.body) if isinstance(node, ir.CxxText)]
    state = ModuleState(prints=any(map(_PRINTF.search, [*(s.text for s in verbatim), *(s.text for s in spliced)])))
    out = Writer()
    if state.prints:
        out.line("#define CROQ_PRINTS")
    out.line('#include "croq_cpu.h"')
    if any(isinstance(node, (ir.Fibers, ir.Event)) for function in functions for node in walk(function.body)):
        out.line('#include "croq_fiber.h"')
    if any(isinstance(node, ir.Builtin) for function in functions for node in walk(function.body)):
        out.line('#include "croq_math.h"')
    if verbatim or state.prints:
        out.line('#include "croq_device.h"')
    if element_types:
        out.line("using namespace choreo;")
    for piece in verbatim:
        out.at(piece)
        out.verbatim(" " * (piece.column - 1) + piece.text)  # columns stay those of the cell
    if verbatim:
        out.verbatim('#line 1 "generated"')
        if not spliced:
            for name in macros(tuple(verbatim)):  # a macro must not rewrite generated text
                out.line(f"#undef {name}")
    out.line('extern "C" CROQ_EXPORT void croq_attach(const croq_runtime* table) { croq_rt = table; }')
    out.line()
    out.line("namespace croq_cell {")
    typedefs = len(out.lines)
    entries = []
    for function in functions:
        try:
            emitter = HostFunction(state, function)
            emitter.emit()
        except Unsupported as problem:
            problem.span = problem.span or function.span
            raise
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
        return "f" if param.dtype.bits == 32 else "d"
    return "i"


def _called(function: ir.Function) -> set[str]:
    """Names of foreign functions: a variable of that name would hide them."""
    return {node.function.split("::")[0] for node in walk(function.body) if isinstance(node, ir.Call)}


class HostFunction(Statements):
    """The host body of one tileflow function; the kernels it launches are written before it. `stream_type` is the C++
    type of its stream parameters."""

    stream_type = "void*"

    def __init__(self, state: ModuleState, function: ir.Function) -> None:
        super().__init__(state, Names(_called(function)), "return CROQ_INTERRUPTED;", 1)
        self.function = function
        self.kernels: list[Writer] = []
        self.entry = EntryPoint(
            function.name,
            f"croq_entry_{function.name}",
            "".join(map(_kind, function.params)),
            tuple(dim.name for dim in function.dims),
            function.result.dtype.storage if function.result is not None else None,
            reads_zeros(function),
        )
        self.in_result = _result_buffer(function)
        self.table = self.names.fresh(f"{function.name}_checks") if state.is_program else ""
        self.first_check = len(state.checks)

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
                value = f"croq_load<{c}>(words, {word})"
                if is_narrow(param.var.dtype):  # comes as f64 and is rounded here
                    value = f"{c}(croq_narrow(croq_load<f64>(words, {word})))"
                head.append(f"const {c} {self.names.of(param.var)} = {value};")
        for dim in self.function.dims:
            head.append(f"const {INDEX} {self.names.of(dim)} = words[{next(words)}];")
        self.result_word = f"words[{len(self.function.params) + len(self.function.dims)}]"
        if self.state.prints and not self.state.is_program:
            head.append("croq_printing = lane;")
        for line in head:
            self.line(line)
        if self.state.is_program:  # in a notebook arguments are checked before the call
            self.body(self.function.checks)
        self.body(self.function.body)
        if not self.function.body or not isinstance(self.function.body[-1], ir.Return):
            self.line("return CROQ_OK;")
        inner = self.lines
        self.lines, self.depth = [], 0
        for kernel in self.kernels:
            self.extend(kernel)
            self.line()
        linkage = "static" if self.state.is_program else 'extern "C" CROQ_EXPORT'
        self.line(f"{linkage} int32_t {self.entry.symbol}(croq_lane* lane, const int64_t* words) {{")
        self.lines += inner
        self.lines.append("}")
        self.line()

    def warning_place(self) -> list[str]:
        name = self.function.public or self.function.name
        return [f'"{name}"', f"{self.table} - {self.first_check}"]

    def declare_storage(self, s: ir.Declare) -> None:
        buffer, c, name = s.buffer, ctype(s.buffer.dtype), self.names.of(s.buffer)
        if buffer is self.in_result:
            self.line(f"{c}* CROQ_RESTRICT {name} = ({c}*){self.result_word};")
            return
        factors = [*buffer.shape, *map(integers.constant, (*buffer.slots, buffer.dtype.size))]
        bytes_ = f"croq_product({', '.join(map(self.expressions.index, factors))})"
        owner = self.names.fresh(f"{name}_storage")
        zeroed = "" if buffer.zeroed else ", false"
        self.line(f"croq_storage {owner}(lane, {bytes_}{zeroed});")
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
            # The text of a call belongs to one thread, so what may print runs there.
            foreign = self.state.prints and any(isinstance(n, (ir.Call, ir.CxxText)) for n in walk(s.kernel))
            flags = "CROQ_SERIAL" if kernel.serial or foreign else "0"
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
