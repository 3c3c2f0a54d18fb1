"""The picture of `mapping`: the nest on the left, what it makes on the right, lines between."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from croq_magic.viz import grid
from croq_magic.viz.canvas import MONO, Canvas, text_width, wrap
from croq_magic.viz.grid import Cell
from croq_magic.viz.theme import NORMAL, SMALL, TITLE, Theme
from croq_magic.viz.words import plural, tuple_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WIDTH, MARGIN, LINE, INDENT = 10.0, 0.25, 0.24, 0.17
CODE, NOTES, HARDWARE = 4.7, 5.05, 7.45  # right end of the nest, left ends of the other columns
NAMES = {"block": "block", "cluster": "cluster", "device": "device", "group-4": "warpgroup", "group": "warp"}


def draw(data: dict[str, Any], style: Theme) -> Figure:
    canvas = Canvas(style)
    canvas.text(MARGIN, 0.32, f"{data['function']}: what runs where", 11, bold=True)
    top = 0.5
    places = _nest(canvas, data["lines"], top)
    bottom = y = top
    for number, launch in enumerate(data["launches"]):
        first = next((i for i, line in enumerate(data["lines"]) if line["launch"] == number), 0)
        y = max(y, top + first * LINE)
        y = _hardware(canvas, launch, y, _entries(data["lines"], places, number)) + 0.2
        bottom = max(bottom, y)
    height = max(bottom, top + len(data["lines"]) * LINE) + 0.2
    for text in _captions(data):
        for words in wrap(text, WIDTH - 2 * MARGIN, SMALL):
            canvas.text(MARGIN, height, words, SMALL, style.soft)
            height += 0.15
    return canvas.finish(WIDTH, height + 0.05)


def _nest(canvas: Canvas, lines: Sequence[dict[str, Any]], top: float) -> list[float]:
    """Lines of the nest, a tinted band around the body of every `parallel`; returns the middle of each line."""
    from croq_magic.viz.mapping import line_note

    style = canvas.style
    middles = [top + (i + 0.5) * LINE for i in range(len(lines))]
    for i, line in enumerate(lines):
        if line["kind"] == "parallel":
            inset = 0.05 * sum(1 for other in lines[:i] if other["kind"] == "parallel" and other["end"] >= i)
            x = MARGIN + line["depth"] * INDENT - 0.07
            box = (x, top + i * LINE, CODE - inset - x, (line["end"] - i + 1) * LINE)
            canvas.box(box, style.owner(line["level"], 0.0), style.owner(line["level"], 0.75), 0.9)
    for line, middle in zip(lines, middles, strict=True):
        x = MARGIN + line["depth"] * INDENT
        inside = any(o["kind"] == "parallel" and o["level"] == line["level"] for o in lines) and line["level"] != "host"
        colour = style.on(style.owner(line["level"], 0.0)) if inside else style.ink
        size = min(NORMAL, (CODE - 0.15 - x) / (len(line["text"]) * MONO))
        strong = line["kind"] in ("parallel", "function")
        canvas.text(x, middle, line["text"], size, colour, valign="center", bold=strong, mono=True)
        note = line_note(line)
        if note:
            canvas.text(NOTES, middle, note, SMALL, style.soft, valign="center")
    return middles


Entries = dict[str, list[tuple[float, str]]]


def _entries(lines: Sequence[dict[str, Any]], places: Sequence[float], launch: int) -> Entries:
    """Where the `parallel` lines of each kind of level are, and their notes, for the connecting lines."""
    from croq_magic.viz.mapping import line_note

    entries: Entries = {}
    for line, middle in zip(lines, places, strict=True):
        if line["kind"] == "parallel" and line["launch"] == launch:
            entries.setdefault(line["level"], []).append((middle, line_note(line)))
    return entries


def _hardware(canvas: Canvas, launch: dict[str, Any], y: float, entries: Entries) -> float:
    """One panel a level: a small picture of its instances and their number. Returns the lower end."""
    from croq_magic.viz.mapping import launch_text

    style = canvas.style
    for number, level in enumerate(launch["levels"]):
        kind = level["kind"]
        rows, columns = _picture(level["extents"])
        width, height = _picture_size(rows, columns)
        words = _words(level, launch)
        tall = max(height, 0.17 + 0.14 * (len(words) - 1)) + 0.2
        box = (HARDWARE, y, WIDTH - MARGIN - HARDWARE, tall)
        edge = style.owner(kind, 0.75)
        canvas.box(box, style.card, edge, 1.1)
        area = (HARDWARE + 0.1, y + 0.1, width, height)

        def paint(r: Cell, c: Cell, kind: str = kind, rows: Any = rows, columns: Any = columns) -> Any:
            at = c.low * rows[-1].high + r.low  # the first index, downwards, is the fastest
            return style.owner(kind, at / max(1, rows[-1].high * columns[-1].high - 1))

        grid.draw(canvas, area, rows, columns, paint, 0.3)
        for i, text in enumerate(words):
            canvas.text(
                HARDWARE + 1.15, y + 0.22 + 0.14 * i, text, NORMAL if i == 0 else SMALL, bold=i == 0,
                colour=style.ink if i == 0 else style.soft,
            )  # fmt: skip
        for middle, note in entries.get(kind, []):
            bend = HARDWARE - 0.1 - 0.07 * number
            start = min(NOTES + text_width(note, SMALL) + 0.08, bend - 0.05)
            canvas.line([(CODE, middle), (NOTES - 0.06, middle)], edge, 1.0)
            canvas.line([(start, middle), (bend, middle), (bend, y + tall / 2), (HARDWARE, y + tall / 2)], edge, 1.0)
        y += tall + 0.12
    text = launch_text(launch)
    room = WIDTH - MARGIN - HARDWARE
    lines = wrap(text, room, TITLE)
    if len(lines) > 1:  # the sum as a whole goes to the second line
        factors, _, total = text.partition(" = ")
        lines = [*wrap(factors, room, TITLE), *wrap(f"= {total}", room, TITLE)]
    for i, words_line in enumerate(lines):
        canvas.text(HARDWARE, y + 0.1 + 0.16 * i, words_line, NORMAL, bold=True)
        y += 0.16 if i else 0.0
    return y + 0.15


def _words(level: dict[str, Any], launch: dict[str, Any]) -> list[str]:
    unit = NAMES.get(level["level"], "thread")
    kind = level["kind"]
    words = [plural(level["count"], unit)]
    if level["implied"]:
        words.append("added by the compiler")
    elif len(level["extents"]) > 1:
        words.append(f"{', '.join(level['indices'])}: {tuple_text(level['extents'])}")
    elif level["indices"]:
        words.append(f"{level['indices'][0]}: 0..{level['extents'][0] - 1:,}")
    if level["level"] == "thread" and launch["threads"] > 1:
        words.append(f"a block: {plural(launch['warps'], 'warp')}")
    if kind == "block" and launch["shared"]:
        words.append(f"{launch['shared']:,} B shared each")
    return words


def _picture(extents: Sequence[int]) -> tuple[list[Cell], list[Cell]]:
    """Cells for the instances of a level: the first index downwards, the others to the right."""
    if len(extents) <= 1:
        return _cells(1), _cells(math.prod(extents))
    return _cells(extents[0]), _cells(math.prod(extents[1:]))


def _cells(count: int) -> list[Cell]:
    if count <= 32:
        return [Cell(i, i + 1, {}, 0, float(i), 1.0) for i in range(count)] or grid.whole(1)
    shown = [Cell(i, i + 1, {}, 0, float(i), 1.0) for i in range(6)]
    gap = Cell(0, count - 8, {}, 0, 6.0, 6.0, gap=True)
    return [*shown, gap, *(Cell(count - 2 + i, count - 1 + i, {}, 0, 12.0 + i, 1.0) for i in range(2))]


def _picture_size(rows: Sequence[Cell], columns: Sequence[Cell]) -> tuple[float, float]:
    down, right = grid.total(rows), grid.total(columns)
    scale = min(0.95 / right, 0.7 / down, 0.14)
    return right * scale, max(down * scale, 0.1)


def _captions(data: dict[str, Any]) -> list[str]:
    """Traffic in words, of global arrays first."""
    moved = []
    for name, t in data["traffic"].items():
        words = [f"{t[key]:,} {key}" for key in ("read", "written", "passed to C++") if t.get(key)]
        words += [f"{t['passed']:,} passed to C++"] if t["passed"] else []
        moved.append((t["storage"] != "global", f"{name} ({t['storage']}) {', '.join(words) or 'none'}"))
    moved.sort(key=lambda item: item[0])
    lines = ["Elements, as the program is written:  " + ";  ".join(text for _, text in moved) + "."] if moved else []
    if data["launches"]:
        lines.append(
            "On the CPU the cores share out the blocks, and the threads of a block become loops between joins."
        )
    return lines
