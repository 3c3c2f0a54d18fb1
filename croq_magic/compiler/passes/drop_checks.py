"""Drops the checks of accesses that are not proven: what `checks="none"` and `"entry"` ask for."""

from __future__ import annotations

import dataclasses

from croq_magic.compiler import ir
from croq_magic.compiler.passes.base import Context
from croq_magic.compiler.visit import rewrite


@dataclasses.dataclass(frozen=True)
class DropChecks:
    name: str = "drop-checks"

    def __call__(self, function: ir.Function, context: Context) -> ir.Function:
        return rewrite(function, _drop)


def _drop(node: ir.Node) -> ir.Node | None:
    if isinstance(node, ir.Load | ir.Store | ir.Atomic | ir.View) and node.checks:
        return dataclasses.replace(node, checks=())
    if isinstance(node, ir.Binary) and node.checked:
        return dataclasses.replace(node, checked=False)
    return None
