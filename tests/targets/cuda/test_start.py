"""What a start of a notebook loads, with and without a GPU."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

TESTS = Path(__file__).parents[2]
ADD = "__co__ s32 [5] f(s32 [5] a) { s32 [5] r; parallel p by 5 { r.at(p) = a.at(p) + 1; } return r; }"


def loaded(code: str) -> set[str]:
    code = f"import sys; sys.path.insert(0, {str(TESTS)!r})\n{code}\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return set(done.stdout.splitlines()[-1].split())


def test_importing_loads_neither_cupy_nor_the_compiler() -> None:
    names = loaded("import croq_magic")
    assert not [n for n in names if n.split(".")[0] == "cupy" or n.startswith("croq_magic.compiler")]


def test_auto_without_a_gpu_loads_nothing_for_one() -> None:
    code = f"""
from croq_magic.compiler.targets import detect
detect.DRIVER = "libcuda-of-no-machine.so.1"
import croq_magic as croq
croq.compile({ADD!r})"""
    names = loaded(code)
    assert "cupy" not in names and "croq_magic.compiler.targets.cuda.system" not in names


def test_a_second_start_on_the_gpu_needs_no_stage_of_the_compiler() -> None:
    code = f"""
import numpy as np
from targets.cuda import fake_cupy
import croq_magic as croq
with fake_cupy.installed() as cupy:
    program = croq.compile({ADD!r})
    assert program.target == "cuda"
    assert (program.f(cupy.asarray(np.arange(5, dtype=np.int32))).get() == np.arange(5) + 1).all()
"""
    loaded(code)
    stages = {"pipeline", "check", "parse", "ir", "passes", "targets.simt.emit", "targets.cuda.dialect"}
    # what only the emulator, in the GPU's place, needs may be there
    assert not {f"croq_magic.compiler.{name}" for name in stages} & loaded(code)
