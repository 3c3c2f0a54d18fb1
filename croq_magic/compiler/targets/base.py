"""What a target is, and the registry of targets.

A target turns functions of the tile IR into a loaded module. Adding one means adding a folder and a line in `_TARGETS`.
"""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from croq_magic.compiler import ir
from croq_magic.compiler.limits import Limits
from croq_magic.compiler.passes.base import Pass
from croq_magic.compiler.source import Source, Span
from croq_magic.errors import TargetError


@dataclasses.dataclass(frozen=True)
class Options:
    """What a target is asked for: its architecture (None: the machine's own) and bit-equal results on all targets."""

    arch: str | None = None
    conformance: bool = False


class Emission(Protocol):
    """What an emitter makes: at least the source text. It can be pickled, and loaded again without the compiler."""

    @property
    def text(self) -> str: ...


class Launchable(Protocol):
    """One function of a loaded module: values of its parameters, extents of its symbolic dimensions, and the array of
    zeros that a returned span is written to; returns a returned scalar."""

    def __call__(self, values: Sequence[Any], dims: Mapping[str, int], result: Any = None) -> Any: ...


class Module(Protocol):
    """A loaded program. `cached`: no compiler had to run; `key`: its entry in the on-disk cache."""

    @property
    def functions(self) -> Mapping[str, Launchable]: ...
    @property
    def cached(self) -> bool: ...
    @property
    def key(self) -> str: ...


class Target(Protocol):
    """A machine that programs are compiled for. `emit` raises `CompileError` for a construct that the target cannot
    express, `load` raises it for complaints of the target's own compiler about the cell's text."""

    @property
    def name(self) -> str: ...
    def limits(self, options: Options) -> Limits: ...
    def passes(self, options: Options) -> tuple[Pass, ...]: ...
    def emit(self, functions: Sequence[ir.Function], verbatim: Sequence[Span], options: Options) -> Any: ...
    def load(self, emission: Any, label: str, source: Source | None, verbatim: Sequence[Span]) -> Module: ...


# Name (or alias) -> module that has `target()`.
_TARGETS = {"cpu": "croq_magic.compiler.targets.cpu"}
_ALIASES = {"cc": "cpu"}


def names() -> list[str]:
    """Names of all targets."""
    return list(_TARGETS)


def resolve(name: str = "auto") -> Target:
    """The target of that name; "auto" is the best one this machine has. TargetError for an unknown name."""
    wanted = "cpu" if name == "auto" else _ALIASES.get(name, name)
    if wanted not in _TARGETS:
        known = ", ".join(["auto", *_TARGETS])
        raise TargetError(f"there is no target `{name}`; known are {known}")
    target: Target = importlib.import_module(_TARGETS[wanted]).target()
    return target
