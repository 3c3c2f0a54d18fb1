"""Copies what a tile would gather lane by lane into the order in which the tile reads it.

In a product with a transposed operand, `a.at(i, k) * b.at(j, k)`, neighbouring columns j read elements a row apart.
Each of them is used for every row of the tile, so the part of `b` that a strip of columns needs is laid out once,
columns next to each other, before the rows are worked on.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator

from croq_magic.compiler import affine, integers, ir, views
from croq_magic.compiler.affine import Dim
from croq_magic.compiler.passes.loop_nests import Nest
from croq_magic.compiler.types import S32
from croq_magic.compiler.visit import rewrite, substitute, walk

LIMIT = 1 << 18  # bytes of one copy: half of a usual second-level cache
RUN = 16  # elements read in a row before the next column's: a cache line of four-byte elements


def packed(
    nest: Nest, row: Dim | None, column: Dim | None, start: ir.Expr, width: int, fresh: Callable[[str], str]
) -> tuple[ir.Body, Nest]:
    """What fills the copies for the columns from `start`, and the nest that reads them."""
    if row is None or column is None or width == 1:
        return (), nest
    before: list[ir.Stmt] = []
    new: dict[int, ir.Load] = {}
    for load, loops in _inside_loops(nest.body, ()):
        offset = affine.element(load)[1]
        step = affine.stride(offset, column.var)
        if step is None or integers.value(step) in (0, 1) or affine.depends(offset, {row.var.name}) or load.view.slot:
            continue
        used = [loop for loop in loops if affine.depends(offset, {loop.var.name})]
        extents = [_trips(loop) for loop in used]
        if not used or any(extent is None for extent in extents):
            continue
        shape = (*(integers.constant(extent or 0) for extent in extents), integers.constant(width))
        count = width
        for extent in extents:
            count *= extent or 0
        if count * load.dtype.size > LIMIT:
            continue
        buffer = ir.Buffer(fresh(f"{load.view.buffer.name}_packed"), load.dtype, ir.Storage.LOCAL, shape)
        view = views.whole(buffer)
        new[id(load)] = ir.Load(view, (*(loop.var for loop in used), integers.sub(column.var, start)), span=load.span)
        before += [ir.Declare(buffer), _fill(load, view, used, column, start, width, fresh)]
    if not new:
        return (), nest
    body = rewrite(nest.body, lambda node: new.get(id(node)))
    return tuple(before), dataclasses.replace(nest, body=body)


def _inside_loops(body: ir.Body, loops: tuple[ir.For, ...]) -> Iterator[tuple[ir.Load, tuple[ir.For, ...]]]:
    for s in body:
        if isinstance(s, ir.For):
            yield from _inside_loops(s.body, (*loops, s))
        elif loops:
            yield from ((n, loops) for n in walk(s) if isinstance(n, ir.Load))


def _trips(loop: ir.For) -> int | None:
    """Iterations of a loop that starts at 0 in steps of 1, if they are a constant."""
    return integers.value(loop.stop) if loop.step == 1 and integers.value(loop.start) == 0 else None


def _fill(
    load: ir.Load,
    view: ir.View,
    used: list[ir.For],
    column: Dim,
    start: ir.Expr,
    width: int,
    fresh: Callable[[str], str],
) -> ir.Stmt:
    """Copies element by element: short runs of the innermost loop, column by column."""
    *others, last = used
    variables = [_var(fresh(loop.var.name), loop.stop) for loop in others]
    place = _var(fresh(column.var.name), integers.constant(width))
    values: dict[ir.Var, ir.Expr] = {loop.var: var for loop, var in zip(others, variables, strict=True)}
    values[column.var] = integers.add(start, place)
    size = integers.value(last.stop) or 0
    run = RUN if size % RUN == 0 else size
    outer, inner = _var(fresh(last.var.name), last.stop), _var(fresh(last.var.name), integers.constant(run))
    values[last.var] = integers.add(outer, inner)
    index = (*variables, values[last.var], place)
    body: ir.Stmt = ir.Store(view, index, substitute(load, values), span=load.span)
    body = ir.For(inner, integers.ZERO, integers.constant(run), 1, (body,))
    body = ir.For(place, integers.ZERO, integers.constant(width), 1, (body,))
    body = ir.For(outer, integers.ZERO, last.stop, run, (body,))
    for var, loop in zip(reversed(variables), reversed(others), strict=True):
        body = ir.For(var, integers.ZERO, loop.stop, 1, (body,))
    return body


def _var(name: str, extent: ir.Expr) -> ir.Var:
    return ir.Var(name, S32, ir.Role.LOOP, integers.ZERO, extent)
