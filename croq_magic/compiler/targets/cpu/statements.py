"""Statements of the tile IR as C++: what the host body and the kernels of a module have in common."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

from croq_magic.compiler import integers, ir, views
from croq_magic.compiler.targets.cpu import copies
from croq_magic.compiler.targets.cpu.checks import Operand
from croq_magic.compiler.targets.cpu.guards import ModuleState
from croq_magic.compiler.targets.cpu.loops import Loops
from croq_magic.compiler.targets.cpu.vector import VectorLoop
from croq_magic.compiler.targets.emit_cxx import (
    INDEX,
    Names,
    Unsupported,
    asm_operands,
    compute_type,
    ctype,
    cxx_string,
)
from croq_magic.compiler.text import format_expr
from croq_magic.compiler.types import BOOL, S32

FEW_SLOTS = 8


class Statements(Loops):
    """Emits statements; subclasses know where storage comes from and what a launch or a return is."""

    def __init__(self, state: ModuleState, names: Names, leave: str, depth: int = 0) -> None:
        super().__init__(state, names, leave, depth)
        self.resident: dict[int, int] = {}  # register buffers that are arrays of vectors, by id, with their lanes

    def declare_storage(self, s: ir.Declare) -> None:
        raise NotImplementedError

    def launch(self, s: ir.Launch) -> None:
        raise NotImplementedError

    def finish(self, s: ir.Return) -> None:
        raise NotImplementedError

    def body(self, statements: ir.Body) -> None:
        for statement in statements:
            self.statement(statement)

    def statement(self, s: ir.Stmt) -> None:
        handler = _HANDLERS.get(type(s))
        if handler is None:
            self.unsupported(f"`{type(s).__name__}` statements are", s.span)
            return
        self.at(s.span)
        try:
            handler(self, s)
        except Unsupported as problem:
            if problem.span is None:
                problem.span = s.span
            raise

    def declare(self, s: ir.Declare) -> None:
        self.declare_storage(s)
        if s.init is not None:
            value = s.init if s.init.dtype is s.buffer.dtype else ir.Cast(s.init, s.buffer.dtype)
            self.fill_buffer(s.buffer, value)

    def fill_buffer(self, buffer: ir.Buffer, value: ir.Expr) -> None:
        """All elements of all slots: slot by slot, in a loop when there are many."""
        if math.prod(buffer.slots) <= FEW_SLOTS:
            for slot in itertools.product(*map(range, buffer.slots)):
                copies.fill(self, views.whole(buffer, tuple(map(integers.constant, slot))), value)
            return
        names = [self.names.fresh("slot") for _ in buffer.slots]
        slots = [ir.Var(name, S32, ir.Role.LOOP) for name in names]
        for name, var in zip(names, slots, strict=True):
            self.names.adopt(var, name)
            self.define(var)
        ends = zip(names, buffer.slots, strict=True)
        with self.nest([f"for ({INDEX} {name} = 0; {name} < {end}; ++{name})" for name, end in ends]):
            copies.fill(self, views.whole(buffer, tuple(slots)), value)

    def allocate(self, buffer: ir.Buffer, restrict: bool = True) -> None:
        """Storage of a size that is known only while running; it ends with the scope."""
        c, name = ctype(buffer.dtype), self.names.of(buffer)
        factors = [*buffer.shape, *map(integers.constant, (*buffer.slots, buffer.dtype.size))]
        size = f"croq_product({', '.join(map(self.expressions.index, factors))})"
        owner = self.names.fresh(f"{name}_storage")
        self.line(f"croq_storage {owner}(lane, {size}, false);")
        self.line(f"{c}*{' CROQ_RESTRICT' if restrict else ''} {name} = ({c}*){owner}.data;")
        self.line(f"if (!{name}) {self.leave}")

    def let(self, s: ir.Let) -> None:
        self.define(s.var)
        constant = "" if s.var.role is ir.Role.MUTABLE or s.value is None else "const "
        value = f"{ctype(s.var.dtype)}()" if s.value is None else self.converted(s.value, s.var)
        self.line(f"{constant}{ctype(s.var.dtype)} {self.names.of(s.var)} = {value};")

    def converted(self, value: ir.Expr, var: ir.Var) -> str:
        text = self.expressions.value(value)
        return text if value.dtype is var.dtype else self.expressions.cast(text, value.dtype, var.dtype)

    def assign(self, s: ir.Assign) -> None:
        self.line(f"{self.names.of(s.var)} = {self.converted(s.value, s.var)};")

    def store(self, s: ir.Store) -> None:
        dtype = s.view.buffer.dtype
        with self.guarded(s.view, s.index, s.checks, s.span):
            target = self.expressions.element(s.view, s.index)
            value = self.expressions.value(s.value)
            wanted = compute_type(dtype) if s.op else dtype  # `target op= value` is rounded once
            if s.value.dtype is not wanted:
                value = self.expressions.cast(value, s.value.dtype, wanted)
            self.line(f"{self.updated(target, s.op, value, dtype)};")

    def updated(self, target: str, op: str, value: str, dtype: Any) -> str:
        """`target op= value` computed in the type the language says."""
        wide = compute_type(dtype)
        if not op:
            return f"{target} = {value}"
        if op in "/%" and dtype.is_integer:
            helper = "croq_div" if op == "/" else "croq_mod"
            result = f"{helper}<{ctype(wide)}>({target}, {value})"
            return f"{target} = {result if wide is dtype else f'{ctype(dtype)}({result})'}"
        if wide is dtype:
            return f"{target} {op}= {value}"
        result = f"{ctype(wide)}({target}) {op} {ctype(wide)}({value})"
        return f"{target} = {self.expressions.cast(result, wide, dtype)}"

    def span_op(self, s: ir.SpanOp) -> None:
        """Whole-span arithmetic as a nest of loops over one store."""
        indices = []
        for position, extent in enumerate(s.view.extents):
            name = self.names.fresh(f"e{position}")
            var = ir.Var(name, S32, ir.Role.LOOP, integers.ZERO, extent)
            self.names.adopt(var, name)
            indices.append(var)
        at = tuple(indices)
        if isinstance(s.value, ir.View):
            value: ir.Expr = ir.Load(s.value, at[len(at) - s.value.rank :], span=s.span)
        else:
            value = s.value
            name = self.names.fresh("value")  # evaluated once, before the first store
            temporary = ir.Var(name, value.dtype, ir.Role.LET)
            self.names.adopt(temporary, name)
            self.define(temporary)
            self.line(f"const {ctype(value.dtype)} {name} = {self.expressions.value(value)};")
            value = temporary
        dtype = s.view.buffer.dtype
        wanted = compute_type(dtype) if s.op else dtype
        if value.dtype is not wanted:
            value = ir.Cast(value, wanted)
        statement: ir.Stmt = ir.Store(s.view, at, value, s.op, span=s.span)
        if s.op in ("/", "%") and value.dtype.is_integer and s.checked:  # tested as a division of elements is
            old = ir.Load(s.view, at, span=s.span)
            quotient = ir.Binary(s.op, old, value, value.dtype, True, span=s.span)
            statement = ir.Store(s.view, at, quotient, span=s.span)
        for var, extent in zip(reversed(indices), reversed(s.view.extents), strict=True):
            statement = ir.For(var, integers.ZERO, extent, 1, (statement,), span=s.span)
        self.statement(statement)

    def copy(self, s: ir.Copy) -> None:
        with self.block():
            copies.emit_copy(self, s)

    def rotate(self, s: ir.Rotate) -> None:
        names = [self.names.of(var) for var in s.slots]
        first = self.names.fresh("first")
        self.line(f"const {ctype(s.slots[0].dtype)} {first} = {names[0]};")
        for target, source in zip(names, [*names[1:], first], strict=True):
            self.line(f"{target} = {source};")

    def declare_event(self, s: ir.DeclareEvent) -> None:
        """On the host: every launch that uses the event has it anew."""

    def once(self, s: ir.Once) -> None:
        self.body(s.body)

    def named_barrier(self, s: ir.NamedBarrier) -> None:
        self.unsupported("a named barrier outside a kernel is", s.span)

    def trigger(self, s: ir.Trigger) -> None:
        self.unsupported("an event outside a kernel is", s.span)

    def wait_event(self, s: ir.WaitEvent) -> None:
        self.unsupported("an event outside a kernel is", s.span)

    def nothing(self, s: ir.Stmt) -> None:
        """Completion of copies that were done at once, fences: no work."""

    def barrier(self, s: ir.Barrier) -> None:
        """At the level of its own instance a barrier joins nothing: inner regions have ended."""

    def branch(self, s: ir.If) -> None:
        with self.block(f"if ({self.expressions.value(s.condition)})", "} else {" if s.other else "}"):
            self.body(s.then)
        if s.other:
            self.depth += 1
            self.body(s.other)
            self.depth -= 1
            self.line("}")

    def for_loop(self, s: ir.For) -> None:
        if s.kind is ir.LoopKind.VECTOR:
            VectorLoop(self, s, self.resident, self.state.vectors).emit()
        else:
            self.loop(s)

    def masked(self, s: ir.Masked) -> None:
        with self.block(f"if ({self.expressions.value(s.predicate)})"):
            self.body(s.body)

    def scope(self, s: ir.Scope) -> None:
        with self.block():
            self.body(s.body)

    def atomic(self, s: ir.Atomic) -> None:
        dtype = s.view.buffer.dtype
        name = ""
        if s.result is not None:
            name = self.names.of(s.result)
            if s.result.name not in self.declared:
                self.define(s.result)
                self.line(f"{ctype(s.result.dtype)} {name} = {ctype(s.result.dtype)}();")
        with self.guarded(s.view, s.index, s.checks, s.span):
            target = self.expressions.element(s.view, s.index)
            args = [f"&{target}"]
            args += [
                self.expressions.cast(self.expressions.value(e), e.dtype, dtype)
                if e.dtype is not dtype
                else self.expressions.value(e)
                for e in (s.expected, s.value)
                if e is not None
            ]
            # One block runs on one thread, so its own storage needs no atomic instruction.
            space = "global" if s.view.buffer.storage is ir.Storage.GLOBAL else "block"
            call = f"croq_{space}_{s.op}<{ctype(dtype)}>({', '.join(args)})"
            self.line(f"{name} = {call};" if name else f"{call};")

    def call(self, s: ir.Call) -> None:
        template = ""
        if s.template:
            parts = [t if isinstance(t, str) else self.expressions.index(t) for t in s.template]
            template = f"<{', '.join(parts)}>"
        call = f"{s.function}{template}({', '.join(map(self.argument, s.args))})"
        if s.result is None:
            self.line(f"{call};")
        elif s.result.name in self.declared:
            self.line(f"{self.names.of(s.result)} = {call};")
        else:
            self.define(s.result)
            self.line(f"{ctype(s.result.dtype)} {self.names.of(s.result)} = {call};")

    def argument(self, a: ir.Node) -> str:
        """One argument of a foreign call; views are pointers to their first element."""
        if isinstance(a, ir.View):
            offset = self.expressions.offset(a, (integers.ZERO,) * a.rank)
            return copies.plus(self.expressions.pointer(a.buffer), offset)
        if isinstance(a, ir.AddressOf):
            return f"&{self.expressions.element(a.view, a.index)}"
        if isinstance(a, ir.CxxCast):
            operand = "nullptr" if a.operand is None else self.argument(a.operand)
            return f"({a.type})({operand})"
        if isinstance(a, ir.Var) and a.name in self.declared and a.role in (ir.Role.LET, ir.Role.MUTABLE):
            return self.names.of(a)
        if isinstance(a, ir.Expr):
            return self.expressions.value(a)
        raise Unsupported("fragments as arguments are not supported by the CPU target yet")

    def print_statement(self, s: ir.Print) -> None:
        text = ""
        for item in (*s.args, "\n") if s.newline else s.args:
            if isinstance(item, str):
                text += item
                continue
            self._print_text(text)
            text = ""
            value = self.expressions.value(item)
            if item.dtype.is_float:
                self.line(f"croq_rt->print_number(lane, 2, 0, f64({'f32(' if item.dtype.bits < 32 else '('}{value})));")
            else:
                kind = 3 if item.dtype is BOOL else 0 if item.dtype.is_signed else 1
                self.line(f"croq_rt->print_number(lane, {kind}, {INDEX}({value}), 0);")
        self._print_text(text)

    def _print_text(self, text: str) -> None:
        if text:
            data = text.encode()
            self.line(f'croq_rt->print(lane, "{cxx_string(data)}", {len(data)});')

    def assertion(self, s: ir.Assert) -> None:
        told = [v for v in s.values if not isinstance(v, ir.Const)]
        shown = [v for v in told if not (isinstance(v, ir.Var) and (v.role is ir.Role.COORD or v in self.instance))]
        operands = [
            Operand(format_expr(v), "f" if v.dtype.is_float else "b" if v.dtype is BOOL else "i") for v in shown
        ]
        number = self.site(s.message, operands, s.span, code=s.code)
        values = [
            f"choreo::croq_bits<int64_t>(f64({self.expressions.value(v)}))"
            if v.dtype.is_float
            else self.expressions.value(v)
            for v in shown
        ]
        values = [str(number), *self.instance_values(), *values]
        with self.block(f"if (CROQ_UNLIKELY(!({self.expressions.value(s.condition)})))"):
            if s.warning:
                self.line("static int32_t told;")
                self.line(f"if (!told++) ::croq_host::warn({', '.join([*self.warning_place(), *values])});")
            else:
                self.line(f"croq_fail({', '.join(['lane', *values])});")
                self.line(self.leave)

    def warning_place(self) -> list[str]:
        """What a warning at entry begins with: the function and its table of checks (whole programs alone)."""
        raise NotImplementedError

    def cxx_text(self, s: ir.CxxText) -> None:
        for each in (*s.views, *s.scalars):  # asked for, they are handed to the kernel
            assert isinstance(each, ir.Node)
            self.argument(each)
        self.verbatim(s.text)

    def asm(self, s: ir.Asm) -> None:
        def operands(items: Sequence[tuple[str, str, ir.Node]]) -> str:
            return asm_operands(items, self.names, self.expressions.value)

        clobbers = ", ".join(f'"{c}"' for c in s.clobbers)
        template = cxx_string(s.template.encode())
        self.line(f'__asm__ volatile("{template}" : {operands(s.outputs)} : {operands(s.inputs)} : {clobbers});')


_HANDLERS: dict[type, Callable[[Statements, Any], None]] = {
    ir.Declare: Statements.declare,
    ir.Let: Statements.let,
    ir.Assign: Statements.assign,
    ir.Store: Statements.store,
    ir.SpanOp: Statements.span_op,
    ir.Copy: Statements.copy,
    ir.Wait: Statements.nothing,
    ir.Fence: Statements.nothing,
    ir.SyncHost: Statements.nothing,
    ir.Rotate: Statements.rotate,
    ir.Barrier: lambda out, s: out.barrier(s),
    ir.Once: lambda out, s: out.once(s),
    ir.NamedBarrier: lambda out, s: out.named_barrier(s),
    ir.DeclareEvent: lambda out, s: out.declare_event(s),
    ir.Trigger: lambda out, s: out.trigger(s),
    ir.WaitEvent: lambda out, s: out.wait_event(s),
    ir.For: Statements.for_loop,
    ir.While: lambda out, s: out.while_loop(s),
    ir.If: lambda out, s: out.branch(s),
    ir.Masked: lambda out, s: out.masked(s),
    ir.Scope: Statements.scope,
    ir.Break: Statements.break_loop,
    ir.Continue: Statements.continue_loop,
    ir.Yield: lambda out, s: out.end_instance(s),
    ir.Region: lambda out, s: out.region(s),
    ir.Atomic: Statements.atomic,
    ir.Call: Statements.call,
    ir.Print: Statements.print_statement,
    ir.Assert: Statements.assertion,
    ir.CxxText: Statements.cxx_text,
    ir.Asm: Statements.asm,
    ir.Launch: lambda out, s: out.launch(s),
    ir.Return: lambda out, s: out.finish(s),
}
