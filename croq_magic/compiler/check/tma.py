"""TMA transfers: direction, box and alignment (MMA11 to MMA14).

Their meaning is that of `dma.copy`, with elements outside the tensor read as zero and not written.
"""

from __future__ import annotations

import dataclasses

from croq_magic.compiler import integers, ir, syntax, views
from croq_magic.compiler.check.context import Checker, free_variables, show

_LARGEST_BOX = 256
_LARGEST_RANK = 5


def operands(c: Checker, s: syntax.Dma, source: ir.View, destination: ir.View) -> tuple[ir.View, ir.View]:
    """The views of a legal TMA transfer, with what lies outside the tensor marked as left out."""
    if not c.in_device:
        c.fail("DMA05", "`tma` moves tiles inside `parallel`", s.span)
    if c.limits.gpu and not c.limits.tma:
        c.fail("MMA12", "TMA needs sm_90", s.span, "`dma.copy`")
    into, out_of = destination.buffer.storage, source.buffer.storage
    if s.op == "load" and (into is not ir.Storage.SHARED or out_of is not ir.Storage.GLOBAL):
        c.fail("MMA11", "`tma.load` goes from global to shared", s.span)
    if s.op not in ("load", "copy"):
        c.fail(
            "MMA11", f"`tma.{s.op}` does not exist; `pad` and `transp` are `dma` operations", s.span, f"`dma.{s.op}`"
        )
    if {into, out_of} != {ir.Storage.SHARED, ir.Storage.GLOBAL}:
        c.fail("MMA11", "exactly one side of a `tma` transfer is `shared`, the other `global`", s.span, "`dma.copy`")
    tensor = source if out_of is ir.Storage.GLOBAL else destination
    _check_box(c, s, tensor)
    if tensor is source:
        return dataclasses.replace(source, zfill=True), destination
    return source, dataclasses.replace(destination, zfill=True)


def _check_box(c: Checker, s: syntax.Dma, tensor: ir.View) -> None:
    if tensor.rank > _LARGEST_RANK:
        c.fail("MMA13", f"a TMA box has at most {_LARGEST_RANK} dimensions, found {tensor.rank}", s.span)
    for dimension, extent in enumerate(tensor.extents):
        if any(v.role not in (ir.Role.DIM, ir.Role.PARAM) for v in free_variables(extent)):
            c.fail(
                "MMA13",
                "box extents must be computable on the host",
                s.source.span,
                f"`{show(extent)}` changes while the kernel runs",
            )
        number = integers.value(extent)
        if number is not None and number > _LARGEST_BOX:
            c.fail("MMA13", f"box extent {number} of dimension {dimension} exceeds {_LARGEST_BOX}", s.span)
    size = tensor.buffer.dtype.size
    innermost = integers.value(tensor.extents[-1])
    if innermost is not None and innermost * size % 16:
        c.fail("MMA14", f"innermost box is {innermost * size} bytes, must be a multiple of 16", s.span)
    strides = views.strides(tensor)
    if strides is None or integers.value(strides[-1]) != 1:
        c.fail("MMA14", "the innermost stride of a TMA box must be 1", s.span, "`dma.copy`")
