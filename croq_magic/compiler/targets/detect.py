"""Whether this machine may have a GPU: what "auto" asks first, without loading anything for it."""

from __future__ import annotations

import ctypes
import sys
from typing import NamedTuple

DRIVER = "libcuda.so.1"
ELSEWHERE = "`-t cpu` and `-t emulate` need no GPU"


class Problem(NamedTuple):
    """Why the target cuda cannot be used, in one sentence. `no_gpu`: there is none, so nobody expects it to be used."""

    text: str
    no_gpu: bool = False


def no_driver() -> Problem | None:
    """The problem of a machine without a CUDA driver; None where there is one, or a CuPy that can be asked."""
    if "cupy" in sys.modules:
        return None
    try:
        ctypes.CDLL(DRIVER)
    except OSError:
        return NO_DRIVER
    return None


NO_DRIVER = Problem(f"the target cuda needs an NVIDIA GPU, and no CUDA driver was found here; {ELSEWHERE}", True)
