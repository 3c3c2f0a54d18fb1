"""Fragments and `mma` statements as plain code of threads, for devices whose tensor cores are not used.

Where fragments live is decided by `fragment_plan`: most stay in registers of the threads of their unit, dealt out as
`fragment_layouts` says; what other threads read lies in shared storage, one copy a unit, with the barriers that
`fragment_fences` finds. A product is a loop over K for every element of the accumulator, with the conversions and the
order of `lower-fragments`. A reduction is one of a thread's own elements, then of the lanes of a warp that hold the
rest of the row, then, where a row spans several warps, of their results in a small shared array.

    region group [w < 2] {                         region group [w < 2] { region thread [t < 32] {
      reduce_max m, s, 1                      =>     for turn in 0..8 {
                                                       top = lanes_max<16>(s[turn]);  m[turn] = top
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import ClassVar

from croq_magic.compiler import integers, ir, views
from croq_magic.compiler.passes import reduce_fragments
from croq_magic.compiler.passes.base import Context
from croq_magic.compiler.passes.fragment_fences import fences
from croq_magic.compiler.passes.fragment_layouts import Along, Linear, Rows, plain
from croq_magic.compiler.passes.fragment_plan import Plan, dealt_dims, plan, primary, reduction
from croq_magic.compiler.passes.lower_fragments import LOWER, Chain, Copies, Home, cast
from croq_magic.compiler.passes.map_limits import threads_of_unit
from croq_magic.compiler.passes.multiply_fragments import Products
from croq_magic.compiler.passes.structure import each, inner_regions, map_kernels, with_bodies
from croq_magic.compiler.types import BOOL, S32
from croq_magic.compiler.visit import rewrite, substitute, walk

Level = ir.Level
_SHARED = "fragments in shared storage"
_STORES = (ir.Store, ir.Atomic, ir.Print, ir.Call, ir.Asm, ir.CxxText)


@dataclasses.dataclass(frozen=True)
class ShareFragments:
    """After it no fragment is left in kernels whose blocks have a constant size. `shuffles`: threads of a warp can pass
    each other values without memory."""

    name: ClassVar[str] = "share-fragments"
    shuffles: bool = True

    def __call__(self, function: ir.Function, context: Context) -> ir.Function:
        if not any(isinstance(node, ir.Fragment) for node in walk(function.body)):
            return function
        return map_kernels(function, lambda region: _kernel(region, self.shuffles, Fresh()))


class Fresh:
    """Names of variables that differ behind a colon, where no name of a program has one; emitters leave that out."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, name: str) -> str:
        self.count += 1
        return f"{name}:f{self.count}"


def _kernel(root: ir.Region, shuffles: bool, fresh: Fresh) -> ir.Region:
    if root.level in (Level.DEVICE, Level.CLUSTER):
        inner = inner_regions(root.body)
        if len(root.body) == 1 and inner:
            return dataclasses.replace(root, body=(_kernel(inner[0], shuffles, fresh),))
        return root
    threads = threads_of_unit(root)
    if threads is None or not any(isinstance(node, ir.Fragment) for node in walk(root.body)):
        return root
    return Sharing(_with_fills(root), threads, shuffles, fresh).kernel()


def _with_fills(root: ir.Region) -> ir.Region:
    """Initial values of fragments as statements of their own."""

    def split(body: ir.Body) -> ir.Body:
        out: list[ir.Stmt] = []
        for s in each(body, lambda s: s if isinstance(s, ir.Apply) else with_bodies(s, split)):
            if isinstance(s, ir.DeclareFragment) and s.init is not None:
                fill = ir.FragmentFill(s.fragment, s.init, span=s.span)
                out += (dataclasses.replace(s, init=None), fill)
            else:
                out.append(s)
        return tuple(out)

    return dataclasses.replace(root, body=split(root.body))


@dataclasses.dataclass
class _Run:
    """Neighbouring statements that threads carry out in one region made for them: its index, and its body."""

    region: ir.Region
    body: list[ir.Stmt]

    def done(self) -> ir.Region:
        return dataclasses.replace(self.region, body=tuple(self.body))


class Sharing(Products):
    """Works on one block region of `threads` threads. `widths` are the threads of a unit by level."""

    def __init__(self, region: ir.Region, threads: int, shuffles: bool, fresh: Fresh) -> None:
        super().__init__(region, set())
        self.threads = threads
        self.widths = {Level.BLOCK: threads}
        for node in walk(region):
            if isinstance(node, ir.Region) and node.level in (Level.GROUP, Level.GROUP4):
                self.widths.setdefault(node.level, threads_of_unit(node) or threads)
        self.fresh_name = fresh
        self.plan: Plan = plan(region, self.widths, threads, shuffles)
        reductions = (s for s in walk(region) if isinstance(s, (ir.FragmentReduce, ir.Apply)))
        by_lanes = (s for s in reductions if id(s) in self.plan.by_lanes)
        self.arrays = {id(s) for s in by_lanes if reduce_fragments.needs_array(s, self.plan)}
        self.fences = fences(region, self.plan, self.arrays)
        self.registers: dict[int, ir.Fragment] = {}  # of views by their id: those of fragments that threads hold
        self._views: list[ir.View] = []  # keeps them alive
        # The statement at work: who does it.
        self.member: ir.Expr = integers.ZERO  # the number of the thread in the unit
        self.width = threads
        self.subject: ir.Fragment | None = None

    def fresh(self, name: str) -> str:
        return self.fresh_name(name)

    # --------------------------------------------------------------------------------------------------- homes

    def _home(self, fragment: ir.Fragment, units: Chain) -> Home:
        width, layout = self.width_of(fragment), self.plan.layout(fragment)
        if fragment in self.plan.shared or layout is None:
            shape = (integers.constant(self.threads // width), *fragment.shape)
            return Home(ir.Buffer(fragment.name, fragment.dtype, ir.Storage.SHARED, shape, fragment.slots), units)
        # One element alone is a scalar.
        storage = ir.Storage.LOCAL if layout.turns > 1 or fragment.slots else ir.Storage.REGISTER
        shape = (integers.constant(layout.turns),)
        return Home(ir.Buffer(fragment.name, fragment.dtype, storage, shape, fragment.slots), units)

    def width_of(self, fragment: ir.Fragment) -> int:
        return self.widths.get(fragment.owner, self.threads)

    def view(self, ref: ir.FragmentRef, copies: Copies) -> ir.View:
        """The copy of the current unit; of registers a stand-in over the fragment's extents, which `dealt` resolves."""
        fragment = ref.fragment
        if fragment in self.plan.views:
            return self.plan.views[fragment]
        buffer = self.homes[fragment].buffer
        if buffer.storage is ir.Storage.SHARED:
            return views.at_leading(views.whole(buffer, ref.slot), (copies[fragment.owner],))
        coords = views.coordinates(len(fragment.shape))
        view = ir.View(buffer, coords, coords, integers.ZERO, fragment.shape, ref.slot)
        self.registers[id(view)] = fragment
        self._views.append(view)
        return view

    # --------------------------------------------------------------------------------------------- who does what

    def _body(self, body: ir.Body, chain: Chain) -> ir.Body:
        out: list[ir.Stmt] = []
        run: _Run | None = None
        held: list[ir.Stmt] = []  # barriers that may stand between statements of a run

        def close() -> None:
            nonlocal run
            if run is not None:
                out.append(run.done())
                run = None
            out.extend(held)
            held.clear()

        for s in body:
            if isinstance(s, ir.DeclareFragment):  # before the run: others use it as well
                if s.fragment not in self.plan.views:
                    out.append(ir.Declare(self.homes[s.fragment].buffer, span=s.span))
            elif isinstance(s, ir.MmaLoad) and id(s) in self.plan.copies:
                close()
                if id(s) in self.fences:
                    out.append(ir.Barrier(s.target.fragment.owner, _SHARED, span=s.span))
                target = self.view(s.target, {s.target.fragment.owner: integers.ZERO})
                out.append(ir.Copy(s.view, target, span=s.span))
            elif type(s) in LOWER:
                run = self._statement(s, chain, out, run, held)
            elif isinstance(s, ir.Barrier) and s.scope.depth > Level.BLOCK.depth and run is not None:
                held.append(s)
            else:
                close()
                inner = (*chain, s) if isinstance(s, ir.Region) else chain
                out.append(with_bodies(s, lambda nested, inner=inner: self._body(nested, inner)))  # type: ignore[misc]
        close()
        return tuple(out)

    def _statement(
        self, s: ir.Stmt, chain: Chain, out: list[ir.Stmt], run: _Run | None, held: list[ir.Stmt]
    ) -> _Run | None:
        """One statement on fragments, for the threads that stand here, or in a region of threads made for it."""
        self.subject = primary(s)
        job = reduction(s) if id(s) in self.plan.by_lanes else None
        if job is not None:
            self.subject = job.tile
        below = [region for region in chain if region.level is not None and region.level.depth > Level.BLOCK.depth]
        alone = not below or below[-1].level is not Level.THREAD
        current = run
        if alone:
            if current is None:
                size = integers.constant((threads_of_unit(below[-1]) or self.threads) if below else self.threads)
                t = ir.Var(self.fresh("t"), S32, ir.Role.REGION, integers.ZERO, size)
                current = _Run(ir.Region(Level.THREAD, (t,), (size,), (), implied=True, span=s.span), [])
            below = [*below, current.region]
        lowered = self._for_threads(s, below)
        if not lowered:
            return run
        if not alone:
            out.extend(lowered)
            return run
        assert current is not None
        current.body += (*held, *lowered)
        held.clear()
        return current

    def _for_threads(self, s: ir.Stmt, below: Sequence[ir.Region]) -> ir.Body:
        if self.subject is None or (isinstance(s, ir.MmaLoad) and self.subject in self.plan.views):
            return ()
        owner = self.subject.owner
        self.width = self.width_of(self.subject)
        number, width = _linear(below), integers.constant(self.width)
        self.member = number if self.width == self.threads else integers.mod(number, width)
        lead: list[ir.Stmt] = []
        if not isinstance(self.member, (ir.Var, ir.Const)):
            var = ir.Var(self.fresh("member"), S32, ir.Role.REGION, integers.ZERO, width)
            lead.append(ir.Let(var, self.member))
            self.member = var
        copies: Copies = {
            level: integers.ZERO if other == self.threads else integers.floordiv(number, integers.constant(other))
            for level, other in self.widths.items()
        }
        body: ir.Body = _flat(getattr(self, LOWER[type(s)].__name__)(s, copies))
        if any(node == self.member for node in walk(body)):
            body = (*lead, *body)
        if id(s) in self.fences:
            body = (ir.Barrier(owner, _SHARED, span=s.span), *body)
        return body

    def over(self, extents: tuple[ir.Expr, ...], make: Callable[..., ir.Body], span: object = None) -> ir.Stmt:  # type: ignore[override]
        """The elements of this thread; `make` gets their coordinates."""
        names = [self.fresh(name) for name in ("i", "j", "l")[: len(extents)]]
        coords = tuple(
            ir.Var(name, S32, ir.Role.REGION, integers.ZERO, extent)
            for name, extent in zip(names, extents, strict=True)
        )
        return self.dealt(coords, extents, make(*coords))

    def dealt(
        self,
        coords: tuple[ir.Var, ...],
        extents: tuple[ir.Expr, ...],
        body: ir.Body,
        layout: Linear | Rows | Along | None = None,
    ) -> ir.Stmt:
        """`body` for every element of the current fragment that this thread holds."""
        if layout is None and self.subject is not None:
            layout = self.plan.layout(self.subject)
        if layout is None:
            return self._strided(coords, extents, body)
        loops = [self.loop(loop.name, loop.trips) for loop in layout.loops]
        guards: list[ir.Expr] = []
        lead: list[ir.Stmt] = []
        if isinstance(layout, Linear):
            element = layout.linear(self.member, loops)
            if not isinstance(element, (ir.Var, ir.Const)) and len(coords) > 1:
                var = ir.Var(self.fresh("element"), S32, ir.Role.REGION, integers.ZERO, integers.product(extents))
                lead.append(ir.Let(var, element))
                element = var
            places = layout.coords(element)
            guard = layout.guard(element)
            guards += [] if guard is None else [guard]
        else:
            places = layout.coords(self.member, loops)
        body = rewrite(body, lambda node: self._held(node, coords, loops))
        values: dict[ir.Var, ir.Expr] = {}
        for var, place in zip(coords, places, strict=True):
            if isinstance(place, (ir.Var, ir.Const)):
                values[var] = place
        index = tuple(values.get(var, var) for var in coords)
        if not isinstance(layout, Linear):
            guards += layout.guards(index)
            if isinstance(layout, Along) and any(
                isinstance(node, _STORES) and not self._keeps(node) for node in walk(body)
            ):
                first = layout.first(self.member)
                guards += [] if first is None else [first]
        body = substitute(body, values)
        used = {node.name for node in walk((body, tuple(guards))) if isinstance(node, ir.Var)}
        lead += [ir.Let(v, place) for v, place in zip(coords, places, strict=True) if v.name in used]
        if guards:
            body = (ir.If(_all(guards), body),)
        return self.looped(loops, (*lead, *body))

    def loop(self, name: str, trips: int) -> ir.Expr:
        """The variable of a loop over `trips` turns, 0 where there is but one."""
        if trips == 1:
            return integers.ZERO
        return ir.Var(self.fresh(name), S32, ir.Role.LOOP, integers.ZERO, integers.constant(trips))

    def looped(self, loops: Sequence[ir.Expr], body: ir.Body) -> ir.Stmt:
        for var in reversed(loops):
            if isinstance(var, ir.Var):
                assert var.upper is not None
                body = (ir.For(var, integers.ZERO, var.upper, 1, body),)
        return body[0] if len(body) == 1 else ir.Scope(body)

    def _strided(self, coords: tuple[ir.Var, ...], extents: tuple[ir.Expr, ...], body: ir.Body) -> ir.Stmt:
        """The same for a fragment of symbolic size, which lies in shared storage."""
        count = integers.product(extents)
        element = ir.Var(self.fresh("element"), S32, ir.Role.LOOP, integers.ZERO, count)
        lead: list[ir.Stmt] = []
        for d, (var, stride) in enumerate(zip(coords, integers.row_major(extents), strict=True)):
            place = integers.floordiv(element, stride)
            lead.append(ir.Let(var, integers.mod(place, extents[d]) if d else place))
        return ir.For(element, self.member, count, self.width, (*lead, *body))

    def _held(self, node: ir.Node, coords: tuple[ir.Var, ...], loops: Sequence[ir.Expr]) -> ir.Node | None:
        """An access of a fragment in registers at the thread's own element."""
        if not isinstance(node, (ir.Load, ir.Store)) or id(node.view) not in self.registers:
            return None
        fragment = self.registers[id(node.view)]
        assert self.subject is not None
        if not self.plan.own(fragment, node.index, self.subject, coords):
            raise AssertionError(f"`{fragment.name}` is not dealt out like `{self.subject.name}`")
        layout, around = self.plan.layout(fragment), self.plan.layout(self.subject)
        if isinstance(layout, Along) and isinstance(around, Rows):
            place = loops[layout.dimension]
        else:
            assert layout is not None
            place = layout.place(loops)
        return dataclasses.replace(node, view=views.whole(node.view.buffer, node.view.slot), index=(place,))

    def _keeps(self, node: ir.Node) -> bool:
        """Whether a statement stores into registers only."""
        return isinstance(node, ir.Store) and node.view.buffer.storage in (ir.Storage.LOCAL, ir.Storage.REGISTER)

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

    def reduce(self, s: ir.FragmentReduce, copies: Copies) -> ir.Body:
        if id(s) in self.plan.by_lanes:
            return reduce_fragments.reduce(self, s, copies)
        return super().reduce(s, copies)

    def at(
        self,
        e: ir.Expr,
        indices: tuple[ir.Var, ...],
        coords: tuple[ir.Expr, ...],
        loops: Sequence[ir.Expr],
        copies: Copies,
    ) -> ir.Expr:
        """An expression over `indices` at the element `coords` of the current fragment, that of the turn `loops`."""
        e = rewrite(e, lambda node: self._element(node, copies))
        e = rewrite(e, lambda node: self._held(node, indices, loops))
        return substitute(e, dict(zip(indices, coords, strict=True)))

    def _element(self, node: ir.Node, copies: Copies) -> ir.Node | None:
        """An element of a fragment as that of the view which stands for it."""
        if isinstance(node, ir.FragmentLoad):
            return ir.Load(self.view(node.source, copies), node.index, span=node.span)
        if isinstance(node, ir.FragmentStore):
            return ir.Store(self.view(node.target, copies), node.index, node.value, node.op, span=node.span)
        return None

    def apply(self, s: ir.Apply, copies: Copies) -> ir.Body:
        if id(s) in self.plan.by_lanes:
            return reduce_fragments.reduce(self, s, copies)
        body, shape = rewrite(s.body, lambda node: self._element(node, copies)), s.fragment.fragment.shape
        dims = dealt_dims(s)
        if len(dims) == len(shape):
            return (self.dealt(s.indices, shape, body),)
        for d in reversed(range(len(shape))):
            if d not in dims:
                body = (ir.For(s.indices[d], integers.ZERO, shape[d], 1, body, span=s.span),)
        extents = tuple(shape[d] for d in dims)
        layout = plain(self.width, tuple(integers.value(extent) or 0 for extent in extents))
        return (self.dealt(tuple(s.indices[d] for d in dims), extents, body, layout),)


def _linear(regions: Sequence[ir.Region]) -> ir.Expr:
    """The number of a thread in its block: inner regions first, of a region its first index."""
    number: ir.Expr = integers.ZERO
    stride: ir.Expr = integers.ONE
    for region in reversed(regions):
        for var, extent in zip(region.indices, region.extents, strict=True):
            if integers.value(extent) != 1:
                number = integers.add(number, integers.mul(var, stride))
            stride = integers.mul(stride, extent)
    return number


def _all(conditions: Sequence[ir.Expr]) -> ir.Expr:
    result = conditions[0]
    for condition in conditions[1:]:
        result = ir.Binary("&&", result, condition, BOOL)
    return result


def _flat(body: ir.Body) -> ir.Body:
    """Without blocks that only hold statements together: names differ anyway."""
    out: list[ir.Stmt] = []
    for s in body:
        out += _flat(s.body) if isinstance(s, ir.Scope) else (s,)
    return tuple(out)
