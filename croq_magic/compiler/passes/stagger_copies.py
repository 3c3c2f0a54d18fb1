"""Copies that need only a part of a block are made by different warps, so that they run side by side.

    copy a => s {vector:16}       64 accesses        copy a => s {vector:16}
    copy b => t {vector:16}       64 accesses   =>   copy b => t {vector:16, thread:64}

Every copy starts behind the warps that have had something to copy since the last barrier, where there are enough of
them. The first thread stands in the copy's hints, so that it can be read in the IR, and so that who copies what does
not change when a barrier goes away.
"""

from __future__ import annotations

import dataclasses
import math
from typing import ClassVar

from croq_magic.compiler import integers, ir
from croq_magic.compiler.passes.base import Context
from croq_magic.compiler.passes.map_limits import WARP
from croq_magic.compiler.passes.structure import bodies, map_kernels, with_bodies
from croq_magic.compiler.targets.emit_cxx import Unsupported
from croq_magic.compiler.targets.simt.copies import PRIVATE, THREAD, chunks, plan
from croq_magic.compiler.targets.simt.threads import grid_chain, threads_of


@dataclasses.dataclass(frozen=True)
class StaggerCopies:
    """Notes `thread:NUMBER` on copies that do not start with the first thread of the block."""

    name: ClassVar[str] = "stagger-copies"

    def __call__(self, function: ir.Function, context: Context) -> ir.Function:
        return map_kernels(function, _kernel)


def _kernel(root: ir.Region) -> ir.Region:
    try:
        block = grid_chain(root)[-1]
    except Unsupported:
        return root
    count = threads_of(block).count
    if count is None or count < 2 * WARP:
        return root
    staggering = _Staggering(count)
    return dataclasses.replace(root, body=staggering.body(root.body))


class _Staggering:
    """Goes through the statements of a kernel in program order; `busy` are the threads that have had something to
    copy since the last barrier."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.busy = 0

    def body(self, body: ir.Body) -> ir.Body:
        new = tuple(map(self.statement, body))
        return body if all(a is b for a, b in zip(new, body, strict=True)) else new

    def statement(self, s: ir.Stmt) -> ir.Stmt:
        if isinstance(s, (ir.Barrier, ir.NamedBarrier)):
            self.busy = 0
        elif isinstance(s, ir.Copy):
            return self.copy(s)
        elif bodies(s):
            return with_bodies(s, self.body)
        return s

    def copy(self, s: ir.Copy) -> ir.Stmt:
        if s.compressed or s.src.buffer.storage in PRIVATE or s.dst.buffer.storage in PRIVATE:
            return s
        counts = [integers.value(count) for count in chunks(plan(s), s).counts]
        total = math.prod(count or 0 for count in counts)
        if not 1 < total < self.count:
            return s
        first = self.busy if self.busy + total <= self.count else 0
        self.busy = first + -(-total // WARP) * WARP
        return dataclasses.replace(s, hints=(*s.hints, f"{THREAD}{first}")) if first else s
