"""Loops that do nothing but find a maximum or a minimum.

`__max` and `__min` of floats give the same in any order, so such a loop may keep many partial results at once: one
result that every step waits for costs several times as much as the loads (measured on the rows of a softmax). Sums are
not touched: their order is part of their value.
"""

from __future__ import annotations

from typing import NamedTuple

from croq_magic.compiler import ir
from croq_magic.compiler.types import F32, F64
from croq_magic.compiler.visit import walk


class Extreme(NamedTuple):
    """`var = name(var, value)` for every step of a loop."""

    var: ir.Var
    name: str
    value: ir.Expr


def extreme(loop: ir.For) -> Extreme | None:
    """What a loop finds; None where it does anything else, or its steps could fail a check."""
    if len(loop.body) != 1 or loop.step != 1 or loop.kind is not ir.LoopKind.SERIAL:
        return None
    s = loop.body[0]
    if not isinstance(s, ir.Assign) or s.var.dtype not in (F32, F64):
        return None
    e = s.value
    if not isinstance(e, ir.Builtin) or e.name not in ("__max", "__min") or e.dtype is not s.var.dtype:
        return None
    value = next((b for a, b in (e.args, e.args[::-1]) if isinstance(a, ir.Var) and a.name == s.var.name), None)
    if value is None or value.dtype is not s.var.dtype:
        return None
    for node in walk(value):
        if isinstance(node, ir.Var) and node.name == s.var.name:
            return None
        if isinstance(node, ir.Load) and (node.checks or node.view.checks):
            return None
    return Extreme(s.var, e.name, value)
