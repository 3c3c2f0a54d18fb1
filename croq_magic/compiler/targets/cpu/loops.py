"""Loops and regions, with the looks at the stop flag that long ones need."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from croq_magic.compiler import integers, ir
from croq_magic.compiler.passes.structure import nested
from croq_magic.compiler.targets.cpu import cost
from croq_magic.compiler.targets.cpu.guards import Guards, ModuleState
from croq_magic.compiler.targets.emit_cxx import INDEX, Names
from croq_magic.compiler.visit import walk

UNPOLLED = 1 << 22  # units of work (about a millisecond) that may pass without a look at the stop flag
STRIP = 1 << 18


def has_print(body: ir.Body | ir.Stmt) -> bool:
    """Whether anything in it prints."""
    return any(isinstance(node, ir.Print) for node in walk(body))


class Loops(Guards):
    """Emits loops. `body` emits the statements inside."""

    def __init__(self, state: ModuleState, names: Names, leave: str, depth: int = 0) -> None:
        super().__init__(state, names, leave, depth)
        self._yields: list[str] = []
        self._loops: list[str] = []  # label to leave the innermost loop by, "" where `break` does

    def body(self, statements: ir.Body) -> None:
        raise NotImplementedError

    def loop(self, s: ir.For) -> None:
        name, work = self.names.of(s.var), cost.body_cost(s.body)
        self.define(s.var)
        count = cost.trips(s)
        total = work * (cost.UNKNOWN_TRIPS**2 if count is None else count)
        start, stop = self.expressions.index(s.start), self._bound(s.stop, name)
        step = f"++{name}" if s.step == 1 else f"{name} += {s.step}"
        self.instance.append(s.var)
        pragma = self._pragma(s, count)
        if total < UNPOLLED or s.kind is ir.LoopKind.UNROLL:
            self._simple_loop(f"for ({INDEX} {name} = {start}; {name} < {stop}; {step})", s, pragma, poll=False)
        elif work >= STRIP >> 8:
            self._simple_loop(f"for ({INDEX} {name} = {start}; {name} < {stop}; {step})", s, pragma, poll=True)
        else:
            self._strips(s, name, start, stop, step, max(1, STRIP // work), pragma)
        self.instance.pop()

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

    def _simple_loop(self, head: str, s: ir.For, pragma: str, poll: bool) -> None:
        if pragma:
            self.line(pragma)
        self._loops.append("")
        with self.block(head):
            if poll:
                self.line(f"if (croq_stop(lane)) {self.leave}")
            self.body(s.body)
        self._loops.pop()

    def _strips(self, s: ir.For, name: str, start: str, stop: str, step: str, strip: int, pragma: str) -> None:
        """A long loop with a small body: the stop flag is looked at between strips, which stay vectorisable."""
        outer, end, label = (self.names.fresh(f"{name}_{word}") for word in ("strip", "stop", "done"))
        breaks = any(isinstance(node, ir.Break) for node in nested(s.body))
        length = strip * s.step
        with self.block(f"for ({INDEX} {outer} = {start}; {outer} < {stop}; {outer} += {length})"):
            self.line(f"if (croq_stop(lane)) {self.leave}")
            self.line(f"const {INDEX} {end} = croq_min<{INDEX}>({stop}, {outer} + {length});")
            if pragma:
                self.line(pragma)
            self._loops.append(label if breaks else "")
            with self.block(f"for ({INDEX} {name} = {outer}; {name} < {end}; {step})"):
                self.body(s.body)
            self._loops.pop()
        if breaks:
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
        pairs = list(zip(s.indices, s.extents, strict=True))
        if has_print(s.body):
            pairs.reverse()  # the language orders prints by the linear index, whose first index is the fastest
        heads = []
        for var, extent in pairs:
            name = self.names.of(var)
            if integers.value(extent) == 1:
                heads.append(f"const {INDEX} {name} = 0;")
            else:
                heads.append(f"for ({INDEX} {name} = 0; {name} < {self.expressions.index(extent)}; ++{name})")
        loops = [head for head in heads if head.startswith("for")]
        constants = [head for head in heads if not head.startswith("for")]
        with self.nest(loops or [""]):
            for constant in constants:
                self.line(constant)
            with self.an_instance(s):
                self.body(s.body)
