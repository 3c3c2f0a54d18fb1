"""Storage: where spans may live, and who may write them (STO and DYN codes)."""

from __future__ import annotations

import math
from collections.abc import Sequence

from croq_magic.compiler import integers, ir, syntax, views
from croq_magic.compiler.check import shapes
from croq_magic.compiler.check.context import Checker, show
from croq_magic.compiler.check.conversions import as_scalar, store_as
from croq_magic.compiler.check.expressions import constant_integer, evaluate
from croq_magic.compiler.check.handles import shared_slot
from croq_magic.compiler.check.values import ArrayValue, SpanValue, Value
from croq_magic.compiler.limits import MAX_SLOTS
from croq_magic.compiler.source import Span
from croq_magic.compiler.types import BY_NAME, DType


def span_declaration(c: Checker, s: syntax.SpanDecl) -> None:
    """`shared f32 [16, K] a, b[2] {0}`."""
    word = s.storage.word if s.storage else "global"
    storage = ir.Storage(word)
    first = s.items[0].name.text
    if not c.in_device and storage is not ir.Storage.GLOBAL:
        _poison(c, s)
        c.fail("STO01", f"`{word}` storage exists only inside `parallel`", s.storage.span if s.storage else s.span)
    if c.in_device and storage is ir.Storage.GLOBAL:
        _poison(c, s)
        c.fail(
            "STO02",
            f"`{first}` would be `global`; inside `parallel` write `shared` or `local`",
            s.items[0].name.span,
            f"`local {s.type.word} [...] {first}`",
        )
    extents = _extents(c, s)
    dtype = BY_NAME[s.type.name]
    for extent in extents:
        require_constant(c, extent, storage, s.span)
    for item in s.items:
        slots = array_dimensions(c, item.name, item.array)
        init = None if item.value is None else _initial(c, evaluate(c, item.value), item, dtype)
        zeroed = storage is ir.Storage.GLOBAL and init is None
        shared = None if slots else shared_slot(c, item.name.text, dtype, storage, extents, 0, item.span)
        if shared is not None:
            if init is not None:
                c.emit(ir.SpanOp(shared, init, span=item.span))
            c.declare(item.name, SpanValue(shared, c.depth), storage)
            continue
        buffer = ir.Buffer(
            c.fresh(item.name.text),
            dtype,
            storage,
            extents,
            slots,
            alignment=64 if zeroed else 128,
            zeroed=zeroed,
            span=item.span,
        )
        c.emit(ir.Declare(buffer, init, span=item.span))
        value: Value = ArrayValue(buffer, c.depth) if slots else SpanValue(views.whole(buffer, span=item.span), c.depth)
        c.declare(item.name, value, storage)


def _poison(c: Checker, s: syntax.SpanDecl) -> None:
    for item in s.items:
        c.poison(item.name)


def _extents(c: Checker, s: syntax.SpanDecl) -> tuple[ir.Expr, ...]:
    values = []
    for dim in s.dims:
        if isinstance(dim, syntax.NameRef) and c.find(dim.text) is None and dim.text not in c.unit.dims:
            close = next(
                (name for scope in c.scopes for name in scope.symbols if name.lower() == dim.text.lower()), None
            )
            c.fail(
                "DYN01",
                f"`{dim.text}` is unknown; dynamic extents come from parameters",
                dim.span,
                f"did you mean `{close}`?" if close else None,
            )
        inner = dim
        if isinstance(dim, syntax.BufferRef):
            inner = syntax.as_derivation(dim) or dim
        values.append((evaluate(c, inner), dim.span))
    return shapes.flatten_extents(c, values)


def array_dimensions(c: Checker, name: syntax.Name, array: Sequence[syntax.Expr]) -> tuple[int, ...]:
    """The constant dimensions of an array of buffers, fragments or events."""
    slots = []
    for e in array:
        count = constant_integer(c, e, "SHP11", "array dimensions must be compile-time constants, found `{found}`")
        if count < 1:
            c.fail("SHP01", f"array dimension {count} must be at least 1", e.span)
        slots.append(count)
    if (total := math.prod(slots)) > MAX_SLOTS:
        c.fail(
            "STO12", f"`{name.text}` is an array of {total}; arrays have at most {MAX_SLOTS} elements", array[0].span
        )
    return tuple(slots)


def _initial(c: Checker, value: Value, item: syntax.BufferItem, dtype: DType) -> ir.Expr:
    assert item.value is not None
    if isinstance(value, (SpanValue, ArrayValue)):
        c.fail("STO05", "the initialiser fills all elements and must be a scalar", item.value.span)
    return store_as(c, as_scalar(c, value, item.value.span), dtype, item.value.span, item.value.span.text)


def require_constant(c: Checker, extent: ir.Expr, storage: ir.Storage, span: Span) -> None:
    """Extents of `local` are constants; `shared` may depend on parameters where a target sizes it at launch."""
    if storage is ir.Storage.LOCAL and integers.value(extent) is None:
        c.fail(
            "DYN05",
            f"`local` buffers need constant extents, found `{show(extent)}`",
            span,
            "use `shared`, or fix the extent in the parameter's type",
        )


def mark_written(c: Checker, view: ir.View, span: Span) -> None:
    """Records a store and checks that the storage may be written from here."""
    buffer = view.buffer
    param = c.params.get(buffer)
    if param is not None and buffer not in c.written and not param.by_ref and param.storage is None:
        c.warn(
            "STO10", f"parameter `{buffer.name}` is written", span, "add `&` to its type to make the output explicit"
        )
    c.written.add(buffer)


def check_local_owner(c: Checker, value: SpanValue, span: Span) -> None:
    """A `local` span of a coarser level is a private copy in each thread: finer levels only read it."""
    if value.storage is ir.Storage.LOCAL and any(not nest.single for nest in c.nest[value.depth :]):
        c.fail(
            "STO11",
            f"`{value.view.buffer.name}` is `local` to an outer level and cannot be written from a finer one",
            span,
            "declare it inside, or use `shared`",
        )
