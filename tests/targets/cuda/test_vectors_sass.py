"""Element-wise levels in machine code: 16 bytes an access, everything in registers, all arithmetic there."""

from __future__ import annotations

import re
from collections import Counter

import pytest
from targets.cuda_text import emission

from croq_magic.compiler.targets.cuda import build, disasm

ARCHS = ("sm_75", "sm_80", "sm_90a")
ADD = """
__co__ void add({t} [{shape}] a, {t} [{shape}] b, {t} [{shape}]& c) {{
  parallel {{i, j}} by [{shape}] c.at(i, j) = a.at(i, j) + b.at(i, j);
}}
"""


def instructions(text: str, arch: str) -> Counter[str]:
    code = disasm.sass(build.cubin(emission(text, arch).text, arch).cubin)
    found = re.findall(r"/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\d+ )?([A-Z][\w.]*)", code)
    return Counter(re.sub(r"\.(SYS|CONSTANT)", "", name) for name in found)


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("dtype", ["s32", "f32", "f16", "s8", "bf16", "f64"])
def test_whole_blocks(arch: str, dtype: str) -> None:
    """Two vectors of each array a thread: the loads of both are under way together, and nothing else is in memory."""
    found = instructions(ADD.format(t=dtype, shape="16384, 16384"), arch)
    memory = {name: count for name, count in found.items() if name.startswith(("LD", "ST")) and name[:3] != "LDC"}
    assert memory == {"LDG.E.128": 4, "STG.E.128": 2}
    if dtype == "f32":
        assert found["FADD"] == 8


@pytest.mark.parametrize("shape", ["M, N", "1001, 1003"])
@pytest.mark.parametrize("dtype", ["s32", "f32", "f16"])
def test_any_shape(dtype: str, shape: str) -> None:
    found = instructions(ADD.format(t=dtype, shape=shape), "sm_90a")
    assert found["LDG.E.128"] >= 2 and found["STG.E.128"] >= 1
    assert not any(name.startswith(("LDL", "STL")) for name in found)


def test_rows_of_a_thread() -> None:
    """Tiles of a thread in registers are stored as vectors."""
    text = """
__co__ f32 [128, 128] mm(f32 [128, 64] a, f32 [64, 128] b) {
  f32 [128, 128] c;
  parallel {px, py} by [2, 2] : block {
    foreach kk in [8] {
      la = dma.copy a.chunkat(px, kk) => shared;
      lb = dma.copy b.chunkat(kk, py) => shared;
      parallel {qx, qy} by [16, 16] : thread
        foreach {m, n} in [4, 4] foreach k in [8]
          c.at(px#qx#m, py#qy#n) += la.data.at(qx#m, k) * lb.data.at(k, qy#n);
    }
  }
  return c;
}
"""
    found = instructions(text, "sm_90a")
    assert found["STG.E.128"] == 4 and not found["STG.E"]
    assert not any(name.startswith(("LDL", "STL")) for name in found)


def test_no_division_of_64_bits_where_extents_are_small() -> None:
    """The kernel of 32 bits divides by a multiplication and a few instructions; that of 64 bits calls a function."""
    text = "__co__ void f(f32 [M, N] a, f32 [N, M]& c) { parallel {i, j} by [M, N] c.at(j, i) = a.at(i, j); }"
    code = disasm.sass(build.cubin(emission(text, "sm_90a").text, "sm_90a").cubin)
    parts = {part.split("\n", 1)[0]: part for part in re.split(r"^\.text\.", code, flags=re.MULTILINE)[1:]}
    narrow, wide = parts["f_kernel:"], parts["f_kernel_wide:"]
    assert "CALL" in wide and "CALL" not in narrow


@pytest.mark.parametrize("dtype", ["s8", "u16", "s32", "u32"])
def test_floats_become_integers_without_branches(dtype: str) -> None:
    """The instruction saturates of itself."""
    text = (
        f"__co__ void f(f32 [16384] x, {dtype} [16384]& y) {{ parallel p by 16384 y.at(p) = __to<{dtype}>(x.at(p)); }}"
    )
    found = instructions(text, "sm_90a")
    assert found["BRA"] <= 1  # behind the end
    assert sum(count for name, count in found.items() if name.startswith("F2I")) == 1
