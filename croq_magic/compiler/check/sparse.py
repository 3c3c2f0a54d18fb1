"""2:4-sparse operands: what `dma.copy.sp` makes, and the positions that `mma ... .sp` needs (DMA24, MMA15).

A compressed row holds the two kept values of every group of four along the last dimension. Its positions are bytes,
one for eight elements: the low nibble belongs to the first group, its low two bits to the first kept value (language
reference, tensor cores, section 12). Compression is two copies of one source, one of values and one of positions.
"""

from __future__ import annotations

import dataclasses

from croq_magic.compiler import integers, ir, syntax, views
from croq_magic.compiler.check.context import Checker, show
from croq_magic.compiler.check.values import FutureValue
from croq_magic.compiler.source import Span
from croq_magic.compiler.types import BOOL, U8

_TWO, _FOUR = map(integers.constant, (2, 4))


def compresses(c: Checker, s: syntax.Dma, source: ir.View) -> bool:
    """Whether a transfer compresses; its pattern, operation and last extent must allow it."""
    modifier = s.modifier("sp")
    if modifier is None:
        return False
    if modifier.args not in ((), (2, 4)):
        c.fail("DMA24", "only 2:4 sparsity exists", modifier.span)
    if s.engine != "dma" or s.op not in ("copy", "load"):
        c.fail("DMA24", f"`{s.engine}.{s.op}` does not compress", modifier.span, "`dma.copy.sp<2:4>`")
    last = source.extents[-1]
    whole = ir.Binary("==", integers.mod(last, _FOUR), integers.ZERO, BOOL)
    message = "2:4 sparsity needs groups of four along the last dimension"
    c.require(whole, "DMA24", message, modifier.span, values=(last,))
    return True


def compressed_extents(extents: tuple[ir.Expr, ...]) -> tuple[ir.Expr, ...]:
    return (*extents[:-1], integers.floordiv(extents[-1], _TWO))


def position_extents(kept: tuple[ir.Expr, ...]) -> tuple[ir.Expr, ...]:
    """Extents of the positions of compressed values with extents `kept`."""
    return (*kept[:-1], integers.ceildiv(kept[-1], _FOUR))


def position_buffer(c: Checker, values: ir.Buffer, span: Span) -> ir.Buffer:
    """A new buffer for the positions of all slots of `values`."""
    name = c.fresh(f"{values.name}_positions")
    extents = position_extents(values.shape)
    return ir.Buffer(name, U8, values.storage, extents, values.slots, alignment=128, span=span)


def positions_of(c: Checker, values: ir.View, span: Span) -> ir.View | None:
    """The positions that belong to a whole compressed buffer."""
    buffer = c.compressed.get(values.buffer)
    same = len(values.extents) == len(values.buffer.shape)
    if buffer is None or not same or not all(map(integers.equal, values.extents, values.buffer.shape)):
        return None
    return views.whole(buffer, values.slot, span)


def metadata(c: Checker, value: FutureValue, ref: syntax.BufferRef) -> ir.View:
    """`f.mdata`."""
    found = value.positions or positions_of(c, value.view, ref.span)
    if found is None:
        name = ref.name.text
        c.fail("TYP14", f"`{name}` is no compressed transfer and has no `.mdata`", ref.span, "`dma.copy.sp<2:4>`")
    return dataclasses.replace(found, span=ref.span)


def check_operands(c: Checker, kept: tuple[ir.Expr, ...], extents: tuple[ir.Expr, ...], ok: bool, span: Span) -> None:
    """The positions of A: bytes, one for four kept values of each row."""
    if not ok:
        c.fail("MMA15", "sparse metadata are `u8`, one byte for eight elements of K", span)
    c.require(
        ir.Binary("==", integers.mod(kept[1], _TWO), integers.ZERO, BOOL),
        "MMA02",
        "2:4 sparsity keeps two of four elements, so A holds an even number of them in a row",
        span,
        values=(kept[1],),
    )
    wanted = position_extents(kept)
    if len(extents) != 2:
        c.fail("MMA02", f"the metadata have rank {len(extents)}, A has rank 2", span)
    for dimension, (have, want) in enumerate(zip(extents, wanted, strict=True)):
        message = f"the metadata have {show(have)} elements in dimension {dimension}, A needs {show(want)}"
        c.require(ir.Binary("==", have, want, BOOL), "MMA02", message, span, values=(have, want))
