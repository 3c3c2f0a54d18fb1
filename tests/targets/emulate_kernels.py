"""Running hand-written CUDA text in the emulator."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np

from croq_magic.compiler.targets.emulate import build, kernels
from croq_magic.compiler.targets.emulate.runtime import runtime

Extents = tuple[int, int, int]


def word(value: Any) -> int:
    """A number of a kernel's parameter list as a word."""
    if isinstance(value, int):
        return value & (1 << 64) - 1
    return int.from_bytes(np.asarray(value).tobytes().ljust(8, b"\0"), "little")


def extents(value: int | Sequence[int]) -> Extents:
    x, y, z = (*((value,) if isinstance(value, int) else value), 1, 1)[:3]
    return x, y, z


def run(
    text: str,
    grid: int | Sequence[int],
    block: int | Sequence[int],
    *arguments: Any,
    name: str = "k",
    shared: int = 0,
    checked: bool = True,
    seed: int = 0,
    profiled: bool = False,
    cooperative: bool = False,
) -> kernels.Outcome:
    """Runs the kernel `name` of a text; arrays among the arguments are global buffers, written back afterwards."""
    library = build.library(text, [name], name, checked)
    device = runtime()
    places: list[tuple[int, np.ndarray]] = []
    words = []
    try:
        for value in arguments:
            if isinstance(value, np.ndarray):
                place = device.allocate(value.nbytes)
                ctypes.memmove(place, value.ctypes.data, value.nbytes)
                places.append((place, value))
                words.append(place)
            else:
                words.append(word(value))
        return kernels.launch(
            library,
            name,
            extents(grid),
            extents(block),
            words,
            shared,
            seed=seed,
            profiled=profiled,
            cooperative=cooperative,
        )
    finally:
        for place, value in places:
            ctypes.memmove(value.ctypes.data, place, value.nbytes)
            device.release(place)


def clean(*args: Any, **kwargs: Any) -> kernels.Outcome:
    """`run`, where nothing may be found."""
    outcome = run(*args, **kwargs)
    assert not outcome.findings, "\n".join(f.text for f in outcome.findings)
    return outcome
