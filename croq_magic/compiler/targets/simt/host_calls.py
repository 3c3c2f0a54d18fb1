"""What the Python text of a host body calls (`host_emit.py` writes it): spans with a copy on the device, launches."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from croq_magic.compiler.arithmetic import shift_left, shift_right
from croq_magic.compiler.targets.simt import elements, host_math
from croq_magic.compiler.types import BY_NAME, DType, Kind
from croq_magic.errors import CheckError, TargetError

if TYPE_CHECKING:
    from croq_magic.compiler.targets.simt.device import Device, Extents
    from croq_magic.compiler.targets.simt.host import HostProgram

_ABANDONED: list[Any] = []  # calls that were interrupted while a device was at work: what it may write to stays alive
REPORT_WORDS = 64  # as in emission.py, which a program from the cache does not load


class Span:
    """A buffer in global memory: an array of the host, memory of the device, or both, copied when it is needed.

    `array` is flat. Where the device is unified there is one memory, and only order matters.
    """

    __slots__ = (
        "_access", "array", "call", "count", "dtype", "memory", "on_device", "on_host", "output", "resident", "zeroed",
    )  # fmt: skip

    def __init__(self, call: Call, dtype: DType, count: int, array: np.ndarray | None, zeroed: bool) -> None:
        self.call = call
        self.dtype = dtype
        self.count = count
        self.array = array
        self.zeroed = zeroed
        self.memory: Any = None
        self.on_host = array is not None
        self.on_device = False
        self.output = False  # the caller looks at the array after the call
        self.resident = False  # the caller's array is memory of the device
        self._access: tuple[elements.Get, elements.Set] | None = None

    @property
    def nbytes(self) -> int:
        return self.count * elements.storage(self.dtype).itemsize

    def device(self, written: bool) -> Any:
        """The memory on the device, with the current contents; `written`: a kernel is about to change them."""
        call = self.call
        if call.unified:
            if self.memory is None:
                self.memory = call.device.bind(self._storage())
            return self.memory
        if self.memory is None:
            self.memory = call.allocate(self.nbytes)
        if not self.on_device:
            if self.on_host:
                call.device.upload(self.memory, self._storage())
            elif self.zeroed:
                call.device.zero(self.memory, self.nbytes)
            self.on_device = True
        if written:
            self.on_host = False
        return self.memory

    def host(self, written: bool = False) -> np.ndarray:
        """The array with the current contents; `written`: it is about to change."""
        if self.call.pending:
            self.call.settle()
        array = self._storage()
        if not self.call.unified:
            if not self.on_host and self.on_device:
                self.call.device.download(self.memory, array)
            self.on_host = True
            if written:
                self.on_device = False
        return array

    def _storage(self) -> np.ndarray:
        if self.array is None:
            self.array = self.call.new_array(self.count, self.dtype, self.zeroed)
        return self.array

    def get(self, index: int) -> Any:
        """One element, as a Python number."""
        call = self.call
        if self._access is None or call.pending or not (self.on_host or call.unified):
            self._access = elements.access(self.host(), self.dtype)
        return self._access[0](index)

    def set(self, index: int, value: Any) -> None:
        call = self.call
        if self._access is None or call.pending or self.on_device or not (self.on_host or call.unified):
            self._access = elements.access(self.host(True), self.dtype)
        self._access[1](index, value)

    def adopt(self, array: Any) -> None:
        """The span's memory is that of an array on the device."""
        self.memory = self.call.device.adopt(array)
        self.resident = True
        self.on_host = False

    def take(self, source: Span) -> bool:
        """Copies all of another span within the device, if its contents are there and the device can; says whether."""
        call = self.call
        same = self.dtype is source.dtype and self.count == source.count and self is not source
        if call.unified or not call.asynchronous or not source.on_device or not same:
            return False
        if self.memory is None:
            self.memory = call.allocate(self.nbytes)
        call.device.copy(self.memory, source.memory, self.nbytes)
        call.pending = True
        self.on_device, self.on_host = True, False
        return True

    def fill(self, value: Any) -> None:
        """Every element becomes `value`; what was there is not needed."""
        if not self.on_host and not self.call.unified:
            self.on_device = False
        array = self.host(True)
        array.fill(elements.encode(value, self.dtype))


class Window:
    """A view of a span."""

    def __init__(self, span: Span, extents: Sequence[int]) -> None:
        self.span = span
        self.extents = extents

    def read(self) -> np.ndarray:
        """The elements, as an array with the view's extents."""
        raise NotImplementedError

    def write(self, values: Any) -> None:
        raise NotImplementedError

    def fill(self, value: Any) -> None:
        self.write(elements.encode(value, self.span.dtype))


class Strided(Window):
    """A view whose offsets are affine in its coordinates."""

    def __init__(self, span: Span, first: int, extents: Sequence[int], strides: Sequence[int]) -> None:
        super().__init__(span, extents)
        self.first = first
        self.strides = strides

    @property
    def is_whole(self) -> bool:
        """Whether this is all of the span, in its order."""
        step, count = 1, self.span.count
        for extent, stride in zip(reversed(self.extents), reversed(self.strides), strict=True):
            if extent != 1 and stride != step:
                return False
            step *= extent
        return self.first == 0 and step == count

    def _window(self, array: np.ndarray) -> np.ndarray:
        size = array.itemsize
        start = array[self.first :]
        return np.lib.stride_tricks.as_strided(start, self.extents, [s * size for s in self.strides])

    def read(self) -> np.ndarray:
        return self._window(self.span.host())

    def write(self, values: Any) -> None:
        self._window(self.span.host(True))[...] = values


class Listed(Window):
    """A view whose offsets a function gives; -1 is an element outside the array, which reads as zero and is not
    written."""

    def __init__(self, span: Span, extents: Sequence[int], offset: Callable[..., int]) -> None:
        super().__init__(span, extents)
        places = itertools.starmap(offset, itertools.product(*map(range, extents)))
        self.offsets = np.fromiter(places, np.int64).reshape(tuple(extents))

    def read(self) -> np.ndarray:
        outside = self.offsets < 0
        values: np.ndarray = self.span.host()[np.where(outside, 0, self.offsets)]
        values[outside] = np.zeros((), values.dtype)
        return values

    def write(self, values: Any) -> None:
        inside = self.offsets >= 0
        self.span.host(True)[self.offsets[inside]] = np.broadcast_to(values, self.offsets.shape)[inside]


def copy(source: Window, to: Window, permutation: Sequence[int] | None) -> None:
    """A transfer between views of equal extents."""
    if permutation is None and _is_whole(source) and _is_whole(to) and to.span.take(source.span):
        return
    values = source.read()
    if permutation is not None:
        values = values.transpose(permutation)
    if source.span is to.span:
        values = values.copy()
    to.write(values)


def _is_whole(window: Window) -> bool:
    return isinstance(window, Strided) and window.is_whole


class Call:
    """One run of a host program."""

    def __init__(self, program: HostProgram, device: Device) -> None:
        self.program = program
        self.device: Any = device  # an asynchronous one has more than the protocol says
        self.unified = device.unified
        self.asynchronous = getattr(device, "asynchronous", False)
        self._prints = getattr(device, "prints", False)
        self.pending = False  # launches may be running
        self.spans: list[Span] = []
        self._memory: list[Any] = []
        self._report: tuple[np.ndarray, Any] | None = None
        self._counters: list[np.ndarray] = []

    # --------------------------------------------------------------------------------------------------------- spans

    def argument(self, array: Any, dtype: DType, written: bool) -> Span:
        """A span parameter: an array of the host, or of the device where it has memory of its own."""
        if isinstance(array, np.ndarray):
            span = Span(self, dtype, array.size, array.reshape(-1), False)
        else:
            span = Span(self, dtype, array.size, None, False)
            span.adopt(array)
            span.on_device = True
        if written:
            span.output = True
            self.spans.append(span)
        return span

    def result(self, array: Any, dtype: DType, zeroed: bool) -> Span:
        """The array of a returned span. Unless it has to be zero, it may hold anything."""
        if isinstance(array, np.ndarray):
            span = Span(self, dtype, array.size, array.reshape(-1), zeroed)
            span.on_host = False
        else:
            span = Span(self, dtype, array.size, None, zeroed)
            span.adopt(array)
        span.output = True
        self.spans.append(span)
        return span

    def declare(self, count: int, dtype: DType, zeroed: bool) -> Span:
        return Span(self, dtype, count, None, zeroed)

    def new_array(self, count: int, dtype: DType, zeroed: bool) -> np.ndarray:
        try:
            return (np.zeros if zeroed else np.empty)(count, elements.storage(dtype))
        except (MemoryError, ValueError):
            self.no_memory()

    def allocate(self, nbytes: int) -> Any:
        try:
            memory = self.device.allocate(nbytes)
        except MemoryError:
            self.no_memory()
        self._memory.append(memory)
        return memory

    def no_memory(self) -> NoReturn:
        raise TargetError(f"{self.program.name}: not enough memory for its buffers")

    def give(self, window: Window, result: Any) -> None:
        """Returns a view: its elements go to the result's array."""
        if isinstance(result, np.ndarray):
            result.reshape(tuple(window.extents))[...] = window.read()
            return
        span, memory = window.span, self.device.adopt(result)
        if isinstance(window, Strided) and window.is_whole and span.on_device:
            self.device.copy(memory, span.memory, span.nbytes)
        else:
            self.device.upload(memory, np.ascontiguousarray(window.read()).reshape(-1))

    # ------------------------------------------------------------------------------------------------------ launches

    def launch(self, symbol: str, grid: Extents, block: Extents, shared_bytes: int, args: Sequence[Any]) -> None:
        if min(grid) < 1:
            return
        self.device.launch(symbol, grid, block, shared_bytes, args)
        self.pending = True

    def report(self) -> Any:
        """The argument that failed checks of kernels are reported through."""
        if self._report is None:
            words = np.zeros(REPORT_WORDS, np.int64)
            if self.unified:
                memory = self.device.bind(words)
            else:
                memory = self.allocate(words.nbytes)
                self.device.zero(memory, words.nbytes)
            self._report = words, memory
        return self._report[1]

    def counter(self, words: int) -> Any:
        """Words of zero with which the blocks of a launch meet."""
        if self.unified:
            self._counters.append(np.zeros(words, np.uint32))
            return self.device.bind(self._counters[-1])
        memory = self.allocate(4 * words)
        self.device.zero(memory, 4 * words)
        return memory

    def settle(self) -> None:
        """Waits for all launches; raises the `CheckError` of a check that failed in one."""
        if not self.pending:
            return
        self.pending = False
        try:
            if self._report is None or self.unified:
                self.device.synchronize()
            else:
                self.device.download(self._report[1], self._report[0])
        except KeyboardInterrupt:
            _ABANDONED.append(self)
            self._memory = []
            raise
        if self._report is not None and self._report[0][0]:
            number, *values = map(int, self._report[0])
            program = self.program
            raise CheckError(program.kernel_checks[number - 1].message(program.name, values, program.source))

    def finish(self) -> None:
        """Brings everything that the caller sees up to date. Where a device works on while its caller goes on, arrays
        that lie there are not waited for."""
        outputs = [span for span in self.spans if span.output]
        waited = self._report is not None or self._prints or not self.asynchronous
        if waited or not all(span.resident for span in outputs):
            self.settle()
        for span in outputs:
            if span.resident:
                span.device(False)
            else:
                span.host()

    def release(self) -> None:
        """Gives the memory back, when no kernel uses it any more."""
        if self.pending and not self.asynchronous:
            self.device.synchronize()
        for memory in self._memory:
            self.device.release(memory)
        self._memory = []

    # ------------------------------------------------------------------------------------------------ checks, prints

    def fail(self, number: int, values: Sequence[int]) -> NoReturn:
        """Raises the error of a failed check of the host part."""
        self.settle()  # an earlier launch may have failed before
        program = self.program
        raise CheckError(program.checks[number].message(program.name, values, program.source))

    def print(self, text: str) -> None:
        self.settle()
        sys.stdout.write(text)


def checked(call: Call, number: int, instance: Sequence[int], pairs: Sequence[int], offset: int) -> int:
    """An offset, if the indices that it was made of are in range; `pairs` has each index and its extent."""
    for position in range(0, len(pairs), 2):
        if not 0 <= pairs[position] < pairs[position + 1]:
            call.fail(number, (*instance, *pairs))
    return offset


# ----------------------------------------------------------------------------------------------------------- numbers


def quotient(a: int, b: int) -> int:
    """Division that truncates; 0 for a divisor of 0."""
    if not b:
        return 0
    return a // b if (a < 0) == (b < 0) else -(-a // b)


def remainder(a: int, b: int) -> int:
    """What `quotient` leaves; 0 for a divisor of 0."""
    return a - b * quotient(a, b) if b else 0


def checked_quotient(call: Call, number: int, instance: Sequence[int], a: int, b: int) -> int:
    if not b:
        call.fail(number, instance)
    return quotient(a, b)


def checked_remainder(call: Call, number: int, instance: Sequence[int], a: int, b: int) -> int:
    if not b:
        call.fail(number, instance)
    return remainder(a, b)


def word(value: Any) -> int:
    return elements.word(value, Kind.FLOAT if isinstance(value, float) else Kind.SIGNED)


def scalar(value: Any, dtype: DType) -> Any:
    """A scalar argument as a number that its type represents."""
    if dtype.is_float:
        return elements.rounding(dtype)(float(value))
    return bool(value) if dtype.kind is Kind.BOOL else int(value)


def environment(types: Sequence[str]) -> dict[str, Any]:
    """The names that the text of a host body uses."""
    names: dict[str, Any] = {
        "numpy": np,
        "Strided": Strided,
        "Listed": Listed,
        "copy": copy,
        "checked": checked,
        "quotient": quotient,
        "remainder": remainder,
        "checked_quotient": checked_quotient,
        "checked_remainder": checked_remainder,
        "ceiling": lambda a, b: quotient(a + b - 1, b),
        "align_up": lambda v, a: quotient(v + a - 1, a) * a,
        "align_down": lambda v, a: quotient(v, a) * a,
        "shift_left": shift_left,
        "shift_right": shift_right,
        "divide": host_math.divide,
        "builtin": host_math.BUILTINS,
        "convert": elements.convert,
        "f32": elements.f32,
        "word": word,
        "scalar": scalar,
    }
    for name in types:
        dtype = BY_NAME[name]
        names[f"T_{name}"] = dtype
        names[f"T_{name}_encode"] = _encoder(dtype)
        if dtype.is_float:
            names[f"T_{name}_round"] = elements.rounding(dtype)
    return names


def _encoder(dtype: DType) -> Callable[[Any], Any]:
    return lambda value: elements.encode(value, dtype)
