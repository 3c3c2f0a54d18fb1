"""Scalar expressions of the IR as Python functions.

Extents, entry checks and diagrams need values of expressions over dimensions and scalar parameters again and again, so
an expression is translated once. Integers are mathematical, as the IR promises for index expressions; `/` and `%`
truncate as in the language, and shifts work in the width of their type.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from croq_magic.compiler import arithmetic, ir
from croq_magic.compiler.arithmetic import Number, convert, quotient, remainder
from croq_magic.compiler.types import DType

__all__ = ["Number", "convert", "free_variables", "function", "in_range", "quotient", "remainder", "text"]


def function(expressions: Sequence[ir.Expr], names: Sequence[str]) -> Callable[..., tuple[Number, ...]]:
    """A function of positional arguments, one per variable in `names`, that returns the expressions' values.

    Raises `ValueError` for an expression that depends on other variables or on elements of arrays. The function
    raises `ZeroDivisionError` where the program divides by zero.
    """
    return arithmetic.function(text(expressions, names))


def text(expressions: Sequence[ir.Expr], names: Sequence[str]) -> str:
    """The Python text of that function, for `arithmetic.function`."""
    places = {name: f"v{index}" for index, name in enumerate(names)}
    body = "".join(f"{_python(e, places)}, " for e in expressions)
    return f"lambda {', '.join(places.values())}: ({body})"


def free_variables(expressions: Sequence[ir.Node]) -> list[str]:
    """Names of the variables that expressions depend on, each once, in order of appearance."""
    from croq_magic.compiler.visit import walk

    return list(dict.fromkeys(node.name for node in walk(tuple(expressions)) if isinstance(node, ir.Var)))


def _python(e: ir.Expr, places: dict[str, str]) -> str:
    if isinstance(e, ir.Const):
        return repr(e.value) if not isinstance(e.value, float) else f"float({str(e.value)!r})"
    if isinstance(e, ir.Var):
        if e.name not in places:
            raise ValueError(f"{e.name} has no value here")
        return places[e.name]
    if isinstance(e, ir.Unary):
        operator = {"-": "-", "~": "~", "!": "not "}[e.op]
        return f"({operator}{_python(e.operand, places)})"
    if isinstance(e, ir.Binary):
        left, right = _python(e.left, places), _python(e.right, places)
        if e.op in ("/", "%") and e.dtype.is_integer:
            return f"{'quotient' if e.op == '/' else 'remainder'}({left}, {right})"
        if e.op == "/":
            return f"divide({left}, {right})"
        if e.op == "<<":
            return f"shift_left({left}, {right}, {_KINDS[e.dtype.kind.value]}, {e.dtype.bits})"
        if e.op == ">>":
            return f"shift_right({left}, {right}, {e.dtype.bits})"
        operator = {"&&": "and", "||": "or"}.get(e.op, e.op)
        return f"({left} {operator} {right})"
    if isinstance(e, ir.Select):
        condition, then, other = (_python(part, places) for part in (e.condition, e.then, e.other))
        return f"({then} if {condition} else {other})"
    if isinstance(e, ir.Cast):
        return f"convert({_python(e.operand, places)}, {_KINDS[e.dtype.kind.value]}, {e.dtype.bits})"
    if isinstance(e, ir.Builtin) and e.name in _BUILTINS:
        return f"{_BUILTINS[e.name]}({', '.join(_python(arg, places) for arg in e.args)})"
    raise ValueError(f"{type(e).__name__} has no value before the program runs")


_KINDS = {"signed": 0, "unsigned": 1, "float": 2, "bool": 3}
_BUILTINS = {
    "__max": "max",
    "__min": "min",
    "__alignup": "align_up",
    "__aligndown": "align_down",
    "cdiv": "ceiling",
    "__fabs": "abs",
}


def in_range(value: int, dtype: DType) -> bool:
    """Whether an integer type holds `value`."""
    low, high = dtype.range
    return low <= value <= high
