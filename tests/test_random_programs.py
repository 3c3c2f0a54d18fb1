"""Random programs against NumPy.

`CROQ_RANDOM_PROGRAMS` sets how many are run, `CROQ_RANDOM_SEED` the first seed: a failure names the one of its program.
"""

from __future__ import annotations

import os

import numpy as np
import pytest
from programs.generated import Program, make

import croq_magic as croq

COUNT = int(os.environ.get("CROQ_RANDOM_PROGRAMS", "40"))
FIRST = int(os.environ.get("CROQ_RANDOM_SEED", "0"))
BATCH = 8  # functions of one text


def run(seed: int, program: Program, function: croq.TileFunction) -> None:
    before = [array.copy() for array in program.inputs]
    result = function(*program.inputs)
    context = f"seed {seed}\n{program.source('f')}"
    assert result.dtype == program.expected.dtype, context
    np.testing.assert_array_equal(result, program.expected, context)
    for array, old in zip(program.inputs, before, strict=True):
        np.testing.assert_array_equal(array, old, context)


@pytest.mark.parametrize("first", range(FIRST, FIRST + COUNT, BATCH))
def test_random_programs(first: int) -> None:
    programs = {seed: make(seed) for seed in range(first, min(first + BATCH, FIRST + COUNT))}
    unit = croq.compile("\n".join(p.source(f"program_{seed}") for seed, p in programs.items()), target="cpu")
    for seed, program in programs.items():
        run(seed, program, unit.functions[f"program_{seed}"])


def test_the_same_seed_gives_the_same_program() -> None:
    for seed in range(20):
        one, other = make(seed), make(seed)
        assert one.source("f") == other.source("f")
        np.testing.assert_array_equal(one.expected, other.expected)
