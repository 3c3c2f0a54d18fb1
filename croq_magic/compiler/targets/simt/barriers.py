"""Numbers of the barriers at which some threads of a block meet: hardware has 16, and 0 is that of the whole block.

Threads that meet at one number count together whatever they meet for, so sets of threads that may be on their way at
the same time need numbers of their own. Groups of 128 threads have 15, 14, ... by their place in the block.
"""

from __future__ import annotations

from croq_magic.compiler import integers, ir
from croq_magic.compiler.visit import walk

_LAST = 15
_GROUP = 128


class BarrierNumbers:
    """Gives them to sets of threads of one kernel with `count` threads a block."""

    def __init__(self, body: ir.Body, count: int) -> None:
        nodes = list(walk(body))
        groups = any(isinstance(node, ir.Region) and node.level is ir.Level.GROUP4 for node in nodes)
        given = [integers.value(node.number) for node in nodes if isinstance(node, ir.NamedBarrier)]
        self._group_of = {tuple(range(i, i + _GROUP)): i // _GROUP for i in range(0, count, _GROUP)} if groups else {}
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
