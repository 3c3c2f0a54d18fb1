"""Which thread of a block touches which elements, as the SIMT emitter will have it.

A touch is one access of one statement. Its threads follow from where the statement stands and from what it is: every
thread of an instance, the elected one, or a crew that shares the places of a transfer out (`simt/crews.py`: place p
goes to thread p modulo the block's size, from the thread that `stagger-copies` noted). The element is a part that is
the same for all threads, kept as an expression, plus a part that is enumerated: a table from elements to owners.

Whatever does not fit is *anywhere*: all elements of the buffer. A table may hold more than what is really touched,
never less.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from collections.abc import Iterator, Mapping, Sequence

from croq_magic.compiler import evaluate, integers, ir
from croq_magic.compiler.passes.accesses import Mode
from croq_magic.compiler.passes.structure import assigned, bodies
from croq_magic.compiler.targets.simt.copies import PRIVATE, chunks, first_thread, plan
from croq_magic.compiler.targets.simt.expressions import buffer_offset
from croq_magic.compiler.targets.simt.parties import conjuncts
from croq_magic.compiler.targets.simt.threads import Threads, unit_threads
from croq_magic.compiler.types import BOOL, S32
from croq_magic.compiler.visit import substitute, walk

MANY = -1  # owner of elements that several threads touch
MOST = 1 << 14  # entries of a table
MOST_CALLS = 1 << 12  # entries that are not sums of what their variables add
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


@dataclasses.dataclass(frozen=True)
class Table:
    """Elements, without `uniform` (the part that all threads share), with their owners: a thread or `MANY`. `only`
    is the thread if there is but one."""

    uniform: ir.Expr
    owners: Mapping[int, int]
    low: int
    high: int


class Toucher:
    """Finds the touches of the statements of one block."""

    def __init__(self, block: ir.Region, threads: Threads) -> None:
        assert threads.count is not None
        self.count = threads.count
        self.values: dict[str, ir.Expr | None] = {}  # of immutable scalars; None if unknown
        self.changing: set[str] = set()
        self.arriving: dict[str, list[Touch]] = {}
        self.tables: dict[tuple[object, ...], Table | None] = {}
        self.block = block
        self._scalars(block)

    def _scalars(self, block: ir.Region) -> None:
        for node in walk(block.body):
            if isinstance(node, ir.Let):
                plain = node.var.role is not ir.Role.MUTABLE and node.var.name not in self.values
                self.values[node.var.name] = node.value if plain else None
            elif isinstance(node, ir.Stmt) and not bodies(node):
                self.changing |= assigned((node,))
        for name in list(self.values):
            self._resolve(name)

    def _resolve(self, name: str) -> ir.Expr | None:
        """The value of a scalar over indices and constants of the kernel."""
        value = self.values[name]
        if value is None:
            return None
        opaque = name in self.changing or any(isinstance(n, ir.Load) for n in walk(value))
        if opaque or not exact(value):
            self.values[name] = None
            return None
        inner: dict[ir.Var, ir.Expr] = {}
        for n in walk(value):
            if isinstance(n, ir.Var) and (n.name in self.values or n.name in self.changing):
                found = self._resolve(n.name) if n.name in self.values else None
                if found is None:
                    self.values[name] = None
                    return None
                inner[n] = found
        self.values[name] = substitute(value, inner)
        return self.values[name]

    @functools.cached_property
    def varying(self) -> set[str]:
        """Scalars and indices that may differ between threads; a superset of what the emitter takes for such."""
        found: set[str] = set()
        for n in walk(self.block.body):
            if isinstance(n, ir.Region):
                found |= {var.name for var in n.indices}
            elif isinstance(n, ir.Stmt) and not isinstance(n, (ir.Let, ir.Assign, ir.Rotate)) and not bodies(n):
                found |= assigned((n,))  # what others compute, or an event of the moment
        while self._spread(self.block.body, found):
            pass
        return found

    def _spread(self, body: ir.Body, found: set[str], under: bool = False) -> bool:
        grew = False
        for s in body:
            names: tuple[str, ...] = ()
            parts: tuple[ir.Node, ...] = ()
            if isinstance(s, (ir.Let, ir.Assign)):
                names, parts = (s.var.name,), () if s.value is None else (s.value,)
            elif isinstance(s, ir.For):
                names, parts = (s.var.name,), (s.start, s.stop)
            for name in names:
                if name not in found and (under or self.differs(parts, found)):
                    found.add(name)
                    grew = True
            heads = tuple(getattr(s, name) for name in ("condition", "predicate") if hasattr(s, name))
            inside = under or (isinstance(s, (ir.If, ir.While, ir.Masked)) and self.differs(heads, found))
            for inner in bodies(s):
                grew = self._spread(inner, found, inside) or grew
        return grew

    def differs(self, parts: tuple[ir.Node, ...], varying: set[str] | None = None) -> bool:
        """Whether expressions may have different values in different threads."""
        for n in walk(parts):
            if isinstance(n, ir.Load):
                return True
            if isinstance(n, ir.Var) and n.name in (self.varying if varying is None else varying):
                return True
        return False

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
        whole = site.whole and not self.differs((condition,))
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

    # ----------------------------------------------------------------------------------------------- where

    def table(
        self,
        touch: Touch,
        common: Loops,
        unit: int = 1,
        edge: frozenset[int] = frozenset(),
        last: bool = False,
        sample: bool = False,
    ) -> Table | None:
        """The elements of a touch with their owners, units of `unit` threads; None: anywhere. Indices of the loops in
        `common` stay in the uniform part where they can; of the loops in `edge` (by id) it is the first turn alone, or
        the last. A `sample` has but a few elements of each thread."""
        key = (id(touch), common, unit, edge, last, sample)
        if key not in self.tables:
            self.tables[key] = self._table(touch, common, unit, edge, last, sample)
        return self.tables[key]

    def _table(
        self,
        touch: Touch,
        common: Loops,
        unit: int,
        edge: frozenset[int] = frozenset(),
        last: bool = False,
        sample: bool = False,
    ) -> Table | None:
        if touch.digits is None or touch.offset is None or touch.buffer is None or _packed(touch.buffer):
            return None
        digits = {var.name: (var, range(size), weight) for var, size, weight in touch.digits}
        offset = self._known(touch.offset)
        if offset is None or not (exact(offset) or _plain(offset)):
            return None
        loops = {s.var.name: s for s in touch.site.loops if isinstance(s, ir.For)}
        axes = {name for name, s in loops.items() if not any(s is around for around in common)}
        uniform: list[tuple[integers.Monomial, int]] = []
        own: list[tuple[integers.Monomial, int]] = []
        terms = [(m, c, set(evaluate.free_variables(m))) for m, c in integers.poly(offset).terms]
        while True:  # an index that is multiplied or divided with those of threads is enumerated like them
            numeric = set(digits) | axes
            mixed = [names for _, _, names in terms if names & numeric and names - numeric]
            if not mixed:
                break
            more = set().union(*mixed) - numeric
            if not more <= set(loops):
                return None
            axes |= more
        for monomial, coefficient, names in terms:
            (own if names & numeric else uniform).append((monomial, coefficient))
        used = set().union(*(names for _, _, names in terms))
        for name in sorted(axes & used):
            exactly = turns(loops[name])
            found = _at_most(loops[name]) if exactly is None else exactly
            if found is None:
                return None
            if exactly is not None and id(loops[name]) in edge:
                found = found[-1:] if last else found[:1]
            digits[name] = (loops[name].var, found, 0)
        conditions = [known for c in conjuncts(touch.site.conditions) if (known := self._known(c)) is not None]
        tested = [c for c in conditions if set(evaluate.free_variables((c,))) <= set(digits) and exact(c)]
        base = integers.expr(integers.Poly(tuple(uniform)))
        where = list(digits.values())
        if sample:
            where = [(var, numbers if weight else numbers[:1], weight) for var, numbers, weight in where]
        owners = _owners(touch, integers.Poly(tuple(own)), where, tested, unit)
        if owners is None:
            return None
        return Table(base, owners, min(owners, default=0), max(owners, default=0))

    def alone(self, touch: Touch, unit: int) -> int | None:
        """The thread that makes a touch, as the number of its unit, if it is the same always."""
        if touch.landing or touch.size:
            return None
        found = self._table(dataclasses.replace(touch, offset=integers.ZERO), (), unit)
        owner = MANY if found is None else found.owners.get(0, MANY)
        return None if owner == MANY else owner

    def _known(self, e: ir.Expr) -> ir.Expr | None:
        """An expression over indices and constants of the kernel, None if it depends on something else."""
        inner: dict[ir.Var, ir.Expr] = {}
        for n in walk(e):
            if isinstance(n, ir.Load):
                return None
            if isinstance(n, ir.Var) and (n.name in self.values or n.name in self.changing):
                found = self.values.get(n.name) if n.name not in self.changing else None
                if found is None:
                    return None
                inner[n] = found
        return integers.simplify(substitute(e, inner)) if inner else e


def _owners(
    touch: Touch,
    offset: integers.Poly,
    digits: list[tuple[ir.Var, range, int]],
    conditions: list[ir.Expr],
    unit: int,
) -> dict[int, int] | None:
    """Elements with their owners."""
    names = set(evaluate.free_variables((*(m for term, _ in offset.terms for m in term), *conditions)))
    many = touch.landing
    if unit == 1 and not touch.size:  # threads that differ in what the element does not depend on share it
        many = many or any(weight and len(r) > 1 and v.name not in names for v, r, weight in digits)
        digits = [d for d in digits if d[0].name in names]
    else:
        digits = [d for d in digits if d[2] or d[0].name in names]
    total = math.prod(len(r) for _, r, _ in digits)
    plain = not conditions and all(len(m) <= 1 and all(isinstance(a, ir.Var) for a in m) for m, _ in offset.terms)
    if total > (MOST if plain else MOST_CALLS):
        return None
    threads = [0]
    for _, numbers, weight in digits:
        threads = [t + weight * x for t in threads for x in numbers] if weight else _repeated(threads, len(numbers))
    if plain:
        places = [next((c for m, c in offset.terms if not m), 0)]
        for var, numbers, _ in digits:
            step = offset.coefficient(var)
            places = [p + step * x for p in places for x in numbers]
    else:
        wanted = (integers.expr(offset), *conditions)
        try:
            call = evaluate.function(wanted, [var.name for var, _, _ in digits])
            rows = [call(*point) for point in itertools.product(*(r for _, r, _ in digits))]
        except (ValueError, ZeroDivisionError):
            return None
        chosen = [(int(row[0]), t) for row, t in zip(rows, threads, strict=True) if all(row[1:])]
        places, threads = [p for p, _ in chosen], [t for _, t in chosen]
    if touch.size:
        threads = [touch.first + t % touch.size for t in threads]
    if many:
        return dict.fromkeys(places, MANY)
    owners: dict[int, int] = {}
    known = owners.setdefault
    for place, thread in zip(places, threads, strict=True):
        if known(place, thread // unit) != thread // unit:
            owners[place] = MANY
    return owners


def _repeated(items: list[int], times: int) -> list[int]:
    """Each item as often as that."""
    return [item for item in items for _ in range(times)]


def _packed(buffer: ir.Buffer) -> bool:
    """Whether several elements share a byte."""
    return buffer.dtype.bits < 8 and buffer.dtype is not BOOL


def exact(e: ir.Expr) -> bool:
    """Whether every step of an expression stays within its type, so that it may be taken for mathematical."""
    for n in walk(e):
        if isinstance(n, (ir.Binary, ir.Unary)) and n.dtype.is_integer:
            low, high = integers.interval(n)
            least, most = n.dtype.range
            if low is None or high is None or low < least or high > most:
                return False
    return True


def _plain(e: ir.Expr) -> bool:
    """Whether an expression is mathematical whatever its types are: nothing in it goes back to a type."""
    return all(isinstance(n, (ir.Const, ir.Var, ir.Binary, ir.Unary)) and n.dtype.is_integer for n in walk(e))


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


def turns(s: ir.For) -> range | None:
    """The values of a loop's index, None if its bounds are not constant."""
    start, stop = integers.value(s.start), integers.value(s.stop)
    return None if start is None or stop is None else range(start, stop, s.step)


def _at_most(s: ir.For) -> range | None:
    """The values of a loop's index, or more."""
    low, high = integers.interval(s.start)[0], integers.interval(s.stop)[1]
    if low is None or high is None:
        return None
    return range(low, high, s.step if integers.value(s.start) is not None else 1)
