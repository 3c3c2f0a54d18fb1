"""Machine code of fragments: shuffles for reductions, no local memory, and CUBIN for every architecture."""

from __future__ import annotations

import pytest
from programs.conformance import PROGRAMS
from targets.cuda_text import cubin, emission

from croq_magic.compiler.targets.cuda import disasm

CENTER = next(entry.source() for entry in PROGRAMS if entry.name.startswith("C55"))
ALL = """__co__ void f(f32 [1, 1000] x, f64 [40, 8] y, s8 [16, 7] z, f32 [1]& a, f64 [8]& b, s8 [16]& c) {
  parallel by 1 : block, t by 128 : thread {
    frag f32 [1, 1000] u; frag f64 [40, 8] v; frag s8 [16, 7] w;
    frag f32 [1] m; frag f64 [8] n; frag s8 [16] o;
    apply {i, j} in u.span u.at(i, j) = x.at(i, j);
    apply {i, j} in v.span v.at(i, j) = y.at(i, j);
    apply {i, j} in w.span w.at(i, j) = z.at(i, j);
    reduce_sum(m, u, 1);
    reduce_max(n, v, 0);
    reduce_max(o, w, 1);
    apply {i} in m.span a.at(i) = m.at(i);
    apply {i} in n.span b.at(i) = n.at(i);
    apply {i} in o.span c.at(i) = o.at(i);
  }
}"""


def code(text: str, arch: str) -> str:
    binary, log = cubin(emission(text, arch).text, arch)
    assert binary, log
    assert not log.strip(), log
    return disasm.sass(binary)


def test_a_row_of_a_warp_is_reduced_by_shuffles_alone() -> None:
    found = code(CENTER, "sm_90a")
    assert found.count("SHFL.BFLY") == 20  # four rows a warp, five steps each
    for other in ("BAR.SYNC", "LDS", "STS", "LDL", "STL"):
        assert other not in found


@pytest.mark.parametrize("arch", ["sm_75", "sm_80", "sm_90a"])
def test_reductions_of_all_kinds(arch: str) -> None:
    found = code(ALL, arch)
    assert "SHFL.BFLY" in found
    assert "LDL" not in found
    assert "STL" not in found


@pytest.mark.parametrize("name", ["s32", "u32"])
def test_integers_of_a_warp_are_reduced_by_one_instruction(name: str) -> None:
    source = CENTER.replace("f32", name).replace("0.0f", "0")
    assert code(source, "sm_80").count("REDUX") == 4
    old = code(source, "sm_75")
    assert "REDUX" not in old
    assert old.count("SHFL.BFLY") == 20
