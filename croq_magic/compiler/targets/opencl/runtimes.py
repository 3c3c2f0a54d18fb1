"""OpenCL runtimes of this machine: those the system has, and those that came from PyPI.

A loader finds runtimes by files that name their libraries. The system's lie in /etc/OpenCL/vendors; a runtime that pip
installed into an environment (`intel-opencl-rt`) is found by no loader, so it is looked for here and named to the
loader, by environment variables that the loader reads when it is first asked.
"""

from __future__ import annotations

import os
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

from croq_magic.errors import TargetError

_SYSTEM = Path("/etc/OpenCL/vendors")
_LIBRARIES = ("libintelocl.so", "libpocl.so")
# The loader of the pyopencl wheels (ocl-icd) takes a folder in the place of the system's, Khronos' takes a list.
_FOLDER, _LIST = "OCL_ICD_VENDORS", "OCL_ICD_FILENAMES"


def _environment_folders() -> Iterator[Path]:
    """Folders in which pip puts libraries of this environment."""
    yield from {Path(sys.prefix, "lib"): None, Path(sysconfig.get_path("data"), "lib"): None}
    for package in ("pyopencl/.libs", "pocl_binary_distribution/.libs"):
        yield Path(sysconfig.get_path("platlib"), package)


def bundled() -> list[Path]:
    """Libraries of runtimes that belong to this Python environment."""
    found = [folder / name for folder in _environment_folders() for name in _LIBRARIES]
    return [path for path in dict.fromkeys(found) if path.is_file()]


def system() -> list[str]:
    """Libraries of the runtimes that the system knows."""
    names = []
    for file in sorted(_SYSTEM.glob("*.icd")):
        try:
            names += file.read_text(encoding="utf-8", errors="replace").split()[:1]
        except OSError:
            continue
    return names


@lru_cache(maxsize=1)
def pyopencl() -> Any:
    """The module pyopencl with its platforms found. TargetError in one sentence if it is not installed, or no runtime
    is there."""
    try:
        import pyopencl as cl
    except ImportError as error:
        raise TargetError(
            f"the target opencl needs pyopencl ({error}); install it with `pip install croq-magic[opencl-cpu]`, "
            "which brings a runtime for the CPU too"
        ) from None
    problem = ""
    if os.environ.get(_FOLDER) or os.environ.get(_LIST):
        problem = _platforms(cl)  # the user has said what to load
    else:
        with tempfile.TemporaryDirectory(prefix="croq_magic-") as folder:
            paths = [*map(str, bundled()), *system()]
            for number, path in enumerate(paths):
                Path(folder, f"{number}.icd").write_text(path + "\n")
            changes = {_FOLDER: folder, _LIST: os.pathsep.join(map(str, bundled()))} if bundled() else {}
            os.environ.update(changes)
            try:
                problem = _platforms(cl)
            finally:
                for name in changes:
                    os.environ.pop(name, None)
    if problem:
        raise TargetError(problem)
    return cl


def _platforms(cl: Any) -> str:
    """Asks the loader for its platforms, which is when it loads them; a sentence if there is none."""
    try:
        if cl.get_platforms():
            return ""
        said = "no platform"
    except cl.Error as error:
        said = str(error)
    names = [*map(str, bundled()), *system()]
    found = f"found {', '.join(names)}, of which none loads" if names else "found no runtime"
    hint = "`pip install croq-magic[opencl-cpu]` brings one for the CPU"
    if any("intelocl" in name for name in names):
        hint = "`pip install intel-cmplr-lib-rt` brings libraries that Intel's runtime needs"
    return f"the target opencl has no device: {found} ({said}); {hint}"
