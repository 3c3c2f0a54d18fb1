"""Tiles M x N x K that the tensor cores of GPUs multiply, by element types, unit and architecture.

Source: language reference, tensor cores, section 5 ("Legal tiles"), after the PTX ISA, "Warp Level Matrix Instructions"
and "Asynchronous Warpgroup Level Matrix Instructions". An entry names the least compute capability times ten.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from croq_magic.compiler.limits import Limits

Tile = tuple[int, int, int]
WARPGROUP_ARCH = "sm_90a"

_COMMON: tuple[Tile, ...] = ((16, 16, 16), (32, 8, 16), (8, 32, 16))
_HALF: tuple[Tile, ...] = ((16, 8, 8), (16, 8, 16))


class Family(NamedTuple):
    """Tiles of one instruction family from `arch` on. `a` and `b` list the operand types that go together (any with any
    when `mixed`), `c` the accumulator types."""

    arch: int
    operands: tuple[str, ...]
    c: tuple[str, ...]
    tiles: tuple[Tile, ...]
    mixed: bool = False

    def takes(self, a: str, b: str, c: str) -> bool:
        return a in self.operands and b in self.operands and (self.mixed or a == b) and c in self.c


_F8 = ("f8_e4m3", "f8_e5m2")

# `wmma`: one type for both operands, loaded by `mma.load`.
MATRIX = (
    Family(70, ("f16",), ("f16", "f32"), _COMMON),
    Family(80, ("bf16",), ("f32",), _COMMON),
    Family(72, ("s8", "u8"), ("s32",), _COMMON),
    Family(80, ("tf32",), ("f32",), ((16, 16, 8),)),
    Family(80, ("f64",), ("f64",), ((8, 8, 4),)),
    Family(73, ("s4", "u4"), ("s32",), ((8, 8, 32),)),
    Family(73, ("bin1",), ("s32",), ((8, 8, 128),)),
)
# `mma.sync`.
REGISTER = (
    Family(70, ("f16",), ("f16", "f32"), ((8, 8, 4),)),
    Family(80, ("f16",), ("f16", "f32"), _HALF),
    Family(80, ("bf16",), ("f32",), _HALF),
    Family(80, ("tf32",), ("f32",), ((16, 8, 4), (16, 8, 8))),
    Family(80, ("f64",), ("f64",), ((8, 8, 4),)),
    Family(80, ("s8", "u8"), ("s32",), ((8, 8, 16), (16, 8, 16), (16, 8, 32)), True),
    Family(80, ("s4", "u4"), ("s32",), ((8, 8, 32), (16, 8, 32), (16, 8, 64)), True),
    Family(80, ("bin1",), ("s32",), ((8, 8, 128), (16, 8, 128), (16, 8, 256))),
    Family(89, _F8, ("f16", "f32"), ((16, 8, 32),), True),
)
# Sparse forms of `mma.sync`; K is the logical one.
SPARSE = (
    Family(80, ("f16",), ("f16", "f32"), ((16, 8, 32),)),
    Family(80, ("bf16",), ("f32",), ((16, 8, 32),)),
    Family(90, _F8, ("f16", "f32"), ((16, 8, 64),), True),
)
# `wgmma`: M is 64, N one of a list, K any multiple of the atom.
_EIGHTS = tuple(range(8, 257, 8))
_INTEGER_N = (8, *range(16, 33, 8), *range(48, 257, 16))
WARPGROUP = (
    (("f16",), ("f16", "f32"), 16, _EIGHTS),
    (("bf16",), ("f32",), 16, _EIGHTS),
    (("tf32",), ("f32",), 8, _EIGHTS[1:]),
    (_F8, ("f16", "f32"), 32, _EIGHTS),
    (("s8", "u8"), ("s32",), 32, _INTEGER_N),
)


def warp_tiles(a: str, b: str, c: str, arch: int, sparse: bool = False) -> list[Tile]:
    """Tiles that one warp multiplies on `arch`; those of the register family first."""
    families: Sequence[Family] = SPARSE if sparse else (*REGISTER, *MATRIX)
    found = [tile for family in families if family.arch <= arch and family.takes(a, b, c) for tile in family.tiles]
    return list(dict.fromkeys(found))


def warpgroup_form(a: str, b: str, c: str, sparse: bool = False) -> tuple[int, tuple[int, ...]] | None:
    """The K atom and the values of N that a warpgroup multiplies (M is 64), or None for these types."""
    for operands, results, atom, columns in WARPGROUP:
        if a in operands and b in operands and c in results and (a == b or len(operands) > 1):
            return atom * (2 if sparse else 1), columns
    return None


def is_legal(tile: Tile, a: str, b: str, c: str, limits: Limits, warpgroup: bool, sparse: bool = False) -> bool:
    """Whether one unit multiplies such a tile: a warp as a whole, a warpgroup in steps along K."""
    if not warpgroup:
        return tile in warp_tiles(a, b, c, limits.arch, sparse)
    form = warpgroup_form(a, b, c, sparse)
    if form is None or limits.name != WARPGROUP_ARCH:
        return False
    m, n, k = tile
    return m == 64 and n in form[1] and k % form[0] == 0


def nearest(
    tile: Tile, a: str, b: str, c: str, limits: Limits, warpgroup: bool, sparse: bool = False, most: int = 2
) -> list[Tile]:
    """The legal tiles closest to `tile`, smallest first."""
    candidates = list(_candidates(a, b, c, limits, warpgroup, sparse))

    def distance(other: Tile) -> tuple[int, Tile]:
        return sum(abs(x - y) for x, y in zip(tile, other, strict=True)), other

    return sorted(sorted(candidates, key=distance)[:most])


def _candidates(a: str, b: str, c: str, limits: Limits, warpgroup: bool, sparse: bool) -> Iterator[Tile]:
    if not warpgroup:
        yield from warp_tiles(a, b, c, limits.arch, sparse)
        return
    form = warpgroup_form(a, b, c, sparse)
    if form is not None and limits.name == WARPGROUP_ARCH:
        yield from ((64, n, form[0]) for n in form[1])
