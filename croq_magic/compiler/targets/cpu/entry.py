"""How a compiled function is called."""

from __future__ import annotations

from typing import NamedTuple


class EntryPoint(NamedTuple):
    """How to call one function.

    `kinds` has one letter per parameter: "a" array, "i" integer or truth value, "f" f32, "d" other floats, as f64,
    "-" stream; `dims` names the symbolic dimensions; `result` is the NumPy name of the element type of what is
    returned, None for nothing; `zeroed` says that the result's array must be zero before the call.
    """

    function: str
    symbol: str
    kinds: str
    dims: tuple[str, ...]
    result: str | None
    zeroed: bool = True

    @property
    def params(self) -> int:
        return len(self.kinds)
