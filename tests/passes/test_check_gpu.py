"""Rules of GPUs that need nothing but a table of limits: a program is checked for one on any machine."""

from __future__ import annotations

import numpy as np
import pytest

import croq_magic as croq
from croq_magic.compiler import mma_tiles
from croq_magic.compiler.limits import LIMITS


def found(program: str, arch: str | None = None, target: str = "cuda") -> list[tuple[str, str]]:
    return [(d.code, d.message) for d in croq.check(program, target=target, arch=arch)]


def multiply(m: int, n: int, k: int, types: str = "f16", accumulator: str = "f32", level: str = "group") -> str:
    return f"""
__co__ void f(global {types} [{m}, {k}] x, global {types} [{n}, {k}] y, global {accumulator} [{m}, {n}] z) {{
  parallel b by 1 : block {{
    shared {types} [{m}, {k}] sa; shared {types} [{n}, {k}] sb;
    dma.copy x => sa; dma.copy y => sb;
    parallel w by 1 : {level} {{
      c = mma.fill.{accumulator} 0;
      mma.row.row c, sa, sb;
      mma.store c, z;
    }}
  }}
}}"""


# (tile, types, accumulator, level, arch) -> whether there is an instruction. By hand from the reference's tables.
TILES = [
    ((16, 8, 16), "f16", "f32", "group", "sm_80", True),
    ((16, 8, 16), "f16", "f32", "group", "sm_75", False),
    ((16, 16, 16), "f16", "f32", "group", "sm_75", True),
    ((8, 8, 4), "f16", "f16", "group", "sm_75", True),
    ((16, 16, 16), "bf16", "f32", "group", "sm_75", False),
    ((32, 32, 32), "f16", "f32", "group", "sm_86", False),
    ((8, 32, 16), "bf16", "f32", "group", "sm_86", True),
    ((16, 8, 8), "tf32", "f32", "group", "sm_86", True),
    ((16, 8, 16), "tf32", "f32", "group", "sm_86", False),
    ((8, 8, 4), "f64", "f64", "group", "sm_86", True),
    ((16, 8, 32), "s8", "s32", "group", "sm_86", True),
    ((16, 8, 32), "f8_e4m3", "f32", "group", "sm_86", False),
    ((16, 8, 32), "f8_e4m3", "f32", "group", "sm_89", True),
    ((64, 256, 64), "f16", "f32", "group-4", "sm_90a", True),
    ((64, 256, 40), "f16", "f32", "group-4", "sm_90a", False),
    ((64, 8, 16), "tf32", "f32", "group-4", "sm_90a", False),
    ((64, 16, 16), "tf32", "f32", "group-4", "sm_90a", True),
    ((128, 16, 16), "f16", "f32", "group-4", "sm_90a", False),
    ((64, 40, 32), "s8", "s32", "group-4", "sm_90a", False),
    ((64, 48, 32), "s8", "s32", "group-4", "sm_90a", True),
    ((64, 64, 4), "f64", "f64", "group-4", "sm_90a", False),
]


@pytest.mark.parametrize(("tile", "types", "accumulator", "level", "arch", "legal"), TILES)
def test_tiles(tile: tuple[int, int, int], types: str, accumulator: str, level: str, arch: str, legal: bool) -> None:
    program = multiply(*tile, types, accumulator, level)
    codes = [code for code, _ in found(program, arch)]
    assert ("MMA01" in codes) is not legal, codes
    assert "MMA06" not in codes
    assert found(program, target="cpu") == []  # any tile is legal there


def test_nearest_tiles_and_a_hint_to_loop() -> None:
    (finding,) = croq.check(multiply(32, 32, 32), target="cuda", arch="sm_86")
    assert finding.message == (
        "no instruction for f16,f16->f32 32x32x32 in one warp on sm_86; nearest: 8x32x16, 32x8x16"
    )
    assert finding.hint == "loop over tiles of 16x16x16"


@pytest.mark.parametrize("arch", ["sm_75", "sm_86", "sm_89", "sm_90"])
def test_warpgroups_need_hopper(arch: str) -> None:
    ((code, message),) = found(multiply(64, 8, 16, level="group-4"), arch)
    assert code == "MMA06"
    assert message == ("warpgroup MMA needs sm_90a" if arch == "sm_90" else "warpgroup MMA needs sm_90")


def test_every_listed_tile_is_legal_and_its_own_nearest() -> None:
    for arch in ("sm_75", "sm_80", "sm_89", "sm_90a"):
        limits = LIMITS[arch]
        for family in (*mma_tiles.MATRIX, *mma_tiles.REGISTER):
            for tile in family.tiles:
                types = (family.operands[0], family.operands[0], family.c[0])
                legal = mma_tiles.is_legal(tile, *types, limits, warpgroup=False)
                assert legal or family.arch > limits.arch
                if legal:
                    assert tile in mma_tiles.nearest(tile, *types, limits, warpgroup=False, most=1)


ATOMICS = {
    "add": {"s32", "u32", "u64", "f32", "f64", "f16", "bf16"},
    "exch": {"s32", "u32", "u64", "f32"},
    "max": {"s32", "u32", "s64", "u64"},
}


@pytest.mark.parametrize("op", ATOMICS)
@pytest.mark.parametrize("dtype", ["s32", "u32", "s64", "u64", "f16", "bf16", "f32", "f64", "u16"])
def test_types_of_atomics(op: str, dtype: str) -> None:
    program = f"""__co__ void f({dtype} [4]& x) {{ parallel p by 1 : block parallel q by 4 : thread
      {{ __atomic_{op}(x.at(0), __to<{dtype}>(1)); }} }}"""
    codes = [code for code, _ in found(program, "sm_86")]
    assert ("CAL09" in codes) is (dtype not in ATOMICS[op])
    if dtype == "bf16" and op == "add":
        assert "CAL09" in [code for code, _ in found(program, "sm_75")]


def copy(source: str, destination: str, suffix: str = "") -> str:
    wait = "wait q;" if suffix else ""
    return f"""__co__ void f(f32 [8] g, f32 [8]& h) {{ parallel b by 1 : block {{
      shared f32 [8] s {{0.0f}}, t; local f32 [8] l {{0.0f}};
      q = dma.copy{suffix} {source} => {destination}; {wait} }} }}"""


@pytest.mark.parametrize(
    ("source", "destination", "suffix", "arch", "codes"),
    [
        ("g", "t", "", "sm_86", []),
        ("g", "t", ".async", "sm_86", []),
        ("g", "t", ".async", "sm_75", ["DMA23"]),  # cp.async came with sm_80
        ("g", "local", ".async", "sm_90a", ["DMA23"]),
        ("s", "h", ".async", "sm_90a", ["DMA23"]),
        ("s", "t", "", "sm_86", ["DMA26"]),
        ("g", "h", "", "sm_86", ["DMA26"]),
        ("g", "h", ".async", "sm_86", ["DMA23", "DMA26"]),
        ("l", "t", "", "sm_86", []),
    ],
)
def test_directions_of_copies(source: str, destination: str, suffix: str, arch: str, codes: list[str]) -> None:
    program = copy(source, destination, suffix)
    assert sorted(code for code, _ in found(program, arch)) == codes
    assert found(program, target="cpu") == []


def test_the_table_of_limits_is_enough_to_check_for_a_gpu() -> None:
    assert found("__co__ void f() { parallel by 1 : block { shared f32 [20000] t {0.0f}; } }", "sm_75") == [
        ("STO06", "block needs 80000 bytes of shared memory, sm_75 offers 65536. largest: `t`")
    ]
    assert found("__co__ void f() {}", "sm_75", "gpu") == found("__co__ void f() {}", None, "cute") == []
    with pytest.raises(croq.TargetError, match="no architecture `sm_12` of `cuda`; known are sm_75, "):
        found("__co__ void f() {}", "sm_12")


def test_predefined_macros_follow_the_architecture() -> None:
    program = "__co__ void f() {\n#if __CHOREO_ARCH__ < 80\n#error old\n#endif\n}"
    assert found(program, "sm_75") == [("PRE03", "old")]
    assert found(program, "sm_80") == []


def test_what_a_gpu_refuses_runs_on_the_cpu() -> None:
    x, y = np.arange(32 * 24).reshape(32, 24) % 7, np.arange(40 * 24).reshape(40, 24) % 5
    z = np.zeros((32, 40), np.float32)
    croq.compile(multiply(32, 40, 24), target="cpu").f(x.astype(np.float16), y.astype(np.float16), z)
    assert np.array_equal(z, x @ y.T)
