"""Transfers: dma statements, futures and waits (DMA and part of the STO and DYN codes)."""

from __future__ import annotations

import dataclasses

from croq_magic.compiler import integers, ir, syntax, views
from croq_magic.compiler.check import sparse, tma
from croq_magic.compiler.check.context import Checker, decide, free_variables, show
from croq_magic.compiler.check.conversions import store_as
from croq_magic.compiler.check.events import wait_event
from croq_magic.compiler.check.expressions import evaluate, integer, scalar
from croq_magic.compiler.check.handles import emit_each, shared_slot
from croq_magic.compiler.check.names import resolve
from croq_magic.compiler.check.storage import mark_written, require_constant
from croq_magic.compiler.check.values import ChoiceValue, EventValue, FutureValue, OperationValue, SpanValue
from croq_magic.compiler.source import Span
from croq_magic.compiler.types import BOOL, DType

_SWIZZLES = (32, 64, 128)


def dma(c: Checker, s: syntax.Dma) -> None:
    """One transfer; binds its future if it is named."""
    with c.clipping(s.engine == "tma" or s.modifier("zfill") is not None):
        source = _operand(c, s.source)
    chosen = c.choices.pop(source, None)
    for modifier in s.modifiers:
        if modifier.name == "zfill":
            source = dataclasses.replace(source, zfill=True)
    pad, pad_value = _padding(c, s, source)
    order = _permutation(c, s, source)
    extents = _result_extents(source, pad, order)
    compresses = sparse.compresses(c, s, source)
    if compresses:
        extents = sparse.compressed_extents(extents)
    if s.is_async and s.result is None:
        c.fail(
            "DMA06", "an asynchronous copy needs a name to wait on", s.span, "`f = dma.copy.async ...` and `wait f;`"
        )
    destination = _destination(c, s, source, extents)
    target = c.choices.pop(destination, None)
    partial = (
        _fit(c, s, source, destination, extents, bool(order))
        if not isinstance(s.destination, syntax.StorageWord)
        else False
    )
    if s.engine == "tma":
        source, destination = tma.operands(c, s, source, destination)
    after = _after(c, s)
    if destination.buffer.storage is ir.Storage.SHARED:
        _require_uniform(c, (source, destination), s.span)
    mark_written(c, destination, s.span)
    token = _bind_future(c, s, destination)
    copy = ir.Copy(source, destination, token, after, order, pad, pad_value, partial, s.engine, span=s.span)
    if not compresses:
        _emit(c, copy, chosen, target)
        return
    _emit(c, dataclasses.replace(copy, compressed="values"), chosen, target)
    if s.result is not None:
        _emit(c, dataclasses.replace(copy, dst=_positions(c, s, destination), compressed="positions"), chosen, None)


def _positions(c: Checker, s: syntax.Dma, values: ir.View) -> ir.View:
    """Where the positions of compressed values go: storage of their own, beside that of the values."""
    assert s.result is not None
    future = resolve(c, s.result.text, s.result.span).value
    assert isinstance(future, FutureValue)
    buffer = c.compressed.get(values.buffer)
    if buffer is None:
        owner = values.buffer
        bare = isinstance(s.destination, syntax.StorageWord)
        if not bare:
            owner = dataclasses.replace(owner, shape=values.extents, slots=())
        if c.in_device and owner.storage is ir.Storage.GLOBAL:
            hint = "compress into `shared`, then copy both parts"
            c.fail("DMA24", "the metadata of a compressed copy to `global` have no place here", s.span, hint)
        buffer = sparse.position_buffer(c, owner, s.span)
        declare = ir.Declare(buffer, span=s.span)
        if future.place is not None:
            future.emit_at_place(declare)
        else:
            c.emit(declare)
        if not bare:
            future.positions = views.whole(buffer, (), s.span)
            return future.positions
        c.compressed[values.buffer] = buffer
    return views.whole(buffer, values.slot, s.span)


def map_view(c: Checker, s: syntax.MapView) -> None:
    """`m = g.map<local>(offset, length)`: a part of global memory under a local name, where memory is one."""
    if c.limits.gpu:
        c.fail("DMA25", "this target cannot map global memory into local address space", s.span, "`dma.copy`")
    if not c.in_device:
        c.fail("STO01", "`local` storage exists only inside `parallel`", s.span)
    view = _operand(c, s.source)
    if c.choices.pop(view, None) is not None:
        c.unsupported("a map of a choice", s.source.span)
    if not view.contiguous:
        c.fail("VEW09", "only contiguous memory can be mapped", s.source.span, "`dma.copy`")
    offset, length = integer(c, s.offset, "an offset"), integer(c, s.length, "a length")
    flat = views.reshape(view, (integers.product(view.extents),), s.span)
    window = views.window(flat, (offset,), (length,), s.span)
    c.declare(s.result, SpanValue(window, c.depth, True), view.buffer.storage)


def _bound_placeholder(c: Checker, s: syntax.Dma) -> FutureValue | None:
    """The placeholder that the result names, if it does."""
    symbol = c.find(s.result.text) if s.result else None
    value = symbol.value if symbol else None
    return value if isinstance(value, FutureValue) and value.place is not None else None


def _bind_future(c: Checker, s: syntax.Dma, destination: ir.View) -> ir.Token | None:
    """The result of a transfer: a new future, or a placeholder that it is bound to."""
    if s.result is None:
        return None
    name = s.result.text
    value = _bound_placeholder(c, s)
    if value is not None:
        words = {True: "asynchronous", False: "synchronous"}
        if value.is_async not in (None, s.is_async):
            c.fail(
                "DMA12",
                f"`{name}` was bound to {words[not s.is_async]} transfers before, this one is {words[s.is_async]}",
                s.span,
            )
        if s.is_async and value.token is None:
            value.token = ir.Token(c.fresh(f"{name}_done"))
        value.bound, value.is_async, value.engine = destination, s.is_async, s.engine
        return value.token
    old = c.find_here(name)
    if old is not None and isinstance(old.value, FutureValue):
        hint = "wait first and use another name, or start from `dma.any` in a pipeline"
        pending = "a pending future" if old.value.token and old.value.waited is None else "a future"
        c.fail("DMA22", f"`{name}` is already {pending}", s.result.span, hint)
    token = ir.Token(c.fresh(f"{name}_done")) if s.is_async else None
    exchanged = name in c.groups and c.groups[name].rotates
    future = FutureValue(
        destination, token, s.result.span, c.depth, exchanged=exchanged, is_async=s.is_async, engine=s.engine
    )
    c.declare(s.result, future, destination.buffer.storage)
    return token


def _operand(c: Checker, e: syntax.Expr) -> ir.View:
    """The span that a source or destination names."""
    value = evaluate(c, e)
    if isinstance(value, FutureValue):
        if value.token is not None and value.waited is None and not value.exchanged:
            c.fail("DMA09", f"`{e.span.text}` is used before it was waited on", e.span)
        value = value.data()
    if isinstance(value, ChoiceValue):
        c.choices[value.spans[0].view] = value
        return value.spans[0].view
    if not isinstance(value, SpanValue):
        c.fail("TYP10", f"`{e.span.text}` is {value.describe()}; a span is needed here", e.span)
    return value.view


def _emit(c: Checker, s: ir.Copy, source: ChoiceValue | None, destination: ChoiceValue | None) -> None:
    """A copy; where one side is chosen while running, one of several."""
    if destination is not None and source is not None:
        c.unsupported("`select` on both sides of a copy", s.span or c.function.span)
    choice = source or destination
    if choice is None:
        c.emit(s)
        return
    for span in choice.spans if destination is not None else ():
        mark_written(c, span.view, s.span or c.function.span)
    zfill = s.src.zfill if source is not None else s.dst.zfill
    sides = [dataclasses.replace(span.view, zfill=zfill) for span in choice.spans]
    each: list[ir.Stmt] = [
        dataclasses.replace(s, src=side) if source is not None else dataclasses.replace(s, dst=side) for side in sides
    ]
    emit_each(c, choice, each)


def _padding(c: Checker, s: syntax.Dma, source: ir.View) -> tuple[tuple[tuple[ir.Expr, ir.Expr], ...], ir.Expr | None]:
    if not isinstance(s.config, syntax.PadConfig):
        if s.op == "pad":
            c.fail("DMA16", "`dma.pad` needs `<{low}, {high}, {mid}, value>`", s.span)
        return (), None
    config, rank = s.config, source.rank
    if not len(config.low) == len(config.high) == len(config.mid) == rank:
        c.fail("DMA16", f"low, high and mid need {rank} entries each", config.span)
    for entry in config.mid:
        if integers.value(integer(c, entry, "interior padding")) != 0:
            c.fail("DMA17", "interior padding is not supported; use 0", entry.span)
    pairs = []
    for low, high in zip(config.low, config.high, strict=True):
        amounts = []
        for entry in (low, high):
            amount = integer(c, entry, "padding")
            c.require(
                ir.Binary(">=", amount, integers.ZERO, BOOL),
                "DMA16",
                f"padding {show(amount)} must not be negative",
                entry.span,
            )
            amounts.append(amount)
        pairs.append((amounts[0], amounts[1]))
    value = store_as(c, scalar(c, config.value), source.buffer.dtype, config.value.span, config.value.span.text)
    return tuple(pairs), value


def _permutation(c: Checker, s: syntax.Dma, source: ir.View) -> tuple[int, ...]:
    if not isinstance(s.config, syntax.TransposeConfig):
        if s.op == "transp":
            c.fail("DMA18", "`dma.transp` needs the order of dimensions, `dma.transp<1, 0>`", s.span)
        return ()
    order = s.config.order
    if sorted(order) != list(range(source.rank)):
        full = ", ".join(map(str, range(source.rank)))
        c.fail("DMA18", f"{{{', '.join(map(str, order))}}} is not a permutation of {{{full}}}", s.config.span)
    return order


def _result_extents(
    source: ir.View, pad: tuple[tuple[ir.Expr, ir.Expr], ...], order: tuple[int, ...]
) -> tuple[ir.Expr, ...]:
    extents = source.extents
    if pad:
        extents = tuple(integers.add(integers.add(e, low), high) for e, (low, high) in zip(extents, pad, strict=True))
    return tuple(extents[d] for d in order) if order else extents


def _destination(c: Checker, s: syntax.Dma, source: ir.View, extents: tuple[ir.Expr, ...]) -> ir.View:
    if not isinstance(s.destination, syntax.StorageWord):
        with c.clipping(s.engine == "tma"):
            view = _operand(c, s.destination)
        if view.zfill:
            c.fail("DMA04", "`.zfill` belongs to the source of a copy", s.destination.span)
        return view
    word = s.destination.word
    if not c.in_device and word != "global":
        c.fail("DMA05", f"`{word}` is not a destination outside `parallel`", s.destination.span)
    if c.in_device and word == "global":
        c.fail(
            "STO02",
            "inside `parallel` a copy cannot allocate `global` storage",
            s.destination.span,
            "write `shared` or `local`",
        )
    storage = ir.Storage(word)
    for extent in extents:
        require_constant(c, extent, storage, s.destination.span)
    swizzle = 0
    modifier = s.modifier("swiz")
    if modifier is not None:
        swizzle = modifier.args[0] if modifier.args else 128
        if swizzle not in _SWIZZLES:
            c.fail("DMA21", "swizzle must be 32, 64 or 128", modifier.span)
    dtype, span = source.buffer.dtype, s.destination.span
    place = _bound_placeholder(c, s)
    if place is not None and place.bound is not None:
        return _same_destination(c, s, place, storage, dtype, extents)
    if s.result is not None:
        shared = shared_slot(c, s.result.text, dtype, storage, extents, swizzle, span, place)
        if shared is not None:
            return shared
    name = c.fresh(s.result.text if s.result else f"{source.buffer.name}_tile")
    buffer = ir.Buffer(name, dtype, storage, extents, layout=swizzle, alignment=128, span=s.span)
    declare = ir.Declare(buffer, span=s.span)
    if place is not None:
        place.emit_at_place(declare)
    else:
        c.emit(declare)
    return views.whole(buffer, span=span)


def _same_destination(
    c: Checker, s: syntax.Dma, future: FutureValue, storage: ir.Storage, dtype: DType, extents: tuple[ir.Expr, ...]
) -> ir.View:
    """A name that is bound again keeps its buffer, so the transfer must have the type of the first."""
    view = future.view
    same = len(extents) == view.rank and all(map(integers.equal, extents, view.extents))
    if view.buffer.storage is not storage or view.buffer.dtype is not dtype or not same:
        assert s.result is not None
        shape = ", ".join(map(show, extents))
        was, now = SpanValue(view).type_text(), f"{storage.value} {dtype} [{shape}]"
        c.fail("DMA12", f"`{s.result.text}` denotes `{was}`, this transfer makes `{now}`", s.span)
    return view


def _fit(
    c: Checker, s: syntax.Dma, source: ir.View, dst: ir.View, extents: tuple[ir.Expr, ...], transposed: bool
) -> bool:
    """Element types, ranks and extents; whether the destination is larger and gets zeros."""
    if source.buffer.dtype is not dst.buffer.dtype:
        c.fail(
            "DMA01",
            f"source is `{source.buffer.dtype}`, destination `{dst.buffer.dtype}`; a copy does not convert",
            s.span,
        )
    if len(extents) != dst.rank:
        shape = ", ".join(map(show, dst.extents))
        same = integers.equal(integers.product(extents), integers.product(dst.extents))
        c.fail(
            "DMA02",
            f"ranks differ: {len(extents)} and {dst.rank}",
            s.span,
            f"`{s.source.span.text}.span_as([{shape}])`" if same else None,
        )
    partial = False
    for dimension, (have, room) in enumerate(zip(extents, dst.extents, strict=True)):
        if integers.equal(have, room):
            continue
        larger = decide(ir.Binary("<", have, room, BOOL))
        if larger is not False and dst.buffer.storage is not ir.Storage.GLOBAL:
            partial = True
            if larger is None:
                unit = "rows" if dimension == 0 else f"elements in dimension {dimension}"
                message = f"the copy has {show(have)} {unit}, its destination {show(room)}"
                fits = ir.Binary("<=", have, room, BOOL)
                c.require(fits, "DMA03", message, s.span, values=(have, room))
            elif not source.zfill:
                last = integers.sub(room, integers.ONE)
                several = not integers.equal(have, last)
                unit = ("row" if dimension == 0 else "element") + ("s" if several else "")
                rows = f"{unit} {show(have)}..{show(last)}" if several else f"{unit} {show(have)}"
                of = "" if dimension == 0 else f" of dimension {dimension}"
                c.warn(
                    "DMA04",
                    f"{rows}{of} of `{dst.buffer.name}` {'become' if several else 'becomes'} zero",
                    s.destination.span,
                    "say `dma.copy.zfill`",
                )
            continue
        if transposed and decide(ir.Binary("==", have, room, BOOL)) is False:
            shape, into = ", ".join(map(show, extents)), ", ".join(map(show, dst.extents))
            c.fail("DMA19", f"transposed source is [{shape}], destination [{into}]", s.span)
        unit = "rows" if dimension == 0 else f"elements in dimension {dimension}"
        verb = "do not fit into" if decide(ir.Binary(">", have, room, BOOL)) else "do not match"
        c.require(
            ir.Binary("==", have, room, BOOL),
            "DMA03",
            f"{show(have)} {unit} {verb} {show(room)}",
            s.span,
            runtime=f"the copy has {show(have)} {unit}, its destination {show(room)}",
            values=(have, room),
        )
    return partial


def _after(c: Checker, s: syntax.Dma) -> ir.Token | None:
    if s.after is None:
        return None
    value = resolve(c, s.after.text, s.after.span).value
    if not isinstance(value, FutureValue):
        c.fail("DMA08", f"`{s.after.text}` is {value.describe()}, not a future", s.after.span)
    return value.token


def wait(c: Checker, s: syntax.Wait) -> None:
    """`wait f, e`: futures and events."""
    tokens: list[ir.Token] = []
    for item in s.items:
        value = resolve(c, item.name.text, item.name.span).value
        if isinstance(value, EventValue):
            wait_event(c, item, s.span)
            continue
        if isinstance(value, OperationValue):
            value.waited, value.only_if = item.span, None
            tokens.append(value.token)
            continue
        if not isinstance(value, FutureValue):
            c.fail("DMA08", f"`{item.name.text}` is {value.describe()}, not a future", item.span)
        if value.exchanged:
            tokens += [value.token] if value.token else []
            continue
        if value.token is None:
            c.fail(
                "DMA08",
                f"`{item.name.text}` is synchronous and already complete",
                item.span,
                "drop the `wait`, or use `dma.copy.async`",
            )
        if value.waited is not None and value.only_if is None:
            c.fail("DMA08", f"`{item.name.text}` was already waited on", item.span)
        value.waited, value.only_if = item.span, None
        tokens.append(value.token)
    if tokens:
        c.emit(ir.Wait(tuple(tokens), span=s.span))


def _require_uniform(c: Checker, operands: tuple[ir.View, ...], span: Span) -> None:
    """The operands of a copy into `shared` are those of the block: they must not depend on thread indices."""
    inner = c.thread_indices()
    for view in operands:
        for var in (v for e in (*view.map, view.offset, *view.slot) for v in free_variables(e)):
            if var in inner:
                hint = f"copy the whole of `{operands[0].buffer.name}` once, or use `local`"
                c.fail("DMA20", "each thread names another tile for one shared buffer", span, hint)
