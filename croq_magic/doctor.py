"""What `%croqtile` shows: the facts a bug report needs."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import shlex
import sys

from croq_magic._version import __version__
from croq_magic.errors import CroqError

_LABEL = 10


def report() -> str:
    """Version, packages, target, compiler, cache, GPU and what belongs to it, one line each."""
    facts = {
        "croq_magic": f"{__version__}, Python {platform.python_version()}",
        "packages": ", ".join(_versions()),
        "system": f"{platform.system()} {platform.machine()}, {_processor()}",
        "target": _target(),
        "compiler": _compiler(),
        "cache": _cache(),
        "gpu": _gpu(),
        "cuda": _cuda(),
    }
    return "\n".join(f"{name:{_LABEL}} {value}" for name, value in facts.items())


def _versions() -> list[str]:
    names = ("ipython", "ipykernel", "numpy", "ml_dtypes", "lark", "islpy", "matplotlib")
    found = []
    for name in names:
        try:
            found.append(f"{name} {importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            found.append(f"{name} missing")
    return found


def _processor() -> str:
    from croq_magic.compiler.targets.cpu import runtime, toolchain

    model = toolchain.processor().rpartition(" ")[0].partition(" ")[2]
    threads = runtime.thread_count()
    return f"{model}, {threads} thread{'' if threads == 1 else 's'}"


def _target() -> str:
    try:
        from croq_magic.compiler import targets

        return f"auto is {targets.choose('auto').name}"
    except CroqError as error:
        return f"none: {error}"


def _compiler() -> str:
    from croq_magic.compiler.targets.cpu import toolchain

    try:
        compiler = toolchain.find()
    except CroqError as error:
        return f"none: {error}"
    return f"{compiler.version} ({shlex.join(compiler.command)})"


def _cache() -> str:
    from croq_magic import cache

    entries = list(cache.list())
    size = sum(entry.size for entry in entries) / (1 << 20)
    folder = str(cache.directory())
    home = os.path.expanduser("~")
    if home != "/" and folder.startswith(home + os.sep):
        folder = "~" + folder[len(home) :]
    why = f" (temporary: {cache.configured()} cannot be used)" if cache.directory() != cache.configured() else ""
    return f"{folder}: {len(entries)} entries, {size:.1f} MiB{why}"


def _gpu() -> str:
    from croq_magic.compiler.targets import base

    try:
        problem = base.why_not_gpu()
        if problem is not None:
            return f"none: {problem.text}"
        from croq_magic.compiler.targets.cuda import system

        cupy = system.cupy()
        names = []
        for number in range(cupy.cuda.runtime.getDeviceCount()):
            capability = system.capability_of(cupy, number)
            arch = system.arch_of(capability) or "no architecture that is known"
            names.append(f"{system.device_name(cupy, number)} (sm_{capability}, compiled for {arch})")
        return ", ".join(names)
    except Exception as error:  # a broken driver must not break the doctor
        return f"fails: {type(error).__name__}: {error}"


def _cuda() -> str:
    """Versions of what the target cuda is made of, also where there is no GPU."""
    from croq_magic.compiler.targets.cuda import nvrtc, system

    facts = []
    driver = nvrtc.driver_version()
    facts.append(f"driver for CUDA {system.version(driver)}" if driver else "no driver")
    names = [n for n in ("cupy-cuda13x", "cupy-cuda12x", "cupy") if _version(n)]
    cupy = sys.modules.get("cupy")
    if cupy is not None:
        facts.append(f"CuPy {cupy.__version__} for CUDA {system.version(cupy.cuda.runtime.runtimeGetVersion())}")
    else:
        facts += [f"CuPy {_version(n)} ({n})" for n in names] or ["no CuPy (pip install 'croq-magic[cuda13]')"]
    try:
        found = nvrtc.nvrtc()
        facts.append(f"{found.name} ({found.place.library})")
    except CroqError as error:
        facts.append(str(error))
    return ", ".join(facts)


def _version(distribution: str) -> str:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return ""


if __name__ == "__main__":
    sys.stdout.write(report() + "\n")
