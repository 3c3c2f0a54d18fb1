"""Numbers of the barriers at which some threads of a block meet: hardware has 16, and 0 is that of the whole block.

Threads that meet at one number count together whatever they meet for, so sets of threads that may be on their way at
the same time need numbers of their own. Units of several warps have 15, 14, ... by their place in the block.
"""

from __future__ import annotations

from croq_magic.compiler import integers, ir
from croq_magic.compiler.passes.map_limits import WARP
from croq_magic.compiler.targets.simt.threads import unit_threads
from croq_magic.compiler.visit import walk

_UNITS = (ir.Level.GROUP, ir.Level.GROUP4)
_LAST = 15
MOST_UNITS = 8  # of one size that have numbers


class BarrierNumbers:
    """Gives them to sets of threads of one kernel with `count` threads a block."""

    def __init__(self, body: ir.Body, count: int) -> None:
        nodes = list(walk(body))
        given = [integers.value(node.number) for node in nodes if isinstance(node, ir.NamedBarrier)]
        regions = [node for node in nodes if isinstance(node, ir.Region) and node.level in _UNITS]
        sizes = {size for region in regions if (size := integers.value(unit_threads(region))) and size > WARP}
        sizes = {size for size in sizes if count // size <= MOST_UNITS}
        self._group_of = {tuple(range(i, i + n)): i // n for n in sizes for i in range(0, count, n)}
        taken = {*given, *(_LAST - place for place in self._group_of.values())}
        # A program that computes its own numbers is expected to stay in the lower half.
        self._free = [n for n in range(_LAST, 7 if None in given else 0, -1) if n not in taken]
        self._known: dict[tuple[int, ...], int] = {}

    def of(self, threads: tuple[int, ...]) -> int | None:
        """The number for these threads, None if there are no more."""
        place = self._group_of.get(threads)
        if place is not None:
            return _LAST - place
        if threads not in self._known:
            if not self._free:
                return None
            self._known[threads] = self._free.pop(0)
        return self._known[threads]
