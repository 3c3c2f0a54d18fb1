"""CUDA text of programs, and its CUBIN by NVRTC: no GPU is needed."""

from __future__ import annotations

import ctypes
import dataclasses
import re
from collections.abc import Sequence

import pytest

from croq_magic.compiler.diagnostics import Report
from croq_magic.compiler.passes.base import Context, run_passes
from croq_magic.compiler.pipeline import front_end, optimising_passes
from croq_magic.compiler.source import Source
from croq_magic.compiler.targets import cuda
from croq_magic.compiler.targets.cuda import build
from croq_magic.compiler.targets.cuda import nvrtc as loader
from croq_magic.compiler.targets.simt.emission import SimtEmission
from croq_magic.errors import TargetError


def emission(text: str, arch: str = "sm_80", checks: str = "auto") -> SimtEmission:
    """What the CUDA target makes of a cell, for all shapes."""
    target = cuda.target(arch)
    front = front_end(Source(text), target.limits, {}, checks)
    front.report.raise_errors()
    passes = [*optimising_passes(), *target.passes()]
    functions = [run_passes(f, passes, Context(Report(), target.limits)) for f in front.functions.values()]
    return target.emit(front.unit, functions)


def kernel(text: str, arch: str = "sm_80", checks: str = "auto") -> str:
    """The text of the kernels alone, without line markers."""
    whole = emission(text, arch, checks).text
    inside = whole.split("namespace croq_cell {\n", 1)[1].rsplit("}  // namespace croq_cell", 1)[0]
    return re.sub(r"^#line.*\n", "", inside, flags=re.MULTILINE).strip()


@dataclasses.dataclass(frozen=True)
class Merged:
    """Several modules as one text; `members` are their positions."""

    text: str
    members: tuple[int, ...]


def merged(texts: Sequence[str]) -> list[Merged]:
    """Modules put together, so that NVRTC reads the prelude once. Each is in a namespace of its own; those that have
    more to say to the preprocessor, or names that are the whole program's, stay alone."""
    include = '#include "croq_cuda.h"\n'
    together, alone = [], []
    for number, text in enumerate(texts):
        rest = text.replace(include, "", 1).replace('extern "C" __global__', "__global__")
        if rest.count("namespace croq_cell {\n") != 1 or re.search(
            r'^\s*#(?!line|pragma)|extern\s+"C"|::croq_', rest, re.M
        ):
            alone.append(Merged(text, (number,)))
        else:
            together.append((number, rest))
    if not together:
        return alone
    parts = [include]
    for number, rest in together:
        inner = rest.replace("namespace croq_cell {\n", "namespace croq_cell {\nusing namespace ::croq_cell;\n", 1)
        parts.append(f"namespace module_{number} {{\n{inner}\n}}\n")
    return [Merged("".join(parts), tuple(number for number, _ in together)), *alone]


def cubin(text: str, arch: str) -> tuple[bytes, str]:
    """CUBIN (empty where NVRTC refuses the text) and NVRTC's log, warnings included."""
    try:
        found = loader.nvrtc()
    except TargetError as error:
        pytest.skip(str(error))
    number = int("".join(filter(str.isdigit, arch)))
    if number not in found.archs:
        pytest.skip(f"{found.name} does not know {arch}")
    nvrtc = found._library
    program, size = ctypes.c_void_p(), ctypes.c_size_t()
    nvrtc.nvrtcCreateProgram(ctypes.byref(program), text.encode(), b"cell.cu", 0, None, None)
    options = [f"--gpu-architecture={arch}", *build._understood(found, build.options(text))]
    failed = nvrtc.nvrtcCompileProgram(
        program, len(options), (ctypes.c_char_p * len(options))(*map(str.encode, options))
    )
    nvrtc.nvrtcGetProgramLogSize(program, ctypes.byref(size))
    log = ctypes.create_string_buffer(size.value)
    nvrtc.nvrtcGetProgramLog(program, log)
    binary = b""
    if not failed:
        nvrtc.nvrtcGetCUBINSize(program, ctypes.byref(size))
        buffer = ctypes.create_string_buffer(size.value)
        nvrtc.nvrtcGetCUBIN(program, buffer)
        binary = buffer.raw
    nvrtc.nvrtcDestroyProgram(ctypes.byref(program))
    return binary, log.value.decode()
