"""Tensor cores as plain loops: what fragments and `mma` statements mean, for targets without such instructions.

A fragment becomes a local buffer with one copy per group that owns one; a multiplication becomes a region over the
accumulator's elements with a loop over K inside, which later passes order and vectorise like any other. Operands are
converted exactly to the type of the sum (f32 for 16-bit and smaller floats); sums run over K in ascending order, or in
that of the schedule, and an f16 accumulator is rounded once per statement.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import ClassVar

from croq_magic.compiler import integers, ir, views
from croq_magic.compiler.passes.base import Context
from croq_magic.compiler.passes.structure import bodies, fresh_name, map_kernels, with_bodies
from croq_magic.compiler.types import BOOL, F32, F64, S32, DType
from croq_magic.compiler.visit import rewrite, walk

Chain = tuple[ir.Region, ...]
Copies = dict[ir.Level, ir.Expr]  # which copy of a fragment: the number of the current group, by its level
_UNITS = (ir.Level.GROUP4, ir.Level.GROUP)
_K_ATOM = {2: 16, 4: 8}  # K of one instruction by operand bytes, what a schedule counts in; 32 for one byte


@dataclasses.dataclass(frozen=True)
class LowerFragments:
    """After it no fragment is left. Declarations must be hoisted and regions split before: no fragment statement may
    stand in a thread region."""

    name: ClassVar[str] = "lower-fragments"

    def __call__(self, function: ir.Function, context: Context) -> ir.Function:
        if not any(isinstance(node, ir.Fragment) for node in walk(function.body)):
            return function
        taken = {node.name for node in walk(function.body) if isinstance(node, (ir.Var, ir.Buffer))}
        return map_kernels(function, lambda region: Lowering(region, taken).kernel())


def compute_type(dtype: DType) -> DType:
    """The type in which products of operands are summed."""
    if dtype.is_integer:
        return S32
    return F64 if dtype is F64 else F32


@dataclasses.dataclass(frozen=True)
class Home:
    """Where a fragment lives: its buffer, and the group regions whose instances have a copy each."""

    buffer: ir.Buffer
    units: Chain


class Lowering:
    def __init__(self, region: ir.Region, taken: set[str]) -> None:
        self.root = region
        self.taken = taken
        self.homes: dict[ir.Fragment, Home] = {}

    def kernel(self) -> ir.Region:
        self._find_homes(self.root.body, (self.root,))
        return dataclasses.replace(self.root, body=self._body(self.root.body, (self.root,)))

    # --------------------------------------------------------------------------------------------------- homes

    def _find_homes(self, body: ir.Body, chain: Chain) -> None:
        """Every fragment's home: the groups in which it is used have a copy each."""
        for s in body:
            if isinstance(s, ir.DeclareFragment):
                self.homes.setdefault(s.fragment, self._home(s.fragment, ()))
            if not bodies(s) or isinstance(s, ir.Apply):
                units = tuple(region for region in chain if region.level in _UNITS)
                for node in walk(s):
                    if isinstance(node, ir.Fragment) and len(units) > len(self.homes[node].units):
                        self.homes[node] = self._home(node, units)
            for nested in bodies(s):
                self._find_homes(nested, (*chain, s) if isinstance(s, ir.Region) else chain)

    def _home(self, fragment: ir.Fragment, units: Chain) -> Home:
        shape = (*(integers.product(unit.extents) for unit in units), *fragment.shape)
        return Home(ir.Buffer(fragment.name, fragment.dtype, ir.Storage.LOCAL, shape, fragment.slots), units)

    def fresh(self, name: str) -> str:
        return fresh_name(name, self.taken)

    # -------------------------------------------------------------------------------------------------- bodies

    def _body(self, body: ir.Body, chain: Chain) -> ir.Body:
        out: list[ir.Stmt] = []
        for s in body:
            if isinstance(s, ir.DeclareFragment):
                out.append(ir.Declare(self.homes[s.fragment].buffer, s.init, span=s.span))
                continue
            lower = LOWER.get(type(s))
            if lower is not None:
                out += self._for_each_copy(s, chain, lower)
                continue
            inner = (*chain, s) if isinstance(s, ir.Region) else chain
            s = self._arguments(s, chain) if isinstance(s, ir.Call) else s
            out.append(with_bodies(s, lambda nested, inner=inner: self._body(nested, inner)))  # type: ignore[misc]
        return tuple(out)

    def _for_each_copy(self, s: ir.Stmt, chain: Chain, lower: Callable[..., ir.Body]) -> ir.Body:
        """The statement for the copy of the current group, or outside groups for all copies in turn."""
        fragments = [node for node in walk(s) if isinstance(node, ir.Fragment)]
        units = max((self.homes[f].units for f in fragments), key=len, default=())
        copies = _here(chain)
        missing: list[tuple[ir.Var, ir.Expr]] = []
        for unit in units:
            assert unit.level is not None
            if unit.level not in copies:
                count = integers.product(unit.extents)
                var = ir.Var(self.fresh(unit.level.value.replace("-", "")), S32, ir.Role.LOOP, integers.ZERO, count)
                copies[unit.level] = var
                missing.append((var, count))
        body = lower(self, s, copies)
        for var, extent in missing:
            body = (ir.For(var, integers.ZERO, extent, 1, body, span=s.span),)
        return body

    def _arguments(self, s: ir.Call, chain: Chain) -> ir.Call:
        here = _here(chain)
        args = tuple(self.view(ir.FragmentRef(a), here) if isinstance(a, ir.Fragment) else a for a in s.args)
        return dataclasses.replace(s, args=args)

    # ----------------------------------------------------------------------------------------------- fragments

    def view(self, ref: ir.FragmentRef, copies: Copies) -> ir.View:
        """The copy of a fragment that belongs to the current group."""
        home = self.homes[ref.fragment]
        index = tuple(copies[unit.level] for unit in home.units if unit.level is not None)
        return views.at_leading(views.whole(home.buffer, ref.slot), index)

    def operand(self, node: ir.FragmentRef | ir.View, copies: Copies) -> ir.View:
        return node if isinstance(node, ir.View) else self.view(node, copies)

    def over(self, extents: tuple[ir.Expr, ...], make: Callable[..., ir.Body], span: object = None) -> ir.Region:
        """A region with an instance per element; `make` gets the coordinates."""
        names = [self.fresh(name) for name in ("i", "j", "l")[: len(extents)]]
        coords = tuple(
            ir.Var(name, S32, ir.Role.REGION, integers.ZERO, extent)
            for name, extent in zip(names, extents, strict=True)
        )
        return ir.Region(ir.Level.THREAD, coords[::-1], extents[::-1], make(*coords), implied=True)

    def elementwise(self, target: ir.View, value: Callable[..., ir.Expr], op: str = "") -> ir.Region:
        """`target[i, j] op= value(i, j)` for all elements."""

        def store(*index: ir.Var) -> ir.Body:
            return (ir.Store(target, index, value(*index), op),)

        return self.over(target.extents, store)

    def converted(self, source: ir.View, dtype: DType, name: str) -> tuple[ir.View, ir.Body]:
        """`source` as a contiguous tile of `dtype`; itself if it is one."""
        if source.buffer.dtype is dtype and views.strides(source) is not None and _unit_stride(source):
            return source, ()
        buffer = ir.Buffer(self.fresh(name), dtype, ir.Storage.LOCAL, source.extents)
        tile = views.whole(buffer)
        fill = self.elementwise(tile, lambda *index: cast(ir.Load(source, index), dtype))
        return tile, (ir.Declare(buffer), fill)

    # ---------------------------------------------------------------------------------------------- statements

    def fill(self, s: ir.MmaFill, copies: Copies) -> ir.Body:
        return (ir.SpanOp(self.view(s.target, copies), s.value, "", span=s.span),)

    def fill_all(self, s: ir.FragmentFill, copies: Copies) -> ir.Body:
        buffer = self.homes[s.fragment].buffer
        slots: list[tuple[ir.Expr, ...]] = [()]
        for count in buffer.slots:
            slots = [(*slot, integers.constant(i)) for slot in slots for i in range(count)]
        return tuple(ir.SpanOp(views.whole(buffer, slot), s.value, "", span=s.span) for slot in slots)

    def load(self, s: ir.MmaLoad, copies: Copies) -> ir.Body:
        target = self.view(s.target, copies)
        return (self.elementwise(target, lambda *index: cast(ir.Load(s.view, index), target.buffer.dtype)),)

    def multiply(self, s: ir.Mma, copies: Copies) -> ir.Body:
        target = self.view(s.accumulator, copies)
        a, b = self.operand(s.a, copies), self.operand(s.b, copies)
        a = a if s.layout[0] == "row" else views.transposed(a)
        b = views.transposed(b) if s.layout[1] == "row" else b
        dtype = compute_type(a.buffer.dtype)
        before: ir.Body
        if s.metadata is not None:
            left, before = self.expanded(a, self.view(s.metadata, copies), dtype)
        else:
            left, before = self.converted(a, dtype, "mma_a")
        right, more = self.converted(b, dtype, "mma_b")
        total, start, finish = self.accumulator(s, target, dtype, copies)
        products = [self.products(total, left, right, k) for k in self.ranges(s, left)]
        return (*before, *more, *start, *products, *finish)

    def products(self, total: ir.View, left: ir.View, right: ir.View, k: tuple[ir.Expr, ir.Expr]) -> ir.Region:
        """`total[i, j] += left[i, k] * right[k, j]`, k ascending."""
        dtype = total.buffer.dtype

        def sum_over(i: ir.Var, j: ir.Var) -> ir.Body:
            var = ir.Var(self.fresh("k"), S32, ir.Role.LOOP, *k)
            product = ir.Binary("*", ir.Load(left, (i, var)), ir.Load(right, (var, j)), dtype)
            return (ir.For(var, k[0], k[1], 1, (ir.Store(total, (i, j), product, "+"),)),)

        return self.over(total.extents, sum_over)

    def ranges(self, s: ir.Mma, left: ir.View) -> list[tuple[ir.Expr, ir.Expr]]:
        """The parts of K in the order they are summed."""
        extent = left.extents[1]
        if not s.schedule:
            return [(integers.ZERO, extent)]
        source = s.a if isinstance(s.a, ir.View) else views.whole(self.homes[s.a.fragment].buffer)
        atom = _K_ATOM.get(source.buffer.dtype.size, 32)
        return [(integers.constant(t * atom), integers.constant((t + 1) * atom)) for t in s.schedule]

    def accumulator(self, s: ir.Mma, target: ir.View, dtype: DType, copies: Copies) -> tuple[ir.View, ir.Body, ir.Body]:
        """Where the sum is formed, and what comes before and after: a wider tile for f16, a fresh one when scaled."""
        if target.buffer.dtype is dtype and s.scales is None:
            return target, (), ()
        buffer = ir.Buffer(self.fresh("mma_sum"), dtype, ir.Storage.LOCAL, target.extents)
        total = views.whole(buffer)
        if s.scales is None:
            first = self.elementwise(total, lambda *index: cast(ir.Load(target, index), dtype))
            last = self.elementwise(target, lambda *index: cast(ir.Load(total, index), target.buffer.dtype))
            return total, (ir.Declare(buffer), first), (last,)
        rows, factor = s.scales

        def scaled(i: ir.Var, j: ir.Var) -> ir.Expr:
            product = ir.Binary("*", row_scale(rows, i, factor, dtype), ir.Load(total, (i, j)), dtype)
            new = ir.Binary("+", cast(ir.Load(target, (i, j)), dtype), product, dtype)
            return cast(new, target.buffer.dtype)

        zero = ir.Const(0.0 if dtype.is_float else 0, dtype)
        return total, (ir.Declare(buffer, zero),), (self.elementwise(target, scaled),)

    def expanded(self, kept: ir.View, metadata: ir.View, dtype: DType) -> tuple[ir.View, ir.Body]:
        """A 2:4-sparse operand in full."""
        rows, half = kept.extents
        buffer = ir.Buffer(
            self.fresh("mma_a"), dtype, ir.Storage.LOCAL, (rows, integers.mul(half, integers.constant(2)))
        )
        full = views.whole(buffer)

        def place(i: ir.Var, group: ir.Var) -> ir.Body:
            nibble, pair = self.kept_pair(kept, metadata, i, group)
            return (nibble, *(ir.Store(full, (i, column), cast(value, dtype)) for column, value in pair))

        groups = integers.floordiv(half, integers.constant(2))
        zero = ir.Const(0.0 if dtype.is_float else 0, dtype)
        return full, (ir.Declare(buffer, zero), self.over((rows, groups), place))

    def kept_pair(
        self, kept: ir.View, metadata: ir.View, i: ir.Var, group: ir.Var
    ) -> tuple[ir.Let, list[tuple[ir.Expr, ir.Load]]]:
        """The two values that are kept of a group of four in a 2:4-sparse row, each behind its column, and what has to
        stand before them: byte j of a row of `metadata` covers K 8j..8j+7, its low nibble the first group; a nibble
        holds the two positions, the first in its low bits."""
        four, two = integers.constant(4), integers.constant(2)
        byte = cast(ir.Load(metadata, (i, integers.floordiv(group, two))), S32)
        shift = integers.mul(integers.mod(group, two), four)
        nibble = ir.Var(self.fresh("nibble"), S32, ir.Role.LET, integers.ZERO, integers.constant(16))
        bits = ir.Binary("&", ir.Binary(">>", byte, shift, S32), integers.constant(15), S32)
        pair: list[tuple[ir.Expr, ir.Load]] = []
        for position in (0, 1):
            slot = ir.Binary(">>", nibble, integers.constant(2 * position), S32)
            slot = ir.Binary("&", slot, integers.constant(3), S32)
            column = ir.Binary("+", integers.mul(group, four), slot, S32)
            value = ir.Load(kept, (i, integers.add(integers.mul(group, two), integers.constant(position))))
            pair.append((column, value))
        return ir.Let(nibble, bits), pair

    def scale(self, s: ir.MmaScale, copies: Copies) -> ir.Body:
        target = self.view(s.target, copies)
        dtype = compute_type(target.buffer.dtype)

        def scaled(i: ir.Var, j: ir.Var) -> ir.Expr:
            old = cast(ir.Load(target, (i, j)), dtype)
            return cast(ir.Binary("*", old, row_scale(s.row_scale, i, s.scale, dtype), dtype), target.buffer.dtype)

        return (self.elementwise(target, scaled),)

    def store(self, s: ir.MmaStore, copies: Copies) -> ir.Body:
        source = self.view(s.source, copies)
        dtype = s.view.buffer.dtype

        def one(*index: ir.Var) -> ir.Body:
            value = cast(ir.Load(source, index), dtype)
            store: ir.Stmt = ir.Store(s.view, index[::-1] if s.transpose else index, value, span=s.span)
            for var, limit in zip(index, s.mask, strict=False):
                store = ir.If(ir.Binary("<", var, limit, BOOL), (store,))
            return (store,)

        return (self.over(source.extents, one),)

    def operation(self, s: ir.FragmentOp, copies: Copies) -> ir.Body:
        target = self.view(s.target, copies)
        compute = s.value.dtype if isinstance(s.value, ir.Expr) else compute_type(target.buffer.dtype)

        def operand(*index: ir.Var) -> ir.Expr:
            if isinstance(s.value, ir.Expr):
                return s.value
            return cast(ir.Load(self.view(s.value, copies), index), compute)

        return (self.elementwise(target, operand, s.op),)

    def apply(self, s: ir.Apply, copies: Copies) -> ir.Body:
        def change(node: ir.Node) -> ir.Node | None:
            if isinstance(node, ir.FragmentLoad):
                return ir.Load(self.view(node.source, copies), node.index, span=node.span)
            if isinstance(node, ir.FragmentStore):
                return ir.Store(self.view(node.target, copies), node.index, node.value, node.op, span=node.span)
            return None

        shape = s.fragment.fragment.shape
        region = ir.Region(
            ir.Level.THREAD, s.indices[::-1], shape[::-1], rewrite(s.body, change), implied=True, span=s.span
        )
        return (region,)

    def reduce(self, s: ir.FragmentReduce, copies: Copies) -> ir.Body:
        if s.op == "all_sum":
            return ()  # one logical copy already holds the sum of all partial values
        target, source = self.view(s.target, copies), self.view(s.source, copies)
        dtype = source.buffer.dtype
        wide = compute_type(dtype) if dtype.is_float else dtype

        def one(*rest: ir.Var) -> ir.Body:
            def at(k: ir.Expr) -> ir.Expr:
                return cast(ir.Load(source, (*rest[: s.axis], k, *rest[s.axis :])), wide)

            total = ir.Var(self.fresh("total"), wide, ir.Role.MUTABLE)
            # A maximum may look at the first element twice: whole rows are easier to cut into vectors.
            first = integers.ONE if s.op == "sum" else integers.ZERO
            k = ir.Var(self.fresh("k"), S32, ir.Role.LOOP, first, source.extents[s.axis])
            both: ir.Expr = ir.Builtin("__max", (total, at(k)), wide)
            if s.op == "sum":
                both = ir.Binary("+", total, at(k), wide)
            return (
                ir.Let(total, at(integers.ZERO)),
                ir.For(k, first, source.extents[s.axis], 1, (ir.Assign(total, both),)),
                ir.Store(target, rest, cast(total, target.buffer.dtype)),
            )

        return (self.over(target.extents, one),)

    def copy(self, s: ir.FragmentCopy, copies: Copies) -> ir.Body:
        target, source = self.view(s.target, copies), self.view(s.source, copies)
        return (self.elementwise(target, lambda *index: cast(ir.Load(source, index), target.buffer.dtype)),)

    def nothing(self, s: ir.MmaCommit, copies: Copies) -> ir.Body:
        return ()


def _here(chain: Chain) -> Copies:
    """The numbers of the current groups. Groups count as the hardware does, the first index fastest, so that those of
    `{u, v} by [4, 3]` are the same as those of `w by 12`."""
    copies: Copies = {}
    for region in chain:
        if region.level in _UNITS:
            number: ir.Expr = integers.ZERO
            stride: ir.Expr = integers.ONE
            for var, extent in zip(region.indices, region.extents, strict=True):
                number = integers.add(number, integers.mul(var, stride))
                stride = integers.mul(stride, extent)
            copies[region.level] = number
    return copies


def cast(e: ir.Expr, dtype: DType) -> ir.Expr:
    return e if e.dtype is dtype else ir.Cast(e, dtype)


def row_scale(rows: ir.View, i: ir.Expr, factor: ir.Expr, dtype: DType) -> ir.Expr:
    index = (i, *(integers.ZERO for _ in range(rows.rank - 1)))
    return ir.Binary("*", cast(ir.Load(rows, index), dtype), cast(factor, dtype), dtype)


def _unit_stride(view: ir.View) -> bool:
    strides = views.strides(view)
    return strides is not None and integers.value(strides[-1]) == 1


LOWER: dict[type[ir.Stmt], Callable[..., ir.Body]] = {
    ir.FragmentFill: Lowering.fill_all,
    ir.MmaFill: Lowering.fill,
    ir.MmaLoad: Lowering.load,
    ir.Mma: Lowering.multiply,
    ir.MmaScale: Lowering.scale,
    ir.MmaStore: Lowering.store,
    ir.MmaCommit: Lowering.nothing,
    ir.FragmentOp: Lowering.operation,
    ir.Apply: Lowering.apply,
    ir.FragmentReduce: Lowering.reduce,
    ir.FragmentCopy: Lowering.copy,
}
