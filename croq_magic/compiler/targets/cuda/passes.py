"""The passes of the CUDA target, in order."""

from __future__ import annotations

from collections.abc import Sequence

from croq_magic.compiler.passes.base import Pass
from croq_magic.compiler.passes.drop_joins import DropJoins
from croq_magic.compiler.passes.lead_clusters import LeadClusters
from croq_magic.compiler.passes.stagger_copies import StaggerCopies
from croq_magic.compiler.passes.vectorise_copies import VectoriseCopies
from croq_magic.compiler.targets.simt.passes import simt_passes


def passes() -> Sequence[Pass]:
    """After these a kernel has regions of threads, plain statements, barriers and copies with their widths."""
    return (LeadClusters(), *simt_passes(), VectoriseCopies(private=True), StaggerCopies(), DropJoins())
