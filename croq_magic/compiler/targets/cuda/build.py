"""From CUDA C++ to machine code, through the on-disk cache. No GPU is needed."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from croq_magic import cache
from croq_magic.compiler.targets.cuda import nvrtc
from croq_magic.compiler.targets.cuda.nvrtc import CompilationFailed as CompilationFailed

INCLUDE = Path(__file__).resolve().parents[2] / "include"
HEADERS = ("croq_cuda.h", "croq_small.h")
CUBIN, TEXT = "module.cubin", "module.cu"
# Headers that are about the device; NVRTC has none of the host's, which a cell may include for its `main`.
DEVICE_HEADERS = re.compile(
    r"cuda(?!_runtime)|cub/|thrust/|nv/|mma\.h|cooperative_groups|curand|device_|vector_(?:types|functions)|math_constants"
)
_FULL = re.compile(r"#\s*include\s*<|\b(?:texture|surface|tex[123]D|cuda[A-Z])\w*")
_LINE_OF_PTX = re.compile(r"ptxas application ptx input, line (\d+)")
_FILE = re.compile(r'\s*\.file\s+(\d+)\s+"([^"]*)"')
_LINE = re.compile(r'^#line \d+ "([^"\n]*)"', re.MULTILINE)
_LOC = re.compile(r"\s*\.loc\s+(\d+)\s+(\d+)")


class Built(NamedTuple):
    """Machine code of one text for one architecture; `cached` says that no compiler had to run, `key` names the cache
    entry."""

    cubin: bytes
    key: str
    cached: bool


@lru_cache(maxsize=4)
def _header(name: str) -> str:
    return (INCLUDE / name).read_text()


def options(text: str, conformance: bool = False) -> list[str]:
    """NVRTC's options but for the architecture and the folders of headers. `conformance`: no multiply is contracted
    with an addition, as on the CPU."""
    found = ["--std=c++17", "-default-device"]  # what a `__cok__` block has needs no qualifier
    if conformance:
        found.append("--fmad=false")
    if not _FULL.search(text):
        found.append("--minimal")  # without textures and the runtime's declarations: a tenth faster
    return found


@lru_cache(maxsize=1)
def compiler() -> str:
    """Which NVRTC this machine has, without loading it. "none" without one."""
    found = []
    for place in nvrtc.places():
        try:
            info = os.stat(place.library)
            found.append(f"{place.library} {info.st_size} {info.st_mtime_ns}")
        except OSError:
            continue  # a name that the dynamic linker looks for
    return "; ".join([*found, f"driver {nvrtc.driver_major()}"])


def parts_of(text: str, arch: str, conformance: bool = False) -> Mapping[str, str]:
    """What the cache key of a build is made of."""
    return {
        "source": text,
        "headers": "".join(map(_header, HEADERS)),
        "options": " ".join([arch, *options(text, conformance)]),
        "compiler": compiler(),
    }


def cubin(text: str, arch: str, label: str = "", conformance: bool = False) -> Built:
    """Machine code for an architecture such as `sm_90a`, from the cache or from NVRTC. PTX, which drivers load as well,
    for `compute_90` and the like, and for architectures that are newer than NVRTC.

    Raises `CompilationFailed` with its messages, `TargetError` without NVRTC or for an architecture it does not know.
    """
    parts = parts_of(text, arch, conformance)
    entry = cache.lookup(parts, label)
    if entry is not None:
        try:
            return Built(entry.read(CUBIN), entry.key, True)
        except (OSError, KeyError):
            pass  # evicted between the lookup and the read
    code = _compile_placed(text, arch, options(text, conformance))
    entry = cache.store(parts, {CUBIN: code, TEXT: text.encode()}, label)
    return Built(code, entry.key, False)


def restored(key: str) -> bytes | None:
    """The machine code of the entry with that key, None if it is gone."""
    entry = cache.find(key)
    try:
        return entry.read(CUBIN) if entry is not None else None
    except (OSError, KeyError):
        return None


def ptx(text: str, arch: str, conformance: bool = False) -> str:
    """The PTX of a text. Raises as `cubin` does."""
    return _compile_placed(text, arch, options(text, conformance), "PTX").rstrip(b"\0").decode()


def _compile_placed(text: str, arch: str, words: list[str], kind: str = "CUBIN") -> bytes:
    """`_compile`; what ptxas says (NVRTC runs it for PTX, too) is about lines of the text."""
    try:
        return _compile(text, arch, words, kind)
    except CompilationFailed as failure:
        if not _LINE_OF_PTX.search(failure.log):
            raise
        raise CompilationFailed(_placed(text, arch, words, failure.log)) from None


def _compile(text: str, arch: str, words: list[str], kind: str = "CUBIN") -> bytes:
    compiler = nvrtc.nvrtc()
    if kind == "CUBIN":
        arch = compiler.best(arch)
        kind = "PTX" if arch.startswith("compute_") else kind
    return compiler.compile(text, arch, _understood(compiler, words), kind)


def _understood(compiler: nvrtc.Nvrtc, words: list[str]) -> list[str]:
    """Options with the folders of headers, but for what this NVRTC does not know yet."""
    folders = [f"--include-path={folder}" for folder in (INCLUDE, *compiler.place.headers)]
    return [*(word for word in words if word != "--minimal" or compiler.version >= (12, 8)), *folders]


def _placed(text: str, arch: str, words: list[str], log: str) -> str:
    """What ptxas says about lines of PTX, as messages about the lines that those come from."""
    words = [*words, "--generate-line-info"]
    try:  # line information moves lines: the complaints have to be about a PTX that has it
        _compile(text, arch, words)
    except CompilationFailed as failure:
        log = failure.log
    try:
        lines = _compile(text, arch.replace("sm_", "compute_"), words, "PTX").decode(errors="replace").splitlines()
    except CompilationFailed:
        return log
    names = {m[1]: m[2] for m in map(_FILE.match, lines) if m}
    written = {os.path.abspath(name): name for name in _LINE.findall(text)}  # PTX has them with their folders
    out = []
    for said in log.splitlines():
        match = _LINE_OF_PTX.match(said)
        place = next((m for m in map(_LOC.match, reversed(lines[: int(match[1])])) if m), None) if match else None
        if match is None or place is None:
            out.append(said)
            continue
        kind, _, what = said[match.end() :].lstrip("; ").partition(":")
        file = names.get(place[1], "")
        name = written.get(os.path.abspath(file), os.path.basename(file))
        out.append(f"{name}({place[2]}): {kind.strip()}: ptxas: {what.strip()}")
    return "\n".join(out)
