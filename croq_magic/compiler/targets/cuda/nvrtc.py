"""NVRTC, CUDA's compiler as a library: found in wheels or an installation, called through ctypes. No GPU is needed.

Wheels of CUDA 13 put everything in `nvidia/cu13/`, those of CUDA 12 into a folder each (`nvidia/cuda_nvrtc/lib`,
`nvidia/cuda_runtime/include`). Installations are those that `CUDA_PATH` or `CUDA_HOME` names, `/usr/local/cuda`, and
what the dynamic linker finds.
"""

from __future__ import annotations

import ctypes
import functools
import importlib.util
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from croq_magic.compiler.targets.detect import DRIVER
from croq_magic.errors import TargetError

HINT = "`pip install 'croq-magic[cuda13]'` (or cuda12) brings it"
_MAJORS = (13, 12)
_SUCCESS, _COMPILATION, _BAD_OPTION = 0, 6, 5
_UNKNOWN_ARCH = re.compile(r"invalid value for --gpu-architecture|unsupported gpu architecture", re.IGNORECASE)


class CompilationFailed(Exception):
    """NVRTC refuses the text; `log` is what it says, in its own form."""

    def __init__(self, log: str) -> None:
        super().__init__(log)
        self.log = log


class Place(NamedTuple):
    """A library that may be NVRTC, with the folders of headers that came with it."""

    library: str
    headers: tuple[str, ...] = ()


def wheel_folders() -> list[Path]:
    """The folders that wheels of NVIDIA share."""
    spec = importlib.util.find_spec("nvidia")
    return [Path(folder) for folder in (spec.submodule_search_locations if spec else None) or ()]


def toolkit_folders() -> list[Path]:
    """Installations of CUDA on this machine."""
    named = [os.environ.get(name, "") for name in ("CUDA_PATH", "CUDA_HOME")]
    return [Path(name) for name in dict.fromkeys([*named, "/usr/local/cuda"]) if name and Path(name).is_dir()]


def _libraries(folder: Path) -> list[str]:
    found = [path for path in folder.glob("libnvrtc.so*") if ".alt" not in path.name and path.is_file()]
    return [str(max(found, key=lambda path: len(path.name)))] if found else []


def places() -> Iterator[Place]:
    """Where NVRTC may be, the most likely first. Wheels come before installations: they are newer and whole."""
    for base in wheel_folders():
        for folder in sorted(base.glob("cu[0-9]*/lib"), reverse=True):  # cu13
            for name in _libraries(folder):
                yield Place(name, (str(folder.parent / "include"),))
        includes = tuple(str(path) for path in sorted(base.glob("cuda_*/include")))  # CUDA 12: one folder a wheel
        for name in _libraries(base / "cuda_nvrtc" / "lib"):
            yield Place(name, includes)
    for root in toolkit_folders():
        include = tuple(str(path) for path in (root / "include",) if path.is_dir())
        for sub in ("lib64", "lib", "targets/x86_64-linux/lib", "targets/sbsa-linux/lib"):
            for name in _libraries(root / sub):
                yield Place(name, include)
    for major in _MAJORS:
        yield Place(f"libnvrtc.so.{major}", ("/usr/include",) if Path("/usr/include/cuda_runtime.h").exists() else ())


class Nvrtc:
    """A loaded NVRTC."""

    def __init__(self, place: Place) -> None:
        self.place = place
        folder = os.path.dirname(place.library)
        if folder:
            for builtins in sorted(Path(folder).glob("libnvrtc-builtins.so.*")):
                if ".alt" not in builtins.name:
                    ctypes.CDLL(str(builtins), mode=ctypes.RTLD_GLOBAL)  # NVRTC 13.0 does not find it by itself
        self._library: Any = ctypes.CDLL(place.library)  # lets go of the interpreter's lock in every call
        major, minor = ctypes.c_int(), ctypes.c_int()
        self._library.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor))
        self.version = (major.value, minor.value)
        self._library.nvrtcGetErrorString.restype = ctypes.c_char_p

    @property
    def name(self) -> str:
        """`NVRTC 13.0`."""
        return f"NVRTC {self.version[0]}.{self.version[1]}"

    @functools.cached_property
    def archs(self) -> tuple[int, ...]:
        """The compute capabilities that it compiles for, times ten."""
        count = ctypes.c_int()
        if self._library.nvrtcGetNumSupportedArchs(ctypes.byref(count)) != _SUCCESS:
            return ()
        numbers = (ctypes.c_int * count.value)()
        self._library.nvrtcGetSupportedArchs(numbers)
        return tuple(numbers)

    def best(self, arch: str) -> str:
        """The architecture itself; of one that is newer than all that this NVRTC knows, the newest, as PTX."""
        number = int("".join(filter(str.isdigit, arch)))
        newest = max(self.archs, default=number)
        return arch if number <= newest or arch.endswith("a") else f"compute_{newest}"

    def compile(self, text: str, arch: str, options: Sequence[str], kind: str = "CUBIN") -> bytes:
        """Machine code ("CUBIN") or "PTX" of a text. May be called from several threads at a time.

        Raises `CompilationFailed` with NVRTC's messages, whose lines follow the `#line` markers of the text, and
        `TargetError` for an architecture that it does not know.
        """
        program = ctypes.c_void_p()
        library = self._library
        self._require(library.nvrtcCreateProgram(ctypes.byref(program), text.encode(), b"generated", 0, None, None))
        try:
            words = [f"--gpu-architecture={arch}", *options]
            given = (ctypes.c_char_p * len(words))(*(word.encode() for word in words))
            status = library.nvrtcCompileProgram(program, len(words), given)
            if status != _SUCCESS:
                log = self._text(program, "ProgramLog").rstrip(b"\0").decode(errors="replace")
                if status == _BAD_OPTION and self._knows_not(arch, log):
                    raise TargetError(f"{self.name} does not compile for {arch}; a newer one does: {HINT}")
                if status in (_COMPILATION, _BAD_OPTION):
                    raise CompilationFailed(log)
                self._require(status)
            return self._text(program, kind)
        finally:
            library.nvrtcDestroyProgram(ctypes.byref(program))

    def _knows_not(self, arch: str, log: str) -> bool:
        return bool(_UNKNOWN_ARCH.search(log)) or int("".join(filter(str.isdigit, arch))) not in self.archs

    def _text(self, program: ctypes.c_void_p, kind: str) -> bytes:
        size = ctypes.c_size_t()
        self._require(getattr(self._library, f"nvrtcGet{kind}Size")(program, ctypes.byref(size)))
        buffer = ctypes.create_string_buffer(size.value)
        self._require(getattr(self._library, f"nvrtcGet{kind}")(program, buffer))
        return buffer.raw

    def _require(self, status: int) -> None:
        if status != _SUCCESS:
            said = self._library.nvrtcGetErrorString(status) or b"an unknown error"
            raise TargetError(f"{self.name} fails: {said.decode()}")


def driver_version() -> int:
    """The newest version of CUDA that the driver of this machine runs, as CUDA counts (13000); 0 without a driver."""
    try:
        driver = ctypes.CDLL(DRIVER)
    except OSError:
        return 0
    version = ctypes.c_int()
    return version.value if driver.cuDriverGetVersion(ctypes.byref(version)) == 0 else 0


def driver_major() -> int:
    """The major version alone."""
    return driver_version() // 1000


def load(found: Iterator[Place] | None = None, most: int | None = None) -> Nvrtc:
    """The first NVRTC that loads and whose code the driver can run; a newer one if there is no such.

    `found` and `most` (the driver's major version, 0 for none) are this machine's unless given. TargetError in one
    sentence if there is none.
    """
    most = driver_major() if most is None else most
    newer: Nvrtc | None = None
    problems = []
    for place in places() if found is None else found:
        try:
            candidate = Nvrtc(place)
        except OSError as error:
            if os.path.isabs(place.library):
                problems.append(f"{place.library} does not load ({error})")
            continue
        if most and candidate.version[0] > most:
            newer = newer or candidate
            continue
        return candidate
    if newer is not None:
        return newer
    what = problems[0] if problems else "no libnvrtc was found"
    raise TargetError(f"the target cuda needs NVRTC to compile, and {what}; {HINT}")


@functools.lru_cache(maxsize=1)
def nvrtc() -> Nvrtc:
    """The NVRTC of this process. TargetError if there is none."""
    return load()
