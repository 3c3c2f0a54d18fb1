"""The CPU runtime library in this process: built once per compiler, loaded once, told about the interpreter."""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
import threading
from collections.abc import Callable

from croq_magic import memory
from croq_magic.compiler.targets.cpu import build

VALUES = 24  # CROQ_VALUES of croq_cpu.h
OK, CHECK, INTERRUPTED, MEMORY, ARGUMENT = range(5)  # return codes of croq_run


class Failure(ctypes.Structure):
    """What a failed check left behind (`croq_failure`)."""

    _fields_ = [("check", ctypes.c_int32), ("count", ctypes.c_int32), ("values", ctypes.c_int64 * VALUES)]


class Plan(ctypes.Structure):
    """How one function is called with one set of extents (`croq_plan`)."""

    _fields_ = [
        ("entry", ctypes.c_void_p),
        ("items", ctypes.c_int64),
        ("count", ctypes.c_int64),
        ("data_offset", ctypes.c_int64),
        ("kinds", ctypes.c_char_p),
        ("places", ctypes.POINTER(ctypes.c_int32)),
        ("words", ctypes.POINTER(ctypes.c_int64)),
    ]


class Runtime:
    """The loaded runtime: `run` and `call` start tileflow functions, `table` is what modules are attached to."""

    def __init__(self, handle: ctypes.PyDLL) -> None:
        self.handle = handle
        handle.croq_runtime_table.restype = ctypes.c_void_p
        handle.croq_runtime_table.argtypes = ()
        self.table: int = handle.croq_runtime_table()
        handle.croq_runtime_start.argtypes = (ctypes.c_int32, *[ctypes.c_void_p] * 3, ctypes.c_uint64)
        handle.croq_runtime_start.restype = None
        handle.croq_runtime_threads.argtypes = (ctypes.c_int32,)
        handle.croq_runtime_threads.restype = None
        handle.croq_runtime_workers.argtypes = ()
        handle.croq_runtime_workers.restype = ctypes.c_int32
        handle.croq_runtime_write_to.argtypes = (ctypes.c_void_p,)
        handle.croq_runtime_write_to.restype = None
        self.run: Callable[[int, int, int], int] = handle.croq_run
        handle.croq_run.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)
        handle.croq_run.restype = ctypes.c_int32
        self.invoke: Callable[[int, tuple[object, ...]], int] = handle.croq_invoke
        handle.croq_invoke.argtypes = (ctypes.c_void_p, ctypes.py_object)
        handle.croq_invoke.restype = ctypes.c_int32
        self.last_failure: Callable[[], ctypes._Pointer[Failure]] = handle.croq_last_failure
        handle.croq_last_failure.argtypes = ()
        handle.croq_last_failure.restype = ctypes.POINTER(Failure)
        api = ctypes.pythonapi
        hooks = _addresses(api.PyEval_SaveThread, api.PyEval_RestoreThread, api.PyErr_CheckSignals)
        handle.croq_runtime_start(thread_count(), *hooks, threading.main_thread().ident or 0)
        objects = _addresses(api.PyTuple_GetItem, api.PyLong_AsUnsignedLongLongMask, api.PyFloat_AsDouble)
        handle.croq_runtime_objects.argtypes = (ctypes.c_void_p,) * 3
        handle.croq_runtime_objects.restype = None
        handle.croq_runtime_objects(*objects)
        handle.croq_runtime_memory.argtypes = (ctypes.c_int64,)
        handle.croq_runtime_memory.restype = None
        handle.croq_runtime_memory(memory.physical())
        self._writer = ctypes.PYFUNCTYPE(ctypes.c_int32, ctypes.POINTER(ctypes.c_char), ctypes.c_int64)(_write)
        handle.croq_runtime_write_to(ctypes.cast(self._writer, ctypes.c_void_p))

    def set_threads(self, count: int) -> None:
        """Threads that one launch may use, the calling one included."""
        self.handle.croq_runtime_threads(count)


def _addresses(*functions: ctypes._FuncPointer) -> list[int | None]:
    return [ctypes.cast(function, ctypes.c_void_p).value for function in functions]


class _Pending(threading.local):
    """What was raised while a running function's text was written. ctypes would drop it, an interrupt included."""

    error: BaseException | None = None


_pending = _Pending()


def _write(text: ctypes._Pointer[ctypes.c_char], size: int) -> int:
    """Writes what a function prints; gives 0, or 1 when the function must stop for `pending_error`."""
    try:
        sys.stdout.write(ctypes.string_at(text, size).decode("utf-8", "replace"))
    except BaseException as error:
        _pending.error = error
        return 1
    return 0


def pending_error() -> BaseException | None:
    """What stopped the last function of this thread while it printed, once."""
    error, _pending.error = _pending.error, None
    return error


def thread_count() -> int:
    """`CROQ_NUM_THREADS`, else the processors this process may use, a container's quota included."""
    try:
        return max(1, int(os.environ["CROQ_NUM_THREADS"]))
    except (KeyError, ValueError):
        pass
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        with open("/sys/fs/cgroup/cpu.max", encoding="ascii") as file:
            quota, period = file.read().split()
        if quota != "max":
            count = min(count, max(1, round(int(quota) / int(period))))
    except (OSError, ValueError):
        pass
    return count


_lock = threading.Lock()
_runtime: Runtime | None = None


def runtime() -> Runtime:
    """The runtime, built and loaded at first use. TargetError without a C++ compiler."""
    global _runtime
    if _runtime is None:
        with _lock:
            if _runtime is None:
                source = build.header("croq_runtime.cpp")
                library = build.library(source, "CPU runtime", native=False, headers=build.RUNTIME_HEADERS)
                _runtime = Runtime(library.handle)
    return _runtime


def prepare() -> threading.Thread | None:
    """Starts building the runtime beside what the caller compiles; None when it is there already.

    Whatever goes wrong is met again, and reported, by the caller's own `runtime()`.
    """
    if _runtime is not None:
        return None

    def build_it() -> None:
        with contextlib.suppress(Exception):
            runtime()

    thread = threading.Thread(target=build_it, name="croq-runtime", daemon=True)
    thread.start()
    return thread
