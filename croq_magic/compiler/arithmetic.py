"""The language's integer arithmetic on Python numbers, and expressions written with it.

`evaluate.py` writes expressions of the IR as Python texts; this module turns the texts into functions. It imports
nothing, since a program that comes from the disk cache needs the texts but not the IR.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

Number = int | float | bool


def function(text: str) -> Callable[..., tuple[Number, ...]]:
    """The function that a text of `evaluate.text` stands for."""
    return eval(text, _HELPERS)  # type: ignore[no-any-return]


def quotient(a: int, b: int) -> int:
    """Integer division that truncates, as C's."""
    return a // b if (a < 0) == (b < 0) else -(-a // b)


def remainder(a: int, b: int) -> int:
    """What `quotient` leaves; it has the sign of `a`."""
    return a - b * quotient(a, b)


def shift_left(a: int, n: int, kind: int, bits: int) -> Number:
    """`a << n` in a type of `bits` (`kind` as in `convert`): bits that leave it are lost, as in compiled code."""
    return convert(a << n, kind, bits) if 0 <= n < bits else 0


def shift_right(a: int, n: int, bits: int) -> int:
    """`a >> n`: the sign is kept; a shift by the width or more leaves nothing but the sign."""
    return a >> n if 0 <= n < bits else -(a < 0)


def divide(a: float, b: float) -> float:
    """Division of floats, which has a result for every divisor."""
    if b:
        return a / b
    return math.nan if not a or math.isnan(a) else math.copysign(math.inf, a) * math.copysign(1.0, b)


def convert(value: Number, kind: int, bits: int) -> Number:
    """A cast to a signed (kind 0) or unsigned (1) integer, a float (2) or a bool (3): floats to integers truncate and
    saturate, integers wrap."""
    if kind == 3:
        return bool(value)
    if kind == 2:
        return float(value)
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if kind == 0 else (0, (1 << bits) - 1)
    if isinstance(value, float):
        if math.isnan(value):
            return 0
        return int(min(max(value, low), high))
    return (int(value) - low) % (1 << bits) + low


_HELPERS: dict[str, Any] = {
    "__builtins__": {"max": max, "min": min, "abs": abs, "float": float},
    "quotient": quotient,
    "remainder": remainder,
    "convert": convert,
    "divide": divide,
    "shift_left": shift_left,
    "shift_right": shift_right,
    "align_up": lambda v, a: (v + a - 1) // a * a,
    "align_down": lambda v, a: v // a * a,
    "ceiling": lambda a, b: -(-a // b),
}
