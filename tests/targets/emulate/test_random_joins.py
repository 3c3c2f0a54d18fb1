"""Random kernels in the emulator, with every race found, against the CPU target, whose barriers are others.

`CROQ_RANDOM_PROGRAMS` sets how many are run, `CROQ_RANDOM_SEED` the first seed.
"""

from __future__ import annotations

import os
from random import Random

import numpy as np
import pytest
from targets.emulate.random_joins import Kernel

import croq_magic as croq

COUNT = int(os.environ.get("CROQ_RANDOM_PROGRAMS", "8"))
FIRST = int(os.environ.get("CROQ_RANDOM_SEED", "0"))
BATCH = 8  # functions of one text


@pytest.mark.parametrize("first", range(FIRST, FIRST + COUNT, BATCH))
def test_no_barrier_is_missing(first: int) -> None:
    kernels = {f"kernel_{seed}": Kernel(Random(seed)) for seed in range(first, min(first + BATCH, FIRST + COUNT))}
    text = "\n".join(kernel.source(name) for name, kernel in kernels.items())
    here, there = (croq.compile(text, target=target).functions for target in ("cpu", "emulate"))
    for name, kernel in kernels.items():
        x = np.random.default_rng(5).integers(-20, 20, kernel.n).astype(np.int32)
        np.testing.assert_array_equal(there[name](x), here[name](x), name)
