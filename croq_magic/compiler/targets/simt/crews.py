"""Who carries out a statement: one elected thread, every thread, or a crew of threads together."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator, Sequence

from croq_magic.compiler import integers, ir
from croq_magic.compiler.passes.participants import meeting_level
from croq_magic.compiler.targets.emit_cxx import TIMES
from croq_magic.compiler.targets.simt.expressions import WIDE
from croq_magic.compiler.targets.simt.joins import Joins
from croq_magic.compiler.targets.simt.threads import Selection, select, unit_threads
from croq_magic.compiler.types import S32, S64

Level = ir.Level
MAX_RUNS = 4  # of neighbours in a crew
MAX_UNROLL = 16  # steps of a crew that are written out by the compiler


@dataclasses.dataclass(frozen=True)
class Crew:
    """Threads that do something together: the number of a thread among them, and how many they are. `only`: a condition
    that one thread of those that get here satisfies, which does it alone."""

    number: str
    size: ir.Expr
    only: str | None = None


class Crews(Joins):
    """Emits what one of the threads, or some of them together, do."""

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
