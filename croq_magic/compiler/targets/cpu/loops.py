"""Loops and regions, with the looks at the stop flag that long ones need."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator

from croq_magic.compiler import integers, ir
from croq_magic.compiler.passes.structure import nested
from croq_magic.compiler.targets.cpu import cost
from croq_magic.compiler.targets.cpu.extremes import Extreme, extreme
from croq_magic.compiler.targets.cpu.guards import Guards, ModuleState
from croq_magic.compiler.targets.emit_cxx import INDEX, Names
from croq_magic.compiler.visit import walk

UNPOLLED = 1 << 22  # units of work (about a millisecond) that may pass without a look at the stop flag
STRIP = 1 << 18


def has_print(body: ir.Body | ir.Stmt) -> bool:
    """Whether anything in it prints."""
    return any(isinstance(node, ir.Print) for node in walk(body))


@dataclasses.dataclass(frozen=True)
class _Counted:
    """A counting loop: the text of its end, its trips if constant, and the work of one iteration."""

    var: ir.Var
    start: ir.Expr
    stop: str
    step: int
    trips: int | None
    work: int
    pragma: str = ""
    breaks: bool = False


class Loops(Guards):
    """Emits loops. `body` emits the statements inside."""

    def __init__(self, state: ModuleState, names: Names, leave: str, depth: int = 0) -> None:
        super().__init__(state, names, leave, depth)
        self._yields: list[str] = []
        self._loops: list[str] = []  # label to leave the innermost loop by, "" where `break` does

    def body(self, statements: ir.Body) -> None:
        raise NotImplementedError

    def loop(self, s: ir.For) -> None:
        self.define(s.var)
        if (found := extreme(s)) is not None:
            self._find(s, found)
            return
        breaks = any(isinstance(node, ir.Break) for node in nested(s.body))
        pragma = self._pragma(s, cost.trips(s))
        stop = self._bound(s.stop, self.names.of(s.var))
        self.instance.append(s.var)
        count = _Counted(s.var, s.start, stop, s.step, cost.trips(s), cost.body_cost(s.body), pragma, breaks)
        self._counted(count, lambda: self.body(s.body), polled=s.kind is not ir.LoopKind.UNROLL)
        self.instance.pop()

    def _find(self, s: ir.For, found: Extreme) -> None:
        """A maximum or minimum, with a look at the stop flag between strips."""
        name, result = self.names.of(s.var), self.names.of(found.var)
        first, end = (self.names.fresh(f"{name}_{word}") for word in ("strip", "stop"))
        start, stop = self.expressions.index(s.start), self._bound(s.stop, name)
        value = f"[&]({INDEX} {name}) {{ return {self.expressions.value(found.value)}; }}"
        count = cost.trips(s)
        if count is not None and count <= UNPOLLED:
            self.line(f"{result} = croq_running_{found.name[2:]}({result}, {start}, {stop}, {value});")
            return
        with self.block(f"for ({INDEX} {first} = {start}; {first} < {stop}; {first} += {UNPOLLED})"):
            self.line(f"if (croq_stop(lane)) {self.leave}")
            self.line(f"const {INDEX} {end} = croq_min<{INDEX}>({stop}, {first} + {UNPOLLED});")
            self.line(f"{result} = croq_running_{found.name[2:]}({result}, {first}, {end}, {value});")

    def _counted(self, c: _Counted, body: Callable[[], None], polled: bool = True) -> None:
        """A loop that looks at the stop flag if it may run for more than about a millisecond."""
        name, start, stop = self.names.of(c.var), self.expressions.index(c.start), c.stop
        total = c.work * (UNPOLLED if c.trips is None else c.trips)
        step = f"++{name}" if c.step == 1 else f"{name} += {c.step}"
        if not polled or total < UNPOLLED:
            self._simple_loop(f"for ({INDEX} {name} = {start}; {name} < {stop}; {step})", c, body, poll=False)
        elif c.work >= STRIP >> 8:
            self._simple_loop(f"for ({INDEX} {name} = {start}; {name} < {stop}; {step})", c, body, poll=True)
        else:
            self._strips(c, name, start, step, body)

    def _bound(self, stop: ir.Expr, name: str) -> str:
        """Text of a loop's end, evaluated once when it might change."""
        text = self.expressions.index(stop)
        changing = any(
            isinstance(n, ir.Load) or (isinstance(n, ir.Var) and n.role is ir.Role.MUTABLE) for n in walk(stop)
        )
        if not changing:
            return text
        end = self.names.fresh(f"{name}_end")
        self.line(f"const {INDEX} {end} = {text};")
        return end

    @staticmethod
    def _pragma(s: ir.For, count: int | None) -> str:
        if s.kind is ir.LoopKind.UNROLL or s.unroll:
            return f"#pragma GCC unroll {s.unroll or min(count or 1, 65534)}"
        if s.kind is ir.LoopKind.PARALLEL:
            return "#pragma GCC ivdep"
        return ""

    def _simple_loop(self, head: str, c: _Counted, body: Callable[[], None], poll: bool) -> None:
        if c.pragma:
            self.line(c.pragma)
        self._loops.append("")
        with self.block(head):
            if poll:
                self.line(f"if (croq_stop(lane)) {self.leave}")
            body()
        self._loops.pop()

    def _strips(self, c: _Counted, name: str, start: str, step: str, body: Callable[[], None]) -> None:
        """A long loop with a small body: the stop flag is looked at between strips, which stay vectorisable."""
        outer, end, label = (self.names.fresh(f"{name}_{word}") for word in ("strip", "stop", "done"))
        length = max(1, STRIP // max(1, c.work)) * c.step
        with self.block(f"for ({INDEX} {outer} = {start}; {outer} < {c.stop}; {outer} += {length})"):
            self.line(f"if (croq_stop(lane)) {self.leave}")
            self.line(f"const {INDEX} {end} = croq_min<{INDEX}>({c.stop}, {outer} + {length});")
            if c.pragma:
                self.line(c.pragma)
            self._loops.append(label if c.breaks else "")
            with self.block(f"for ({INDEX} {name} = {outer}; {name} < {end}; {step})"):
                body()
            self._loops.pop()
        if c.breaks:
            self.label(f"{label}:;")

    def while_loop(self, s: ir.While) -> None:
        self._loops.append("")
        with self.block(f"while ({self.expressions.value(s.condition)})"):
            self.line(f"if (croq_stop(lane)) {self.leave}")
            self.body(s.body)
        self._loops.pop()

    def break_loop(self, s: ir.Break) -> None:
        label = self._loops[-1]
        self.line(f"goto {label};" if label else "break;")

    def continue_loop(self, s: ir.Continue) -> None:
        self.line("continue;")

    def end_instance(self, s: ir.Yield) -> None:
        self.line(f"goto {self._yields[-1]};")

    @contextlib.contextmanager
    def an_instance(self, region: ir.Region) -> Iterator[None]:
        """Around the body of one instance: its indices are known, and `yield` jumps to its end."""
        self.instance += region.indices
        yields = any(isinstance(node, ir.Yield) for node in nested(region.body))
        label = self.names.fresh("next_instance") if yields else ""
        self._yields.append(label)
        loops, self._loops = self._loops, []
        if yields:
            with self.block():
                yield
            self.label(f"{label}:;")
        else:
            yield
        self._loops = loops
        self._yields.pop()
        del self.instance[len(self.instance) - len(region.indices) :]

    def region(self, s: ir.Region) -> None:
        """All instances of an inner region, one after the other; the last index varies fastest, as arrays do."""
        for var in s.indices:
            self.define(var)
        axes = list(zip(s.indices, s.extents, strict=True))
        if has_print(s.body):
            axes.reverse()  # the language orders prints by the linear index, whose first index is the fastest
        # The name of an index with extent 1 must end with the region: another region may have it too.
        with self.nest([""] if not axes or integers.value(axes[0][1]) == 1 else []):
            self._axes(s, axes, cost.body_cost(s.body))

    def _axes(self, s: ir.Region, axes: list[tuple[ir.Var, ir.Expr]], work: int) -> None:
        if not axes:
            with self.an_instance(s):
                self.body(s.body)
            return
        (var, extent), rest = axes[0], axes[1:]
        count = integers.value(extent)
        if count == 1:
            self.line(f"const {INDEX} {self.names.of(var)} = 0;")
            self._axes(s, rest, work)
            return
        inner = work * cost.elements(tuple(e for _, e in rest))
        stop = self._bound(extent, self.names.of(var))
        self._counted(_Counted(var, integers.ZERO, stop, 1, count, inner), lambda: self._axes(s, rest, work))
