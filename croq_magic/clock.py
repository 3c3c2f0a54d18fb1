"""How long the steps of a cell take."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")


class Clock:
    """Seconds spent, by what they were spent on; `device` says what they were spent on there."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self.device: Any = None

    def time(self, what: str, function: Callable[..., T], *args: Any) -> T:
        started = time.perf_counter()
        value = function(*args)
        self.seconds[what] = self.seconds.get(what, 0.0) + time.perf_counter() - started
        return value

    def __str__(self) -> str:
        parts = (f"{what} in " + (f"{s * 1e3:.3g} ms" if s < 1 else f"{s:.2f} s") for what, s in self.seconds.items())
        text = ", ".join(parts)
        return text if self.device is None else f"{text}\non the device: {self.device}"
