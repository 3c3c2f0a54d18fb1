"""The host body of a function on a SIMT device as C++: `host.py` runs it in Python for a notebook.

What is written around launches is emitted as on the CPU; a buffer is a `croq_simt::span` (croq_simt.h), which knows
whether the host's storage or the device's memory is current.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from croq_magic.compiler import integers, ir, views
from croq_magic.compiler.source import Span
from croq_magic.compiler.targets.cpu import copies
from croq_magic.compiler.targets.cpu.emit import HostFunction
from croq_magic.compiler.targets.cpu.guards import ModuleState
from croq_magic.compiler.targets.emit_cxx import INDEX, Unsupported, ctype, is_narrow
from croq_magic.compiler.targets.simt.emission import SimtKernel
from croq_magic.compiler.types import S64, DType
from croq_magic.compiler.visit import walk

CALL = "call_"  # the variable that launches go through: no name of the language ends so


class SimtHostFunction(HostFunction):
    """Emits one function. `kernels` are those of its launches, `module` the C++ variable that holds them, `checks` the
    table of their run-time checks."""

    def __init__(
        self,
        state: ModuleState,
        function: ir.Function,
        kernels: Mapping[int, SimtKernel],
        target: str,
        module: str,
        checks: str,
        stream_type: str = "void*",
    ) -> None:
        super().__init__(state, function)
        self.launches = kernels
        self.target = target
        self.module = module
        self.kernel_checks = checks
        self.stream_type = stream_type
        self.streams: dict[str, str] = {}  # C++ names of stream parameters
        self.raw: dict[int, str] = {}  # pointers to storage, by the id of the buffer, while they are valid
        self.zeroed = self.entry.zeroed
        self.entry = self.entry._replace(zeroed=False)  # by whoever needs the zeros: host or device

    def unsupported(self, what: str, span: Span | None) -> None:
        raise Unsupported(f"{what} not supported in the host part by the {self.target} target", span)

    def emit(self) -> None:
        """The entry, in `lines`."""
        function = self.function
        places = {id(param): place for place, param in enumerate(function.params)}
        for place, dim in enumerate(function.dims, len(function.params)):
            self.line(f"const {INDEX} {self.names.of(dim)} = words[{place}];")
        self.result_word = f"words[{len(function.params) + len(function.dims)}]"
        for param in function.params:
            if param.var is not None:
                self.define(param.var)
                self._scalar(param.var, places[id(param)])
            elif param.kind == "stream":
                self.streams[param.name] = self.names.fresh(param.name)
                self.line(f"void* const {self.streams[param.name]} = (void*)words[{places[id(param)]}];")
        self.body(function.checks)
        title = function.public or function.name
        self.line(f'croq_simt::call {CALL}("{title}", {self.kernel_checks}, {self.module});')
        for param in function.params:
            if param.buffer is not None:
                role = "output" if param.written or param.in_out or param.escapes else "argument"
                word = f"words[{places[id(param)]}]"
                self._span(param.buffer, role, f"({ctype(param.buffer.dtype)}*){word}")
        self.body(function.body)
        if not function.body or not isinstance(function.body[-1], ir.Return):
            self.line(f"return {CALL}.finish();")
        inner = self.lines
        self.lines, self.depth = [], 0
        self.line(f"static int32_t {self.entry.symbol}(croq_lane* lane, const int64_t* words) {{")
        self.lines += [*inner, "}"]
        self.line()

    def _scalar(self, var: ir.Var, place: int) -> None:
        c = ctype(var.dtype)
        value = f"croq_load<{c}>(words, {place})"
        if is_narrow(var.dtype):  # comes as f64 and is rounded here
            value = f"{c}(croq_narrow(croq_load<f64>(words, {place})))"
        self.line(f"const {c} {self.names.of(var)} = {value};")

    def _span(self, buffer: ir.Buffer, role: str, data: str = "nullptr", zeroed: bool = False) -> None:
        c = ctype(buffer.dtype)
        factors = [*buffer.shape, *map(integers.constant, (*buffer.slots, buffer.dtype.size))]
        size = f"croq_product({', '.join(map(self.expressions.index, factors))})"
        more = ", true" if zeroed else ""
        name = self.names.of(buffer)
        self.line(f"croq_simt::span<{c}> {name}({CALL}, croq_simt::role::{role}, {data}, {size}{more});")

    # ------------------------------------------------------------------------------------------------------- storage

    def pointer(self, buffer: ir.Buffer) -> str:
        return self.raw.get(id(buffer)) or f"{self.names.of(buffer)}.at()"

    def _changes(self, view: ir.View) -> None:
        self.line(f"{self.names.of(view.buffer)}.change();")

    def declare_storage(self, s: ir.Declare) -> None:
        if s.buffer is self.in_result:
            self._span(s.buffer, "result", f"({ctype(s.buffer.dtype)}*){self.result_word}", self.zeroed)
        else:
            self._span(s.buffer, "declared", zeroed=s.buffer.zeroed)
        if s.init is not None:
            self._changes(views.whole(s.buffer, (integers.ZERO,) * len(s.buffer.slots)))

    # ------------------------------------------------------------------------------------------------------ launches

    def statement(self, s: ir.Stmt) -> None:
        self.at(s.span)
        if isinstance(s, ir.SyncHost):
            self.line(f"{CALL}.settle();")
        elif isinstance(s, (ir.Copy, ir.SpanOp)) and not self.raw:
            self._on_storage(s, s.dst if isinstance(s, ir.Copy) else s.view)
        else:
            if isinstance(s, (ir.Store, ir.Atomic)) and id(s.view.buffer) not in self.raw:
                self._changes(s.view)
            super().statement(s)

    def _on_storage(self, s: ir.Stmt, written: ir.View) -> None:
        """A statement that is a nest of loops: its buffers are brought to the host before, not for each element."""
        buffers = {id(node.buffer): node.buffer for node in walk(s) if isinstance(node, ir.View)}
        with self.block():
            for key, buffer in buffers.items():
                name = self.names.fresh(f"{buffer.name}_data")
                constant, how = ("", "change") if buffer is written.buffer else ("const ", "at")
                self.line(f"{constant}{ctype(buffer.dtype)}* const {name} = {self.names.of(buffer)}.{how}();")
                self.raw[key] = name
            super().statement(s)
        self.raw.clear()

    def launch(self, s: ir.Launch) -> None:
        kernel = self.launches[id(s)]
        if kernel.wide is None:
            self._launch(s, kernel)
            return
        with self.block(f"if ({self.expressions.value(kernel.fits)})", "} else {"):
            self._launch(s, kernel)
        self.depth += 1
        self._launch(s, kernel.wide)
        self.depth -= 1
        self.line("}")

    def _launch(self, s: ir.Launch, kernel: SimtKernel) -> None:
        arguments = []
        for argument in kernel.arguments:
            if argument.kind == "report":
                arguments.append(f"{CALL}.report()")
            elif argument.kind == "counter":
                arguments.append(f"{CALL}.counter({self.expressions.index(argument.words)})")
            elif isinstance(argument.node, ir.Buffer):
                written = "true" if argument.written else "false"
                arguments.append(f"{self.names.of(argument.node)}.device({written})")
            elif isinstance(argument.node, ir.Var):
                arguments.append(f"croq_simt::value({self._scalar_argument(argument.node, argument.dtype or S64)})")
        grid, block = (", ".join(map(self.expressions.index, e)) for e in (kernel.grid, kernel.block))
        parts = [f'"{kernel.symbol}"', f"{{{grid}}}", f"{{{block}}}", self.expressions.index(kernel.shared_bytes)]
        parts.append(f"{{{', '.join(arguments)}}}")
        if kernel.cooperative or s.stream:
            parts.append("true" if kernel.cooperative else "false")
        if s.stream:
            parts.append(self.streams[s.stream])
        self.line(f"{CALL}.launch({', '.join(parts)});")
        if not s.is_async and any(argument.kind == "report" for argument in kernel.arguments):
            self.line(f"{CALL}.settle();")

    def _scalar_argument(self, var: ir.Var, dtype: DType) -> str:
        if dtype is S64:
            return f"{INDEX}({self.expressions.index(var)})"
        value = self.expressions.value(var)
        return value if var.dtype is dtype else self.expressions.cast(value, var.dtype, dtype)

    def finish(self, s: ir.Return) -> None:
        if isinstance(s.value, ir.View):
            if s.value.buffer is not self.in_result:
                result = ir.Buffer("result", s.value.buffer.dtype, ir.Storage.GLOBAL, s.value.extents)
                with self.block():
                    self._span(result, "output", f"({ctype(result.dtype)}*){self.result_word}")
                    copies.emit_copy(self, ir.Copy(s.value, views.whole(result), span=s.span))
                    self.line(f"return {CALL}.finish();")
                return
        elif s.value is not None:
            assert self.function.result is not None
            dtype = self.function.result.dtype
            value = self.expressions.value(s.value)
            if s.value.dtype is not dtype:
                value = self.expressions.cast(value, s.value.dtype, dtype)
            self.line(f"*({ctype(dtype)}*){self.result_word} = {value};")
        self.line(f"return {CALL}.finish();")

    def print_statement(self, s: ir.Print) -> None:
        self.line(f"{CALL}.settle();")  # what kernels print comes before
        super().print_statement(s)


def launches_of(kernels: Sequence[SimtKernel]) -> dict[int, SimtKernel]:
    """Kernels by the identity of their launch statements."""
    return {id(kernel.launch): kernel for kernel in kernels}
