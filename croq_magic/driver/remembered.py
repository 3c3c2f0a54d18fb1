"""Programs that were built before: the same text with the same options gives the same executable, and no stage runs.

Only programs about which there was nothing to say are remembered, so no warning is lost.
"""

from __future__ import annotations

from pathlib import Path

from croq_magic import cache
from croq_magic.compiler import store
from croq_magic.compiler.source import Source
from croq_magic.compiler.targets import base as targets
from croq_magic.compiler.whole.host import host_of
from croq_magic.driver import files
from croq_magic.driver.options import STANDARD, Options


def find(chosen: Options, target: targets.Target) -> Path | None:
    """The executable, if it is still there."""
    parts = _parts(chosen, target, _source(chosen))
    if parts is None or (entry := cache.find(cache.key_of(parts))) is None:
        return None
    built = cache.find(entry.read("key").decode())
    return built.files.get("program") if built is not None else None


def remember(chosen: Options, target: targets.Target, source: Source, executable: Path) -> None:
    """Notes what `find` is to find; `executable` is a file of the build cache."""
    parts = _parts(chosen, target, source)
    if parts is not None and cache.find(executable.parent.name) is not None:
        cache.store(parts, {"key": executable.parent.name.encode()}, "program of the driver")


def _source(chosen: Options) -> Source | None:
    (name,) = chosen.inputs
    try:
        return None if name == STANDARD else files.read(name)
    except files.FileError:
        return None  # met again, and reported


def _parts(chosen: Options, target: targets.Target, source: Source | None) -> dict[str, str] | None:
    """What decides about the executable; None where files that may change do."""
    if source is None or chosen.include:
        return None
    request = store.Request(source, target.name, chosen.arch, tuple(chosen.defines.items()), chosen.checks)
    if not request.self_contained:
        return None
    flags = repr([chosen.macro_flags, chosen.passed, chosen.debug, chosen.no_comments])
    return {**request.parts, **host_of(target).identity(), "flags": flags, "what": "program of the driver"}
