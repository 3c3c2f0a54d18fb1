"""Random programs with their results: each maker builds one tileflow function and computes with NumPy what it returns.

`make(seed)` gives the same program for the same seed on every machine. Sizes are small and awkward (1, primes, numbers
that no power of two divides); integers and integer-valued floats make every comparison exact.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from .base import Program
from .nests import elementwise, permute
from .tiles import matrix_product, reduction, stencil, tiles
from .view_chains import view_chain

MAKERS: tuple[Callable[[Random], Program], ...] = (
    view_chain,
    view_chain,
    elementwise,
    permute,
    tiles,
    matrix_product,
    stencil,
    reduction,
)


def make(seed: int) -> Program:
    """The program of a seed."""
    r = Random(seed)
    return r.choice(MAKERS)(r)


__all__ = ["MAKERS", "Program", "make"]
