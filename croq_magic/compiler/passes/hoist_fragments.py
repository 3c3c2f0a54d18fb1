"""Moves the declarations of fragments to the start of their block, so that regions can be split around their uses.

A fragment's initial value stays where it was, as a fill.
"""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from croq_magic.compiler import ir
from croq_magic.compiler.passes.base import Context
from croq_magic.compiler.passes.structure import map_kernels, map_regions
from croq_magic.compiler.visit import rewrite, walk


@dataclasses.dataclass(frozen=True)
class HoistFragments:
    """After it every `DeclareFragment` is a statement of its block and has no initial value."""

    name: ClassVar[str] = "hoist-fragments"

    def __call__(self, function: ir.Function, context: Context) -> ir.Function:
        return map_kernels(function, _hoist)


def _hoist(region: ir.Region) -> ir.Region:
    if region.level in (ir.Level.DEVICE, ir.Level.CLUSTER):
        return dataclasses.replace(region, body=map_regions(region.body, _hoist))
    found = [node for node in walk(region.body) if isinstance(node, ir.DeclareFragment)]
    if not found:
        return region
    body = rewrite(region.body, _stay)
    declarations = tuple(dataclasses.replace(s, init=None) for s in found)
    return dataclasses.replace(region, body=(*declarations, *body))


def _stay(node: ir.Node) -> ir.Body | None:
    if not isinstance(node, ir.DeclareFragment):
        return None
    return () if node.init is None else (ir.FragmentFill(node.fragment, node.init, span=node.span),)
