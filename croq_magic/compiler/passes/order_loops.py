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
from croq_magic.compiler.passes import loop_nests, register_tiles
from croq_magic.compiler.passes.base import Context
from croq_magic.compiler.passes.loop_nests import Nest
from croq_magic.compiler.passes.promote_accumulators import promote
from croq_magic.compiler.passes.register_tiles import Vectors
from croq_magic.compiler.passes.structure import inner_regions, map_kernels, with_bodies
from croq_magic.compiler.visit import walk


@dataclasses.dataclass(frozen=True)
class OrderLoops:
    """`width` (bytes) and `count` describe the processor's vector registers."""

    name: ClassVar[str] = "order-loops"
    width: int = 16
    count: int = 16

    def __call__(self, function: ir.Function, context: Context) -> ir.Function:
        taken = {b.name for b in walk(function) if isinstance(b, ir.Buffer)} | affine.names(function)
        vectors = Vectors(self.width, self.count)

        def kernel(region: ir.Region) -> ir.Region:
            body = _ordered(region.body, taken, vectors)
            return region if body is region.body else dataclasses.replace(region, body=body)

        return map_kernels(function, kernel)


def _ordered(body: ir.Body, taken: set[str], vectors: Vectors) -> ir.Body:
    out: list[ir.Stmt] = []
    changed = False
    for s in body:
        new: ir.Body = (s,)
        if isinstance(s, ir.Region) and not inner_regions(s.body):
            new = _region(s, taken, vectors) or new
        else:
            new = (with_bodies(s, lambda inner: _ordered(inner, taken, vectors)),)
        changed = changed or len(new) != 1 or new[0] is not s
        out += new
    return tuple(out) if changed else body


def _region(region: ir.Region, taken: set[str], vectors: Vectors) -> ir.Body | None:
    def fresh(name: str) -> str:
        new, count = name, 1
        while new in taken:
            count += 1
            new = f"{name}_{count}"
        taken.add(new)
        return new

    nest = loop_nests.of_region(region, taken)
    if nest is None:
        return None
    columns = sorted(filter(None, (_column(nest, d) for d in nest.dims)), key=lambda c: c.strange)
    column = columns[0] if columns else None
    dtype = loop_nests.vector_type(nest)
    if nest.straight and not nest.registers:
        return register_tiles.order(nest, column.dim if column else None, nest.stores()[0])
    if column is None or dtype is None:
        return None
    if not nest.registers:
        nest, column = _collapsed(nest, column)
    lanes = _lanes(vectors.width // dtype.size, column.dim)
    if lanes < 2:
        return None
    row = _row(nest, column.dim)
    if nest.registers and not register_tiles.fits(nest, row, column.dim, lanes, vectors):
        # The accumulators stay in memory between the tiles, and in registers while a tile is worked on.
        nest = dataclasses.replace(nest, body=promote(nest.body, taken, registers=True))
    return register_tiles.tiled(nest, row, column.dim, lanes, vectors, fresh)


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
