"""Scalar expressions of the IR evaluated over NumPy arrays: one value for each point of an iteration domain.

Index expressions are mathematical integers (ir.py), held in int64 here; `/` and `%` truncate as in the language.
Arrays broadcast, so an expression over p and q costs one array operation a node and not one a point. Plain numbers stay
Python numbers, hence exact.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from croq_magic.compiler import arithmetic, evaluate, ir
from croq_magic.compiler.types import DType, Kind

Ints = npt.NDArray[np.int64]
Value = Any  # int, float, bool or an array of them


class DataDependentError(ValueError):
    """The value of an expression depends on the contents of arrays, or on a scalar that changes while running."""


def value(e: ir.Expr, values: Mapping[str, Value]) -> Value:
    """The value of `e`; `values` gives a number or an array (all broadcast together) per variable name.

    A division by zero gives 0 in arrays, since the other arm of a `?:` may be the one that counts; for plain numbers it
    raises `ZeroDivisionError`. Raises `DataDependentError` for what is not known before the program runs.
    """
    if isinstance(e, ir.Const):
        return e.value
    if isinstance(e, ir.Var):
        if e.name not in values:
            raise DataDependentError(f"{e.name} has no value before the program runs")
        return values[e.name]
    if isinstance(e, ir.Binary):
        left, right = value(e.left, values), value(e.right, values)
        if e.op in ("/", "%") and e.dtype.is_integer:
            return (quotient if e.op == "/" else remainder)(left, right)
        if e.op in ("<<", ">>"):
            return _shift(e.op, left, right, e.dtype)
        if e.op in ("&&", "||"):
            return (np.logical_and if e.op == "&&" else np.logical_or)(left, right)
        return _BINARY[e.op](left, right)
    if isinstance(e, ir.Unary):
        operand = value(e.operand, values)
        return np.logical_not(operand) if e.op == "!" else _UNARY[e.op](operand)
    if isinstance(e, ir.Select):
        condition = value(e.condition, values)
        if not isinstance(condition, np.ndarray):
            return value(e.then if condition else e.other, values)
        return np.where(condition, value(e.then, values), value(e.other, values))
    if isinstance(e, ir.Cast):
        return _cast(value(e.operand, values), e.dtype)
    if isinstance(e, ir.Builtin) and e.name in _BUILTINS:
        return _BUILTINS[e.name](*(value(arg, values) for arg in e.args))
    raise DataDependentError(f"{type(e).__name__} has no value before the program runs")


def quotient(a: Value, b: Value) -> Value:
    """Division that truncates towards zero."""
    if not isinstance(a, np.ndarray) and not isinstance(b, np.ndarray):
        return evaluate.quotient(int(a), int(b))
    divisor = np.where(np.equal(b, 0), 1, b)
    floor = np.floor_divide(a, divisor)
    inexact = np.not_equal(floor * divisor, a)
    result = floor + (inexact & (np.less(a, 0) != np.less(divisor, 0)))
    return np.where(np.equal(b, 0), 0, result)


def remainder(a: Value, b: Value) -> Value:
    """What `quotient` leaves; it has the sign of `a`."""
    return a - b * quotient(a, b)


def _shift(op: str, a: Value, n: Value, dtype: DType) -> Value:
    """A shift in the width of its type, as in `arithmetic.py`."""
    if not isinstance(a, np.ndarray) and not isinstance(n, np.ndarray):
        if op == ">>":
            return arithmetic.shift_right(int(a), int(n), dtype.bits)
        return arithmetic.shift_left(int(a), int(n), 0 if dtype.is_signed else 1, dtype.bits)
    within = np.logical_and(np.greater_equal(n, 0), np.less(n, dtype.bits))
    amount = np.where(within, n, 0)
    if op == ">>":
        return np.where(within, np.right_shift(a, amount), np.where(np.less(a, 0), -1, 0))
    return np.where(within, _cast(np.left_shift(a, amount), dtype), 0)


def _cast(v: Value, dtype: DType) -> Value:
    if not isinstance(v, np.ndarray):
        kind = {Kind.SIGNED: 0, Kind.UNSIGNED: 1, Kind.FLOAT: 2, Kind.BOOL: 3}[dtype.kind]
        return evaluate.convert(v, kind, dtype.bits)
    if dtype.kind is Kind.BOOL:
        return v != 0
    if dtype.is_float:
        return v.astype(np.float64)
    low, high = dtype.range
    if v.dtype.kind == "f":
        return np.clip(np.trunc(np.nan_to_num(v)), low, min(high, (1 << 63) - 1)).astype(np.int64)
    if dtype.bits >= 64:
        return v.astype(np.int64)
    return (v.astype(np.int64) - low) % (1 << dtype.bits) + low


_UNARY: dict[str, Callable[[Value], Value]] = {"-": operator.neg, "~": operator.invert}
_BINARY: dict[str, Callable[[Value, Value], Value]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": np.true_divide,
    "%": np.fmod,
    "&": operator.and_,
    "^": operator.xor,
    "|": operator.or_,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}
_BUILTINS: dict[str, Callable[..., Value]] = {
    "__max": np.maximum,
    "__min": np.minimum,
    "__alignup": lambda v, a: quotient(v + a - 1, a) * a,
    "__aligndown": lambda v, a: quotient(v, a) * a,
    "cdiv": lambda a, b: quotient(a + b - 1, b),
    "__fabs": np.abs,
}
