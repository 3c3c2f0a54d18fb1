"""A fresh global buffer need not be set to zero when the first launch that uses it stores every element.

Fresh buffers are zero by the rules of the language. Where that is not seen, it costs a pass over memory, and on a CPU a
page fault for every page that is read before it is written. Two forms are recognised, by proof on coordinates: a plain
store (or copy) that reaches every element, and an accumulator that is loaded once and stored once for every element,
as `promote-accumulators` leaves it; there the load becomes the constant zero.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import ClassVar

from croq_magic.compiler import affine, integers, ir
from croq_magic.compiler.affine import Dim
from croq_magic.compiler.passes.base import Context
from croq_magic.compiler.passes.structure import bodies, nested
from croq_magic.compiler.passes.zeroed_buffers import first_launch, for_each_zeroed, mentions, not_zeroed
from croq_magic.compiler.types import S32
from croq_magic.compiler.visit import children, rewrite, substitute, walk

Dims = tuple[Dim, ...]
_LEAVING = (ir.Yield, ir.CxxText, ir.Asm)


@dataclasses.dataclass(frozen=True)
class DropZeroing:
    """Clears `zeroed` of buffers whose zeros nothing reads."""

    name: ClassVar[str] = "drop-zeroing"

    def __call__(self, function: ir.Function, context: Context) -> ir.Function:
        return for_each_zeroed(function, _without_zeros)


def reads_zeros(function: ir.Function) -> bool:
    """Whether a returned buffer must be zero before the function runs."""
    returned = {
        id(s.value.buffer) for s in walk(function.body) if isinstance(s, ir.Return) and isinstance(s.value, ir.View)
    }
    declared = [s.buffer for s in walk(function.body) if isinstance(s, ir.Declare)]
    return any(b.zeroed for b in declared if id(b) in returned)


def _without_zeros(body: ir.Body, position: int, buffer: ir.Buffer) -> ir.Body:
    """The host body with the zeros of one buffer dropped, itself where something may read them."""
    place = first_launch(body, position, buffer)
    if place is None:
        return body
    first, launch = place
    found = _first_use(launch.kernel.region, buffer)
    if found is None:
        return body
    load = found.load
    zero = ir.Const(0.0 if buffer.dtype.is_float else 0, buffer.dtype)

    new = list(body)
    if load is not None:
        new[first] = rewrite(launch, lambda node: zero if node is load else None)
    return not_zeroed(tuple(new), buffer)


@dataclasses.dataclass(frozen=True)
class _Use:
    """How a kernel fills a buffer: `load` is what reads its zeros first, if anything does."""

    load: ir.Load | None


def overwrites(statement: ir.Stmt, buffer: ir.Buffer) -> bool:
    """Whether a statement stores every element of a buffer and does nothing else with it."""
    found = _first_use(statement, buffer)
    return found is not None and found.load is None


def _first_use(root: ir.Stmt, buffer: ir.Buffer) -> _Use | None:
    """None where other zeros may be read than those of one load."""
    for n in walk(root):
        if isinstance(n, _LEAVING):
            return None
        heads = [c for c in children(n) if not isinstance(c, ir.Stmt)] if isinstance(n, ir.Stmt) and bodies(n) else []
        if any(mentions(head, buffer) for head in heads):
            return None
    loads: list[tuple[int, ir.Load, Dims | None]] = []
    writes: list[tuple[int, ir.Stmt, Dims | None]] = []
    for place, (statement, dims) in enumerate(_leaves((root,), ())):
        mine = [n for n in walk(statement) if isinstance(n, ir.View) and n.buffer is buffer]
        inside = [n for n in walk(statement) if isinstance(n, ir.Load) and n.view.buffer is buffer]
        loads += [(place, n, dims) for n in inside]
        target = _target(statement)
        if target is not None and target.buffer is buffer:
            writes.append((place, statement, dims))
            mine.remove(target)
        if len(mine) > len(inside):
            return None  # a copy from the buffer, a foreign function, a compound store
    if any(isinstance(s, ir.Store) and (s.checks or s.view.checks) for _, s, _ in writes):
        return None
    if not loads:
        every = [(s, dims) for _, s, dims in writes if dims is not None]
        filled = any(_covers(s, dims, once=False) for s, dims in every) or _cover_together(every)
        return _Use(None) if filled else None
    if len(loads) > 1:
        return None
    start, load, dims = loads[0]
    if load.checks or dims is None or not _covers(load, dims, once=True):
        return None
    for place, store, dims in writes:
        if not isinstance(store, ir.Store) or place < start or not affine.same_element(load, store):
            return None
        if dims is None or not _covers(store, dims, once=True):
            return None
    return _Use(load) if writes else None


def _target(s: ir.Stmt) -> ir.View | None:
    """The view that a statement overwrites without reading it."""
    if isinstance(s, (ir.Store, ir.SpanOp)):
        return s.view if not s.op else None
    return s.dst if isinstance(s, ir.Copy) else None


def _leaves(body: ir.Body, dims: Dims | None) -> Iterator[tuple[ir.Stmt, Dims | None]]:
    """Plain statements with the dimensions they run over; None for those that may run for a part of them only."""
    for s in body:
        inner = bodies(s)
        if not inner:
            yield s, dims
            continue
        here = dims
        if isinstance(s, ir.Region):
            here = None if dims is None else (*dims, *map(Dim, s.indices, s.extents))
        elif isinstance(s, ir.For):
            whole = s.step == 1 and integers.value(s.start) == 0
            whole = whole and not any(isinstance(n, (ir.Break, ir.Continue)) for n in nested(s.body))
            here = (*dims, Dim(s.var, s.stop)) if dims is not None and whole else None
        elif not isinstance(s, ir.Scope):
            here = None
        for part in inner:
            yield from _leaves(part, here)


def _cover_together(writes: list[tuple[ir.Stmt, Dims]]) -> bool:
    """Whether statements reach every element that differ in one coordinate, by the same distance from each to the
    next: `r[b * 3 + 0, c]`, `r[b * 3 + 1, c]`, `r[b * 3 + 2, c]` are like one with an index of extent 3."""
    if len(writes) < 2:
        return False
    found = [_place(s, dims) for s, dims in writes]
    view, first, dims = found[0]
    for axis, coordinate in enumerate(first):
        steps: set[int] = set()
        for _, other, theirs in found:
            same = len(theirs) == len(dims) and all(
                a.var == b.var and integers.equal(a.extent, b.extent) for a, b in zip(theirs, dims, strict=True)
            )
            distance = integers.value(integers.sub(other[axis], coordinate))
            rest = zip(other, first, strict=True)
            if (
                same
                and distance is not None
                and all(integers.equal(a, b) for i, (a, b) in enumerate(rest) if i != axis)
            ):
                steps.add(distance)
        least, step = min(steps), min((s - min(steps) for s in steps if s != min(steps)), default=0)
        if step <= 0 or steps != set(range(least, least + step * len(steps), step)):
            continue
        which = ir.Var("which write", S32, ir.Role.LOOP, integers.ZERO, integers.constant(len(steps)))
        lowest = integers.add(coordinate, integers.constant(least))
        whole = integers.add(lowest, integers.mul(which, integers.constant(step)))
        places = (*first[:axis], whole, *first[axis + 1 :])
        if _reach(view, places, (*dims, Dim(which, integers.constant(len(steps)))), once=False):
            return True
    return False


def _place(access: ir.Load | ir.Stmt, dims: Dims) -> tuple[ir.View, tuple[ir.Expr, ...], Dims]:
    """The view of an access, the coordinates of its elements, and the dimensions that they run over."""
    if isinstance(access, (ir.Load, ir.Store)):
        return access.view, affine.element(access)[0], dims
    target = _target(access)
    assert target is not None
    return target, target.map, (*dims, *map(Dim, target.coords, target.extents))


def _covers(access: ir.Load | ir.Stmt, dims: Dims, once: bool) -> bool:
    """Whether an access reaches every element of its buffer, exactly once if `once`."""
    return _reach(*_place(access, dims), once)


def _reach(view: ir.View, coordinates: tuple[ir.Expr, ...], dims: Dims, once: bool) -> bool:
    """Whether coordinates reach every element of a view's buffer, exactly once if `once`."""
    if view.slot:
        return False
    left = {d.var.name: d for d in dims if d.size != 1}
    for coordinate, extent in zip(coordinates, view.buffer.shape, strict=True):
        mine = []
        for d in list(left.values()):
            step = affine.stride(coordinate, d.var)
            if step is None:
                return False
            if integers.value(step) != 0:
                mine.append((step, d.extent))
                del left[d.var.name]
        if not _exact(coordinate, mine, dims, extent):
            return False
    if once:
        return not left
    return all((integers.interval(d.extent)[0] or 0) >= 1 for d in left.values())


def _exact(coordinate: ir.Expr, mine: list[tuple[ir.Expr, ir.Expr]], dims: Dims, extent: ir.Expr) -> bool:
    """Whether `sum(step * i)` takes every value from 0 to `extent` - 1 once, and the coordinate is that sum."""
    zeros: dict[ir.Var, ir.Expr] = {d.var: integers.ZERO for d in dims}
    if integers.value(substitute(coordinate, zeros)) != 0:
        return False
    reach: ir.Expr = integers.ONE
    while mine:
        step = next(((s, e) for s, e in mine if integers.equal(s, reach)), None)
        if step is None:
            return False
        mine.remove(step)
        reach = integers.mul(reach, step[1])
    return integers.equal(reach, extent)
