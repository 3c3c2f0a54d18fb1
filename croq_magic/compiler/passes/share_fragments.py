"""Fragments and `mma` statements as plain code of threads, for devices whose tensor cores are not used.

The elements of a fragment are dealt out to the threads of its unit in turn: element e belongs to thread e modulo the
unit's size, which keeps it in a register. Fragments that other threads read (operands of a product, what is reduced or
broadcast) lie in shared storage, one copy a unit, between barriers of the unit. A product is a loop over K for every
element of the accumulator, with the conversions and the order of `lower-fragments`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import ClassVar

from croq_magic.compiler import integers, ir, views
from croq_magic.compiler.passes.base import Context
from croq_magic.compiler.passes.lower_fragments import (
    Chain,
    Copies,
    Home,
    Lowering,
    cast,
    compute_type,
    row_scale,
)
from croq_magic.compiler.passes.map_limits import threads_of_unit
from croq_magic.compiler.passes.structure import fresh_name, inner_regions, map_kernels
from croq_magic.compiler.types import BOOL, S32, DType
from croq_magic.compiler.visit import rewrite, walk

Level = ir.Level
_SHARED = "fragments in shared storage"


@dataclasses.dataclass(frozen=True)
class ShareFragments:
    """After it no fragment is left in kernels whose blocks have a constant size."""

    name: ClassVar[str] = "share-fragments"

    def __call__(self, function: ir.Function, context: Context) -> ir.Function:
        if not any(isinstance(node, ir.Fragment) for node in walk(function.body)):
            return function
        taken = {node.name for node in walk(function.body) if isinstance(node, (ir.Var, ir.Buffer))}
        return map_kernels(function, lambda region: _kernel(region, taken))


def _kernel(root: ir.Region, taken: set[str]) -> ir.Region:
    if root.level in (Level.DEVICE, Level.CLUSTER):
        inner = inner_regions(root.body)
        if len(root.body) == 1 and inner:
            return dataclasses.replace(root, body=(_kernel(inner[0], taken),))
        return root
    threads = threads_of_unit(root)
    if threads is None or not any(isinstance(node, ir.Fragment) for node in walk(root.body)):
        return root
    return _Sharing(root, taken, threads).kernel()


class _Sharing(Lowering):
    """Works on one block region of `threads` threads. `widths` are the threads of a unit by level."""

    def __init__(self, region: ir.Region, taken: set[str], threads: int) -> None:
        super().__init__(region, taken)
        self.threads = threads
        self.widths = {Level.BLOCK: threads}
        for node in walk(region):
            if isinstance(node, ir.Region) and node.level in (Level.GROUP, Level.GROUP4):
                self.widths.setdefault(node.level, threads_of_unit(node) or threads)
        self.shared = _read_by_others(region)
        self.lane: ir.Expr = integers.ZERO
        self.width = threads

    # --------------------------------------------------------------------------------------------------- homes

    def _home(self, fragment: ir.Fragment, units: Chain) -> Home:
        width = self.widths.get(fragment.owner, self.threads)
        count = integers.value(integers.product(fragment.shape))
        if fragment in self.shared or count is None:
            shape = (integers.constant(self.threads // width), *fragment.shape)
            buffer = ir.Buffer(fragment.name, fragment.dtype, ir.Storage.SHARED, shape, fragment.slots)
            return Home(buffer, units)
        shape = (integers.constant(-(-count // width)),)
        return Home(ir.Buffer(fragment.name, fragment.dtype, ir.Storage.LOCAL, shape, fragment.slots), units)

    def view(self, ref: ir.FragmentRef, copies: Copies) -> ir.View:
        """The copy of the current unit; of registers a view with the fragment's extents, which `over` resolves."""
        buffer, fragment = self.homes[ref.fragment].buffer, ref.fragment
        if buffer.storage is ir.Storage.SHARED:
            return views.at_leading(views.whole(buffer, ref.slot), (copies[fragment.owner],))
        coords = tuple(
            ir.Var(f"c{d}", S32, ir.Role.COORD, integers.ZERO, extent) for d, extent in enumerate(fragment.shape)
        )
        offset: ir.Expr = integers.ZERO
        for coord, stride in zip(coords, integers.row_major(fragment.shape), strict=True):
            offset = integers.add(offset, integers.mul(coord, stride))
        place = integers.floordiv(offset, integers.constant(self.width))
        return ir.View(buffer, coords, (place,), place, fragment.shape, ref.slot)

    # --------------------------------------------------------------------------------------------- who does what

    def _body(self, body: ir.Body, chain: Chain) -> ir.Body:
        """Initial values become statements of the threads."""
        out: list[ir.Stmt] = []
        for s in body:
            if isinstance(s, ir.DeclareFragment) and s.init is not None:
                fill = ir.FragmentFill(s.fragment, s.init, span=s.span)
                out += (dataclasses.replace(s, init=None), fill)
            else:
                out.append(s)
        return super()._body(tuple(out), chain)

    def _for_each_copy(self, s: ir.Stmt, chain: Chain, lower: Callable[..., ir.Body]) -> ir.Body:
        owners = [node.owner for node in walk(s) if isinstance(node, ir.Fragment)]
        owner = max(owners, key=lambda level: level.depth, default=Level.BLOCK)
        self.width = self.widths.get(owner, self.threads)
        lead, lane, copies, wrap = self._place(owner, chain)
        self.lane = lane
        body: ir.Body = getattr(self, lower.__name__)(s, copies)
        if any(isinstance(node, ir.Var) and node == lane for node in walk(body)):
            body = (*lead, *body)
        if wrap is not None:
            body = (dataclasses.replace(wrap, body=body, span=s.span),)
        if not self._crosses(s):
            return body
        barrier = ir.Barrier(owner, _SHARED, span=s.span)
        return (barrier, *body, barrier)

    def _place(self, owner: Level, chain: Chain) -> tuple[ir.Body, ir.Expr, Copies, ir.Region | None]:
        """Statements before, the thread's number in its unit, the unit's number, and a region of threads around where
        the statement stands above the level of threads."""
        below = [region for region in chain if region.level is not None and region.level.depth > Level.BLOCK.depth]
        wrap: ir.Region | None = None
        if not below or below[-1].level is not Level.THREAD:
            size = integers.constant((threads_of_unit(below[-1]) or self.threads) if below else self.threads)
            t = ir.Var(fresh_name("t", self.taken), S32, ir.Role.REGION, integers.ZERO, size)
            wrap = ir.Region(Level.THREAD, (t,), (size,), (), implied=True)
            below = [*below, wrap]
        number = integers.ZERO if not below else _linear(below)
        width = integers.constant(self.width)
        lead: list[ir.Stmt] = []
        lane, unit = integers.mod(number, width), integers.floordiv(number, width)
        if self.width == self.threads:
            lane, unit = number, integers.ZERO
        if not isinstance(lane, (ir.Var, ir.Const)):
            var = ir.Var(fresh_name("member", self.taken), S32, ir.Role.REGION, integers.ZERO, width)
            lead.append(ir.Let(var, lane))
            lane = var
        copies = {
            level: unit for level in (Level.BLOCK, Level.GROUP4, Level.GROUP) if self.widths.get(level) == self.width
        }
        for level, other in self.widths.items():
            if level not in copies:
                copies[level] = integers.floordiv(number, integers.constant(other))
        return tuple(lead), lane, copies, wrap

    def _crosses(self, s: ir.Stmt) -> bool:
        """Whether threads read fragment elements of others."""
        if isinstance(s, ir.Mma):
            return any(isinstance(operand, ir.FragmentRef) for operand in (s.a, s.b, s.metadata))
        if isinstance(s, (ir.Apply, ir.FragmentReduce, ir.FragmentOp, ir.FragmentCopy)):
            return any(isinstance(n, ir.Fragment) and n in self.shared for n in walk(s))
        return False

    def _arguments(self, s: ir.Call, chain: Chain) -> ir.Call:
        return s  # a fragment has no address; the emitter says so

    def over(self, extents: tuple[ir.Expr, ...], make: Callable[..., ir.Body], span: object = None) -> ir.Stmt:  # type: ignore[override]
        """The elements of this thread; `make` gets their coordinates."""
        names = [fresh_name(name, self.taken) for name in ("i", "j", "l")[: len(extents)]]
        coords = tuple(
            ir.Var(name, S32, ir.Role.REGION, integers.ZERO, extent)
            for name, extent in zip(names, extents, strict=True)
        )
        return self.dealt(coords, extents, make(*coords))

    def dealt(self, coords: tuple[ir.Var, ...], extents: tuple[ir.Expr, ...], body: ir.Body) -> ir.Stmt:
        """`body` for every element that belongs to this thread."""
        count, width = integers.product(extents), integers.constant(self.width)
        rounds = integers.ceildiv(count, width)
        turn: ir.Expr = integers.ZERO
        if integers.value(rounds) != 1:
            turn = ir.Var(fresh_name("turn", self.taken), S32, ir.Role.LOOP, integers.ZERO, rounds)
        linear = integers.add(integers.mul(turn, width), self.lane)
        element: ir.Expr = linear
        if not isinstance(linear, ir.Var):
            element = ir.Var(fresh_name("element", self.taken), S32, ir.Role.REGION, integers.ZERO, count)
        own = rewrite(body, lambda node: self._own(node, coords, turn))
        used = {node.name for node in walk(own) if isinstance(node, ir.Var)}
        decoded: list[ir.Stmt] = []
        for position, (var, stride) in enumerate(zip(coords, integers.row_major(extents), strict=True)):
            value = integers.floordiv(element, stride)
            if var.name in used:
                decoded.append(ir.Let(var, integers.mod(value, extents[position]) if position else value))
        guarded: ir.Body = (*decoded, *own)
        size = integers.value(count)
        if size is None or size % self.width:
            guarded = (ir.If(ir.Binary("<", element, count, BOOL), guarded),)
        needed = isinstance(element, ir.Var) and element is not linear
        needed = needed and any(node == element for node in walk(guarded))
        result: ir.Body = (ir.Let(element, linear), *guarded) if needed and isinstance(element, ir.Var) else guarded
        if isinstance(turn, ir.Var):
            return ir.For(turn, integers.ZERO, rounds, 1, result)
        return ir.Scope(result)

    def _own(self, node: ir.Node, coords: tuple[ir.Var, ...], turn: ir.Expr) -> ir.Node | None:
        """An access of a register fragment at the thread's own element."""
        if isinstance(node, (ir.Load, ir.Store)) and self._in_registers(node.view.buffer) and node.index == coords:
            return dataclasses.replace(node, view=views.whole(node.view.buffer, node.view.slot), index=(turn,))
        return None

    def _in_registers(self, buffer: ir.Buffer) -> bool:
        return buffer.storage is ir.Storage.LOCAL and any(home.buffer is buffer for home in self.homes.values())

    # ---------------------------------------------------------------------------------------------- statements

    def fill(self, s: ir.MmaFill, copies: Copies) -> ir.Body:
        target = self.view(s.target, copies)
        return (self.elementwise(target, lambda *index: cast(s.value, target.buffer.dtype)),)

    def fill_all(self, s: ir.FragmentFill, copies: Copies) -> ir.Body:
        slots: list[tuple[ir.Expr, ...]] = [()]
        for count in s.fragment.slots:
            slots = [(*slot, integers.constant(i)) for slot in slots for i in range(count)]
        targets = [self.view(ir.FragmentRef(s.fragment, slot), copies) for slot in slots]
        return tuple(self.elementwise(t, lambda *index: cast(s.value, s.fragment.dtype)) for t in targets)

    def multiply(self, s: ir.Mma, copies: Copies) -> ir.Body:
        target = self.view(s.accumulator, copies)
        a, b = self.operand(s.a, copies), self.operand(s.b, copies)
        a = a if s.layout[0] == "row" else views.transposed(a)
        b = views.transposed(b) if s.layout[1] == "row" else b
        dtype = compute_type(a.buffer.dtype)
        kept = target.buffer.dtype
        direct = kept is dtype and s.scales is None

        def one(i: ir.Var, j: ir.Var) -> ir.Body:
            total = ir.Var(fresh_name("total", self.taken), dtype, ir.Role.MUTABLE)
            old = cast(ir.Load(target, (i, j)), dtype)
            zero = ir.Const(0.0 if dtype.is_float else 0, dtype)
            out: list[ir.Stmt] = [ir.Let(total, old if s.scales is None else zero)]
            if s.metadata is not None:
                out += self.sparse_products(total, a, b, self.view(s.metadata, copies), i, j)
            else:
                for low, high in self.ranges(s, a):
                    k = ir.Var(fresh_name("k", self.taken), S32, ir.Role.LOOP, low, high)
                    product = ir.Binary("*", cast(ir.Load(a, (i, k)), dtype), cast(ir.Load(b, (k, j)), dtype), dtype)
                    out.append(ir.For(k, low, high, 1, (ir.Assign(total, ir.Binary("+", total, product, dtype)),)))
            value: ir.Expr = total
            if s.scales is not None:
                rows, factor = s.scales
                scaled = ir.Binary("*", row_scale(rows, i, factor, dtype), total, dtype)
                value = ir.Binary("+", old, scaled, dtype)
            out.append(ir.Store(target, (i, j), value if direct else cast(value, kept), span=s.span))
            return tuple(out)

        return (self.over(target.extents, one),)

    def sparse_products(
        self, total: ir.Var, kept: ir.View, right: ir.View, metadata: ir.View, i: ir.Var, j: ir.Var
    ) -> list[ir.Stmt]:
        """`total += ` the products of a 2:4-sparse row; see `Lowering.expanded` for the metadata."""
        dtype: DType = total.dtype
        four, two = integers.constant(4), integers.constant(2)
        groups = integers.floordiv(kept.extents[1], two)
        group = ir.Var(fresh_name("group", self.taken), S32, ir.Role.LOOP, integers.ZERO, groups)
        byte = cast(ir.Load(metadata, (i, integers.floordiv(group, two))), S32)
        shift = integers.mul(integers.mod(group, two), four)
        nibble = ir.Var(fresh_name("nibble", self.taken), S32, ir.Role.LET, integers.ZERO, integers.constant(16))
        value = ir.Binary("&", ir.Binary(">>", byte, shift, S32), integers.constant(15), S32)
        body: list[ir.Stmt] = [ir.Let(nibble, value)]
        for position in (0, 1):
            bits = ir.Binary(">>", nibble, integers.constant(2 * position), S32)
            place = ir.Binary("+", integers.mul(group, four), ir.Binary("&", bits, integers.constant(3), S32), S32)
            left = ir.Load(kept, (i, integers.add(integers.mul(group, two), integers.constant(position))))
            product = ir.Binary("*", cast(left, dtype), cast(ir.Load(right, (place, j)), dtype), dtype)
            body.append(ir.Assign(total, ir.Binary("+", total, product, dtype)))
        return [ir.For(group, integers.ZERO, groups, 1, tuple(body))]

    def apply(self, s: ir.Apply, copies: Copies) -> ir.Body:
        def change(node: ir.Node) -> ir.Node | None:
            if isinstance(node, ir.FragmentLoad):
                return ir.Load(self.view(node.source, copies), node.index, span=node.span)
            if isinstance(node, ir.FragmentStore):
                return ir.Store(self.view(node.target, copies), node.index, node.value, node.op, span=node.span)
            return None

        body = rewrite(s.body, change)
        dims, shape = _dealt_dims(s), s.fragment.fragment.shape
        for d in reversed(range(len(shape))):
            if d not in dims:
                body = (ir.For(s.indices[d], integers.ZERO, shape[d], 1, body, span=s.span),)
        return (self.dealt(tuple(s.indices[d] for d in dims), tuple(shape[d] for d in dims), body),)


def _linear(regions: list[ir.Region]) -> ir.Expr:
    """The number of a thread in its block: inner regions first, of a region its first index."""
    number: ir.Expr = integers.ZERO
    stride: ir.Expr = integers.ONE
    for region in reversed(regions):
        for var, extent in zip(region.indices, region.extents, strict=True):
            number = integers.add(number, integers.mul(var, stride))
            stride = integers.mul(stride, extent)
    return number


def _read_by_others(root: ir.Region) -> set[ir.Fragment]:
    """Fragments of which threads read elements that are not their own."""
    found: set[ir.Fragment] = set()
    for s in walk(root):
        if isinstance(s, ir.Mma):
            found |= {o.fragment for o in (s.a, s.b, s.metadata) if isinstance(o, ir.FragmentRef)}
        elif isinstance(s, ir.FragmentReduce):
            found.add(s.source.fragment)
        elif isinstance(s, ir.FragmentOp) and isinstance(s.value, ir.FragmentRef):
            if not _dealt_alike(s.value.fragment, s.target.fragment):
                found.add(s.value.fragment)
        elif isinstance(s, ir.FragmentCopy):
            if not _dealt_alike(s.source.fragment, s.target.fragment):
                found.add(s.source.fragment)
        elif isinstance(s, ir.Apply):
            dims = _dealt_dims(s)
            own = tuple(s.indices[d] for d in dims)
            like = dataclasses.replace(s.fragment.fragment, shape=tuple(s.fragment.fragment.shape[d] for d in dims))
            for node in walk(s.body):
                if isinstance(node, (ir.FragmentLoad, ir.FragmentStore)):
                    ref = node.source if isinstance(node, ir.FragmentLoad) else node.target
                    if node.index != own or not _dealt_alike(ref.fragment, like):
                        found.add(ref.fragment)
    return found


def _dealt_dims(s: ir.Apply) -> tuple[int, ...]:
    """The dimensions whose elements threads share out; the others are run through by the same thread, as several of
    their elements change one of a smaller fragment."""
    stores = [node.index for node in walk(s.body) if isinstance(node, ir.FragmentStore)]
    return tuple(d for d, var in enumerate(s.indices) if all(var in index for index in stores))


def _dealt_alike(a: ir.Fragment, b: ir.Fragment) -> bool:
    """Whether the same thread has the same element of both."""
    same = len(a.shape) == len(b.shape) and all(map(integers.equal, a.shape, b.shape))
    return same and a.owner is b.owner
