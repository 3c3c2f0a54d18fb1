"""Threads that `inthreads` selects share copies, fills and whole-span arithmetic out, and meet around them."""

from __future__ import annotations

import os
from random import Random

import numpy as np
import pytest
from masked_kernels import (
    FLAT,
    FOURS,
    KINDS,
    LONG,
    NESTED,
    SELECTIONS,
    SIZE,
    TURNS,
    WARPS,
    Levels,
    Masked,
    random_masked,
)

import croq_magic as croq

COUNT = int(os.environ.get("CROQ_RANDOM_PROGRAMS", "8"))
FIRST = int(os.environ.get("CROQ_RANDOM_SEED", "0"))
BATCH = 8

x = np.random.default_rng(3).integers(-50, 50, (TURNS, SIZE)).astype(np.int32)


def check(kernels: list[Masked]) -> None:
    program = croq.compile("\n".join(kernel.source() for kernel in kernels), target="cpu")
    for kernel in kernels:
        np.testing.assert_array_equal(program.functions[kernel.name](x), kernel.expected(x), kernel.source())


@pytest.mark.parametrize("joined", [False, True], ids=["async", "joined"])
@pytest.mark.parametrize("levels", SELECTIONS, ids=["flat", "long", "warps", "fours", "plane"])
def test_selected_threads_work_together(levels: Levels, joined: bool) -> None:
    """Every kind of statement in one kernel of each selection."""
    kinds = [kind for name, kind in KINDS.items() if name != "ahead"]
    last = KINDS["ahead"]
    kernels = []
    for number, predicate in enumerate(SELECTIONS[levels]):
        kind = last if number % 3 == 0 else kinds[number % len(kinds)]
        kernels.append(Masked(f"mask_{number}", levels, (predicate,), (kind,), joined))
    check(kernels)


@pytest.mark.parametrize("levels", [FLAT, LONG, WARPS, FOURS], ids=["flat", "long", "warps", "fours"])
def test_selections_within_selections(levels: Levels) -> None:
    check(
        [
            Masked(f"mask_{number}", levels, (predicate,), (NESTED,), inner="t >= 8")
            for number, predicate in enumerate(SELECTIONS[levels][::2])
        ]
    )


@pytest.mark.parametrize(
    ("levels", "predicates"),
    [
        (FLAT, ("t < 32", "t >= 32")),
        (FLAT, ("t % 2 == 0", "t % 2 == 1")),
        (FLAT, ("t < 40", "t >= 40")),
        (WARPS, ("w < 2", "w >= 2")),
        (WARPS, ("w == 0", "w == 1", "w >= 2")),
        (WARPS, ("!(w == 1)", "w == 1")),
        (WARPS, ("t < 16", "t >= 16")),
        (FOURS, ("g == 0", "g == 1")),
        (FOURS, ("t < 64", "t >= 64")),
    ],
)
def test_roles_beside_each_other(levels: Levels, predicates: tuple[str, ...]) -> None:
    names = list(KINDS)
    check(
        [
            Masked(f"mask_{first}", levels, predicates, tuple(KINDS[names[(first + i) % len(names)]] for i, _ in parts))
            for parts in [list(enumerate(predicates))]
            for first in range(3)
        ]
    )


@pytest.mark.parametrize("first", range(FIRST, FIRST + COUNT, BATCH))
def test_random_selections(first: int) -> None:
    check([random_masked(Random(seed), f"mask_{seed}") for seed in range(first, min(first + BATCH, FIRST + COUNT))])
