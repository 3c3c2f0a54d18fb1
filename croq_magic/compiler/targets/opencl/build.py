"""From OpenCL C to a built program, through the on-disk cache; and the compiler's complaints."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from croq_magic import cache
from croq_magic.compiler.targets.opencl.device import session
from croq_magic.compiler.targets.opencl.devices import Features, features
from croq_magic.compiler.targets.opencl.runtimes import pyopencl

HEADER = "croq_opencl.h"
INCLUDE = Path(__file__).resolve().parents[2] / "include"


class CompilationFailed(Exception):
    """The device's compiler refuses the text; `output` are its messages as `file:line:column: error: text`."""

    def __init__(self, output: str) -> None:
        super().__init__(output)
        self.output = output


@lru_cache(maxsize=1)
def header() -> str:
    """The text that every program begins with."""
    return (INCLUDE / HEADER).read_text()


def complete(text: str) -> str:
    """A module's text with the header in the place of the line that includes it: nothing is read from files."""
    return text.replace(f'#include "{HEADER}"\n', f'#line 1 "{HEADER}"\n{header()}#line 2 "generated"\n', 1)


def options(device: Features) -> list[str]:
    """Options of the device's compiler. Nothing that rounds otherwise than the language says is asked for."""
    found = ["-w", f"-cl-std=CL{device.standard // 100}.{device.standard // 10 % 10}"]
    if device.correct_division:
        found.append("-cl-fp32-correctly-rounded-divide-sqrt")
    return found


def parts_of(text: str, device: Features) -> Mapping[str, str]:
    """What the cache key of a build is made of."""
    return {"source": text, "header": header(), "options": " ".join(options(device)), "device": repr(tuple(device))}


def program(device: Any, text: str, label: str) -> tuple[Any, str, bool]:
    """A built program, the key of its cache entry, and whether it came from the cache. Raises `CompilationFailed`."""
    cl = pyopencl()
    parts = parts_of(text, features(device))
    entry = cache.lookup(parts, label)
    if entry is not None:
        try:
            return _load(device, entry.read("program.bin")), entry.key, True
        except (cl.Error, OSError, KeyError):
            pass  # evicted between the lookup and the load, or built by a driver of another version
    built = _compile(device, complete(text))
    binary = built.get_info(cl.program_info.BINARIES)[0]
    entry = cache.store(parts, {"program.bin": bytes(binary), "module.cl": text.encode()}, label)
    return built, entry.key, False


def binary(device: Any, text: str, label: str) -> bytes:
    """What the device's compiler makes of a text, from the cache if it is there. Raises `CompilationFailed`."""
    entry = cache.lookup(parts_of(text, features(device)), label)
    if entry is not None:
        try:
            return entry.read("program.bin")
        except (OSError, KeyError):
            pass
    return bytes(program(device, text, label)[0].get_info(pyopencl().program_info.BINARIES)[0])


def restored(device: Any, key: str) -> Any | None:
    """A program from the entry with that key, None if it is gone."""
    entry = cache.find(key)
    if entry is None or "program.bin" not in entry.files:
        return None
    try:
        return _load(device, entry.read("program.bin"))
    except (pyopencl().Error, OSError):
        return None


def prints(key: str) -> bool:
    """Whether the kernels of the entry with that key may print."""
    entry = cache.find(key)
    return entry is not None and "module.cl" in entry.files and b"printf" in entry.read("module.cl")


def _load(device: Any, binary: bytes) -> Any:
    """A program from its binary."""
    cl = pyopencl()
    loaded = cl._cl._Program(session(device).context, [device], [binary])
    loaded._build(b"", [device])
    return loaded


def _compile(device: Any, text: str) -> Any:
    cl = pyopencl()
    # `cl.Program` would keep a cache of its own and write what does not compile to files.
    made = cl._cl._Program(session(device).context, text.encode())
    try:
        made._build(" ".join(options(features(device))).encode(), [device])
    except cl.Error:
        log = made.get_build_info(device, cl.program_build_info.LOG)
        raise CompilationFailed(_normal(log)) from None
    return made


# Compilers that are built on clang say `file:line:column: error: text`, PoCL `error: file:line:column: text`; NVIDIA's
# begins with `<kernel>` where there is no file name.
_POCL = re.compile(r"^(?P<kind>error|warning|note): (?P<place>[^\n]+?:\d+:\d+): ", re.MULTILINE)


def _normal(log: str) -> str:
    return _POCL.sub(lambda match: f"{match['place']}: {match['kind']}: ", log)
