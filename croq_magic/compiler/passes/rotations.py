"""Handles that swap and rotate the slots of one buffer among them: at any point each of them has another slot.

Which one it is changes at every turn of a loop, so that accesses through two handles are known to be apart only where
nothing is rotated between them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from croq_magic.compiler import integers, ir
from croq_magic.compiler.passes.structure import bodies
from croq_magic.compiler.visit import walk


def handles(kernel: ir.Region) -> dict[str, int]:
    """The slot variables of a kernel that always differ from the others with the same number.

    They begin side by side, with different constants, and all threads of the block rotate them together; after that
    they are rotated only among each other.
    """
    groups: dict[str, set[str]] = {}
    changed: set[str] = set()
    lets: dict[str, int] = {}
    rotations = 0
    for node in walk(kernel):
        if isinstance(node, ir.Rotate):
            rotations += 1
            names = {var.name for var in node.slots}
            joined = names.union(*(groups.get(name, set()) for name in names))
            for name in joined:
                groups[name] = joined
        elif isinstance(node, ir.Assign):
            changed.add(node.var.name)
        elif isinstance(node, ir.Let):
            lets[node.var.name] = lets.get(node.var.name, 0) + 1
    if not groups:
        return {}
    found: dict[str, int] = {}
    together = list(_together(kernel.body))
    if sum(isinstance(s, ir.Rotate) for body in together for s in body) != rotations:
        return {}  # threads of one role, or of one unit, rotate what others have as it was
    for body in together:
        begun = {s.var.name: integers.value(s.value) for s in body if isinstance(s, ir.Let) and s.value is not None}
        for name in begun:
            group = groups.get(name, set())
            values = {begun.get(other) for other in group}
            if not group or name in found or None in values or len(values) < len(group) or group & changed:
                continue
            if all(lets[other] == 1 for other in group):
                found.update(dict.fromkeys(group, len(found)))
    return found


def _together(body: ir.Body) -> Iterator[ir.Body]:
    """A body and those inside it that all threads of the block go through together."""
    yield body
    for statement in body:
        if not isinstance(statement, (ir.Region, ir.Masked)):
            for inner in bodies(statement):
                yield from _together(inner)


def changes(nodes: Iterable[ir.Stmt], known: dict[str, int]) -> frozenset[str]:
    """The handles that get another slot somewhere in these statements."""
    if not known:
        return frozenset()
    names: set[str] = set()
    for node in walk(tuple(nodes)):
        if isinstance(node, ir.Rotate):
            names |= {var.name for var in node.slots}
        elif isinstance(node, ir.Let):
            names.add(node.var.name)
    return frozenset(names & known.keys())
