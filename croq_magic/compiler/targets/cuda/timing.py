"""How long transfers and kernels of a call take, by events of CUDA on the stream that runs them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple


class Times(NamedTuple):
    """Seconds of one call on the device: copies between host and device, kernels, and from the first to the last of
    them with what lies between."""

    transfer: float
    kernel: float
    total: float

    def __str__(self) -> str:
        parts = (("transfer", self.transfer), ("kernel", self.kernel), ("total", self.total))
        return ", ".join(f"{name} {_text(seconds)}" for name, seconds in parts)


def _text(seconds: float) -> str:
    for unit, scale in (("s", 1.0), ("ms", 1e3), ("us", 1e6)):
        if seconds * scale >= 1 or unit == "us":
            return f"{seconds * scale:.3g} {unit}"
    raise AssertionError


class Timer:
    """Collects pairs of events; `times` waits for them."""

    def __init__(self, cupy: Any) -> None:
        self._cupy = cupy
        self._pairs: list[tuple[str, Any, Any]] = []

    @contextmanager
    def around(self, what: str) -> Iterator[None]:
        """Measures what is put on the current stream inside: "transfer" or "kernel"."""
        first, last = self._cupy.cuda.Event(), self._cupy.cuda.Event()
        first.record()
        yield
        last.record()
        self._pairs.append((what, first, last))

    def times(self) -> Times:
        if not self._pairs:
            return Times(0.0, 0.0, 0.0)
        self._pairs[-1][2].synchronize()
        elapsed = self._cupy.cuda.get_elapsed_time  # milliseconds
        sums = {"transfer": 0.0, "kernel": 0.0}
        for what, first, last in self._pairs:
            sums[what] += elapsed(first, last) * 1e-3
        return Times(sums["transfer"], sums["kernel"], elapsed(self._pairs[0][1], self._pairs[-1][2]) * 1e-3)


class _Current(threading.local):
    timer: Timer | None = None


_current = _Current()


def timer() -> Timer | None:
    """The timer of this thread, while somebody measures."""
    return _current.timer


@contextmanager
def measuring(cupy: Any) -> Iterator[Timer]:
    """Measures the calls that this thread makes inside."""
    outer, _current.timer = _current.timer, Timer(cupy)
    try:
        yield _current.timer
    finally:
        _current.timer = outer
