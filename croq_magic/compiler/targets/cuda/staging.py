"""Transfers between NumPy arrays and device memory, on a stream.

A copy from memory that the driver has not pinned waits for everything and runs at a fraction of the bus. Large arrays
go through pinned buffers instead, piece by piece: while one is under way, the next is copied into another buffer.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

LEAST = 1 << 20  # bytes; smaller arrays are copied as they are
PIECE = 4 << 20
_TO_DEVICE, _TO_HOST = 1, 2  # cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost


class Staging:
    """Two pinned buffers of one device, and an event for each that says when it is free again."""

    def __init__(self, cupy: Any) -> None:
        self._cupy = cupy
        self._buffers = [cupy.cuda.alloc_pinned_memory(PIECE) for _ in range(2)]
        self._events = [cupy.cuda.Event(disable_timing=True) for _ in range(2)]
        self._used = [False, False]

    def _free(self, turn: int) -> int:
        """The address of a buffer that no copy uses any more."""
        if self._used[turn]:
            self._events[turn].synchronize()
        self._used[turn] = True
        return int(self._buffers[turn].ptr)

    def upload(self, address: int, array: np.ndarray, stream: Any) -> None:
        """Copies an array to the device; its memory may change as soon as this returns."""
        source, turn = array.ctypes.data, 0
        for start in range(0, array.nbytes, PIECE):
            size = min(PIECE, array.nbytes - start)
            buffer = self._free(turn)
            ctypes.memmove(buffer, source + start, size)
            self._cupy.cuda.runtime.memcpyAsync(address + start, buffer, size, _TO_DEVICE, stream.ptr)
            self._events[turn].record(stream)
            turn ^= 1

    def download(self, address: int, array: np.ndarray, stream: Any) -> None:
        """Copies device memory to an array, after all work of the stream, and waits for it."""
        target, turn = array.ctypes.data, 0
        waiting: tuple[int, int, int] | None = None  # buffer, where its piece belongs, bytes
        for start in range(0, array.nbytes, PIECE):
            size = min(PIECE, array.nbytes - start)
            buffer = self._free(turn)
            self._cupy.cuda.runtime.memcpyAsync(buffer, address + start, size, _TO_HOST, stream.ptr)
            self._events[turn].record(stream)
            self._take(waiting, turn ^ 1, target)
            waiting = (buffer, start, size)
            turn ^= 1
        self._take(waiting, turn ^ 1, target)

    def _take(self, waiting: tuple[int, int, int] | None, turn: int, target: int) -> None:
        if waiting is None:
            return
        self._events[turn].synchronize()
        buffer, start, size = waiting
        ctypes.memmove(target + start, buffer, size)


def upload(cupy: Any, staging: Staging | None, address: int, array: np.ndarray) -> None:
    """Copies a contiguous array to the device on the current stream."""
    stream = cupy.cuda.get_current_stream()
    if staging is not None:
        staging.upload(address, array, stream)
    else:  # the driver copies what is not pinned into a buffer of its own before this returns
        cupy.cuda.runtime.memcpyAsync(address, array.ctypes.data, array.nbytes, _TO_DEVICE, stream.ptr)


def download(cupy: Any, staging: Staging | None, address: int, array: np.ndarray) -> None:
    """Copies device memory to a contiguous array, after all work of the current stream."""
    stream = cupy.cuda.get_current_stream()
    if staging is not None:
        staging.download(address, array, stream)
        return
    cupy.cuda.runtime.memcpyAsync(array.ctypes.data, address, array.nbytes, _TO_HOST, stream.ptr)
    stream.synchronize()
