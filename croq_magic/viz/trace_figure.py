"""The picture of `trace`: from the inputs over the buffers on the chip to the element, left to right."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from croq_magic.viz.canvas import MONO, Box, Canvas, wrap
from croq_magic.viz.theme import NORMAL, SMALL, TITLE, Theme

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WIDTH, MARGIN = 10.0, 0.25
HIGHEST, SMALLEST, ELEMENT = 1.9, 0.035, 0.07  # inches
DRAWN = 40  # copies that are outlined one by one
CELLS = 40  # elements of one dimension that are drawn as cells


def draw(data: dict[str, Any], style: Theme) -> Figure:
    from croq_magic.viz.trace import iterations_text, unwritten_text, write_text

    canvas = Canvas(style)
    place = ", ".join(map(str, data["index"]))
    canvas.text(MARGIN, 0.32, f"{data['function']}: where {data['array']}[{place}] comes from", 11, bold=True)
    y = 0.56
    for w in data["writes"][:2]:
        for words in wrap(f"Made by {write_text(w)}, {iterations_text(w)}", WIDTH - 2 * MARGIN, NORMAL):
            canvas.text(MARGIN, y, words, NORMAL)
            y += 0.17
        statement = w["statement"]
        size = min(SMALL, (WIDTH - 2 * MARGIN - 0.2) / (max(1, len(statement)) * MONO))
        canvas.text(MARGIN + 0.15, y, statement, max(size, 4.5), style.soft, mono=True)
        y += 0.19
    if len(data["writes"]) > 2:
        canvas.text(MARGIN, y, f"and by {len(data['writes']) - 2:,} other instances", NORMAL)
        y += 0.17
    if not data["writes"]:
        words = unwritten_text(data)
        canvas.text(MARGIN, y, f"{words[0].upper()}{words[1:]}.", NORMAL)
        y += 0.17
    for note in data["notes"]:
        canvas.text(MARGIN, y, f"Not exact: {note}.", SMALL, style.soft)
        y += 0.15
    reads = data["reads"]
    columns: list[tuple[str, list[_Panel]]] = [
        ("read from global memory", [_Panel(canvas, data, n) for n, r in reads.items() if r["storage"] == "global"]),
        ("on the chip", [_Panel(canvas, data, n) for n, r in reads.items() if r["storage"] != "global"]),
        ("written", [_Result(canvas, data)]),
    ]
    shown = [(title, panels) for title, panels in columns if panels]
    width = (WIDTH - 2 * MARGIN) / len(shown)
    bottom = y
    for i, (title, panels) in enumerate(shown):
        x = MARGIN + i * width
        canvas.text(x, y + 0.2, title, SMALL, style.soft, bold=True)
        if i:
            canvas.text(x - 0.28, y + 0.85, "→", 15, style.soft, "center", "center")
        height = y + 0.3
        for panel in panels:
            height = panel.draw(x, height, width - 0.55)
        bottom = max(bottom, height)
    return canvas.finish(WIDTH, bottom + 0.1)


class _Panel:
    """One array with the elements that are read, and the copies that take them on the chip."""

    def __init__(self, canvas: Canvas, data: dict[str, Any], name: str) -> None:
        self.canvas, self.data, self.name = canvas, data, name
        self.read = data["reads"].get(name)
        self.shape: tuple[int, ...] = self.read["shape"] if self.read else data["shape"]
        self.loads = [load for load in data["loads"] if load["source"] == name]

    def captions(self) -> list[str]:
        from croq_magic.viz.trace import box_text, ranges, values_text

        lines = [f"read: [{ranges(self.read['coords'])}]"]
        for load in (v for v in self.data["loads"] if v["target"] == self.name and len(v["low"]) > 1):
            held = box_text(load["low"][0], load["high"][0])
            lines.append(f"holds {load['source']}[{held}] first")
        for load in self.loads:
            moving = {n: int(v[0]) for n, v in load["index"].items() if len(set(v.tolist())) > 1}
            when = f" at {values_text(moving)}" if moving else ""
            count = f", {len(load['low']):,} copies" if len(load["low"]) > 1 else ""
            lines.append(f"[{box_text(load['low'][0], load['high'][0])}] to {load['target']}{when}{count}")
        return lines

    def draw(self, x: float, y: float, width: float) -> float:
        canvas, style = self.canvas, self.canvas.style
        canvas.text(x, y + 0.16, self.name, TITLE, bold=True)
        storage = self.read["storage"] if self.read else "global"
        offset = len(self.name) * 0.09 + 0.12
        shape = ", ".join(map(str, self.shape))
        canvas.text(x + offset, y + 0.16, f"{storage} [{shape}]", NORMAL, style.soft)
        y += 0.32
        for text in self.captions():
            for words in wrap(text, width + 0.3, SMALL):
                canvas.text(x, y, words, SMALL, style.soft)
                y += 0.14
        leading = self.leading()
        if leading:
            canvas.text(x, y, f"slice [{', '.join(map(str, leading))}, :, :]", SMALL, style.soft)
            y += 0.14
        return self.picture((x, y - 0.04, *self.size(width)), leading) + 0.25

    def leading(self) -> tuple[int, ...]:
        """The leading index of the slice that is drawn: that of the first read."""
        return tuple(int(v) for v in self.read["coords"][0][:-2])

    def size(self, width: float) -> tuple[float, float]:
        rows, columns = self.plane()
        ratio = min(max(rows / columns, 0.1), 3.0)
        width = min(width, HIGHEST / ratio, 0.5 * columns)
        return width, max(0.22, width * ratio)

    def plane(self) -> tuple[int, int]:
        return (self.shape[-2] if len(self.shape) > 1 else 1), self.shape[-1]

    def picture(self, box: Box, leading: tuple[int, ...]) -> float:
        canvas, style = self.canvas, self.canvas.style
        canvas.box(box, style.empty)
        self.cells(box)
        for load in self.loads:
            inside = [
                i
                for i in range(len(load["low"]))
                if all(a <= v < b for a, v, b in zip(load["low"][i], leading, load["high"][i], strict=False))
            ]
            if len(inside) > DRAWN:
                inside = [inside[0], inside[1], inside[-1]]
            for i in reversed(inside):
                part = self.place(box, load["low"][i], load["high"][i])
                first = i == inside[0]
                fill = style.owner("block", 0.45 if first else 0.08)
                canvas.box(part, fill, style.owner("block", 0.9), 1.0 if first else 0.35)
        self.marks(box, leading)
        canvas.frame(box, style.line, 0.8)
        return box[1] + box[3]

    def cells(self, box: Box) -> None:
        rows, columns = self.plane()
        if max(rows, columns) > CELLS:
            return
        for i in range(1, rows):
            y = box[1] + box[3] * i / rows
            self.canvas.line([(box[0], y), (box[0] + box[2], y)], self.canvas.style.line, 0.25)
        for j in range(1, columns):
            x = box[0] + box[2] * j / columns
            self.canvas.line([(x, box[1]), (x, box[1] + box[3])], self.canvas.style.line, 0.25)

    def marks(self, box: Box, leading: tuple[int, ...]) -> None:
        """The elements read: runs of them along the last dimension, or along rows where columns are single."""
        coords = np.unique(self.read["coords"], axis=0)
        coords = coords[(coords[:, : len(leading)] == np.array(leading, np.int64)).all(axis=1)] if leading else coords
        flat = coords[:, -2:] if len(self.shape) > 1 else np.column_stack([np.zeros(len(coords), int), coords])
        for low, high in rectangles(flat):
            self.canvas.box(self.place(box, low, high), self.canvas.style.accent, self.canvas.style.accent, 0.4)

    def place(self, box: Box, low: Sequence[int], high: Sequence[int]) -> Box:
        """Where a box of elements lies on the page; never too small to see."""
        rows, columns = self.plane()
        top, bottom = (int(low[-2]), int(high[-2])) if len(low) > 1 else (0, 1)
        x, width = _visible(box[0], box[2], int(low[-1]) / columns, int(high[-1]) / columns)
        y, height = _visible(box[1], box[3], top / rows, bottom / rows)
        return x, y, width, height


class _Result(_Panel):
    """The array that is written, with the element and its block's chunk, enlarged if the chunk is small."""

    def __init__(self, canvas: Canvas, data: dict[str, Any]) -> None:
        super().__init__(canvas, {**data, "reads": {}, "loads": []}, data["array"])

    def captions(self) -> list[str]:
        from croq_magic.viz.trace import box_text, values_text

        lines = [f"element [{', '.join(map(str, self.data['index']))}]"]
        if self.data["chunk"] and self.data["writes"]:
            block = values_text(self.data["writes"][0]["block"])
            lines.append(f"block {block} writes [{box_text(*self.data['chunk'])}]")
        return lines

    def leading(self) -> tuple[int, ...]:
        return tuple(self.data["index"][:-2])

    def marks(self, box: Box, leading: tuple[int, ...]) -> None:
        style = self.canvas.style
        chunk = self.data["chunk"]
        index = self.data["index"]
        if chunk:
            part = self.place(box, *chunk)
            self.canvas.box(part, style.owner("block", 0.45), style.owner("block", 0.9), 1.0)
        self.dot(self.place(box, index, [i + 1 for i in index]))

    def dot(self, part: Box) -> None:
        x, y, width, height = part
        grow = max(0.0, ELEMENT - min(width, height)) / 2
        style = self.canvas.style
        mark = (x - grow, y - grow, width + 2 * grow, height + 2 * grow)
        self.canvas.box(mark, style.accent, style.card, 0.8)

    def picture(self, box: Box, leading: tuple[int, ...]) -> float:
        bottom = super().picture(box, leading)
        chunk, index, style = self.data["chunk"], self.data["index"], self.canvas.style
        if not chunk:
            return bottom
        low, high = [v[-2:] if len(self.shape) > 1 else [o, *v[-1:]] for v, o in ((chunk[0], 0), (chunk[1], 1))]
        rows, columns = high[0] - low[0], high[1] - low[1]
        if max(rows, columns) > CELLS or rows * columns == 1 or math.prod(self.shape) == rows * columns:
            return bottom
        ratio = min(max(rows / columns, 0.12), 2.0)
        width = min(box[2], 1.5 / ratio)
        zoom = (box[0] + 0.25, bottom + 0.3, width - 0.25, (width - 0.25) * ratio)
        part = self.place(box, *chunk)
        self.canvas.frame(part, style.accent, 1.2)
        self.canvas.line([(part[0], part[1] + part[3]), (zoom[0], zoom[1])], style.accent, 0.7, "dotted")
        ends = [(part[0] + part[2], part[1] + part[3]), (zoom[0] + zoom[2], zoom[1])]
        self.canvas.line(ends, style.accent, 0.7, "dotted")
        self.canvas.box(zoom, style.owner("block", 0.15))
        down, right = zoom[3] / rows, zoom[2] / columns
        for i in range(1, rows):
            at = zoom[1] + i * down
            self.canvas.line([(zoom[0], at), (zoom[0] + zoom[2], at)], style.card, 0.4)
        for j in range(1, columns):
            at = zoom[0] + j * right
            self.canvas.line([(at, zoom[1]), (at, zoom[1] + zoom[3])], style.card, 0.4)
        row = (index[-2] if len(index) > 1 else 0) - low[0]
        column = index[-1] - low[1]
        self.dot((zoom[0] + column * right, zoom[1] + row * down, right, down))
        self.canvas.frame(zoom, style.accent, 1.0)
        thread = self.data["writes"][0]["thread"]
        if thread:
            from croq_magic.viz.trace import values_text

            text = f"the chunk enlarged: thread {values_text(thread)}"
            self.canvas.text(zoom[0], zoom[1] + zoom[3] + 0.15, text, SMALL, style.soft)
            return zoom[1] + zoom[3] + 0.15
        return zoom[1] + zoom[3]


def _visible(start: float, length: float, low: float, high: float) -> tuple[float, float]:
    """Start and size of a part of a length, at least `SMALLEST` inches and inside."""
    size = max((high - low) * length, min(SMALLEST, length))
    return min(start + low * length, start + length - size), size


def rectangles(points: np.ndarray, most: int = 2000) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    """Distinct points of a plane as few rectangles: (low, high) corners, `high` exclusive.

    The whole box where it is full, else runs along the longer side of the box; of more than `most` runs, the box."""
    if not len(points):
        return []
    low, high = points.min(axis=0), points.max(axis=0) + 1
    box = ((int(low[0]), int(low[1])), (int(high[0]), int(high[1])))
    size = high - low
    if len(points) == size.prod():
        return [box]
    along = 1 if size[1] >= size[0] else 0
    ordered = points[np.lexsort((points[:, along], points[:, 1 - along]))]
    new = (np.diff(ordered[:, 1 - along]) != 0) | (np.diff(ordered[:, along]) != 1)
    first = np.flatnonzero(np.r_[True, new])
    last = np.r_[first[1:], len(ordered)] - 1
    if len(first) > most:
        return [box]
    return [
        ((int(a[0]), int(a[1])), (int(b[0]) + 1, int(b[1]) + 1))
        for a, b in zip(ordered[first], ordered[last], strict=True)
    ]
