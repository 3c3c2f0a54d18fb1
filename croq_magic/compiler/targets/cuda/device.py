"""Launches on a GPU through CuPy: the `Device` of the SIMT targets. Everything goes to CuPy's current stream."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from croq_magic.compiler.targets.cuda import faults, staging, timing
from croq_magic.compiler.targets.simt import printing
from croq_magic.compiler.targets.simt.device import Extents, Memory
from croq_magic.errors import CroqError, TargetError

_MAX_DYNAMIC_SHARED = 8  # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
_PROCESSORS = 16  # cudaDevAttrMultiProcessorCount
_HOST_PAGES = 100  # cudaDevAttrPageableMemoryAccessUsesHostPageTables
_MOST_BLOCKS = 65535  # of the axes y and z of a grid
_LOCK = threading.RLock()


@lru_cache(maxsize=16)
def _staging(cupy: Any, number: int) -> staging.Staging:
    return staging.Staging(cupy)


@lru_cache(maxsize=16)
def _least_staged(cupy: Any, number: int) -> int:
    """Arrays of more bytes than this go through pinned memory. A device that shares the host's page tables reads
    pageable memory by itself, after the call has returned, so there all do."""
    return 0 if cupy.cuda.runtime.deviceGetAttribute(_HOST_PAGES, number) == 1 else staging.LEAST


class CudaDevice:
    """One GPU with the kernels of one module. `cooperative` names those whose blocks meet; `prints` says that kernels
    print.

    Memory is a `MemoryPointer` of CuPy's pool. What the pool gets back may be used again by later work of the same
    stream only, so nothing has to be waited for.
    """

    unified = False
    asynchronous = True

    def __init__(self, cupy: Any, number: int, cubin: bytes | None, cooperative: frozenset[str], prints: bool) -> None:
        self.number = number
        self.cooperative = cooperative
        self.prints = prints
        self._cupy = cupy
        self._functions: dict[str, Any] = {}
        self._shared: dict[str, int] = {}
        self._rooms: dict[tuple[str, int, int], int] = {}
        self._module: Any = None
        if cubin is not None:
            faults.require_context()
            try:
                self._module = cupy.cuda.Module()
                self._module.load(cubin)
            except Exception as error:
                raise self._explained(error) from None

    def function(self, symbol: str) -> Any:
        """The kernel of that name, as CuPy calls it."""
        found = self._functions.get(symbol)
        if found is None:
            found = self._functions[symbol] = self._module.get_function(symbol)
        return found

    def ready(self, shared: Mapping[str, int]) -> Mapping[str, Any]:
        """The kernels, each ready to be called with that much dynamic shared memory in bytes."""
        for symbol, size in shared.items():
            self._allow(symbol, size)
        return {symbol: self.function(symbol) for symbol in shared}

    def _allow(self, symbol: str, shared_bytes: int) -> None:
        """Shared memory above 48 KiB, static and dynamic together, has to be asked for."""
        if shared_bytes > self._shared.get(symbol, 0):
            try:
                self._cupy.cuda.driver.funcSetAttribute(self.function(symbol).ptr, _MAX_DYNAMIC_SHARED, shared_bytes)
            except Exception as error:
                raise self._explained(error, symbol, f"{shared_bytes} bytes of shared memory a block") from None
            self._shared[symbol] = shared_bytes

    def _explained(self, error: Exception, kernel: str = "", needs: str = "") -> Exception:
        return faults.explain(error, kernel, self._text(), needs) or error

    def _text(self) -> str:
        return faults.device_text(self._cupy, self.number)

    # -------------------------------------------------------------------------------------------------------- memory

    def bind(self, array: np.ndarray) -> Memory:
        raise NotImplementedError("arrays of the host are copied")

    def adopt(self, array: Any) -> Memory:
        """The memory of an array that is on the device."""
        return array.data

    def allocate(self, nbytes: int) -> Memory:
        try:
            return self._cupy.cuda.alloc(max(1, nbytes))
        except self._cupy.cuda.memory.OutOfMemoryError:
            raise MemoryError from None

    def release(self, memory: Memory) -> None:
        """CuPy's pool has it back when nobody refers to it."""

    def upload(self, memory: Memory, array: np.ndarray) -> None:
        if not array.nbytes:
            return
        with self._transfer(), printing.shown(self.prints):
            staging.upload(self._cupy, self._pinned(array), memory.ptr, array)

    def download(self, memory: Memory, array: np.ndarray) -> None:
        if not array.nbytes:
            self.synchronize()
            return
        with self._transfer(), printing.shown(self.prints):
            staging.download(self._cupy, self._pinned(array), memory.ptr, array)

    def copy(self, target: Memory, source: Memory, nbytes: int) -> None:
        """Copies within the device."""
        with self._transfer():
            target.copy_from_device_async(source, nbytes)

    def zero(self, memory: Memory, nbytes: int) -> None:
        if nbytes:
            memory.memset_async(0, nbytes)

    def _pinned(self, array: np.ndarray) -> staging.Staging | None:
        least = _least_staged(self._cupy, self.number)
        return _staging(self._cupy, self.number) if array.nbytes > least else None

    @contextlib.contextmanager
    def _transfer(self) -> Any:
        timer = timing.timer()
        try:
            with timer.around("transfer") if timer is not None else contextlib.nullcontext():
                if self._needs_lock():
                    with _LOCK:  # of two threads each takes the buffers for a whole transfer
                        yield
                else:
                    yield
        except CroqError:
            raise
        except Exception as error:
            raise self._explained(error) from None

    @staticmethod
    def _needs_lock() -> bool:
        return threading.active_count() > 1

    # ------------------------------------------------------------------------------------------------------ launches

    def launch(self, symbol: str, grid: Extents, block: Extents, shared_bytes: int, args: Sequence[Any]) -> None:
        faults.require_context()
        threads, blocks = block[0] * block[1] * block[2], grid[0] * grid[1] * grid[2]
        together = symbol in self.cooperative
        try:
            function = self.function(symbol)
            self._allow(symbol, shared_bytes)
            if together and blocks > self._room(symbol, threads, shared_bytes):
                raise faults.no_room(symbol, blocks, threads, shared_bytes, self._text())
            timer = timing.timer()
            # A launch prints what earlier kernels have left in the buffer of `printf`.
            with timer.around("kernel") if timer is not None else contextlib.nullcontext(), printing.shown(self.prints):
                function(grid, block, tuple(map(plain, args)), shared_bytes, None, together)
        except CroqError:
            raise
        except Exception as error:
            needs = f"{threads} threads and {shared_bytes} bytes of shared memory a block"
            if isinstance(error, OverflowError) or max(grid[1:]) > _MOST_BLOCKS:
                needs = f"a grid of {grid[0]} x {grid[1]} x {grid[2]} blocks"
                raise TargetError(f"`{symbol}`: {self._text()} does not take {needs}") from None
            raise self._explained(error, symbol, needs) from None

    def _room(self, symbol: str, threads: int, shared_bytes: int) -> int:
        """How many blocks of a kernel run at the same time. CuPy would start that many of a larger grid, and warn."""
        key = symbol, threads, shared_bytes
        found = self._rooms.get(key)
        if found is None:
            cuda = self._cupy.cuda
            each = cuda.driver.occupancyMaxActiveBlocksPerMultiprocessor(
                self.function(symbol).ptr, threads, shared_bytes
            )
            found = self._rooms[key] = each * cuda.runtime.deviceGetAttribute(_PROCESSORS, self.number)
        return found

    def synchronize(self) -> None:
        """Waits for the current stream. TargetError, with the kernel's name, for what failed on it."""
        try:
            with printing.shown(self.prints):
                self._cupy.cuda.get_current_stream().synchronize()
            faults.all_well()
        except CroqError:
            raise
        except Exception as error:
            raise self._explained(error) from None


def plain(value: Any) -> Any:
    """An argument as CuPy takes it; it knows no scalars of ml_dtypes, whose bits are those of an integer."""
    if type(value).__module__.startswith("ml_dtypes"):
        return np.frombuffer(value.tobytes(), f"u{value.itemsize}")[0]
    return value
