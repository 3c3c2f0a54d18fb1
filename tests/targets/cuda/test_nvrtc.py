"""NVRTC: where it is found, what it makes, and what it says about cells. No GPU is needed."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from programs.generated import make
from targets.cuda_text import emission

import croq_magic as croq
from croq_magic.compiler.targets import cuda
from croq_magic.compiler.targets.cuda import build, disasm, nvrtc

SEEDS = Path(__file__).parents[2] / "programs" / "seeds"
ARCHS = ["sm_75", "sm_80", "sm_90a"]


# ---------------------------------------------------------------------------------------------------------- where it is


def wheels(root: Path, *files: str) -> Path:
    for name in files:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    return root


@pytest.fixture
def nowhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A machine with nothing but what a test puts there."""
    monkeypatch.setattr(nvrtc, "wheel_folders", lambda: [tmp_path / "nvidia"])
    monkeypatch.delenv("CUDA_PATH", raising=False)
    monkeypatch.setenv("CUDA_HOME", str(tmp_path / "toolkit"))


def test_wheels_of_cuda_13(tmp_path: Path, nowhere: None) -> None:
    root = wheels(
        tmp_path / "nvidia" / "cu13", "lib/libnvrtc.so.13", "lib/libnvrtc.alt.so.13", "lib/libnvrtc-builtins.so.13.0"
    )
    assert next(nvrtc.places()) == (str(root / "lib/libnvrtc.so.13"), (str(root / "include"),))


def test_wheels_of_cuda_12(tmp_path: Path, nowhere: None) -> None:
    root = wheels(
        tmp_path / "nvidia",
        "cuda_nvrtc/lib/libnvrtc.so.12",
        "cuda_nvrtc/include/nvrtc.h",
        "cuda_runtime/include/cuda_fp16.h",
    )
    place = next(nvrtc.places())
    assert place.library == str(root / "cuda_nvrtc/lib/libnvrtc.so.12")
    assert place.headers == (str(root / "cuda_nvrtc/include"), str(root / "cuda_runtime/include"))


def test_installations_and_the_linker(tmp_path: Path, nowhere: None) -> None:
    root = wheels(tmp_path / "toolkit", "lib64/libnvrtc.so", "lib64/libnvrtc.so.12.8.93", "include/cuda.h")
    places = list(nvrtc.places())
    assert places[0] == (str(root / "lib64/libnvrtc.so.12.8.93"), (str(root / "include"),))
    assert [place.library for place in places[-2:]] == ["libnvrtc.so.13", "libnvrtc.so.12"]


def test_the_newest_that_the_driver_can_run(monkeypatch: pytest.MonkeyPatch) -> None:
    class Loaded:
        def __init__(self, place: nvrtc.Place) -> None:
            if place.library == "broken":
                raise OSError("no such file")
            self.place, self.version = place, (int(place.library), 0)

    monkeypatch.setattr(nvrtc, "Nvrtc", Loaded)
    places = [nvrtc.Place(name) for name in ("broken", "13", "12")]
    for driver, wanted in ((0, 13), (13, 13), (12, 12), (11, 13)):
        assert nvrtc.load(iter(places), driver).version[0] == wanted


def test_a_library_that_does_not_load_is_named(tmp_path: Path) -> None:
    (tmp_path / "libnvrtc.so.13").write_bytes(b"no library")
    with pytest.raises(croq.TargetError, match=r"needs NVRTC to compile, and .*libnvrtc.so.13 does not load"):
        nvrtc.load(iter([nvrtc.Place(str(tmp_path / "libnvrtc.so.13"))]), 0)


# -------------------------------------------------------------------------------------------------------- what it makes


def test_machine_code_comes_from_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CROQ_CACHE_DIR", str(tmp_path))
    text = emission((SEEDS / "ele_add.co").read_text()).text
    first, second = build.cubin(text, "sm_80"), build.cubin(text, "sm_80")
    assert not first.cached and second.cached and first.cubin == second.cubin
    assert build.restored(first.key) == first.cubin
    assert not build.cubin(text, "sm_90a").cached


def test_unknown_architectures(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(croq.TargetError, match=r"NVRTC \d+\.\d+ does not compile for sm_30; a newer one does"):
        build.cubin('extern "C" __global__ void k() {}', "sm_30")
    with pytest.raises(croq.TargetError, match="no architecture `sm_12` of `cuda`; known are sm_75"):
        cuda.target("sm_12")


@pytest.mark.parametrize("arch", ARCHS)
def test_generated_programs_compile(arch: str) -> None:
    """NVRTC lets go of the interpreter's lock; texts that it refuses would raise."""
    texts = [emission(make(seed).source("f"), arch).text for seed in range(16)]
    with ThreadPoolExecutor(2) as pool:
        assert all(pool.map(lambda text: build.cubin(text, arch).cubin[:4] == b"\x7fELF", texts))


def test_conformance_keeps_products_and_sums_apart() -> None:
    text = """
__co__ f32 [N] f(f32 [N] a, f32 [N] b, f32 [N] c) {
  f32 [N] r;
  parallel p by N { r.at(p) = a.at(p) * b.at(p) + c.at(p); }
  return r;
}"""
    made = emission(text).text
    usual, apart = (disasm.sass(build.cubin(made, "sm_80", conformance=each).cubin) for each in (False, True))
    assert "FFMA" in usual and "FFMA" not in apart and "FMUL" in apart and "FADD" in apart


# -------------------------------------------------------------------------------------------------------- machine code


def instructions(text: str, arch: str) -> list[str]:
    code = disasm.sass(build.cubin(emission(text, arch).text, arch).cubin)
    return re.findall(r"/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\d+ )?([A-Z][\w.]*)", code)


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("name", ["ele_add", "matmul_dma", "matmul_scalar"])
def test_tutorial_kernels_spill_nothing(arch: str, name: str) -> None:
    found = instructions((SEEDS / f"{name}.co").read_text(), arch)
    assert not [each for each in found if each.startswith(("STL", "LDL"))]
    assert any(each.startswith("STG") for each in found)


@pytest.mark.parametrize("arch", ARCHS)
def test_the_tiled_copy_moves_16_bytes_at_a_time(arch: str) -> None:
    found = instructions((SEEDS / "matmul_dma.co").read_text(), arch)
    assert [each for each in found if each.startswith(("LDG.E.128", "LDGSTS.E.BYPASS.128", "LDGSTS.E.128"))]


ASYNC_COPY = """
__co__ f32 [256, 1024] pass_on(f32 [256, 1024] a) {
  f32 [256, 1024] r;
  parallel {p, q} by [8, 8] : block {
    from = dma.copy.async a.chunkat(p, q) => shared;
    wait from;
    dma.copy from.data => r.chunkat(p, q);
  }
  return r;
}"""


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_asynchronous_copies_are_ldgsts(arch: str) -> None:
    found = instructions(ASYNC_COPY, arch)
    assert [each for each in found if each.startswith("LDGSTS") and "128" in each]


# ------------------------------------------------------------------------------------------------------------ messages


def cell(body: str, head: str = "") -> str:
    return f"""{head}__device__ int f(int v) {{
  {body}
}}
__co__ s32 [8] g(s32 [8] x) {{
  s32 [8] r;
  parallel p by 8 : thread {{ r.at(p) = call f(x.at(p)); }}
  return r;
}}"""


@pytest.mark.parametrize(
    ("body", "line", "column", "message"),
    [
        ("return 2 * w;", 2, 14, "identifier `w` is undefined"),
        ("return v", 3, 1, "expected a `;`"),
        ('asm volatile("foo.bar;"); return v;', 2, 3, "ptxas: Not a name of any known instruction: `foo`"),
        ("return f(v, 2);", 2, 15, "too many arguments"),
    ],
)
def test_messages_are_about_the_cell(body: str, line: int, column: int, message: str) -> None:
    with pytest.raises(croq.CompileError) as caught:
        croq.compile(cell(body), target="cuda", arch="sm_80")
    found = [d for d in caught.value.diagnostics if message in d.message]
    assert found and found[0].code == "CXX01" and found[0].message.startswith("the CUDA compiler says: ")
    assert (found[0].span.line, found[0].span.column) == (line, column)


@pytest.mark.parametrize(
    ("form", "body", "place", "message"),
    [
        ("ptx", "return 2 * w;", "2:14", "identifier `w` is undefined"),
        ("sass", "return 2 * w;", "2:14", "identifier `w` is undefined"),
        ("ptx", 'asm volatile("foo.bar;"); return v;', "2:3", "ptxas: Unknown modifier `.bar`"),
        ("sass", 'asm volatile("foo.bar;"); return v;', "2:3", "ptxas: Unknown modifier `.bar`"),
    ],
)
def test_what_is_shown_has_the_same_messages(
    form: str, body: str, place: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from croq_magic.driver import main

    path = tmp_path / "wrong.co"
    path.write_text(cell(body))
    assert main(["--emit", form, "-arch", "sm_80", str(path)]) == 1
    said = capsys.readouterr().err
    assert said.startswith(f"{path}:{place}: error: the CUDA compiler says: {message}") and "[CXX01]" in said


def test_headers_that_are_missing_get_a_hint() -> None:
    with pytest.raises(croq.CompileError) as caught:
        croq.compile(cell("return v;", "#include <cub/cub.cuh>\n"), target="cuda", arch="sm_80")
    (found,) = caught.value.diagnostics
    assert found.span.line == 1 and "pip install nvidia-cuda-cccl" in str(found.hint)


def test_headers_of_the_host_are_left_out() -> None:
    head = "#include <vector>\n#include <cuda_runtime.h>\n#include <stdio.h>\n"
    assert croq.compile(cell("return v;", head), target="cuda", arch="sm_80").target == "cuda"


def test_headers_of_cuda_are_there() -> None:
    text = cell("return (int)__half2float(__float2half((float)v));", "#include <cuda_fp16.h>\n")
    assert croq.compile(text, target="cuda", arch="sm_80").target == "cuda"


def test_no_disassembler(monkeypatch: pytest.MonkeyPatch) -> None:
    disasm.tool.cache_clear()
    monkeypatch.setattr("shutil.which", lambda *args, **kwargs: None)
    with pytest.raises(croq.TargetError, match="nvdisasm, which was not found; `pip install nvidia-cuda-nvdisasm`"):
        disasm.tool()
    disasm.tool.cache_clear()


def test_the_driver_shows_code(capsys: Any) -> None:
    from croq_magic.driver import main

    source = str(SEEDS / "ele_add.co")
    assert main(["--emit", "ptx", "-arch", "sm_75", source]) == 0
    ptx = capsys.readouterr().out
    assert ".target sm_75" in ptx
    if nvrtc.nvrtc().version >= (12, 8):  # no variables but the program's
        assert not re.search(r"^\.global", ptx, re.MULTILINE)
    assert main(["--emit", "sass", source]) == 0
    assert "STG" in capsys.readouterr().out
    assert main(["--emit", "cuda", "-t", "cpu", source]) == 2
    assert main(["--emit", "asm", source]) == 2
    assert "no form 'asm'; there are cuda, ptx, sass" in capsys.readouterr().err
