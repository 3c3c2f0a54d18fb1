"""A function built for the emulator, ready to be launched."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from croq_magic.compiler.source import Source
from croq_magic.compiler.targets.emulate import build
from croq_magic.compiler.targets.emulate.device import EmulatedDevice
from croq_magic.compiler.targets.simt.host import HostProgram
from croq_magic.compiler.targets.simt.launcher import Launcher

if TYPE_CHECKING:
    from croq_magic.compiler import ir
    from croq_magic.compiler.targets.simt.emission import SimtEmission

# Key of the cache entry, text, whether it is checked, report arguments of the kernels, those whose blocks run together,
# record of the host part.
Record = tuple[str, str, bool, Mapping[str, int], tuple[str, ...], Any]


class EmulatedModule(NamedTuple):
    """One function of a built program. `cached` says that no compiler had to run, `key` names the cache entry, and
    `record` is what `restore` needs to load it again."""

    launch: Launcher
    cached: bool
    key: str
    record: Record


def load(emission: SimtEmission, function: ir.Function, checked: bool, arch: int) -> EmulatedModule:
    """Builds (or finds in the cache) what was emitted. Raises `toolchain.CompilationFailed`."""
    host = HostProgram(function, emission.kernels, emission.checks, emission.source, "emulate")
    reports = {
        kernel.symbol: at
        for kernel in emission.kernels
        for at, argument in enumerate(kernel.arguments)
        if argument.kind == "report"
    }
    together = tuple(kernel.symbol for kernel in emission.kernels if kernel.cooperative or kernel.cluster)
    if not emission.kernels:
        device = EmulatedDevice(None, reports, emission.source)
        return EmulatedModule(Launcher(host, device), True, "", ("", "", checked, reports, together, host.record))
    symbols = [kernel.symbol for kernel in emission.kernels]
    library = build.library(emission.text, symbols, function.name, checked, arch)
    device = EmulatedDevice(library, reports, emission.source, together)
    record = (library.key, emission.text, checked, reports, together, host.record)
    return EmulatedModule(Launcher(host, device), library.cached, library.key, record)


def restore(record: Record, source: Source) -> EmulatedModule | None:
    """A module loaded before, from its record; None if its cache entry is gone."""
    key, text, checked, reports, together, host_record = record
    library = build.restored(key, text, checked) if key else None
    if key and library is None:
        return None
    host = HostProgram.restore(host_record, source)
    return EmulatedModule(Launcher(host, EmulatedDevice(library, reports, source, together)), True, key, record)
