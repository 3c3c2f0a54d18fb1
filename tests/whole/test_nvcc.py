"""Whole programs through nvcc itself: what `-es` and `-gs` write for CUDA compiles for sm_90a without a warning, and is
linked. Without a GPU a program ends with one sentence."""

from __future__ import annotations

import dataclasses
import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest
from driver.conftest import Run, croqtile, here  # noqa: F401  (fixtures)
from programs import whole_programs
from programs.conformance import PROGRAMS
from whole import hosts

import croq_magic as croq
from croq_magic.compiler import whole
from croq_magic.compiler.source import Source
from croq_magic.compiler.targets import base as targets
from croq_magic.compiler.targets.cuda import nvrtc

SEEDS = Path(__file__).parents[1] / "programs" / "seeds"
ARCH = "sm_90a"
# Called from C++ hosts: in-out, scalars, events, device functions, checks, half precision, tensor cores, TMA.
HOSTED = ("C06", "C28", "C36", "C45", "C48", "C51", "C53", "C57")


def _nvcc() -> str:
    """nvcc of the wheels (`nvidia-cuda-nvcc`) or of an installation; nothing without one that has a host compiler."""
    found = [folder / "cu13" / "bin" / "nvcc" for folder in nvrtc.wheel_folders()]
    wheel = next((str(path) for path in found if path.is_file()), None)
    return (wheel or shutil.which("nvcc") or "") if shutil.which("g++") else ""


NVCC = _nvcc()
pytestmark = [
    pytest.mark.skipif(not NVCC, reason="nvcc (or g++, which it calls) is not installed"),
    pytest.mark.cpu_only,
]


@dataclasses.dataclass(frozen=True)
class Item:
    name: str
    source: Source
    defines: Mapping[str, str] = dataclasses.field(default_factory=dict)


def _hosted() -> list[Item]:
    found = []
    for program in PROGRAMS:
        if program.name.startswith(HOSTED):
            case = program.case()
            signature = croq.compile(program.source(), target="cpu").functions[program.function].compiled.signature
            main = hosts.host(signature, case.inputs, case.written)
            found.append(Item(program.name, Source(f"{program.source()}\n{main}", f"{program.name}.co")))
    return found


def items() -> list[Item]:
    whole_ones = [Item(p.name, p.source(), {k: str(v) for k, v in p.defines.items()}) for p in whole_programs.PROGRAMS]
    seeds = [Item(f"seed {p.stem}", Source(p.read_text(), p.name)) for p in sorted(SEEDS.glob("*.co"))]
    return [*whole_ones, *seeds, *(Item(p.name, Source("")) for p in PROGRAMS if p.name.startswith(HOSTED))]


def compiled(item: Item, folder: Path, *options: str) -> str:
    """What nvcc says about a program's single source; every warning is an error."""
    program = whole.transpile(item.source, "cuda", ARCH, defines=item.defines)
    (folder / "p.cu").write_text(program.text)
    words = program.host.source_command(str(folder / "p.cu"), str(folder / "p"))
    command = [NVCC, *(word for word in words[1:] if word != "-O3"), "-Werror", "all-warnings", *options]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "LC_ALL": "C"})
    assert done.returncode == 0, done.stderr + done.stdout
    return done.stderr + done.stdout


@pytest.mark.parametrize("item", items(), ids=lambda item: item.name)
def test_the_single_source_compiles(item: Item, tmp_path: Path) -> None:
    if not item.source.text:
        item = next(each for each in _hosted() if each.name == item.name)
    # The host's half is compiled with -O0 here, which is half the time; kernels are optimised all the same.
    assert not compiled(item, tmp_path, "-c", "-O0").strip()


def without_a_gpu(program: Path, name: str) -> None:
    """A program that nvcc has linked starts, and ends at its first tileflow function."""
    done = subprocess.run(
        [program], capture_output=True, text=True, env={**os.environ, "CUDA_VISIBLE_DEVICES": ""}, timeout=60
    )
    assert done.returncode != 0
    assert re.fullmatch(rf"{name}: there is no GPU that it may use \([^()\n]+\)\n", done.stderr), done.stderr


def test_programs_that_nvcc_links_say_what_is_missing(tmp_path: Path) -> None:
    item = Item("matmul_dma", Source((SEEDS / "matmul_dma.co").read_text(), "matmul_dma.co"))
    compiled(item, tmp_path, "-O3")
    without_a_gpu(tmp_path / "p", "matmul")


def test_scripts_of_the_command_build_with_nvcc(croqtile: Run, tmp_path: Path) -> None:  # noqa: F811
    done = croqtile("-t", "cuda", "-arch=sm_90a", "-gs", str(SEEDS / "ele_add.co"), "-o", "build.sh")
    assert (done.status, done.err) == (0, "")
    environment = {"NVCC": NVCC, "PATH": os.environ["PATH"], "CXXFLAGS": "-Werror all-warnings"}
    made = subprocess.run(["sh", "build.sh", "-o", "out"], capture_output=True, text=True, env=environment)
    assert (made.returncode, made.stdout, made.stderr) == (0, "", "")
    without_a_gpu(tmp_path / "out", "ele_add")


@pytest.mark.skipif(targets.why_not_gpu() is None, reason="there is a GPU")
def test_the_command_builds_for_cuda_without_nvcc(
    croqtile: Run,  # noqa: F811
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("NVCC", "/nowhere/nvcc")
    done = croqtile("-t", "cuda", "-arch", "sm_90a", str(SEEDS / "ele_add.co"), "-o", str(tmp_path / "out"))
    assert (done.status, done.out, done.err) == (0, "", "")
    run = subprocess.run([tmp_path / "out"], capture_output=True, text=True)
    assert run.returncode != 0 and run.stdout == ""
    assert re.fullmatch(r"ele_add: there is [^\n]*\n", run.stderr), run.stderr


@pytest.mark.gpu
@pytest.mark.skipif(targets.why_not_gpu() is not None, reason="there is no GPU")
@pytest.mark.parametrize("path", sorted(SEEDS.glob("*.co")), ids=lambda path: path.stem)
def test_seed_programs_of_nvcc_pass_on_a_gpu(path: Path, tmp_path: Path) -> None:
    compiled(Item(path.stem, Source(path.read_text(), path.name)), tmp_path)
    done = subprocess.run([tmp_path / "p"], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "Test Passed\n\n", "")
