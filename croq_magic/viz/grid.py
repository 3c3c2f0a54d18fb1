"""A two-dimensional picture of an array cut into cells, to scale or, where there are too many, as an excerpt."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from croq_magic.viz.canvas import Box, Canvas, text_width
from croq_magic.viz.theme import RGB, SMALL

MOST = 64  # cells of one dimension that are drawn to scale
HEAD = 3  # of more, the first few and the last one


@dataclasses.dataclass(frozen=True)
class Cell:
    """A run of coordinates with one owner. `state` 0, or NOBODY (-1) or SEVERAL (-2); `gap` stands for cells left out.
    `place` and `size` are in units of the drawing; a gap's `high` counts them."""

    low: int
    high: int
    index: dict[str, int]
    state: int
    place: float
    size: float
    gap: bool = False


def cells(segments: dict[str, Any], low: int, high: int, most: int = MOST) -> list[Cell]:
    """The segments of a dimension between `low` and `high`, as cells side by side."""
    inside = np.flatnonzero((segments["low"] < high) & (segments["high"] > low))
    count = len(inside)
    excerpt = count > most or segments["excerpt"]
    if excerpt and count > HEAD + 1:
        chosen = [*inside[:HEAD].tolist(), -1, int(inside[-1])]
    else:
        chosen = inside.tolist()
    out: list[Cell] = []
    place = 0.0
    for i in chosen:
        if i < 0:
            out.append(Cell(0, max(segments["count"], count) - len(chosen) + 1, {}, 0, place, 1.0, gap=True))
            place += 1.0
            continue
        first, last = max(int(segments["low"][i]), low), min(int(segments["high"][i]), high)
        size = 1.0 if excerpt else float(last - first)
        index = {name: int(v[i]) for name, v in segments["index"].items()}
        out.append(Cell(first, last, index, int(segments["state"][i]), place, size))
        place += size
    return out


def whole(extent: int) -> list[Cell]:
    return [Cell(0, extent, {}, 0, 0.0, float(extent))]


def total(row: Sequence[Cell]) -> float:
    return row[-1].place + row[-1].size if row else 1.0


def span(row: Sequence[Cell], low: float, high: float, length: float) -> tuple[float, float]:
    """Where the coordinates from `low` to `high` lie in a drawing of `length` inches: start and size.

    What falls into a part that is left out is drawn in the middle of the gap."""
    scale = length / total(row)

    def at(v: float, end: bool) -> float:
        gap = None
        for c in row:
            if c.gap:
                gap = c
            elif (c.low < v <= c.high) if end else (c.low <= v < c.high):
                return c.place + c.size * (v - c.low) / (c.high - c.low)
        return gap.place + gap.size * (0.6 if end else 0.4) if gap else total(row)

    start, stop = at(low, False) * scale, at(high, True) * scale
    return start, stop - start


Paint = Callable[[Cell, Cell], RGB | str]


def draw(canvas: Canvas, box: Box, rows: Sequence[Cell], columns: Sequence[Cell], paint: Paint, thin: float) -> None:
    """Cells with their colours, dotted gaps, hatched where nobody or several own them, and an outline."""
    x, y, width, height = box
    down, right = height / total(rows), width / total(columns)
    style = canvas.style
    canvas.box(box, style.empty)
    for r in rows:
        for c in columns:
            cell = (x + c.place * right, y + r.place * down, c.size * right, r.size * down)
            if r.gap or c.gap:
                continue
            state = min(r.state, c.state)
            if state:
                hatch = "////" if state == -1 else "xxx"
                canvas.frame(cell, style.line, 0.0, hatch=hatch)
            else:
                canvas.box(cell, paint(r, c), style.card, thin)
    for r in rows:
        if r.gap:
            text = f"{r.high:,} more"
            canvas.text(x + width / 2, y + (r.place + r.size / 2) * down, text, SMALL, style.soft, "center", "center")
    for c in columns:
        if c.gap:
            place, text = x + (c.place + c.size / 2) * right, f"{c.high:,} more"
            turned = 90 if height > 0.7 else 0
            if turned or c.size * right < text_width(text, SMALL):
                text = text if turned else "…"
            canvas.text(place, y + height / 3, text, SMALL, style.soft, "center", "center", rotation=turned)
    canvas.frame(box, style.line, 0.8)


def label(cell: Cell, names: Sequence[str]) -> str:
    """Values of the indices that choose the cell: `3`, or `3,1` for two in one dimension."""
    if cell.state == -1:
        return "–"
    if cell.state == -2:
        return "∗"
    return ",".join(str(cell.index[name]) for name in names if name in cell.index)


def label_columns(canvas: Canvas, box: Box, columns: Sequence[Cell], names: Sequence[str]) -> None:
    """Index values above the columns, as many as fit."""
    x, y, width, _ = box
    scale = width / total(columns)
    texts = [label(c, names) for c in columns]
    step = _step([c.size * scale for c in columns], [text_width(t, SMALL) + 0.05 for t in texts])
    for i, (c, text) in enumerate(zip(columns, texts, strict=True)):
        if not c.gap and (i % step == 0 or len(columns) <= HEAD + 2):
            canvas.text(x + (c.place + c.size / 2) * scale, y - 0.05, text, SMALL, canvas.style.soft, "center")


def label_rows(canvas: Canvas, box: Box, rows: Sequence[Cell], names: Sequence[str]) -> None:
    x, y, _, height = box
    scale = height / total(rows)
    step = _step([r.size * scale for r in rows], [0.125] * len(rows))
    for i, r in enumerate(rows):
        if not r.gap and i % step == 0:
            place = y + (r.place + r.size / 2) * scale
            canvas.text(x - 0.06, place, label(r, names), SMALL, canvas.style.soft, "right", "center")


def _step(sizes: Sequence[float], needed: Sequence[float]) -> int:
    """How many cells one label needs, as 1, 2, 4, 8, ..."""
    smallest = min((s for s in sizes if s), default=1.0)
    return 1 << max(0, math.ceil(math.log2(max(max(needed, default=0.1) / smallest, 1e-9))))


def label_width(rows: Sequence[Cell], names: Sequence[str]) -> float:
    """Room that row labels need at the left."""
    return max((text_width(label(r, names), SMALL) for r in rows), default=0.0) + 0.1


def picture_size(rows: Sequence[Cell], columns: Sequence[Cell], widest: float, highest: float) -> tuple[float, float]:
    """Width and height in inches: to scale where that is legible, cells never flatter than their labels."""
    if len(rows) == len(columns) == 1:
        widest, highest = min(widest, 1.4), min(highest, 1.0)
    height_by_width = min(max(total(rows) / total(columns), 0.12), 2.5)
    width = min(widest, highest / height_by_width)
    height = min(highest, max(width * height_by_width, min(len(rows) * 0.13, highest), 0.3))
    return max(width, min(widest, 0.16 * min(len(columns), 16), widest), 0.5), height
