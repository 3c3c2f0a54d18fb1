"""`parallel`, `inthreads`, barriers and fences (PAR codes that need no level mapping)."""

from __future__ import annotations

from croq_magic.compiler import integers, ir, syntax
from croq_magic.compiler.check import shapes
from croq_magic.compiler.check.context import Checker, Nest, free_variables, show
from croq_magic.compiler.check.conversions import as_scalar
from croq_magic.compiler.check.expressions import condition, constant_integer, evaluate, integer
from croq_magic.compiler.check.loops import once
from croq_magic.compiler.check.values import Bounded, BoundedTuple, Driver
from croq_magic.compiler.source import Span
from croq_magic.compiler.types import BOOL, S32

_LEVELS = {level.value: level for level in ir.Level} | {"term": ir.Level.THREAD}
_DEVICES = ("cpu", "gpu")
MOST_BARRIERS = 15
WARP = 32


def parallel(c: Checker, s: syntax.Parallel) -> None:
    """A launch on the host, a further level inside one."""
    if c.masked:
        c.fail("PAR14", "`parallel` cannot start inside `inthreads`; nest it the other way round", s.span)
    if c.in_device and (s.is_async or s.stream is not None):
        c.fail("PAR10", "only the outermost level may be asynchronous or name a stream", s.span)
    if s.stream is not None:
        symbol = c.find(s.stream.text)
        from croq_magic.compiler.check.values import StreamValue

        if symbol is None or not isinstance(symbol.value, StreamValue):
            c.fail("PAR11", f"`{s.stream.text}` is not a `stream` parameter", s.stream.span)
    seen: set[str] = set()
    for group in s.groups:
        for name in (*group.names, *([group.whole] if group.whole else [])):
            if name.text in seen:
                c.error(
                    "PAR08" if group.whole and name is group.whole else "NAM08",
                    f"`{name.text}` already names an axis of this `parallel`",
                    name.span,
                )
            seen.add(name.text)
    outermost = not c.in_device
    loops, c.loops = c.loops, 0
    guards, skipped = c.guards, c.maybe_skipped
    region = _group(c, s, 0)
    c.loops = loops
    c.guards, c.maybe_skipped = guards, skipped
    if not outermost:
        c.emit(region)
        return
    kernel = ir.Kernel(c.fresh(f"{c.symbol}_kernel{c.launches or ''}"), region)
    c.launches += 1
    c.emit(ir.Launch(kernel, s.is_async, s.stream.text if s.stream else "", span=s.span))


def _group(c: Checker, s: syntax.Parallel, position: int) -> ir.Region:
    """One comma group of a `parallel` and everything inside it."""
    group = s.groups[position]
    extents = _extents(c, group)
    attributes = _attributes(c, s, group) if position == 0 else ir.RegionAttributes(cooperative=group.cooperative)
    level = _LEVELS[group.level.word] if group.level else None
    labels = [n.text for n in group.names] or [group.whole.text if group.whole else "p"] * (len(extents) == 1)
    if not labels:
        labels = [f"p{i}" for i in range(len(extents))]
    indices = tuple(
        ir.Var(c.fresh(label), S32, ir.Role.REGION, integers.ZERO, extent)
        for label, extent in zip(labels, extents, strict=True)
    )
    single = all(integers.value(extent) == 1 for extent in extents)
    with c.scope("`parallel`", s.span):
        c.nest.append(Nest(group.level.word if group.level else None, indices, extents, single, group.cooperative))
        try:
            _declare(c, group, indices, extents)
            if position + 1 < len(s.groups):
                with c.collect() as statements:
                    inner = _group(c, s, position + 1)
                    c.emit(inner)
                body = tuple(statements)
            else:
                body = _inline_body(c, s.body)
        finally:
            c.nest.pop()
    return ir.Region(level, indices, extents, body, attributes, span=group.span)


def _inline_body(c: Checker, body: syntax.Stmt) -> ir.Body:
    from croq_magic.compiler.check.statements import body as check_body

    return check_body(c, body, "`parallel`")


def _extents(c: Checker, group: syntax.AxisGroup) -> tuple[ir.Expr, ...]:
    extents: list[ir.Expr] = []
    for bound in group.bounds:
        value = evaluate(c, bound)
        items = shapes.items_of(value)
        for e in items if items is not None else (as_scalar(c, value, bound.span, bound.span.text).expr,):
            if not e.dtype.is_integer:
                c.fail("PAR07", f"a parallel extent is an integer, found `{e.dtype}`", bound.span)
            extents.append(_extent(c, e, bound.span))
    if group.braced and len(group.names) != len(extents):
        c.fail(
            "PAR08",
            f"{_count(len(group.names), 'name')} for {_count(len(extents), 'extent')}",
            group.span,
        )
    if not group.braced and group.names and len(extents) != 1:
        names = ", ".join(f"{group.names[0].text}{i}" for i in range(len(extents)))
        shown = ", ".join(map(show, extents))
        c.fail(
            "PAR09",
            f"`{group.names[0].text}` cannot have {len(extents)} extents",
            group.span,
            f"`{{{names}}} by [{shown}]`",
        )
    if len(extents) > 3:
        c.fail(
            "PAR09",
            f"{len(extents)} axes in one level; a level has at most three",
            group.span,
            "nest a second `parallel`",
        )
    return tuple(extents)


def _count(number: int, word: str) -> str:
    return f"{number} {word}{'' if number == 1 else 's'}"


def _extent(c: Checker, e: ir.Expr, span: Span) -> ir.Expr:
    number = integers.value(e)
    if number is not None and number < 1:
        c.fail("PAR07", f"parallel extent must be at least 1, found {number}", span)
    c.require_countable(e, span)
    e = once(c, e, "extent", span)
    c.require(
        ir.Binary(">=", e, integers.ONE, BOOL),
        "RTA04",
        f"parallel extent `{show(e)}` must be at least 1",
        span,
        runtime=f"parallel extent `{show(e)}` must be at least 1",
        values=(e,),
    )
    return e


def _declare(c: Checker, group: syntax.AxisGroup, indices: tuple[ir.Var, ...], extents: tuple[ir.Expr, ...]) -> None:
    items = tuple(
        Bounded(var, extent, Driver(var.name, True, c.depth + len(c.scopes), group.span), c.depth)
        for var, extent in zip(indices, extents, strict=True)
    )
    for name, item in zip(group.names, items, strict=False):
        c.declare(name, item)
    if group.whole is not None and all(group.whole.text != name.text for name in group.names):
        c.declare(group.whole, BoundedTuple(items) if group.names else items[0])


def _attributes(c: Checker, s: syntax.Parallel, group: syntax.AxisGroup) -> ir.RegionAttributes:
    bounds: tuple[int, ...] = ()
    registers = 0
    for attribute in s.attributes:
        name = attribute.name.text
        message = f"`{name}` needs compile-time integers"
        numbers = []
        for argument in attribute.args:
            if isinstance(argument, syntax.FloatLit):
                c.fail("PAR27", message, argument.span)
            numbers.append(constant_integer(c, argument, "PAR27", message))
        if name == "launch_bounds":
            bounds = tuple(numbers)
        elif name == "maxnreg" and numbers:
            registers = numbers[0]
    device = group.device.text if group.device else ""
    if device and device not in _DEVICES:
        assert group.device is not None
        c.fail("PAR24", f"unknown device `{device}`", group.device.span, f"known: {', '.join(_DEVICES)}")
    return ir.RegionAttributes(bounds, registers, group.cooperative, device)


# --------------------------------------------------------------------------------------------- masks and barriers


def inthreads(c: Checker, s: syntax.InThreads) -> None:
    if not c.in_device:
        c.fail("PAR13", "`inthreads` needs an enclosing `parallel`", s.span)
    if s.is_async and c.masked:
        c.fail("PAR13", "only the outermost `inthreads` may be asynchronous", s.span)
    test = condition(c, s.condition)
    _check_mask(c, s, test)
    from croq_magic.compiler.check.statements import body

    c.masked += 1
    c.guards.append(test)
    statements = body(c, s.body, "`inthreads`")
    c.guards.pop()
    c.masked -= 1
    c.emit(ir.Masked(test, statements, s.is_async, span=s.span))


def _check_mask(c: Checker, s: syntax.InThreads, test: ir.Expr) -> None:
    indices = [v for v in free_variables(test) if isinstance(v, ir.Var) and v.role is ir.Role.REGION]
    if not indices and not any(
        isinstance(v, ir.Var) and v.role in (ir.Role.MUTABLE, ir.Role.LET) for v in free_variables(test)
    ):
        c.fail("PAR12", "the predicate is the same for all threads", s.condition.span, "use `if`")
    for part in _comparisons(test):
        used = [v for v in free_variables(part) if isinstance(v, ir.Var) and v.role is ir.Role.REGION]
        if len(used) > 1:
            c.fail("PAR28", "a mask comparison may use one parallel variable", s.condition.span, "split it or use `if`")


def _comparisons(e: ir.Expr) -> list[ir.Expr]:
    if isinstance(e, ir.Binary) and e.op in ("&&", "||"):
        return _comparisons(e.left) + _comparisons(e.right)
    if isinstance(e, ir.Unary) and e.op == "!":
        return _comparisons(e.operand)
    return [e]


def barrier(c: Checker, s: syntax.Barrier) -> None:
    level = _LEVELS[s.level.word]
    if not c.in_device:
        c.fail("PAR13", "a barrier needs an enclosing `parallel`", s.span)
    if level is ir.Level.DEVICE and not any(nest.cooperative for nest in c.nest):
        c.fail("PAR25", "a grid barrier needs `block<cooperative>`", s.span)
    if level is ir.Level.THREAD:
        level = _unit(c)
    _check_divergence(c, level, s.span)
    c.emit(ir.Barrier(level, span=s.span))


def _unit(c: Checker) -> ir.Level:
    """The innermost unit around the current statement that is coarser than a thread."""
    for nest in reversed(c.nest):
        if nest.level in ("group", "group-4"):
            return ir.Level(nest.level)
    return ir.Level.BLOCK


def sync(c: Checker, s: syntax.Sync) -> None:
    word = s.storage.word
    if word == "local":
        return
    if word == "global":
        if c.in_device:
            c.fail(
                "PAR13",
                "`sync.global` waits for launches and stands on the host",
                s.span,
                "`sync.shared` is the barrier of a block",
            )
        c.emit(ir.SyncHost(span=s.span))
        return
    if not c.in_device:
        c.fail("PAR13", "`sync.shared` needs an enclosing `parallel`", s.span)
    _check_divergence(c, ir.Level.BLOCK, s.span)
    c.emit(ir.Barrier(ir.Level.BLOCK, span=s.span))


def _check_divergence(c: Checker, scope: ir.Level, span: Span) -> None:
    """PAR15: all participants of a barrier must reach it, so no condition around it may tell them apart."""
    if c.masked and scope.depth <= ir.Level.BLOCK.depth:
        c.fail(
            "PAR15",
            "a barrier of the block inside `inthreads`, which not all threads enter: deadlock",
            span,
            "`sync.barrier : group` joins the threads of a group",
        )
    inner = c.thread_indices(scope)
    if any(var in inner for guard in c.guards for var in free_variables(guard)):
        c.fail("PAR15", "barrier under a condition that differs between threads: deadlock", span)


def named_barrier(c: Checker, e: syntax.BarrierCall) -> None:
    """`__bar_sync(number, threads)` and `__bar_arrive`, which counts without waiting."""
    name = e.name.text
    if not c.in_device:
        c.fail("PAR13", f"`{name}` needs an enclosing `parallel`", e.span)
    if len(e.args) != 2:
        c.fail("CAL08", f"`{name}` takes 2 arguments, found {len(e.args)}", e.span)
    number, threads = (
        integer(c, a, what) for a, what in zip(e.args, ("a barrier", "a number of threads"), strict=True)
    )
    inside = _both(
        ir.Binary(">=", number, integers.ONE, BOOL), ir.Binary("<=", number, integers.constant(MOST_BARRIERS), BOOL)
    )
    text = f"there is no barrier {show(number)}; their numbers are 1 to {MOST_BARRIERS}"
    c.require(inside, "PAR29", text, e.args[0].span, values=(number,))
    warps = ir.Binary("==", integers.mod(threads, integers.constant(WARP)), integers.ZERO, BOOL)
    whole = _both(ir.Binary(">", threads, integers.ZERO, BOOL), warps)
    text = f"`{name}` counts whole warps; {show(threads)} is not a positive multiple of {WARP}"
    c.require(whole, "PAR29", text, e.args[1].span, values=(threads,))
    c.emit(ir.NamedBarrier(number, threads, name == "__bar_arrive", span=e.span))


def _both(a: ir.Expr, b: ir.Expr) -> ir.Expr:
    return ir.Binary("&&", a, b, BOOL)


def fence(c: Checker, s: syntax.Fence) -> None:
    c.emit(ir.Fence(_LEVELS[s.level.word], span=s.span))


def yields(c: Checker, s: syntax.Yield) -> None:
    if not c.in_device:
        c.fail("PAR23", "`yield` is allowed only inside `parallel`", s.span)
    c.emit(ir.Yield(span=s.span))
