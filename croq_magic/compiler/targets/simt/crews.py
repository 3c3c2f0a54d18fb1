"""Who carries out a statement: one elected thread, every thread, or a crew of threads together."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator, Sequence

from croq_magic.compiler import integers, ir
from croq_magic.compiler.passes.participants import meeting_level
from croq_magic.compiler.source import Span
from croq_magic.compiler.targets.emit_cxx import TIMES, Names, Unsupported
from croq_magic.compiler.targets.simt.barriers import MOST_UNITS, BarrierNumbers
from croq_magic.compiler.targets.simt.expressions import WIDE, depends_on
from croq_magic.compiler.targets.simt.guards import Guards, ModuleState
from croq_magic.compiler.targets.simt.parties import conjuncts
from croq_magic.compiler.targets.simt.threads import Selection, Threads, select, unit_threads
from croq_magic.compiler.types import S32, S64

Level = ir.Level
LANES = 32
MAX_RUNS = 4  # of neighbours in a crew
MAX_UNROLL = 16  # steps of a crew that are written out by the compiler


@dataclasses.dataclass(frozen=True)
class Crew:
    """Threads that do something together: the number of a thread among them, and how many they are. `only`: a condition
    that one thread of those that get here satisfies, which does it alone."""

    number: str
    size: ir.Expr
    only: str | None = None


@dataclasses.dataclass(frozen=True)
class Meeting:
    """Events of `parties` threads that meet there: their name and their number, and the name of the variable in which a
    thread counts its turns."""

    name: str
    turn: str
    parties: int
    slots: int


class Crews(Guards):
    """Knows where in the kernel the emitter is. `chain` are the regions below the block that are open, `conditions`
    what has been tested on the way (predicates of `inthreads` and of `if`)."""

    def __init__(self, state: ModuleState, names: Names, threads: Threads) -> None:
        super().__init__(state, names)
        self.threads = threads
        self.single = threads.count == 1
        self.chain: list[ir.Region] = []
        self.conditions: list[ir.Expr] = []
        self.varying: set[str] = set()  # scalars whose values depend on the thread
        self.uses_thread = False
        self._made = 0  # index variables of the emitter, whose names in the IR must differ
        self._numbers: BarrierNumbers | None = None
        self.meetings: dict[tuple[int, ...], Meeting] = {}  # by their threads, or minus the size of units
        self._elected: str | None = None  # the condition that is open

    # -------------------------------------------------------------------------------------------------- the place

    @property
    def level(self) -> Level:
        return (self.chain[-1].level or Level.THREAD) if self.chain else Level.BLOCK

    @property
    def per_thread(self) -> bool:
        """Whether every thread is an instance of its own here."""
        return self.single or self.level is Level.THREAD

    @property
    def thread(self) -> str:
        """The linear number of a thread in its block."""
        if self.single:
            return "0"
        self.uses_thread = True
        return "thread"

    @property
    def unit_size(self) -> ir.Expr:
        """Threads of one instance of the innermost region."""
        return unit_threads(self.chain[-1]) if self.chain else self.threads.total

    def unit(self) -> tuple[Level, ir.Expr, ir.Region | None]:
        """The innermost enclosing unit coarser than a thread: its level and its number of threads."""
        for region in reversed(self.chain):
            if region.level in (Level.GROUP, Level.GROUP4):
                return region.level, unit_threads(region), region
        return Level.BLOCK, self.threads.total, None

    def lane(self) -> str:
        """The number of a thread in the instance of the innermost region."""
        size = integers.value(self.unit_size)
        if not self.chain or size == self.threads.count:
            return self.thread
        return f"{self.thread} % {self.expressions.index(self.unit_size, TIMES + 1)}"

    # ------------------------------------------------------------------------------------------------ one of them

    @contextlib.contextmanager
    def elected(self, everyone: bool = False) -> Iterator[None]:
        """Around what one thread of the instance does; at the level of threads, or with `everyone`, all of them."""
        if everyone or self.per_thread or self._elected is not None:
            yield
            return
        self._elected = f"{self.lane()} == 0"
        with self.block(f"if ({self._elected})"):
            yield
        self._elected = None

    @contextlib.contextmanager
    def apart(self) -> Iterator[None]:
        """Around what a thread does by itself, whatever the level."""
        before, self._elected = self._elected, self._elected or "true"
        yield
        self._elected = before

    # -------------------------------------------------------------------------------------------------- together

    def selection(self) -> Selection | None:
        """The threads that get here, as far as their indices tell."""
        return select(self.threads, self.chain, self.conditions)

    def crew(self) -> Crew:
        """The threads that carry out a collective statement together: all of the block that get there
        (`passes/participants.py`). A set that is neither neighbours nor whole warps leaves it to its first thread."""
        if self.single:
            return Crew("0", integers.ONE)
        divergent = self.deciding()
        if not divergent:
            return Crew(self.thread, self.threads.total)
        found = select(self.threads, self.chain, divergent)
        if found is not None and found.exact:
            return self._crew_of(found, self.thread)
        level = meeting_level(self.threads, self.chain, self.conditions)
        if level is Level.BLOCK:
            return Crew("0", integers.ONE)
        region = next(r for r in self.chain if r.level is level)
        size = unit_threads(region)
        whole = integers.equal(size, self.threads.total)
        number = self.thread if whole else f"{self.thread} % {self.expressions.index(size, TIMES + 1)}"
        chosen = self._within(region, divergent)
        if chosen is None:
            return Crew("0", integers.ONE)
        return self._crew_of(chosen, number) if chosen.threads else Crew(number, size)

    def _crew_of(self, found: Selection, number: str) -> Crew:
        """The crew of known threads; `number` is what they are counted by."""
        runs = found.runs
        count = integers.constant(len(found.threads))
        if not runs or (len(runs) > 1 and (not found.whole_warps or len(runs) > MAX_RUNS)):
            return Crew("0", integers.ONE, f"{number} == {found.threads[0]}" if runs else None)
        first, end = runs[0][0], sum(runs[0])
        text = number if first == 0 else f"{number} - {first}"
        for start, length in runs[1:]:  # threads behind a gap are counted without it
            text += f" - ({number} < {start} ? 0 : {start - end})"
            end = start + length
        return Crew(text, count)

    def _within(self, region: ir.Region, conditions: Sequence[ir.Expr]) -> Selection | None:
        """The threads of a unit that satisfy conditions, none if these say nothing about its threads; None if that is
        not known."""
        inner = {var.name for r in self.chain[self.chain.index(region) + 1 :] for var in r.indices}
        own = [c for c in conjuncts(conditions) if depends_on(c, inner | self.varying)]
        if not own:
            return Selection(())
        found = select(self.threads, self.chain, own, integers.value(unit_threads(region)))
        outer = {var.name for r in self.chain[: self.chain.index(region) + 1] for var in r.indices}
        return found if found is not None and found.exact and not any(depends_on(c, outer) for c in own) else None

    def deciding(self) -> list[ir.Expr]:
        """The conditions around that not all threads of a block satisfy."""
        return [c for c in self.conditions if depends_on(c, self.divergent())]

    def divergent(self) -> set[str]:
        """Names of the indices and scalars in which threads of a block differ."""
        return {var.name for region in self.chain for var in region.indices} | self.varying

    def loop_variable(self, wanted: str, extent: ir.Expr) -> ir.Var:
        """A fresh index variable in [0, extent)."""
        name = self.names.fresh(wanted)
        self._made += 1
        var = ir.Var(f"{name}:{self._made}", S32, ir.Role.LOOP, integers.ZERO, extent)
        self.names.adopt(var, name)
        self.define(var)
        return var

    def temporary(self, e: ir.Expr) -> ir.Var:
        name = self.names.fresh("at")
        low, high = integers.interval(e)
        bounds = [None if b is None else integers.constant(b) for b in (low, None if high is None else high + 1)]
        wide = self.expressions.index_text(e)[2]
        self._made += 1
        var = ir.Var(f"{name}:{self._made}", S64 if wide else S32, ir.Role.LOOP, *bounds)
        self.names.adopt(var, name)
        self.define(var)
        self.line(f"const {self.index_type(e)} {name} = {self.expressions.index(e)};")
        return var

    def define(self, var: ir.Var) -> None:
        """Notes that a variable has been declared in the text."""
        raise NotImplementedError

    @contextlib.contextmanager
    def crew_loop(
        self, extents: Sequence[ir.Expr], wanted: Sequence[str], first: int = 0
    ) -> Iterator[tuple[ir.Expr, ...]]:
        """The loop of a crew over all places of `extents`, neighbours on neighbouring places of the last dimension,
        where there are fewer places than threads from thread `first` of a block on; gives the coordinates.

        `passes/touches.py` counts on it: place p in row-major order goes to thread p modulo the block's size."""
        counted = self.uses_thread
        crew = self.crew()
        if crew.number == "thread" and integers.equal(crew.size, self.threads.total) and self._fits_axes(extents):
            self.uses_thread = counted
            with self._along_axes(extents, wanted) as index:
                yield index
            return
        count = integers.product(extents)
        total, size = integers.value(count), integers.value(crew.size)
        if size == 1:
            alone = [f"if ({crew.only})"] if crew.only is not None else []
            with self.nest(alone), self.loop_nest(wanted, extents, 0) as index:
                yield index
            return
        if total == 1:
            with self.block(f"if ({crew.number} == 0)"):
                yield (integers.ZERO,) * len(extents)
            return
        made: list[ir.Var] = []
        if total is not None and size is not None and total <= size:
            head, number = self._part(crew, total, size, first)
            own = not number.isidentifier()  # else the number of the thread is that of the place
            linear = self._numbered(number, count) if not own else self._linear(wanted, count, made)
            with self.block(head) if head or own or len(extents) > 1 else contextlib.nullcontext():
                if own:
                    self.line(f"const int {self.names.of(linear)} = {number};")
                yield self._decoded(linear, extents, wanted, made)
            self._release(made)
            return
        if total is not None and size is not None and -(-total // size) <= MAX_UNROLL:
            with self._turns(crew.number, total, size, wanted, made) as linear:
                yield self._decoded(linear, extents, wanted, made)
            self._release(made)
            return
        linear = self._linear(wanted, count, made)
        name = self.names.of(linear)
        wide = self.dialect.index32 if total is not None and total < (1 << 30) else self.dialect.index64
        if self.expressions.limits is not None and not self.expressions.limits.admit(count):
            wide = self.dialect.ctype(S64)
        stop, stride = self.expressions.index(count), self.expressions.index(crew.size)
        with self.block(f"for ({wide} {name} = {crew.number}; {name} < {stop}; {name} += {stride})"):
            yield self._decoded(linear, extents, wanted, made)
        self._release(made)

    @contextlib.contextmanager
    def _turns(self, number: str, total: int, size: int, wanted: Sequence[str], made: list[ir.Var]) -> Iterator[ir.Var]:
        """The loop of a crew of known size in turns, which compilers write out without knowing what `number` may be;
        gives the place. Only the last turn may be one of fewer threads."""
        whole, rest = divmod(total, size)
        turn = self.loop_variable("turn", integers.constant(whole + bool(rest)))
        linear = self._linear(wanted, integers.constant(total), made)
        made.append(turn)
        text, name = self.names.of(turn), self.names.of(linear)
        self.line(self.dialect.unroll(None))
        with self.block(f"for (int {text} = 0; {text} < {whole + bool(rest)}; ++{text})"):
            self.line(f"const {self.dialect.index32} {name} = {text} * {size} + {number};")
            with self.block(f"if ({text} < {whole} || {name} < {total})") if rest else contextlib.nullcontext():
                yield linear

    def _linear(self, wanted: Sequence[str], count: ir.Expr, made: list[ir.Var]) -> ir.Var:
        """The variable that counts the places."""
        var = self.loop_variable("i" if len(wanted) > 1 else wanted[0], count)
        made.append(var)
        return var

    def _numbered(self, name: str, count: ir.Expr) -> ir.Var:
        """A variable of the text, such as `thread`, as an index in [0, count)."""
        self._made += 1
        var = ir.Var(f"{name}:{self._made}", S32, ir.Role.LOOP, integers.ZERO, count)
        self.names.adopt(var, name)
        self.define(var)
        return var

    def _part(self, crew: Crew, total: int, size: int, first: int) -> tuple[str, str]:
        """The condition that chooses `total` threads of a crew, and their number."""
        if total == size:
            return "", crew.number
        if crew.number != "thread":
            return f"if ({crew.number} < {total})", crew.number
        if first == 0 or first + total > size:
            return f"if (thread < {total})", "thread"
        low, high = f"thread >= {first}", f"thread < {first + total}"
        return f"if ({low})" if first + total == size else f"if ({low} && {high})", f"thread - {first}"

    def _fits_axes(self, extents: Sequence[ir.Expr]) -> bool:
        """Whether rows of places are rows of threads: then positions in the block are coordinates as they are."""
        if not self.threads.axes or len(extents) != 2:
            return False
        x, y, z = map(integers.value, self.threads.block)
        rows, columns = map(integers.value, extents)
        return z == 1 and bool(y and y > 1 and rows and rows % y == 0 and columns and columns == x and columns > 1)

    @contextlib.contextmanager
    def _along_axes(self, extents: Sequence[ir.Expr], wanted: Sequence[str]) -> Iterator[tuple[ir.Expr, ...]]:
        """The loop of a whole block whose shape fits: x along the last dimension, y along the one before."""
        row, column = (self.loop_variable(name, extent) for name, extent in zip(wanted, extents, strict=True))
        rows, step = integers.value(extents[0]) or 0, integers.value(self.threads.block[1]) or 1
        kind, name = self.dialect.index32, self.names.of(row)
        head = ""
        made, first = [row, column], self.dialect.thread_index(1)
        place = first
        if 1 < rows // step <= MAX_UNROLL:
            made.append(turn := self.loop_variable("turn", integers.constant(rows // step)))
            text = self.names.of(turn)
            self.line(self.dialect.unroll(None))
            head, place = f"for (int {text} = 0; {text} < {rows // step}; ++{text})", f"{text} * {step} + {first}"
        elif rows > step:
            head, place = f"for ({kind} {name} = {first}; {name} < {rows}; {name} += {step})", ""
        with self.block(head):
            if place:
                self.line(f"const {kind} {name} = {place};")
            self.line(f"const {kind} {self.names.of(column)} = {self.dialect.thread_index(0)};")
            yield row, column
        self._release(made)

    def _release(self, made: Sequence[ir.Var]) -> None:
        for var in made:
            self.names.release(var)

    def _decoded(
        self, linear: ir.Var, extents: Sequence[ir.Expr], wanted: Sequence[str], made: list[ir.Var]
    ) -> tuple[ir.Expr, ...]:
        """Coordinates from a linear place, the last dimension fastest."""
        if len(extents) == 1:
            return (linear,)
        places: list[ir.Expr] = []
        inner: ir.Expr = integers.ONE
        for position in reversed(range(len(extents))):
            extent = extents[position]
            place = integers.floordiv(linear, inner)
            if position:
                place = integers.mod(place, extent)
                inner = integers.mul(inner, extent)
            if integers.value(place) is None and not isinstance(place, ir.Var):
                var = self.loop_variable(wanted[position], extent)
                made.append(var)
                self.line(f"const {self.index_type(place)} {self.names.of(var)} = {self.expressions.index(place)};")
                place = var
            places.append(place)
        return tuple(reversed(places))

    def index_type(self, e: ir.Expr) -> str:
        """The C type of an index."""
        width = self.expressions.index_text(e)[2]
        if width == WIDE and self.expressions.limits is not None:
            return self.dialect.ctype(S64)
        return self.dialect.index64 if width else self.dialect.index32

    @contextlib.contextmanager
    def loop_nest(
        self, wanted: Sequence[str], extents: Sequence[ir.Expr], unrolled: int
    ) -> Iterator[tuple[ir.Expr, ...]]:
        """Loops of one thread over all places of `extents`, written out by the compiler for up to `unrolled`."""
        total = integers.value(integers.product(extents))
        index: list[ir.Expr] = []
        made: list[ir.Var] = []
        with contextlib.ExitStack() as stack:
            for name, extent in zip(wanted, extents, strict=True):
                if integers.value(extent) == 1:
                    index.append(integers.ZERO)
                    continue
                if total is not None and total <= unrolled:
                    self.line(self.dialect.unroll(None))
                var = self.loop_variable(name, extent)
                made.append(var)
                index.append(var)
                text, stop = self.names.of(var), self.expressions.index(extent)
                stack.enter_context(self.block(f"for (int {text} = 0; {text} < {stop}; ++{text})"))
            yield tuple(index)
        self._release(made)

    # ---------------------------------------------------------------------------------------------------- barriers

    def meet(self, text: str) -> None:
        """A barrier, unless the same one stands directly before."""
        if not self.lines or self.lines[-1].strip() != text:
            self.line(text)

    def join_crew(self, span: Span | None) -> None:
        """A barrier of all threads that carry out a collective statement here."""
        self.join(meeting_level(self.threads, self.chain, self.conditions), span)

    def join(self, scope: Level, span: Span | None) -> None:
        """A barrier of all threads that reach this place in their unit of a level."""
        if self.single:
            return
        divergent = self.deciding()
        if scope is Level.THREAD:
            scope = self.unit()[0]
        if scope in (Level.GROUP, Level.GROUP4):
            self._join_unit(scope, divergent, span)
            return
        if not divergent:
            self.meet(self.dialect.block_barrier())
            return
        self._join_selected(self._known(select(self.threads, self.chain, divergent), span))

    def _known(self, found: Selection | None, span: Span | None) -> Selection:
        if found is None or not found.exact:
            raise self.unsupported("a barrier of threads that are selected by changing values is", span)
        return found

    def _join_selected(self, found: Selection) -> None:
        count = len(found.threads)
        if count == self.threads.count:
            self.meet(self.dialect.block_barrier())
        elif count <= 1:
            return
        elif found.threads[0] // 32 == found.threads[-1] // 32:
            mask = sum(1 << (t % 32) for t in found.threads)
            self.meet(self.dialect.warp_barrier(mask) if count < 32 else self.dialect.warp_barrier())
        else:
            if self._numbers is None:
                self._numbers = BarrierNumbers(self.threads.root.body, self.threads.count or 0)
            number = self._numbers.of(found.threads) if found.whole_warps else None
            if number is None:
                self._join_by_event(found.threads, count)
            else:
                self.meet(self.dialect.named_barrier(str(number), str(count)))

    def _join_by_event(self, key: tuple[int, ...], parties: int, slots: int = 1, slot: str = "0") -> None:
        """A meeting of threads that no barrier of the hardware joins: all arrive at an event and wait for it."""
        if key not in self.meetings:
            name = self.names.fresh("meeting")
            self.meetings[key] = Meeting(name, self.names.fresh(f"{name}_turn"), parties, slots)
        found = self.meetings[key]
        event = f"{found.name}[{slot}]"
        try:
            arrive, wait = self.dialect.event_arrive(event), self.dialect.event_wait(event, found.turn)
        except Unsupported:
            what = "a barrier of some threads of a block that are no whole `group`"
            raise Unsupported(f"{what} is not supported by the {self.dialect.name} target") from None
        self.meet(f"{arrive} {wait} {found.turn} ^= 1u;")

    def _join_unit(self, scope: Level, divergent: Sequence[ir.Expr], span: Span | None) -> None:
        region = next((r for r in reversed(self.chain) if r.level is scope), None)
        if region is None:
            raise self.unsupported(f"a barrier of a {scope.value} outside one is", span)
        size = integers.value(unit_threads(region))
        if size is not None and self._join_part(region, size, divergent, span):
            return
        alone = size == self.threads.count and not divergent  # the unit is the block
        if size == 32 and (self.dialect.warp_barriers or not alone):
            self.meet(self.dialect.warp_barrier())
        elif alone:
            self.meet(self.dialect.block_barrier())
        elif size is None:
            raise self.unsupported(f"a barrier of a {scope.value} of symbolic size is", span)
        else:
            self._join_several(size)

    def _join_several(self, size: int) -> None:
        """A barrier of each unit of several warps."""
        units = -(-(self.threads.count or size) // size)
        if units == 1:
            self.meet(self.dialect.named_barrier("15", str(size)))
        elif units <= MOST_UNITS:
            self.meet(self.dialect.named_barrier(f"15 - {self.thread} / {size}", str(size)))
        else:
            self._join_by_event((-size,), size, units, f"{self.thread} / {size}")

    def _join_part(self, region: ir.Region, size: int, divergent: Sequence[ir.Expr], span: Span | None) -> bool:
        """A barrier of those threads of each unit that get here, if some may not."""
        inner = {var.name for r in self.chain[self.chain.index(region) + 1 :] for var in r.indices}
        if not any(depends_on(c, inner) for c in divergent):
            return False
        found = select(self.threads, self.chain, divergent)
        if found is None or not found.exact:
            lanes = self._known(self._within(region, divergent), span).threads
            if len(lanes) in (0, size):
                return False
            if size != 32:
                raise self.unsupported("a barrier of threads that are selected by changing values is", span)
            self.meet(self.dialect.warp_barrier(sum(1 << t for t in lanes)))
            return True
        units: dict[int, list[int]] = {}
        for t in found.threads:
            units.setdefault(t // size, []).append(t)
        same = {tuple(t % size for t in unit) for unit in units.values()}
        if all(len(lanes) == size for lanes in same):
            return False
        if len(same) == 1 and (len(units) == 1 or size == 32):
            self._join_selected(Selection(tuple(next(iter(units.values())))))
            return True
        for number, unit in units.items():  # every unit has a set of its own
            if len(unit) > 1:
                with self.block(f"if ({self.thread} / {size} == {number})"):
                    self._join_selected(Selection(tuple(unit)))
        return True
