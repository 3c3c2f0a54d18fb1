"""Says which unit owns each fragment: the innermost `group` or `group-4` that uses it, or else the block.

A fragment declared outside a `group` belongs all the same to the groups that multiply into it: each has its own, and
keeps it from one inner `parallel` to the next. Levels that the program left out count too, so this follows map-levels.
"""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from croq_magic.compiler import ir
from croq_magic.compiler.passes.base import Context
from croq_magic.compiler.passes.structure import bodies, map_kernels
from croq_magic.compiler.visit import rewrite, walk


@dataclasses.dataclass(frozen=True)
class OwnFragments:
    """After it `Fragment.owner` is GROUP4, GROUP or BLOCK, as the uses of the fragment have it."""

    name: ClassVar[str] = "own-fragments"

    def __call__(self, function: ir.Function, context: Context) -> ir.Function:
        if not any(isinstance(node, ir.Fragment) for node in walk(function.body)):
            return function
        return map_kernels(function, _with_owners)


def _with_owners(region: ir.Region) -> ir.Region:
    owners: dict[ir.Fragment, ir.Level] = {}
    _find(region.body, ir.Level.BLOCK, owners)
    owned = {f: f if f.owner is owner else dataclasses.replace(f, owner=owner) for f, owner in owners.items()}
    body = rewrite(region.body, lambda node: owned.get(node) if isinstance(node, ir.Fragment) else None)
    return dataclasses.replace(region, body=body)


def _find(body: ir.Body, unit: ir.Level, owners: dict[ir.Fragment, ir.Level]) -> None:
    for s in body:
        inner = s.level if isinstance(s, ir.Region) and s.level in (ir.Level.GROUP4, ir.Level.GROUP) else unit
        if not bodies(s) or isinstance(s, ir.Apply):
            for node in walk(s):
                if isinstance(node, ir.Fragment):
                    owners[node] = max(owners.get(node, unit), unit, key=lambda level: level.depth)
        for nested in bodies(s):
            _find(nested, inner or unit, owners)
