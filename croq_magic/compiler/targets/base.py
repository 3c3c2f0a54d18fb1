"""What a target is, and the registry of targets.

A target turns functions of the tile IR into a loaded module. Adding one means adding a folder and a line in `_TARGETS`.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from croq_magic.errors import TargetError

if TYPE_CHECKING:
    from croq_magic.compiler import ir
    from croq_magic.compiler.limits import Limits
    from croq_magic.compiler.passes.base import Pass
    from croq_magic.compiler.source import Source
    from croq_magic.compiler.split import Unit
    from croq_magic.compiler.targets.detect import Problem


class Emission(Protocol):
    """What an emitter makes: at least the source text."""

    @property
    def text(self) -> str: ...


class Module(Protocol):
    """One built function. `record` is a plain value that `Target.restore` makes it from again, or None."""

    @property
    def record(self) -> Any: ...

    def launch(self, values: Sequence[Any], dims: Mapping[str, int], result: Any = None) -> Any:
        """Runs it: values of its parameters (contiguous arrays, numbers, stream handles), extents of its symbolic
        dimensions, and the array of zeros that a returned span is written to. Returns a returned scalar."""
        ...


class Target(Protocol):
    """A machine that programs are compiled for, with its architecture chosen.

    `emit` raises `CompileError` for a construct that the target cannot express, `build` raises it for complaints of the
    target's own compiler about the cell's text, and `TargetError` when the target cannot be used.
    """

    @property
    def name(self) -> str: ...
    @property
    def limits(self) -> Limits: ...
    def passes(self) -> Sequence[Pass]: ...
    def emit(self, unit: Unit, functions: Sequence[ir.Function]) -> Any: ...
    def build(self, emission: Any, function: ir.Function) -> Module: ...

    def identity(self) -> Mapping[str, str]:
        """What decides, besides the program, how a function is built: compiler, options, processor."""
        ...

    def restore(self, record: Any, source: Source) -> Module | None:
        """A function built before, from its module's `record`; None if it is no longer there."""
        ...


# Name -> module that has `target(arch)`.
_TARGETS = {
    "cpu": "croq_magic.compiler.targets.cpu",
    "cuda": "croq_magic.compiler.targets.cuda",
    "opencl": "croq_magic.compiler.targets.opencl",
    "emulate": "croq_magic.compiler.targets.emulate",
}
_LANGUAGE = ("cpu", "cuda", "opencl")  # those that the language names, whether or not this version has them
_ALIASES = {"cc": "cpu", "cute": "cuda", "gpu": "cuda"}


def names() -> list[str]:
    """Names of all targets."""
    return list(_TARGETS)


def words() -> list[str]:
    """Every word that names a target: "auto", names and aliases."""
    return list(dict.fromkeys(["auto", *_LANGUAGE, *_TARGETS, *_ALIASES]))


def why_not_gpu() -> Problem | None:
    """Why "auto" is not the GPU of this machine: a sentence, None if it is. Costs nothing where there is no driver."""
    from croq_magic.compiler.targets import detect

    found = detect.no_driver()
    if found is not None:
        return found
    from croq_magic.compiler.targets.cuda import system

    return system.problem()


def offline_arch(name: str, arch: str | None) -> str | None:
    """The architecture that a target compiles for while CUDA code is shown: the one given, else that of the GPU, or the
    default where there is none. Targets that do not compile that code have none: it is meant for what is shown."""
    wanted = _ALIASES.get(name, name)
    if wanted == "auto":
        return arch if why_not_gpu() is None else None
    if wanted not in ("cuda", "emulate"):
        return None
    if arch is None and wanted == "cuda" and why_not_gpu() is not None:
        from croq_magic.compiler.targets.cuda import DEFAULT_ARCH

        return DEFAULT_ARCH
    return arch


def choose(name: str = "auto", arch: str | None = None) -> Target:
    """The target of that name; "auto" is the best one this machine has. TargetError for an unknown name."""
    wanted = _ALIASES.get(name, name)
    if name == "auto":
        wanted = "cpu" if why_not_gpu() is not None else "cuda"
    if wanted not in _TARGETS:
        known = ", ".join(["auto", *_TARGETS])
        what = (
            f"the target `{wanted}` is not part of this version"
            if wanted in words()
            else f"there is no target `{name}`"
        )
        raise TargetError(f"{what}; known are {known}")
    target: Target = importlib.import_module(_TARGETS[wanted]).target(arch)
    return target
