"""Scalars of a region that have one value for all its instances, so that one copy of them is enough.

region thread [t < 256] {                 mutable hop: s32 = 1
  mutable hop: s32 = 1                    while hop < 256 {
  while hop < 256 {                         region thread [t < 256] { ... }
    ...                            =>       ...
    barrier block                           hop = hop * 2
    hop = hop * 2                         }
  }
"""

from __future__ import annotations

from collections.abc import Iterable

from croq_magic.compiler import ir
from croq_magic.compiler.passes.choose_strategy import differences
from croq_magic.compiler.passes.structure import assigned, nested
from croq_magic.compiler.visit import walk

_PLAIN = (ir.Const, ir.Var, ir.Unary, ir.Binary, ir.Cast)


def uniform_scalars(region: ir.Region, names: Iterable[str]) -> set[str]:
    """Those of `names`, scalars of the region's own body, whose every value is plain arithmetic that is the same for
    all instances and cannot fail."""
    left = set(names)
    own = [s for s in nested(region.body) if isinstance(s, (ir.Let, ir.Assign)) and s.var.name in left]
    for s in own:
        if s.value is not None and not all(isinstance(n, _PLAIN) and not _may_fail(n) for n in walk(s.value)):
            left.discard(s.var.name)
    for inner in nested(region.body):
        if isinstance(inner, ir.Region):
            left -= assigned((inner,))
        elif not isinstance(inner, (ir.Let, ir.Assign)):
            left -= _results(inner)
    return left - differences(region)[0] if left else left


def _results(s: ir.Stmt) -> set[str]:
    """Scalars that a statement sets in another way than by assignment."""
    if isinstance(s, (ir.Call, ir.Atomic, ir.Rotate, ir.Asm)):
        return assigned((s,))
    return {s.var.name} if isinstance(s, ir.For) else set()


def _may_fail(n: ir.Node) -> bool:
    if not (isinstance(n, ir.Binary) and n.op in ("/", "%")):
        return False
    return not (isinstance(n.right, ir.Const) and n.right.value)
