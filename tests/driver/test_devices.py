"""What the driver makes of programs whose kernels run on a device."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest
from driver.conftest import Run
from whole.devices import MISSING

SEED = Path(__file__).parents[1] / "programs" / "seeds"
needs_opencl = pytest.mark.skipif(bool(MISSING["opencl"]), reason=MISSING["opencl"])


@needs_opencl
def test_source_for_opencl_is_two_files(croqtile: Run, tmp_path: Path) -> None:
    program = tmp_path / "add.co"
    program.write_text((SEED / "ele_add_separate_source.co").read_text())
    done = croqtile("-t", "opencl", "-es", str(program), "-o", str(tmp_path / "base"))
    assert (done.status, done.err) == (0, "")
    host, device = (tmp_path / "base.cpp").read_text(), (tmp_path / "base.cl").read_text()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["add.co", "base.cl", "base.cpp"]
    assert re.search(r"^#define kernel croq_user_kernel$", device, re.MULTILINE)
    assert "__kernel" in device and "int main() {" not in device
    assert device.strip() in host and "int main() {" in host
    begin, end = host.index("// ---- The device's file begins"), host.index("// ---- The device's file ends")
    assert begin < host.index("__kernel") < end < host.index("int main() {")
    subprocess.run(["g++", "-std=c++17", "-w", "-fsyntax-only", str(tmp_path / "base.cpp")], check=True)


@needs_opencl
def test_device_functions_at_file_level_are_refused_with_a_hint(croqtile: Run) -> None:
    done = croqtile("-t", "opencl", str(SEED / "ele_add.co"))
    assert done.status == 1
    assert "the opencl target has no `__device__` functions" in done.err
    assert "hint: write the function inside `__cok__ { }`" in done.err


def test_the_emulator_runs_what_was_built(croqtile: Run, tmp_path: Path) -> None:
    done = croqtile("-t", "emulate", str(SEED / "ele_add.co"), "-o", str(tmp_path / "program"))
    assert (done.status, done.err) == (0, "")
    run = subprocess.run([tmp_path / "program"], capture_output=True, text=True, check=True)
    assert run.stdout == "Test Passed\n\n"


def test_a_script_for_cuda_calls_nvcc(croqtile: Run, tmp_path: Path) -> None:
    script = tmp_path / "build.sh"
    done = croqtile("-t", "cuda", "-arch=sm_90a", "-gs", str(SEED / "matmul_dma.co"), "-o", str(script))
    assert (done.status, done.err) == (0, "")
    nvcc = tmp_path / "nvcc"
    nvcc.write_text("""#!/bin/sh
printf "%s\\n" "$@" >"$0.words"
for w; do case $w in *.cu) cp "$w" "$0.cu";; esac; done
""")
    nvcc.chmod(0o755)
    environment = {"NVCC": str(nvcc), "PATH": "/usr/bin:/bin"}
    subprocess.run(["sh", script, "-o", "out"], cwd=tmp_path, check=True, env=environment)
    words = (tmp_path / "nvcc.words").read_text().split("\n")
    assert "-arch=sm_90a" in words and "-std=c++17" in words and words[words.index("-o") + 1] == "out"
    assert "__global__" in (tmp_path / "nvcc.cu").read_text()


@pytest.mark.parametrize("option", [(), ("--conformance",)])
def test_conformance_reaches_the_compiler_of_the_target(
    croqtile: Run, tmp_path: Path, option: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CROQ_CONFORMANCE", raising=False)
    text = croqtile(*option, "-t", "cuda", "-gs", str(SEED / "ele_add.co")).out
    assert ("-fmad=false" in text) == bool(option) and "nvcc" in text
    assert "CROQ_CONFORMANCE" not in os.environ
    for target in ("cpu", "emulate"):  # they never contract
        plain, asked = (croqtile(*o, "-t", target, "-es", str(SEED / "ele_add.co")).out for o in ((), option))
        assert plain.replace(" -fmad=false", "") == asked.replace(" -fmad=false", "") != ""
