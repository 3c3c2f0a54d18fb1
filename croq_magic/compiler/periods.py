"""Index expressions that are affine in steps of some period: `p / 10` is in steps of 10, whatever `p % 10` is."""

from __future__ import annotations

import math
from collections.abc import Mapping

from croq_magic.compiler import evaluate, ir, numeric
from croq_magic.compiler.numeric import Value


def period(e: ir.Expr, name: str, values: Mapping[str, Value], ranges: Mapping[str, range]) -> int | None:
    """The least m found such that `e` grows by the same amount whenever the axis `name` grows by m.

    None where there is none that can be told: products of the axis with itself, comparisons, and divisions of what may
    be negative, since they truncate. The ranges must not be empty.
    """
    if name not in evaluate.free_variables([e]):
        return 1
    if isinstance(e, ir.Var):
        return 1
    if isinstance(e, ir.Unary) and e.op == "-":
        return period(e.operand, name, values, ranges)
    if not isinstance(e, ir.Binary) or not e.dtype.is_integer:
        return None
    left, right = period(e.left, name, values, ranges), period(e.right, name, values, ranges)
    if left is None or right is None:
        return None
    if e.op in ("+", "-"):
        return math.lcm(left, right)
    if e.op == "*" and (_constant(e.left, values, ranges) or _constant(e.right, values, ranges)):
        return math.lcm(left, right)
    if e.op in ("/", "%") and _constant(e.right, values, ranges):
        divisor = int(numeric.value(e.right, values))
        bounds = _bounds(e.left, values, ranges)
        return left * divisor if divisor > 0 and bounds is not None and bounds[0] >= 0 else None
    return None


def _constant(e: ir.Expr, values: Mapping[str, Value], ranges: Mapping[str, range]) -> bool:
    if any(name in ranges for name in evaluate.free_variables([e])):
        return False
    try:
        numeric.value(e, values)
    except (numeric.DataDependentError, ZeroDivisionError):
        return False
    return True


def _bounds(e: ir.Expr, values: Mapping[str, Value], ranges: Mapping[str, range]) -> tuple[int, int] | None:
    """Bounds of the values of an expression, not always the narrowest."""
    if _constant(e, values, ranges):
        v = int(numeric.value(e, values))
        return v, v
    if isinstance(e, ir.Var):
        return (ranges[e.name][0], ranges[e.name][-1]) if e.name in ranges else None
    if not isinstance(e, ir.Binary):
        return None
    left, right = _bounds(e.left, values, ranges), _bounds(e.right, values, ranges)
    if left is None or right is None:
        return None
    if e.op == "+":
        return left[0] + right[0], left[1] + right[1]
    if e.op == "-":
        return left[0] - right[1], left[1] - right[0]
    if e.op == "*":
        corners = [a * b for a in left for b in right]
        return min(corners), max(corners)
    if e.op in ("/", "%") and right[0] == right[1] > 0 and left[0] >= 0:
        by = right[0]
        return (left[0] // by, left[1] // by) if e.op == "/" else (0, min(by - 1, left[1]))
    return None
