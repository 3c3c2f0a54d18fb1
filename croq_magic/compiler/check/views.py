"""View chains: chunkat, chunk, subspan, modspan, view/from, span_as, sqz, zfill (VEW codes)."""

from __future__ import annotations

import dataclasses
import functools

from croq_magic.compiler import integers, ir, syntax, views
from croq_magic.compiler.check import shapes
from croq_magic.compiler.check.context import Checker, decide, in_range, show
from croq_magic.compiler.check.conversions import as_scalar
from croq_magic.compiler.check.expressions import buffer_value, evaluate, flatten
from croq_magic.compiler.check.values import (
    ArrayValue,
    Bounded,
    ChoiceValue,
    FutureValue,
    ITuple,
    Scalar,
    Shape,
    SpanValue,
    Value,
)
from croq_magic.compiler.source import Span
from croq_magic.compiler.types import BOOL
from croq_magic.compiler.visit import substitute


def view(c: Checker, e: syntax.View) -> SpanValue | ChoiceValue:
    """The span that a view chain denotes, or those that one is chosen from while running."""
    value = buffer_value(c, e.base)
    text = e.base.span.text
    if isinstance(value, FutureValue):
        from croq_magic.compiler.check.expressions import require_waited

        require_waited(c, value, e.base)
        value = value.data()
    if isinstance(value, ArrayValue):
        c.fail("VEW14", f"`{text}` needs {len(value.buffer.slots)} subscripts, found 0", e.span)
    if isinstance(value, ChoiceValue):
        return ChoiceValue(value.index, tuple(_chain(c, e, span, text) for span in value.spans))
    if not isinstance(value, SpanValue):
        c.fail("TYP10", f"`{text}` is {value.describe()}; a span is needed here", e.base.span)
    return _chain(c, e, value, text)


def _chain(c: Checker, e: syntax.View, value: SpanValue, text: str) -> SpanValue:
    current, previous = value.view, None
    with c.clipping(any(isinstance(op, syntax.ZeroFill) for op in e.ops)):
        for op in e.ops:
            follows_tile = isinstance(previous, (syntax.Subspan, syntax.Window, syntax.SpanAs))
            if isinstance(op, syntax.Squeeze) and not follows_tile:
                c.fail("VEW10", "`.sqz` must follow `.subspan`, `.view` or `.span_as`", op.span)
            current = _apply(op, c, current, text)
            previous = op
    return SpanValue(dataclasses.replace(current, span=e.span), value.depth, value.chain or bool(e.ops))


@functools.singledispatch
def _apply(op: syntax.ViewOp, c: Checker, parent: ir.View, name: str) -> ir.View:
    c.unsupported(f"`{op.span.text}`", op.span)


@_apply.register
def _(op: syntax.ChunkAt, c: Checker, parent: ir.View, name: str) -> ir.View:
    arguments = _arguments(c, op.items)
    if len(arguments) != parent.rank:
        hint = (
            f"`{name}.chunkat({', '.join([*(s.text for _, s in arguments), *['_'] * (parent.rank - len(arguments))])})`"
        )
        is_or_are = "argument is" if len(arguments) == 1 else "arguments are"
        c.fail(
            "VEW01",
            f"`{name}` has rank {parent.rank} but {len(arguments)} tiling {is_or_are} given",
            op.span,
            hint if len(arguments) < parent.rank else None,
        )
    origin: list[ir.Expr] = []
    extents: list[ir.Expr] = []
    for dimension, ((value, span), extent) in enumerate(zip(arguments, parent.extents, strict=True)):
        if value is None:
            origin.append(integers.ZERO)
            extents.append(extent)
            continue
        if not isinstance(value, Bounded):
            as_scalar(c, value, span, span.text)
            c.fail("VEW04", f"`{span.text}` has no extent", span, _as_chunk(parent, arguments, name))
        c.require_bounded(extent, span)
        chunk = _chunk_extent(c, extent, value.extent, dimension, span, name)
        origin.append(integers.mul(value.value, chunk))
        extents.append(chunk)
    _warn_remainder(c, parent, arguments, name)
    return views.window(parent, tuple(origin), tuple(extents), op.span)


def _as_chunk(parent: ir.View, arguments: list[tuple[Value | None, Span]], name: str) -> str | None:
    """A tile by `chunk`, where the number of tiles is said; None where an index is beyond any tile."""
    counts, places = [], []
    for (value, place), extent in zip(arguments, parent.extents, strict=True):
        if isinstance(value, Bounded):
            count: str | None = show(value.extent)
        else:
            count = "1" if value is None else _some_tiles(value, extent)
        if count is None:
            return None
        counts.append(count)
        places.append("0" if value is None else place.text)
    return f"`{name}.chunk({', '.join(counts)}).at({', '.join(places)})`"


def _some_tiles(index: Value, extent: ir.Expr) -> str | None:
    """How many tiles an extent may be cut into, none left over, so that there is one of this index: 4 if that fits."""
    at = integers.value(index.expr) if isinstance(index, Scalar) else None
    total, least = integers.value(extent), max(2, (at or 0) + 1)
    if at is not None and at < 0:
        return None
    if total is None:
        return str(max(4, least))
    if total == 1 and not at:
        return "1"
    fitting = (parts for parts in (4, *range(least, total + 1)) if parts >= least and total % parts == 0)
    found = next(fitting, None)
    return None if found is None else str(found)


def _warn_remainder(c: Checker, parent: ir.View, arguments: list[tuple[Value | None, Span]], name: str) -> None:
    """VEW03: elements that no chunk covers; a symbolic remainder is told when arguments are bound."""
    for dimension, ((value, span), extent) in enumerate(zip(arguments, parent.extents, strict=True)):
        if not isinstance(value, Bounded):
            continue
        total, parts = integers.value(extent), integers.value(value.extent)
        if total is None or parts is None:
            message = (
                f"{show(extent)} is not a multiple of {show(value.extent)}; "
                f"the rest of dimension {dimension} of `{name}` is never addressed"
            )
            rest = ir.Binary("==", integers.mod(extent, value.extent), integers.ZERO, BOOL)
            c.require(rest, "VEW03", message, span, warning=True, values=(extent, value.extent))
        elif total % parts:
            first = total // parts * parts
            several = total - first > 1
            unit = ("row" if dimension == 0 else "element") + ("s" if several else "")
            of = "" if dimension == 0 else f" of dimension {dimension}"
            rows = f"{unit} {first}..{total - 1}{of} are" if several else f"{unit} {first}{of} is"
            tiles = [
                "_" if not isinstance(v, Bounded) else show(integers.ceildiv(e, v.extent))
                for (v, _), e in zip(arguments, parent.extents, strict=True)
            ]
            places = ["0" if v is None else s.text for v, s in arguments]
            c.warn(
                "VEW03",
                f"{total} is not a multiple of {parts}; {rows} never addressed",
                span,
                f"`{name}.subspan({', '.join(tiles)}).at({', '.join(places)})` with `.zfill`",
            )


def _chunk_extent(c: Checker, extent: ir.Expr, count: ir.Expr, dimension: int, span: Span, name: str) -> ir.Expr:
    total, parts = integers.value(extent), integers.value(count)
    if total is not None and parts is not None:
        if parts > total:
            c.fail("VEW02", f"{parts} chunks of dimension {dimension} with only {total} elements", span)
        return integers.constant(total // parts)
    c.require(
        ir.Binary("<=", count, extent, BOOL),
        "VEW02",
        f"{show(count)} chunks of dimension {dimension} with only {show(extent)} elements",
        span,
        values=(count, extent),
    )
    return integers.floordiv(extent, count)


def _arguments(c: Checker, items: tuple[syntax.Expr, ...]) -> list[tuple[Value | None, Span]]:
    """Flattened arguments of a view; None stands for `_`."""
    out: list[tuple[Value | None, Span]] = []
    for item in items:
        if isinstance(item, syntax.ShapeLit):
            out += _arguments(c, item.items)
        elif isinstance(item, syntax.Wildcard):
            out.append((None, item.span))
        else:
            out += flatten(c, (item,))
    return out


def _integers(
    c: Checker, items: tuple[syntax.Expr, ...], op: syntax.ViewOp, name: str, rank: int, what: str
) -> list[tuple[ir.Expr | None, Span]]:
    found = _arguments(c, items)
    if len(found) != rank:
        c.fail(
            "VEW01",
            f"`{name}` has rank {rank} but {len(found)} {what}{'s are' if len(found) != 1 else ' is'} given",
            op.span,
        )
    out: list[tuple[ir.Expr | None, Span]] = []
    for value, span in found:
        if value is None:
            out.append((None, span))
            continue
        s = as_scalar(c, value, span, span.text)
        if not s.type.is_integer:
            c.fail("SHP06", f"{what}s are integers, found `{s.describe()}`", span)
        out.append((s.expr, span))
    return out


def _given(c: Checker, items: list[tuple[ir.Expr | None, Span]]) -> tuple[ir.Expr, ...]:
    for item, span in items:
        if item is None:
            c.fail("NAM06", "`_` is not allowed here; write 0", span)
    return tuple(item for item, _ in items if item is not None)


def _tile_extents(
    c: Checker, op: syntax.ViewOp, items: tuple[syntax.Expr, ...], parent: ir.View, name: str
) -> tuple[ir.Expr, ...]:
    extents: list[ir.Expr] = []
    found = _integers(c, items, op, name, parent.rank, "extent")
    for dimension, ((extent, span), total) in enumerate(zip(found, parent.extents, strict=True)):
        if extent is None:
            extents.append(total)
            continue
        shapes.check_extent(c, extent, dimension, span)
        extents.append(extent)
    return tuple(extents)


def _fits(c: Checker, extents: tuple[ir.Expr, ...], parent: ir.View, op: syntax.ViewOp, code: str) -> None:
    if c.clipped:
        return  # a tile may stick out, so it may be larger than the whole
    for dimension, (extent, total) in enumerate(zip(extents, parent.extents, strict=True)):
        message = f"tile extent {show(extent)} exceeds {show(total)} in dimension {dimension}"
        c.require(ir.Binary("<=", extent, total, BOOL), code, message, op.span, values=(extent, total))


@_apply.register
def _(op: syntax.Chunk, c: Checker, parent: ir.View, name: str) -> ir.View:
    counts = _given(c, _integers(c, op.counts, op, name, parent.rank, "chunk count"))
    at = _given(c, _integers(c, op.at, op, name, parent.rank, "index"))
    extents, origin = [], []
    _at_least_one(c, counts, op.counts, "chunk count")
    for dimension, (count, index, total) in enumerate(zip(counts, at, parent.extents, strict=True)):
        extent = _chunk_extent(c, total, count, dimension, op.span, name)
        _index_in(c, parent, index, count, dimension, op.span)
        extents.append(extent)
        origin.append(integers.mul(index, extent))
    return views.window(parent, tuple(origin), tuple(extents), op.span)


def _at_least_one(c: Checker, counts: tuple[ir.Expr, ...], items: tuple[syntax.Expr, ...], what: str) -> None:
    for dimension, count in enumerate(counts):
        span = items[dimension].span if len(items) == len(counts) else items[0].span
        message = f"{what} {show(count)} of dimension {dimension} must be at least 1"
        if decide(ir.Binary(">=", count, integers.ONE, BOOL)) is False:
            c.fail("SHP01", message, span)
        c.require(ir.Binary(">=", count, integers.ONE, BOOL), "SHP01", message, span, values=(count,))


def _index_in(c: Checker, parent: ir.View, index: ir.Expr, count: ir.Expr, dimension: int, span: Span) -> None:
    """A constant tile index that does not exist is an error here; so is any in a part of a buffer, whose bounds are
    narrower than those that are proven later, where it is not in range."""
    inside = in_range(index, count)
    message = f"tile index {show(index)} of dimension {dimension}, only {show(count)} tiles exist"
    if integers.value(index) is not None and decide(inside) is False:
        c.fail("VEW06", message, span)
    if _is_part(parent) and not c.clipped:
        c.require(inside, "VEW06", message, span, values=(index, count))


def _is_part(view: ir.View) -> bool:
    """Whether a view is a window of its buffer rather than all of it."""
    shape = view.buffer.shape
    return len(shape) != view.rank or not all(map(integers.equal, view.extents, shape))


@_apply.register
def _(op: syntax.Subspan, c: Checker, parent: ir.View, name: str) -> ir.View:
    extents = _tile_extents(c, op, op.extents, parent, name)
    if op.strides is None:
        _fits(c, extents, parent, op, "VEW05")
    steps = extents
    if op.step is not None:
        steps = _given(c, _integers(c, op.step, op, name, parent.rank, "step"))
        _at_least_one(c, steps, op.step, "step")
    at: tuple[ir.Expr, ...] = (integers.ZERO,) * parent.rank
    if op.at is not None:
        at = _given(c, _integers(c, op.at, op, name, parent.rank, "index"))
    if op.kind == "modspan":
        return _modspan(c, op, parent, extents, at if op.at is not None else None, name)
    origin = tuple(integers.mul(index, step) for index, step in zip(at, steps, strict=True))
    if op.strides is not None:
        return _strided(c, op, op.strides, parent, origin, extents, name)
    for dimension, (index, step, total) in enumerate(zip(at, steps, parent.extents, strict=True)):
        _index_in(c, parent, index, integers.ceildiv(total, step), dimension, op.span)
    return views.window(parent, origin, extents, op.span)


def _modspan(
    c: Checker,
    op: syntax.Subspan,
    parent: ir.View,
    tile: tuple[ir.Expr, ...],
    at: tuple[ir.Expr, ...] | None,
    name: str,
) -> ir.View:
    extents, origin = [], []
    for dimension, (extent, total) in enumerate(zip(tile, parent.extents, strict=True)):
        rest = integers.mod(total, extent)
        message = f"no remainder to view: {show(extent)} divides {show(total)} in dimension {dimension}"
        c.require(ir.Binary(">", rest, integers.ZERO, BOOL), "VEW05", message, op.span, values=(extent, total))
        extents.append(rest)
        index = integers.floordiv(total, extent) if at is None else at[dimension]
        origin.append(integers.mul(index, extent))
    if op.strides is not None:
        return _strided(c, op, op.strides, parent, tuple(origin), tuple(extents), name)
    return views.window(parent, tuple(origin), tuple(extents), op.span)


@_apply.register
def _(op: syntax.Window, c: Checker, parent: ir.View, name: str) -> ir.View:
    if op.strides is None:
        extents = _tile_extents(c, op, op.extents, parent, name)
    else:
        extents = _given(c, _integers(c, op.extents, op, name, len(_arguments(c, op.extents)), "extent"))
    rank = len(extents)
    origin: tuple[ir.Expr, ...] = (integers.ZERO,) * rank
    if op.origin is not None:
        origin = _given(c, _integers(c, op.origin, op, name, rank, "origin"))
    if op.strides is not None:
        return _strided(c, op, op.strides, parent, origin, extents, name)
    if _is_part(parent) and not c.clipped:
        for dimension, (start, extent, total) in enumerate(zip(origin, extents, parent.extents, strict=True)):
            end = integers.add(start, extent)
            inside = ir.Binary(
                "&&", ir.Binary(">=", start, integers.ZERO, BOOL), ir.Binary("<=", end, total, BOOL), BOOL
            )
            message = f"elements {show(start)} to {show(end)} of dimension {dimension}, the view has {show(total)}"
            c.require(inside, "VEW07", message, op.span, values=(start, end, total))
    return views.window(parent, origin, extents, op.span)


def _strided(
    c: Checker,
    op: syntax.ViewOp,
    items: tuple[syntax.Expr, ...],
    parent: ir.View,
    origin: tuple[ir.Expr, ...],
    extents: tuple[ir.Expr, ...],
    name: str,
) -> ir.View:
    """A window with strides of its own, in which its origin counts too."""
    strides = _given(c, _integers(c, items, op, name, len(extents), "stride"))
    for what, found in (("stride", strides), ("origin", origin)):
        for dimension, item in enumerate(found):
            message = f"{what} {show(item)} of dimension {dimension} must not be negative"
            c.require(ir.Binary(">=", item, integers.ZERO, BOOL), "VEW07", message, op.span, values=(item,))
    view = views.strided(parent, origin, extents, strides, op.span)
    ends: dict[ir.Var, ir.Expr] = {v: integers.sub(n, integers.ONE) for v, n in zip(view.coords, extents, strict=True)}
    last, total = substitute(view.offset, ends), integers.product(parent.buffer.shape)
    if not c.clipped and decide(ir.Binary("<", last, total, BOOL)) is False:  # else the accesses are checked
        number = show(integers.simplify(last))
        message = f"the last element of the view is number {number} of `{name}`, which has {show(total)}"
        c.fail("VEW07", message, op.span, "strides count elements, and the origin is multiplied by them")
    return view


@_apply.register
def _(op: syntax.SpanAs, c: Checker, parent: ir.View, name: str) -> ir.View:
    values: list[tuple[Value, Span]] = []
    for item in op.items:
        inner = item.items if isinstance(item, syntax.ShapeLit) else (item,)
        values += [(evaluate(c, i), i.span) for i in inner]
    extents = shapes.flatten_extents(c, [(v if not isinstance(v, ITuple) else Shape(v.items), s) for v, s in values])
    before, after = integers.product(parent.extents), integers.product(extents)
    message = f"`{name}` has {show(before)} elements, the new shape {show(after)}"
    c.require(ir.Binary("==", before, after, BOOL), "VEW08", message, op.span, values=(before, after))
    if not views.is_contiguous(parent):
        _require_contiguous(c, parent, op.span)
    return views.reshape(parent, extents, op.span)


def _require_contiguous(c: Checker, view: ir.View, span: Span) -> None:
    strides = views.strides(view)
    shown = ", ".join(map(show, strides)) if strides else "not affine"
    message, hint = f"the view is not contiguous (strides {shown})", "copy it first, `dma.copy ... => local`"
    wanted: ir.Expr = integers.ONE
    conditions: list[ir.Expr] = []
    for extent, stride in zip(reversed(view.extents), reversed(strides or ()), strict=False):
        single = ir.Binary("==", extent, integers.ONE, BOOL)
        conditions.append(ir.Binary("||", single, ir.Binary("==", stride, wanted, BOOL), BOOL))
        wanted = integers.mul(wanted, extent)
    if not strides or any(decide(condition) is False for condition in conditions):
        c.fail("VEW09", message, span, hint)
    for condition in conditions:
        c.require(condition, "VEW09", message, span, hint=hint)
    c.warn("VEW09", "whether the view is contiguous depends on the arguments; it is checked with them", span, hint)


@_apply.register
def _(op: syntax.Squeeze, c: Checker, parent: ir.View, name: str) -> ir.View:
    return views.squeeze(parent, op.span)


@_apply.register
def _(op: syntax.ZeroFill, c: Checker, parent: ir.View, name: str) -> ir.View:
    return dataclasses.replace(parent, zfill=True)
