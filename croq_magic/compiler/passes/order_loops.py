"""Turns thread regions into loop nests in the order a processor likes: for the CPU target.

The innermost loop becomes the one that is contiguous in memory, whatever the program's index order; a reduction runs
around a tile of vector registers (`register_tiles.py`); indices composed of several loops (`q#n`) become one. A region
that is not understood in full, or of which it is not proven that its threads store different elements, stays.
"""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from croq_magic.compiler import affine, integers, ir
from croq_magic.compiler.affine import Dim
from croq_magic.compiler.passes import block_tiles, loop_nests, register_tiles
from croq_magic.compiler.passes.base import Context
from croq_magic.compiler.passes.loop_nests import Nest
from croq_magic.compiler.passes.promote_accumulators import Options, promote
from croq_magic.compiler.passes.register_tiles import Vectors
from croq_magic.compiler.passes.structure import fresh_name, inner_regions, map_kernels, with_bodies
from croq_magic.compiler.visit import substitute, walk


@dataclasses.dataclass(frozen=True)
class OrderLoops:
    """`width` (bytes) and `count` describe the processor's vector registers. Where one store statement of a launch
    writes more than `cache` bytes, its stores go past the caches (0: never)."""

    name: ClassVar[str] = "order-loops"
    width: int = 16
    count: int = 16
    cache: int = 0

    def __call__(self, function: ir.Function, context: Context) -> ir.Function:
        taken = {b.name for b in walk(function) if isinstance(b, ir.Buffer)} | affine.names(function)
        work = _Work(taken, Vectors(self.width, self.count), self.cache)
        return map_kernels(function, work.kernel)


class _Work:
    """One run of the pass: the names in use, the vectors to fill and the size of the cache."""

    def __init__(self, taken: set[str], vectors: Vectors, cache: int) -> None:
        self.taken, self.vectors, self.cache = taken, vectors, cache

    def fresh(self, name: str) -> str:
        return fresh_name(name, self.taken)

    def kernel(self, region: ir.Region) -> ir.Region:
        grid = self._grid(region)
        if grid is not None:
            return grid
        body = self._body(region.body)
        return region if body is region.body else dataclasses.replace(region, body=body)

    def _body(self, body: ir.Body) -> ir.Body:
        out: list[ir.Stmt] = []
        changed = False
        for s in body:
            new: ir.Body = (s,)
            if isinstance(s, ir.Region) and s.fibers is None and not inner_regions(s.body):
                nest = loop_nests.of_region(s, self.taken)
                new = (self._nest(nest) if nest is not None else None) or new
            else:
                new = (with_bodies(s, self._body),)
            changed = changed or len(new) != 1 or new[0] is not s
            out += new
        return tuple(out) if changed else body

    def _nest(self, nest: Nest) -> ir.Body | None:
        if nest.straight and not nest.registers:
            column = _best_column(nest)
            return register_tiles.order(nest, column.dim if column else None, nest.stores()[0])
        plan = self._plan(nest)
        return self._tiled(plan) if plan is not None else None

    def _tiled(self, plan: _Plan) -> ir.Body:
        nest = plan.nest
        if nest.registers and not register_tiles.fits(nest, plan.row, plan.column, plan.lanes, self.vectors):
            # The accumulators stay in memory between the tiles, and in registers while a tile is worked on.
            nest = dataclasses.replace(nest, body=promote(nest.body, self.taken, Options(registers=True)))
        return register_tiles.tiled(nest, plan.row, plan.column, plan.lanes, self.vectors, self.fresh)

    def _plan(self, nest: Nest) -> _Plan | None:
        column, dtype = _best_column(nest), loop_nests.vector_type(nest)
        if dtype is None:
            return None
        if column is None:
            # Rows of scalars advance together for the sake of sums; stores alone are better off element by element.
            sums = any(isinstance(n, ir.Assign) for n in walk(nest.body))
            return _Plan(nest, nest.dims[-1], None, 1) if sums else None
        if not nest.registers:
            nest, column = _collapsed(nest, column)
        row, lanes = _row(nest, column.dim), _lanes(self.vectors.width // dtype.size, column.dim)
        if lanes == 1 or _gathers(nest, row, column.dim):
            return _Plan(nest, column.dim, None, 1)
        return _Plan(nest, row, column.dim, lanes)

    def _grid(self, root: ir.Region) -> ir.Region | None:
        """The kernel as another grid, or None where its blocks are good as they are."""
        inner = root.body[0] if len(root.body) == 1 else None
        threads = inner if isinstance(inner, ir.Region) else ir.Region(ir.Level.THREAD, (), (), root.body)
        if root.level is not ir.Level.BLOCK or root.attributes != ir.RegionAttributes():
            return None
        if threads.fibers is not None or inner_regions(threads.body):
            return None
        whole = dataclasses.replace(
            threads, indices=(*root.indices, *threads.indices), extents=(*root.extents, *threads.extents)
        )
        nest = loop_nests.of_region(whole, self.taken)
        if nest is None or nest.registers:
            return None
        grid = {v.name for v in root.indices}
        if nest.straight:
            column = _best_column(nest)
            if column is None:
                return None
            if self.cache and block_tiles.streams(nest, column.dim, self.cache):
                return self._streamed(root, nest, column.dim)
            return _rows(root, nest, column.dim) if column.dim.sources & grid else None
        block = loop_nests.of_region(threads, self.taken)
        plan = self._plan(block) if block is not None else None
        if plan is not None and plan.good:
            return dataclasses.replace(root, body=self._tiled(plan))
        plan = self._plan(nest)
        if plan is None or not any(d.sources & grid for d in (plan.row, plan.column) if d is not None):
            return None
        new = block_tiles.retiled(plan.nest, plan.row, plan.column, self.vectors.rows(2), plan.lanes)
        body = register_tiles.tiled(new.nest, new.row, new.column, plan.lanes, self.vectors, self.fresh)
        return block_tiles.region(root, new, body)

    def _streamed(self, root: ir.Region, nest: Nest, column: Dim) -> ir.Region | None:
        dtype = loop_nests.vector_type(nest)
        if dtype is None:
            return None
        lanes = self.vectors.width // dtype.size
        new = block_tiles.rows(nest, register_tiles.outer_first(list(nest.dims), nest.stores()[0]), column)
        body = register_tiles.tiled(new.nest, None, new.column, lanes, self.vectors, self.fresh)
        return block_tiles.region(root, new, block_tiles.streaming(body))


@dataclasses.dataclass(frozen=True)
class _Plan:
    """How a nest with inner loops is tiled."""

    nest: Nest
    row: Dim | None
    column: Dim | None
    lanes: int

    @property
    def good(self) -> bool:
        """Both dimensions of a tile are there, and large enough."""
        return self.column is not None and self.row is not None and (self.row.size or ENOUGH_ROWS) >= ENOUGH_ROWS


ENOUGH_ROWS = 4


def _rows(root: ir.Region, nest: Nest, column: Dim) -> ir.Region:
    """A nest without inner loops as a grid whose last axis is the contiguous one: the emitter makes rows of it."""
    first = nest.stores()[0]
    axes = [*register_tiles.outer_first([d for d in nest.dims if d is not column], first), column]
    indices = tuple(dataclasses.replace(a.var, role=ir.Role.REGION) for a in axes)
    body = substitute(nest.body, {a.var: i for a, i in zip(axes, indices, strict=True)})
    return dataclasses.replace(root, indices=indices, extents=tuple(a.extent for a in axes), body=body)


def _best_column(nest: Nest) -> _Column | None:
    columns = sorted(filter(None, (_column(nest, d) for d in nest.dims)), key=lambda c: c.strange)
    return columns[0] if columns else None


@dataclasses.dataclass(frozen=True)
class _Column:
    """A dimension along which all stores are contiguous; `strange` counts loads that neither are nor stay in place."""

    dim: Dim
    strange: int


def _column(nest: Nest, dim: Dim) -> _Column | None:
    strange = 0
    for access in nest.accesses():
        step = affine.stride(affine.element(access)[1], dim.var)
        size = None if step is None else integers.value(step)
        if isinstance(access, ir.Store):
            if size != 1:
                return None
        elif size not in (0, 1):
            if step is None:
                return None
            strange += 1
    return _Column(dim, strange)


def _collapsed(nest: Nest, column: _Column) -> tuple[Nest, _Column]:
    """The nest with every dimension merged into the column that continues it."""
    for outer in nest.dims:
        if outer is not column.dim:
            merged = loop_nests.collapse(nest, outer, column.dim)
            if merged is not None:
                dim = next(d for d in merged.dims if not any(d is old for old in nest.dims))
                return _collapsed(merged, _Column(dim, column.strange))
    return nest, column


def _lanes(most: int, column: Dim) -> int:
    """A power of two: as many lanes as a register has, fewer for a narrow column."""
    lanes, size = most, column.size
    while size is not None and lanes > size:
        lanes //= 2
    return lanes


def _gathers(nest: Nest, row: Dim | None, column: Dim) -> bool:
    """Whether a loop would collect the lanes of a vector one by one for a single use."""
    for n in (n for s in nest.body if isinstance(s, ir.For) for n in walk(s)):
        if isinstance(n, ir.Load):
            offset = affine.element(n)[1]
            step = affine.stride(offset, column.var)
            apart = step is None or integers.value(step) not in (0, 1)
            if apart and (row is None or affine.depends(offset, {row.var.name})):
                return True
    return False


def _row(nest: Nest, column: Dim) -> Dim | None:
    """The dimension whose rows use the same vectors again: one that some contiguous load does not move with."""
    others = [d for d in nest.dims if d is not column]
    if not others:
        return None

    def shared(dim: Dim) -> int:
        count = 0
        for access in nest.accesses():
            if isinstance(access, ir.Load) and access.view.buffer.storage is not ir.Storage.REGISTER:
                offset = affine.element(access)[1]
                moves = affine.depends(offset, {column.var.name})
                count += moves and not affine.depends(offset, {dim.var.name})
        return count

    return max(others, key=lambda d: (shared(d), d.size or 1 << 30))
