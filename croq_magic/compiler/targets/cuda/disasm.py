"""Machine code of kernels as text (SASS), through the disassembler of CUDA's wheels or of an installation."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from croq_magic.compiler.targets.cuda import nvrtc
from croq_magic.errors import TargetError


@functools.lru_cache(maxsize=1)
def tool() -> str:
    """The path of the disassembler. TargetError if there is none."""
    folders = [str(path) for base in nvrtc.wheel_folders() for path in sorted(base.glob("*/bin"), reverse=True)]
    folders += [str(root / "bin") for root in nvrtc.toolkit_folders()]
    found = shutil.which("nvdisasm", path=os.pathsep.join([*folders, os.environ.get("PATH", "")]))
    if found is None:
        raise TargetError(
            "machine code is shown by nvdisasm, which was not found; `pip install nvidia-cuda-nvdisasm` brings it"
        )
    return found


def sass(cubin: bytes) -> str:
    """The instructions of all kernels in a CUBIN, one a line, as nvdisasm prints them. TargetError for PTX, which
    stands for an architecture that NVRTC does not know."""
    if not cubin.startswith(b"\x7fELF"):
        raise TargetError(f"{nvrtc.nvrtc().name} makes no machine code for this architecture; {nvrtc.HINT}")
    with tempfile.TemporaryDirectory(prefix="croq_magic-") as folder:
        path = Path(folder, "module.cubin")
        path.write_bytes(cubin)
        done = subprocess.run([tool(), "-c", str(path)], capture_output=True, text=True, errors="replace")
    if done.returncode != 0:
        raise TargetError(f"nvdisasm fails: {(done.stderr or done.stdout).strip()}")
    return done.stdout
