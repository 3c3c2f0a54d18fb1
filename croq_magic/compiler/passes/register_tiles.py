"""Cuts a nest into tiles that fit the vector registers.

Rows of a tile are unrolled, its columns are the lanes of vectors; loops inside the nest (a reduction over K) run once
around a whole tile, and every scalar of an instance becomes a `REGISTER` buffer of the tile's size. So an element's
statements keep their order while all elements of a tile advance together:

    for c0 in 0..256 step 32 {
      for r0 in 0..8 step 8 {
        register acc: s32 [8, 32]
        for unroll i in 0..8 { for vector j in 0..32 { acc[i, j] = output[r0 + i, c0 + j] } }
        for k in 0..256 {
          for unroll i in 0..8 { for vector j in 0..32 { acc[i, j] = acc[i, j] + lhs[r0 + i, k] * rhs[k, c0 + j] } }
        }
        ...

Tile shapes measured with g++ 12 on AVX-512, AVX2 and SSE: two vectors a row and eight rows with 32 registers, two by
six or three by four with 16. More rows do not help, and lose where rows lie a multiple of the page size apart.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import TypeVar

from croq_magic.compiler import affine, integers, ir, views
from croq_magic.compiler.affine import Dim
from croq_magic.compiler.passes import packing
from croq_magic.compiler.passes.loop_nests import Nest
from croq_magic.compiler.types import S32
from croq_magic.compiler.visit import rewrite, substitute, walk

T = TypeVar("T", bound=ir.Node)
Fresh = Callable[[str], str]
_ROWS_32 = {1: 16, 2: 8, 3: 8, 4: 6}  # vectors a row: rows, with 32 vector registers
SCALAR_ROWS = 8
_ROWS_16 = {1: 8, 2: 6, 3: 4, 4: 3}


@dataclasses.dataclass(frozen=True)
class Vectors:
    """The vector registers of a processor: `width` in bytes, `count` of them."""

    width: int = 16
    count: int = 16

    def rows(self, vectors: int) -> int:
        """Rows of a tile with so many vectors a row."""
        return (_ROWS_32 if self.count >= 32 else _ROWS_16)[vectors]


@dataclasses.dataclass(frozen=True)
class Piece:
    """Part of a dimension: from `start` to `stop` in steps of `size` (which divides their distance)."""

    start: ir.Expr
    stop: ir.Expr
    size: int

    @property
    def once(self) -> bool:
        distance = integers.value(integers.sub(self.stop, self.start))
        return distance == self.size


def column_pieces(extent: ir.Expr, lanes: int) -> tuple[Piece, ...]:
    """How the columns are cut: several vectors, single vectors, then what is left by powers of two (a constant extent)
    or by elements."""
    size = integers.value(extent)
    if size is None:
        return tuple(_steps(extent, [2 * lanes, lanes, 1]))
    whole = size // lanes
    vectors = next((v for v in (2, 3, 4) if whole and whole % v == 0), min(2, max(1, whole)))
    sizes = [vectors * lanes, lanes]
    while sizes[-1] > 1:
        sizes.append(sizes[-1] // 2)
    return tuple(_steps(extent, sizes))


def row_pieces(extent: ir.Expr, most: int) -> tuple[Piece, ...]:
    """How the rows are cut: tiles of one height where one not much below `most` divides a constant extent, else of two
    nearly equal heights; for a symbolic extent full tiles and single rows."""
    size = integers.value(extent)
    if size is None:
        return tuple(_steps(extent, [most, 1]))
    tallest = min(most, size)
    even = next((h for h in range(tallest, (tallest + 1) // 2 - 1, -1) if size % h == 0), None)
    height = even or -(-size // -(-size // most))
    return tuple(_steps(extent, [height] if size % height == 0 else [height, size % height]))


def _steps(extent: ir.Expr, sizes: list[int]) -> Iterator[Piece]:
    """Pieces from 0 to the extent, of each size as many as fit. For a symbolic extent each size divides the one before
    and the last is 1."""
    start: ir.Expr = integers.ZERO
    for size in dict.fromkeys(sizes):
        step = integers.constant(size)
        count = integers.floordiv(integers.sub(extent, start) if integers.value(extent) is not None else extent, step)
        stop = integers.mul(count, step)
        if integers.value(extent) is not None:
            stop = integers.add(start, stop)
            if integers.equal(start, stop):
                continue
        yield Piece(start, stop, size)
        start = stop


def fits(nest: Nest, row: Dim | None, column: Dim | None, lanes: int, vectors: Vectors) -> bool:
    """Whether one tile is the whole nest."""
    if column is None or any(d is not row and d is not column for d in nest.dims):
        return False
    columns = column_pieces(column.extent, lanes)
    most = vectors.rows(max(1, min(4, columns[0].size // lanes)))
    rows = row_pieces(row.extent, most) if row is not None else ()
    return len(columns) == 1 and len(rows) <= 1 and all(piece.once for piece in (*columns, *rows))


def tiled(nest: Nest, row: Dim | None, column: Dim | None, lanes: int, vectors: Vectors, fresh: Fresh) -> ir.Body:
    """The nest as loops over register tiles; dimensions that are neither row nor column stand outside. Without a
    column the rows are scalars: several at a time, so that one's additions need not wait for another's."""
    body: list[ir.Stmt] = []
    for columns in column_pieces(column.extent if column is not None else integers.ONE, lanes):
        most = vectors.rows(max(1, min(4, columns.size // lanes))) if column is not None else SCALAR_ROWS
        rows = row_pieces(row.extent, most) if row is not None else (None,)
        c0 = _start(f"{column.var.name}0", columns, fresh) if column is not None else integers.ZERO
        first, strip = packing.packed(nest, row, column, c0, columns.size, fresh)
        inner = list(first)
        for part in rows:
            r0 = _start(f"{row.var.name}0", part, fresh) if part is not None and row is not None else None
            tile = _Tile(strip, row, column, part.size if part else 1, columns.size, lanes, r0, c0, fresh).body()
            inner += _over(part, r0, tile)
        body += _over(columns, c0, tuple(inner))
    result = tuple(body)
    for dim in reversed([d for d in nest.dims if d is not row and d is not column]):
        result = (ir.For(_loop_var(dim.var.name, dim.extent), integers.ZERO, dim.extent, 1, result),)
    return result


def _loop_var(name: str, extent: ir.Expr) -> ir.Var:
    return ir.Var(name, S32, ir.Role.LOOP, integers.ZERO, extent)


def _start(name: str, piece: Piece, fresh: Fresh) -> ir.Expr:
    if piece.once:
        return piece.start
    return ir.Var(fresh(name), S32, ir.Role.LOOP, piece.start, piece.stop)


def _over(piece: Piece | None, var: ir.Expr | None, body: ir.Body) -> ir.Body:
    if piece is None or not isinstance(var, ir.Var):
        return body
    return (ir.For(var, piece.start, piece.stop, piece.size, body),)


class _Tile:
    """The statements of one tile of `height` rows and `width` columns that starts at (`r0`, `c0`)."""

    def __init__(
        self,
        nest: Nest,
        row: Dim | None,
        column: Dim | None,
        height: int,
        width: int,
        lanes: int,
        r0: ir.Expr | None,
        c0: ir.Expr,
        fresh: Fresh,
    ) -> None:
        self.nest, self.height, self.width, self.fresh = nest, height, width, fresh
        self.lanes = min(lanes, width)
        self.i = _loop_var(fresh("i"), integers.constant(height)) if height > 1 else None
        self.j = _loop_var(fresh("j"), integers.constant(width)) if width > 1 else None
        self.places: dict[ir.Var, ir.Expr] = {}
        if column is not None:
            self.places[column.var] = integers.add(c0, self.j) if self.j is not None else c0
        if row is not None and r0 is not None:
            self.places[row.var] = integers.add(r0, self.i) if self.i is not None else r0
        self.scalars: dict[str, ir.View] = {}
        self.uniform = self._uniform()

    def _uniform(self) -> set[str]:
        """Names of immutable scalars that are the same for the whole tile."""
        varying = {v.name for v in self.places}
        same: set[str] = set()
        for n in walk(self.nest.body):
            if isinstance(n, ir.Let) and n.var.role is ir.Role.LET and n.value is not None:
                if affine.depends(n.value, varying) or any(isinstance(x, ir.Load) for x in walk(n.value)):
                    varying.add(n.var.name)
                else:
                    same.add(n.var.name)
            elif isinstance(n, (ir.Let, ir.Assign)):
                varying.add(n.var.name)
        return same - varying

    def body(self) -> ir.Body:
        statements = self._statements(self.nest.body)
        declared = tuple(ir.Declare(view.buffer) for view in self.scalars.values())
        body = (*declared, *statements)
        # The next tile declares scalars of the same names.
        return (ir.Scope(body),) if any(isinstance(s, ir.Let) for s in statements) else body

    def _statements(self, body: ir.Body) -> ir.Body:
        out: list[ir.Stmt] = []
        group: list[ir.Stmt] = []
        for s in body:
            if isinstance(s, ir.For):
                out += self._spread(group)
                group = []
                out.append(dataclasses.replace(s, body=self._statements(s.body)))
            elif isinstance(s, ir.Let) and s.var.name in self.uniform:
                out += self._spread(group)
                group = []
                out.append(s)
            else:
                group.append(self._element(s))
        return (*out, *self._spread(group))

    def _spread(self, group: list[ir.Stmt]) -> ir.Body:
        """Plain statements for all elements of the tile."""
        group = [s for s in group if not (isinstance(s, ir.Let) and s.value is None)]
        if not group:
            return ()
        body: ir.Body = tuple(group)
        if self.j is not None:
            stop = integers.constant(self.width)
            vectors = self.width // self.lanes
            body = (ir.For(self.j, integers.ZERO, stop, 1, body, ir.LoopKind.VECTOR, vectors if vectors > 1 else 0),)
        if self.i is not None:
            stop = integers.constant(self.height)
            body = (ir.For(self.i, integers.ZERO, stop, 1, body, ir.LoopKind.UNROLL),)
        return body

    def _element(self, s: ir.Stmt) -> ir.Stmt:
        """A plain statement for one element: its scalars are elements of the tile's buffers."""
        if isinstance(s, ir.Store):
            return self._place(s)
        assert isinstance(s, (ir.Let, ir.Assign))
        if s.value is None:
            self._buffer(s.var)
            return s
        value = self._place(s.value)
        return ir.Store(self._buffer(s.var), self._position(), value, span=s.span)

    def _position(self) -> tuple[ir.Expr, ...]:
        return (self.i or integers.ZERO, self.j or integers.ZERO)

    def _buffer(self, var: ir.Var) -> ir.View:
        if var.name not in self.scalars:
            shape = (integers.constant(self.height), integers.constant(self.width))
            buffer = ir.Buffer(self.fresh(var.name), var.dtype, ir.Storage.REGISTER, shape)
            self.scalars[var.name] = views.whole(buffer)
        return self.scalars[var.name]

    def _place(self, node: T) -> T:
        def change(n: ir.Node) -> ir.Node | None:
            if isinstance(n, ir.Var):
                if n in self.places:
                    return self.places[n]
                if n.name in self.scalars:
                    return ir.Load(self.scalars[n.name], self._position())
            return None

        return rewrite(node, change)


def order(nest: Nest, column: Dim | None, first: ir.Store) -> ir.Body:
    """A nest without inner loops as plain loops: large strides outside, the contiguous dimension innermost, its
    iterations independent."""

    outer = outer_first([d for d in nest.dims if d is not column], first)[::-1]
    body = nest.body
    for position, dim in enumerate([*([column] if column else []), *outer]):
        var = _loop_var(dim.var.name, dim.extent)
        kind = ir.LoopKind.PARALLEL if position == 0 else ir.LoopKind.SERIAL
        body = (ir.For(var, integers.ZERO, dim.extent, 1, substitute(body, {dim.var: var}), kind),)
    return body


def outer_first(dims: list[Dim], first: ir.Store) -> list[Dim]:
    """Dimensions by the distance between the elements stored in successive iterations, the largest first."""

    def reach(dim: Dim) -> tuple[int, int]:
        step = affine.stride(affine.element(first)[1], dim.var)
        size = None if step is None else integers.value(step)
        return (1, 0) if size is None else (0, abs(size))

    return sorted(dims, key=reach, reverse=True)
