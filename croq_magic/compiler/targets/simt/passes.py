"""The passes that every SIMT target wants, in order; a target adds its own."""

from __future__ import annotations

from collections.abc import Sequence

from croq_magic.compiler.passes.base import Pass
from croq_magic.compiler.passes.share_fragments import ShareFragments
from croq_magic.compiler.passes.spread_blocks import SpreadBlocks


def simt_passes() -> Sequence[Pass]:
    """Instances that need no block of their own become threads; fragments become storage."""
    return (SpreadBlocks(), ShareFragments())
