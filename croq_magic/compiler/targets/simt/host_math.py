"""The math builtins of the language for scalars of the host part. Results are f64; the caller rounds them."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np


def _of_numpy(name: str) -> Callable[..., float]:
    function: Callable[..., Any] = getattr(np, name)

    def compute(*args: float) -> float:
        with np.errstate(all="ignore"):
            return float(function(*map(np.float64, args)))

    return compute


def _round(x: float) -> float:
    """Half away from zero."""
    return math.copysign(math.floor(abs(x) + math.nextafter(0.5, 0.0)), x) if math.isfinite(x) else x


def _sign(x: float) -> float:
    return float((x > 0) - (x < 0))


def _whole(function: Callable[[float], int]) -> Callable[[float], float]:
    return lambda x: math.copysign(function(x), x) if math.isfinite(x) else x


def fma(a: float, b: float, c: float) -> float:
    """a * b + c, rounded to f64 once."""
    if not all(map(math.isfinite, (a, b, c))):
        return a * b + c
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    try:
        return float(exact) if exact else a * b + c
    except OverflowError:
        return math.inf if exact > 0 else -math.inf


def largest(a: float, b: float) -> float:
    """A NaN loses."""
    chosen = b if a < b else a
    return b if a != a else chosen


def smallest(a: float, b: float) -> float:
    chosen = b if b < a else a
    return b if a != a else chosen


_exp, _sqrt, _log1p, _tanh = map(_of_numpy, ("exp", "sqrt", "log1p", "tanh"))


def divide(a: float, b: float) -> float:
    """Division of floats, which has a result for every divisor."""
    if b:
        return a / b
    return math.nan if not a or math.isnan(a) else math.copysign(math.inf, a) * math.copysign(1.0, b)


def _sigmoid(x: float) -> float:
    e = _exp(-abs(x))
    return (e if x < 0 else 1.0) / (1.0 + e)


def _softplus(x: float) -> float:
    return max(x, 0.0) + _log1p(_exp(-abs(x))) if x == x else x


def _gelu(x: float) -> float:
    return divide(x, 1.0 + _exp(-2.0 * (0.79788456 * (x + 0.044715 * (x * x * x)))))


BUILTINS: dict[str, Callable[..., float]] = {
    "__sin": _of_numpy("sin"),
    "__cos": _of_numpy("cos"),
    "__tan": _of_numpy("tan"),
    "__asin": _of_numpy("arcsin"),
    "__acos": _of_numpy("arccos"),
    "__atan": _of_numpy("arctan"),
    "__atan2": _of_numpy("arctan2"),
    "__sinh": _of_numpy("sinh"),
    "__cosh": _of_numpy("cosh"),
    "__tanh": _tanh,
    "__exp": _exp,
    "__exp2f": _of_numpy("exp2"),
    "__expm1": _of_numpy("expm1"),
    "__log": _of_numpy("log"),
    "__log1p": _log1p,
    "__pow": _of_numpy("power"),
    "__sqrt": _sqrt,
    "__rsqrt": lambda x: divide(1.0, _sqrt(x)),
    "__frcp_rn": lambda x: divide(1.0, x),
    "__fmaf": fma,
    "__fabs": abs,
    "__sign": _sign,
    "__ceil": _whole(math.ceil),
    "__floor": _whole(math.floor),
    "__round": _round,
    "__isfinite": lambda x: float(math.isfinite(x)),
    "__max": largest,
    "__min": smallest,
    "__sigmoid": _sigmoid,
    "__softplus": _softplus,
    "__gelu": _gelu,
}
