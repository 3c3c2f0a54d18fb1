"""Fresh global buffers become zero block by block, where every block has a part of them to itself.

A buffer whose zeros may be read (`drop-zeroing` has found no proof that nobody does) would be set to zero before the
function runs: by one thread, and out of the caches again when a block gets to its part. Where a launch's blocks reach
disjoint windows that together are the whole buffer, each block sets its own window to zero when it begins, which for
the program is the same.

    region block [b < 64] {                          region block [b < 64] {
      for k in 1..256 step 2 {               =>        r[b, c1 : 256] = 0
        r[b, k] = k                                    for k in 1..256 step 2 { ...
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import ClassVar

from croq_magic.compiler import affine, integers, ir, views
from croq_magic.compiler.passes.base import Context
from croq_magic.compiler.passes.structure import bodies, instances
from croq_magic.compiler.passes.zeroed_buffers import first_launch, for_each_zeroed, not_zeroed
from croq_magic.compiler.types import S32
from croq_magic.compiler.visit import children, substitute, walk

MOST_BYTES = 1 << 18  # a larger window would be out of the caches before it is used
Places = dict[ir.Var, ir.Expr]
Coordinates = tuple[ir.Expr, ...]


@dataclasses.dataclass(frozen=True)
class ZeroInBlocks:
    """Runs last: the grid and the loops in the blocks are those that will be emitted."""

    name: ClassVar[str] = "zero-in-blocks"

    def __call__(self, function: ir.Function, context: Context) -> ir.Function:
        return for_each_zeroed(function, _zeroed_by_blocks)


def _zeroed_by_blocks(body: ir.Body, position: int, buffer: ir.Buffer) -> ir.Body:
    found = first_launch(body, position, buffer)
    if found is None:
        return body
    place, launch = found
    root = launch.kernel.region
    if root.level is not ir.Level.BLOCK or (instances(root) or 0) < 2:
        return body
    window = _window(root, buffer)
    if window is None:
        return body
    fill = ir.SpanOp(window, ir.Const(0.0 if buffer.dtype.is_float else 0, buffer.dtype))
    region = dataclasses.replace(root, body=(fill, *root.body))
    new = list(body)
    new[place] = dataclasses.replace(launch, kernel=dataclasses.replace(launch.kernel, region=region))
    return not_zeroed(tuple(new), buffer)


def _window(root: ir.Region, buffer: ir.Buffer) -> ir.View | None:
    """The part of a buffer that belongs to one block, None where blocks may share elements or leave some out."""
    grid = {v.name: (v, e) for v, e in zip(root.indices, root.extents, strict=True) if integers.value(e) != 1}
    shape = [integers.value(extent) for extent in buffer.shape]
    if buffer.slots:
        return None
    common: list[dict[str, int] | None] = [None] * len(shape)
    reach: list[tuple[int | None, int | None]] = [(0, 0)] * len(shape)
    for coordinates in _accesses(root.body, buffer, {}):
        if coordinates is None:
            return None
        for d, coordinate in enumerate(coordinates):
            steps = _steps(coordinate, grid)
            if steps is None or (common[d] is not None and common[d] != steps):
                return None
            common[d] = steps
            rest = coordinate
            for name, step in steps.items():
                rest = integers.sub(rest, integers.mul(grid[name][0], integers.constant(step)))
            low, high = integers.interval(rest)
            reach[d] = _least(reach[d][0], low), _most(reach[d][1], high)
    used = [name for steps in common for name in steps or ()]
    if sorted(used) != sorted(grid):  # none twice, none missing
        return None
    origin: list[ir.Expr] = []
    extents: list[ir.Expr] = []
    count = buffer.dtype.size
    for steps, (low, high), extent, whole in zip(common, reach, shape, buffer.shape, strict=True):
        if extent is None:
            return None
        if not steps:
            origin.append(integers.ZERO)
            extents.append(whole)
            count *= extent
            continue
        width = min(steps.values())
        if width < 1 or low is None or low < 0 or high is None or high >= width:
            return None
        total = _tiled(width, [(step, integers.value(grid[name][1])) for name, step in steps.items()])
        if total is None or total < extent:
            return None
        start: ir.Expr = integers.ZERO
        for name, step in steps.items():
            start = integers.add(start, integers.mul(grid[name][0], integers.constant(step)))
        size: ir.Expr = integers.constant(width)
        if total > extent:
            size = ir.Builtin("__min", (size, integers.sub(integers.constant(extent), start)), S32)
        origin.append(start)
        extents.append(size)
        count *= width
    return views.window(views.whole(buffer), tuple(origin), tuple(extents)) if count <= MOST_BYTES else None


def _steps(coordinate: ir.Expr, grid: dict[str, tuple[ir.Var, ir.Expr]]) -> dict[str, int] | None:
    """By how much a coordinate moves with each block index that it depends on; None where that is not constant."""
    steps: dict[str, int] = {}
    for name, (var, _) in grid.items():
        step = affine.stride(coordinate, var)
        size = None if step is None else integers.value(step)
        if size is None:
            return None
        if size:
            steps[name] = size
    return steps


def _tiled(width: int, steps: list[tuple[int, int | None]]) -> int | None:
    """How far windows of `width` at `sum(step * i)` reach if they lie side by side, else None."""
    reach = width
    for step, extent in sorted(steps, key=lambda item: item[0]):
        if step != reach or extent is None:
            return None
        reach *= extent
    return reach


def _accesses(body: ir.Body, buffer: ir.Buffer, places: Places) -> Iterator[Coordinates | None]:
    """Coordinates of everything a body does with a buffer, with variables that have the bounds of the loops around;
    None for what may touch any element."""
    for s in body:
        inner = dict(places)
        if isinstance(s, ir.For):
            inner |= _counted(s.var, s.start, s.stop, s.step)
        elif isinstance(s, ir.Region):
            for var, extent in zip(s.indices, s.extents, strict=True):
                inner |= _counted(var, integers.ZERO, extent, 1)
        elif isinstance(s, ir.Apply):
            if any(node is buffer for node in walk(s)):
                yield None
            continue
        nested = bodies(s)
        heads = [c for c in children(s) if not isinstance(c, ir.Stmt)] if nested else [s]
        for head in heads:
            yield from _uses(head, None, buffer, places)
        for part in nested:
            yield from _accesses(part, buffer, inner)


def _uses(node: ir.Node, parent: ir.Node | None, buffer: ir.Buffer, places: Places) -> Iterator[Coordinates | None]:
    if isinstance(node, ir.View) and node.buffer is buffer:
        if isinstance(parent, (ir.Load, ir.Store, ir.Atomic)):
            found = affine.element(parent)[0]
        elif isinstance(parent, (ir.Copy, ir.SpanOp)):
            inside: Places = {}
            for var, extent in zip(node.coords, node.extents, strict=True):
                inside |= _counted(var, integers.ZERO, extent, 1)
            found = tuple(substitute(e, inside) for e in node.map)
        else:
            yield None  # a foreign function may write anywhere
            return
        yield tuple(integers.simplify(substitute(e, places)) for e in found)
        return
    for child in children(node):
        yield from _uses(child, node, buffer, places)


def _counted(var: ir.Var, start: ir.Expr, stop: ir.Expr, step: int) -> Places:
    """A loop's variable as `start + step * i` with the bounds of `i`."""
    last = integers.sub(integers.sub(stop, start), integers.ONE)
    count = integers.add(integers.floordiv(last, integers.constant(step)), integers.ONE)
    most = integers.interval(count)[1]
    if most is None:
        return {var: ir.Var(f"{var.name}'", S32, ir.Role.LET)}
    i = ir.Var(f"{var.name}'", S32, ir.Role.LOOP, integers.ZERO, integers.constant(max(most, 1)))
    return {var: integers.add(start, integers.mul(i, integers.constant(step)))}


def _least(a: int | None, b: int | None) -> int | None:
    return None if a is None or b is None else min(a, b)


def _most(a: int | None, b: int | None) -> int | None:
    return None if a is None or b is None else max(a, b)
