"""How the elements of a fragment are dealt out to the threads of its unit.

Every thread of a unit of `width` threads goes through *turns*; an element belongs to one thread in one of its turns.

- `Linear`: element e, counted row by row, belongs to thread e modulo `width`.
- `Rows`: `lanes` neighbouring threads have a row, element j of it belongs to the j-th of them modulo `lanes`. So a row
  is summed over few threads, and threads have whole columns in part.
- `Along`: a vector along one dimension of fragments dealt out in rows. Every thread holds a copy of the elements that
  belong to the rows (or columns) that it has elements of: replicated, so that nobody has to ask for them.

A layout for tensor-core instructions is another class of this kind; what it must say is which element a turn is.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from croq_magic.compiler import integers, ir
from croq_magic.compiler.passes.map_limits import WARP
from croq_magic.compiler.types import BOOL

Coords = tuple[ir.Expr, ...]


@dataclasses.dataclass(frozen=True)
class Loop:
    """One of the loops over a thread's turns: a name for its variable, and its trips."""

    name: str
    trips: int


@dataclasses.dataclass(frozen=True)
class Linear:
    width: int
    shape: tuple[int, ...]

    @property
    def count(self) -> int:
        return _product(self.shape)

    @property
    def turns(self) -> int:
        return -(-self.count // self.width)

    @property
    def loops(self) -> tuple[Loop, ...]:
        return (Loop("turn", self.turns),)

    def linear(self, member: ir.Expr, loops: Sequence[ir.Expr]) -> ir.Expr:
        """The number of the element of thread `member` in a turn."""
        return integers.add(integers.mul(loops[0], integers.constant(self.width)), member)

    def coords(self, element: ir.Expr) -> Coords:
        """The coordinates of an element by its number."""
        extents = tuple(map(integers.constant, self.shape))
        found = []
        for d, stride in enumerate(integers.row_major(extents)):
            place = integers.floordiv(element, stride)
            found.append(integers.mod(place, extents[d]) if d else place)
        return tuple(found)

    def guard(self, element: ir.Expr) -> ir.Expr | None:
        """The condition under which the number is that of an element; None if it always holds."""
        if self.count % self.width == 0:
            return None
        return ir.Binary("<", element, integers.constant(self.count), BOOL)

    def place(self, loops: Sequence[ir.Expr]) -> ir.Expr:
        """Where a thread keeps the element of a turn."""
        return loops[0]


@dataclasses.dataclass(frozen=True)
class Rows:
    width: int
    shape: tuple[int, int]
    lanes: int

    @property
    def rounds(self) -> int:
        return -(-self.shape[0] * self.lanes // self.width)

    @property
    def steps(self) -> int:
        return -(-self.shape[1] // self.lanes)

    @property
    def turns(self) -> int:
        return self.rounds * self.steps

    @property
    def loops(self) -> tuple[Loop, ...]:
        return (Loop("turn", self.rounds), Loop("step", self.steps))

    def coords(self, member: ir.Expr, loops: Sequence[ir.Expr]) -> Coords:
        lanes = integers.constant(self.lanes)
        at_once = integers.constant(self.width // self.lanes)
        row = integers.add(integers.mul(loops[0], at_once), integers.floordiv(member, lanes))
        return row, integers.add(integers.mul(loops[1], lanes), integers.mod(member, lanes))

    def guards(self, coords: Coords) -> list[ir.Expr]:
        """Conditions under which coordinates are those of an element."""
        whole = (self.rounds * (self.width // self.lanes), self.steps * self.lanes)
        return [
            ir.Binary("<", coord, integers.constant(extent), BOOL)
            for coord, extent, most in zip(coords, self.shape, whole, strict=True)
            if extent != most
        ]

    def place(self, loops: Sequence[ir.Expr]) -> ir.Expr:
        return integers.add(integers.mul(loops[0], integers.constant(self.steps)), loops[1])


@dataclasses.dataclass(frozen=True)
class Along:
    """`dimension` is the one of the fragments in rows that the vector runs along."""

    width: int
    extent: int
    lanes: int
    dimension: int

    @property
    def turns(self) -> int:
        return self.loops[0].trips

    @property
    def loops(self) -> tuple[Loop, ...]:
        if self.dimension == 0:
            return (Loop("turn", -(-self.extent * self.lanes // self.width)),)
        return (Loop("step", -(-self.extent // self.lanes)),)

    def coords(self, member: ir.Expr, loops: Sequence[ir.Expr]) -> Coords:
        lanes = integers.constant(self.lanes)
        if self.dimension == 0:
            at_once = integers.constant(self.width // self.lanes)
            return (integers.add(integers.mul(loops[0], at_once), integers.floordiv(member, lanes)),)
        return (integers.add(integers.mul(loops[0], lanes), integers.mod(member, lanes)),)

    def guards(self, coords: Coords) -> list[ir.Expr]:
        at_once = self.width // self.lanes if self.dimension == 0 else self.lanes
        if self.extent == self.turns * at_once:
            return []
        return [ir.Binary("<", coords[0], integers.constant(self.extent), BOOL)]

    def first(self, member: ir.Expr) -> ir.Expr | None:
        """The condition that chooses one of the threads that hold an element; None where there is only one."""
        lanes = integers.constant(self.lanes)
        if self.dimension == 0:
            if self.lanes == 1:
                return None
            return ir.Binary("==", integers.mod(member, lanes), integers.ZERO, BOOL)
        return ir.Binary("<", member, lanes, BOOL) if self.lanes < self.width else None

    def place(self, loops: Sequence[ir.Expr]) -> ir.Expr:
        return loops[0]


Layout = Linear | Rows | Along


def plain(width: int, shape: tuple[int, ...]) -> Layout:
    """The layout of a fragment that no reduction reads: rows where they fit the unit, so that indices are simple."""
    if len(shape) == 2:
        columns = shape[1]
        if columns and width % columns == 0:
            return Rows(width, (shape[0], columns), columns)
        if columns and columns % width == 0:
            return Rows(width, (shape[0], columns), width)
    return Linear(width, shape)


def lanes_for(width: int, shapes: Sequence[tuple[int, int]]) -> int:
    """How many threads of a unit share a row of tiles that are reduced: the fewest turns of all tiles together. Rows
    over several warps are summed in shared memory, so they must save half of the turns."""
    small = [lanes for lanes in (1, 2, 4, 8, 16, 32) if width % lanes == 0]
    large = [lanes for lanes in (64, 128, 256, 512, 1024) if width % WARP == 0 and width % lanes == 0]

    def cost(lanes: int) -> tuple[int, bool, int]:
        turns = sum(Rows(width, shape, lanes).turns for shape in shapes)
        return turns * (2 if lanes > WARP else 1), lanes > WARP, -lanes

    return min((*small, *large), key=cost)


def warp_part(width: int, lanes: int) -> int:
    """How many neighbouring threads can pass each other values without memory: a warp, a whole smaller unit; `lanes`
    if neither is the case."""
    if width % WARP == 0:
        return WARP
    return width if width < WARP and width & (width - 1) == 0 else min(lanes, WARP)


def _product(shape: Sequence[int]) -> int:
    total = 1
    for extent in shape:
        total *= extent
    return total
