"""Whole programs on CUDA, without a GPU: they build, and say what is missing when they run. What nvcc makes of their
single sources is tested in test_nvcc.py."""

from __future__ import annotations

from pathlib import Path

import pytest

import croq_magic as croq
from croq_magic.compiler import whole
from croq_magic.compiler.source import Source
from croq_magic.compiler.targets import base as targets
from croq_magic.compiler.targets.cuda import nvrtc, single_source
from croq_magic.errors import CompileError, TargetError

HERE = Path(__file__).parent
SEEDS = HERE.parent / "programs" / "seeds"
NAME = "p.co"


def _compiler() -> nvrtc.Nvrtc | None:
    try:
        return nvrtc.nvrtc()
    except TargetError:
        return None


COMPILER = _compiler()
needs_nvrtc = pytest.mark.skipif(COMPILER is None, reason="NVRTC is not installed")


def test_host_and_device_text_stay_in_the_single_source() -> None:
    text = (SEEDS / "ele_add.co").read_text()
    program = whole.transpile(Source(text, NAME), "cuda", "sm_80")
    assert program.suffix == ".cu"
    assert program.text.startswith("// Compile with: nvcc -std=c++17 -O3 -arch=sm_80 FILE.cu -o PROGRAM\n")
    for region in program.unit.regions:
        if region.kind in ("device", "host"):
            assert region.text in program.text
    assert "__device__ void kernel" not in program.compact  # the host's compiler knows no device functions


@needs_nvrtc
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_programs_build_and_say_what_is_missing(arch: str, tmp_path: Path) -> None:
    source = Source((SEEDS / "ele_add.co").read_text(), NAME)
    whole.build(whole.transpile(source, "cuda", arch), tmp_path / "program")
    done = whole.run(tmp_path / "program", environment={"CUDA_VISIBLE_DEVICES": ""})
    assert done.returncode != 0
    assert done.stderr.startswith("ele_add: there is ") and done.stderr.count("\n") == 1
    assert "GPU" in done.stderr


@needs_nvrtc
def test_what_nvrtc_refuses_is_said_at_the_programs_line() -> None:
    text = "__device__ int f(int x) { return y; }\n__co__ void g(s32 [4]& x) {\n"
    text += "  parallel p by 4 { mutable s32 v = call f(x.at(p)); x.at(p) = v; }\n}\nint main() {}\n"
    with pytest.raises(CompileError, match=r"p\.co:1:\d+: error: .*identifier .y. is undefined"):
        whole.executable(whole.transpile(Source(text, NAME), "cuda", "sm_80"))


@pytest.mark.gpu
@pytest.mark.skipif(targets.why_not_gpu() is not None, reason="there is no GPU")
@pytest.mark.parametrize("path", sorted(SEEDS.glob("*.co")), ids=lambda path: path.stem)
def test_seed_programs_pass_on_a_gpu(path: Path) -> None:
    done = croq.run_program(path.read_text(), target="cuda")
    assert (done.returncode, done.stdout, done.stderr) == (0, "Test Passed\n\n", "")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('extern "C" void f(int* a) { if (a) a[0] = 1; }', 'extern "C" __device__ void f(int* a) { if (a) a[0] = 1; }'),
        ('extern "C" {\nint g(int x) { return x; }\n}', 'extern "C" {\n__device__ int g(int x) { return x; }\n}'),
        ("template <int N>\nint h() { return N; }", "template <int N>\n__device__ int h() { return N; }"),
        ("__device__ int k() { return 1; }", "__device__ int k() { return 1; }"),
        ("// int no() {\nint a(int b) { return b; }", "// int no() {\n__device__ int a(int b) { return b; }"),
        ("#define M(x) {x}\nint a() { return 2; }", "#define M(x) {x}\n__device__ int a() { return 2; }"),
        ("struct s { int x; };\ns m(s v) { return v; }", "struct s { int x; };\n__device__ s m(s v) { return v; }"),
    ],
)
def test_functions_of_cok_blocks_become_device_functions(text: str, expected: str) -> None:
    assert single_source.with_device_marker(text) == expected
