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
    "align_up": lambda v, a: (v + a - 1) // a * a,
    "align_down": lambda v, a: v // a * a,
    "ceiling": lambda a, b: -(-a // b),
}
