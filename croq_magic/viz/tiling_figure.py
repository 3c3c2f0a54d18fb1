"""The picture of `tiling`: one card an array, cut into chunks, with one chunk enlarged where it is cut further."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from croq_magic.viz import grid
from croq_magic.viz.canvas import Box, Canvas, text_width, wrap
from croq_magic.viz.grid import Cell
from croq_magic.viz.theme import NORMAL, RGB, SMALL, TITLE, Theme
from croq_magic.viz.words import instances_text, level_text, own_indices, plural

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WIDTH, MARGIN, GAP = 10.0, 0.25, 0.3
WIDEST, HIGHEST = 2.1, 2.0  # of one picture
ZOOM = 1.35
SLICES = 3
RASTER = 64  # elements of one dimension that are drawn one by one


def draw(data: dict[str, Any], style: Theme) -> Figure:
    """Cards from left to right, as many a row as fit."""
    canvas = Canvas(style)
    canvas.text(MARGIN, 0.32, f"{data['function']}: how its arrays are cut, and who owns the chunks", 11, bold=True)
    cards = [_Card(canvas, name, a) for name, a in data["arrays"].items()]
    y = 0.45 + _legend(canvas, MARGIN, 0.55, cards)
    row: list[_Card] = []
    rows: list[list[_Card]] = []
    for card in cards:
        if row and sum(c.width + GAP for c in row) + card.width > WIDTH - 2 * MARGIN:
            rows.append(row)
            row = []
        row.append(card)
    rows += [row] if row else []
    for row in rows:
        x = MARGIN
        head = max(c.head for c in row)
        for card in row:
            card.draw(x, y, head)
            x += card.width + GAP
        y += head + max(c.body for c in row) + GAP
    if not rows:
        canvas.text(MARGIN, y + 0.2, "The function touches no array.", NORMAL, style.soft)
        y += 0.4
    return canvas.finish(WIDTH, y)


def _legend(canvas: Canvas, x: float, y: float, cards: Sequence[_Card]) -> float:
    """Hues of the owner kinds that occur; returns the height."""
    kinds = [k for k in ("block", "group", "thread", "iteration") if any(k in c.kinds() for c in cards)]
    for kind in kinds:
        for i in range(4):
            canvas.box((x + i * 0.16, y - 0.1, 0.16, 0.14), canvas.style.owner(kind, i / 3))
        text = f"{kind}s, first to last"
        canvas.text(x + 0.72, y + 0.02, text, SMALL, canvas.style.soft)
        x += 0.9 + text_width(text, SMALL)
    states = {seg for c in cards for seg in c.states()}
    for state, hatch, text in ((-1, "////", "nobody"), (-2, "xxx", "several")):
        if state in states:
            canvas.frame((x, y - 0.1, 0.3, 0.14), canvas.style.line, 0.6, hatch=hatch)
            canvas.text(x + 0.38, y + 0.02, text, SMALL, canvas.style.soft)
            x += 0.6 + text_width(text, SMALL)
    return 0.35


class _Card:
    """One array: measured when made, drawn when its place is known."""

    def __init__(self, canvas: Canvas, name: str, a: dict[str, Any]) -> None:
        self.canvas, self.name, self.a = canvas, name, a
        self.levels: list[dict[str, Any]] = a["levels"]
        self.shape: tuple[int, ...] = a["shape"]
        self.over = _overview(self.levels)
        self.kind = _owner_kind(self.levels, self.over)
        self.names = list(self.levels[self.over]["indices"]) if self.levels else []
        self.separable = not self.levels or self.levels[self.over]["segments"] is not None
        self.dims = [self._cells(d, self.over, 0, n) for d, n in enumerate(self.shape)]
        self.slices = self._slices()
        self.picture = grid.picture_size(self.rows, self.columns, WIDEST, HIGHEST / (1 if len(self.slices) == 1 else 2))
        self.left = grid.label_width(self.rows, self.names)
        if len(self.shape) > 2:
            self.left = max(self.left, 0.3)
        self.zoom = self._zoom()
        labels = [text_width(self._slice_label(leading), SMALL) for leading in self.slices]
        self.across = max(self.picture[0], *labels) if len(self.shape) > 2 else self.picture[0]
        self.width = self.left + self.across + (self.zoom["width"] if self.zoom else 0)
        self.width = max(self.width, 2.2, min(3.2, text_width(self._title(), TITLE, True)))
        self.notes = [line for t in self._notes() for line in wrap(t, self.width, SMALL)]
        self.head = 0.28 + 0.14 * len(self.notes)
        self.pitch = self.picture[1] + (0.24 if len(self.shape) > 2 else 0.0)
        pictures = len(self.slices) * self.pitch + (0.15 if self._left_out() else 0)
        self.body = 0.42 + max(pictures, self.zoom["height"] if self.zoom else 0)

    @property
    def rows(self) -> list[Cell]:
        return self.dims[-2] if len(self.dims) > 1 else [Cell(0, 1, {}, 0, 0.0, grid.total(self.columns) / 8)]

    @property
    def columns(self) -> list[Cell]:
        return self.dims[-1] if self.dims else grid.whole(1)

    def kinds(self) -> set[str]:
        return {self.kind, self.zoom["kind"]} if self.zoom else {self.kind}

    def states(self) -> set[int]:
        return {c.state for row in self.dims for c in row}

    def _cells(self, dim: int, level: int, low: int, high: int) -> list[Cell]:
        if not self.levels or self.levels[level]["segments"] is None:
            return [Cell(low, high, {}, 0, 0.0, float(high - low))]
        return grid.cells(self.levels[level]["segments"][dim], low, high)

    def _slices(self) -> list[tuple[Cell, ...]]:
        """Cells of the leading dimensions: all, or the first two and the last."""
        leading = [[c for c in row if not c.gap] for row in self.dims[:-2]]
        count = math.prod(map(len, leading))
        first = list(itertools.islice(itertools.product(*leading), SLICES))
        if count > SLICES:
            return [*first[: SLICES - 1], tuple(row[-1] for row in leading)]
        return first

    def _left_out(self) -> bool:
        return len(self.shape) > 2 and math.prod(self._leading()) > len(self.slices)

    def _leading(self) -> list[int]:
        if not self.levels or self.levels[self.over]["grid"] is None:
            return [1] * (len(self.shape) - 2)
        return list(self.levels[self.over]["grid"][:-2])

    def _title(self) -> str:
        return f"{self.name}  {self.a['dtype']} [{', '.join(map(str, self.shape))}]"

    def _notes(self) -> list[str]:
        lines = [f"{self.a['storage']}, {self.a['use']}{instances_text(self.a)}"]
        lines += [level_text(level, i, self.levels) for i, level in enumerate(self.levels)]
        if self.a["nobody"]:
            lines.append(f"{plural(self.a['nobody'], 'element')} left alone")
        return lines + [f"not exact: {note}" for note in self.a["notes"]]

    # ----------------------------------------------------------------------------------------------- drawing

    def draw(self, x: float, y: float, head: float) -> None:
        canvas, style = self.canvas, self.canvas.style
        canvas.text(x, y + 0.16, self.name, TITLE, bold=True)
        offset = text_width(self.name, TITLE, True) + 0.12
        canvas.text(x + offset, y + 0.16, self._title()[len(self.name) :].strip(), NORMAL, style.soft)
        for i, note in enumerate(self.notes):
            canvas.text(x, y + 0.33 + 0.14 * i, note, SMALL, style.soft)
        left, top = x + self.left, y + head + 0.38
        width, height = self.picture
        for i, leading in enumerate(self.slices):
            place = top + i * self.pitch
            if self._left_out() and i == len(self.slices) - 1:
                canvas.text(left + width / 2, place + 0.03, "⋮", 9, style.soft, "center", "center")
                place += 0.15
            box = (left, place, width, height)
            self._picture(box, leading, first=i == 0)
        if self.zoom:
            self._draw_zoom((left, top, width, height), left + self.across)

    def _picture(self, box: Box, leading: Sequence[Cell], first: bool) -> None:
        canvas = self.canvas
        before = {name: v for c in leading for name, v in c.index.items()}
        fine = max(len(self.rows), len(self.columns)) > 24
        if self.separable:
            paint = self._paint(before)
            grid.draw(canvas, box, self.rows, self.columns, paint, 0.25 if fine else 0.6)
            self._block_lines(box)
        else:
            self._raster(box, leading)
        if not self.separable:
            if first:
                text = f"by {', '.join(self.names)}"
                canvas.text(box[0], box[1] - 0.07, text, SMALL, canvas.style.soft)
        elif first:
            grid.label_columns(canvas, box, self.columns, self.names)
            self._axis_title(box)
        if len(self.dims) > 1 and self.separable:
            grid.label_rows(canvas, box, self.rows, self.names)
        if leading:
            text = self._slice_label(leading)
            canvas.text(box[0], box[1] + box[3] + 0.13, text, SMALL, canvas.style.soft)

    def _slice_label(self, leading: Sequence[Cell]) -> str:
        where = ", ".join(str(c.low) if c.high - c.low == 1 else f"{c.low}:{c.high}" for c in leading)
        owner = ", ".join(f"{n} = {v}" for c in leading for n, v in c.index.items())
        return f"[{where}, :, :]" + (f"  {owner}" if owner else "")

    def _axis_title(self, box: Box) -> None:
        names = [n for n in self.names if any(n in c.index for c in self.columns)]
        row_names = [n for n in self.names if any(n in c.index for c in self.rows)]
        y = box[1] - 0.2
        if names:
            self.canvas.text(box[0] + box[2], y, ", ".join(names) + " →", SMALL, align="right", bold=True)
        if row_names:
            self.canvas.text(box[0] - self.left, y, ", ".join(row_names) + " ↓", SMALL, bold=True)

    def _paint(self, before: Mapping[str, int]) -> grid.Paint:
        style, kind = self.canvas.style, self.kind
        position = _position(self.levels, self.over, kind)
        finer = [n for n in self.names if n not in position]

        def paint(r: Cell, c: Cell) -> RGB:
            index = {**before, **r.index, **c.index}
            at = sum(weight * index.get(name, 0) for name, (weight, _) in position.items())
            last = sum(weight * (n - 1) for weight, n in position.values())
            shift = 0.045 * (sum(index.get(name, 0) for name in finer) % 2)
            return style.owner(kind, at / last if last else 0.15, shift if style.name == "dark" else -shift)

        return paint

    def _block_lines(self, box: Box) -> None:
        """Strong lines where the level before the drawn one changes."""
        if not self.levels or self.over == 0:
            return
        outer = set(self.levels[self.over - 1]["indices"])
        for row, horizontal in ((self.rows, True), (self.columns, False)):
            scale = (box[3] if horizontal else box[2]) / grid.total(row)
            for a, b in itertools.pairwise(row):
                if a.gap or b.gap or {n: a.index.get(n) for n in outer} == {n: b.index.get(n) for n in outer}:
                    continue
                at, across = b.place * scale, self.columns if horizontal else self.rows
                other = (box[2] if horizontal else box[3]) / grid.total(across)
                for c in across:
                    start, stop = c.place * other, (c.place + c.size) * other
                    ends = [(start, at), (stop, at)] if horizontal else [(at, start), (at, stop)]
                    if not c.gap:
                        self.canvas.line([(box[0] + x, box[1] + y) for x, y in ends], self.canvas.style.ink, 0.7)

    def _raster(self, box: Box, leading: Sequence[Cell]) -> None:
        """Chunks that do not form a grid: every element, or every so many, in the colour of its owner."""
        canvas, style = self.canvas, self.canvas.style
        canvas.box(box, style.empty)
        owners = [self.a["owner"].get(name) for name in self.names]
        place = tuple(c.low for c in leading)
        if any(o is None for o in owners) or not owners:
            text = f"{self.levels[self.over]['count']:,} chunks"
            canvas.text(box[0] + box[2] / 2, box[1] + box[3] / 2, text, SMALL, style.soft, "center", "center")
            canvas.frame(box, style.line, 0.8)
            return
        planes = [np.atleast_2d(o[place]) for o in owners if o is not None]
        rows, columns = planes[0].shape
        steps = -(-rows // RASTER), -(-columns // RASTER)
        counts = [max(1, int(o.max()) + 1) for o in owners if o is not None]
        last = max(1, math.prod(counts) - 1)
        for r in range(0, rows, steps[0]):
            for c in range(0, columns, steps[1]):
                values = [int(p[r, c]) for p in planes]
                x, y = box[0] + box[2] * c / columns, box[1] + box[3] * r / rows
                size = box[2] * min(steps[1], columns - c) / columns, box[3] * min(steps[0], rows - r) / rows
                if min(values) < 0:
                    several = -2 in values and -1 not in values
                    canvas.box((x, y, *size), style.line if several else style.empty, style.card, 0.2)
                    continue
                number = 0
                for value, count in zip(values, counts, strict=True):  # from the most to the least significant
                    number = number * count + value
                canvas.box((x, y, *size), style.owner(self.kind, number / last), style.card, 0.2)
        canvas.frame(box, style.line, 0.8)

    # -------------------------------------------------------------------------------------------------- zoom

    def _zoom(self) -> dict[str, Any] | None:
        """The inside of the chunk in the upper right corner, if the next level cuts it further."""
        if not self.separable or self.over + 1 >= len(self.levels):
            return None
        level = self.levels[self.over + 1]
        corner = [_corner(row, last=d == len(self.dims) - 1) for d, row in enumerate(self.dims)]
        if level["segments"] is None or None in corner:
            return None
        bounds = [(c.low, c.high) for c in corner if c is not None]
        dims = [self._cells(d, self.over + 1, *b) for d, b in enumerate(bounds)]
        names = [n for n in level["indices"] if n not in self.names]
        rows = dims[-2] if len(dims) > 1 else [Cell(0, 1, {}, 0, 0.0, grid.total(dims[-1]) / 6)]
        if len(rows) * len(dims[-1]) == 1:
            return None
        width, height = grid.picture_size(rows, dims[-1], ZOOM, ZOOM)
        left = grid.label_width(rows, names) + 0.45
        at = ", ".join(f"{n}={v}" for c in corner if c is not None for n, v in c.index.items())
        words = wrap(f"inside {at or 'it'}", left + width - 0.3, SMALL)
        zoom = {"rows": rows, "columns": dims[-1], "names": names, "size": (width, height), "left": left}
        zoom |= {"corner": corner, "kind": level["kind"], "words": words, "width": left + width}
        return zoom | {"height": height + 0.15 * len(words)}

    def _draw_zoom(self, box: Box, right: float) -> None:
        zoom, canvas, style = self.zoom, self.canvas, self.canvas.style
        assert zoom is not None
        corner = zoom["corner"]
        row = corner[-2] if len(corner) > 1 else self.rows[0]
        x, w = grid.span(self.columns, corner[-1].low, corner[-1].high, box[2])
        y, h = grid.span(self.rows, row.low, row.high, box[3]) if len(corner) > 1 else (0.0, box[3])
        source = (box[0] + x, box[1] + y, w, h)
        width, height = zoom["size"]
        target = (right + zoom["left"], box[1], width, height)
        canvas.frame(source, style.accent, 1.3)
        labels = grid.label_width(zoom["rows"], zoom["names"]) if len(corner) > 1 else 0.02
        start, stop = source[0] + source[2], target[0] - labels
        canvas.line([(start, source[1]), (stop, target[1])], style.accent, 0.7, "dotted")
        canvas.line([(start, source[1] + source[3]), (stop, target[1] + height)], style.accent, 0.7, "dotted")
        names = zoom["names"]
        counts = {n: max(c.index.get(n, 0) for c in (*zoom["rows"], *zoom["columns"])) + 1 for n in names}

        def paint(r: Cell, c: Cell) -> RGB:
            index = {**r.index, **c.index}
            at = 0
            for name in names if zoom["kind"] == "iteration" else names[::-1]:
                at = at * counts[name] + index.get(name, 0)
            last = math.prod(counts.values()) - 1
            return style.owner(zoom["kind"], at / last if last else 0.15)

        fine = max(len(zoom["rows"]), len(zoom["columns"])) > 24
        grid.draw(canvas, target, zoom["rows"], zoom["columns"], paint, 0.25 if fine else 0.5)
        canvas.frame(target, style.accent, 1.3)
        grid.label_columns(canvas, target, zoom["columns"], names)
        if len(corner) > 1:
            grid.label_rows(canvas, target, zoom["rows"], names)
        top = [n for n in names if any(n in c.index for c in zoom["columns"])]
        side = [n for n in names if any(n in c.index for c in zoom["rows"])]
        if top:
            canvas.text(target[0] + width, target[1] - 0.2, ", ".join(top) + " →", SMALL, align="right", bold=True)
        if side:
            canvas.text(target[0] - 0.25, target[1] - 0.2, ", ".join(side) + " ↓", SMALL, bold=True)
        for i, words in enumerate(zoom["words"]):
            canvas.text(target[0], target[1] + height + 0.14 + 0.14 * i, words, SMALL, style.accent)


def _corner(row: Sequence[Cell], last: bool) -> Cell | None:
    """The first or last cell of a dimension that is owned and not cut short by the array's end."""
    owned = [c for c in row if not c.gap and not c.state]
    full = max((c.high - c.low for c in owned), default=0)
    chosen = [c for c in owned if c.high - c.low == full]
    return chosen[-1 if last else 0] if chosen else None


def _overview(levels: Sequence[dict[str, Any]]) -> int:
    """The finest level with chunks without gaps of more than one element; else the coarsest."""
    larger = [i for i, level in enumerate(levels) if math.prod(level["chunk"]) > 1 and level["dense"]]
    return larger[-1] if larger else 0


def _owner_kind(levels: Sequence[dict[str, Any]], over: int) -> str:
    """What a chunk is coloured by: the finest parallel level down to the drawn one, else the iteration."""
    kinds = [levels[i]["kind"] for i in range(min(over + 1, len(levels))) if own_indices(levels[i], i, levels)]
    return next((kind for kind in reversed(kinds) if kind != "iteration"), "iteration")


def _position(levels: Sequence[dict[str, Any]], over: int, kind: str) -> dict[str, tuple[int, int]]:
    """Weights and extents of the indices that number the owners of a kind."""
    names: list[str] = []
    for i, level in enumerate(levels[: over + 1]):
        if level["kind"] == kind or (kind != "iteration" and level["kind"] != "iteration"):
            own = own_indices(level, i, levels)
            # Instances of a level are numbered with the first index fastest, iterations with the last.
            names += own if level["kind"] == "iteration" else own[::-1]
    counts: dict[str, int] = {}
    for segments in (levels[over]["segments"] or []) if levels else []:
        for name, values in segments["index"].items():
            counts[name] = max(counts.get(name, 1), int(values.max(initial=0)) + 1)
    weights: dict[str, tuple[int, int]] = {}
    step = 1
    for name in reversed(names):
        weights[name] = (step, counts.get(name, 1))
        step *= counts.get(name, 1)
    return weights
