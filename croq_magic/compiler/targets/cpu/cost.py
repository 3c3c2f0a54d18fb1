"""How much work a piece of the program is, roughly: where the stop flag is looked at, and whether a block is thin.

One unit is about one scalar operation, a fraction of a nanosecond once vectorised. Unknown trip counts count as 256.
"""

from __future__ import annotations

from functools import singledispatch

from croq_magic.compiler import integers, ir
from croq_magic.compiler.visit import walk

UNKNOWN_TRIPS = 256
FOREIGN_CALL = 1 << 13  # unknown: the stop flag is looked at between calls
ENDLESS = 1 << 40  # a `while`: may run for any time


def trips(loop: ir.For) -> int | None:
    """Iterations of a loop, if that is a constant."""
    distance = integers.value(integers.sub(loop.stop, loop.start))
    return None if distance is None else max(0, -(-distance // loop.step))


def body_cost(body: ir.Body) -> int:
    return sum(map(cost, body))


def elements(extents: tuple[ir.Expr, ...]) -> int:
    total = 1
    for extent in extents:
        value = integers.value(extent)
        total *= UNKNOWN_TRIPS if value is None else value
    return total


@singledispatch
def cost(s: ir.Stmt) -> int:
    """Work of one execution of a statement."""
    return 1 + sum(1 for node in walk(s) if isinstance(node, (ir.Load, ir.Binary, ir.Cast, ir.Builtin)))


@cost.register
def _(s: ir.For) -> int:
    count = 1 if s.kind is ir.LoopKind.VECTOR else trips(s)
    return (UNKNOWN_TRIPS if count is None else count) * (1 + body_cost(s.body))


@cost.register
def _(s: ir.While) -> int:
    return ENDLESS


@cost.register
def _(s: ir.If) -> int:
    return 1 + max(body_cost(s.then), body_cost(s.other))


@cost.register(ir.Scope)
@cost.register(ir.Masked)
@cost.register(ir.Once)
def _(s: ir.Scope | ir.Masked | ir.Once) -> int:
    return 1 + body_cost(s.body)


@cost.register
def _(s: ir.Region) -> int:
    return elements(s.extents) * (1 + body_cost(s.body))


@cost.register
def _(s: ir.Launch) -> int:
    return cost(s.kernel.region)


@cost.register
def _(s: ir.Copy) -> int:
    return elements(s.dst.extents)


@cost.register
def _(s: ir.SpanOp) -> int:
    return elements(s.view.extents)


@cost.register
def _(s: ir.Declare) -> int:
    return 1 if s.init is None else elements(s.buffer.shape)


@cost.register(ir.Call)
@cost.register(ir.CxxText)
def _(s: ir.Call | ir.CxxText) -> int:
    return FOREIGN_CALL


@cost.register(ir.Print)
def _(s: ir.Print) -> int:
    return FOREIGN_CALL
