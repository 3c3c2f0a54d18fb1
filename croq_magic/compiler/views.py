"""Building and composing views: every chunkat, subspan, view, span_as chain of the language becomes one `ir.View`.

All extents, origins and strides are per dimension and counted in elements.
"""

from __future__ import annotations

import dataclasses

from croq_magic.compiler import integers, ir
from croq_magic.compiler.source import Span
from croq_magic.compiler.types import S32
from croq_magic.compiler.visit import substitute


def coordinates(rank: int) -> tuple[ir.Var, ...]:
    """Coordinate variables c0, c1, ... of a view."""
    return tuple(ir.Var(f"c{i}", S32, ir.Role.COORD) for i in range(rank))


def _bounded(extents: tuple[ir.Expr, ...]) -> tuple[ir.Var, ...]:
    return tuple(ir.Var(f"c{i}", S32, ir.Role.COORD, integers.ZERO, extent) for i, extent in enumerate(extents))


def whole(buffer: ir.Buffer, slot: tuple[ir.Expr, ...] = (), span: Span | None = None) -> ir.View:
    """The view of all of one slot of a buffer."""
    coords = _bounded(buffer.shape)
    strides = integers.row_major(buffer.shape)
    offset: ir.Expr = integers.ZERO
    for coord, stride in zip(coords, strides, strict=True):
        offset = integers.add(offset, integers.mul(coord, stride))
    return ir.View(buffer, coords, coords, offset, buffer.shape, slot, True, span=span)


def _compose(
    view: ir.View, inner: tuple[ir.Expr, ...], coords: tuple[ir.Var, ...]
) -> tuple[tuple[ir.Expr, ...], ir.Expr]:
    mapping = dict(zip(view.coords, inner, strict=True))
    base = tuple(integers.simplify(substitute(e, mapping)) for e in view.map)
    return base, integers.simplify(substitute(view.offset, mapping))


def window(
    view: ir.View,
    origin: tuple[ir.Expr, ...],
    extents: tuple[ir.Expr, ...],
    span: Span | None = None,
) -> ir.View:
    """The part of `view` that starts at `origin` (view coordinates) and has `extents`."""
    coords = _bounded(extents)
    inner = tuple(integers.add(o, c) for o, c in zip(origin, coords, strict=True))
    base, offset = _compose(view, inner, coords)
    full = tuple(integers.equal(extent, parent) for extent, parent in zip(extents, view.extents, strict=True))
    return dataclasses.replace(
        view,
        coords=coords,
        map=base,
        offset=offset,
        extents=extents,
        contiguous=view.contiguous and _is_contiguous(extents, full),
        span=span or view.span,
    )


def _is_contiguous(extents: tuple[ir.Expr, ...], full: tuple[bool, ...]) -> bool:
    """Leading extents of 1, then any one extent, then full dimensions."""
    position = 0
    while position < len(extents) and integers.value(extents[position]) == 1:
        position += 1
    return all(full[position + 1 :])


def strided(
    view: ir.View,
    origin: tuple[ir.Expr, ...],
    extents: tuple[ir.Expr, ...],
    strides: tuple[ir.Expr, ...],
    span: Span | None = None,
) -> ir.View:
    """`.view(extents : strides).from(origin)`: strides count elements of the underlying buffer."""
    coords = _bounded(extents)
    offset: ir.Expr = substitute(view.offset, dict.fromkeys(view.coords, integers.ZERO))
    for o, c, stride in zip(origin, coords, strides, strict=True):
        offset = integers.add(offset, integers.mul(integers.add(o, c), stride))
    base = _delinearise(offset, view.buffer.shape)
    contiguous = all(integers.equal(a, b) for a, b in zip(strides, integers.row_major(extents), strict=True))
    return dataclasses.replace(
        view, coords=coords, map=base, offset=offset, extents=extents, contiguous=contiguous, span=span or view.span
    )


def _delinearise(offset: ir.Expr, shape: tuple[ir.Expr, ...]) -> tuple[ir.Expr, ...]:
    """Coordinates in a contiguous array of `shape` of the element at `offset`."""
    base: list[ir.Expr] = []
    for position, stride in enumerate(integers.row_major(shape)):
        coordinate = integers.floordiv(offset, stride)
        base.append(coordinate if position == 0 else integers.mod(coordinate, shape[position]))
    return tuple(base)


def reshape(view: ir.View, extents: tuple[ir.Expr, ...], span: Span | None = None) -> ir.View:
    """`.span_as`: a contiguous view with other extents and the same number of elements."""
    coords = _bounded(extents)
    offset: ir.Expr = substitute(view.offset, dict.fromkeys(view.coords, integers.ZERO))
    for coord, stride in zip(coords, integers.row_major(extents), strict=True):
        offset = integers.add(offset, integers.mul(coord, stride))
    return dataclasses.replace(
        view,
        coords=coords,
        map=_delinearise(offset, view.buffer.shape),
        offset=integers.simplify(offset),
        extents=extents,
        contiguous=True,
        span=span or view.span,
    )


def squeeze(view: ir.View, span: Span | None = None) -> ir.View:
    """`.sqz()`: drops extents that are the constant 1, keeping at least one."""
    kept = [i for i, extent in enumerate(view.extents) if integers.value(extent) != 1] or [view.rank - 1]
    extents = tuple(view.extents[i] for i in kept)
    coords = _bounded(extents)
    inner: list[ir.Expr] = [integers.ZERO] * view.rank
    for coord, i in zip(coords, kept, strict=True):
        inner[i] = coord
    base, offset = _compose(view, tuple(inner), coords)
    return dataclasses.replace(view, coords=coords, map=base, offset=offset, extents=extents, span=span or view.span)


def element(view: ir.View, index: tuple[ir.Expr, ...]) -> tuple[tuple[ir.Expr, ...], ir.Expr]:
    """Base coordinates and element offset (in the slot) of `view` at `index`."""
    return _compose(view, index, ())


def origin(view: ir.View) -> tuple[tuple[ir.Expr, ...], ir.Expr]:
    """Base coordinates and element offset of the first element."""
    return element(view, (integers.ZERO,) * view.rank)


def strides(view: ir.View) -> tuple[ir.Expr, ...] | None:
    """Element strides of the view's dimensions, or None when the offset is not affine in its coordinates."""
    result: list[ir.Expr] = []
    _, start = origin(view)
    rebuilt = start
    for i in range(view.rank):
        unit = tuple(integers.ONE if j == i else integers.ZERO for j in range(view.rank))
        step = integers.sub(element(view, unit)[1], start)
        result.append(step)
        rebuilt = integers.add(rebuilt, integers.mul(step, view.coords[i]))
    return tuple(result) if integers.equal(rebuilt, view.offset) else None


def is_contiguous(view: ir.View) -> bool:
    """Whether the elements lie one after the other in row-major order; dimensions of extent 1 do not matter."""
    if view.contiguous:
        return True
    steps = strides(view)
    if steps is None:
        return False
    wanted: ir.Expr = integers.ONE
    for extent, step in zip(reversed(view.extents), reversed(steps), strict=True):
        if integers.value(extent) == 1:
            continue
        if not integers.equal(step, wanted):
            return False
        wanted = integers.mul(wanted, extent)
    return True


def at_leading(view: ir.View, index: tuple[ir.Expr, ...], span: Span | None = None) -> ir.View:
    """The view of the trailing dimensions with the leading ones fixed at `index`."""
    extents = view.extents[len(index) :]
    coords = _bounded(extents)
    base, offset = _compose(view, (*index, *coords), coords)
    return dataclasses.replace(view, coords=coords, map=base, offset=offset, extents=extents, span=span or view.span)


def transposed(view: ir.View) -> ir.View:
    """The view of rank 2 with its dimensions exchanged."""
    coords = _bounded(view.extents[::-1])
    base, offset = _compose(view, coords[::-1], coords)
    extents = view.extents[::-1]
    return dataclasses.replace(view, coords=coords, map=base, offset=offset, extents=extents, contiguous=False)
