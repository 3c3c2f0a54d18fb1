"""Programs that were compiled before, as the disk cache keeps them.

A cell that runs again in a restarted kernel needs its signatures and its built modules, but no stage of the compiler:
loading those alone would take ten times as long as the rest. So two kinds of entries are kept beside the modules: one a
program (signatures, warnings), one a built function and its extents (what its target needs to load it again).
Whatever else is asked of such a program (its IR, its source, other extents) compiles it after all.
"""

from __future__ import annotations

import os
import pickle
import re
import threading
from collections.abc import Mapping
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from croq_magic import cache
from croq_magic.compiler.signature import Signature
from croq_magic.compiler.source import Source
from croq_magic.compiler.targets import base as targets

if TYPE_CHECKING:
    from croq_magic.compiler.diagnostics import Report
    from croq_magic.compiler.ir import Function
    from croq_magic.compiler.pipeline import CompiledFunction, CompiledUnit
    from croq_magic.compiler.split import Unit

_FILE = "record.pickle"


class Request(NamedTuple):
    """What was asked for: the text with its place in the notebook, and everything that changes its meaning."""

    source: Source
    target: str
    arch: str | None
    defines: tuple[tuple[str, str], ...]
    checks: str

    @property
    def parts(self) -> dict[str, str]:
        """What the key of the program's entry is made of."""
        return {
            "program": self.source.text,
            "place": f"{self.source.name}:{self.source.first_line}",
            "target": f"{self.target} {self.arch or ''}",
            "defines": repr(self.defines),
            "checks": self.checks,
            "compiler files": _fingerprint(),
        }

    @property
    def self_contained(self) -> bool:
        return self_contained(self.source)

    def build_parts(self, function: str, extents: tuple[int, ...], target: targets.Target) -> dict[str, str]:
        """What the key of one built function is made of."""
        return {**self.parts, **target.identity(), "function": function, "extents": repr(extents)}


def self_contained(source: Source) -> bool:
    """Whether the text alone decides: a quoted include may name a file that changes."""
    return re.search(r'#\s*include\s*"(?!(?:choreo|croq)\b)', source.text) is None


@lru_cache(maxsize=1)
def _fingerprint() -> str:
    """Changes with any file of the compiler, so that working on the compiler needs no version numbers."""
    root = Path(__file__).parent
    files = []
    for folder, _, names in os.walk(root):
        for name in names:
            if not name.endswith(".pyc"):
                info = os.stat(os.path.join(folder, name))
                files.append((os.path.join(folder, name)[len(str(root)) :], info.st_size, info.st_mtime_ns))
    return repr(sorted(files))


def lookup(request: Request) -> StoredUnit | None:
    """The program, if it was compiled before on this machine."""
    record = _read(request.parts) if request.self_contained else None
    return StoredUnit(request, record) if record is not None else None


def remember(request: Request, unit: CompiledUnit) -> None:
    """Keeps what `lookup` gives."""
    if request.self_contained:
        signatures = {name: function.signature for name, function in unit.functions.items()}
        record = {"signatures": signatures, "warnings": unit.warnings, "printed": unit.printed}
        _write(request.parts, record, "program " + ", ".join(signatures))


def remember_build(request: Request, name: str, extents: tuple[int, ...], target: targets.Target, module: Any) -> None:
    """Keeps a built function. Targets whose modules cannot be loaded again give None as their `record`."""
    record = getattr(module, "record", None)
    if record is not None and request.self_contained:
        _write(request.build_parts(name, extents, target), record, f"{name} {list(extents)}")


def _read(parts: Mapping[str, str]) -> Any:
    entry = cache.find(cache.key_of(parts))
    if entry is None:
        return None
    try:
        return pickle.loads(entry.read(_FILE))
    except Exception:  # written by an incompatible version: compile again
        return None


def _write(parts: Mapping[str, str], record: Any, label: str) -> None:
    cache.store(parts, {_FILE: pickle.dumps(record)}, label)


class StoredUnit:
    """Stands for a `CompiledUnit`; compiles only when something is asked that was not kept."""

    def __init__(self, request: Request, record: Mapping[str, Any]) -> None:
        self.request = request
        self.chosen = targets.choose(request.target, request.arch)
        self.target = self.chosen.name
        self.warnings: list[str] = record["warnings"]
        self.printed: str = record["printed"]
        self.functions = {name: StoredFunction(name, s, self) for name, s in record["signatures"].items()}

    @cached_property
    def full(self) -> CompiledUnit:
        """The program, compiled now."""
        from croq_magic.compiler import pipeline

        r = self.request
        return pipeline.compile(r.source, r.target, r.arch, dict(r.defines), r.checks)

    @property
    def report(self) -> Report:
        return self.full.report

    @property
    def regions(self) -> Unit:
        return self.full.regions

    def source(self) -> str:
        return self.full.source()

    def syntax(self) -> str:
        return self.full.syntax()


class StoredFunction:
    """Stands for a `CompiledFunction`; `name` is the one of the IR."""

    def __init__(self, name: str, signature: Signature, unit: StoredUnit) -> None:
        self.name = name
        self.signature = signature
        self.unit = unit
        self._variants: dict[tuple[int, ...], targets.Module] = {}
        self._lock = threading.Lock()

    @property
    def full(self) -> CompiledFunction:
        return self.unit.full.functions[self.name]

    @property
    def function(self) -> Function:
        """The tile IR."""
        return self.full.function

    def ir(self, stage: str = "tile") -> str:
        return self.full.ir(stage)

    def source(self) -> str:
        return self.full.source()

    def variant(self, dims: Mapping[str, int]) -> targets.Module:
        """The built function for these extents."""
        extents = tuple(dims[name] for name in self.signature.dims)
        with self._lock:
            module = self._variants.get(extents)
            if module is None:
                module = self._variants[extents] = self._restored(extents) or self.full.variant(dims)
        return module

    def _restored(self, extents: tuple[int, ...]) -> targets.Module | None:
        request = self.unit.request
        record = _read(request.build_parts(self.name, extents, self.unit.chosen))
        return self.unit.chosen.restore(record, request.source) if record is not None else None
