"""Launches on an OpenCL device, through pyopencl: the `Device` of the SIMT targets."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from croq_magic.compiler.targets.opencl.devices import Features, features
from croq_magic.compiler.targets.opencl.runtimes import pyopencl
from croq_magic.compiler.targets.simt.device import Extents, Memory
from croq_magic.errors import TargetError


@lru_cache(maxsize=8)
def session(device: Any) -> tuple[Any, Any]:
    """The context of a device and its one queue, in order."""
    cl = pyopencl()
    context = cl.Context([device])
    return context, cl.CommandQueue(context, device)


class OpenclDevice:
    """A device with the kernels of one built program."""

    def __init__(self, device: Any, program: Any) -> None:
        self.features: Features = features(device)
        self._cl = pyopencl()
        self._context, self._queue = session(device)
        self._kernels: dict[str, Any] = {}
        self._program = program
        self._lock = threading.Lock()  # a kernel's arguments are part of it

    @property
    def unified(self) -> bool:
        return self.features.unified

    # -------------------------------------------------------------------------------------------------------- memory

    def bind(self, array: np.ndarray) -> Memory:
        return self._cl.SVM(array)

    def allocate(self, nbytes: int) -> Memory:
        try:
            return self._cl.Buffer(self._context, self._cl.mem_flags.READ_WRITE, max(1, nbytes))
        except self._cl.MemoryError:
            raise MemoryError from None
        except self._cl.LogicError as error:  # more than one allocation may have
            if error.code == self._cl.status_code.INVALID_BUFFER_SIZE:
                raise MemoryError from None
            raise

    def release(self, memory: Memory) -> None:
        memory.release()

    def upload(self, memory: Memory, array: np.ndarray) -> None:
        if array.size:
            self._cl.enqueue_copy(self._queue, memory, array.view(np.uint8), is_blocking=True)

    def download(self, memory: Memory, array: np.ndarray) -> None:
        if array.size:
            self._cl.enqueue_copy(self._queue, array.view(np.uint8), memory, is_blocking=True)
        else:
            self.synchronize()

    def zero(self, memory: Memory, nbytes: int) -> None:
        if nbytes:
            self._cl.enqueue_fill_buffer(self._queue, memory, np.uint8(0), 0, nbytes)

    # ------------------------------------------------------------------------------------------------------ launches

    def launch(self, symbol: str, grid: Extents, block: Extents, shared_bytes: int, args: Sequence[Any]) -> None:
        self._check(block)
        try:
            with self._lock:
                kernel = self._kernels.get(symbol)
                if kernel is None:
                    kernel = self._kernels[symbol] = self._cl.Kernel(self._program, symbol)
                position = 0
                for arg in args:
                    kernel.set_arg(position, arg)
                    position += 1
                if shared_bytes:
                    kernel.set_arg(position, self._cl.LocalMemory(shared_bytes))
                total = (grid[0] * block[0], grid[1] * block[1], grid[2] * block[2])
                self._cl.enqueue_nd_range_kernel(self._queue, kernel, total, block)
        except self._cl.Error as error:
            raise self._failure(error, block, shared_bytes) from None

    def _check(self, block: Extents) -> None:
        threads = block[0] * block[1] * block[2]
        if threads > self.features.threads:
            raise TargetError(
                f"a block has {threads} threads, {self.features.device} runs at most {self.features.threads}"
            )

    def _failure(self, error: Any, block: Extents, shared_bytes: int) -> TargetError:
        codes = self._cl.status_code
        if error.code in (codes.MEM_OBJECT_ALLOCATION_FAILURE, codes.OUT_OF_HOST_MEMORY):
            return TargetError(f"not enough memory on {self.features.device}")
        if error.code == codes.OUT_OF_RESOURCES:
            return TargetError(
                f"{self.features.device} has too few resources for a block of {block[0] * block[1] * block[2]} threads "
                f"({shared_bytes} bytes of dynamic shared memory)"
            )
        return TargetError(f"{self.features.device} does not run the kernel: {error}")

    def synchronize(self) -> None:
        self._queue.finish()
