"""Which barrier joins the threads that get to a place, of a block, of a unit, or those that conditions select."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from croq_magic.compiler import integers, ir
from croq_magic.compiler.passes.participants import meeting_level
from croq_magic.compiler.source import Span
from croq_magic.compiler.targets.emit_cxx import TIMES, Names, Unsupported
from croq_magic.compiler.targets.simt.barriers import MOST_UNITS, BarrierNumbers
from croq_magic.compiler.targets.simt.expressions import depends_on
from croq_magic.compiler.targets.simt.guards import Guards, ModuleState
from croq_magic.compiler.targets.simt.parties import conjuncts
from croq_magic.compiler.targets.simt.threads import Selection, Threads, select, unit_threads

Level = ir.Level


@dataclasses.dataclass(frozen=True)
class Meeting:
    """Events of `parties` threads that meet there: their name and their number, and the name of the variable in which a
    thread counts its turns."""

    name: str
    turn: str
    parties: int
    slots: int


class Place(Guards):
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

    def deciding(self) -> list[ir.Expr]:
        """The conditions around that not all threads of a block satisfy."""
        return [c for c in self.conditions if depends_on(c, self.divergent())]

    def divergent(self) -> set[str]:
        """Names of the indices and scalars in which threads of a block differ."""
        return {var.name for region in self.chain for var in region.indices} | self.varying

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


class Joins(Place):
    """Emits barriers."""

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
