"""Statements of the tile IR as C++: what the host body and the kernels of a module have in common."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from croq_magic.compiler import integers, ir, views
from croq_magic.compiler.source import Span
from croq_magic.compiler.targets.cpu import copies, cost
from croq_magic.compiler.targets.cpu.checks import CheckSite, Operand
from croq_magic.compiler.targets.cpu.vector import VectorLoop
from croq_magic.compiler.targets.cpu.writer import Writer
from croq_magic.compiler.targets.emit_cxx import INDEX, Expressions, Names, Unsupported, compute_type, ctype, literal
from croq_magic.compiler.types import BF16, BOOL, F16, F32, S32, DType
from croq_magic.compiler.visit import walk

STACK_BYTES = 32 * 1024  # larger block or instance storage comes from the thread's scratch memory
UNPOLLED = 1 << 22  # units of work (about a millisecond) that may pass without a look at the stop flag
STRIP = 1 << 18


@dataclasses.dataclass
class ModuleState:
    """What all functions of a module share: the table of checks and the vector types in use."""

    checks: list[CheckSite] = dataclasses.field(default_factory=list)
    vectors: set[tuple[DType, int]] = dataclasses.field(default_factory=set)  # vector types: element type and lanes


class Statements(Writer):
    """Emits statements. `leave` is the C++ statement that ends the work when it must stop."""

    def __init__(self, state: ModuleState, names: Names, leave: str, depth: int = 0) -> None:
        super().__init__(depth)
        self.state = state
        self.names = names
        self.leave = leave
        self.expressions = Expressions(names, self.pointer, self.variable, self._guard)
        self.instance: list[ir.Var] = []
        self._yields: list[str] = []
        self._loops: list[str] = []  # label to leave the innermost loop by, "" where `break` does
        self.declared: set[str] = set()
        self.resident: dict[int, int] = {}  # register buffers that are arrays of vectors, by id, with their lanes

    # ---------------------------------------------------------------------------------------- hooks of subclasses

    def pointer(self, buffer: ir.Buffer) -> str:
        """C++ text whose elements are those of a buffer."""
        return self.names.of(buffer)

    def variable(self, var: ir.Var) -> str:
        """C++ text of a variable that is read."""
        return self.names.of(var)

    def declare_storage(self, s: ir.Declare) -> None:
        raise NotImplementedError

    def launch(self, s: ir.Launch) -> None:
        raise NotImplementedError

    def finish(self, s: ir.Return) -> None:
        raise NotImplementedError

    # ------------------------------------------------------------------------------------------------------ tools

    def unsupported(self, what: str, span: Span | None) -> None:
        raise Unsupported(f"{what} not supported by the CPU target yet", span)

    @contextlib.contextmanager
    def nest(self, heads: Sequence[str]) -> Iterator[None]:
        """The loops or conditions of `heads`, one inside the other."""
        with contextlib.ExitStack() as stack:
            for head in heads:
                stack.enter_context(self.block(head))
            yield

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

    def site(self, what: str, operands: Sequence[Operand], span: Span | None, dims: tuple[int, ...] = (),
             code: str = "") -> int:
        """Registers a check and returns its number."""
        start, end = (span.start, span.end) if span else (-1, -1)
        names = tuple(var.name for var in self.instance)
        self.state.checks.append(CheckSite(what, code, names, tuple(operands), dims, start, end))
        return len(self.state.checks) - 1

    def instance_values(self) -> list[str]:
        return [self.expressions.index(var) for var in self.instance]

    # ------------------------------------------------------------------------------------------------ index checks

    def _conditions(
        self, view: ir.View, index: tuple[ir.Expr, ...], checks: tuple[int, ...], temporaries: list[str]
    ) -> tuple[list[tuple[int, str, str]], str]:
        """(dimension, index, extent) of each check, and the array's name as messages show it."""

        def name_of(e: ir.Expr) -> str:
            text = self.expressions.index(e)
            if isinstance(e, (ir.Var, ir.Const)):
                return text
            name = self.names.fresh("at")
            temporaries.append(f"const {INDEX} {name} = {text};")
            return name

        found = [(d, name_of(index[d]), self.expressions.index(view.extents[d])) for d in checks]
        if view.checks:
            base, _ = views.element(view, index)
            found += [(d, name_of(base[d]), self.expressions.index(view.buffer.shape[d])) for d in view.checks]
        return found, view.buffer.name

    def _failure(self, found: Sequence[tuple[int, str, str]], what: str, span: Span | None) -> tuple[str, str]:
        """The condition under which all indices are in range, and the call that reports that one is not."""
        operands = [Operand(part) for _ in found for part in ("index", "extent")]
        number = self.site(what, operands, span, tuple(d for d, _, _ in found))
        values = [*self.instance_values(), *(text for _, index, extent in found for text in (index, extent))]
        condition = " && ".join(f"uint64_t({index}) < uint64_t({extent})" for _, index, extent in found)
        return condition, f"croq_fail({', '.join(['lane', str(number), *values])})"

    def _guard(self, node: ir.Node, view: ir.View, index: tuple[ir.Expr, ...], checks: tuple[int, ...], access: str,
               otherwise: str) -> str:
        temporaries: list[str] = []
        found, what = self._conditions(view, index, checks, temporaries)
        condition, report = self._failure(found, what, getattr(node, "span", None) or view.span)
        choice = f"CROQ_LIKELY({condition}) ? {access} : ({report}, {otherwise})"
        return f"({{ {' '.join(temporaries)} {choice}; }})" if temporaries else f"({choice})"

    @contextlib.contextmanager
    def guarded(self, view: ir.View, index: tuple[ir.Expr, ...], checks: tuple[int, ...], span: Span | None
                ) -> Iterator[None]:
        """Runs what is emitted inside only if the element is in range."""
        if not checks and not view.checks:
            yield
            return
        temporaries: list[str] = []
        found, what = self._conditions(view, index, checks, temporaries)
        condition, report = self._failure(found, what, span or view.span)
        with self.nest(["" for _ in temporaries[:1]]):
            for temporary in temporaries:
                self.line(temporary)
            with self.block(f"if (CROQ_LIKELY({condition}))", f"}} else {report};"):
                yield

    @contextlib.contextmanager
    def window_check(self, windows: Sequence[ir.View], span: Span | None) -> Iterator[None]:
        """Runs what is emitted inside only if the unproven windows lie inside their buffers. The first and the last
        element decide, as base coordinates grow with view coordinates."""
        found: list[tuple[int, str, str]] = []
        what = ""
        for view in windows:
            if not view.checks or view.zfill:
                continue
            what = what or view.buffer.name
            first, _ = views.origin(view)
            corner = tuple(integers.sub(extent, integers.ONE) for extent in view.extents)
            last, _ = views.element(view, corner)
            for d in view.checks:
                extent = self.expressions.index(view.buffer.shape[d])
                found += [(d, self.expressions.index(e), extent) for e in (first[d], last[d])]
        condition, report = self._failure(found, what, span)
        with self.block(f"if (CROQ_LIKELY({condition}))", f"}} else {report};"):
            yield

    # ------------------------------------------------------------------------------------------------- statements

    def declare(self, s: ir.Declare) -> None:
        self.declare_storage(s)
        if s.init is not None:
            value = s.init if s.init.dtype is s.buffer.dtype else ir.Cast(s.init, s.buffer.dtype)
            for slot in _all_slots(s.buffer):
                copies.fill(self, views.whole(s.buffer, slot), value)

    def let(self, s: ir.Let) -> None:
        self.define(s.var)
        constant = "" if s.var.role is ir.Role.MUTABLE or s.value is None else "const "
        value = f"{ctype(s.var.dtype)}()" if s.value is None else self.converted(s.value, s.var)
        self.line(f"{constant}{ctype(s.var.dtype)} {self.names.of(s.var)} = {value};")

    def converted(self, value: ir.Expr, var: ir.Var) -> str:
        text = self.expressions.value(value)
        return text if value.dtype is var.dtype else self.expressions.cast(text, value.dtype, var.dtype)

    def define(self, var: ir.Var) -> None:
        self.declared.add(var.name)

    def assign(self, s: ir.Assign) -> None:
        self.line(f"{self.names.of(s.var)} = {self.converted(s.value, s.var)};")

    def store(self, s: ir.Store) -> None:
        dtype = s.view.buffer.dtype
        with self.guarded(s.view, s.index, s.checks, s.span):
            target = self.expressions.element(s.view, s.index)
            value = self.expressions.value(s.value)
            if s.value.dtype is not dtype:
                value = self.expressions.cast(value, s.value.dtype, dtype)
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
        if value.dtype is not s.view.buffer.dtype:
            value = ir.Cast(value, s.view.buffer.dtype)
        statement: ir.Stmt = ir.Store(s.view, at, value, s.op, span=s.span)
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

    def nothing(self, s: ir.Stmt) -> None:
        """Completion of copies that were done at once, fences: no work."""

    def barrier(self, s: ir.Barrier) -> None:
        """At the level of its own instance a barrier joins nothing: inner regions have ended."""

    def loop(self, s: ir.For) -> None:
        if s.kind is ir.LoopKind.VECTOR:
            VectorLoop(self, s, self.resident, self.state.vectors).emit()
            return
        name, work = self.names.of(s.var), cost.body_cost(s.body)
        self.define(s.var)
        count = cost.trips(s)
        total = work * (cost.UNKNOWN_TRIPS**2 if count is None else count)
        start, stop = self.expressions.index(s.start), self._bound(s.stop, name)
        step = f"++{name}" if s.step == 1 else f"{name} += {s.step}"
        self.instance.append(s.var)
        pragma = self._pragma(s, count)
        if total < UNPOLLED or s.kind is ir.LoopKind.UNROLL:
            self._simple_loop(f"for ({INDEX} {name} = {start}; {name} < {stop}; {step})", s, pragma, poll=False)
        elif work >= STRIP >> 8:
            self._simple_loop(f"for ({INDEX} {name} = {start}; {name} < {stop}; {step})", s, pragma, poll=True)
        else:
            self._strips(s, name, start, stop, step, max(1, STRIP // work), pragma)
        self.instance.pop()

    def _bound(self, stop: ir.Expr, name: str) -> str:
        """Text of a loop's end, evaluated once when it might change."""
        text = self.expressions.index(stop)
        changing = any(
            isinstance(n, ir.Load) or (isinstance(n, ir.Var) and n.role is ir.Role.MUTABLE) for n in walk(stop)
        )
        if not changing:
            return text
        end = self.names.fresh(f"{name}_end")
        self.line(f"const {INDEX} {end} = {text};")
        return end

    @staticmethod
    def _pragma(s: ir.For, count: int | None) -> str:
        if s.kind is ir.LoopKind.UNROLL or s.unroll:
            return f"#pragma GCC unroll {s.unroll or min(count or 1, 65534)}"
        if s.kind is ir.LoopKind.PARALLEL:
            return "#pragma GCC ivdep"
        return ""

    def _simple_loop(self, head: str, s: ir.For, pragma: str, poll: bool) -> None:
        if pragma:
            self.line(pragma)
        self._loops.append("")
        with self.block(head):
            if poll:
                self.line(f"if (croq_stop(lane)) {self.leave}")
            self.body(s.body)
        self._loops.pop()

    def _strips(self, s: ir.For, name: str, start: str, stop: str, step: str, strip: int, pragma: str) -> None:
        """A long loop with a small body: the stop flag is looked at between strips, which stay vectorisable."""
        outer, end, label = (self.names.fresh(f"{name}_{word}") for word in ("strip", "stop", "done"))
        breaks = any(isinstance(node, ir.Break) for node in _own_statements(s.body))
        length = strip * s.step
        with self.block(f"for ({INDEX} {outer} = {start}; {outer} < {stop}; {outer} += {length})"):
            self.line(f"if (croq_stop(lane)) {self.leave}")
            self.line(f"const {INDEX} {end} = croq_min<{INDEX}>({stop}, {outer} + {length});")
            if pragma:
                self.line(pragma)
            self._loops.append(label if breaks else "")
            with self.block(f"for ({INDEX} {name} = {outer}; {name} < {end}; {step})"):
                self.body(s.body)
            self._loops.pop()
        if breaks:
            self.label(f"{label}:;")

    def while_loop(self, s: ir.While) -> None:
        self._loops.append("")
        with self.block(f"while ({self.expressions.value(s.condition)})"):
            self.line(f"if (croq_stop(lane)) {self.leave}")
            self.body(s.body)
        self._loops.pop()

    def branch(self, s: ir.If) -> None:
        with self.block(f"if ({self.expressions.value(s.condition)})", "} else {" if s.other else "}"):
            self.body(s.then)
        if s.other:
            self.depth += 1
            self.body(s.other)
            self.depth -= 1
            self.line("}")

    def masked(self, s: ir.Masked) -> None:
        with self.block(f"if ({self.expressions.value(s.predicate)})"):
            self.body(s.body)

    def scope(self, s: ir.Scope) -> None:
        with self.block():
            self.body(s.body)

    def break_loop(self, s: ir.Break) -> None:
        label = self._loops[-1]
        self.line(f"goto {label};" if label else "break;")

    def continue_loop(self, s: ir.Continue) -> None:
        self.line("continue;")

    def end_instance(self, s: ir.Yield) -> None:
        self.line(f"goto {self._yields[-1]};")

    @contextlib.contextmanager
    def an_instance(self, region: ir.Region) -> Iterator[None]:
        """Around the body of one instance: its indices are known, and `yield` jumps to its end."""
        self.instance += region.indices
        yields = any(isinstance(node, ir.Yield) for node in _own_statements(region.body))
        label = self.names.fresh("next_instance") if yields else ""
        self._yields.append(label)
        loops, self._loops = self._loops, []
        if yields:
            with self.block():
                yield
            self.label(f"{label}:;")
        else:
            yield
        self._loops = loops
        self._yields.pop()
        del self.instance[len(self.instance) - len(region.indices) :]

    def region(self, s: ir.Region) -> None:
        """All instances of an inner region, one after the other; the last index varies fastest, as arrays do."""
        for var in s.indices:
            self.define(var)
        pairs = list(zip(s.indices, s.extents, strict=True))
        if has_print(s.body):
            pairs.reverse()  # the language orders prints by the linear index, whose first index is the fastest
        heads = []
        for var, extent in pairs:
            name = self.names.of(var)
            if integers.value(extent) == 1:
                heads.append(f"const {INDEX} {name} = 0;")
            else:
                heads.append(f"for ({INDEX} {name} = 0; {name} < {self.expressions.index(extent)}; ++{name})")
        loops = [head for head in heads if head.startswith("for")]
        constants = [head for head in heads if not head.startswith("for")]
        with self.nest(loops or [""]):
            for constant in constants:
                self.line(constant)
            with self.an_instance(s):
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
                self.expressions.cast(self.expressions.value(e), e.dtype, dtype) if e.dtype is not dtype
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
            return copies._plus(self.expressions.pointer(a.buffer), offset)
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
        operands = [Operand(_spelling(v), "f" if v.dtype.is_float else "b" if v.dtype is BOOL else "i") for v in s.values]
        number = self.site(s.message, operands, s.span, code=s.code)
        values = [
            f"choreo::croq_bits<int64_t>(f64({self.expressions.value(v)}))" if v.dtype.is_float
            else self.expressions.value(v)
            for v in s.values
        ]
        report = f"croq_fail({', '.join(['lane', str(number), *self.instance_values(), *values])})"
        with self.block(f"if (CROQ_UNLIKELY(!({self.expressions.value(s.condition)})))"):
            self.line(f"{report};")
            self.line(self.leave)

    def cxx_text(self, s: ir.CxxText) -> None:
        self.verbatim(s.text)

    def asm(self, s: ir.Asm) -> None:
        def operands(items: Sequence[tuple[str, str, Any]]) -> str:
            texts = []
            for name, constraint, node in items:
                value = self.names.of(node) if isinstance(node, ir.Var) else self.expressions.value(node)
                texts.append((f"[{name}] " if name else "") + f'"{constraint}"({value})')
            return ", ".join(texts)

        clobbers = ", ".join(f'"{c}"' for c in s.clobbers)
        template = cxx_string(s.template.encode())
        self.line(f'__asm__ volatile("{template}" : {operands(s.outputs)} : {operands(s.inputs)} : {clobbers});')


def _spelling(e: ir.Expr) -> str:
    from croq_magic.compiler.text import format_expr

    return format_expr(e)


def _all_slots(buffer: ir.Buffer) -> list[tuple[ir.Expr, ...]]:
    slots: list[tuple[ir.Expr, ...]] = [()]
    for extent in buffer.slots:
        slots = [(*slot, integers.constant(i)) for slot in slots for i in range(extent)]
    return slots


def _own_statements(body: ir.Body) -> Iterator[ir.Stmt]:
    from croq_magic.compiler.passes.structure import nested

    return nested(body)


def has_print(body: ir.Body | ir.Stmt) -> bool:
    return any(isinstance(node, ir.Print) for node in walk(body))


def cxx_string(data: bytes) -> str:
    """Bytes as the inside of a C++ string literal."""
    out = []
    for byte in data:
        char = chr(byte)
        if char in '"\\':
            out.append("\\" + char)
        elif char == "\n":
            out.append("\\n")
        elif 32 <= byte < 127 and char != "?":
            out.append(char)
        else:
            out.append(f"\\{byte:03o}")
    return "".join(out)


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
    ir.Barrier: Statements.barrier,
    ir.For: Statements.loop,
    ir.While: Statements.while_loop,
    ir.If: Statements.branch,
    ir.Masked: Statements.masked,
    ir.Scope: Statements.scope,
    ir.Break: Statements.break_loop,
    ir.Continue: Statements.continue_loop,
    ir.Yield: Statements.end_instance,
    ir.Region: Statements.region,
    ir.Atomic: Statements.atomic,
    ir.Call: Statements.call,
    ir.Print: Statements.print_statement,
    ir.Assert: Statements.assertion,
    ir.CxxText: Statements.cxx_text,
    ir.Asm: Statements.asm,
    ir.Launch: lambda out, s: out.launch(s),
    ir.Return: lambda out, s: out.finish(s),
}
