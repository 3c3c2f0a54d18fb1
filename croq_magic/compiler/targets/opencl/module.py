"""A function built for an OpenCL device, ready to be launched."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from croq_magic.compiler.source import Source
from croq_magic.compiler.targets.opencl import build
from croq_magic.compiler.targets.opencl.device import OpenclDevice
from croq_magic.compiler.targets.simt.host import HostProgram
from croq_magic.compiler.targets.simt.launcher import Launcher

if TYPE_CHECKING:
    from croq_magic.compiler import ir
    from croq_magic.compiler.targets.simt.emission import SimtEmission

Record = tuple[str, Any]  # key of the program's cache entry, record of the host part


class OpenclModule(NamedTuple):
    """One function of a built program. `cached` says that no compiler had to run, `key` names the cache entry, and
    `record` is what `restore` needs to load it again."""

    launch: Launcher
    cached: bool
    key: str
    record: Record


def load(device: Any, emission: SimtEmission, function: ir.Function) -> OpenclModule:
    """Builds (or finds in the cache) what was emitted. Raises `build.CompilationFailed`."""
    host = HostProgram(function, emission.kernels, emission.checks, emission.source, "opencl")
    if not emission.kernels:
        return OpenclModule(Launcher(host, OpenclDevice(device, None)), True, "", ("", host.record))
    program, key, cached = build.program(device, emission.text, function.name)
    made = OpenclDevice(device, program, "printf" in emission.text)
    return OpenclModule(Launcher(host, made), cached, key, (key, host.record))


def restore(device: Any, record: Record, source: Source) -> OpenclModule | None:
    """A module loaded before, from its record; None if its cache entry is gone."""
    key, host_record = record
    program = build.restored(device, key) if key else None
    if key and program is None:
        return None
    host = HostProgram.restore(host_record, source)
    made = OpenclDevice(device, program, build.prints(key))
    return OpenclModule(Launcher(host, made), True, key, record)
