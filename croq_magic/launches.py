"""What a function launches: grid, block, shared memory and the level map, per launch."""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from croq_magic.compiler.ir import Function
    from croq_magic.program import TileFunction

LANES = {"group-4": 128, "group": 32}


@dataclasses.dataclass(frozen=True)
class Launch:
    """One kernel launch.

    `grid` and `block` are CUDA's (x, y, z); the first index of a `parallel` is x. `shared_bytes` is what the program
    declares for one block. `levels` has (level, index names, extents) from coarse to fine, as the program is mapped.
    """

    kernel: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared_bytes: int
    levels: tuple[tuple[str, tuple[str, ...], tuple[int, ...]], ...]

    @property
    def blocks(self) -> int:
        return math.prod(self.grid)

    @property
    def threads(self) -> int:
        """Threads of one block."""
        return math.prod(self.block)


def launches(function: TileFunction | Function, sizes: dict[str, Any]) -> list[Launch]:
    """All launches of a function or of its IR, in program order. `sizes`: arrays and scalars by parameter name."""
    from croq_magic import viz

    return [_launch(found) for found in viz.mapping(function, **sizes).data["launches"]]


def _launch(found: dict[str, Any]) -> Launch:
    blocks = [level for level in found["levels"] if level["kind"] == "block"]
    threads = [level for level in found["levels"] if level["kind"] == "thread"]
    groups = [level for level in found["levels"] if level["kind"] == "group"]
    if groups:  # warps and their lanes are counted along x
        count = math.prod(level["count"] for level in groups + threads)
        lanes = 1 if threads else LANES[groups[-1]["level"]]
        block = (count * lanes, 1, 1)
    else:
        block = _three(threads)
    levels = tuple((level["level"], level["indices"], level["extents"]) for level in found["levels"])
    return Launch(found["kernel"], _three(blocks), block, found["shared"], levels)


def _three(levels: list[dict[str, Any]]) -> tuple[int, int, int]:
    """Extents along x, y and z: those of one level, or the instances of several along x."""
    if len(levels) > 1:
        return (math.prod(level["count"] for level in levels), 1, 1)
    extents = levels[0]["extents"] if levels else ()
    x, y, z = (*extents, 1, 1, 1)[:3]
    return (x, y, z)
