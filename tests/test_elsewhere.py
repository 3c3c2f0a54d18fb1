"""`--programs-also` notices what is wrong elsewhere and right on the CPU."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from targets.cuda_text import merged

TESTS = Path(__file__).parent
SUITE = '''
import numpy as np
import pytest
import croq_magic as croq

X = np.arange(7, dtype=np.int32)
ADD = "__co__ s32 [N] f(s32 [N] x) { s32 [N] r; parallel p by N : thread { r.at(p) = %s; } return r; }"
DEVICE = """__device__ int g(int v) {
#ifdef __CUDACC_RTC__
  return nowhere;
#else
  return v;
#endif
}
"""

@pytest.mark.parametrize("how", ["loops", "fibers"])
def test_fine(how):
    assert (croq.compile(ADD % "x.at(p) + 1", target="cpu").f(X) == X + 1).all()

def test_last_one_wins():
    text = "__co__ s32 [1] f(s32 [7] x) { s32 [1] r; parallel p by 7 : thread { r.at(0) = x.at(p); } return r; }"
    assert croq.compile(text, target="cpu").f(X)[0] == 6

def test_the_compiler_of_gpus_refuses():
    assert (croq.compile(DEVICE + ADD % "call g(x.at(p))", target="cpu").f(X) == X).all()

@pytest.mark.cpu_only
def test_of_the_cpu():
    program = croq.compile(ADD % "x.at(p) * 3", target="cpu")
    assert program.target == "cpu" and (program.f(X) == 3 * X).all()

@pytest.mark.gpu_refuses("MMA01")
def test_without_programs():
    assert X.sum() == 21

def test_last_and_fine():
    assert (croq.compile(ADD % "x.at(p) - 1", target="cpu").f(X) == X - 1).all()
'''


@pytest.mark.parametrize("workers", [(), ("-n", "2")])
def test_what_is_wrong_elsewhere_fails(workers: tuple[str, ...], tmp_path: Path) -> None:
    pytest.importorskip("targets.cuda_text").cubin("", "sm_80")  # skips without NVRTC
    (tmp_path / "conftest.py").write_text((TESTS / "conftest.py").read_text())
    (tmp_path / "test_suite.py").write_text(SUITE)
    (tmp_path / "pytest.ini").write_text(
        f"[pytest]\npythonpath = {TESTS}\nmarkers =\n    cpu_only: a\n    gpu_refuses: b\n    races: c\n"
    )
    command = [sys.executable, "-m", "pytest", "-q", "-ra", "-p", "no:cacheprovider", f"--basetemp={tmp_path / 'base'}"]
    done = subprocess.run(
        [*command, *workers, "--programs-also", "emulate,cubin", str(tmp_path)], capture_output=True, text=True
    )
    lines = done.stdout.split("\n")
    failed = sorted(line.split("::")[1].partition(" - ")[0] for line in lines if line.startswith("FAILED"))
    assert failed == sorted(
        [
            "test_last_one_wins on emulate",
            *(f"test_the_compiler_of_gpus_refuses on {a}" for a in ("sm_75", "sm_80", "sm_90a")),
        ]
    ), done.stdout
    assert "data race" in done.stdout and 'identifier "nowhere" is undefined' in done.stdout
    counts = {what: int(count) for count, _, what in (line.strip().partition(" ") for line in lines) if count.isdigit()}
    assert counts["about the CPU target"] == counts["another strategy of the CPU"] == 1
    assert counts["tests passed on the emulator"] == 3 and counts["failed there"] == 1
    assert counts["texts to machine code for sm_90a"] >= 5
    assert done.returncode == 1


def test_texts_are_merged_only_where_they_cannot_meet() -> None:
    plain = (
        '#include "croq_cuda.h"\nnamespace croq_cell {\nextern "C" __global__ void f() {}\n}  // namespace croq_cell\n'
    )
    own = plain.replace("\nnamespace", "\n#define x y\nnamespace")
    linked = plain.replace("\nnamespace", '\nextern "C" int g();\nnamespace', 1)
    together, *alone = merged([plain, own, plain, linked])
    assert together.members == (0, 2) and together.text.count("#include") == 1
    assert "namespace module_0 {" in together.text and "namespace module_2 {" in together.text
    assert [(each.members, each.text) for each in alone] == [((1,), own), ((3,), linked)]
