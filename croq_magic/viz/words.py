"""Counts and levels of a tiling in words."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any


def own_indices(level: dict[str, Any], i: int, levels: Sequence[dict[str, Any]]) -> tuple[str, ...]:
    """The indices that a level adds to those of the levels before it."""
    before = levels[i - 1]["indices"] if i else ()
    return tuple(name for name in level["indices"] if name not in before)


def level_text(level: dict[str, Any], i: int, levels: Sequence[dict[str, Any]]) -> str:
    """One level in words: `block px: 8 chunks of 16 × 256, each for 16 blocks (py)`."""
    own = ", ".join(own_indices(level, i, levels))
    if not own:
        return f"{level['kind']}: whole, {sharing_text(level)}"
    grid = level["grid"]
    count = f"{level['count']:,}"
    if grid and sum(n > 1 for n in grid) > 1 and math.prod(grid) == level["count"]:
        count = f"{tuple_text(grid)} = {count}"
    count = count if level["exact"] else f"at most {count}"
    size = ("at most " if level["ragged"] else "") + tuple_text(level["chunk"])
    if math.prod(level["chunk"]) == 1:
        text = f"{count} single {'element' if level['count'] == 1 else 'elements'}"
    else:
        text = f"{count} {'chunk' if level['count'] == 1 else 'chunks'} of {size}"
        text += "" if level["dense"] else ", with gaps"
    if level["several"]:
        text += f", {plural(level['several'], 'element')} in several"
    if level["sharing"]:
        text += ", each " + sharing_text(level)
    return f"{level['kind']} {own}: {text}"


def sharing_text(level: dict[str, Any]) -> str:
    """`for 16 blocks (py), 4 times (n)`."""
    words = []
    for kind, extents in level["sharing"].items():
        total = math.prod(extents.values())
        words.append(f"{'' if kind == 'iteration' else 'for '}{plural(total, _UNITS[kind])} ({', '.join(extents)})")
    return ", ".join(words)


_UNITS = {"block": "block", "thread": "thread", "group": "warp", "iteration": "time"}


def instances_text(a: dict[str, Any]) -> str:
    """`, one in each of 128 blocks` for arrays on the chip."""
    if a["storage"] == "global" or a["instances"] == 1:
        return ""
    unit = "blocks" if a["storage"] == "shared" else "threads"
    return f", one in each of {a['instances']:,} {unit}"


def tuple_text(extents: tuple[int, ...]) -> str:
    """`16 × 16`."""
    return " × ".join(f"{n:,}" for n in extents)


def plural(count: int, word: str) -> str:
    if count == 1:
        return f"1 {word}"
    return f"{count:,} {word[:-1] + 'ies' if word.endswith('y') else word + 's'}"
