"""What a GPU cannot do, or not fast, of a mapped program: MMA01, MMA06, DMA23, DMA26, CAL09.

Nothing but the limits of the target is needed, so a program can be checked for a GPU on any machine. On the CPU all of
this is legal.
"""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from croq_magic.compiler import integers, ir, mma_tiles
from croq_magic.compiler.limits import Limits
from croq_magic.compiler.passes.base import Context
from croq_magic.compiler.text import format_expr
from croq_magic.compiler.visit import walk

_GLOBAL, _SHARED, _LOCAL = ir.Storage.GLOBAL, ir.Storage.SHARED, ir.Storage.LOCAL
# cp.async: CUDA C++ Programming Guide, "Asynchronous Data Copies".
_ASYNC_COPIES = 80
_WHOLE_WORDS = ("s32", "u32", "s64", "u64")
# Source: language reference, execution model, section 7.
_ATOMIC_TYPES = {
    "add": ("s32", "u32", "u64", "f32", "f64", "f16", "bf16"),
    "sub": ("s32", "u32"),
    "exch": ("s32", "u32", "u64", "f32"),
    **dict.fromkeys(("min", "max", "and", "or", "xor"), _WHOLE_WORDS),
    "cas": ("s32", "u32", "u64", "u16"),
}
_BF16_ATOMICS = 80


@dataclasses.dataclass(frozen=True)
class CheckGpu:
    """Reports constructs that the target's GPU lacks; does nothing for other targets. Follows `own-fragments`."""

    name: ClassVar[str] = "check-gpu"

    def __call__(self, function: ir.Function, context: Context) -> ir.Function:
        if context.limits.gpu:
            for launch in function.launches():
                for node in walk(launch.kernel.region):
                    if isinstance(node, ir.Mma):
                        _check_mma(node, context)
                    elif isinstance(node, ir.Copy):
                        _check_copy(node, context)
                    elif isinstance(node, ir.Atomic):
                        _check_atomic(node, context)
        return function


# ----------------------------------------------------------------------------------------------------- tensor cores


def _check_mma(s: ir.Mma, context: Context) -> None:
    limits, fragment = context.limits, s.accumulator.fragment
    warpgroup = fragment.owner is ir.Level.GROUP4
    if s.span is None or fragment.owner not in (ir.Level.GROUP, ir.Level.GROUP4):
        return
    if warpgroup and limits.arch < 90:
        context.report.error("MMA06", "warpgroup MMA needs sm_90", s.span, hint="`: group`")
        return
    if warpgroup and limits.name != mma_tiles.WARPGROUP_ARCH:
        message = f"warpgroup MMA needs {mma_tiles.WARPGROUP_ARCH}"
        context.report.error("MMA06", message, s.span, hint=f"`: group`, or compile for {mma_tiles.WARPGROUP_ARCH}")
        return
    a, b = _operand_type(s.a), _operand_type(s.b)
    k_extent = _extents(s.a)[1 if s.layout[0] == "row" else 0]
    sparse = s.metadata is not None
    m, n, k = (integers.value(e) for e in (*fragment.shape, k_extent))
    if m is None or n is None or k is None:
        shown = " x ".join(format_expr(e) for e in (*fragment.shape, k_extent))
        message = f"a tile of tensor cores has constant extents, found {shown}"
        context.report.error("MMA01", message, s.span, hint="take a part of constant size with `.subspan`")
        return
    tile = (m, n, k * 2 if sparse else k)
    if mma_tiles.is_legal(tile, a, b, fragment.dtype.name, limits, warpgroup, sparse):
        return
    near = mma_tiles.nearest(tile, a, b, fragment.dtype.name, limits, warpgroup, sparse)
    _illegal_tile(s, tile, (a, b, fragment.dtype.name), near, sparse, context)


def _illegal_tile(
    s: ir.Mma,
    tile: mma_tiles.Tile,
    types: tuple[str, str, str],
    near: list[mma_tiles.Tile],
    sparse: bool,
    context: Context,
) -> None:
    assert s.span is not None
    limits, warpgroup = context.limits, s.accumulator.fragment.owner is ir.Level.GROUP4
    a, b, c = types
    unit = "one warpgroup" if warpgroup else "one warp"
    words = " of 2:4 sparsity" if sparse else ""
    message = f"no instruction for {a},{b}->{c}{words} {_text(tile)} in {unit} on {limits.name}"
    hint = None
    if near:
        message += f"; nearest: {', '.join(map(_text, near))}"
        hint = _tiling_hint(tile, a, b, c, limits, warpgroup, sparse)
    elif a == "f32":
        hint = "tensor cores multiply `tf32`, not `f32`"
    elif warpgroup:
        hint = "`: group` has more types"
    context.report.error("MMA01", message, s.span, hint=hint)


def _tiling_hint(
    tile: mma_tiles.Tile, a: str, b: str, c: str, limits: Limits, warpgroup: bool, sparse: bool
) -> str | None:
    """For a tile that legal ones divide: how to say it."""
    if warpgroup:
        return None
    tiles = mma_tiles.warp_tiles(a, b, c, limits.arch, sparse)
    whole = [t for t in tiles if not any(x % y for x, y in zip(tile, t, strict=True))]
    if not whole:
        return None
    best = max(whole, key=lambda t: t[0] * t[1] * t[2])
    return f"loop over tiles of {_text(best)}"


def _text(tile: mma_tiles.Tile) -> str:
    return "x".join(map(str, tile))


def _operand_type(operand: ir.FragmentRef | ir.View) -> str:
    return (operand.fragment if isinstance(operand, ir.FragmentRef) else operand.buffer).dtype.name


def _extents(operand: ir.FragmentRef | ir.View) -> tuple[ir.Expr, ...]:
    return operand.fragment.shape if isinstance(operand, ir.FragmentRef) else operand.extents


# ------------------------------------------------------------------------------------------------ copies and atomics


def _check_copy(s: ir.Copy, context: Context) -> None:
    if s.engine != "dma" or s.span is None:
        return
    source, destination = s.src.buffer.storage, s.dst.buffer.storage
    fast = (source, destination) == (_GLOBAL, _SHARED)
    if s.token is not None and not (fast and context.limits.arch >= _ASYNC_COPIES):
        message = (
            f"this target has no asynchronous {source.value} to {destination.value} copy; it is done synchronously"
        )
        context.report.warning("DMA23", message, s.span, hint="use `dma.copy`")
    if source is destination is _GLOBAL:
        message = "a global to global copy inside a kernel passes through registers and is slow"
        context.report.warning("DMA26", message, s.span, hint="stage through `shared`")
    elif source is destination is _SHARED:
        message = "a shared to shared copy passes through registers"
        context.report.warning("DMA26", message, s.span, hint="read the first buffer where it is")


def _check_atomic(s: ir.Atomic, context: Context) -> None:
    dtype, arch = s.view.buffer.dtype.name, context.limits.arch
    known = dtype in _ATOMIC_TYPES[s.op] and (dtype != "bf16" or arch >= _BF16_ATOMICS)
    if not known and s.span is not None:
        types = ", ".join(f"`{n}`" for n in _ATOMIC_TYPES[s.op] if n != "bf16" or arch >= _BF16_ATOMICS)
        message = f"`__atomic_{s.op}` has no `{dtype}` form on this target"
        context.report.error("CAL09", message, s.span, hint=f"its types are {types}")
