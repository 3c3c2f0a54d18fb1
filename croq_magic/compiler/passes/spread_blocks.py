"""Gives blocks of one thread to threads of larger blocks.

Source: language reference, execution model, section 2.1: a single level without annotation maps to blocks, and its
instances may be fused into threads when nothing in the body tells the difference. On a GPU a block of one thread leaves
31 of 32 lanes idle, so any extent becomes blocks of threads:

    region block [i < M, j < N] { body }
    region block [tile < ceil(M N / 256)] { region thread [unit < 256] { if tile * 256 + unit < M N { i, j; body } } }

Neighbouring threads get neighbouring values of the index that most accesses of device memory run along. Where a body is
but a few accesses, a thread takes as many neighbouring instances as 16 bytes have elements, in a loop that
`vectorise-elements` makes vectors of; where there are plenty of instances it takes several such groups, one block's
width apart, so that enough bytes are under way to keep memory busy. Blocks that are full need no conditions; the
instances that are left over are those of the last block, one a thread at a time:

    region block [tile < ceil(N / 2048)] {
      region thread [unit < 256] {
        if tile < N / 2048 {
          for unroll turn in 0..2 {
            let place = tile * 2048 + turn * 1024 + unit * 4
            for unroll e in 0..4 { let i = place + e; body }
          }
        } else {
          for i in tile * 2048 + unit..N step 256 { body }
        }
      }
    }
"""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from croq_magic.compiler import integers, ir
from croq_magic.compiler.passes import instance_groups
from croq_magic.compiler.passes.base import Context
from croq_magic.compiler.passes.instance_groups import Lanes, Order
from croq_magic.compiler.passes.map_limits import WARP
from croq_magic.compiler.passes.structure import fresh_name, map_kernels
from croq_magic.compiler.types import BOOL, S32, S64
from croq_magic.compiler.visit import substitute, walk

Level = ir.Level
_PRIVATE = (ir.Storage.LOCAL, ir.Storage.REGISTER)
_TOGETHER_AT_ONCE = 8  # instances of the last block that a thread has under way
_TOGETHER = (
    *(ir.Region, ir.Barrier, ir.NamedBarrier, ir.Fence, ir.Masked, ir.Event, ir.Fragment),
    *(ir.CxxText, ir.Asm, ir.Call, ir.Print),  # text of the cell may ask for its place; prints keep their order
)


@dataclasses.dataclass(frozen=True)
class SpreadBlocks:
    """Makes blocks of up to `width` threads where every block has one; enough blocks for `units` processors come
    first. Of a short body a thread takes the instances of vectors of `vector` bytes (0: none), up to `work` vectors or
    instances, as many as `under_way` bytes need."""

    name: ClassVar[str] = "spread-blocks"
    width: int = 256
    units: int = 264
    work: int = 4
    vector: int = 16
    under_way: int = 64

    def __call__(self, function: ir.Function, context: Context) -> ir.Function:
        taken = {node.name for node in walk(function.body) if isinstance(node, (ir.Var, ir.Buffer))}
        return map_kernels(function, lambda region: self._kernel(region, taken))

    def _kernel(self, root: ir.Region, taken: set[str]) -> ir.Region:
        if root.level is Level.DEVICE and len(root.body) == 1 and isinstance(root.body[0], ir.Region):
            return dataclasses.replace(root, body=(self._kernel(root.body[0], taken),))
        if root.level is not Level.BLOCK or not root.indices or root.attributes != ir.RegionAttributes():
            return root
        if any(map(_cooperates, walk(root.body))):
            return root
        return self._spread(root, taken)

    def _spread(self, root: ir.Region, taken: set[str]) -> ir.Region:
        pairs = instance_groups.order(root)
        total = integers.product(extent for _, extent in pairs)
        count = integers.value(total)
        short = instance_groups.is_short(root.body)
        small = count is not None and count < 1 << 30
        place = ir.Var(fresh_name("place", taken), S32 if small else S64, ir.Role.REGION, integers.ZERO, total)
        width = instance_groups.widest(root.body, self.vector) if short else 1
        found: Lanes | None = None
        if width > 1 and (count is None or count >= self.units * WARP * width):
            found = instance_groups.lanes(root.body, pairs, place, width, taken)
        return _Shares(self, root, pairs, place, taken, found).region()

    def threads(self, count: int | None, instances: int) -> int:
        """Threads of a block, of `instances` each: fewer where the blocks would be too few."""
        width = self.width
        if count is None:
            return width
        while width > WARP and count < width * instances * self.units:
            width //= 2
        return min(width, max(1, count))


class _Shares:
    """How the instances of one level are shared between blocks and threads, and what these do."""

    def __init__(
        self, options: SpreadBlocks, root: ir.Region, pairs: Order, place: ir.Var, taken: set[str], lanes: Lanes | None
    ) -> None:
        self.root, self.pairs, self.place, self.lanes = root, pairs, place, lanes
        self.short = instance_groups.is_short(root.body)
        instances = lanes.width if lanes else 1
        total = integers.product(extent for _, extent in pairs)
        flat = lanes is not None and lanes.flat
        if lanes is not None and not flat:
            total = integers.floordiv(total, integers.constant(instances))
        self.total, self.count = total, integers.value(total)
        self.wide = _wide_product([extent for _, extent in pairs])
        self.step = instances if flat else 1  # what `place` grows by from thread to thread
        width = options.threads(self.count, self.step)
        self.turns = 1
        if lanes is not None:
            self.turns = instance_groups.turns(lanes.traffic, options.under_way, options.work)
        elif self.short and any(isinstance(n, ir.Load) for n in walk(root.body)):
            self.turns = options.work
        if self.count is None or self.count < options.units * width * self.step * self.turns:
            self.turns = 1
        self.width = width
        self.share = width * self.step * self.turns
        self.blocks = integers.ceildiv(total, integers.constant(self.share))
        self.tile = ir.Var(fresh_name("tile", taken), S32, ir.Role.REGION, integers.ZERO, self.blocks)
        alone = len(pairs) == 1 and lanes is None and self.count == width  # then the index is that of the threads
        name = pairs[0][0].name if alone else fresh_name("unit", taken)
        self.unit = ir.Var(name, S32, ir.Role.REGION, integers.ZERO, integers.constant(width))
        self.turn = ir.Var("", S32)
        if self.turns > 1:
            name = fresh_name("turn", taken)
            self.turn = ir.Var(name, S32, ir.Role.LOOP, integers.ZERO, integers.constant(self.turns))

    def region(self) -> ir.Region:
        whole = self.count is not None and self.count % self.share == 0
        body: ir.Body
        if whole or self.turns > 1 or self.step > 1:
            body = self._full_block()
            if not whole:
                body = (ir.If(self._is_full(), body, self._last_block(), span=self.root.span),)
        else:
            place = self._place()
            body = (ir.If(self._is_inside(place), self._instance(place), span=self.root.span),)
            body = (ir.Let(place, self._start(), span=self.root.span), *body)
        span = self.root.span
        threads = ir.Region(Level.THREAD, (self.unit,), (integers.constant(self.width),), body, implied=True, span=span)
        if self.unit.name == self.pairs[0][0].name:  # a failed check names the index of the program alone
            return dataclasses.replace(self.root, indices=(), extents=(), body=(threads,))
        return dataclasses.replace(self.root, indices=(self.tile,), extents=(self.blocks,), body=(threads,))

    def _start(self) -> ir.Expr:
        """The first instance or vector of a thread in a turn."""
        start = integers.mul(self.unit, integers.constant(self.step))
        if integers.value(self.blocks) != 1:
            start = integers.add(integers.mul(self.tile, integers.constant(self.share)), start)
        if self.turns > 1:
            start = integers.add(start, integers.mul(self.turn, integers.constant(self.width * self.step)))
        return start

    def _place(self) -> ir.Var:
        """The variable that counts instances: the index itself where there is but one, and a thread has one."""
        return self.pairs[0][0] if len(self.pairs) == 1 and self.lanes is None else self.place

    def _instance(self, place: ir.Var) -> ir.Body:
        """One instance, or one vector of them."""
        if self.lanes is not None:
            return _at(self.lanes.body, self.root)
        return _at(self._one(self.root.body, place), self.root)

    def _one(self, body: ir.Body, place: ir.Expr) -> ir.Body:
        """The instance of a number."""
        flat = instance_groups.flattened(body, self.pairs, place) if self.short and len(self.pairs) > 1 else None
        return flat or (*instance_groups.decoded(body, self.pairs, place), *body)

    def _full_block(self) -> ir.Body:
        start = self._start()
        if start is self.unit:  # which numbers the instances
            return self._instance(self.unit)
        place = self._place()
        body = (ir.Let(place, start, span=self.root.span), *self._instance(place))
        if self.turns == 1:
            return body
        turns = integers.constant(self.turns)
        return (ir.For(self.turn, integers.ZERO, turns, 1, body, ir.LoopKind.UNROLL, span=self.root.span),)

    def _last_block(self) -> ir.Body:
        """What is left over: one instance (one vector of a row) a thread in a turn."""
        start = integers.add(integers.mul(self.tile, integers.constant(self.share)), self.unit)
        index = self.pairs[0][0] if len(self.pairs) == 1 and self.place.dtype is S32 else self.place
        var = dataclasses.replace(index, role=ir.Role.LOOP, lower=integers.ZERO, upper=self.total)
        body = self.root.body if self.lanes is None or self.lanes.flat else self.lanes.body
        body = substitute(body, {index: var})
        if index is self.place and (self.lanes is None or self.lanes.flat):
            body = self._one(body, var)
        span = self.root.span
        unroll = min(_TOGETHER_AT_ONCE, self.step * self.turns)
        return (ir.For(var, start, self.total, self.width, _at(body, self.root), unroll=unroll, span=span),)

    def _is_full(self) -> ir.Expr:
        if self.count is not None:
            return ir.Binary("<", self.tile, integers.constant(self.count // self.share), BOOL)
        full = ir.Binary("/", self.wide, ir.Const(self.share, S64), S64)
        return ir.Binary("<", ir.Cast(self.tile, S64), full, BOOL)

    def _is_inside(self, place: ir.Var) -> ir.Expr:
        if self.count is not None:
            return ir.Binary("<", place, self.total, BOOL)
        return ir.Binary("<", place if place.dtype is S64 else ir.Cast(place, S64), self.wide, BOOL)


def _at(body: ir.Body, root: ir.Region) -> ir.Body:
    """Statements that a pass made, at the place of the level."""
    return tuple(dataclasses.replace(s, span=root.span) if s.span is None else s for s in body)  # type: ignore[type-var]


def _wide_product(extents: list[ir.Expr]) -> ir.Expr:
    """A product of extents that 32 bits may not hold."""
    total: ir.Expr = ir.Cast(extents[0], S64)
    for extent in extents[1:]:
        total = ir.Binary("*", total, ir.Cast(extent, S64), S64)
    return total


def _cooperates(node: ir.Node) -> bool:
    """Whether instances may tell that they share a block, or a statement is done by all threads of one."""
    if isinstance(node, ir.Copy):
        return node.src.buffer.storage not in _PRIVATE and node.dst.buffer.storage not in _PRIVATE
    if isinstance(node, ir.SpanOp):
        return node.view.buffer.storage not in _PRIVATE
    if isinstance(node, ir.Declare):
        return node.buffer.storage not in _PRIVATE
    return isinstance(node, _TOGETHER)
