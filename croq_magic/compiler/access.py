"""Every access of a program with its iteration domain and its index map: what diagrams, traces and counts stand on.

`collect` lists them without evaluating anything; `domain.py` evaluates one over its domain.
An access happens once for each value of its `axes`: the indices of the enclosing regions and loops, outermost first,
then, for accesses of whole views, the coordinates of the view's elements. Element coordinates get names of their own,
so a variable name stands for one axis in the whole function.

What an `if` or `inthreads` decides becomes a condition of the accesses below it. Whatever depends on array contents is
left out and noted: such an access covers at least what really happens.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Iterator, Sequence

from croq_magic.compiler import integers, ir, views
from croq_magic.compiler.types import BOOL, S32
from croq_magic.compiler.visit import children, substitute, walk


class Mode(enum.Enum):
    """What happens to the elements. ARGUMENT: a C++ function gets a pointer and may do either."""

    READ = "read"
    WRITE = "write"
    UPDATE = "update"
    ARGUMENT = "argument"


@dataclasses.dataclass(frozen=True)
class Axis:
    """One index of a domain: `start <= var < stop` in steps of `step`. `kind` is "region", "loop" or "element";
    `nest` numbers the statement that introduces it, so the indices of one region or loop belong together."""

    kind: str
    var: ir.Var
    start: ir.Expr
    stop: ir.Expr
    step: int = 1
    level: ir.Level | None = None
    nest: int = 0

    @property
    def name(self) -> str:
        return self.var.name


@dataclasses.dataclass(frozen=True, eq=False)
class Access:
    """One place in the program that touches elements of a buffer.

    `coords` are base coordinates over the axes' variables. `inputs` are, for a write, the reads its value is made of;
    an input's axes are those of the write, in the same variables, and more of its own. `scalars` names the
    data-dependent scalars in the value (see `Accesses.definitions`). `notes` says what is not exact.
    """

    mode: Mode
    role: str
    view: ir.View
    coords: tuple[ir.Expr, ...]
    statement: ir.Stmt
    axes: tuple[Axis, ...]
    conditions: tuple[ir.Expr, ...] = ()
    inputs: tuple[Access, ...] = ()
    scalars: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    launch: ir.Launch | None = None

    @property
    def buffer(self) -> ir.Buffer:
        return self.view.buffer

    @property
    def reads(self) -> bool:
        return self.mode is not Mode.WRITE

    @property
    def writes(self) -> bool:
        return self.mode is not Mode.READ


@dataclasses.dataclass(frozen=True, eq=False)
class Definition:
    """A scalar gets a value that depends on data: from `inputs` and other `scalars`, at every point of `axes`."""

    inputs: tuple[Access, ...]
    scalars: tuple[str, ...]
    axes: tuple[Axis, ...]


@dataclasses.dataclass(frozen=True, eq=False)
class Accesses:
    """All accesses of a function, in program order; the axes around the declarations of buffers and scalars; how its
    data-dependent scalars are made."""

    items: tuple[Access, ...]
    declared: dict[ir.Buffer, tuple[Axis, ...]]
    scalars: dict[str, tuple[Axis, ...]]
    definitions: dict[str, list[Definition]]

    def of(self, buffer: ir.Buffer) -> list[Access]:
        return [a for a in self.items if a.buffer is buffer]


def collect(function: ir.Function) -> Accesses:
    """The accesses of a function whose regions have levels (after `map-levels`)."""
    collector = _Collector(function)
    collector.body(function.body)
    return Accesses(tuple(collector.items), collector.declared, collector.scalars, collector.definitions)


def negated(condition: ir.Expr) -> ir.Expr:
    return ir.Unary("!", condition, BOOL)


class _Collector:
    def __init__(self, function: ir.Function) -> None:
        self.items: list[Access] = []
        self.declared: dict[ir.Buffer, tuple[Axis, ...]] = {}
        self.scalars: dict[str, tuple[Axis, ...]] = {}
        self.definitions: dict[str, list[Definition]] = {}
        self.axes: tuple[Axis, ...] = ()
        self.conditions: tuple[ir.Expr, ...] = ()
        self.notes: tuple[str, ...] = ()
        self.launch: ir.Launch | None = None
        self.values: dict[ir.Var, ir.Expr] = {}
        self.nests = self.serial = 0
        self.assigned = {n.var.name for n in walk(function.body) if isinstance(n, ir.Assign)}
        self.assigned |= {n.result.name for n in walk(function.body) if isinstance(n, ir.Atomic | ir.Call) and n.result}
        self.assigned |= {v.name for n in walk(function.body) if isinstance(n, ir.Rotate) for v in n.slots}

    # ------------------------------------------------------------------------------------------ structure

    def body(self, statements: Sequence[ir.Stmt]) -> None:
        saved = self.conditions, self.notes
        for statement in statements:
            self.statement(statement)
            if isinstance(statement, ir.If):
                self._after_exit(statement)
        self.conditions, self.notes = saved

    def _after_exit(self, s: ir.If) -> None:
        """`if (c) { yield; }` guards what follows it; the same for `continue`."""
        for body, condition in ((s.then, negated(s.condition)), (s.other, s.condition)):
            if body and isinstance(body[-1], ir.Yield | ir.Continue):
                self.conditions += (substitute(condition, self.values),)
            elif any(isinstance(n, ir.Yield | ir.Continue | ir.Break) for n in walk(body)):
                self.notes += ("may stop early",)

    def statement(self, s: ir.Stmt) -> None:
        if isinstance(s, ir.Launch):
            self.launch = s
            self.statement(s.kernel.region)
            self.launch = None
        elif isinstance(s, ir.Region):
            zeros = (integers.ZERO,) * len(s.indices)
            self._nested("region", s.indices, zeros, s.extents, s.level, s.body)
        elif isinstance(s, ir.For):
            self._expressions(s, s.start, s.stop)
            self._nested("loop", (s.var,), (s.start,), (s.stop,), None, s.body, s.step)
        elif isinstance(s, ir.Apply):
            zeros = (integers.ZERO,) * len(s.indices)
            self._nested("loop", s.indices, zeros, s.fragment.fragment.shape, None, s.body)
        elif isinstance(s, ir.If):
            self._expressions(s, s.condition)
            self._guarded(s.condition, s.then)
            self._guarded(negated(s.condition), s.other)
        elif isinstance(s, ir.Masked):
            self._guarded(s.predicate, s.body)
        elif isinstance(s, ir.While):
            self._expressions(s, s.condition)
            saved, self.notes = self.notes, (*self.notes, "in a while loop: counted for one iteration")
            self.body(s.body)
            self.notes = saved
        elif isinstance(s, ir.Scope):
            self.body(s.body)
        elif isinstance(s, ir.Declare):
            self.declared[s.buffer] = self.axes
        elif isinstance(s, ir.Let | ir.Assign):
            self._scalar(s)
        else:
            self._data(s)

    def _nested(
        self,
        kind: str,
        indices: Sequence[ir.Var],
        starts: Sequence[ir.Expr],
        stops: Sequence[ir.Expr],
        level: ir.Level | None,
        body: ir.Body,
        step: int = 1,
    ) -> None:
        saved, self.nests = self.axes, self.nests + 1
        for var, start, stop in zip(indices, starts, stops, strict=True):
            bounds = substitute(start, self.values), substitute(stop, self.values)
            self.axes += (Axis(kind, var, *bounds, step, level, self.nests),)
        self.body(body)
        self.axes = saved

    def _guarded(self, condition: ir.Expr, body: ir.Body) -> None:
        saved, self.conditions = self.conditions, (*self.conditions, substitute(condition, self.values))
        self.body(body)
        self.conditions = saved

    def _scalar(self, s: ir.Let | ir.Assign) -> None:
        if isinstance(s, ir.Let):
            self.scalars[s.var.name] = self.axes
        if s.value is None:
            return
        inputs = tuple(self._loads(s, s.value))
        self.items += inputs
        scalars = tuple(self._changing(s.value))
        if not inputs and not scalars and s.var.name not in self.assigned:
            self.values[s.var] = substitute(s.value, self.values)
        else:
            self.definitions.setdefault(s.var.name, []).append(Definition(inputs, scalars, self.axes))

    def _changing(self, e: ir.Node) -> Iterator[str]:
        """Names of the scalars in an expression whose values come from data."""
        for node in walk(e):
            if isinstance(node, ir.Var) and (node.name in self.assigned or node.name in self.definitions):
                yield node.name

    # --------------------------------------------------------------------------------------------- accesses

    def _data(self, s: ir.Stmt) -> None:
        if isinstance(s, ir.Store | ir.Atomic):
            values = (s.value,) if isinstance(s, ir.Store) or s.expected is None else (s.value, s.expected)
            inputs = tuple(self._loads(s, *values))
            self.items += (*inputs, *self._loads(s, *s.index))
            scalars = tuple(name for v in values for name in self._changing(v))
            plain = isinstance(s, ir.Store) and not s.op
            role = "store" if isinstance(s, ir.Store) else "atomic"
            mode = Mode.WRITE if plain else Mode.UPDATE
            self.items.append(self._element(s, s.view, s.index, mode, role, inputs, scalars))
        elif isinstance(s, ir.Copy):
            self._copy(s)
        elif isinstance(s, ir.SpanOp):
            self._span(s)
        elif isinstance(s, ir.Call):
            self._call(s)
        elif isinstance(s, ir.MmaStore):
            self.items.append(self._window(s, s.view, Mode.WRITE, "mma"))
        else:
            found = [n for n in children(s) if isinstance(n, ir.View)]
            if isinstance(s, ir.MmaLoad | ir.Mma | ir.MmaScale):
                self.items += [self._window(s, v, Mode.READ, "mma") for v in found]
            elif not isinstance(s, ir.Return):
                self._expressions(s, *children(s))

    def _expressions(self, s: ir.Stmt, *expressions: ir.Node) -> None:
        self.items += self._loads(s, *expressions)

    def _loads(self, s: ir.Stmt, *expressions: ir.Node) -> list[Access]:
        """Loads in expressions, those in only one arm of a `?:` with its condition."""
        found: list[Access] = []
        for e in expressions:
            if isinstance(e, ir.Load):
                found += self._loads(s, *e.index)
                found.append(self._element(s, e.view, e.index, Mode.READ, "load"))
            elif isinstance(e, ir.Select):
                found += self._loads(s, e.condition)
                saved = self.conditions
                for arm, condition in ((e.then, e.condition), (e.other, negated(e.condition))):
                    self.conditions = (*saved, substitute(condition, self.values))
                    found += self._loads(s, arm)
                self.conditions = saved
            else:
                found += self._loads(s, *children(e))
        return found

    def _element(
        self,
        s: ir.Stmt,
        view: ir.View,
        position: tuple[ir.Expr, ...],
        mode: Mode,
        role: str,
        inputs: tuple[Access, ...] = (),
        scalars: tuple[str, ...] = (),
    ) -> Access:
        coords, _ = views.element(view, position)
        return self._make(mode, role, view, coords, s, self.axes, inputs=inputs, scalars=scalars)

    def _window(
        self,
        s: ir.Stmt,
        view: ir.View,
        mode: Mode,
        role: str,
        inputs: tuple[Access, ...] = (),
        scalars: tuple[str, ...] = (),
    ) -> Access:
        """All elements of a view, each coordinate an axis of its own."""
        elements = self._elements(view.extents)
        position = tuple(a.var for a in elements)
        return self._at(s, view, position, (*self._instances(s, view), *elements), mode, role, (), inputs, scalars)

    def _elements(self, extents: Sequence[ir.Expr]) -> tuple[Axis, ...]:
        self.serial += 1
        bounds = [substitute(e, self.values) for e in extents]
        variables = [ir.Var(f"c{i}.{self.serial}", S32, ir.Role.COORD, integers.ZERO, e) for i, e in enumerate(bounds)]
        return tuple(Axis("element", v, integers.ZERO, e) for v, e in zip(variables, bounds, strict=True))

    def _instances(self, s: ir.Stmt, view: ir.View) -> tuple[Axis, ...]:
        """Enclosing axes; a block runs one copy into or out of shared memory, not each of its threads."""
        block = ir.Level.BLOCK.depth
        if isinstance(s, ir.Copy) and ir.Storage.SHARED in (s.src.buffer.storage, s.dst.buffer.storage):
            if s.dst.buffer.storage is ir.Storage.LOCAL:
                return self.axes
            return tuple(a for a in self.axes if a.level is None or a.level.depth <= block)
        return self.axes

    def _at(
        self,
        s: ir.Stmt,
        view: ir.View,
        position: tuple[ir.Expr, ...],
        axes: tuple[Axis, ...],
        mode: Mode,
        role: str,
        conditions: tuple[ir.Expr, ...] = (),
        inputs: tuple[Access, ...] = (),
        scalars: tuple[str, ...] = (),
    ) -> Access:
        mapping: dict[ir.Var, ir.Expr] = dict(zip(view.coords, position, strict=True))
        coords = tuple(integers.simplify(substitute(e, mapping)) for e in view.map)
        if view.zfill:
            for c, extent in zip(coords, view.buffer.shape, strict=True):
                conditions += (ir.Binary(">=", c, integers.ZERO, BOOL), ir.Binary("<", c, extent, BOOL))
        return self._make(mode, role, view, coords, s, axes, conditions, inputs, scalars)

    def _make(
        self,
        mode: Mode,
        role: str,
        view: ir.View,
        coords: tuple[ir.Expr, ...],
        s: ir.Stmt,
        axes: tuple[Axis, ...],
        conditions: tuple[ir.Expr, ...] = (),
        inputs: tuple[Access, ...] = (),
        scalars: tuple[str, ...] = (),
    ) -> Access:
        coords = tuple(substitute(c, self.values) for c in coords)
        conditions = (*self.conditions, *(substitute(c, self.values) for c in conditions))
        return Access(mode, role, view, coords, s, axes, conditions, inputs, scalars, self.notes, self.launch)

    def _copy(self, s: ir.Copy) -> None:
        self.items.append(self._window(s, s.src, Mode.READ, "copy source"))
        elements = self._elements(s.dst.extents)
        axes = (*self._instances(s, s.dst), *elements)
        origin: list[ir.Expr] = [integers.ZERO] * s.src.rank
        inside: list[ir.Expr] = []
        for d, axis in enumerate(elements):
            source = s.permutation[d] if s.permutation else d
            at = integers.sub(axis.var, s.pad[d][0]) if s.pad else axis.var
            origin[source] = at
            if s.pad or s.partial:
                inside += [ir.Binary(">=", at, integers.ZERO, BOOL), ir.Binary("<", at, s.src.extents[source], BOOL)]
        reads = axes
        if s.compressed:  # every element of its groups may decide what is kept
            made, read = (2, 4) if s.compressed == "values" else (1, 8)
            group = self._elements((integers.constant(read),))
            tile = integers.floordiv(elements[-1].var, integers.constant(made))
            origin[-1] = integers.add(integers.mul(tile, integers.constant(read)), group[0].var)
            inside.append(ir.Binary("<", origin[-1], s.src.extents[-1], BOOL))
            reads = (*axes, *group)
        source_read = self._at(s, s.src, tuple(origin), reads, Mode.READ, "copy source", tuple(inside))
        position = tuple(a.var for a in elements)
        self.items.append(self._at(s, s.dst, position, axes, Mode.WRITE, "copy destination", (), (source_read,)))

    def _span(self, s: ir.SpanOp) -> None:
        elements = self._elements(s.view.extents)
        position = tuple(a.var for a in elements)
        axes = (*self.axes, *elements)
        if isinstance(s.value, ir.View):
            own = position[len(position) - s.value.rank :]
            inputs: tuple[Access, ...] = (self._at(s, s.value, own, axes, Mode.READ, "span"),)
            scalars: tuple[str, ...] = ()
        else:
            inputs, scalars = tuple(self._loads(s, s.value)), tuple(self._changing(s.value))
        self.items += inputs
        mode = Mode.UPDATE if s.op else Mode.WRITE
        self.items.append(self._at(s, s.view, position, axes, mode, "span", (), inputs, scalars))

    def _call(self, s: ir.Call) -> None:
        """A C++ function: each array it gets may be written, from any element of all of them."""
        passed: list[Access] = []
        for arg in s.args:
            if isinstance(arg, ir.View):
                passed.append(self._window(s, arg, Mode.ARGUMENT, "argument"))
            elif isinstance(arg, ir.AddressOf):
                element = self._element(s, arg.view, arg.index, Mode.ARGUMENT, "argument")
                passed.append(dataclasses.replace(element, notes=(*element.notes, "only the first element is known")))
            elif not isinstance(arg, ir.Fragment):
                self._expressions(s, arg)
        scalars = tuple(name for arg in s.args if isinstance(arg, ir.Expr) for name in self._changing(arg))
        self.items += [
            dataclasses.replace(a, inputs=tuple(b for b in passed if b is not a), scalars=scalars) for a in passed
        ]
        if s.result is not None:
            self.definitions.setdefault(s.result.name, []).append(Definition(tuple(passed), scalars, self.axes))
