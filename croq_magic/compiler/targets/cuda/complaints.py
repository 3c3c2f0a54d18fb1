"""NVRTC's complaints as diagnostics at the cell's own lines."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator

from croq_magic.compiler.diagnostics import Diagnostic
from croq_magic.compiler.targets.cpu import complaints
from croq_magic.compiler.targets.simt.emission import SimtEmission
from croq_magic.errors import CompileError, TargetError

_HEAD = re.compile(
    r"^(?P<file>[^\n()]+)\((?P<line>\d+)\): (?P<kind>catastrophic error|error|note)\b[^:]*: (?P<text>.*)$"
)
_CARET = re.compile(r"^ *\^$")
_SHOWN = 2  # NVRTC shows a line of the source behind two blanks


def diagnostics(log: str, emission: SimtEmission) -> list[Diagnostic]:
    """What NVRTC says about lines of the cell; [] when every complaint is about generated text alone."""
    if emission.source is None:
        return []
    found = complaints.diagnostics("\n".join(_lines(log)), emission.source, emission.verbatim)
    return [_explained(each) for each in found]


def error(log: str, emission: SimtEmission) -> CompileError | TargetError:
    """What to raise: CompileError (CXX01) about lines of the cell, TargetError when the fault is in generated text."""
    found = diagnostics(log, emission)
    if found:
        return CompileError(found)
    return TargetError(f"the CUDA compiler refuses generated code, please report this:\n{log}")


def _lines(log: str) -> Iterator[str]:
    """The messages in the form of other compilers, `file:line:column: error: text`."""
    block: list[str] = []
    for line in [*log.splitlines(), ""]:
        if not _HEAD.match(line) and block and line.strip():
            block.append(line)
            continue
        if block:
            yield _one(block)
        block = [line] if _HEAD.match(line) else []


def _one(block: list[str]) -> str:
    head = _HEAD.match(block[0])
    assert head is not None
    at = next((index for index, line in enumerate(block) if _CARET.match(line)), len(block))
    column = f":{len(block[at]) - _SHOWN}" if at < len(block) else ""
    more = [line.strip() for line in block[1 : max(1, at - 1)]]
    kind = "error" if head["kind"] != "note" else "note"
    text = " ".join([head["text"], *(f"({line})" for line in more if not line.startswith("detected during"))])
    return f"{head['file']}:{head['line']}{column}: {kind}: {text.replace(chr(34), chr(39))}"


def _explained(found: Diagnostic) -> Diagnostic:
    message, hint = found.message.replace("the C++ compiler", "the CUDA compiler"), found.hint
    header = re.search(r"cannot open source file `([^`]+)`", message)
    if header is not None:
        hint = f"NVRTC looks in the folders of CUDA's headers; it found no `{header[1]}` there"
        if header[1].startswith("crt/") or header[1] == "mma.h":
            hint = "`pip install nvidia-cuda-crt` (CUDA 12: nvidia-cuda-nvcc-cu12) brings this header"
        elif header[1].startswith(("cub/", "thrust/", "cuda/", "nv/")):
            hint = "`pip install nvidia-cuda-cccl` (CUDA 12: nvidia-cuda-cccl-cu12) brings CUDA's C++ library"
        elif header[1].startswith("cu"):
            hint = "`pip install nvidia-cuda-runtime` (CUDA 12: nvidia-cuda-runtime-cu12) brings the headers of CUDA"
    return dataclasses.replace(found, message=message, hint=hint)
