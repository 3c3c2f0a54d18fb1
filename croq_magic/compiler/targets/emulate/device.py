"""The emulator as a device for the host part of a program: memory between red zones, launches that end at once."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from croq_magic.compiler.source import Source
from croq_magic.compiler.targets.emulate import kernels
from croq_magic.compiler.targets.emulate.build import Library
from croq_magic.compiler.targets.emulate.profile import Profile, Row, merged
from croq_magic.compiler.targets.emulate.runtime import Extents, runtime, seed
from croq_magic.errors import CheckError, TargetError


class _Collected(threading.local):
    """Where the rows of this thread's launches go while somebody profiles."""

    tables: list[list[Row]] | None = None


_collected = _Collected()


@contextmanager
def collecting() -> Iterator[list[list[Row]]]:
    """Profiles the launches that this thread makes inside; one table each."""
    outer, _collected.tables = _collected.tables, []
    try:
        yield _collected.tables
    finally:
        _collected.tables = outer


def profile(call: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Profile:
    """Calls a function and gives the counts of the launches that it makes."""
    with collecting() as tables:
        call(*args, **kwargs)
    return merged(tables)


class EmulatedDevice:
    """The kernels of one module. `reports` says which argument of a kernel is the record of failed checks, `together`
    names the kernels whose blocks must all run at the same time.

    In the checked mode memory is the emulator's own, so that a kernel that leaves a buffer is seen; in the fast one
    kernels work on the caller's arrays.
    """

    def __init__(
        self,
        library: Library | None,
        reports: Mapping[str, int],
        source: Source | None,
        together: Collection[str] = (),
    ) -> None:
        self.library, self.reports, self.source, self.together = library, reports, source, together
        self._runtime = runtime()

    @property
    def unified(self) -> bool:
        return self.library is not None and not self.library.checked

    def bind(self, array: np.ndarray) -> int:
        """The address of an array."""
        return array.ctypes.data

    def allocate(self, nbytes: int) -> int:
        memory = self._runtime.allocate(nbytes)
        self._runtime.filled(memory, False)
        return memory

    def release(self, memory: int) -> None:
        self._runtime.release(memory)

    def upload(self, memory: int, array: np.ndarray) -> None:
        ctypes.memmove(memory, array.ctypes.data, array.nbytes)
        self._runtime.filled(memory, True)

    def download(self, memory: int, array: np.ndarray) -> None:
        ctypes.memmove(array.ctypes.data, memory, array.nbytes)

    def zero(self, memory: int, nbytes: int) -> None:
        ctypes.memset(memory, 0, nbytes)
        self._runtime.filled(memory, True)

    def synchronize(self) -> None:
        pass

    def launch(self, symbol: str, grid: Extents, block: Extents, shared_bytes: int, args: Sequence[Any]) -> None:
        """Runs a kernel. `CheckError` for what the emulator finds, TargetError for a launch that no GPU accepts."""
        assert self.library is not None
        words = [_word(value) for value in args]
        tables = _collected.tables
        if tables is not None and not self.library.checked:
            raise TargetError("the fast mode of the emulator counts nothing: compile without CROQ_EMULATE=fast")
        try:
            outcome = kernels.launch(
                self.library,
                symbol,
                grid,
                block,
                words,
                shared_bytes,
                seed=seed(),
                profiled=tables is not None,
                cooperative=symbol in self.together,
                source=self.source,
            )
        except MemoryError as error:
            raise TargetError(f"{symbol}: {error}") from None
        if tables is not None:
            tables.append(outcome.rows)
        if not outcome.findings or self._failed(symbol, words):
            return
        raise CheckError("\n".join(found.text for found in outcome.findings))

    def _failed(self, symbol: str, words: Sequence[int]) -> bool:
        """Whether a check of the program has failed: then that is the error, and findings follow from it."""
        at = self.reports.get(symbol)
        return at is not None and ctypes.c_int64.from_address(words[at]).value != 0


def _word(value: Any) -> int:
    """An argument as a word of eight bytes: an address, or the bytes of a number."""
    if isinstance(value, int):
        return value & (1 << 64) - 1
    return int.from_bytes(np.asarray(value).tobytes().ljust(8, b"\0"), "little")
