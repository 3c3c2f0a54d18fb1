"""Compressing copies (`dma.copy.sp<2:4>`) as loops over the groups of four elements that they compress.

Of every group the positions of its non-zero elements are kept, completed by the lowest others to two, in ascending
order. A group with more than two is not 2:4-sparse, which is reported while running.

    copy compressed values x[c0, c1 : 16, 32] => a        =>     region thread [i < 16, g < 8] implied {
                                                                    v0 = x[i, g * 4] ...
                                                                    assert ...
                                                                    a[i, g * 2] = ...
"""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from croq_magic.compiler import integers, ir, views
from croq_magic.compiler.passes.base import Context
from croq_magic.compiler.passes.structure import fresh_name
from croq_magic.compiler.types import BOOL, S32, U8
from croq_magic.compiler.visit import rewrite, walk

GROUP = 4


@dataclasses.dataclass(frozen=True)
class LowerCompression:
    """After it no copy compresses, with `host` no copy outside launches: threads share out the groups of others."""

    name: ClassVar[str] = "lower-compression"
    host: bool = False

    def __call__(self, function: ir.Function, context: Context) -> ir.Function:
        if not any(isinstance(node, ir.Copy) and node.compressed for node in walk(function.body)):
            return function
        taken = {node.name for node in walk(function.body) if isinstance(node, (ir.Var, ir.Buffer))}
        launches = function.launches() if self.host else ()
        kept = {id(node) for launch in launches for node in walk(launch) if isinstance(node, ir.Copy)}
        body: ir.Body = rewrite(function.body, lambda node: None if id(node) in kept else _lowered(node, taken))
        return dataclasses.replace(function, body=body)


def _lowered(node: ir.Node, taken: set[str]) -> ir.Body | None:
    if not isinstance(node, ir.Copy) or not node.compressed:
        return None
    clear: ir.Body = ()
    if node.partial:
        clear = (ir.SpanOp(node.dst, zero_of(node.dst)),)
    index, extents, body = compression(node, taken)
    for var, extent in zip(reversed(index), reversed(extents), strict=True):
        # Loops, not a region: several instances of one host statement would need levels.
        body = (ir.For(var, integers.ZERO, extent, 1, body, span=node.span),)
    return (*clear, *body)


def zero_of(view: ir.View) -> ir.Const:
    return ir.Const(0.0 if view.buffer.dtype.is_float else 0, view.buffer.dtype)


def compression(s: ir.Copy, taken: set[str]) -> tuple[tuple[ir.Var, ...], tuple[ir.Expr, ...], ir.Body]:
    """A compressing copy as statements for every value of some variables below their extents, in any order. New names
    are added to `taken`."""
    c = _Compression(s, taken, 1 if s.compressed == "values" else 2)
    return c.index, c.extents, c.values() if s.compressed == "values" else c.positions()


class _Compression:
    """One copy, by the groups of its source."""

    def __init__(self, s: ir.Copy, taken: set[str], groups: int = 1) -> None:
        """An instance takes `groups` neighbouring groups."""
        self.s = s
        self.taken = taken
        last = integers.ceildiv(s.src.extents[-1], integers.constant(GROUP * groups))
        self.extents = (*s.src.extents[:-1], last)
        names = [self.fresh(f"i{d}") for d in range(len(self.extents))]
        self.index = tuple(
            ir.Var(name, S32, ir.Role.LOOP, integers.ZERO, extent)
            for name, extent in zip(names, self.extents, strict=True)
        )

    def fresh(self, name: str) -> str:
        return fresh_name(name, self.taken)

    def let(self, name: str, value: ir.Expr) -> ir.Let:
        return ir.Let(ir.Var(self.fresh(name), value.dtype, ir.Role.LET), value)

    def element(self, k: ir.Expr) -> ir.Expr:
        """An element of the source in the row of the current instance; outside the base buffer it is zero."""
        src = self.s.src
        at = (*self.index[:-1], k)
        if not src.zfill:
            return ir.Load(src, at, span=self.s.span)
        base, _ = views.element(src, at)
        inside: ir.Expr | None = None
        for coordinate, extent in zip(base, src.buffer.shape, strict=True):
            for test in (ir.Binary(">=", coordinate, integers.ZERO, BOOL), ir.Binary("<", coordinate, extent, BOOL)):
                inside = test if inside is None else ir.Binary("&&", inside, test, BOOL)
        assert inside is not None
        load = ir.Load(dataclasses.replace(src, zfill=False, checks=()), at, span=self.s.span)
        zero = ir.Const(0.0 if load.dtype.is_float else 0, load.dtype)
        return ir.Select(inside, load, zero, load.dtype)

    def group(self, number: ir.Expr) -> tuple[list[ir.Stmt], list[ir.Var], ir.Var, ir.Var, ir.Expr]:
        """Statements that load a group; its elements, the two kept positions, and how many are not zero."""
        out: list[ir.Stmt] = []
        elements: list[ir.Var] = []
        full: list[ir.Expr] = []
        for position in range(GROUP):
            k = integers.add(integers.mul(number, integers.constant(GROUP)), integers.constant(position))
            element = self.let("element", self.element(k))
            dtype = element.var.dtype
            test = self.let("kept", ir.Binary("!=", element.var, ir.Const(0.0 if dtype.is_float else 0, dtype), BOOL))
            out += (element, test)
            elements.append(element.var)
            full.append(test.var)
        second = self.let("second", _select((full[3], 3), (full[2], 2), otherwise=1))
        both = [ir.Binary("&&", full[p], ir.Binary(">", second.var, integers.constant(p), BOOL), BOOL) for p in (1, 2)]
        first = self.let("first", _select((full[0], 0), (both[0], 1), (both[1], 2), otherwise=0))
        out += (second, first)
        count: ir.Expr = ir.Cast(full[0], S32)
        for test_var in full[1:]:
            count = ir.Binary("+", count, ir.Cast(test_var, S32), S32)
        return out, elements, first.var, second.var, count

    def values(self) -> ir.Body:
        group = self.index[-1]
        out, elements, first, second, count = self.group(group)
        sparse = ir.Binary("<=", count, integers.constant(2), BOOL)
        message = f"`{self.s.src.buffer.name}` is not 2:4-sparse: more than two of four neighbours are not zero"
        out.append(ir.Assert(sparse, message, "DMA24", (count,), span=self.s.span))
        for offset, position in enumerate((first, second)):
            chosen: ir.Expr = elements[3]
            for number in (2, 1, 0):
                test = ir.Binary("==", position, integers.constant(number), BOOL)
                chosen = ir.Select(test, elements[number], chosen, elements[0].dtype)
            at = integers.add(integers.mul(group, integers.constant(2)), integers.constant(offset))
            out.append(ir.Store(self.s.dst, (*self.index[:-1], at), chosen, span=self.s.span))
        return tuple(out)

    def positions(self) -> ir.Body:
        """One byte for two groups; where the last one is alone, its high nibble is zero."""
        low = integers.mul(self.index[-1], integers.constant(2))
        high = integers.add(low, integers.ONE)
        out, _, first, second, _ = self.group(low)
        byte = ir.Var(self.fresh("byte"), S32, ir.Role.MUTABLE)
        out.append(ir.Let(byte, _nibble(first, second, 0)))
        groups = integers.floordiv(self.s.src.extents[-1], integers.constant(GROUP))
        more, _, first, second, _ = self.group(high)
        more.append(ir.Assign(byte, ir.Binary("|", byte, _nibble(first, second, 4), S32)))
        out.append(ir.If(ir.Binary("<", high, groups, BOOL), tuple(more)))
        out.append(ir.Store(self.s.dst, self.index, ir.Cast(byte, U8), span=self.s.span))
        return tuple(out)


def _nibble(first: ir.Expr, second: ir.Expr, shift: int) -> ir.Expr:
    pair = ir.Binary("|", first, ir.Binary("<<", second, integers.constant(2), S32), S32)
    return pair if not shift else ir.Binary("<<", pair, integers.constant(shift), S32)


def _select(*choices: tuple[ir.Expr, int], otherwise: int) -> ir.Expr:
    """The number of the first condition that holds."""
    value: ir.Expr = integers.constant(otherwise)
    for condition, number in reversed(choices):
        value = ir.Select(condition, integers.constant(number), value, S32)
    return value
