"""How the regions of a kernel become blocks and threads.

The regions from the outermost one down to `block` make the grid, whose axes x, y, z are the indices of the block
region, first index first; where that does not fit (more levels, symbolic extents) the grid is linear. Below a block
every region takes its indices from the position of a thread: a single shape of threads keeps its axes, anything else
decodes the linear number of the thread, in which the innermost region is the fastest and of a region its first index.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from croq_magic.compiler import evaluate, integers, ir
from croq_magic.compiler.passes.map_limits import LANES
from croq_magic.compiler.passes.structure import inner_regions
from croq_magic.compiler.targets.emit_cxx import Unsupported

Level = ir.Level
Chain = tuple[ir.Region, ...]
_AXES = 3
_MAX_AXIS = (1024, 1024, 64)


def grid_chain(root: ir.Region) -> Chain:
    """The regions from the outermost down to the block. Raises `Unsupported` if anything stands between them."""
    chain = [root]
    while chain[-1].level is not Level.BLOCK:
        inner = inner_regions(chain[-1].body)
        if len(chain[-1].body) != 1 or len(inner) != 1 or inner[0] is not chain[-1].body[0]:
            others = [s.span for s in chain[-1].body if not isinstance(s, ir.Region)]
            where = next((span for span in others if span is not None), chain[-1].span)
            raise Unsupported("statements between the levels `cluster` and `block` are not supported", where)
        chain.append(inner[0])
    return tuple(chain)


@dataclasses.dataclass(frozen=True)
class Threads:
    """The threads of a block. `block` are the extents along x, y, z; `count` is their product, None if symbolic. With
    `axes` every region of threads has these extents and takes its indices from the axes."""

    root: ir.Region
    block: tuple[ir.Expr, ir.Expr, ir.Expr]
    count: int | None
    axes: bool

    @property
    def total(self) -> ir.Expr:
        return integers.product(self.block)


def threads_of(root: ir.Region) -> Threads:
    """The threads that the regions inside a block need."""
    chains = _chains(root, ())
    if not chains:
        return Threads(root, (integers.ONE, integers.ONE, integers.ONE), 1, True)
    sizes = [lanes_of(chain) for chain in chains]
    total = max(sizes, key=lambda size: integers.value(size) or 0)
    count = integers.value(total)
    first = chains[0]
    if all(len(chain) == 1 and _same(chain[0], first[0]) for chain in chains) and first[0].level is Level.THREAD:
        extents = (*first[0].extents, integers.ONE, integers.ONE, integers.ONE)[:_AXES]
        values = [integers.value(e) for e in extents]
        if len(first[0].extents) <= _AXES and all(
            v is None or v <= limit for v, limit in zip(values, _MAX_AXIS, strict=True)
        ):
            return Threads(root, (extents[0], extents[1], extents[2]), count, True)
    return Threads(root, (total, integers.ONE, integers.ONE), count, False)


def _same(a: ir.Region, b: ir.Region) -> bool:
    return len(a.extents) == len(b.extents) and all(map(integers.equal, a.extents, b.extents))


def _chains(unit: ir.Region, outer: Chain) -> list[Chain]:
    """Every path of regions below a block."""
    found: list[Chain] = []
    for inner in inner_regions(unit.body):
        path = (*outer, inner)
        found += _chains(inner, path) or [path]
    return found


def lanes_of(chain: Chain) -> ir.Expr:
    """The threads that a path of regions needs."""
    count = integers.product(extent for region in chain for extent in region.extents)
    last = chain[-1].level
    return integers.mul(count, integers.constant(LANES[last] if last is not None else 1))


def unit_threads(region: ir.Region) -> ir.Expr:
    """Threads of one instance of a region below a block."""
    inner = inner_regions(region.body)
    if inner:
        size = integers.product(inner[0].extents)
        return integers.mul(size, unit_threads(inner[0]))
    return integers.constant(LANES[region.level] if region.level is not None else 1)


# ------------------------------------------------------------------------------------------ who reaches a statement


@dataclasses.dataclass(frozen=True)
class Selection:
    """Numbers of the threads that reach a statement, as far as that follows from their indices: all threads of a block
    that satisfy the conditions. `exact` is False where a condition was left out."""

    threads: tuple[int, ...]
    exact: bool = True

    @property
    def contiguous(self) -> bool:
        return bool(self.threads) and self.threads[-1] - self.threads[0] + 1 == len(self.threads)

    @property
    def whole_warps(self) -> bool:
        runs = self.runs
        return bool(runs) and all(first % 32 == 0 and count % 32 == 0 for first, count in runs)

    @property
    def runs(self) -> tuple[tuple[int, int], ...]:
        """Runs of neighbouring threads: the first and how many they are."""
        found: list[tuple[int, int]] = []
        for number in self.threads:
            if found and sum(found[-1]) == number:
                found[-1] = (found[-1][0], found[-1][1] + 1)
            else:
                found.append((number, 1))
        return tuple(found)


def select(
    threads: Threads, chain: Sequence[ir.Region], conditions: Sequence[ir.Expr], unit: int | None = None
) -> Selection | None:
    """The threads of a block (or of its first unit of `unit` threads) whose indices in the regions of `chain` satisfy
    all conditions. None where the block has no constant size."""
    if threads.count is None:
        return None
    count = threads.count if unit is None else unit
    places = positions(threads, chain)
    if places is None:
        return None
    names = list(places)
    known: list[ir.Expr] = []
    exact = True
    for condition in conditions:
        if set(evaluate.free_variables((condition,))) <= set(names):
            known.append(condition)
        else:
            exact = False
    try:
        test = evaluate.function(tuple(known), names) if known else None
    except ValueError:
        return Selection(tuple(range(count)), False)
    chosen = []
    for number in range(count):
        try:
            if test is None or all(test(*(places[name][number] for name in names))):
                chosen.append(number)
        except ZeroDivisionError:
            exact = False
    return Selection(tuple(chosen), exact)


def positions(threads: Threads, chain: Sequence[ir.Region]) -> dict[str, list[int]] | None:
    """The value of every index of a path of regions for each thread of the block, by linear number."""
    assert threads.count is not None
    found: dict[str, list[int]] = {}
    stride = integers.value(unit_threads(chain[-1])) if chain else 1
    if stride is None:
        return None
    for region in reversed(chain):
        for var, extent in zip(region.indices, region.extents, strict=True):
            size = integers.value(extent)
            if size is None:
                return None
            found[var.name] = [number // stride % max(1, size) for number in range(threads.count)]
            stride *= size
    return found
