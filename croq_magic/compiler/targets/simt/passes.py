"""The passes that every SIMT target wants, in order; a target adds its own."""

from __future__ import annotations

from collections.abc import Sequence

from croq_magic.compiler.passes.base import Pass
from croq_magic.compiler.passes.guard_ends import GuardEnds
from croq_magic.compiler.passes.lower_compression import LowerCompression
from croq_magic.compiler.passes.renew_joins import RenewJoins
from croq_magic.compiler.passes.share_fragments import ShareFragments
from croq_magic.compiler.passes.spread_blocks import SpreadBlocks
from croq_magic.compiler.passes.vectorise_elements import VectoriseElements
from croq_magic.compiler.passes.widen_blocks import WidenBlocks


def simt_passes(processor: bool = False, shuffles: bool = True) -> Sequence[Pass]:
    """Instances that need no block of their own become threads, blocks that move data get some, fragments become
    storage, and threads that end early stay for barriers. A `processor` runs the threads of a block one after the
    other, so there one is enough. `shuffles`: threads of a warp can pass each other values without memory."""
    spread = SpreadBlocks(work=1, vector=0) if processor else SpreadBlocks()
    passes: tuple[Pass, ...] = (RenewJoins(), LowerCompression(host=True), spread, WidenBlocks())
    passes = (*passes, ShareFragments(shuffles), GuardEnds(), VectoriseElements())
    return tuple(p for p in passes if not (processor and isinstance(p, (WidenBlocks, VectoriseElements))))
