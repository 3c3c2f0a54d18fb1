"""Reductions of fragments whose rows are shared by some threads of a unit (see `fragment_layouts`).

A thread first reduces its own elements of a row or column, then the lanes of a warp that hold others of it do so among
themselves. Where that is not all, one lane of each part puts its result into a small shared array, and behind a barrier
everybody reduces what stands there. So all holders of a row know its result.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING

from croq_magic.compiler import integers, ir, views
from croq_magic.compiler.passes.fragment_layouts import Along, Rows, warp_part
from croq_magic.compiler.passes.fragment_plan import Plan, reduction
from croq_magic.compiler.passes.lower_fragments import Copies, cast, compute_type
from croq_magic.compiler.passes.map_limits import WARP
from croq_magic.compiler.types import BOOL, S32, DType

if TYPE_CHECKING:
    from croq_magic.compiler.passes.share_fragments import Sharing

_PARTS = "results of the warps"


@dataclasses.dataclass(frozen=True)
class _Shape:
    """Who reduces what. `turns` results a thread, each of `own` elements; then `lanes` lanes, `stride` apart. `parts`
    results are left of each: `entries` in all go into an array, by the threads for which `writes` holds, at `place`;
    those that belong to a thread stand at `first` and `apart` further on."""

    turns: int
    own: int
    lanes: int
    stride: int
    parts: int
    entries: int
    writes: Callable[[ir.Expr], ir.Expr | None]
    place: Callable[[ir.Expr], ir.Expr]
    first: Callable[[ir.Expr], ir.Expr]
    apart: int


def _number(value: int) -> ir.Expr:
    return integers.constant(value)


def _shape(layout: Rows, axis: int) -> _Shape:
    width, lanes = layout.width, layout.lanes
    if axis == 1:
        together = min(lanes, WARP)
        parts = lanes // together
        return _Shape(
            layout.rounds,
            layout.steps,
            together,
            1,
            parts,
            width // together,
            lambda t: ir.Binary("==", integers.mod(t, _number(together)), integers.ZERO, BOOL),
            lambda t: integers.floordiv(t, _number(together)),
            lambda t: integers.mul(integers.floordiv(t, _number(lanes)), _number(parts)),
            1,
        )
    together = max(warp_part(width, lanes), lanes)
    parts = width // together

    def column(t: ir.Expr) -> ir.Expr:
        return integers.mod(t, _number(lanes))

    return _Shape(
        layout.steps,
        layout.rounds,
        min(together, WARP) if together > lanes else 1,
        lanes,
        parts,
        parts * lanes,
        lambda t: (
            None if together == lanes else ir.Binary("<", integers.mod(t, _number(together)), _number(lanes), BOOL)
        ),
        lambda t: integers.add(integers.mul(integers.floordiv(t, _number(together)), _number(lanes)), column(t)),
        column,
        lanes,
    )


def needs_array(s: ir.FragmentReduce | ir.Apply, plan: Plan) -> bool:
    """Whether a reduction passes results between warps."""
    job = reduction(s)
    assert job is not None
    layout = plan.layout(job.tile)
    return isinstance(layout, Rows) and _shape(layout, job.axis).parts > 1


def reduce(sharing: Sharing, s: ir.FragmentReduce | ir.Apply, copies: Copies) -> ir.Body:
    """The statements of a thread for a reduction that the plan has among those by lanes."""
    return _Emitter(sharing, s, copies).body()


class _Emitter:
    def __init__(self, sharing: Sharing, s: ir.FragmentReduce | ir.Apply, copies: Copies) -> None:
        job = reduction(s)
        assert job is not None
        self.sharing, self.s, self.job, self.copies = sharing, s, job, copies
        layout = sharing.plan.layout(job.tile)
        assert isinstance(layout, Rows)
        self.layout = layout
        self.shape = _shape(layout, job.axis)
        dtype = job.tile.dtype if job.value is None else job.value.dtype
        if dtype.is_float:
            self.dtype = compute_type(dtype)
        else:
            self.dtype = dtype if dtype.bits >= 32 else S32

    def body(self) -> ir.Body:
        shape, sharing = self.shape, self.sharing
        turn = sharing.loop("turn", shape.turns)
        before, value = self.lanes(*self.own(turn))
        if shape.parts == 1:
            return (sharing.looped([turn], (*before, *self.result(turn, value))),)
        units = _number(sharing.threads // self.layout.width)
        extents = (units, _number(shape.turns), _number(shape.entries))
        array = ir.Buffer(f"{self.job.target.fragment.name}_parts", self.dtype, ir.Storage.SHARED, extents)
        parts = views.at_leading(views.whole(array), (self.copies[self.job.tile.owner],))
        store: ir.Stmt = ir.Store(parts, (turn, shape.place(sharing.member)), value)
        chosen = shape.writes(sharing.member)
        store = store if chosen is None else ir.If(chosen, (store,))
        again = sharing.loop("turn", shape.turns)
        first = shape.first(sharing.member)
        total = self.variable(ir.Role.MUTABLE)
        part = ir.Var(sharing.fresh("part"), S32, ir.Role.LOOP, integers.ONE, _number(shape.parts))
        place = integers.add(first, integers.mul(part, _number(shape.apart)))
        rest = ir.Assign(total, self.both(total, ir.Load(parts, (again, place))))
        gather: ir.Body = (
            ir.Let(total, ir.Load(parts, (again, first))),
            ir.For(part, integers.ONE, _number(shape.parts), 1, (rest,)),
            *self.result(again, total),
        )
        return (
            ir.Declare(array),
            sharing.looped([turn], (*before, store)),
            ir.Barrier(self.job.tile.owner, _PARTS, span=self.s.span),
            sharing.looped([again], gather),
        )

    # ------------------------------------------------------------------------------------------------- elements

    def variable(self, role: ir.Role) -> ir.Var:
        return ir.Var(self.sharing.fresh("total" if self.job.op == "sum" else "largest"), self.dtype, role)

    def both(self, a: ir.Expr, b: ir.Expr) -> ir.Expr:
        if self.job.op == "sum":
            return ir.Binary("+", a, b, self.dtype)
        return ir.Builtin("__max", (a, b), self.dtype)

    def neutral(self) -> ir.Const:
        """What changes no result: a maximum of floats leaves out what is no number."""
        dtype: DType = self.dtype
        if self.job.op == "sum":
            return ir.Const(0.0 if dtype.is_float else 0, dtype)
        return ir.Const(float("nan") if dtype.is_float else dtype.range[0], dtype)

    def element(self, turn: ir.Expr, number: ir.Expr, last: bool) -> ir.Expr:
        """One of the thread's own elements of a result; `last`: it may lie outside the fragment."""
        layout, job = self.layout, self.job
        loops = (turn, number) if job.axis == 1 else (number, turn)
        coords = layout.coords(self.sharing.member, loops)
        guards = layout.guards(coords)
        if job.value is None and job.tile not in self.sharing.plan.shared:
            # What a thread holds of rows (or columns) that are not there is harmless.
            guards = [g for g in guards if isinstance(g, ir.Binary) and g.left == coords[job.axis]] if last else []
        value = cast(self.sharing.at(self.read(), job.indices, coords, loops, self.copies), self.dtype)
        for guard in guards:
            value = ir.Select(guard, value, self.neutral(), self.dtype)
        return value

    def read(self) -> ir.Expr:
        """What is reduced, over the indices of the job."""
        job = self.job
        return ir.FragmentLoad(ir.FragmentRef(job.tile), job.indices) if job.value is None else job.value

    def own(self, turn: ir.Expr) -> tuple[ir.Body, ir.Expr]:
        """Statements that reduce a thread's own elements, and the result."""
        count = self.shape.own
        if count == 1:
            return (), self.element(turn, integers.ZERO, True)
        total = self.variable(ir.Role.MUTABLE)
        number = ir.Var(self.sharing.fresh("k"), S32, ir.Role.LOOP, integers.ONE, _number(count))
        rest = ir.Assign(total, self.both(total, self.element(turn, number, True)))
        start = ir.Let(total, self.element(turn, integers.ZERO, False))
        return (start, ir.For(number, integers.ONE, _number(count), 1, (rest,))), total

    def lanes(self, before: ir.Body, value: ir.Expr) -> tuple[ir.Body, ir.Expr]:
        shape = self.shape
        if shape.lanes <= shape.stride:
            return before, value
        var = value if before and isinstance(value, ir.Var) else self.variable(ir.Role.LET)
        combine = ir.CombineLanes(var, self.job.op, value, shape.lanes, shape.stride, span=self.s.span)
        return (*before, combine), var

    def result(self, turn: ir.Expr, value: ir.Expr) -> ir.Body:
        """The result goes to all that hold it, or by one of them into shared storage."""
        sharing, target, update = self.sharing, self.job.target, self.job.update
        converted = value if update else cast(value, target.fragment.dtype)
        if update:  # in the type that the program computes in
            assert self.job.value is not None
            converted = cast(value, self.job.value.dtype)
        view = sharing.view(target, self.copies)
        if view.buffer.storage is not ir.Storage.SHARED:
            place = views.whole(view.buffer, view.slot)
            return (ir.Store(place, (turn,), converted, update, span=self.s.span),)
        extent = self.layout.shape[1 - self.job.axis]
        along = Along(self.layout.width, extent, self.layout.lanes, 1 - self.job.axis)
        coords = along.coords(sharing.member, (turn,))
        first = along.first(sharing.member)
        store: ir.Stmt = ir.Store(view, coords, converted, update, span=self.s.span)
        for guard in (*along.guards(coords), *([] if first is None else [first])):
            store = ir.If(guard, (store,))
        return (store,)
