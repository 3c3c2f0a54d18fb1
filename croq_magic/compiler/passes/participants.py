"""Who carries out a statement together, and who has to meet around it.

Source: language reference, execution model, sections 3 and 6.3. A transfer into shared storage or out of it, a fill and
whole-span arithmetic are one statement of the block: all threads that get there share it out, so under `inthreads` all
that are selected, whatever unit they belong to. A statement on fragments is one of the unit that owns these, anything
else of one thread. So a join in front of the first kind covers every selected thread of the block, which may be a part
of a warp, a unit of a level (then its own barrier does it), or any other set.

The barriers that `insert-joins` puts between statements and what the SIMT emitter makes of both follow from here.
"""

from __future__ import annotations

from collections.abc import Sequence

from croq_magic.compiler import evaluate, integers, ir
from croq_magic.compiler.targets.simt.parties import conjuncts
from croq_magic.compiler.targets.simt.threads import Threads, positions, unit_threads
from croq_magic.compiler.visit import walk

Level = ir.Level
UNITS = (Level.GROUP, Level.GROUP4)


def meeting_level(threads: Threads, chain: Sequence[ir.Region], conditions: Sequence[ir.Expr]) -> Level:
    """The finest level of which one unit has all threads of a block that satisfy conditions: a barrier of that level
    joins all that share a statement out there. `chain` are the regions below the block that are open."""
    parts = conjuncts(conditions)
    for depth in range(len(chain), 0, -1):
        level = chain[depth - 1].level
        if level in UNITS and level is not None and _in_one(threads, chain, depth, parts):
            return level
    return Level.BLOCK


def _in_one(threads: Threads, chain: Sequence[ir.Region], depth: int, parts: Sequence[ir.Expr]) -> bool:
    """Whether all that are selected are threads of one instance of the region at the end of `chain[:depth]`."""
    indices = {var.name for region in chain for var in region.indices}
    fixed = {name for part in parts if (name := _fixed(part, indices)) is not None}
    outer = [axis for region in chain[:depth] for axis in zip(region.indices, region.extents, strict=True)]
    if all(var.name in fixed or integers.value(extent) == 1 for var, extent in outer):
        return True
    size = integers.value(unit_threads(chain[depth - 1]))
    places = positions(threads, chain) if threads.count is not None and size else None
    if places is None or threads.count is None or size is None:
        return False
    known = tuple(p for p in parts if set(evaluate.free_variables((p,))) <= set(places) and not _loads(p))
    same = [places[name] for name in places if name in fixed]  # the value is not known, but it is one
    units: dict[tuple[int, ...], int] = {}
    try:
        test = evaluate.function(known, list(places))
        for number in range(threads.count):
            if all(test(*(values[number] for values in places.values()))):
                unit = number // size
                if units.setdefault(tuple(values[number] for values in same), unit) != unit:
                    return False
    except (ValueError, ZeroDivisionError):
        return False
    return True


def _fixed(part: ir.Expr, indices: set[str]) -> str | None:
    """The index that a condition compares for equality with something else than indices."""
    if isinstance(part, ir.Binary) and part.op == "==":
        for index, value in ((part.left, part.right), (part.right, part.left)):
            names = {node.name for node in walk(value) if isinstance(node, ir.Var)}
            if isinstance(index, ir.Var) and index.name in indices and not names & indices:
                return index.name
    return None


def _loads(part: ir.Expr) -> bool:
    return any(isinstance(node, ir.Load) for node in walk(part))
