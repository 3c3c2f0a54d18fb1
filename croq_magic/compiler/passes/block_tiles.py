"""Cuts the grid anew where blocks are too small to use vectors or to share what they load.

With one element a block (`parallel {i, j} by [M, N]`) or one row a block, the dimension that is contiguous in memory or
the one whose iterations load the same data is a dimension of the grid. Nothing is shared inside such a block, so the
blocks are only a way to count: the kernel becomes a grid of tiles, each a nest over its part of both dimensions.
"""

from __future__ import annotations

import dataclasses

from croq_magic.compiler import integers, ir
from croq_magic.compiler.affine import Dim
from croq_magic.compiler.passes.loop_nests import Nest
from croq_magic.compiler.types import S32
from croq_magic.compiler.visit import rewrite, substitute

ROWS, COLUMNS = 32, 256  # a tile at most: its part of one operand stays in the first-level cache
CHUNK = 4096  # elements of a row that a block streams
BLOCKS = 64  # as many tiles are wanted before they grow: enough for the threads of a large machine


@dataclasses.dataclass(frozen=True)
class Grid:
    """A new grid: `axes` in order, the last one contiguous, and the nest that one block of it runs."""

    axes: tuple[Dim, ...]
    nest: Nest
    row: Dim | None
    column: Dim | None


def retiled(nest: Nest, row: Dim | None, column: Dim | None, rows: int, lanes: int) -> Grid:
    """The nest as a grid of tiles; tile extents are multiples of `rows` and `lanes` where the extents allow it."""
    others = [d for d in nest.dims if d is not row and d is not column]
    blocks = 1
    for d in others:
        blocks *= d.size or BLOCKS
    height = width = 1
    for taller, wider in ((rows, 4 * lanes), (ROWS, 4 * lanes), (ROWS, COLUMNS)):
        new_height = _extent(row, [rows, min(2 * rows, taller), taller]) if row is not None else 1
        new_width = _extent(column, [4 * lanes, wider]) if column is not None else 1
        if height * width == 1 or blocks * _count(row, new_height) * _count(column, new_width) >= BLOCKS:
            height, width = new_height, new_width
    axes = list(others)
    body = nest.body
    inner: list[Dim] = []
    for dim, size in ((row, height), (column, width)):
        if dim is None:
            continue
        outer, part = _cut(dim, size)
        body = substitute(body, {dim.var: integers.add(integers.mul(outer.var, integers.constant(size)), part.var)})
        axes.append(outer)
        inner.append(part)
    new_row = inner[0] if row is not None else None
    return Grid(tuple(axes), Nest(tuple(inner), body), new_row, inner[-1] if column is not None else None)


def rows(nest: Nest, order: list[Dim], column: Dim) -> Grid:
    """The nest as a grid of parts of rows; `order` lists its dimensions, outer ones first."""
    outer, part = _cut(column, _extent(column, [CHUNK]))
    place = integers.add(integers.mul(outer.var, integers.constant(_extent(column, [CHUNK]))), part.var)
    body = substitute(nest.body, {column.var: place})
    return Grid((*(d for d in order if d is not column), outer), Nest((part,), body), None, part)


def region(root: ir.Region, grid: Grid, body: ir.Body) -> ir.Region:
    """The kernel's region with another grid and body."""
    places: dict[ir.Var, ir.Expr] = {a.var: integers.ZERO for a in grid.axes if a.size == 1}
    axes = [a for a in grid.axes if a.size != 1]
    indices = tuple(dataclasses.replace(a.var, role=ir.Role.REGION) for a in axes)
    places |= {a.var: i for a, i in zip(axes, indices, strict=True)}
    new = substitute(body, places)
    return dataclasses.replace(root, indices=indices, extents=tuple(a.extent for a in axes), body=new)


def streams(nest: Nest, column: Dim, cache: int) -> bool:
    """Whether what the nest stores does not fit into `cache` bytes, and nothing of it is read."""
    count = 1
    for d in nest.dims:
        if d.size is None:
            return False
        count *= d.size
    stored = {a.view.buffer for a in nest.stores()}
    if any(isinstance(a, ir.Load) and a.view.buffer in stored for a in nest.accesses()):
        return False
    one_each = len(nest.stores()) == len(stored) and not any(s.op for s in nest.stores())
    return one_each and (column.size or 0) >= CHUNK // 4 and all(count * b.dtype.size > cache for b in stored)


def streaming(body: ir.Body) -> ir.Body:
    """The statements with every store to global memory past the caches."""

    def change(node: ir.Node) -> ir.Node | None:
        if isinstance(node, ir.Store) and node.view.buffer.storage is ir.Storage.GLOBAL:
            return dataclasses.replace(node, streaming=True)
        return None

    return rewrite(body, change)


def _count(dim: Dim | None, size: int) -> int:
    if dim is None:
        return 1
    return BLOCKS if dim.size is None else -(-dim.size // size)


def _extent(dim: Dim, wanted: list[int]) -> int:
    """The largest of the wanted sizes that divides the dimension; else the largest."""
    if dim.size is None:
        return max(wanted)
    fitting = [size for size in wanted if size <= dim.size and dim.size % size == 0]
    return max(fitting) if fitting else min(max(wanted), dim.size)


def _cut(dim: Dim, size: int) -> tuple[Dim, Dim]:
    """A dimension as tiles and the position inside one; the last tile may be shorter."""
    step = integers.constant(size)
    count = integers.ceildiv(dim.extent, step)
    outer = ir.Var(f"{dim.var.name}_tile", S32, ir.Role.REGION, integers.ZERO, count)
    whole = dim.size is not None and dim.size % size == 0
    left = integers.sub(dim.extent, integers.mul(outer, step))
    extent: ir.Expr = step if whole else ir.Builtin("__min", (step, left), S32)
    return Dim(outer, count), Dim(ir.Var(dim.var.name, S32, ir.Role.LOOP, integers.ZERO, extent), extent)
