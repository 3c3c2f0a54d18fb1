"""Transfers between views.

Copies between memories are collective: the threads of a crew go through the elements in steps of the crew's size, in
chunks of the width that `vectorise-copies` found, neighbouring threads on neighbouring chunks of the side that lies in
device memory. Copies into or out of a thread's own storage are loops of that thread.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from croq_magic.compiler import integers, ir, views
from croq_magic.compiler.passes.lower_compression import compression, zero_of
from croq_magic.compiler.passes.vectorise_copies import width_of
from croq_magic.compiler.targets.simt.dialect import Dialect, space_of
from croq_magic.compiler.targets.simt.expressions import buffer_offset, depends_on
from croq_magic.compiler.types import BOOL, S32
from croq_magic.compiler.visit import substitute

if TYPE_CHECKING:
    from croq_magic.compiler.targets.simt.statements import Statements

PRIVATE = (ir.Storage.LOCAL, ir.Storage.REGISTER)
UNROLLED = 64  # elements of a thread's own storage that are copied by unrolled loops, so that they stay in registers
THREAD = "thread:"  # before the number of the first thread in the hints of a copy
Index = tuple[ir.Expr, ...]


@dataclasses.dataclass(frozen=True)
class Transfer:
    """What one element of the destination gets: over `extents`, the element of `dst` at `to` becomes that of `src` at
    `source` where all `conditions` hold, and `otherwise` elsewhere. Offsets and conditions are over the variables
    `index`; a condition is (index, extent): 0 <= index < extent. Elements for which `clip` does not hold lie outside
    the destination and get nothing."""

    extents: tuple[ir.Expr, ...]
    index: tuple[ir.Var, ...]
    dst: ir.Buffer
    src: ir.Buffer
    to: ir.Expr
    source: ir.Expr
    conditions: tuple[tuple[ir.Expr, ir.Expr], ...]
    otherwise: ir.Expr
    clip: tuple[tuple[ir.Expr, ir.Expr], ...] = ()

    def at(self, values: dict[ir.Var, ir.Expr]) -> Transfer:
        """The transfer with other expressions in the place of some of its variables."""

        def change(e: ir.Expr) -> ir.Expr:
            return integers.simplify(substitute(e, values))

        return dataclasses.replace(
            self,
            to=change(self.to),
            source=change(self.source),
            conditions=tuple((change(place), extent) for place, extent in self.conditions),
            clip=tuple((change(place), extent) for place, extent in self.clip),
            otherwise=substitute(self.otherwise, values),
        )


_PLANS: WeakKeyDictionary[ir.Copy, Transfer] = WeakKeyDictionary()


def plan(s: ir.Copy) -> Transfer:
    """A copy with padding, permutation, partial destination and zero fill as one assignment per element. It is kept:
    passes ask for it before the emitter does."""
    known = _PLANS.get(s)
    if known is None:
        known = _PLANS[s] = _planned(s)
    return known


def _planned(s: ir.Copy) -> Transfer:
    src, dst = s.src, s.dst
    order = s.permutation or tuple(range(src.rank))
    inner = tuple(src.extents[d] for d in order)
    extents = dst.extents if s.partial else inner
    low: Index = (integers.ZERO,) * dst.rank
    filled = s.partial
    if s.pad:
        low = tuple(pair[0] for pair in s.pad)
        if not s.partial:
            extents = tuple(
                integers.add(integers.add(pair[0], extent), pair[1]) for pair, extent in zip(s.pad, inner, strict=True)
            )
        filled = True
    index = tuple(_place(d, extent) for d, extent in enumerate(extents))
    shifted = tuple(integers.sub(i, o) for i, o in zip(index, low, strict=True))
    source: list[ir.Expr] = [integers.ZERO] * src.rank
    for position, d in enumerate(order):
        source[d] = shifted[position]
    conditions: list[tuple[ir.Expr, ir.Expr]] = []
    if filled:
        for place, extent, whole in zip(shifted, inner, extents, strict=True):
            if not integers.equal(extent, whole):
                conditions.append((place, extent))
    window = len(conditions)
    conditions += _edges(src, tuple(source))
    zero = ir.Const(0.0 if dst.buffer.dtype.is_float else 0, dst.buffer.dtype)
    otherwise: ir.Expr = zero
    if s.pad and s.pad_value is not None:
        dtype = dst.buffer.dtype
        value = s.pad_value if s.pad_value.dtype is dtype else ir.Cast(s.pad_value, dtype)
        padded = [
            (i, integers.add(integers.add(pair[0], extent), pair[1]))
            for i, pair, extent in zip(index, s.pad, inner, strict=True)
        ]
        around = [
            (i, extent) for (i, extent), whole in zip(padded, extents, strict=True) if not integers.equal(extent, whole)
        ]
        otherwise = ir.Select(_inside(around), value, zero, dtype) if around else value
        if len(conditions) > window:  # inside the window but outside the array
            otherwise = ir.Select(_inside(conditions[:window]), zero, otherwise, dtype)
    to, origin = buffer_offset(dst, index), buffer_offset(src, tuple(source))
    clip = tuple(_edges(dst, index))
    transfer = Transfer(extents, index, dst.buffer, src.buffer, to, origin, tuple(conditions), otherwise, clip)
    return transfer if conditions or clip else joined(transfer)


def _edges(view: ir.View, index: Index) -> list[tuple[ir.Expr, ir.Expr]]:
    """The conditions under which an element of a view that may reach over its buffer lies inside."""
    found: list[tuple[ir.Expr, ir.Expr]] = []
    if view.zfill:
        base, _ = views.element(view, index)
        for place, extent in zip(base, view.buffer.shape, strict=True):
            least, most = integers.interval(place)
            size = integers.value(extent)
            if least is None or least < 0 or most is None or size is None or most >= size:
                found.append((place, extent))
    return found


def _inside(conditions: Sequence[tuple[ir.Expr, ir.Expr]]) -> ir.Expr:
    """The condition that all indices are in range."""
    result: ir.Expr = ir.TRUE
    for place, extent in conditions:
        low, high = ir.Binary(">=", place, integers.ZERO, BOOL), ir.Binary("<", place, extent, BOOL)
        both = ir.Binary("&&", low, high, BOOL)
        result = both if result is ir.TRUE else ir.Binary("&&", result, both, BOOL)
    return result


def _place(d: int, extent: ir.Expr) -> ir.Var:
    """Stands for the index of a dimension until the loops have names."""
    return ir.Var(f"{d}:place", S32, ir.Role.LOOP, integers.ZERO, extent)


def step(e: ir.Expr, var: ir.Var) -> ir.Expr | None:
    """By how much an offset grows with a variable; None if that is not constant."""
    found = integers.sub(substitute(e, {var: integers.add(var, integers.ONE)}), e)
    return None if depends_on(found, {var.name}) else found


def joined(t: Transfer) -> Transfer:
    """Without dimensions of extent 1, and neighbours as one dimension where both sides run on from one to the other."""
    place = 0
    while place < len(t.index):
        var, extent = t.index[place], t.extents[place]
        if integers.value(extent) == 1 and len(t.index) > 1:
            t = _without(t.at({var: integers.ZERO}), place, place + 1, (), ())
            place = 0
            continue
        if place + 1 < len(t.index):
            inner, length = t.index[place + 1], t.extents[place + 1]
            pairs = [(step(e, var), step(e, inner)) for e in (t.to, t.source)]
            if all(a is not None and b is not None and integers.equal(a, integers.mul(b, length)) for a, b in pairs):
                one = _place(place, integers.mul(extent, length))
                moved = t.at({var: integers.ZERO, inner: one})
                t = _without(moved, place, place + 2, (one,), (integers.mul(extent, length),))
                place = 0
                continue
        place += 1
    return t


def _without(t: Transfer, start: int, end: int, index: tuple[ir.Var, ...], extents: tuple[ir.Expr, ...]) -> Transfer:
    return dataclasses.replace(
        t, index=(*t.index[:start], *index, *t.index[end:]), extents=(*t.extents[:start], *extents, *t.extents[end:])
    )


def emit_copy(out: Statements, s: ir.Copy) -> None:
    """The statements of one transfer."""
    with out.window_check((s.src, s.dst), s.span):
        if s.compressed:
            _compressed(out, s)
        else:
            _transfer(out, s)


def _compressed(out: Statements, s: ir.Copy) -> None:
    """A 2:4-sparse copy: every thread of the crew takes groups of four elements."""
    private = s.dst.buffer.storage in PRIVATE
    if s.partial:
        fill(out, s.dst, zero_of(s.dst))
        if not private:
            out.join_crew(s.span)
    index, extents, body = compression(s, out.taken)
    wanted = [f"i{position}" for position in range(len(index))]
    alone = s.src.buffer.storage in PRIVATE and not private
    with contextlib.ExitStack() as stack:
        if private or alone:
            stack.enter_context(out.elected(everyone=private))
            places = stack.enter_context(out.loop_nest(wanted, extents, 0))
        else:
            places = stack.enter_context(out.crew_loop(extents, wanted))
        stack.enter_context(out.apart())
        out.body(substitute(body, dict(zip(index, places, strict=True))))


def _transfer(out: Statements, s: ir.Copy) -> None:
    transfer = plan(s)
    into, source = s.dst.buffer.storage, s.src.buffer.storage
    if into in PRIVATE or source in PRIVATE:
        with out.elected(everyone=into in PRIVATE):
            _serial(out, transfer, width_of(s))
        return
    width = width_of(s)
    asynchronous = is_asynchronous(out.dialect, s)
    parts = chunks(transfer, s)
    axes, last, chunk = parts.axes, parts.axes[-1], integers.constant(parts.elements)
    wanted = ("i",) if len(axes) == 1 else tuple(f"i{position}" for position in range(len(axes)))
    with out.crew_loop(parts.counts, wanted, first_thread(s)) as places:
        values: dict[ir.Var, ir.Expr] = {
            transfer.index[d]: integers.mul(place, chunk) if d == last else place
            for d, place in zip(axes, places, strict=True)
        }
        _one(out, transfer.at(values), width, asynchronous)
    if asynchronous and out.is_group(s):
        out.line(out.dialect.async_commit())


@dataclasses.dataclass(frozen=True)
class Chunks:
    """The places of a transfer that a crew shares out: `counts` of them along the dimensions `axes` of the destination,
    the last one fastest. A place stands for `elements` neighbours along the last axis."""

    transfer: Transfer
    axes: tuple[int, ...]
    counts: tuple[ir.Expr, ...]
    elements: int


def chunks(t: Transfer, s: ir.Copy) -> Chunks:
    """How a crew goes through a copy between memories of the block and the device."""
    elements = width_of(s) // s.dst.buffer.dtype.size
    axes = order_axes(t, elements)
    last, chunk = axes[-1], integers.constant(elements)
    counts = tuple(integers.floordiv(t.extents[d], chunk) if d == last else t.extents[d] for d in axes)
    return Chunks(t, axes, counts, elements)


def first_thread(s: ir.Copy) -> int:
    """The thread of the block that takes the first place, as `stagger-copies` noted it."""
    return next((int(hint[len(THREAD) :]) for hint in s.hints if hint.startswith(THREAD)), 0)


def is_asynchronous(dialect: Dialect, s: ir.Copy) -> bool:
    """Whether a copy is left to the hardware and completes at its wait; others complete at the statement."""
    directions = (s.src.buffer.storage, s.dst.buffer.storage) == (ir.Storage.GLOBAL, ir.Storage.SHARED)
    return s.token is not None and directions and not (s.pad or s.compressed) and width_of(s) in dialect.async_bytes


def order_axes(t: Transfer, chunk: int) -> tuple[int, ...]:
    """Dimensions of the destination, the one whose neighbours lie together in device memory last."""
    axes = list(range(len(t.index)))
    if chunk > 1 or len(axes) < 2:
        return tuple(axes)
    for buffer, offset in ((t.src, t.source), (t.dst, t.to)):
        if buffer.storage is not ir.Storage.GLOBAL:
            continue
        for d in reversed(axes):
            stride = step(offset, t.index[d])
            if stride is not None and integers.value(stride) == 1 and integers.value(t.extents[d]) != 1:
                return (*(axis for axis in axes if axis != d), d)
    return tuple(axes)


def _one(out: Statements, t: Transfer, width: int, asynchronous: bool) -> None:
    """One access, where it lies inside the destination."""
    with out.nest([f"if ({_condition(out, t.clip)})"] if t.clip else []):
        if width > t.dst.dtype.size or asynchronous:
            _chunk(out, t, width, asynchronous)
        else:
            _element(out, t)


def _condition(out: Statements, conditions: Sequence[tuple[ir.Expr, ir.Expr]]) -> str:
    return " && ".join(out.in_range(place, extent) for place, extent in conditions)


def _at(out: Statements, buffer: ir.Buffer, offset: ir.Expr) -> str:
    return f"{out.expressions.pointer(buffer)}[{out.expressions.place(buffer, offset)}]"


def _element(out: Statements, t: Transfer) -> None:
    target, source = _at(out, t.dst, t.to), _at(out, t.src, t.source)
    if t.conditions:
        source = f"{_condition(out, t.conditions)} ? {source} : {out.expressions.converted(t.otherwise, t.dst.dtype)}"
    out.line(f"{target} = {source};")


def _chunk(out: Statements, t: Transfer, width: int, asynchronous: bool) -> None:
    d = out.dialect
    to, source = f"&{_at(out, t.dst, t.to)}", f"&{_at(out, t.src, t.source)}"
    if asynchronous:
        valid = f"{_condition(out, t.conditions)} ? {width} : 0" if t.conditions else ""
        out.line(d.async_copy(to, source, width, valid))
        return
    move = d.vector_copy(to, space_of(t.dst), source, space_of(t.src), width)
    if not t.conditions:
        out.line(move)
        return
    with out.block(f"if ({_condition(out, t.conditions)})", "} else {"):
        out.line(move)
    out.depth += 1
    out.line(d.vector_zero(to, space_of(t.dst), width))
    out.depth -= 1
    out.line("}")


def _serial(out: Statements, t: Transfer, width: int) -> None:
    """All elements by one thread."""
    size = t.dst.dtype.size
    chunk = integers.constant(width // size)
    counts = (*t.extents[:-1], integers.floordiv(t.extents[-1], chunk)) if width > size else t.extents
    wanted = ("i",) if len(t.index) == 1 else tuple(f"i{position}" for position in range(len(t.index)))
    with out.loop_nest(wanted, counts, UNROLLED) as places:
        if width > size:
            places = (*places[:-1], integers.mul(places[-1], chunk))
        _one(out, t.at(dict(zip(t.index, places, strict=True))), width, False)


def fill(out: Statements, view: ir.View, value: ir.Expr) -> None:
    """Sets every element of a view: together in memory of the block or the device, else by the thread itself."""
    text = out.expressions.converted(value, view.buffer.dtype)
    wanted = ("i",) if view.rank == 1 else tuple(f"i{d}" for d in range(view.rank))
    private = view.buffer.storage in PRIVATE
    loops = out.loop_nest(wanted, view.extents, UNROLLED) if private else out.crew_loop(view.extents, wanted)
    with loops as places:
        out.line(f"{out.expressions.element(view, places)} = {text};")


def fill_buffer(out: Statements, buffer: ir.Buffer, value: ir.Expr) -> None:
    """All elements of all slots."""
    count = integers.product((*map(integers.constant, buffer.slots), *buffer.shape))
    var = ir.Var("c0", S32, ir.Role.COORD, integers.ZERO, count)
    fill(out, ir.View(buffer, (var,), (var,), var, (count,)), value)
