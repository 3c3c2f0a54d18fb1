"""Events whose stated number of arrivals is not the number of threads that trigger them (EVT08).

Source: language reference, execution model, section 8.2. `event<n>` says how many arrivals make a generation ready;
without it the threads that execute the trigger are counted. Where both are known before the program runs and differ,
one of them is probably meant otherwise. Events with several triggers are left alone: their roles may arrive together.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterator
from typing import ClassVar

from croq_magic.compiler import evaluate, integers, ir
from croq_magic.compiler.passes.base import Context
from croq_magic.compiler.passes.joins import MOST_TRIED
from croq_magic.compiler.passes.map_limits import threads_of_unit
from croq_magic.compiler.passes.structure import bodies
from croq_magic.compiler.visit import walk

Chain = tuple[ir.Region, ...]
Predicates = tuple[ir.Expr, ...]


@dataclasses.dataclass(frozen=True)
class CheckParties:
    """Warns; changes nothing."""

    name: ClassVar[str] = "check-parties"

    def __call__(self, function: ir.Function, context: Context) -> ir.Function:
        for launch in function.launches():
            found: dict[ir.Event, list[tuple[ir.Trigger, Chain, Predicates]]] = {}
            for s, chain, predicates in _triggers((launch.kernel.region,), (), ()):
                found.setdefault(s.event, []).append((s, chain, predicates))
            for event, triggers in found.items():
                if event.parties and len(triggers) == 1:
                    _check(event, *triggers[0], context)
        return function


def _triggers(body: ir.Body, chain: Chain, predicates: Predicates) -> Iterator[tuple[ir.Trigger, Chain, Predicates]]:
    """Triggers with the regions inside the block around them, and the predicates of `inthreads`."""
    for s in body:
        if isinstance(s, ir.Trigger):
            yield s, chain, predicates
        inner, more = chain, predicates
        if isinstance(s, ir.Region) and s.level is not None and s.level.depth >= ir.Level.BLOCK.depth:
            inner = (*chain, s)
        elif isinstance(s, ir.Masked):
            more = (*predicates, s.predicate)
        for nested in bodies(s):
            yield from _triggers(nested, inner, more)


def _check(event: ir.Event, s: ir.Trigger, chain: Chain, predicates: Predicates, context: Context) -> None:
    derived = None if s.after or s.cluster or not predicates else _threads(s, chain, predicates)
    if derived is None or derived == event.parties or s.span is None:
        return
    threads = "1 thread triggers" if derived == 1 else f"{derived} threads trigger"
    message = f"`{event.name}` counts {event.parties} arrivals a generation, {threads} it here"
    context.report.warning("EVT08", message, s.span, hint=f"`event<{derived}> {event.name}`, or no number")


def _threads(s: ir.Trigger, chain: Chain, predicates: Predicates) -> int | None:
    """How many threads of a block execute a trigger; None where that is not known, or differs from slot to slot."""
    inside = chain[1:]  # the block itself is one unit
    axes = [axis for region in inside for axis in zip(region.indices, region.extents, strict=True)]
    indices = {var for var, _ in axes}
    if any(
        n in indices for n in walk((*s.slot, *((s.order,) if s.order is not None else ()))) if isinstance(n, ir.Var)
    ):
        return None
    sizes = [integers.value(extent) for _, extent in axes]
    each = threads_of_unit(inside[-1] if inside else chain[0]) if chain else None
    if each is None or any(size is None for size in sizes) or math.prod(size or 0 for size in sizes) > MOST_TRIED:
        return None
    try:
        selects = evaluate.function(predicates, [var.name for var, _ in axes])
        places = itertools.product(*(range(size or 0) for size in sizes))
        return each * sum(all(selects(*place)) for place in places)
    except (ValueError, ZeroDivisionError):
        return None
