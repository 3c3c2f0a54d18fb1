"""Gives every region its level.

Source: language reference, execution model, sections 2.1 (default mapping) to 2.3 (limits). A nest is a path of
regions, outer to inner. Written levels stay; the others take the one assignment of strictly descending levels that
puts the outermost on blocks, the innermost of several on threads, and what is between on groups rather than groups of
four. A kernel whose outermost region is finer than a block gets an implied region of one block around it.
"""

from __future__ import annotations

import dataclasses
import itertools
from typing import ClassVar

from croq_magic.compiler import ir
from croq_magic.compiler.diagnostics import Note
from croq_magic.compiler.passes import map_limits
from croq_magic.compiler.passes.base import Context
from croq_magic.compiler.passes.structure import inner_regions, instances, map_kernels, map_regions, nested
from croq_magic.compiler.text import format_expr

Level = ir.Level
_MAPPED = (Level.BLOCK, Level.GROUP4, Level.GROUP, Level.THREAD)
_AXES = 3


@dataclasses.dataclass(frozen=True)
class MapLevels:
    """Chooses levels, wraps kernels in a block where needed, and checks the limits of levels."""

    name: ClassVar[str] = "map-levels"

    def __call__(self, function: ir.Function, context: Context) -> ir.Function:
        return map_kernels(function, lambda region: _map_kernel(region, context))


def choose(written: tuple[Level | None, ...]) -> tuple[Level, ...] | None:
    """Levels of a nest from the written ones (None where there is none); None when no descending assignment exists.

    A leading `device` and `cluster` stand above the four levels that are chosen from.
    """
    rest = written
    above: tuple[Level, ...] = ()
    for level in (Level.DEVICE, Level.CLUSTER):
        if rest and rest[0] is level:
            above, rest = (*above, level), rest[1:]
    fitting = [
        levels
        for levels in itertools.combinations(_MAPPED, len(rest))
        if all(w in (None, level) for w, level in zip(rest, levels, strict=True))
    ]
    if not fitting:
        return None

    def preference(levels: tuple[Level, ...]) -> tuple[bool, bool, bool]:
        outermost = not levels or rest[0] is not None or levels[0] is Level.BLOCK
        innermost = len(rest) < 2 or rest[-1] is not None or levels[-1] is Level.THREAD
        return outermost, innermost, Level.GROUP4 not in levels

    return above + max(fitting, key=preference)


def _map_kernel(root: ir.Region, context: Context) -> ir.Region:
    before = len(context.report.errors)
    _check_order(root, (), context)
    _check_annotation(root, context)
    if len(context.report.errors) > before:
        return _fallback(root, outermost=True)
    mapped = _insert_block(_assign(root, ()))
    map_limits.check(mapped, context, named=root.level is not None)
    return _without_ignored(mapped)


def _without_ignored(region: ir.Region) -> ir.Region:
    return map_limits.without_cooperation(dataclasses.replace(region, body=map_regions(region.body, _without_ignored)))


def _assign(region: ir.Region, outer: tuple[Level, ...]) -> ir.Region:
    levels = choose(outer + tuple(r.level for r in _longest(region)))
    level = levels[len(outer)] if levels else Level.THREAD
    body = map_regions(region.body, lambda inner: _assign(inner, (*outer, level)))
    return dataclasses.replace(region, level=level, body=body)


def _longest(region: ir.Region) -> list[ir.Region]:
    """The longest path of regions from this one down; the first of equally long ones."""
    below = max((_longest(inner) for inner in inner_regions(region.body)), key=len, default=[])
    return [region, *below]


def _insert_block(region: ir.Region) -> ir.Region:
    """Puts an implied block between what is coarser and what is finer than a block."""
    assert region.level is not None
    if region.level is Level.BLOCK:
        return region
    if region.level.depth > Level.BLOCK.depth:
        return ir.Region(Level.BLOCK, (), (), (region,), implied=True, span=region.span)
    if not inner_regions(region.body):
        block = ir.Region(Level.BLOCK, (), (), region.body, implied=True, span=region.span)
        return dataclasses.replace(region, body=(block,))
    return dataclasses.replace(region, body=map_regions(region.body, _insert_block))


def _fallback(region: ir.Region, outermost: bool) -> ir.Region:
    """Some level for a nest that is in error, so that later stages can go on."""
    level = region.level or (Level.BLOCK if outermost else Level.THREAD)
    body = map_regions(region.body, lambda inner: _fallback(inner, outermost=False))
    return dataclasses.replace(region, level=level, body=body)


def _check_order(region: ir.Region, outer: tuple[ir.Region, ...], context: Context) -> None:
    report, span = context.report, region.span
    path = (*outer, region)
    if span is not None and len(region.extents) > _AXES:
        report.error(
            "PAR04",
            f"one level has at most {_AXES} axes, found {len(region.extents)}",
            span,
            hint="split the level, or compose two axes into one",
        )
    if span is not None and region.level is Level.DEVICE and (instances(region) or 1) > 1:
        report.error("UNS01", f"`device` with extent {instances(region)}; only 1 is supported", span)
    inner = inner_regions(region.body)
    problem = _order_problem(path, complete=not inner)
    if problem is not None:
        code, message, hint, at = problem
        place = path[at].span or span
        if place is not None:
            report.error(code, message, place, hint=hint, notes=_outer_notes(path[:at]))
        return
    for child in inner:
        _check_order(child, path, context)


def _order_problem(path: tuple[ir.Region, ...], complete: bool) -> tuple[str, str, str | None, int] | None:
    """Code, message, hint and position (in the path) of what is wrong with the last level of a path."""
    written = tuple(region.level for region in path)
    last = written[-1]
    at = len(written) - 1
    if last is not None:
        coarser = next((level for level in reversed(written[:-1]) if level is not None), None)
        if coarser is last:
            first = next(region for region in reversed(path[:-1]) if region.level is last)
            return "PAR02", f"two `{last.value}` levels", _merged(first, path[-1]), at
        if coarser is not None and last.depth <= coarser.depth:
            return "PAR01", f"`{last.value}` cannot be nested in `{coarser.value}`", None, at
    levels = [level for level in written if level not in (Level.DEVICE, Level.CLUSTER)]
    if len(levels) > len(_MAPPED):
        return "PAR01", f"{len(levels)} nested levels, at most {len(_MAPPED)} exist: {_names()}", None, at
    if complete and choose(written) is None:
        at = next(i for i in range(len(written)) if choose(written[: i + 1]) is None)
        return "PAR01", _no_room(written, at), f"the levels are {_names()}, coarse to fine", at
    return None


def _merged(outer: ir.Region, inner: ir.Region) -> str | None:
    """The one level that two regions of the same level should be."""
    indices, extents = outer.indices + inner.indices, outer.extents + inner.extents
    if len(extents) > _AXES or outer.level is None:
        return None
    names = ", ".join(v.name for v in indices)
    return f"`{{{names}}} by [{', '.join(format_expr(e) for e in extents)}] : {outer.level.value}`"


def _no_room(written: tuple[Level | None, ...], at: int) -> str:
    level = written[at]
    if level is None:
        coarser = next(level for level in reversed(written[:at]) if level is not None)
        return f"no level is left for a `parallel` inside `{coarser.value}`"
    count = len([w for w in written[:at] if w is None])
    return f"no level is left above `{level.value}` for the {count} unannotated `parallel` around it"


def _names() -> str:
    return ", ".join(level.value for level in _MAPPED)


def _outer_notes(path: tuple[ir.Region, ...]) -> list[Note]:
    for region in reversed(path):
        if region.level is not None and region.span is not None:
            return [Note(f"the enclosing `{region.level.value}` level", region.span)]
    return []


def _check_annotation(root: ir.Region, context: Context) -> None:
    """Warns about nests that are annotated in part, and about a lone level whose instances cooperate."""
    regions = _all_regions(root)
    bare = [r for r in regions if r.level is None]
    levels = [r for r in regions if r.level is not None and r.level is not Level.DEVICE]
    if bare and levels and bare[0].span is not None:
        note = [Note(f"`{levels[0].level.value}` is written here", levels[0].span)] if levels[0].level else []
        context.report.warning("PAR03", "annotate all levels or none", bare[0].span, notes=note)
    if len(regions) == 1 and bare and root.span is not None:
        found = next((s for s in nested(root.body) if _cooperates(s)), None)
        if found is not None:
            context.report.warning(
                "PAR16",
                "a single unannotated level maps to blocks",
                root.span,
                hint="write `: thread` if the instances must cooperate",
                notes=[Note("the instances cooperate here", found.span)] if found.span else [],
            )


def _all_regions(region: ir.Region) -> list[ir.Region]:
    return [region, *(r for inner in inner_regions(region.body) for r in _all_regions(inner))]


def _cooperates(statement: ir.Stmt) -> bool:
    if isinstance(statement, ir.Barrier):
        return statement.scope in (Level.BLOCK, Level.GROUP, Level.GROUP4, Level.THREAD)
    return isinstance(statement, (ir.Masked, ir.Trigger, ir.WaitEvent))
