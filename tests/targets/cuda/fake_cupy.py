"""CuPy with the emulator in the GPU's place: as much of it as the CUDA target, its tests and its benchmarks use.

    with fake_cupy.installed() as cupy:          # `import cupy` finds it, until the end of the block
        a = cupy.asarray(np.arange(8, dtype=np.float32))

Streams are queues: work waits until somebody waits for it, so that a missing synchronisation shows as a wrong value.
Kernels are the text that the build cache has beside the machine code that is loaded. What the emulator finds wrong
becomes what a GPU makes of it: an illegal address, and a context that is lost.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import re
import sys
import time
import types
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from croq_magic import cache
from croq_magic.compiler.targets.cuda import build, device, faults, system
from croq_magic.compiler.targets.emulate import build as emulate_build
from croq_magic.compiler.targets.emulate import kernels as emulate_kernels
from croq_magic.compiler.targets.emulate.runtime import runtime as emulator

_GLOBAL = re.compile(r"__global__\s+void\s+(?:__\w+__\s*\([^()]*\)\s*)*(\w+)\s*\(")
_NAMES = {
    1: "CUDA_ERROR_INVALID_VALUE: invalid argument",
    2: "CUDA_ERROR_OUT_OF_MEMORY: out of memory",
    35: "cudaErrorInsufficientDriver: CUDA driver version is insufficient for CUDA runtime version",
    100: "cudaErrorNoDevice: no CUDA-capable device is detected",
    209: "CUDA_ERROR_NO_BINARY_FOR_GPU: no kernel image is available for execution on the device",
    700: "CUDA_ERROR_ILLEGAL_ADDRESS: an illegal memory access was encountered",
    716: "CUDA_ERROR_MISALIGNED_ADDRESS: misaligned address",
    719: "CUDA_ERROR_LAUNCH_FAILED: unspecified launch failure",
    701: "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES: too many resources requested for launch",
    720: "CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE: too many blocks in cooperative launch",
}
_FAULTS = {"outside": 700, "alignment": 716, "trap": 719}  # what a GPU makes of what the emulator finds


class CUDARuntimeError(RuntimeError):
    def __init__(self, status: int) -> None:
        super().__init__(_NAMES.get(status, f"error {status}"))
        self.status = status


class CUDADriverError(CUDARuntimeError):
    pass


class OutOfMemoryError(MemoryError):
    pass


class Gpu(NamedTuple):
    """A device to pretend."""

    capability: int = 90
    name: str = "Emulated GPU"
    shared_bytes: int = 227 << 10
    memory: int = 8 << 30
    blocks: int = 1 << 20  # how many can run at the same time
    host_pages: bool = False  # whether it reads pageable memory by itself


class _State:
    """What the pretended machine is, and what happens on it. `calls` counts what was asked of it."""

    def __init__(self, gpus: tuple[Gpu, ...], driver: int, toolkit: int, checked: bool, fault: int) -> None:
        self.gpus, self.driver, self.toolkit, self.checked, self.fault = gpus, driver, toolkit, checked, fault
        self.device = 0
        self.lost = 0
        self.used = 0
        self.next_launch = 0  # the status that the next launch fails with
        self.streams: dict[int, Stream] = {}
        self.stream: Stream | None = None
        self.calls: dict[str, int] = {}
        self.events: list[str] = []  # launches and transfers in the order in which they ran

    def note(self, what: str) -> None:
        self.calls[what] = self.calls.get(what, 0) + 1
        if self.lost:
            raise CUDARuntimeError(self.lost)


_state: _State


# ------------------------------------------------------------------------------------------------------------ streams


class Stream:
    """A queue of work."""

    null: Stream

    def __init__(self, null: bool = False, non_blocking: bool = False, ptds: bool = False) -> None:
        self.ptr = 0 if null else id(self)
        self.waits_for_null = not (null or non_blocking)
        self.queue: list[Callable[[], None]] = []
        self._outer: list[Stream | None] = []

    def __enter__(self) -> Stream:
        self._outer.append(_state.stream)
        _state.stream = self
        return self

    def __exit__(self, *args: object) -> None:
        _state.stream = self._outer.pop()

    def use(self) -> Stream:
        _state.stream = self
        return self

    def put(self, work: Callable[[], None]) -> None:
        self.queue.append(work)

    def run(self, until: object = None) -> None:
        if self.waits_for_null:  # as streams do unless they are non-blocking
            _current_null().run()
        while self.queue:
            work = self.queue.pop(0)
            work()
            if work is until:
                return

    def synchronize(self) -> None:
        _state.note("synchronize")
        self.run()

    def record(self, event: Event) -> Event:
        event.record(self)
        return event


def get_current_stream() -> Stream:
    return _state.stream or _current_null()


def _current_null() -> Stream:
    return _state.streams.setdefault(_state.device, Stream(null=True))


class Event:
    def __init__(self, block: bool = False, disable_timing: bool = False, interprocess: bool = False) -> None:
        self._stream: Stream | None = None
        self._work: Callable[[], None] | None = None
        self.time = 0.0

    def record(self, stream: Stream | None = None) -> None:
        self._stream = stream or get_current_stream()

        def work() -> None:
            self.time = time.perf_counter()
            self._work = None

        self._work = work
        self._stream.put(work)

    def synchronize(self) -> None:
        if self._work is not None and self._stream is not None:
            self._stream.run(self._work)


def get_elapsed_time(first: Event, last: Event) -> float:
    last.synchronize()
    return 1e3 * (last.time - first.time)


# ------------------------------------------------------------------------------------------------------------- memory


class _Owned:
    def __init__(self, nbytes: int, device: int) -> None:
        self.ptr = 0
        if nbytes + _state.used > _state.gpus[device].memory:
            raise OutOfMemoryError(f"Out of memory allocating {nbytes} bytes")
        self.ptr = emulator().allocate(max(1, nbytes))
        ctypes.memset(self.ptr, 0xA5, nbytes)  # nobody gets zeros by chance
        self.device_id, self.nbytes, self._state = device, nbytes, _state
        _state.used += nbytes

    def __del__(self) -> None:
        if self.ptr and emulator is not None:  # the interpreter is not going away
            emulator().release(self.ptr)
            self._state.used -= self.nbytes


class MemoryPointer:
    def __init__(self, mem: _Owned, offset: int) -> None:
        self.mem, self.ptr, self.device_id = mem, mem.ptr + offset, mem.device_id

    def memset_async(self, value: int, size: int, stream: Stream | None = None) -> None:
        _state.note("memset")
        (stream or get_current_stream()).put(lambda: ctypes.memset(self.ptr, value, size) and None)

    def copy_from_device_async(self, source: MemoryPointer, size: int, stream: Stream | None = None) -> None:
        _state.note("device copy")
        (stream or get_current_stream()).put(lambda: ctypes.memmove(self.ptr, source.ptr, size) and None)


def alloc(nbytes: int) -> MemoryPointer:
    _state.note("alloc")
    return MemoryPointer(_Owned(nbytes, _state.device), 0)


class _Pinned:
    def __init__(self, nbytes: int) -> None:
        self.buffer = ctypes.create_string_buffer(nbytes)
        self.ptr = ctypes.addressof(self.buffer)
        _pinned.append((self.ptr, nbytes))


_pinned: list[tuple[int, int]] = []


def _is_pinned(address: int) -> bool:
    return any(start <= address < start + size for start, size in _pinned)


def memcpy_async(dst: int, src: int, size: int, kind: int, stream: int) -> None:
    """As the driver does: what is not pinned is read before it returns, or written before it returns."""
    _state.note("memcpy")
    here = get_current_stream()
    assert here.ptr == stream
    to_device = kind == 1
    host = src if to_device else dst
    _state.events.append("pinned copy" if _is_pinned(host) else "plain copy")
    if _is_pinned(host) or _state.gpus[_state.device].host_pages:
        here.put(lambda: ctypes.memmove(dst, src, size) and None)
    elif to_device:
        data = ctypes.string_at(src, size)
        here.put(lambda: ctypes.memmove(dst, data, size) and None)
    else:
        here.run()
        ctypes.memmove(dst, src, size)


# ------------------------------------------------------------------------------------------------------------- arrays


def _supported(dtype: Any) -> np.dtype[Any]:
    found = np.dtype(dtype)
    if found.type.__module__.startswith("ml_dtypes") and found.name != "bfloat16":
        raise TypeError(f"unsupported dtype {found}")
    return found


class ndarray:
    """An array in the emulator's memory; `_host` shows it to the fake alone."""

    def __init__(self, host: np.ndarray, memory: _Owned) -> None:
        self._host, self._memory = host, memory
        self.dtype, self.shape, self.strides = host.dtype, host.shape, host.strides
        self.size, self.nbytes, self.itemsize, self.ndim = host.size, host.nbytes, host.itemsize, host.ndim
        self.flags = host.flags
        self.data = MemoryPointer(memory, host.__array_interface__["data"][0] - memory.ptr)

    @property
    def device(self) -> Device:
        return Device(self._memory.device_id)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {
            "shape": self.shape,
            "typestr": self.dtype.str,
            "data": (self.data.ptr, False),
            "strides": self.strides,
            "version": 3,
        }

    def __dlpack_device__(self) -> tuple[int, int]:
        return (2, self._memory.device_id)

    def __array__(self, *args: Any, **kwargs: Any) -> np.ndarray:
        raise TypeError("Implicit conversion to a NumPy array is not allowed. Please use `.get()`")

    def _settled(self) -> np.ndarray:
        get_current_stream().run()
        return self._host

    def get(self) -> np.ndarray:
        _state.note("get")
        return np.array(self._settled())

    def set(self, values: np.ndarray) -> None:
        self[...] = asarray(values)

    def copy(self) -> ndarray:
        out = empty(self.shape, self.dtype)
        out[...] = self
        return out

    def view(self, dtype: Any) -> ndarray:
        return ndarray(self._host.view(dtype), self._memory)

    def reshape(self, *shape: Any) -> ndarray:
        return ndarray(self._host.reshape(*shape), self._memory)

    @property
    def T(self) -> ndarray:
        return ndarray(self._host.T, self._memory)

    def __getitem__(self, index: Any) -> ndarray:
        return ndarray(self._host[index], self._memory)

    def __setitem__(self, index: Any, value: Any) -> None:
        _state.note("assign")
        target = self._host[index]
        get_current_stream().put(lambda: np.copyto(target, value._host if isinstance(value, ndarray) else value))

    def item(self) -> Any:
        return self.get().item()

    def sum(self, *args: Any, **kwargs: Any) -> ndarray:
        return asarray(self.get().sum(*args, **kwargs))

    def __matmul__(self, other: ndarray) -> ndarray:
        return matmul(self, other)


def empty(shape: Any, dtype: Any = np.float64) -> ndarray:
    found = _supported(dtype)
    shape = (shape,) if isinstance(shape, int) else tuple(shape)
    count = int(np.prod(shape, dtype=np.int64))
    _state.note("empty")
    memory = _Owned(count * found.itemsize, _state.device)
    buffer = (ctypes.c_char * max(1, count * found.itemsize)).from_address(memory.ptr)
    return ndarray(np.frombuffer(buffer, np.uint8)[: count * found.itemsize].view(found).reshape(shape), memory)


def zeros(shape: Any, dtype: Any = np.float64) -> ndarray:
    out = empty(shape, dtype)
    out[...] = 0
    return out


def asarray(value: Any, dtype: Any = None) -> ndarray:
    if isinstance(value, ndarray):
        return value
    interface = getattr(value, "__cuda_array_interface__", None)
    if interface is not None:
        return value.base if isinstance(value.base, ndarray) else value.base.base
    host = np.array(value, dtype, order="C")
    out = empty(host.shape, host.dtype)
    get_current_stream().put(lambda: np.copyto(out._host, host))  # as the real one, through pinned memory
    return out


def from_dlpack(value: Any) -> ndarray:
    return value.base


def matmul(a: ndarray, b: ndarray, out: ndarray | None = None) -> ndarray:
    result = a.get() @ b.get()
    if out is None:
        return asarray(result)
    out._host[...] = result
    return out


def bincount(values: ndarray, minlength: int = 0) -> ndarray:
    return asarray(np.bincount(values.get(), minlength=minlength))


# ------------------------------------------------------------------------------------------------------------ kernels


@functools.lru_cache(maxsize=64)
def _library(text: str, arch: int, checked: bool) -> tuple[emulate_build.Library, tuple[str, ...]]:
    symbols = tuple(dict.fromkeys(_GLOBAL.findall(text)))
    return emulate_build.library(text, symbols, "fake", checked, arch), symbols


def _text_of(cubin: bytes) -> str:
    """The text that was compiled to this machine code, from the build cache."""
    for entry in cache.list():
        if build.CUBIN in entry.files and entry.read(build.CUBIN) == cubin:
            return entry.read(build.TEXT).decode()
    raise CUDADriverError(209)


class Module:
    def __init__(self) -> None:
        self.text = ""

    def load(self, cubin: bytes) -> None:
        _state.note("load")
        assert cubin[:4] == b"\x7fELF" or (b".version" in cubin and cubin.endswith(b"\0"))
        self.text = _text_of(cubin)

    def get_function(self, name: str) -> Function:
        return Function(self.text, name)


class Function:
    def __init__(self, text: str, name: str) -> None:
        self.name, self.ptr = name, id(self)
        self.capability = _state.gpus[_state.device].capability
        self.library, symbols = _library(text, self.capability, _state.checked)
        assert name in symbols
        _allowed[self.ptr] = 48 << 10

    def __call__(
        self,
        grid: tuple[int, ...],
        block: tuple[int, ...],
        args: tuple[Any, ...],
        shared_mem: int = 0,
        stream: Stream | None = None,
        enable_cooperative_groups: bool = False,
    ) -> None:
        assert type(grid) is tuple and type(block) is tuple
        _state.note("launch")
        gpu = _state.gpus[_state.device]
        three = (*grid, 1, 1, 1)[:3], (*block, 1, 1, 1)[:3]
        assert max(grid) < 1 << 31  # CuPy takes no larger numbers
        if enable_cooperative_groups and np.prod(three[0]) > gpu.blocks:
            if three[0][1:] != (1, 1):
                raise ValueError(f"The specified grid size {three[0]} exceeds the limit ({gpu.blocks}).")
            warnings.warn(f"The grid size will be reduced from {grid[0]} to {gpu.blocks}", stacklevel=2)
            three = ((gpu.blocks, 1, 1), three[1])
        status, _state.next_launch = _state.next_launch, 0
        if status == 0 and (
            min(three[0]) < 1
            or max(three[0][1:]) > 65535
            or np.prod(three[1]) > 1024
            or shared_mem > _allowed[self.ptr]
        ):
            status = 1
        if status:
            raise CUDADriverError(status)
        words = [_word(arg) for arg in args]

        def work() -> None:
            _state.events.append(self.name)
            found = emulate_kernels.launch(
                self.library, self.name, *three, words, shared_mem, cooperative=enable_cooperative_groups
            ).findings
            del args_alive[:]
            if _state.fault:
                _state.lost = _state.fault
            elif found:
                _state.lost = _FAULTS.get(found[0].kind, 0)
                if not _state.lost:
                    raise AssertionError("\n".join(each.text for each in found))
            if _state.lost:
                raise CUDADriverError(_state.lost)

        args_alive = list(args)
        (stream or get_current_stream()).put(work)


_allowed: dict[int, int] = {}


def _word(value: Any) -> int:
    if isinstance(value, ndarray):
        return value.data.ptr
    if isinstance(value, MemoryPointer):
        return value.ptr
    if isinstance(value, np.generic) and not type(value).__module__.startswith("ml_dtypes"):
        return int.from_bytes(value.tobytes().ljust(8, b"\0"), "little")
    raise TypeError(f"unsupported kernel argument {type(value)}")


class RawKernel:
    def __init__(self, code: str, name: str, options: tuple[str, ...] = ()) -> None:
        self._function = Function(code, name)
        self.max_dynamic_shared_size_bytes = 48 << 10

    def __call__(self, grid: Any, block: Any, args: Any, **kwargs: Any) -> None:
        _allowed[self._function.ptr] = self.max_dynamic_shared_size_bytes
        self._function(tuple(grid), tuple(block), args, **kwargs)


class RawModule:
    def __init__(self, path: str) -> None:
        self._module = Module()
        with open(path, "rb") as file:
            self._module.load(file.read())

    def get_function(self, name: str) -> Function:
        return self._module.get_function(name)


def set_attribute(function: int, attribute: int, value: int) -> None:
    assert attribute == 8
    if value > _state.gpus[_state.device].shared_bytes:
        raise CUDADriverError(1)
    _allowed[function] = value


# ------------------------------------------------------------------------------------------------------------ devices


class Device:
    def __init__(self, device: int | None = None) -> None:
        self.id = _state.device if device is None else int(device)
        self._outer: list[int] = []

    def __enter__(self) -> Device:
        self._outer.append(_state.device)
        _state.device = self.id
        return self

    def __exit__(self, *args: object) -> None:
        _state.device = self._outer.pop()

    @property
    def compute_capability(self) -> str:
        return str(_state.gpus[self.id].capability)

    def synchronize(self) -> None:
        get_current_stream().synchronize()


def _count() -> int:
    if _state.driver < _state.toolkit // 1000 * 1000:
        raise CUDARuntimeError(35)
    if not _state.gpus:
        raise CUDARuntimeError(100)
    return len(_state.gpus)


def _device_synchronize() -> None:
    _state.note("synchronize device")
    _current_null().run()


def _properties(number: int) -> dict[str, Any]:
    gpu = _state.gpus[number]
    return {"name": gpu.name.encode(), "totalGlobalMem": gpu.memory, "multiProcessorCount": 2}


def _module() -> types.ModuleType:
    made = types.ModuleType("cupy")
    made.__version__ = "14.2.0"
    for name in ("ndarray", "empty", "zeros", "asarray", "from_dlpack", "matmul", "bincount", "RawKernel", "RawModule"):
        setattr(made, name, globals()[name])
    made.array = lambda value, dtype=None: value.copy() if isinstance(value, ndarray) else asarray(value, dtype)
    made.asnumpy = lambda value: value.get()
    runtime = types.SimpleNamespace(
        getDeviceCount=_count,
        driverGetVersion=lambda: _state.driver,
        runtimeGetVersion=lambda: _state.toolkit,
        getDeviceProperties=_properties,
        deviceGetAttribute=lambda attribute, number: {16: 1, 100: int(_state.gpus[number].host_pages)}[attribute],
        deviceSynchronize=_device_synchronize,
        memcpyAsync=memcpy_async,
        CUDARuntimeError=CUDARuntimeError,
    )
    made.cuda = types.SimpleNamespace(
        Module=Module,
        Device=Device,
        Event=Event,
        Stream=Stream,
        MemoryPointer=MemoryPointer,
        alloc=alloc,
        alloc_pinned_memory=_Pinned,
        get_current_stream=get_current_stream,
        get_elapsed_time=get_elapsed_time,
        get_device_id=lambda: _state.device,
        is_available=lambda: bool(_state.gpus),
        memory=types.SimpleNamespace(OutOfMemoryError=OutOfMemoryError),
        driver=types.SimpleNamespace(
            funcSetAttribute=set_attribute,
            occupancyMaxActiveBlocksPerMultiprocessor=lambda function, threads, shared: (
                _state.gpus[_state.device].blocks
            ),
            CUDADriverError=CUDADriverError,
        ),
        runtime=runtime,
    )
    return made


@contextlib.contextmanager
def installed(
    *gpus: Gpu, driver: int = 13000, toolkit: int = 13000, checked: bool = True, fault: int = 0, none: bool = False
) -> Iterator[Any]:
    """The fake as `cupy`, with one GPU if none are named (`none`: without any). `fault`: the status that the next
    launches fail with while they run."""
    global _state
    outer = sys.modules.get("cupy")
    _state = _State(() if none else gpus or (Gpu(),), driver, toolkit, checked, fault)
    made = _module()
    made.state = _state
    _forget()
    sys.modules["cupy"] = made
    try:
        yield made
    finally:
        if outer is None:
            del sys.modules["cupy"]
        else:
            sys.modules["cupy"] = outer
        _forget()


def _forget() -> None:
    system._cupy_problem.cache_clear()
    device._staging.cache_clear()
    device._least_staged.cache_clear()
    faults.forget()
