"""Every conformance program compiles to CUBIN: ptxas checks the inline assembly of the prelude as well."""

from __future__ import annotations

from pathlib import Path

import pytest
from programs.conformance import PROGRAMS
from targets.cuda_text import cubin, emission

from croq_magic.compiler.targets.simt.emission import SimtEmission
from croq_magic.errors import CompileError

SEEDS = Path(__file__).parents[2] / "programs" / "seeds"
# What an architecture has no tensor-core shape or no TMA for is an error of the program there.
REFUSED = {
    "sm_75": {"C53": "MMA01", "C54": "MMA01", "C56": "MMA06", "C57": "MMA12"},
    "sm_80": {"C56": "MMA06", "C57": "MMA12"},
    "sm_90a": {},
    "sm_100": {"C56": "MMA06", "C57": "MMA06"},
    "sm_120": {"C56": "MMA06", "C57": "MMA06"},
}


def module(emissions: list[SimtEmission]) -> str:
    """Several modules as one, so that NVRTC reads the prelude once."""
    return emissions[0].text + "".join(e.text.replace('#include "croq_cuda.h"', "") for e in emissions[1:])


@pytest.mark.parametrize("arch", list(REFUSED))
def test_conformance_programs_compile(arch: str) -> None:
    found, refused = [], {}
    for entry in PROGRAMS:
        try:
            found.append(emission(entry.source(), arch))
        except CompileError as error:
            refused[entry.name[:3]] = error.diagnostics[0].code
    assert refused == REFUSED[arch]
    kernels = [k.symbol for e in found for k in e.kernels]
    assert len(kernels) == len(set(kernels))
    binary, log = cubin(module(found), arch)
    assert binary, log
    assert not log.strip(), log  # warnings neither: nothing unused, no comparison that is always true


@pytest.mark.parametrize("arch", list(REFUSED))
@pytest.mark.parametrize("name", ["ele_add", "matmul_dma", "matmul_scalar"])
def test_seed_programs_compile(arch: str, name: str) -> None:
    binary, log = cubin(emission((SEEDS / f"{name}.co").read_text(), arch).text, arch)
    assert binary, log
    assert not log.strip(), log


def test_complaints_about_device_functions_carry_the_lines_of_the_cell() -> None:
    text = """__device__ int twice(int v) {
  return 2 * w;
}
__co__ s32 [8] f(s32 [8] x) {
  s32 [8] r;
  parallel p by 8 : thread { r.at(p) = call twice(x.at(p)); }
  return r;
}"""
    binary, log = cubin(emission(text).text, "sm_80")
    assert not binary
    assert 'cell(2): error: identifier "w" is undefined' in log


@pytest.mark.parametrize(
    "function",
    [
        "__cok__ {\n  s32 twice(s32 v) { return 2 * v; }\n}",
        "__co_device__ s32 twice(s32 v) { return 2 * v; }",
        "__device__ int twice(int v) { return 2 * v; }",
        "template <typename T> __device__ T twice(T v) { return 2 * v; }",
    ],
)
def test_device_functions_of_the_cell(function: str) -> None:
    text = (
        function
        + """
__co__ s32 [8] f(s32 [8] x) {
  s32 [8] r;
  parallel p by 8 : thread { mutable s32 y = call twice(x.at(p)); r.at(p) = y; }
  return r;
}"""
    )
    binary, log = cubin(emission(text).text, "sm_80")
    assert binary, log


def test_element_types_attributes_prints_and_assembly() -> None:
    """What the conformance programs do not have, for the oldest and the newest architecture."""
    text = """__co__ void f(bf16 [64] a, f8_e4m3 [64] b, f64 [64] c, u64 [4]& n, f16 [4]& h) {
  [[launch_bounds(128, 2)]] parallel p by 2 : block, t by 64 : thread {
    mutable f32 v = __to<f32>(a.at(t)) + __to<f32>(b.at(t)) * __to<f32>(c.at(t));
    __atomic_add(n.at(0), __to<u64>(t));
    __atomic_add(h.at(0), __to<f16>(v));
    if (t == 0) { println("p = ", p, ", v = ", v, p > 0); }
    sync.fence : device;
    h.at(1) = __to<f16>(c.at(t));
    h.at(2) = __to<f16>(n.at(1));
    __bar_sync(1, 64);
  }
}"""
    for arch in ("sm_75", "sm_90a"):
        found = emission(text, arch)
        assert "__launch_bounds__(128, 2)" in found.text
        binary, log = cubin(found.text, arch)
        assert binary, log
