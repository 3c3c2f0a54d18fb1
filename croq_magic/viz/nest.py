"""The loop nest of a function as lines like the source's, each with the level it runs at and how often."""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Sequence
from typing import Any

from croq_magic.compiler import ir, numeric, text
from croq_magic.compiler.visit import walk
from croq_magic.viz.subject import Subject, level_kind
from croq_magic.viz.words import tuple_text

WIDTH = 58  # characters of a line; longer ones are cut


@dataclasses.dataclass(frozen=True)
class Line:
    """One line. `kind` is function, parallel, foreach, dma, call, compute, declare, control, sync or return.

    `level` is where it runs: host, block, group or thread; `indices` and `extents` are those it introduces; `count` is
    how often it is entered in all (None when that depends on data); `end` is the number of the last line of its body.
    """

    depth: int
    text: str
    kind: str
    level: str
    indices: tuple[str, ...] = ()
    extents: tuple[int, ...] = ()
    count: int | None = 1
    end: int = 0
    source_line: int | None = None
    launch: int | None = None


def lines(s: Subject) -> list[Line]:
    """The lines of a function, from its head to its return."""
    walker = _Walker(s)
    params = ", ".join(f"{p.name}: {_type(s, p)}" for p in s.function.params)
    walker.add(f"{s.function.name}({params})", "function", s.function)
    walker.depth = 1
    walker.body(s.function.body)
    return [dataclasses.replace(line, end=walker.ends.get(i, i)) for i, line in enumerate(walker.lines)]


def _type(s: Subject, p: ir.Param) -> str:
    if p.kind != "span":
        return str(p.dtype or "stream")
    return f"{p.dtype} [{', '.join(map(str, s.extents(p.extents)))}]"


class _Walker:
    def __init__(self, s: Subject) -> None:
        self.s = s
        self.lines: list[Line] = []
        self.ends: dict[int, int] = {}
        self.depth = 0
        self.level = "host"
        self.count: int | None = 1
        self.launch: int | None = None
        self.launches = 0
        self.written_by_copy = {n.dst.buffer for n in walk(s.function.body) if isinstance(n, ir.Copy)}

    def add(self, line: str, kind: str, node: Any, indices: Sequence[str] = (), extents: Sequence[int] = ()) -> int:
        line = re.sub(r"\s+", " ", line).strip()
        if len(line) > WIDTH:
            line = line[: WIDTH - 1] + "…"
        span = getattr(node, "span", None)
        self.lines.append(
            Line(
                self.depth,
                line,
                kind,
                self.level,
                tuple(indices),
                tuple(extents),
                self.count,
                source_line=span.line if span is not None else None,
                launch=self.launch,
            )
        )
        return len(self.lines) - 1

    def body(self, statements: Sequence[ir.Stmt]) -> None:
        for statement in statements:
            self.statement(statement)

    def inside(self, number: int, statements: Sequence[ir.Stmt], times: int | None = 1, level: str = "") -> None:
        saved = self.depth, self.count, self.level
        self.depth += 1
        self.count = None if times is None or self.count is None else self.count * times
        self.level = level or self.level
        self.body(statements)
        self.depth, self.count, self.level = saved
        self.ends[number] = len(self.lines) - 1

    def statement(self, s: ir.Stmt) -> None:
        if isinstance(s, ir.Launch):
            self.launch, self.launches = self.launches, self.launches + 1
            self.statement(s.kernel.region)
            self.launch = None
        elif isinstance(s, ir.Region):
            self.region(s)
        elif isinstance(s, ir.For):
            self.loop(s)
        elif isinstance(s, ir.If):
            self.inside(self.add(f"if {text.format_expr(s.condition)}", "control", s), s.then, None)
            if s.other:
                self.inside(self.add("else", "control", s), s.other, None)
        elif isinstance(s, ir.While):
            self.inside(self.add(f"while {text.format_expr(s.condition)}", "control", s), s.body, None)
        elif isinstance(s, ir.Masked):
            number = self.add(f"inthreads ({text.format_expr(s.predicate)})", "control", s)
            self.inside(number, s.body, None)
        elif isinstance(s, ir.Apply):
            self.inside(self.add(text.format_body((s,)).split(" {")[0], "foreach", s), s.body, None)
        elif isinstance(s, ir.Scope):
            self.body(s.body)
        else:
            self.leaf(s)

    def extent(self, e: ir.Expr) -> int | None:
        try:
            return int(numeric.value(e, self.s.values))
        except numeric.DataDependentError:
            return None

    def region(self, s: ir.Region) -> None:
        extents = [self.extent(e) for e in s.extents]
        times = None if None in extents else math.prod(extents)  # type: ignore[arg-type]
        level = level_kind(s.level)
        if s.implied:
            saved, self.level = self.level, level
            self.body(s.body)
            self.level = saved
            return
        names = [v.name for v in s.indices]
        sizes = ["?" if e is None else f"{e}" for e in extents]
        axes = f"{names[0]} by {sizes[0]}" if len(names) == 1 else f"{{{', '.join(names)}}} by [{', '.join(sizes)}]"
        where = s.level.value if s.level is not None else "block"
        self.level, saved = level, self.level
        number = self.add(f"parallel {axes} : {where}", "parallel", s, names, [e or 0 for e in extents])
        self.inside(number, s.body, times)
        self.level = saved

    def loop(self, s: ir.For) -> None:
        """Loops directly inside each other, each the other's only statement, make one line."""
        chain = [s]
        while len(chain[-1].body) == 1 and isinstance(chain[-1].body[0], ir.For):
            chain.append(chain[-1].body[0])
        names, words, times = [], [], 1
        known = True
        for one in chain:
            start, stop = self.extent(one.start), self.extent(one.stop)
            names.append(one.var.name)
            if start is None or stop is None:
                known = False
                bounds = (text.format_expr(one.start), text.format_expr(one.stop))
                words.append(bounds[1] if start == 0 else f"{bounds[0]}..{bounds[1]}")
                continue
            times *= max(0, -(-(stop - start) // one.step))
            word = f"{stop}" if start == 0 else f"{start}..{stop}"
            words.append(word + (f" step {one.step}" if one.step != 1 else ""))
        axes = names[0] if len(names) == 1 else f"{{{', '.join(names)}}}"
        extents = [times] if known else []
        number = self.add(f"foreach {axes} in [{', '.join(words)}]", "foreach", s, names, extents)
        self.inside(number, chain[-1].body, times if known else None)

    def leaf(self, s: ir.Stmt) -> None:
        if isinstance(s, ir.Copy):
            extents = tuple_text(self.s.extents(s.src.extents)) if self._constant(s.src) else "part"
            target = s.dst.buffer
            word = f"{target.storage.value} " if target.storage is not ir.Storage.GLOBAL else ""
            self.add(f"{s.engine}.copy {s.src.buffer.name} ({extents}) => {word}{target.name}", "dma", s)
        elif isinstance(s, ir.Declare):
            b = s.buffer
            if b.storage is ir.Storage.GLOBAL or b not in self.written_by_copy:
                shape = ", ".join(map(str, self.s.extents(b.shape)))
                word = "" if b.storage is ir.Storage.GLOBAL else f"{b.storage.value} "
                self.add(f"{word}{b.dtype} [{shape}] {b.name}", "declare", s)
        elif isinstance(s, ir.Barrier):
            if not s.reason:
                self.add(f"sync {s.scope.value}", "sync", s)
        else:
            kind = "call" if isinstance(s, ir.Call) else "return" if isinstance(s, ir.Return) else "compute"
            self.add(statement_text(s), kind, s)

    def _constant(self, view: ir.View) -> bool:
        return all(self.extent(e) is not None for e in view.extents)


def statement_text(s: ir.Stmt) -> str:
    """The program's own words where there are any, else the IR's."""
    if s.span is not None and s.span.text.strip() and not isinstance(s, ir.Return):
        return re.sub(r"\s+", " ", s.span.text).strip().rstrip(";")
    return text.format_body((s,)).strip()
