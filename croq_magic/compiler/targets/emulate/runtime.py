"""The emulator's runtime in this process: built once per compiler, loaded once, and what a launch tells it."""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Sequence

from croq_magic.compiler.targets.cpu import build
from croq_magic.compiler.targets.cpu.runtime import CHECK, INTERRUPTED, OK, Failure, pending_error
from croq_magic.compiler.targets.cpu.runtime import runtime as cpu_runtime
from croq_magic.errors import TargetError

HEADERS = (
    "croq_types.h",
    "croq_cpu.h",
    "croq_small.h",
    "croq_stacks.h",
    "croq_emulate_abi.h",
    "croq_emulate_buffers.h",
    "croq_emulate_check.h",
    "croq_emulate_cluster.h",
    "croq_emulate_faults.h",
    "croq_emulate_messages.h",
    "croq_emulate_profile.h",
    "croq_emulate_schedule.h",
    "croq_emulate_warp.h",
)
FINDINGS = 64  # CROQ_FINDINGS of croq_emulate_abi.h
Extents = tuple[int, int, int]


class Index(ctypes.Structure):
    _fields_ = [("x", ctypes.c_uint32), ("y", ctypes.c_uint32), ("z", ctypes.c_uint32)]


class Finding(ctypes.Structure):
    """`croq_finding`."""

    _fields_ = [
        ("kind", ctypes.c_int32),
        ("space", ctypes.c_int32),
        ("site", ctypes.c_uint32),
        ("other_site", ctypes.c_uint32),
        ("block", ctypes.c_uint32),
        ("thread", ctypes.c_uint32),
        ("other_block", ctypes.c_uint32),
        ("other_thread", ctypes.c_uint32),
        ("access", ctypes.c_int32),
        ("other_access", ctypes.c_int32),
        ("size", ctypes.c_int32),
        ("count", ctypes.c_int32),
        ("offset", ctypes.c_int64),
        ("extent", ctypes.c_int64),
        ("buffer", ctypes.c_int64),
        ("details", ctypes.c_int64 * 8),
    ]


class Counts(ctypes.Structure):
    """`croq_counts`."""

    _fields_ = [
        ("site", ctypes.c_uint32),
        ("space", ctypes.c_int32),
        ("access", ctypes.c_int32),
        ("size", ctypes.c_int32),
        ("accesses", ctypes.c_int64),
        ("bytes", ctypes.c_int64),
        ("requests", ctypes.c_int64),
        ("parts", ctypes.c_int64),
        ("least", ctypes.c_int64),
    ]


class Report(ctypes.Structure):
    """`croq_report`."""

    _fields_ = [
        ("count", ctypes.c_int32),
        ("lost", ctypes.c_int32),
        ("findings", Finding * FINDINGS),
        ("places", ctypes.c_int64),
        ("counts", ctypes.POINTER(Counts)),
        ("barriers", ctypes.c_int64),
        ("threads", ctypes.c_int64),
    ]


class LaunchWords(ctypes.Structure):
    """`croq_emulate_launch`."""

    _fields_ = [
        ("run", ctypes.c_void_p),
        ("words", ctypes.c_void_p),
        ("grid", Index),
        ("block", Index),
        ("cluster", Index),
        ("shared_bytes", ctypes.c_int64),
        ("stack_bytes", ctypes.c_int64),
        ("module", ctypes.c_void_p),
        ("anchor", ctypes.c_void_p),
        ("shared_size", ctypes.c_int64),
        ("shared_shift", ctypes.c_int64),
        ("arrays", ctypes.c_void_p),
        ("array_count", ctypes.c_int64),
        ("seed", ctypes.c_uint64),
        ("checked", ctypes.c_int32),
        ("profiled", ctypes.c_int32),
        ("cooperative", ctypes.c_int32),
        ("serial", ctypes.c_int32),
        ("report", ctypes.POINTER(Report)),
    ]


class Runtime:
    """The loaded runtime."""

    def __init__(self) -> None:
        source = build.header("croq_emulate.cpp")
        library = build.library(source, "emulator", headers=HEADERS)
        # Modules find its functions by their names.
        self.handle = ctypes.PyDLL(str(library.path), mode=ctypes.RTLD_GLOBAL)
        self.cpu = cpu_runtime()
        self.handle.croq_emulate_attach.argtypes = (ctypes.c_void_p,)
        self.handle.croq_emulate_attach.restype = None
        self.handle.croq_emulate_attach(self.cpu.table)
        entry = ctypes.cast(self.handle.croq_emulate_entry, ctypes.c_void_p).value
        assert entry is not None
        self._entry = entry
        self.handle.croq_emulate_allocate.argtypes = (ctypes.c_int64,)
        self.handle.croq_emulate_allocate.restype = ctypes.c_void_p
        self.handle.croq_emulate_release.argtypes = (ctypes.c_void_p,)
        self.handle.croq_emulate_release.restype = None
        self.handle.croq_emulate_filled.argtypes = (ctypes.c_void_p, ctypes.c_int32)
        self.handle.croq_emulate_filled.restype = None
        self.handle.croq_emulate_forget.argtypes = (ctypes.POINTER(Report),)
        self.handle.croq_emulate_forget.restype = None

    def allocate(self, nbytes: int) -> int:
        """Global memory between zones that no kernel may touch, aligned to 256 bytes. MemoryError if there is none."""
        place: int | None = self.handle.croq_emulate_allocate(nbytes)
        if place is None:
            raise MemoryError(nbytes)
        return place

    def release(self, place: int) -> None:
        self.handle.croq_emulate_release(place)

    def filled(self, place: int, filled: bool) -> None:
        """Whether a buffer holds something, as all do at first, or only what kernels write into it."""
        self.handle.croq_emulate_filled(place, filled)

    def launch(self, launch: LaunchWords, arguments: Sequence[int]) -> None:
        """Runs a launch with its arguments, words of eight bytes. What is found is in its report.

        Raises TargetError without memory, KeyboardInterrupt when interrupted.
        """
        words = (ctypes.c_uint64 * max(1, len(arguments)))(*arguments)
        launch.words = ctypes.addressof(words)
        failure = Failure()
        call = (ctypes.c_int64 * 1)(ctypes.addressof(launch))
        code = self.cpu.run(self._entry, ctypes.addressof(call), ctypes.addressof(failure))
        if code == INTERRUPTED:
            raise pending_error() or KeyboardInterrupt
        if code not in (OK, CHECK):
            raise TargetError("the emulator has not enough memory")


def seed() -> int:
    """`CROQ_EMULATE_SEED`: 0 or unset runs threads in order. TargetError for what is no number."""
    text = os.environ.get("CROQ_EMULATE_SEED", "").strip() or "0"
    try:
        return int(text) & (1 << 64) - 1
    except ValueError:
        raise TargetError(f"CROQ_EMULATE_SEED must be a number, not {text!r}") from None


_lock = threading.Lock()
_runtime: Runtime | None = None


def runtime() -> Runtime:
    """The runtime, built and loaded at first use. TargetError without a C++ compiler."""
    global _runtime
    if _runtime is None:
        with _lock:
            if _runtime is None:
                _runtime = Runtime()
    return _runtime
