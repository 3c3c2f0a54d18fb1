"""The passes of the OpenCL target, in order."""

from __future__ import annotations

from collections.abc import Sequence

from croq_magic.compiler.passes.base import Pass
from croq_magic.compiler.passes.drop_joins import DropJoins
from croq_magic.compiler.passes.order_threads import OrderThreads
from croq_magic.compiler.passes.phase_launches import PhaseLaunches
from croq_magic.compiler.passes.stagger_copies import StaggerCopies
from croq_magic.compiler.passes.vectorise_copies import VectoriseCopies
from croq_magic.compiler.targets.opencl.devices import Features
from croq_magic.compiler.targets.simt.passes import simt_passes


def passes(device: Features) -> Sequence[Pass]:
    """After these a kernel has only what OpenCL C can say."""
    shared = simt_passes(processor=device.cpu, shuffles=device.shuffles and not device.cpu)
    # Compilers for processors make vectors of neighbouring threads themselves.
    wide = () if device.cpu else (VectoriseCopies(private=True),)
    return (PhaseLaunches(), *shared, OrderThreads(), *wide, StaggerCopies(), DropJoins())
