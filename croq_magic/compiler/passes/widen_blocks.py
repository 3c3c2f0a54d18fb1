"""Gives threads to blocks that have one and move data together.

Source: language reference, execution model, sections 2.1 and 3: a block without an inner level has one thread, and
copies between memories and whole-span arithmetic are done by all threads of a block. How many there are changes no
result, so a block that does such work gets a warp or more, and the joins that several threads need. The new threads
stand in the IR as an implied region without statements.
"""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from croq_magic.compiler import integers, ir
from croq_magic.compiler.passes.base import Context
from croq_magic.compiler.passes.insert_joins import join_kernel
from croq_magic.compiler.passes.structure import fresh_name, map_kernels
from croq_magic.compiler.types import S32
from croq_magic.compiler.visit import walk

Level = ir.Level
_PRIVATE = (ir.Storage.LOCAL, ir.Storage.REGISTER)
_APART = (
    *(ir.Region, ir.NamedBarrier, ir.Masked, ir.Event, ir.Fragment, ir.Yield),
    *(ir.CxxText, ir.Asm, ir.Call),  # text of the cell may count on one thread
)


@dataclasses.dataclass(frozen=True)
class WidenBlocks:
    """Blocks of one thread get up to `width` threads, one for every `least` bytes that they move together."""

    name: ClassVar[str] = "widen-blocks"
    width: int = 128
    least: int = 16

    def __call__(self, function: ir.Function, context: Context) -> ir.Function:
        taken = {node.name for node in walk(function.body) if isinstance(node, (ir.Var, ir.Buffer))}
        return map_kernels(function, lambda region: self._kernel(region, taken))

    def _kernel(self, root: ir.Region, taken: set[str]) -> ir.Region:
        if root.level is not Level.BLOCK:
            if len(root.body) == 1 and isinstance(root.body[0], ir.Region):
                return dataclasses.replace(root, body=(self._kernel(root.body[0], taken),))
            return root
        if root.attributes.launch_bounds or any(isinstance(node, _APART) for node in walk(root.body)):
            return root
        wanted = max((_bytes(node) for node in walk(root.body)), default=0) // self.least
        if wanted < 2:
            return root
        size = integers.constant(min(self.width, -(-wanted // 32) * 32))
        t = ir.Var(fresh_name("t", taken), S32, ir.Role.REGION, integers.ZERO, size)
        threads = ir.Region(Level.THREAD, (t,), (size,), (), implied=True, span=root.span)
        return join_kernel(dataclasses.replace(root, body=(*root.body, threads)))


def _bytes(node: ir.Node) -> int:
    """What a block moves together in one statement; a symbolic amount counts as much."""
    view: ir.View | None = None
    if isinstance(node, ir.Copy):
        if node.src.buffer.storage not in _PRIVATE and node.dst.buffer.storage not in _PRIVATE:
            view = node.dst
    elif isinstance(node, ir.SpanOp) and node.view.buffer.storage not in _PRIVATE:
        view = node.view
    if view is None:
        return 0
    count = integers.value(integers.product(view.extents))
    return 1 << 20 if count is None else count * view.buffer.dtype.size
