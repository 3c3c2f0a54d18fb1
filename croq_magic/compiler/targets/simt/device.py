"""What running a host body needs of a device: memory, and launches of kernels in order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

Memory = Any  # what a device calls its memory: a handle that only the device understands
Extents = tuple[int, int, int]


class Device(Protocol):
    """A device with the kernels of one module loaded. Work is done in the order in which it is asked for; only
    `download` and `synchronize` wait for it.

    `unified`: kernels read and write arrays of the host where they lie. Then `bind` is used instead of `allocate`,
    `upload`, `download` and `zero`. Arrays are one-dimensional and C-contiguous.

    A device may be `asynchronous` (False where it does not say): work may go on when a call has returned, and memory
    that is released goes to later work only. Callers may then have arrays on it: `adopt(array)` is the memory of one,
    `copy(target, source, nbytes)` copies within the device. `prints` says that its kernels do, so that calls wait.
    """

    @property
    def unified(self) -> bool: ...

    def bind(self, array: np.ndarray) -> Memory:
        """The memory of an array of the host; only where `unified`."""
        ...

    def allocate(self, nbytes: int) -> Memory:
        """Memory with unspecified contents. MemoryError if there is not enough."""
        ...

    def release(self, memory: Memory) -> None:
        """Gives memory of `allocate` back, after the work that uses it."""
        ...

    def upload(self, memory: Memory, array: np.ndarray) -> None: ...

    def download(self, memory: Memory, array: np.ndarray) -> None:
        """Copies memory to an array, after all work so far."""
        ...

    def zero(self, memory: Memory, nbytes: int) -> None: ...

    def launch(self, symbol: str, grid: Extents, block: Extents, shared_bytes: int, args: Sequence[Any]) -> None:
        """Starts a kernel. `args` has, per parameter of the kernel, memory or a NumPy scalar of the parameter's type.
        TargetError when the device cannot run it (too many threads, too much shared memory)."""
        ...

    def synchronize(self) -> None:
        """Waits for all work."""
        ...
