"""The host body of a function as Python text, translated once per built function so that a call costs little.

The text defines `program(call, values, dims, result)`; `host_calls.py` has what it calls. A buffer is a `Span` there.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from croq_magic.compiler import integers, ir, recursion, views
from croq_magic.compiler.passes.drop_zeroing import reads_zeros
from croq_magic.compiler.source import Span
from croq_magic.compiler.targets.cpu.checks import Operand
from croq_magic.compiler.targets.cpu.emit import _result_buffer as result_buffer
from croq_magic.compiler.targets.emit_cxx import Expressions, Unsupported, compute_type
from croq_magic.compiler.targets.simt.emission import SimtKernel
from croq_magic.compiler.targets.simt.host_expressions import HostExpressions
from croq_magic.compiler.targets.simt.host_text import HostText
from croq_magic.compiler.text import format_expr
from croq_magic.compiler.types import BOOL, F32, S32, S64, DType
from croq_magic.compiler.visit import substitute, walk


def host_text(function: ir.Function, kernels: Sequence[SimtKernel], target: str) -> HostText:
    """Translates a function whose launches are `kernels`. `Unsupported` for what only a compiler could run."""
    writer = HostWriter(function, kernels, target)
    try:
        with recursion.deep():
            writer.write()
    except Unsupported as problem:
        problem.span = problem.span or function.span
        raise
    result = function.result
    return HostText(
        function.name,
        "\n".join(writer.lines) + "\n",
        tuple(writer.expressions.checks),
        tuple(sorted(writer.types)),
        result.dtype.name if result is not None else "",
        result is not None and result.extents is None,
        reads_zeros(function),
    )


class HostWriter:
    """Writes the text, statement by statement."""

    def __init__(self, function: ir.Function, kernels: Sequence[SimtKernel], target: str) -> None:
        self.function = function
        self.kernels = {id(kernel.launch): kernel for kernel in kernels}
        self.target = target
        self.expressions = HostExpressions(target)
        self.lines: list[str] = []
        self.depth = 0
        self.types: set[str] = set()
        self.in_result = result_buffer(function)

    # ------------------------------------------------------------------------------------------------------- text

    def line(self, text: str) -> None:
        parts, self.expressions.parts = self.expressions.parts, []
        self.lines += ("    " * self.depth + line for line in (*parts, text))

    @contextlib.contextmanager
    def block(self, head: str) -> Iterator[None]:
        self.line(head)
        self.depth += 1
        before = len(self.lines)
        yield
        if len(self.lines) == before:
            self.line("pass")
        self.depth -= 1

    def type(self, dtype: DType) -> str:
        self.types.add(dtype.name)
        return self.expressions.type(dtype)

    def value(self, e: ir.Expr, dtype: DType | None = None) -> str:
        """A value, converted to `dtype`."""
        self.types.update(node.dtype.name for node in walk(e) if isinstance(node, ir.Expr))
        text = self.expressions.value(e)
        if dtype is None or dtype is e.dtype:
            return text
        self.types.add(dtype.name)
        return self.expressions.cast(text, e.dtype, dtype)

    def write(self) -> None:
        with self.block("def program(call, values, dims, result):"):
            for position, param in enumerate(self.function.params):
                if param.buffer is not None:
                    name, kind = self.expressions.name(param.buffer), self.type(param.buffer.dtype)
                    written = param.written or param.escapes
                    self.line(f"{name} = call.argument(values[{position}], {kind}, {written})")
                elif param.var is not None:
                    kind = self.type(param.var.dtype)
                    self.line(f"{self.expressions.name(param.var)} = scalar(values[{position}], {kind})")
            for dim in self.function.dims:
                self.line(f"{self.expressions.name(dim)} = dims[{dim.name!r}]")
            self.body(self.function.body)

    def body(self, statements: ir.Body) -> None:
        for s in statements:
            handler = _HANDLERS.get(type(s))
            if handler is None:
                raise self.expressions.unsupported(f"`{type(s).__name__}` statements are", s.span)
            try:
                handler(self, s)
            except Unsupported as problem:
                problem.span = problem.span or s.span
                raise

    # --------------------------------------------------------------------------------------------------- statements

    def declare(self, s: ir.Declare) -> None:
        buffer = s.buffer
        name, kind = self.expressions.name(buffer), self.type(buffer.dtype)
        if buffer is self.in_result:
            self.line(f"{name} = call.result(result, {kind}, {self.zeroed_result()})")
        else:
            count = integers.product((*buffer.shape, *map(integers.constant, buffer.slots)))
            self.line(f"{name} = call.declare({self.expressions.index(count)}, {kind}, {buffer.zeroed})")
        if s.init is not None:
            self.line(f"{name}.fill({self.value(s.init, buffer.dtype)})")

    def zeroed_result(self) -> bool:
        return reads_zeros(self.function)

    def let(self, s: ir.Let) -> None:
        if s.value is not None:
            value = self.value(s.value, s.var.dtype)
        else:
            value = "False" if s.var.dtype is BOOL else "0.0" if s.var.dtype.is_float else "0"
        self.line(f"{self.expressions.name(s.var)} = {value}")

    def assign(self, s: ir.Assign) -> None:
        self.line(f"{self.expressions.name(s.var)} = {self.value(s.value, s.var.dtype)}")

    def store(self, s: ir.Store) -> None:
        dtype = s.view.buffer.dtype
        name = self.expressions.name(s.view.buffer)
        place = self._checked_place(s.view, s.index, s.checks, s.span)
        if not s.op:
            self.line(f"{name}.set({place}, {self.value(s.value, dtype)})")
            return
        at = self.expressions.fresh("at")
        self.line(f"{at} = {place}")
        wide = compute_type(dtype)
        old = ir.Var(f"{at}'", dtype, ir.Role.LET)
        self.line(f"{self.expressions.name(old)} = {name}.get({at})")
        value = s.value
        if value.dtype is not wide:
            value = ir.Cast(value, wide)
        left: ir.Expr = old if dtype is wide else ir.Cast(old, wide)
        self.line(f"{name}.set({at}, {self.value(ir.Binary(s.op, left, value, wide), dtype)})")

    def _checked_place(
        self, view: ir.View, index: tuple[ir.Expr, ...], checks: tuple[int, ...], span: Span | None
    ) -> str:
        self.types.update(node.dtype.name for e in index for node in walk(e) if isinstance(node, ir.Expr))
        return self.expressions.place(view, index, checks, span)

    def span_op(self, s: ir.SpanOp) -> None:
        """Whole-span arithmetic; anything but setting all elements is a nest of loops over one store."""
        if isinstance(s.value, ir.View):
            indices = self._indices(s.view.extents)
            value: ir.Expr = ir.Load(s.value, indices[len(indices) - s.value.rank :], span=s.span)
        else:
            if not s.op:
                self.line(f"{self.window(s.view)}.fill({self.value(s.value, s.view.buffer.dtype)})")
                return
            indices = self._indices(s.view.extents)
            value = ir.Var(self.expressions.fresh("value"), s.value.dtype, ir.Role.LET)
            self.line(f"{self.expressions.name(value)} = {self.value(s.value)}")
        dtype = s.view.buffer.dtype
        wanted = compute_type(dtype) if s.op else dtype
        if value.dtype is not wanted:
            value = ir.Cast(value, wanted)
        statement: ir.Stmt = ir.Store(s.view, indices, value, s.op, span=s.span)
        if s.op in ("/", "%") and value.dtype.is_integer and s.checked:  # tested as a division of elements is
            old = ir.Load(s.view, indices, span=s.span)
            quotient = ir.Binary(s.op, old, value, value.dtype, True, span=s.span)
            statement = ir.Store(s.view, indices, quotient, span=s.span)
        for var, extent in zip(reversed(indices), reversed(s.view.extents), strict=True):
            statement = ir.For(var, integers.ZERO, extent, 1, (statement,), span=s.span)
        self.body((statement,))

    def _indices(self, extents: Sequence[ir.Expr]) -> tuple[ir.Var, ...]:
        return tuple(
            ir.Var(self.expressions.fresh("e"), S32, ir.Role.LOOP, integers.ZERO, extent) for extent in extents
        )

    def copy(self, s: ir.Copy) -> None:
        src, dst = s.src, s.dst
        order = s.permutation or tuple(range(src.rank))
        inner = tuple(src.extents[d] for d in order)
        zero = integers.ZERO
        if s.partial:
            self.line(f"{self.window(dst)}.fill({'False' if dst.buffer.dtype is BOOL else '0'})")
        if s.pad:
            padded = tuple(
                integers.add(integers.add(low, extent), high) for (low, high), extent in zip(s.pad, inner, strict=True)
            )
            dst = views.window(dst, (zero,) * dst.rank, padded) if s.partial else dst
            value = s.pad_value if s.pad_value is not None else ir.Const(0, dst.buffer.dtype)
            self.line(f"{self.window(dst)}.fill({self.value(value, dst.buffer.dtype)})")
            dst = views.window(dst, tuple(low for low, _ in s.pad), inner)
        elif s.partial:
            dst = views.window(dst, (zero,) * dst.rank, inner)
        checked = [view for view in (src, dst) if view.checks and not view.zfill]
        if checked:
            found = []
            for view in checked:
                first, _ = views.origin(view)
                last, _ = views.element(view, tuple(integers.sub(e, integers.ONE) for e in view.extents))
                for d in view.checks:
                    extent = self.expressions.index(view.buffer.shape[d])
                    found += [(d, self.expressions.index(e), extent) for e in (first[d], last[d])]
            site = self.expressions.index_site(checked[0], found, s.span)
            self.line(f"checked(call, {site}, 0)")
        self.line(f"copy({self.window(src)}, {self.window(dst)}, {s.permutation or None})")

    def window(self, view: ir.View) -> str:
        """A view as an object with `fill`, `read` and `write`."""
        name, extents = self.expressions.name(view.buffer), self.expressions.indices(view.extents)
        strides = views.strides(view)
        if strides is not None and not view.zfill:
            steps = self.expressions.indices(strides)
            return f"Strided({name}, {self.expressions.first(view)}, {extents}, {steps})"
        coords = self._indices(view.extents)
        mapping: dict[ir.Var, ir.Expr] = dict(zip(view.coords, coords, strict=True))
        offset = self.expressions.index(Expressions.offset_expr(view, coords))
        names = ", ".join(map(self.expressions.name, coords))
        if view.zfill:
            tests = " and ".join(
                f"0 <= {self.expressions.index(substitute(at, mapping))} < {self.expressions.index(extent)}"
                for at, extent in zip(view.map, view.buffer.shape, strict=True)
            )
            offset = f"{offset} if {tests} else -1"
        return f"Listed({name}, {extents}, lambda {names}: {offset})"

    def rotate(self, s: ir.Rotate) -> None:
        names = [self.expressions.name(var) for var in s.slots]
        self.line(f"{', '.join(names)} = {', '.join([*names[1:], names[0]])}")

    def nothing(self, s: ir.Stmt) -> None:
        """Copies of the host part are complete at once."""

    def synchronise(self, s: ir.SyncHost) -> None:
        self.line("call.settle()")

    def branch(self, s: ir.If) -> None:
        with self.block(f"if {self.value(s.condition)}:"):
            self.body(s.then)
        if s.other:
            with self.block("else:"):
                self.body(s.other)

    def for_loop(self, s: ir.For) -> None:
        self.types.update(n.dtype.name for e in (s.start, s.stop) for n in walk(e) if isinstance(n, ir.Expr))
        bounds = f"{self.expressions.index(s.start)}, {self.expressions.index(s.stop)}"
        step = f", {s.step}" if s.step != 1 else ""
        self.expressions.instance.append(s.var)
        with self.block(f"for {self.expressions.name(s.var)} in range({bounds}{step}):"):
            self.body(s.body)
        self.expressions.instance.pop()

    def while_loop(self, s: ir.While) -> None:
        with self.block(f"while {self.value(s.condition)}:"):
            self.body(s.body)

    def scope(self, s: ir.Scope) -> None:
        self.body(s.body)

    def leave(self, s: ir.Stmt) -> None:
        self.line("break" if isinstance(s, ir.Break) else "continue")

    def atomic(self, s: ir.Atomic) -> None:
        """Nothing else runs beside the host part: a read and a write."""
        dtype = s.view.buffer.dtype
        name, at = self.expressions.name(s.view.buffer), self.expressions.fresh("at")
        self.line(f"{at} = {self._checked_place(s.view, s.index, s.checks, s.span)}")
        old = ir.Var(f"{at}'", dtype, ir.Role.LET)
        value = s.value if s.value.dtype is dtype else ir.Cast(s.value, dtype)
        update: ir.Expr
        if s.op in ("min", "max"):
            less = ir.Binary("<", value, old, BOOL) if s.op == "min" else ir.Binary("<", old, value, BOOL)
            update = ir.Select(less, value, old, dtype)
        elif s.op == "cas":
            assert s.expected is not None
            expected = s.expected if s.expected.dtype is dtype else ir.Cast(s.expected, dtype)
            update = ir.Select(ir.Binary("==", old, expected, BOOL), value, old, dtype)
        elif s.op == "exch":
            update = value
        else:
            op = {"add": "+", "sub": "-", "and": "&", "or": "|", "xor": "^"}[s.op]
            wide = F32 if dtype.is_float and dtype.bits < 32 else dtype
            update = ir.Binary(op, ir.Cast(old, wide), ir.Cast(value, wide), wide)
        self.line(f"{self.expressions.name(old)} = {name}.get({at})")
        self.line(f"{name}.set({at}, {self.value(update, dtype)})")
        if s.result is not None:
            self.line(f"{self.expressions.name(s.result)} = {self.value(old, s.result.dtype)}")

    def print_statement(self, s: ir.Print) -> None:
        parts = []
        for item in s.args:
            if isinstance(item, str):
                parts.append(repr(item))
            elif item.dtype.is_float:
                parts.append(f"'%f' % {self.value(item)}")
            elif item.dtype is BOOL:
                parts.append(f"('true' if {self.value(item)} else 'false')")
            else:
                parts.append(f"str({self.value(item)})")
        if s.newline:
            parts.append("'\\n'")
        if parts:
            self.line(f"call.print({' + '.join(parts)})")

    def assertion(self, s: ir.Assert) -> None:
        instance = self.expressions.instance
        shown = [v for v in s.values if not (isinstance(v, ir.Var) and (v.role is ir.Role.COORD or v in instance))]
        kinds = ["f" if v.dtype.is_float else "b" if v.dtype is BOOL else "i" for v in shown]
        operands = [Operand(format_expr(v), kind) for v, kind in zip(shown, kinds, strict=True)]
        number = self.expressions.site(s.message, operands, s.span, code=s.code)
        values = "".join(f"word({self.value(v)}), " for v in shown)
        with self.block(f"if not {self.value(s.condition)}:"):
            self.line(f"call.fail({number}, ({', '.join([f'*{self.expressions.instance_values()}', values])}))")

    def launch(self, s: ir.Launch) -> None:
        kernel = self.kernels[id(s)]
        if kernel.wide is None:
            self._launch(s, kernel)
            return
        self.types.update(node.dtype.name for node in walk(kernel.fits) if isinstance(node, ir.Expr))
        with self.block(f"if {self.value(kernel.fits)}:"):
            self._launch(s, kernel)
        with self.block("else:"):
            self._launch(s, kernel.wide)

    def _launch(self, s: ir.Launch, kernel: SimtKernel) -> None:
        arguments = []
        for argument in kernel.arguments:
            if argument.kind == "buffer":
                assert isinstance(argument.node, ir.Buffer)
                arguments.append(f"{self.expressions.name(argument.node)}.device({argument.written})")
            elif argument.kind == "scalar":
                assert isinstance(argument.node, ir.Var)
                text, dtype = self.expressions.name(argument.node), argument.dtype or S64
                if argument.node.dtype is not dtype and dtype is not S64:
                    text = self.value(argument.node, dtype)
                arguments.append(f"{self.packer(dtype)}({text})")
            elif argument.kind == "counter":
                self.types.update(node.dtype.name for node in walk(argument.words) if isinstance(node, ir.Expr))
                arguments.append(f"call.counter({self.expressions.index(argument.words)})")
            else:
                arguments.append(f"call.{argument.kind}()")
        grid, block = (self.expressions.indices(e) for e in (kernel.grid, kernel.block))
        for e in (*kernel.grid, *kernel.block, kernel.shared_bytes):
            self.types.update(node.dtype.name for node in walk(e) if isinstance(node, ir.Expr))
        shared = self.expressions.index(kernel.shared_bytes)
        checks = any(argument.kind == "report" for argument in kernel.arguments)
        parts = "".join(f"{text}, " for text in arguments)
        self.line(f"call.launch({kernel.symbol!r}, {grid}, {block}, {shared}, ({parts}))")
        if checks and not s.is_async:
            self.line("call.settle()")

    def packer(self, dtype: DType) -> str:
        """What makes a NumPy scalar of an element type from a Python number."""
        if dtype.numpy and dtype.bits >= 8 and (dtype.is_integer or dtype.bits >= 32 or dtype is BOOL):
            return f"numpy.{'bool_' if dtype is BOOL else dtype.numpy}"
        return f"{self.type(dtype)}_encode"

    def finish(self, s: ir.Return) -> None:
        if isinstance(s.value, ir.View):
            if s.value.buffer is not self.in_result:
                self.line(f"call.give({self.window(s.value)}, result)")
            self.line("return None")
        elif s.value is not None:
            assert self.function.result is not None
            dtype = self.function.result.dtype
            self.line(f"return {self.type(dtype)}_encode({self.value(s.value, dtype)})")
        else:
            self.line("return None")


def _never(what: str) -> Callable[[HostWriter, Any], None]:
    def handler(writer: HostWriter, s: ir.Stmt) -> None:
        raise writer.expressions.unsupported(what, s.span)

    return handler


_HANDLERS: dict[type, Callable[[HostWriter, Any], None]] = {
    ir.Declare: HostWriter.declare,
    ir.Let: HostWriter.let,
    ir.Assign: HostWriter.assign,
    ir.Store: HostWriter.store,
    ir.SpanOp: HostWriter.span_op,
    ir.Copy: HostWriter.copy,
    ir.Wait: HostWriter.nothing,
    ir.Fence: HostWriter.nothing,
    ir.Barrier: HostWriter.nothing,
    ir.SyncHost: HostWriter.synchronise,
    ir.Rotate: HostWriter.rotate,
    ir.For: HostWriter.for_loop,
    ir.While: HostWriter.while_loop,
    ir.If: HostWriter.branch,
    ir.Scope: HostWriter.scope,
    ir.Break: HostWriter.leave,
    ir.Continue: HostWriter.leave,
    ir.Atomic: HostWriter.atomic,
    ir.Print: HostWriter.print_statement,
    ir.Assert: HostWriter.assertion,
    ir.Launch: HostWriter.launch,
    ir.Return: HostWriter.finish,
    ir.CxxText: _never("C++ text is"),
    ir.Call: _never("calls of C++ functions are"),
    ir.DeclareEvent: lambda out, s: None,  # its words come with each launch
    ir.Trigger: _never("events are"),
    ir.WaitEvent: _never("events are"),
}
