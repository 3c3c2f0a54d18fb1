"""Which thread of a block touches which elements, as the SIMT emitter will have it.

A touch is one access of one statement. Its threads follow from where the statement stands and from what it is: every
thread of an instance, the elected one, or a crew that shares the places of a transfer out (`simt/crews.py`: place p
goes to thread p modulo the block's size, from the thread that `stagger-copies` noted). Where that is not certain, the
touch is of all elements by any thread.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Sequence

from croq_magic.compiler import integers, ir
from croq_magic.compiler.passes.accesses import Mode
from croq_magic.compiler.passes.kernel_scalars import Scalars
from croq_magic.compiler.targets.simt.copies import PRIVATE, chunks, first_thread, plan
from croq_magic.compiler.targets.simt.expressions import buffer_offset
from croq_magic.compiler.targets.simt.threads import Threads, unit_threads
from croq_magic.compiler.types import S32
from croq_magic.compiler.visit import substitute, walk

_LANE = ir.Var("#lane")

Loops = tuple[ir.For | ir.While, ...]


@dataclasses.dataclass(frozen=True)
class Site:
    """Where a statement stands: the regions below the block, the conditions and the loops around it. `full`: the
    regions have an instance for every thread of the block; `whole`: all threads get there, together."""

    chain: tuple[ir.Region, ...] = ()
    conditions: tuple[ir.Expr, ...] = ()
    loops: Loops = ()
    full: bool = True
    whole: bool = True


@dataclasses.dataclass(frozen=True, eq=False)
class Touch:
    """An access by some threads. `digits` are variables with their ranges and what each adds to the number of the
    thread, `offset` is the element; without an offset it is anywhere. `size`: the number of the thread is taken modulo
    it, and `first` added. `landing`: the hardware may do it at any time from here on, for whatever thread; `loose`:
    at a turn of its loops that is not known.

    Without a buffer it stands for everything in memory (`device`: in device memory) by any thread.
    """

    buffer: ir.Buffer | None
    mode: Mode
    site: Site = Site()
    digits: tuple[tuple[ir.Var, int, int], ...] | None = None  # variable, its range, what it adds to the thread
    offset: ir.Expr | None = None
    size: int = 0
    first: int = 0
    landing: bool = False
    loose: bool = False
    device: bool = False


class Toucher:
    """Finds the touches of the statements of one block."""

    def __init__(self, block: ir.Region, threads: Threads) -> None:
        assert threads.count is not None
        self.count = threads.count
        self.scalars = Scalars(block)
        self.arriving: dict[str, list[Touch]] = {}

    # ------------------------------------------------------------------------------------------------- who

    def enter(self, site: Site, region: ir.Region) -> Site:
        """Inside a region."""
        chain = (*site.chain, region)
        size = integers.value(unit_threads(region))
        needed = integers.value(integers.product(e for r in chain for e in r.extents))
        full = site.full and size is not None and needed is not None and size * needed == self.count
        return dataclasses.replace(site, chain=chain, full=full, whole=site.whole and full)

    def under(self, site: Site, condition: ir.Expr) -> Site:
        """Where a condition holds."""
        whole = site.whole and not self.scalars.differs((condition,))
        return dataclasses.replace(site, conditions=(*site.conditions, condition), whole=whole)

    def _instances(self, chain: Sequence[ir.Region], every: bool) -> tuple[tuple[ir.Var, int, int], ...] | None:
        """The indices of the threads that perform a statement: all of each instance if `every`, else its first."""
        stride = integers.value(unit_threads(chain[-1])) if chain else self.count
        if stride is None:
            return None
        digits = [(_LANE, stride, 1)] if every and stride > 1 else []
        for region in reversed(chain):
            for var, extent in zip(region.indices, region.extents, strict=True):
                size = integers.value(extent)
                if size is None:
                    return None
                digits.append((var, size, stride))
                stride *= size
        return tuple(digits)

    def element(
        self, view: ir.View, index: tuple[ir.Expr, ...], mode: Mode, site: Site, every: bool
    ) -> Iterator[Touch]:
        """One element, by all threads that get there or by the first of each instance."""
        if view.buffer.storage not in PRIVATE:
            yield Touch(view.buffer, mode, site, self._instances(site.chain, every), buffer_offset(view, index))

    def window(self, view: ir.View, mode: Mode, site: Site, every: bool) -> Iterator[Touch]:
        """All elements of a view, by every such thread."""
        digits = self._instances(site.chain, every)
        places = _places(view.extents)
        if view.buffer.storage in PRIVATE:
            return
        if digits is None or places is None:
            yield Touch(view.buffer, mode, site)
            return
        index, sizes = places
        more = tuple((var, size, 0) for var, size in zip(index, sizes, strict=True))
        yield Touch(view.buffer, mode, site, (*digits, *more), buffer_offset(view, index))

    def shared_out(
        self, view: ir.View, extents: tuple[ir.Expr, ...], index: tuple[ir.Var, ...], mode: Mode, site: Site
    ) -> Iterator[Touch]:
        """The elements of a view at the last of `index`, places of `extents` that the block shares out."""
        if view.buffer.storage in PRIVATE:
            return
        sizes = [integers.value(extent) for extent in extents]
        if not site.whole or None in sizes:
            yield Touch(view.buffer, mode, site)
            return
        own = index[len(index) - view.rank :]
        yield Touch(
            view.buffer, mode, site, _digits(index, [int(n or 0) for n in sizes]), buffer_offset(view, own), self.count
        )

    # ------------------------------------------------------------------------------------------------ what

    def loads(self, parts: tuple[object, ...], site: Site, every: bool = True) -> Iterator[Touch]:
        """Reads of elements in expressions."""
        for node in walk(parts):
            if isinstance(node, ir.Load):
                yield from self.element(node.view, node.index, Mode.READ, site, every)

    def statement(self, s: ir.Stmt, site: Site) -> Iterator[Touch]:
        """The touches of a statement itself, without those of statements inside it."""
        match s:
            case ir.Declare():
                yield from self._fill(s, site)
            case ir.Let() | ir.Assign():
                yield from self.loads((s.value,), site)
            case ir.Assert():
                yield from self.loads((s.condition, *s.values), site)
            case ir.If() | ir.While():
                yield from self.loads((s.condition,), site)
            case ir.Masked():
                yield from self.loads((s.predicate,), site)
            case ir.For():
                yield from self.loads((s.start, s.stop), site)
            case ir.Region():
                yield from self.loads(s.extents, site)
            case ir.Store():
                every = s.view.buffer.storage in PRIVATE
                yield from self.loads((*s.index, s.value), site, every)
                if s.op:
                    yield from self.element(s.view, s.index, Mode.READ, site, every)
                yield from self.element(s.view, s.index, Mode.WRITE, site, every)
            case ir.Atomic():
                yield from self.loads((*s.index, s.value, s.expected), site, False)
                yield from self.element(s.view, s.index, Mode.ATOMIC, site, False)
                if s.view.buffer.storage is ir.Storage.GLOBAL:  # others may learn by it what was done before
                    yield Touch(None, Mode.WRITE, device=True)
            case ir.SpanOp():
                yield from self._span_operation(s, site)
            case ir.Copy():
                yield from self._copy(s, site)
            case ir.Wait():
                yield from self._arrived(s)
            case ir.CombineLanes():
                yield from self.loads((s.value,), site)
            case ir.Print():
                yield from self.loads(s.args, site, False)
            case ir.Call():
                if not all(isinstance(a, ir.Expr) for a in s.args):  # it gets pointers
                    yield Touch(None, Mode.WRITE)
                yield from self.loads(s.args, site)
            case ir.Barrier() | ir.Scope() | ir.Once() | ir.Rotate() | ir.DeclareEvent():
                pass
            case ir.Break() | ir.Continue() | ir.Yield():
                pass
            case _:  # events, fences, text of the user: they may order or touch whatever there is
                yield Touch(None, Mode.WRITE)

    def _fill(self, s: ir.Declare, site: Site) -> Iterator[Touch]:
        if s.init is not None:
            yield from self.loads((s.init,), site)
        if (s.init is None and not s.buffer.zeroed) or s.buffer.storage in PRIVATE:
            return
        count = integers.product((*map(integers.constant, s.buffer.slots), *s.buffer.shape))
        number = integers.value(count)
        if not site.whole or number is None:
            yield Touch(s.buffer, Mode.WRITE, site)
            return
        var = ir.Var("#0", S32, ir.Role.COORD, integers.ZERO, count)
        yield Touch(s.buffer, Mode.WRITE, site, _digits((var,), [number]), var, self.count)

    def _span_operation(self, s: ir.SpanOp, site: Site) -> Iterator[Touch]:
        private = s.view.buffer.storage in PRIVATE
        if not isinstance(s.value, ir.View):
            yield from self.loads((s.value,), site)
        elif private:
            yield from self.window(s.value, Mode.READ, site, True)
        index = _variables(s.view.extents)
        if private:
            return
        if isinstance(s.value, ir.View):
            yield from self.shared_out(s.value, s.view.extents, index, Mode.READ, site)
        if s.op:
            yield from self.shared_out(s.view, s.view.extents, index, Mode.READ, site)
        yield from self.shared_out(s.view, s.view.extents, index, Mode.WRITE, site)

    def _copy(self, s: ir.Copy, site: Site) -> Iterator[Touch]:
        landing = s.token is not None
        for touch in self._moved(s, site):
            yield dataclasses.replace(touch, landing=True) if landing else touch

    def _moved(self, s: ir.Copy, site: Site) -> Iterator[Touch]:
        private = [view.buffer.storage in PRIVATE for view in (s.src, s.dst)]
        if s.compressed or (any(private) and (s.src.zfill or s.pad or s.permutation)):
            for view, mode in ((s.src, Mode.READ), (s.dst, Mode.WRITE)):
                if view.buffer.storage not in PRIVATE:
                    yield Touch(view.buffer, mode, site)
            return
        if any(private):
            yield from self.window(s.src, Mode.READ, site, private[1])
            yield from self.window(s.dst, Mode.WRITE, site, private[1])
            return
        parts = chunks(plan(s), s)
        t = parts.transfer
        sizes = [integers.value(count) for count in parts.counts]
        if not site.whole or None in sizes:
            yield Touch(s.src.buffer, Mode.READ, site)
            yield Touch(s.dst.buffer, Mode.WRITE, site)
            return
        digits = _digits(tuple(t.index[d] for d in parts.axes), [int(n or 0) for n in sizes])
        total = math.prod(int(n or 0) for n in sizes)
        first = first_thread(s) if 1 < total < self.count else 0
        moved: dict[ir.Var, ir.Expr] = {}
        if parts.elements > 1:
            within, last = ir.Var("#within"), t.index[parts.axes[-1]]
            moved = {last: integers.add(integers.mul(last, integers.constant(parts.elements)), within)}
            digits = (*digits, (within, parts.elements, 0))
        source, to = substitute(t.source, moved), substitute(t.to, moved)
        yield Touch(t.src, Mode.READ, site, digits, source, self.count, first)
        yield Touch(t.dst, Mode.WRITE, site, digits, to, self.count, first)

    def expect(self, s: ir.Copy, site: Site) -> None:
        """Notes a transfer that completes at a wait."""
        if s.token is not None:
            found = [dataclasses.replace(touch, loose=True) for touch in self._moved(s, site)]
            self.arriving.setdefault(s.token.name, []).extend(found)

    def _arrived(self, s: ir.Wait) -> Iterator[Touch]:
        """What is complete after a wait; handles that were swapped may stand for any transfer."""
        for token in s.tokens:
            names = [token.name] if token.slot is None and token.name in self.arriving else list(self.arriving)
            for name in names:
                yield from self.arriving[name]


def _places(extents: tuple[ir.Expr, ...]) -> tuple[tuple[ir.Var, ...], list[int]] | None:
    sizes = [integers.value(extent) for extent in extents]
    if None in sizes:
        return None
    return _variables(extents), [int(n or 0) for n in sizes]


def _variables(extents: tuple[ir.Expr, ...]) -> tuple[ir.Var, ...]:
    return tuple(ir.Var(f"#{d}", S32, ir.Role.COORD, integers.ZERO, e) for d, e in enumerate(extents))


def _digits(index: tuple[ir.Var, ...], sizes: list[int]) -> tuple[tuple[ir.Var, int, int], ...]:
    """Places in row-major order; what they add to the thread is their number."""
    found = []
    stride = 1
    for var, size in zip(reversed(index), reversed(sizes), strict=True):
        found.append((var, size, stride))
        stride *= size
    return tuple(reversed(found))
