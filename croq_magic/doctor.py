"""What `%croqtile` shows: the facts a bug report needs."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import platform
import shlex
import sys

from croq_magic._version import __version__
from croq_magic.errors import CroqError

_LABEL = 10


def report() -> str:
    """Version, target, compiler, cache and GPU, one line each."""
    facts = {
        "croq_magic": f"{__version__} ({', '.join(_versions())})",
        "system": f"{platform.system()} {platform.machine()}, {_processor()}",
        "target": _target(),
        "compiler": _compiler(),
        "cache": _cache(),
        "gpu": _gpu(),
    }
    return "\n".join(f"{name:{_LABEL}} {value}" for name, value in facts.items())


def _versions() -> list[str]:
    names = ("ipython", "ipykernel", "numpy", "ml_dtypes", "lark", "islpy", "matplotlib")
    found = [f"Python {platform.python_version()}"]
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
    if importlib.util.find_spec("cupy") is None:
        return "CuPy is not installed (pip install 'croq-magic[cuda13]')"
    try:
        import cupy

        if not cupy.cuda.is_available():
            return f"CuPy {cupy.__version__}, no usable CUDA device"
        device = cupy.cuda.Device()
        name = cupy.cuda.runtime.getDeviceProperties(device.id)["name"].decode()
        return f"{name}, sm_{device.compute_capability}, CuPy {cupy.__version__}"
    except Exception as error:  # a broken driver must not break the doctor
        return f"CuPy fails: {type(error).__name__}: {error}"


if __name__ == "__main__":
    sys.stdout.write(report() + "\n")
