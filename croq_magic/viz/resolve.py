"""Where the data of some elements come from: reads followed back through on-chip buffers and scalars to global arrays.

A `Table` holds one row per event (a write, a read): the values of the indices around it, and `origin`, the row of the
first table that it belongs to. A read from a shared or local buffer is joined with the writes of the same element in
the same instance of the buffer, whose own inputs are followed in turn.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Sequence

import numpy as np

from croq_magic.compiler import ir, numeric
from croq_magic.compiler.access import Access, Axis, Mode
from croq_magic.compiler.closed import selected
from croq_magic.compiler.numeric import DataDependentError, Ints
from croq_magic.viz.subject import COARSE, Subject

ROWS = 2_000_000


@dataclasses.dataclass(frozen=True)
class Table:
    index: dict[str, Ints]
    origin: Ints

    @property
    def rows(self) -> int:
        return len(self.origin)

    def take(self, rows: np.ndarray) -> Table:
        return Table({name: v[rows] for name, v in self.index.items()}, self.origin[rows])


@dataclasses.dataclass
class Found:
    """`reads`: per buffer, parts of (coordinates, origin); `loads`: per copy, its instances and their source boxes."""

    reads: dict[ir.Buffer, list[tuple[Ints, Ints]]] = dataclasses.field(default_factory=dict)
    loads: dict[tuple[ir.Buffer, ir.Buffer], list[tuple[dict[str, Ints], Ints, Ints]]] = dataclasses.field(
        default_factory=dict
    )
    notes: list[str] = dataclasses.field(default_factory=list)


class Resolver:
    """Follows the inputs of writes; `found` collects what it meets."""

    def __init__(self, subject: Subject) -> None:
        self.subject = subject
        self.found = Found()

    def follow(self, write: Access, table: Table, seen: frozenset[object] = frozenset()) -> None:
        """The inputs of a write at the rows of `table`, which has values for all its axes."""
        if write.role == "argument":
            self.note("a C++ function may read any element of the arrays it is passed")
        for read in write.inputs:
            if write.role == "argument" and not self._filled(read.buffer):
                continue
            self._read(read, self._expand(table, read.axes, read.conditions, set(table.index)), seen)
        for name in write.scalars:
            self._scalar(name, table, seen)

    def note(self, text: str) -> None:
        if text not in self.found.notes:
            self.found.notes.append(text)

    def _filled(self, buffer: ir.Buffer) -> bool:
        """Whether the program itself puts something into a buffer that it passes to a C++ function."""
        if buffer.storage is ir.Storage.GLOBAL:
            return True
        return any(a.writes and a.mode is not Mode.ARGUMENT for a in self.subject.accesses.of(buffer))

    def _scalar(self, name: str, table: Table, seen: frozenset[object]) -> None:
        if name in seen:
            return
        fixed = {a.name for a in self.subject.accesses.scalars.get(name, ())}
        for definition in self.subject.accesses.definitions.get(name, []):
            rows = self._expand(table, definition.axes, (), fixed)
            for read in definition.inputs:
                axes = tuple(a for a in read.axes if a.name not in rows.index)
                self._read(read, self._expand(rows, axes, read.conditions, set(rows.index)), seen | {name})
            for other in definition.scalars:
                self._scalar(other, rows, seen | {name})

    def _read(self, read: Access, table: Table, seen: frozenset[object]) -> None:
        self.found.notes += [n for n in read.notes if n not in self.found.notes]
        coords, table = self._any(read, table)
        coords, table = self._inside(read, coords, table)
        if not table.rows:
            return
        self.found.reads.setdefault(read.buffer, []).append((coords, table.origin))
        if read.buffer.storage is ir.Storage.GLOBAL or read.buffer in seen:
            return
        writes = [a for a in self.subject.accesses.of(read.buffer) if a.writes]
        plain = [a for a in writes if a.mode is not Mode.ARGUMENT]
        for write in plain or writes:
            self._join(write, coords, table, seen | {read.buffer})

    def _any(self, access: Access, table: Table) -> tuple[Ints, Table]:
        """Coordinates at the rows of `table`; one that depends on data takes every value of its dimension."""
        shape = self.subject.extents(access.buffer.shape)
        columns: list[ir.Expr] = []
        for d, coordinate in enumerate(access.coords):
            try:
                numeric.value(coordinate, self.subject.values | table.index)
                columns.append(coordinate)
            except DataDependentError:
                self.note("an index that depends on data may be any")
                var = ir.Var(f"any {d} of {access.buffer.name}")
                table = self._expand(table, (Axis("element", var, ir.Const(0), ir.Const(shape[d])),), (), set())
                columns.append(var)
        return self._coords(columns, table), table

    def _inside(self, read: Access, coords: Ints, table: Table) -> tuple[Ints, Table]:
        """Without elements outside the array, which only a zero-filling copy meets."""
        shape = np.array(self.subject.extents(read.buffer.shape))
        rows = np.flatnonzero(((coords >= 0) & (coords < shape)).all(axis=1))
        return coords[rows], table.take(rows)

    def _join(self, write: Access, coords: Ints, table: Table, seen: frozenset[object]) -> None:
        """The points at which `write` made the elements `coords`, and what it made them of."""
        fixed = self._instance(write.buffer) & {a.name for a in write.axes} & set(table.index)
        names = sorted(fixed)
        keys = np.stack([table.index[n] for n in names], axis=1) if names else np.zeros((table.rows, 1), np.int64)
        instances, number = np.unique(keys, axis=0, return_inverse=True)
        number = number.reshape(-1)
        base = {n: instances[:, i] for i, n in enumerate(names)}
        all_points = self._expand(Table(base, np.arange(len(instances))), write.axes, write.conditions, set(names))
        written, all_points = self._any(write, all_points)
        self._load(write, all_points)
        shape = self.subject.extents(write.buffer.shape)
        wanted, made = _keys(number, coords, shape), _keys(all_points.origin, written, shape)
        left, right = _pairs(wanted, made)
        points = all_points.take(right)
        joined = Table(points.index, table.origin[left])
        self.follow(write, self._earlier(write, joined, table.take(left), left), seen)

    def _instance(self, buffer: ir.Buffer) -> set[str]:
        """Indices that tell apart the instances of a buffer: the loops around its declaration, and its owners."""
        axes = self.subject.accesses.declared.get(buffer, ())
        names = {a.name for a in axes if a.kind != "region"}
        if buffer.storage is ir.Storage.SHARED:
            return names | {a.name for a in axes if a.level in COARSE}
        regions = {a.name for access in self.subject.accesses.of(buffer) for a in access.axes if a.kind == "region"}
        return names | regions

    def _earlier(self, write: Access, joined: Table, reads: Table, group: Ints) -> Table:
        """Of writes in loops that the buffer outlives, those up to the reading iteration; of plain ones the last."""
        loops = [
            a.name
            for a in write.axes
            if a.kind == "loop" and a.name in reads.index and a.name not in self._instance(write.buffer)
        ]
        if not loops:
            return joined
        kept = np.flatnonzero(joined.index[loops[0]] <= reads.index[loops[0]])
        joined, group = joined.take(kept), group[kept]
        if write.mode is not Mode.WRITE or not joined.rows:
            return joined
        order = np.lexsort([*(joined.index[n] for n in reversed(loops)), group])
        last = np.r_[group[order][1:] != group[order][:-1], True]
        return joined.take(order[last])

    def _load(self, write: Access, points: Table) -> None:
        """Notes what each instance of a copy brings in: the box of its source."""
        if write.role != "copy destination" or not points.rows:
            return
        (source,) = write.inputs
        coords, points = self._any(source, points)
        names = [a.name for a in write.axes if a.kind != "element" and a.name in points.index]
        order = np.argsort(points.origin, kind="stable")
        first = np.flatnonzero(np.r_[True, points.origin[order][1:] != points.origin[order][:-1]])
        low = np.minimum.reduceat(coords[order], first, axis=0)
        high = np.maximum.reduceat(coords[order], first, axis=0) + 1
        index = {n: points.index[n][order][first] for n in names}
        shape = np.array(self.subject.extents(source.buffer.shape))
        loads = self.found.loads.setdefault((source.buffer, write.buffer), [])
        loads.append((index, np.maximum(low, 0), np.minimum(high, shape)))

    # ------------------------------------------------------------------------------------------------ tables

    def _coords(self, columns: Sequence[ir.Expr], table: Table) -> Ints:
        scope = self.subject.values | table.index
        full = [np.broadcast_to(np.asarray(numeric.value(c, scope), np.int64), table.rows) for c in columns]
        return np.stack(full, axis=1) if full else np.zeros((table.rows, 0), np.int64)

    def _expand(self, table: Table, axes: Sequence[Axis], conditions: Iterable[ir.Expr], fixed: set[str]) -> Table:
        """`table` with every value of the axes that are not fixed. A loop index that the table has but that is not
        fixed runs up to the value there: later iterations have not happened yet."""
        for axis in axes:
            if axis.name in fixed and axis.name in table.index:
                continue
            scope = self.subject.values | table.index
            try:
                limits = [np.asarray(numeric.value(e, scope), np.int64) for e in (axis.start, axis.stop)]
            except DataDependentError:
                self.note(f"the bounds of {axis.name} depend on data")
                continue
            start, stop = (np.broadcast_to(b, table.rows) for b in limits)
            if not table.rows:
                table = Table(table.index | {axis.name: np.zeros(0, np.int64)}, table.origin)
                continue
            bounds = range(int(start.min()), int(stop.max()), 1 if start.min() != start.max() else axis.step)
            values = selected(bounds, max(1, ROWS // table.rows))
            if len(values) < len(bounds):
                self.note("only a part of a long iteration is followed")
            rows = np.repeat(np.arange(table.rows), len(values))
            column = np.tile(values, table.rows)
            inside = (column >= start[rows]) & (column < stop[rows]) & ((column - start[rows]) % axis.step == 0)
            if axis.kind == "loop" and axis.name in table.index:
                inside &= column <= table.index[axis.name][rows]
            rows, column = rows[inside], column[inside]
            table = table.take(rows)
            table = Table(table.index | {axis.name: column}, table.origin)
        scope = self.subject.values | table.index
        for condition in conditions:
            try:
                holds = np.broadcast_to(np.asarray(numeric.value(condition, scope), bool), table.rows)
            except DataDependentError:
                self.note("a condition that depends on data is taken to hold")
                continue
            if not holds.all():
                table = table.take(np.flatnonzero(holds))
                scope = self.subject.values | table.index
        return table


def _keys(instance: Ints, coords: Ints, shape: Sequence[int]) -> Ints:
    """One number per (instance, element)."""
    linear = instance.astype(np.int64)
    for d, extent in enumerate(shape):
        linear = linear * extent + coords[:, d]
    return linear


def _pairs(wanted: Ints, made: Ints) -> tuple[Ints, Ints]:
    """All pairs of rows with equal keys: rows of `wanted` and of `made`."""
    order = np.argsort(made, kind="stable")
    low, high = np.searchsorted(made[order], wanted, "left"), np.searchsorted(made[order], wanted, "right")
    counts = high - low
    left = np.repeat(np.arange(len(wanted)), counts)
    offset = np.arange(math.prod((int(counts.sum()),))) - np.repeat(np.cumsum(counts) - counts, counts)
    return left, order[np.repeat(low, counts) + offset]
