"""Joins that follow what passes have made of the accesses.

Accumulators that have moved from memory to registers no longer conflict between the turns of a loop; the barriers that
were inserted for them are taken away. All joins are found again, from the accesses that are left.
"""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from croq_magic.compiler import ir
from croq_magic.compiler.passes.base import Context
from croq_magic.compiler.passes.insert_joins import InsertJoins
from croq_magic.compiler.visit import rewrite, walk


@dataclasses.dataclass(frozen=True)
class RenewJoins:
    """Replaces the barriers of `insert-joins`; those of the program stay."""

    name: ClassVar[str] = "renew-joins"

    def __call__(self, function: ir.Function, context: Context) -> ir.Function:
        if not any(map(_inserted, walk(function.body))):
            return function
        body: ir.Body = rewrite(function.body, lambda node: () if _inserted(node) else None)
        return InsertJoins()(dataclasses.replace(function, body=body), context)


def _inserted(node: ir.Node) -> bool:
    return isinstance(node, ir.Barrier) and bool(node.reason)
