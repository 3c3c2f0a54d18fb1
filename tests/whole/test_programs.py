"""Complete programs on every target that runs here: built once each, run, and found right by their own hosts."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from programs.whole_programs import FOLDER, PROGRAMS, Whole

import croq_magic as croq
from croq_magic import run
from croq_magic.compiler import whole
from croq_magic.compiler.targets.cuda import nvrtc
from croq_magic.compiler.targets.opencl import devices
from croq_magic.errors import TargetError

try:
    NO_DEVICE = "" if devices.devices() else "there is no OpenCL device"
except TargetError as error:
    NO_DEVICE = str(error)
NO_NVRTC = not any(nvrtc.places())

TARGETS = ["cpu", pytest.param("opencl", marks=pytest.mark.skipif(bool(NO_DEVICE), reason=NO_DEVICE)), "emulate"]
each_program = pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)


def transpile(program: Whole, target: str, arch: str | None = None) -> whole.WholeProgram:
    macros = {name: str(value) for name, value in program.defines.items()}
    return whole.transpile(program.source(), target, arch, macros)


@each_program
@pytest.mark.parametrize("target", TARGETS)
def test_a_program_passes(program: Whole, target: str) -> None:
    if target in program.refused:
        with pytest.raises(croq.CompileError, match=program.refused[target]) as caught:
            transpile(program, target)
        assert all(found.span.line > 1 for found in caught.value.diagnostics)
        return
    made = transpile(program, target)
    if target != "cpu":  # the kernels are not in the host's file, which need not be fast
        made = dataclasses.replace(made, extra_flags=("-O0",))
    done = whole.run(whole.executable(made), program.args)
    run.require_success(done)
    assert "Test Passed\n" in done.stdout and done.stderr == ""


@each_program
@pytest.mark.skipif(NO_NVRTC, reason="NVRTC is not installed")
@pytest.mark.parametrize("arch", ["sm_90a"])
def test_kernels_compile_for_cuda(program: Whole, arch: str, tmp_path: Path) -> None:
    transpiled = transpile(program, "cuda", arch)
    assert transpiled.host.device_objects(transpiled, tmp_path)
    assert "__global__" in transpiled.code.device


@pytest.mark.parametrize(
    ("name", "args", "status", "said"),
    [
        ("arguments", ["--wrong"], 64, "unknown word: --wrong"),
        ("anonymous", [], -6, "the number of rows is a multiple"),
    ],
)
def test_a_program_that_fails_says_so(name: str, args: list[str], status: int, said: str) -> None:
    (program,) = (program for program in PROGRAMS if program.name == name)
    text = program.source().text.replace("{3u, 12u, 51u}", "{3u, 4u}")
    done = whole.run(whole.executable(whole.transpile(text, "cpu")), args)
    assert done.returncode == status and said in done.stderr and done.stdout == ""


def test_the_index_is_complete() -> None:
    assert sorted(program.name for program in PROGRAMS) == sorted(path.stem for path in FOLDER.glob("*.co"))
    assert len(PROGRAMS) >= 25 and all(program.shows for program in PROGRAMS)
