"""Launches on an OpenCL device, through pyopencl: the `Device` of the SIMT targets."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from croq_magic.compiler.targets.opencl.devices import Features, features
from croq_magic.compiler.targets.opencl.runtimes import pyopencl
from croq_magic.compiler.targets.simt import printing
from croq_magic.compiler.targets.simt.device import Extents, Memory
from croq_magic.errors import TargetError

POLLS = 200  # looks at a launch before a thread is started to wait for it: as many take about as long as the thread


class Session:
    """The context of a device and its queue, in order. After an interrupt there is a new queue, as what runs on a
    device cannot be stopped; the old one is kept."""

    def __init__(self, device: Any) -> None:
        cl = pyopencl()
        self.device = device
        self.context = cl.Context([device])
        self.queue = cl.CommandQueue(self.context, device)
        self._abandoned: list[Any] = []

    def abandon(self) -> None:
        """Gives the queue up while it is at work."""
        self._abandoned.append(self.queue)
        self.queue = pyopencl().CommandQueue(self.context, self.device)


@lru_cache(maxsize=8)
def session(device: Any) -> Session:
    """The one session with a device."""
    return Session(device)


class OpenclDevice:
    """A device with the kernels of one built program; `prints` says that kernels print."""

    def __init__(self, device: Any, program: Any, prints: bool = False) -> None:
        self.prints = prints
        self.features: Features = features(device)
        self._cl = pyopencl()
        self._session = session(device)
        self._last: Any = None  # the event of the last launch
        self._kernels: dict[str, Any] = {}
        self._program = program
        self._lock = threading.Lock()  # a kernel's arguments are part of it

    @property
    def unified(self) -> bool:
        return self.features.unified

    # -------------------------------------------------------------------------------------------------------- memory

    def bind(self, array: np.ndarray) -> Memory:
        if not array.flags.writeable:  # only read by kernels, but pyopencl takes no such arrays
            data: Any = (ctypes.c_ubyte * array.nbytes).from_address(array.ctypes.data)
            alias = self._cl.SVM(np.frombuffer(data, np.uint8))
            return alias
        return self._cl.SVM(array)

    def allocate(self, nbytes: int) -> Memory:
        try:
            return self._cl.Buffer(self._session.context, self._cl.mem_flags.READ_WRITE, max(1, nbytes))
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
            self._cl.enqueue_copy(self._session.queue, memory, array.view(np.uint8), is_blocking=True)

    def download(self, memory: Memory, array: np.ndarray) -> None:
        self.synchronize()
        if array.size:
            self._cl.enqueue_copy(self._session.queue, array.view(np.uint8), memory, is_blocking=True)

    def zero(self, memory: Memory, nbytes: int) -> None:
        if nbytes:
            self._cl.enqueue_fill_buffer(self._session.queue, memory, np.uint8(0), 0, nbytes)

    # ------------------------------------------------------------------------------------------------------ launches

    def launch(self, symbol: str, grid: Extents, block: Extents, shared_bytes: int, args: Sequence[Any]) -> None:
        if self.prints:  # some runtimes write while a kernel runs, others when it has ended
            with printing.shown():
                self._launch(symbol, grid, block, shared_bytes, args)
                self.synchronize()
        else:
            self._launch(symbol, grid, block, shared_bytes, args)

    def _launch(self, symbol: str, grid: Extents, block: Extents, shared_bytes: int, args: Sequence[Any]) -> None:
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
                self._last = self._cl.enqueue_nd_range_kernel(self._session.queue, kernel, total, block)
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
        event = self._last  # a later launch of another thread does as well: the queue is in order
        if event is None:
            return
        self._session.queue.flush()
        complete = self._cl.command_execution_status.COMPLETE
        for _ in range(POLLS):
            if event.command_execution_status <= complete:
                break
        else:  # a thread waits, so that this one can be interrupted
            waiter = threading.Thread(target=event.wait, name="croq-opencl", daemon=True)
            waiter.start()
            try:
                while waiter.is_alive():
                    waiter.join(0.05)
            except BaseException:
                self._session.abandon()
                raise
        event.wait()  # raises what went wrong
