"""The peers written in C++: built with the flags of the CPU target and called through ctypes."""

from __future__ import annotations

import ctypes
import functools
import hashlib
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np

SOURCES = Path(__file__).parent / "peers"
FLAGS = ("-std=c++17", "-O3", "-march=native", "-ffp-contract=off", "-fPIC", "-shared", "-pthread")
BUILD = Path(__file__).parent.parent / "build" / "peers"


def compiler() -> str:
    found = os.environ.get("CXX") or shutil.which("g++") or shutil.which("clang++")
    if not found:
        raise SystemExit("the peers need a C++ compiler: set CXX")
    return found


@functools.cache
def library(name: str) -> ctypes.CDLL:
    """peers/<name>.cpp as a loaded library, rebuilt when it, the pool or the flags change."""
    text = (SOURCES / f"{name}.cpp").read_text() + (SOURCES / "threads.h").read_text()
    key = hashlib.sha256(" ".join((text, compiler(), *FLAGS)).encode()).hexdigest()[:12]
    path = BUILD / f"{name}-{key}.so"
    if not path.exists():
        BUILD.mkdir(parents=True, exist_ok=True)
        subprocess.run([compiler(), *FLAGS, str(SOURCES / f"{name}.cpp"), "-o", str(path)], check=True)
    return ctypes.CDLL(str(path))


def bound(name: str, function: str, *arguments: np.ndarray | int) -> Callable[[], object]:
    """A call of no arguments of `function` in peers/<name>.cpp; arrays go as pointers, ints as C ints or longs."""
    pointer = library(name)[function]
    pointer.restype = None
    pointer.argtypes = [ctypes.c_long if isinstance(a, int) else ctypes.c_void_p for a in arguments]
    values = [a if isinstance(a, int) else ctypes.c_void_p(a.ctypes.data) for a in arguments]
    call = functools.partial(pointer, *values)
    call.arrays = arguments  # type: ignore[attr-defined]  # an address keeps nothing alive
    return call
