"""Drops the checks of accesses that are not proven: what `checks="entry"` asks for. `"none"` drops those at entry too;
what stays is the program's own `assert`."""

from __future__ import annotations

import dataclasses

from croq_magic.compiler import ir
from croq_magic.compiler.passes.base import Context
from croq_magic.compiler.visit import rewrite

_OWN = "RTA06"  # an `assert` of the program


@dataclasses.dataclass(frozen=True)
class DropChecks:
    name: str = "drop-checks"
    level: str = "entry"

    def __call__(self, function: ir.Function, context: Context) -> ir.Function:
        function = rewrite(function, _drop)
        return rewrite(function, _drop_asserts) if self.level == "none" else function


def _drop_asserts(node: ir.Node) -> tuple[ir.Stmt, ...] | None:
    return () if isinstance(node, ir.Assert) and node.code != _OWN else None


def _drop(node: ir.Node) -> ir.Node | None:
    if isinstance(node, ir.Load | ir.Store | ir.Atomic | ir.View) and node.checks:
        return dataclasses.replace(node, checks=())
    if isinstance(node, ir.Binary | ir.SpanOp) and node.checked:
        return dataclasses.replace(node, checked=False)
    return None
