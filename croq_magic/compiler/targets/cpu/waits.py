"""What fibers wait for, in words: the messages of deadlocks and of misused events."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from croq_magic.compiler.source import Source
    from croq_magic.compiler.targets.cpu.checks import CheckSite

# "" is a check of an index or an assertion; the others are places where fibers wait or let others go on.
Kind = Literal["", "deadlock", "meeting", "named", "event", "trigger"]


def slot_name(site: CheckSite, slot: int) -> str:
    """An event with its subscripts, as the program would write it. `slot` counts over all units that have the event."""
    total = 1
    for extent in site.dims:
        total *= extent
    subscripts = []
    slot %= total
    for extent in reversed(site.dims):
        subscripts.append(f"[{slot % extent}]")
        slot //= extent
    return f"`{site.what}{''.join(reversed(subscripts))}`"


def fault(site: CheckSite, values: Sequence[int]) -> str:
    """What an instance did wrong at a place where others wait or go on."""
    if site.kind == "meeting":
        return f"instances that must meet stand at different statements; some at {site.what}"
    slot, generation, other = values
    if generation < 0:
        return f"the order of `{site.what}.at(...)` is {slot}; it counts from 0"
    if site.kind == "trigger":
        return (
            f"{slot_name(site, slot)} is triggered for generation {generation} while an instance has still to wait "
            f"for generation {other}"
        )
    return (
        f"this waits for generation {generation} of {slot_name(site, slot)}, but the next one that the instance has "
        f"not waited for is {other}"
    )


def deadlock(values: Sequence[int], sites: Sequence[CheckSite], source: Source | None) -> tuple[str, CheckSite]:
    """Who waits where, and the first of these places. `values` are those that the runtime records: how many instances
    have ended, then for each thing waited for its check, how many wait, slot and generation."""
    ended, *groups = values
    parts = []
    first = sites[groups[0]]
    for position in range(0, len(groups) - 3, 4):
        number, count, slot, generation = groups[position : position + 4]
        site = sites[number]
        if site.kind == "event":
            what = f"for {slot_name(site, slot)} (generation {generation})"
        elif site.kind == "named":
            what = f"at named barrier {slot}"
        else:
            what = f"at {site.what}"
        parts.append(f"{count} instance{'s wait' if count != 1 else ' waits'} {what}{_line(site, source)}")
    if ended:
        parts.append(f"{ended} instance{'s have' if ended != 1 else ' has'} ended")
    return "deadlock: " + "; ".join(parts), first


def _line(site: CheckSite, source: Source | None) -> str:
    if source is None or site.start < 0:
        return ""
    from croq_magic.compiler.source import Span

    return f" at line {Span(source, site.start, site.end).line}"
