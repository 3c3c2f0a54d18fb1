"""Statements of the tile IR in kernels of a SIMT device.

A statement of a block or group runs once per instance: scalars are computed by all threads alike, stores and other
effects are those of one elected thread, and copies between memories are made by all threads together. The barriers that
order them stand in the IR.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from croq_magic.compiler import integers, ir
from croq_magic.compiler.passes.structure import bodies, nested
from croq_magic.compiler.targets.emit_cxx import Unsupported, asm_operands, compute_type, cxx_string
from croq_magic.compiler.targets.simt import copies
from croq_magic.compiler.targets.simt.copies import PRIVATE
from croq_magic.compiler.targets.simt.crews import Crews
from croq_magic.compiler.targets.simt.dialect import space_of
from croq_magic.compiler.targets.simt.expressions import WIDE, buffer_offset, depends_on, fits, plus
from croq_magic.compiler.types import BOOL, F32, S32, S64
from croq_magic.compiler.visit import walk

UNROLLED_LOOP = 32  # iterations of a small constant loop that are written out
UNROLLED_WORK = 768  # statements of all its iterations together


class Statements(Crews):
    """Emits statements; a subclass knows about storage, events and the kernel itself."""

    taken: set[str]  # names of the IR that may not be given again
    loops = 0  # of the program around the place
    is_last = False  # whether nothing follows the statement in its C block
    watched: frozenset[str]  # see `overflow`

    def declare_storage(self, s: ir.Declare) -> None:
        raise NotImplementedError

    def finish_instance(self) -> None:
        raise NotImplementedError

    def region(self, s: ir.Region) -> None:
        raise NotImplementedError

    def trigger(self, s: ir.Trigger) -> None:
        raise NotImplementedError

    def wait_event(self, s: ir.WaitEvent) -> None:
        raise NotImplementedError

    def cluster_barrier(self) -> None:
        raise NotImplementedError

    def grid_barrier(self) -> None:
        raise NotImplementedError

    def shared_slot(self, var: ir.Var) -> str:
        raise NotImplementedError

    # ---------------------------------------------------------------------------------------------------- bodies

    def body(self, statements: ir.Body, last: bool = True) -> None:
        """Statements in order; neighbours that one thread performs share a condition. `last`: nothing follows them in
        their C block."""
        position = 0
        while position < len(statements):
            self.is_last = last and position == len(statements) - 1
            end = position
            while end < len(statements) and self._for_one(statements[end]):
                end += 1
            if end - position > 1 or (end > position and bodies(statements[position])):
                with self.elected():
                    for statement in statements[position:end]:
                        self.statement(statement)
                position = end
            else:
                self.statement(statements[position])
                position += 1

    def _for_one(self, s: ir.Stmt) -> bool:
        """Whether one elected thread performs a statement here."""
        if self.per_thread or self._elected is not None:
            return False
        if isinstance(s, (ir.For, ir.If)) and not any(isinstance(n, ir.Load) for n in walk(_head(s))):
            return all(self._for_one(inner) for body in bodies(s) for inner in body)
        if isinstance(s, ir.Store):
            return s.view.buffer.storage not in PRIVATE
        return isinstance(s, ir.Print) or (isinstance(s, ir.Atomic) and s.result is None)

    def statement(self, s: ir.Stmt) -> None:
        handler = _HANDLERS.get(type(s))
        if handler is None:
            raise self.unsupported(f"`{type(s).__name__}` statements are", s.span)
        self.at(s.span)
        try:
            handler(self, s)
        except Unsupported as problem:
            if problem.span is None:
                problem.span = s.span
            raise

    # --------------------------------------------------------------------------------------------------- scalars

    def declare(self, s: ir.Declare) -> None:
        self.declare_storage(s)
        value = s.init
        if value is None and s.buffer.zeroed:
            value = ir.Const(0.0 if s.buffer.dtype.is_float else 0, s.buffer.dtype)
        if value is not None:
            copies.fill_buffer(self, s.buffer, value)

    def note(self, var: ir.Var, value: ir.Node | tuple[ir.Node, ...]) -> None:
        """Notes whether a scalar may differ between threads."""
        divergent = self.divergent()
        if depends_on(value, divergent) or any(depends_on(c, divergent) for c in self.conditions):
            self.varying.add(var.name)

    def let(self, s: ir.Let) -> None:
        self.define(s.var)
        if s.value is not None:
            self.note(s.var, s.value)
        if s.var.role is ir.Role.REGION and s.value is not None:  # an index that a pass computes
            kind = self.index_kind(s.var, s.value)
            self.line(f"const {kind} {self.names.of(s.var)} = {self.expressions.index(s.value)};")
            # A failed check names the program's indices, not those of the blocks and threads they are computed from.
            made_of = {n for n in walk(s.value) if isinstance(n, ir.Var)}
            own = [v for v in self.instance if v in self.computed or v.role is not ir.Role.REGION]
            self.instance = [*(var for var in own if var not in made_of), s.var]
            self.computed.add(s.var)
            return
        constant = "" if s.var.role is ir.Role.MUTABLE or s.value is None else "const "
        exact = s.var.name in self.watched
        value = "" if s.value is None else f" = {self.expressions.converted(s.value, s.var.dtype, exact)}"
        self.line(f"{constant}{self.scalar_type(s.var)} {self.names.of(s.var)}{value};")

    def index_kind(self, var: ir.Var, value: ir.Expr) -> str:
        """The type of an index that a pass or a loop computes."""
        if var.dtype.bits < 64:
            return self.dialect.index32
        limits = self.expressions.limits
        if limits is not None and self.expressions.index_text(value)[2] == WIDE:
            limits.possible = False
        return self.dialect.index64

    def scalar_type(self, var: ir.Var) -> str:
        return "int" if var.dtype is S32 else self.dialect.ctype(var.dtype)

    def assign(self, s: ir.Assign) -> None:
        self.note(s.var, s.value)
        name, value = self.names.of(s.var), s.value
        updates = isinstance(value, ir.Binary) and value.left == s.var and value.op in "+-*"
        exact = s.var.name in self.watched and not fits(value)
        if updates and not exact and value.dtype is s.var.dtype and value.dtype.bits >= 32:
            assert isinstance(value, ir.Binary)
            self.line(f"{name} {value.op}= {self.expressions.value(value.right)};")
            return
        self.line(f"{name} = {self.expressions.converted(value, s.var.dtype, exact)};")

    # ---------------------------------------------------------------------------------------------------- memory

    def store(self, s: ir.Store) -> None:
        private = s.view.buffer.storage in PRIVATE
        with self.elected(everyone=private), self.guarded(s.view, s.index, s.checks, s.span) as index:
            target, op, value = self.expressions.element(s.view, index), s.op, s.value
            dtype, exact = s.view.buffer.dtype, s.view.buffer.name in self.watched
            if exact and op and op in "+-*" and value.dtype is dtype and dtype in (S32, S64):
                op, value = "", ir.Binary(op, ir.Load(s.view, index), value, dtype)
            self.line(f"{self.updated(target, op, value, dtype, exact)};")

    def updated(self, target: str, op: str, value: ir.Expr, dtype: Any, exact: bool = False) -> str:
        """`target op= value` computed in the type the language says."""
        d, wide = self.dialect, compute_type(dtype)
        if not op:
            return f"{target} = {self.expressions.converted(value, dtype, exact)}"
        operand = self.expressions.converted(value, wide)
        if op in "/%" and dtype.is_integer:
            current = target if wide is dtype else d.cast(target, dtype, wide)
            result = d.helper("div" if op == "/" else "mod", wide, [current, operand])
            return f"{target} = {result if wide is dtype else d.cast(result, wide, dtype)}"
        if wide is dtype:
            return f"{target} {op}= {operand}"
        current = d.widen(target, dtype) if dtype.is_float else d.cast(target, dtype, wide)
        result = f"{current} {op} {self.expressions.value(value, 15) if value.dtype is wide else operand}"
        return f"{target} = {d.narrow(result, dtype) if dtype.is_float else d.cast(result, wide, dtype)}"

    def span_op(self, s: ir.SpanOp) -> None:
        """Whole-span arithmetic: a crew in memory of the block or the device, else the thread itself."""
        view = s.view
        value: ir.Expr | ir.View = s.value
        if isinstance(value, ir.Expr) and any(isinstance(n, ir.Load) for n in walk(value)):
            temporary = ir.Var(self.names.fresh("value"), value.dtype, ir.Role.LET)
            self.names.adopt(temporary, temporary.name)
            self.let(ir.Let(temporary, value))  # evaluated once, before the first store
            value = temporary
        dtype = view.buffer.dtype
        extents = view.extents

        def one(index: Sequence[ir.Expr]) -> None:
            at = tuple(index)
            item = ir.Load(value, at[len(at) - value.rank :], span=s.span) if isinstance(value, ir.View) else value
            wanted = compute_type(dtype) if s.op else dtype
            item = item if item.dtype is wanted else ir.Cast(item, wanted)
            update = f"{self.updated(self.expressions.element(view, at), s.op, item, dtype)};"
            with self.divisor_check(s, item):
                self.line(update)

        with self.window_check((view,), s.span):
            wanted = ("e",) if len(extents) == 1 else tuple(f"e{d}" for d in range(len(extents)))
            private = view.buffer.storage in PRIVATE
            loops = self.loop_nest(wanted, extents, copies.UNROLLED) if private else self.crew_loop(extents, wanted)
            with loops as places:
                one(places)

    def copy(self, s: ir.Copy) -> None:
        copies.emit_copy(self, s)

    def is_group(self, s: ir.Copy) -> bool:
        """Whether an asynchronous copy is waited for as a group; others are followed by the arrival at an event."""
        raise NotImplementedError

    def wait(self, s: ir.Wait) -> None:
        allowed = self.pending_groups(s)
        if allowed is not None:
            self.line(self.dialect.async_wait(allowed))

    def pending_groups(self, s: ir.Wait | ir.Trigger) -> int | None:
        raise NotImplementedError

    def rotate(self, s: ir.Rotate) -> None:
        names = [self.names.of(var) for var in s.slots]
        first = self.names.fresh("first")
        with self.block():
            self.line(f"const int {first} = {names[0]};")
            for target, source in zip(names, [*names[1:], first], strict=True):
                self.line(f"{target} = {source};")

    # ---------------------------------------------------------------------------------------------- cooperation

    def barrier(self, s: ir.Barrier) -> None:
        if s.scope is ir.Level.DEVICE or (s.scope is ir.Level.BLOCK and not s.reason and self.cooperative):
            self.grid_barrier()
            return
        if s.scope is ir.Level.CLUSTER:
            self.cluster_barrier()
            return
        self.join(s.scope, s.span)

    def combine_lanes(self, s: ir.CombineLanes) -> None:
        name, constant = s.var, s.var.role is not ir.Role.MUTABLE
        self.varying.add(name.name)
        text = self.expressions.converted(s.value, s.var.dtype)
        text = self.dialect.combine_lanes(s.op, s.var.dtype, s.lanes, s.stride, text)
        if constant:
            self.define(s.var)
        self.line(f"{f'const {self.scalar_type(s.var)} ' if constant else ''}{self.names.of(s.var)} = {text};")

    cooperative = False

    def named_barrier(self, s: ir.NamedBarrier) -> None:
        number, threads = self.expressions.index(s.number), self.expressions.index(s.threads)
        self.line(self.dialect.named_barrier(number, threads, s.arrives))

    def fence(self, s: ir.Fence) -> None:
        self.line(self.dialect.fence(s.scope))

    def atomic(self, s: ir.Atomic) -> None:
        def update(name: str) -> None:
            with self.guarded(s.view, s.index, s.checks, s.span) as index:
                dtype = s.view.buffer.dtype
                target = self.expressions.element(s.view, index)
                args = [self.expressions.converted(e, dtype) for e in (s.expected, s.value) if e is not None]
                call = self.dialect.atomic(s.op, dtype, space_of(s.view.buffer), f"&{target}", args)
                self.line(f"{name} = {call};" if name else f"{call};")

        self._once(s.result, update)

    def _once(self, result: ir.Var | None, effect: Callable[[str], None]) -> None:
        """What one thread of the instance does, with its result given to all of them."""
        if result is not None:
            self.varying.add(result.name)
            if not self.is_defined(result):
                self.define(result)
                zero = self.dialect.literal(0.0 if result.dtype.is_float else 0, result.dtype)
                self.line(f"{self.scalar_type(result)} {self.names.of(result)} = {zero};")
        name = self.names.of(result) if result is not None else ""
        if result is None or self.per_thread or self._elected is not None:
            with self.elected():
                effect(name)
            return
        self.varying.discard(result.name)
        slot = self.shared_slot(result)
        with self.elected():
            effect(name)
            self.line(f"{slot} = {name};")
        self.join(self.level, None)
        self.line(f"{name} = {slot};")
        if self.loops:  # the next turn writes it again
            self.join(self.level, None)

    def is_defined(self, var: ir.Var) -> bool:
        raise NotImplementedError

    # ------------------------------------------------------------------------------------------- structured ones

    def branch(self, s: ir.If) -> None:
        condition = self.expressions.value(s.condition)
        with self.block(f"if ({condition})", "} else {" if s.other else "}"):
            self._under(s.condition, s.then)
        if s.other:
            self.depth += 1
            self._under(ir.Unary("!", s.condition, BOOL), s.other)
            self.depth -= 1
            self.line("}")

    def _under(self, condition: ir.Expr, body: ir.Body) -> None:
        around = self.instance
        self.instance = list(around)
        self.conditions.append(condition)
        self.body(body)
        self.conditions.pop()
        self.instance = around
        self.forget(body)

    def forget(self, body: ir.Body) -> None:
        """Names that passes gave to scalars of a block that ends may be used again."""
        for s in body:
            if isinstance(s, (ir.Let, ir.CombineLanes)) and ":" in s.var.name:
                self.names.release(s.var)

    def masked(self, s: ir.Masked) -> None:
        with self.block(f"if ({self.expressions.value(s.predicate)})"):
            self._under(s.predicate, s.body)

    def for_loop(self, s: ir.For) -> None:
        self.define(s.var)
        name, stop = self.names.of(s.var), self._bound(s)
        self.note(s.var, (s.start, s.stop))
        pragma = self._pragma(s)
        if pragma:
            self.line(pragma)
        kind = self.index_kind(s.var, s.stop)
        step = f"++{name}" if s.step == 1 else f"{name} += {s.step}"
        around = self.instance
        self.instance = [*around, s.var]
        self.loops += 1
        with self.block(f"for ({kind} {name} = {self.expressions.index(s.start)}; {name} < {stop}; {step})"):
            self.body(s.body)
        self.loops -= 1
        self.instance = around
        self.forget(s.body)
        if ":" in s.var.name:
            self.names.release(s.var)

    def _bound(self, s: ir.For) -> str:
        """The text of a loop's end, evaluated once where it might change."""
        text = self.expressions.index(s.stop)
        if not any(
            isinstance(n, ir.Load) or (isinstance(n, ir.Var) and n.role is ir.Role.MUTABLE) for n in walk(s.stop)
        ):
            return text
        end = self.names.fresh(f"{self.names.of(s.var)}_end")
        self.line(f"const {self.index_type(s.stop)} {end} = {text};")
        return end

    def _pragma(self, s: ir.For) -> str:
        """Loops that index registers are written out in full, and small loops without barriers as well."""
        if s.unroll:
            return self.dialect.unroll(s.unroll)
        trips = _trips(s)
        if s.kind is ir.LoopKind.UNROLL:
            return self.dialect.unroll(None)
        if trips is None or trips <= 1:
            return ""
        inner = list(nested(s.body))
        if any(isinstance(n, (ir.Break, ir.Continue, ir.Yield)) for n in inner):  # every turn would have its own exits
            return ""
        if _indexes_registers(s) and trips <= 128:
            return self.dialect.unroll(None)
        if any(
            isinstance(n, (ir.Region, ir.Barrier, ir.While, ir.Copy, ir.Masked, ir.Call, ir.CxxText)) for n in inner
        ):
            return ""
        if trips <= UNROLLED_LOOP and trips * _work(s.body) <= UNROLLED_WORK:
            return self.dialect.unroll(None)
        return ""

    def while_loop(self, s: ir.While) -> None:
        self.loops += 1
        with self.block(f"while ({self.expressions.value(s.condition)})"):
            self._under(s.condition, s.body)
        self.loops -= 1

    def scope(self, s: ir.Scope) -> None:
        around = self.instance
        self.instance = list(around)
        with self.block():
            self.body(s.body)
        self.instance = around
        self.forget(s.body)

    def once(self, s: ir.Once) -> None:
        self.body(s.body, self.is_last)

    def break_loop(self, s: ir.Break) -> None:
        self.line("break;")

    def continue_loop(self, s: ir.Continue) -> None:
        self.line("continue;")

    def end_instance(self, s: ir.Yield) -> None:
        self.finish_instance()

    # --------------------------------------------------------------------------------------------- foreign code

    def call(self, s: ir.Call) -> None:
        template = ""
        if s.template:
            parts = [t if isinstance(t, str) else self.expressions.index(t) for t in s.template]
            template = f"<{', '.join(parts)}>"
        text = self.dialect.call(s.function, template, [self.argument(a) for a in s.args])
        private = any(isinstance(n, ir.View) and n.buffer.storage in PRIVATE for a in s.args for n in walk(a))
        if private or self.per_thread:  # every thread has a copy of its own to be changed
            self._call_everywhere(s, text)
        else:
            self._once(s.result, lambda name: self.line(f"{name} = {text};" if name else f"{text};"))

    def _call_everywhere(self, s: ir.Call, text: str) -> None:
        if s.result is None:
            self.line(f"{text};")
            return
        self.varying.add(s.result.name)
        if self.is_defined(s.result):
            self.line(f"{self.names.of(s.result)} = {text};")
        else:
            self.define(s.result)
            self.line(f"{self.scalar_type(s.result)} {self.names.of(s.result)} = {text};")

    def argument(self, a: ir.Node) -> str:
        """One argument of a foreign call; views are pointers to their first element."""
        if isinstance(a, ir.View):
            offset = self.expressions.index(buffer_offset(a, (integers.ZERO,) * a.rank))
            text = plus(self.expressions.pointer(a.buffer), offset)
            return self.dialect.foreign_argument(text, a.buffer.dtype, space_of(a.buffer))
        if isinstance(a, ir.AddressOf):
            text = f"&{self.expressions.element(a.view, a.index)}"
            return self.dialect.foreign_argument(text, a.view.buffer.dtype, space_of(a.view.buffer))
        if isinstance(a, ir.CxxCast):
            operand = self.dialect.null if a.operand is None else self.argument(a.operand)
            return f"({a.type})({operand})"
        if isinstance(a, ir.Expr):
            return self.expressions.value(a)
        raise Unsupported(f"fragments as arguments are not supported by the {self.dialect.name} target yet")

    def print_statement(self, s: ir.Print) -> None:
        pieces: list[tuple[str, Any]] = []
        for item in (*s.args, "\n") if s.newline else s.args:
            if isinstance(item, str):
                pieces.append((item, None))
            else:
                narrow = item.dtype.is_float and item.dtype.bits < 32
                pieces.append((self.expressions.operand(item, 0), F32 if narrow else item.dtype))
        with self.elected():
            for line in self.dialect.print(pieces):
                self.line(line)

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
        self.line(self.dialect.asm(template, operands(s.outputs), operands(s.inputs), clobbers))


def _head(s: ir.For | ir.If) -> tuple[ir.Expr, ...]:
    return (s.start, s.stop) if isinstance(s, ir.For) else (s.condition,)


def _trips(s: ir.For) -> int | None:
    start, stop = integers.value(s.start), integers.value(s.stop)
    return None if start is None or stop is None else max(0, -(-(stop - start) // s.step))


def _work(body: ir.Body) -> int:
    """Statements that a body with plain loops executes, a condition and its branches as one after the other."""
    count = 0
    for s in body:
        inside = sum(_work(inner) for inner in bodies(s))
        if isinstance(s, ir.For):
            trips = _trips(s)
            count += UNROLLED_WORK if trips is None else trips * inside
        else:
            count += 1 + inside
    return count


def _indexes_registers(s: ir.For) -> bool:
    """Whether elements of a thread's own storage are chosen by the loop's variable."""
    for node in walk(s.body):
        if isinstance(node, (ir.Load, ir.Store)) and node.view.buffer.storage in PRIVATE:
            parts = (*node.index, *node.view.map, node.view.offset, *node.view.slot)
            if depends_on(parts, {s.var.name}):
                return True
    return False


_HANDLERS: dict[type, Callable[[Statements, Any], None]] = {
    ir.Declare: Statements.declare,
    ir.Let: Statements.let,
    ir.Assign: Statements.assign,
    ir.Store: Statements.store,
    ir.SpanOp: Statements.span_op,
    ir.Copy: lambda out, s: out.copy(s),
    ir.Wait: Statements.wait,
    ir.Fence: Statements.fence,
    ir.Rotate: Statements.rotate,
    ir.Barrier: Statements.barrier,
    ir.Once: Statements.once,
    ir.NamedBarrier: Statements.named_barrier,
    ir.CombineLanes: Statements.combine_lanes,
    ir.DeclareEvent: lambda out, s: None,
    ir.Trigger: lambda out, s: out.trigger(s),
    ir.WaitEvent: lambda out, s: out.wait_event(s),
    ir.For: Statements.for_loop,
    ir.While: Statements.while_loop,
    ir.If: Statements.branch,
    ir.Masked: Statements.masked,
    ir.Scope: Statements.scope,
    ir.Break: Statements.break_loop,
    ir.Continue: Statements.continue_loop,
    ir.Yield: Statements.end_instance,
    ir.Region: lambda out, s: out.region(s),
    ir.Atomic: Statements.atomic,
    ir.Call: Statements.call,
    ir.Print: Statements.print_statement,
    ir.Assert: Statements.assertion,
    ir.CxxText: Statements.cxx_text,
    ir.Asm: Statements.asm,
}
