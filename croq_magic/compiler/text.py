"""The tile IR as text: what `Program.ir()` shows and what pass tests compare.

Elements are printed in base coordinates, so nothing of the surface syntax of views is left. A `?` after a coordinate
marks an access that is checked while running.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from croq_magic.compiler import integers, ir, views

_PRECEDENCE = {
    **dict.fromkeys(("*", "/", "%"), 9),
    **dict.fromkeys(("+", "-"), 8),
    **dict.fromkeys(("<<", ">>"), 7),
    **dict.fromkeys(("<", "<=", ">", ">="), 6),
    **dict.fromkeys(("==", "!="), 5),
    "&": 4,
    "^": 3,
    "|": 2,
    "&&": 1,
    "||": 0,
}


def format_expr(e: ir.Node, parent: int = -1) -> str:
    """An expression, in the C precedence that generated code has too."""
    if isinstance(e, ir.Var):
        return e.name
    if isinstance(e, ir.Const):
        return _constant(e)
    if isinstance(e, ir.Unary):
        return f"{e.op}{format_expr(e.operand, 10)}"
    if isinstance(e, ir.Binary):
        level = _PRECEDENCE[e.op]
        op = e.op + "?" if e.checked else e.op
        text = f"{format_expr(e.left, level)} {op} {format_expr(e.right, level + 1)}"
        return f"({text})" if level < parent else text
    if isinstance(e, ir.Select):
        text = f"{format_expr(e.condition, 0)} ? {format_expr(e.then, 0)} : {format_expr(e.other, 0)}"
        return f"({text})" if parent >= 0 else text
    if isinstance(e, ir.Cast):
        return f"{e.dtype}({format_expr(e.operand)})"
    if isinstance(e, ir.Builtin):
        return f"{e.name}({_list(e.args)})"
    if isinstance(e, ir.Load):
        return format_element(e.view, e.index, e.checks)
    if isinstance(e, ir.View):
        return format_view(e)
    if isinstance(e, ir.AddressOf):
        return "&" + format_element(e.view, e.index, ())
    if isinstance(e, ir.CxxCast):
        return f'cast<"{e.type}">({"nullptr" if e.operand is None else format_expr(e.operand)})'
    if isinstance(e, ir.FragmentRef):
        return e.fragment.name + "".join(f"[{format_expr(s)}]" for s in e.slot)
    if isinstance(e, ir.Fragment):
        return e.name
    if isinstance(e, ir.FragmentLoad):
        return f"{format_expr(e.source)}[{_list(e.index)}]"
    raise TypeError(f"not an expression: {e!r}")


def _constant(e: ir.Const) -> str:
    if isinstance(e.value, bool):
        return "true" if e.value else "false"
    if e.dtype.is_float:
        return f"{e.value!r}{'f' if e.dtype.name == 'f32' else '' if e.dtype.name == 'f64' else e.dtype.name}"
    return str(e.value)


def _list(items: Iterable[ir.Node]) -> str:
    return ", ".join(format_expr(item) for item in items)


def _slots(buffer: ir.Buffer | ir.Event, slot: tuple[ir.Expr, ...]) -> str:
    return buffer.name + "".join(f"[{format_expr(s)}]" for s in slot)


def format_element(view: ir.View, index: tuple[ir.Expr, ...], checks: tuple[int, ...]) -> str:
    """One element, in base coordinates; `checks` are dimensions of the view, marked on the whole access."""
    coords, _ = views.element(view, index)
    mark = "?" if checks else ""
    return f"{_slots(view.buffer, view.slot)}[{_list(coords)}]{mark}"


def format_view(view: ir.View) -> str:
    """`buffer` for all of it, else `buffer[base coordinates : extents]`, with c0, c1, ... the view's coordinates."""
    name = _slots(view.buffer, view.slot)
    if (
        view.map == view.coords
        and view.rank == len(view.buffer.shape)
        and all(integers.equal(a, b) for a, b in zip(view.extents, view.buffer.shape, strict=True))
    ):
        text = name
    else:
        text = f"{name}[{_list(view.map)} : {_list(view.extents)}]"
    return text + (" zfill" if view.zfill else "") + ("?" if view.checks else "")


def _index(var: ir.Var, extent: ir.Expr) -> str:
    return f"{var.name} < {format_expr(extent)}"


class _Printer:
    def __init__(self) -> None:
        self.lines: list[str] = []
        self.depth = 0

    def line(self, text: str) -> None:
        self.lines.append("  " * self.depth + text)

    def block(self, head: str, body: ir.Body, remark: str = "") -> None:
        self.line(head + " {" + (f"  // {remark}" if remark else ""))
        self.depth += 1
        for statement in body:
            self.statement(statement)
        self.depth -= 1
        self.line("}")

    def statement(self, s: ir.Stmt) -> None:
        for cls, method in _STATEMENTS:
            if isinstance(s, cls):
                method(self, s)
                return
        raise TypeError(f"not a statement: {s!r}")

    def declare(self, s: ir.Declare) -> None:
        b = s.buffer
        slots = "".join(f"[{n}]" for n in b.slots)
        extra = (" zeroed" if b.zeroed else "") + (f" swizzle {b.layout}" if b.layout else "")
        init = "" if s.init is None else f" = {format_expr(s.init)}"
        self.line(f"{b.storage.value} {b.name}{slots}: {b.dtype} [{_list(b.shape)}]{extra}{init}")

    def copy(self, s: ir.Copy) -> None:
        words = [f"{s.engine}.copy" if s.engine != "dma" else "copy"]
        if s.token:
            words.append(f"async {s.token.name}")
        if s.pad:
            low, high = _list(p[0] for p in s.pad), _list(p[1] for p in s.pad)
            words.append(f"pad {{{low}}} {{{high}}} {format_expr(s.pad_value) if s.pad_value is not None else 0}")
        if s.permutation:
            words.append(f"transpose {{{', '.join(map(str, s.permutation))}}}")
        if s.compressed:
            words.append(f"compressed {s.compressed}")
        words += [*s.hints, format_view(s.src), "=>", format_view(s.dst)]
        if s.partial:
            words.append("partial")
        if s.after:
            words.append(f"after {s.after.name}")
        self.line(" ".join(words))

    def region(self, s: ir.Region) -> None:
        level = "?" if s.level is None else s.level.value
        names = ", ".join(_index(v, e) for v, e in zip(s.indices, s.extents, strict=True))
        extra = (" implied" if s.implied else "") + (" cooperative" if s.attributes.cooperative else "")
        if s.attributes.launch_bounds:
            extra += f" launch_bounds({', '.join(map(str, s.attributes.launch_bounds))})"
        if s.attributes.maxnreg:
            extra += f" maxnreg({s.attributes.maxnreg})"
        if s.attributes.device:
            extra += f" device({s.attributes.device})"
        reason = s.fibers.reason if s.fibers is not None else ""
        self.block(f"region {level} [{names}]{extra}" + (" fibers" if reason else ""), s.body, reason)

    def loop(self, s: ir.For) -> None:
        kind = "" if s.kind is ir.LoopKind.SERIAL else f" {s.kind.value}"
        step = "" if s.step == 1 else f" step {s.step}"
        unroll = f" unroll({s.unroll})" if s.unroll else ""
        bounds = f"{format_expr(s.start)}..{format_expr(s.stop)}"
        self.block(f"for{kind} {s.var.name} in {bounds}{step}{unroll}", s.body)

    def conditional(self, s: ir.If) -> None:
        self.block(f"if {format_expr(s.condition)}", s.then)
        if s.other:
            self.lines.pop()
            self.block("} else", s.other)

    def store(self, s: ir.Store) -> None:
        streaming = " streaming" if s.streaming else ""
        self.line(f"{format_element(s.view, s.index, s.checks)} {s.op}= {format_expr(s.value)}{streaming}")

    def atomic(self, s: ir.Atomic) -> None:
        args = [format_element(s.view, s.index, s.checks)]
        args += [format_expr(a) for a in (s.expected, s.value) if a is not None]
        result = f"{s.result.name} = " if s.result else ""
        self.line(f"{result}atomic_{s.op}({', '.join(args)})")

    def call(self, s: ir.Call) -> None:
        template = ""
        if s.template:
            template = f"<{', '.join(t if isinstance(t, str) else format_expr(t) for t in s.template)}>"
        result = f"{s.result.name} = " if s.result else ""
        self.line(f"{result}call {s.function}{template}({_list(s.args)})")

    def prints(self, s: ir.Print) -> None:
        args = ", ".join(repr(a) if isinstance(a, str) else format_expr(a) for a in s.args)
        self.line(f"{'println' if s.newline else 'print'}({args})")

    def event(self, word: str, s: ir.Trigger | ir.WaitEvent) -> None:
        order = "" if s.order is None else f".at({format_expr(s.order)})"
        after = ""
        if isinstance(s, ir.Trigger) and s.after:
            after = " after " + ", ".join(t.name for t in s.after)
        self.line(f"{word} {_slots(s.event, s.slot)}{order}{after}")

    def mma(self, s: ir.Mma) -> None:
        parts = [format_expr(s.accumulator), format_expr(s.a), format_expr(s.b)]
        if s.metadata:
            parts.append(format_expr(s.metadata))
        if s.scales:
            parts += [format_expr(s.scales[0]), format_expr(s.scales[1])]
        kind = "".join(f".{word}" for word in s.layout)
        schedule = f" schedule({', '.join(map(str, s.schedule))})" if s.schedule else ""
        token = f" async {s.token.name}" if s.token else ""
        self.line(f"mma{kind} {', '.join(parts)}{schedule}{token}")

    def fragment(self, s: ir.DeclareFragment) -> None:
        f = s.fragment
        slots = "".join(f"[{n}]" for n in f.slots)
        init = "" if s.init is None else f" = {format_expr(s.init)}"
        self.line(f"fragment {f.name}{slots}: {f.dtype} [{_list(f.shape)}] per {f.owner.value}{init}")

    def asm(self, s: ir.Asm) -> None:
        operands = ", ".join(f'"{c}"({format_expr(v)})' for _, c, v in (*s.outputs, *s.inputs))
        self.line(f"asm {s.template!r} {operands}")


def _lanes(s: ir.CombineLanes) -> str:
    """How many lanes, and how far apart if they are no neighbours."""
    return f"{s.lanes}, {s.stride}" if s.stride > 1 else str(s.lanes)


def _plain(make: Callable[[Any], str]) -> Callable[[_Printer, Any], None]:
    return lambda printer, s: printer.line(make(s))


def _masked(printer: _Printer, s: ir.Masked) -> None:
    printer.block(f"inthreads{'.async' if s.is_async else ''} {format_expr(s.predicate)}", s.body)


def _launch(printer: _Printer, s: ir.Launch) -> None:
    words = "launch" + (".async" if s.is_async else "") + (f"<{s.stream}>" if s.stream else "")
    printer.block(f"{words} {s.kernel.name}", (s.kernel.region,))


def _apply(printer: _Printer, s: ir.Apply) -> None:
    names = ", ".join(v.name for v in s.indices)
    printer.block(f"apply [{names}] in {format_expr(s.fragment)}", s.body)


def _value(v: object) -> str:
    return "" if v is None else " " + format_expr(v)  # type: ignore[arg-type]


_STATEMENTS: tuple[tuple[type[ir.Stmt], Callable[[_Printer, Any], None]], ...] = (
    (ir.Declare, _Printer.declare),
    (ir.Store, _Printer.store),
    (ir.Copy, _Printer.copy),
    (ir.For, _Printer.loop),
    (ir.Region, _Printer.region),
    (ir.If, _Printer.conditional),
    (
        ir.Let,
        _plain(
            lambda s: (
                f"{'mutable' if s.var.role is ir.Role.MUTABLE else 'let'} {s.var.name}: {s.var.dtype}"
                + ("" if s.value is None else f" = {format_expr(s.value)}")
            )
        ),
    ),
    (ir.Assign, _plain(lambda s: f"{s.var.name} = {format_expr(s.value)}")),
    (ir.SpanOp, _plain(lambda s: f"{format_view(s.view)} {s.op}= {format_expr(s.value)}")),
    (ir.While, lambda p, s: p.block(f"while {format_expr(s.condition)}", s.body)),
    (ir.Scope, lambda p, s: p.block("scope", s.body)),
    (ir.Barrier, _plain(lambda s: f"barrier {s.scope.value}" + (f"  // {s.reason}" if s.reason else ""))),
    (
        ir.NamedBarrier,
        _plain(
            lambda s: f"{'arrive' if s.arrives else 'barrier'} #{format_expr(s.number)} of {format_expr(s.threads)}"
        ),
    ),
    (ir.Once, lambda p, s: p.block(f"once {s.scope.value}", s.body)),
    (ir.Fence, _plain(lambda s: f"fence {s.scope.value}")),
    (ir.Wait, _plain(lambda s: "wait " + ", ".join(t.name for t in s.tokens))),
    (ir.Rotate, _plain(lambda s: "rotate " + ", ".join(v.name for v in s.slots))),
    (ir.Trigger, lambda p, s: p.event("trigger", s)),
    (ir.WaitEvent, lambda p, s: p.event("spin" if s.spin else "wait", s)),
    (
        ir.DeclareEvent,
        _plain(
            lambda s: (
                f"{s.event.storage.value} event {_slots(s.event, ())}"
                + "".join(f"[{n}]" for n in s.event.slots)
                + (" ready" if s.event.ready else "")
            )
        ),
    ),
    (ir.Atomic, _Printer.atomic),
    (ir.Call, _Printer.call),
    (ir.Print, _Printer.prints),
    (ir.Assert, _plain(lambda s: f"assert {format_expr(s.condition)}, {s.message!r}")),
    (ir.CxxText, _plain(lambda s: f"c++ {s.text!r}")),
    (ir.Asm, _Printer.asm),
    (ir.Break, _plain(lambda s: "break")),
    (ir.Continue, _plain(lambda s: "continue")),
    (ir.Yield, _plain(lambda s: "yield")),
    (ir.Masked, _masked),
    (ir.DeclareFragment, _Printer.fragment),
    (ir.FragmentStore, _plain(lambda s: f"{format_expr(s.target)}[{_list(s.index)}] {s.op}= {format_expr(s.value)}")),
    (ir.FragmentFill, _plain(lambda s: f"fragment_fill {s.fragment.name}, {format_expr(s.value)}")),
    (ir.MmaFill, _plain(lambda s: f"mma.fill {format_expr(s.target)}, {format_expr(s.value)}")),
    (ir.MmaLoad, _plain(lambda s: f"mma.load {format_view(s.view)}, {format_expr(s.target)}")),
    (ir.Mma, _Printer.mma),
    (
        ir.MmaScale,
        _plain(lambda s: f"mma.scale {format_expr(s.target)}, {format_view(s.row_scale)}, {format_expr(s.scale)}"),
    ),
    (
        ir.MmaStore,
        _plain(
            lambda s: (
                f"mma.store{'.transp' if s.transpose else ''} {format_expr(s.source)}, "
                f"{format_view(s.view)}" + "".join(f", {format_expr(m)}" for m in s.mask)
            )
        ),
    ),
    (ir.MmaCommit, _plain(lambda s: "mma.commit")),
    (ir.FragmentOp, _plain(lambda s: f"{format_expr(s.target)} {s.op}= {format_expr(s.value)}")),
    (ir.Apply, _apply),
    (ir.FragmentReduce, _plain(lambda s: f"reduce_{s.op} {format_expr(s.target)}, {format_expr(s.source)}, {s.axis}")),
    (
        ir.CombineLanes,
        _plain(lambda s: f"{s.var.name} = lanes_{s.op}<{_lanes(s)}>({format_expr(s.value)})"),
    ),
    (ir.FragmentCopy, _plain(lambda s: f"fragment_copy {format_expr(s.target)}, {format_expr(s.source)}")),
    (ir.Launch, _launch),
    (ir.SyncHost, _plain(lambda s: "sync host")),
    (ir.Return, _plain(lambda s: "return" + _value(s.value))),
)


def _param(p: ir.Param) -> str:
    if p.kind == "stream":
        return f"{p.name}: stream"
    if p.kind == "scalar":
        return f"{p.name}: {p.dtype}"
    words = ("global " if p.is_global else "") + f"{p.dtype} [{_list(p.extents)}]"
    return f"{p.name}: {words}" + ("&" if p.in_out else "")


def format_function(function: ir.Function) -> str:
    """A whole function, one statement a line, two blanks a level."""
    printer = _Printer()
    result = ""
    if function.result is not None:
        result = f" -> {function.result.dtype}"
        if function.result.extents is not None:
            result += f" [{_list(function.result.extents)}]"
    checks = tuple(function.checks)
    printer.block(f"func {function.name}({', '.join(map(_param, function.params))}){result}", (*checks, *function.body))
    return "\n".join(printer.lines) + "\n"


def format_body(body: ir.Body) -> str:
    """Statements alone, for messages and tests."""
    printer = _Printer()
    for statement in body:
        printer.statement(statement)
    return "\n".join(printer.lines) + "\n"
