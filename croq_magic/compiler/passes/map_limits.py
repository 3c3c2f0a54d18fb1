"""Limits of mapped levels: threads of a block, whole warps, grid extents, launch attributes.

Source: language reference, execution model, section 2.3. A target without a GPU takes any size; a block of more
threads than a GPU has draws a warning there, so that programs stay portable.
"""

from __future__ import annotations

import dataclasses

from croq_magic.compiler import integers, ir
from croq_magic.compiler.diagnostics import Note
from croq_magic.compiler.limits import MAX_BLOCKS
from croq_magic.compiler.passes.base import Context
from croq_magic.compiler.passes.structure import inner_regions, instances

Level = ir.Level
WARP = 32  # threads
LANES = {Level.THREAD: 1, Level.GROUP: WARP, Level.GROUP4: 4 * WARP}
_AXES = "xyz"


def check(region: ir.Region, context: Context, outer: int = 1, named: bool = True) -> None:
    """Reports what is wrong with a mapped kernel, of which `outer` instances run. `named` says that the program names
    its outermost level: blocks that it does not ask for may be laid out along one axis, so that axes limit nothing."""
    _check_attributes(region, context)
    count = outer * (instances(region) or 1)
    if count > MAX_BLOCKS and region.span is not None:
        context.report.error("SHP15", f"a launch has at most {MAX_BLOCKS} blocks, found {count}", region.span)
        return
    if region.level is Level.BLOCK:
        if named:
            _check_grid(region, context)
        threads = _threads_of_unit(region, context)
        _check_threads(region, threads, context)
        return
    for inner in inner_regions(region.body):
        check(inner, context, count)


def threads_per_block(block: ir.Region) -> int | None:
    """Threads of a mapped block: those its inner regions need, 1 if there are none; None if not constant."""
    return _threads_of_unit(block, None)


def threads_of_unit(unit: ir.Region) -> int | None:
    """Threads of one instance of a region: those its inner regions need, else 32 of a group, 128 of a group of four."""
    return _threads_of_unit(unit, None)


def _threads_of_unit(unit: ir.Region, context: Context | None) -> int | None:
    """Threads of one instance of a region: what its inner regions agree on, else the lanes of its level."""
    needs = [(inner, _threads(inner, context)) for inner in inner_regions(unit.body)]
    known = [(inner, count) for inner, count in needs if count is not None]
    if context is not None:
        _check_agreement(known, context)
    if needs:
        most = max((count for _, count in known), default=None)
        return None if most == 1 and len(known) < len(needs) else most  # one thread is a promise: none to wait for
    return LANES.get(unit.level, 1) if unit.level is not None else 1


def _threads(region: ir.Region, context: Context | None) -> int | None:
    """Threads that all instances of a region need together."""
    assert region.level is not None
    if context is not None:
        _check_attributes(region, context)
        _check_axes(region, context)
    unit = _threads_of_unit(region, context)
    lanes = LANES[region.level]
    if context is not None and unit is not None and unit % lanes:
        inner = inner_regions(region.body)[0]
        if inner.span is not None:
            context.report.error(
                "PAR05", f"threads per `{region.level.value}` must be a multiple of {lanes}, found {unit}", inner.span
            )
    count = instances(region)
    return None if count is None or unit is None else count * unit


def _check_agreement(known: list[tuple[ir.Region, int]], context: Context) -> None:
    for region, count in known[1:]:
        first, expected = known[0]
        if count != expected and region.span is not None:
            notes = [Note(f"{expected} threads are needed here", first.span)] if first.span else []
            message = f"inner levels need {expected} and {count} threads; they must agree"
            context.report.error("PAR06", message, region.span, notes=notes)
            return


def _check_threads(block: ir.Region, threads: int | None, context: Context) -> None:
    limits, report = context.limits, context.report
    bounds = block.attributes.launch_bounds
    if threads is None:
        return
    place = next((r.span for r in inner_regions(block.body) if r.span), block.span)
    if threads > limits.threads_per_block and place is not None:
        message = f"{threads} threads per block, limit is {limits.threads_per_block}"
        if limits.gpu:
            report.error("PAR04", message, place)
        else:
            report.warning("PAR04", message + " on every GPU", place)
    if bounds and 0 < bounds[0] < threads and block.span is not None:
        report.error("PAR18", f"`launch_bounds` allows {bounds[0]} threads, the block has {threads}", block.span)


def _check_axes(region: ir.Region, context: Context) -> None:
    if region.level is not Level.THREAD or not context.limits.gpu:
        return
    _check_extents(region, context.limits.block, context)


def _check_grid(block: ir.Region, context: Context) -> None:
    if context.limits.gpu:
        _check_extents(block, context.limits.grid, context)


def _check_extents(region: ir.Region, largest: tuple[int, int, int], context: Context) -> None:
    assert region.level is not None
    for axis, extent, limit in zip(_AXES, region.extents, largest, strict=False):
        value = integers.value(extent)
        # Threads have a limit of their own on the product; only what exceeds an axis alone is said here.
        if value is not None and value > limit and region.span is not None:
            if region.level is Level.THREAD and value > context.limits.threads_per_block:
                continue
            message = f"extent {value} on axis {axis} of `{region.level.value}`, limit is {limit}"
            hint = "the first index is axis x, the second y, the third z"
            context.report.error("PAR04", message, region.span, hint=hint)


def _check_attributes(region: ir.Region, context: Context) -> None:
    attributes, span, report = region.attributes, region.span, context.report
    if span is None or region.level is None:
        return
    level = region.level.value
    if attributes.cooperative and region.level is not Level.BLOCK:
        report.warning("PAR17", f"`cooperative` applies to `block`, not to `{level}`; ignored", span)
    named = [n for n, given in (("launch_bounds", attributes.launch_bounds), ("maxnreg", attributes.maxnreg)) if given]
    for name in named:
        if region.level is not Level.BLOCK:
            report.error("PAR18", f"`{name}` applies to `block`, not to `{level}`", span)
        elif not context.limits.gpu:
            report.warning("PAR18", f"`{name}` has no effect on the CPU", span)


def without_cooperation(region: ir.Region) -> ir.Region:
    """The region without a `cooperative` that its level ignores."""
    if not region.attributes.cooperative or region.level is Level.BLOCK:
        return region
    return dataclasses.replace(region, attributes=dataclasses.replace(region.attributes, cooperative=False))
