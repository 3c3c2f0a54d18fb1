"""Calling a compiled function: values of its parameters in, a return code or an error out.

Everything that does not change from call to call is prepared once per set of extents, so that a call is one foreign
call of two arguments: the prepared plan and the tuple of values.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from functools import cache, lru_cache
from typing import Any

import numpy as np

from croq_magic.compiler.source import Source
from croq_magic.compiler.targets.cpu import waits
from croq_magic.compiler.targets.cpu.checks import CheckSite
from croq_magic.compiler.targets.cpu.entry import EntryPoint
from croq_magic.compiler.targets.cpu.runtime import CHECK, INTERRUPTED, MEMORY, OK, Plan, Runtime, pending_error
from croq_magic.errors import CheckError, TargetError

_MAX_PLANS = 256


@lru_cache(maxsize=1)
def data_offset() -> int | None:
    """Where a NumPy array object keeps its data pointer: right after the object header, as NumPy's C interface
    fixes it. None if this interpreter lays objects out otherwise."""
    offset = object.__basicsize__
    for count in (1, 7):
        array = np.zeros(count, np.int32)
        if ctypes.c_void_p.from_address(id(array) + offset).value != array.ctypes.data:
            return None
    return offset


@cache
def _numpy_type(name: str) -> np.dtype[Any]:
    try:
        return np.dtype(name)
    except TypeError:  # a type that ml_dtypes adds to NumPy
        import ml_dtypes

        added: np.dtype[Any] = np.dtype(getattr(ml_dtypes, name))
        return added


class Launcher:
    """One function of a loaded module, ready to be called from any thread."""

    def __init__(
        self, runtime: Runtime, address: int, entry: EntryPoint, checks: Sequence[CheckSite], source: Source | None
    ) -> None:
        self.entry = entry
        self._runtime = runtime
        self._invoke = runtime.invoke
        self._address = address
        self._checks = checks
        self._source = source
        self._offset = data_offset()
        self._plans: dict[tuple[int, ...], tuple[int, Plan, Any]] = {}
        self._dims = entry.dims

    @property
    def fills_result(self) -> bool:
        """Every element of the result is stored, so its array may hold anything before the call."""
        return not self.entry.zeroed

    def __call__(self, values: Sequence[Any], dims: Mapping[str, int], result: np.ndarray | None = None) -> Any:
        """Runs the function. `values` has one entry per parameter: a C-contiguous array, a Python number, or a stream
        handle; `result` is the array of zeros (of anything, with `fills_result`) that a returned span is written to.
        Returns a returned scalar.

        Raises `CheckError` for a failed check, `TargetError` without memory, KeyboardInterrupt when interrupted.
        """
        key = tuple([dims[name] for name in self._dims]) if self._dims else ()
        plan = self._plans.get(key) or self._plan(key)
        scalar = None
        if self.entry.result is not None:
            if result is None:
                result = scalar = np.zeros((), _numpy_type(self.entry.result))
            arguments = (*values, result)
        else:
            arguments = tuple(values)
        if self._offset is None:
            arguments = tuple([v.ctypes.data if isinstance(v, np.ndarray) else v for v in arguments])
        code = self._invoke(plan[0], arguments)
        if code != OK:
            self._fail(code)
        return None if scalar is None else scalar[()]

    def prepared(self, dims: Mapping[str, int]) -> Callable[..., Any]:
        """The same as the launcher itself for these `dims`, which are not looked at again in a call."""
        if self._offset is None:
            return self
        prepared = self._plan(tuple([dims[name] for name in self._dims]))  # kept by the function below: an address
        invoke, has_result = self._invoke, self.entry.result is not None

        def launch(values: Sequence[Any], dims: Mapping[str, int], result: np.ndarray | None = None) -> Any:
            if has_result:
                if result is None:
                    return self(values, dims)
                code = invoke(prepared[0], (*values, result))
            else:
                code = invoke(prepared[0], tuple(values))
            if code != OK:
                self._fail(code)
            return None

        return launch

    def _plan(self, dims: tuple[int, ...]) -> tuple[int, Plan, Any]:
        entry = self.entry
        kinds = entry.kinds
        places = [*range(entry.params)]
        if entry.result is not None:
            kinds += "a"
            places.append(entry.params + len(dims))
        if self._offset is None:
            kinds = kinds.replace("a", "i")
        count = entry.params + len(dims) + 1
        words = (ctypes.c_int64 * count)(*[0] * entry.params, *dims, 0)
        indices = (ctypes.c_int32 * max(1, len(places)))(*places)
        plan = Plan(self._address, len(places), count, self._offset or 0, kinds.encode(), indices, words)
        if len(self._plans) >= _MAX_PLANS:
            self._plans.clear()
        prepared = self._plans[dims] = (ctypes.addressof(plan), plan, (words, indices))
        return prepared

    def _fail(self, code: int) -> None:
        name, stopped_by = self.entry.function, pending_error()
        if code == CHECK:
            record = self._runtime.last_failure().contents
            values = record.values[: record.count]
            site = self._checks[record.check]
            if site.kind == "deadlock":
                text, place = waits.deadlock(values, self._checks, self._source)
                raise CheckError(place.shown(name, text, self._source))
            raise CheckError(site.message(name, values, self._source))
        if code == MEMORY:
            raise TargetError(f"{name}: not enough memory for its buffers")
        if code == INTERRUPTED:  # raised while text was written, or the runtime found the signal but no handler raised
            raise stopped_by or KeyboardInterrupt
        raise TargetError(f"{name}: the CPU runtime does not accept the arguments (code {code})")
