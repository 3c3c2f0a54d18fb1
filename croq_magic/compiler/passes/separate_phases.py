"""A launch whose blocks meet becomes one launch for each phase between the meetings.

`split-regions` has cut the grid at its barriers into loops over the blocks, inside a region of a single instance. One
after the other as launches of their own the phases keep that order, and their blocks run on all threads:

    launch ring {                                    launch ring {
      region device [] implied cooperative {           region block [b < 64] {
        region block [b < 64] {                          a[b] = x[b] * 2
          a[b] = x[b] * 2                              }
        }                                    =>      }
        region block [b < 64] {                      launch ring {
          r[b] = a[(b + 1) % 64]                       region block [b < 64] { ...
"""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from croq_magic.compiler import ir
from croq_magic.compiler.passes.base import Context
from croq_magic.compiler.visit import rewrite, walk


@dataclasses.dataclass(frozen=True)
class SeparatePhases:
    """For launches of which nothing but global memory lives on from one phase to the next."""

    name: ClassVar[str] = "separate-phases"

    def __call__(self, function: ir.Function, context: Context) -> ir.Function:
        body: ir.Body = rewrite(function.body, _separated)
        return function if body is function.body else dataclasses.replace(function, body=body)


def _separated(node: ir.Node) -> ir.Body | None:
    if not isinstance(node, ir.Launch):
        return None
    root = node.kernel.region
    if root.level is not ir.Level.DEVICE or root.indices or len(root.body) < 2:
        return None
    phases = [s for s in root.body if isinstance(s, ir.Region) and s.level is ir.Level.BLOCK and s.fibers is None]
    if len(phases) < len(root.body) or any(isinstance(n, ir.Print) for n in walk(root)):
        return None
    return tuple(dataclasses.replace(node, kernel=dataclasses.replace(node.kernel, region=_alone(s))) for s in phases)


def _alone(phase: ir.Region) -> ir.Region:
    """The blocks of a phase, which no longer meet."""
    return dataclasses.replace(phase, attributes=dataclasses.replace(phase.attributes, cooperative=False))
