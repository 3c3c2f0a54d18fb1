"""The passes of the CPU target, in order."""

from __future__ import annotations

from collections.abc import Sequence

from croq_magic.compiler.passes.base import Pass
from croq_magic.compiler.passes.choose_strategy import ChooseStrategy
from croq_magic.compiler.passes.drop_fills import DropFills
from croq_magic.compiler.passes.drop_zeroing import DropZeroing
from croq_magic.compiler.passes.form_meetings import FormMeetings
from croq_magic.compiler.passes.hoist_fragments import HoistFragments
from croq_magic.compiler.passes.interleave_roles import InterleaveRoles
from croq_magic.compiler.passes.lower_compression import LowerCompression
from croq_magic.compiler.passes.lower_fragments import LowerFragments
from croq_magic.compiler.passes.narrow_regions import NarrowRegions
from croq_magic.compiler.passes.order_loops import OrderLoops
from croq_magic.compiler.passes.separate_phases import SeparatePhases
from croq_magic.compiler.passes.split_regions import SplitRegions
from croq_magic.compiler.passes.zero_in_blocks import ZeroInBlocks
from croq_magic.compiler.targets.cpu.features import last_level_cache, vector_registers


def passes(strategy: str = "auto") -> Sequence[Pass]:
    """After these every inner region is a plain loop over instances, or a region of fibers. With the strategies "roles"
    and "fibers" roles with events do not take turns in loops."""
    return (
        *(() if strategy in ("roles", "fibers") else (InterleaveRoles(),)),
        HoistFragments(),
        ChooseStrategy(strategy),
        SplitRegions(),
        SeparatePhases(),
        FormMeetings(),
        LowerCompression(),
        LowerFragments(),
        NarrowRegions(),
        DropFills(),
        DropZeroing(),  # again: fragments and conditions on indices have become loops
        OrderLoops(*vector_registers(), last_level_cache()),
        ZeroInBlocks(),
    )
