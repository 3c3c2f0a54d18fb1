"""A page measured in inches, y downwards: the drawing operations the figures share.

One axes covers the whole figure, so a figure lays itself out with plain arithmetic and nothing overlaps by accident.
matplotlib is used without pyplot: nothing is registered anywhere, and a figure is garbage once nobody holds it.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from croq_magic.viz.theme import NORMAL, RGB, Theme

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Box = tuple[float, float, float, float]  # x, y, width, height
EM = 0.53 / 72  # mean width of a character of DejaVu Sans, inches per point of size
MONO = 0.64 / 72  # of DejaVu Sans Mono, hinting included


def text_width(text: str, size: float, bold: bool = False) -> float:
    """About how wide a line of text is, in inches."""
    return len(text) * size * EM * (1.1 if bold else 1.0)


def wrap(text: str, width: float, size: float) -> list[str]:
    """A text broken into lines of at most `width` inches; `16 × 16` and what stands in brackets stay together."""
    text = text.replace(" × ", "\u00a0×\u00a0").replace(" (", "\u00a0(")
    return textwrap.wrap(text, max(8, int(width / (size * EM)))) or [""]


class Canvas:
    """Collects shapes and texts; `finish` makes the figure."""

    def __init__(self, style: Theme) -> None:
        self.style = style
        self.boxes: list[tuple[Box, RGB | str, RGB | str, float]] = []
        self.late: list[dict[str, Any]] = []
        self.lines: list[tuple[list[tuple[float, float]], RGB | str, float, str]] = []
        self.texts: list[dict[str, Any]] = []

    def box(self, box: Box, fill: RGB | str = "none", edge: RGB | str = "none", width: float = 0.6) -> None:
        self.boxes.append((box, fill, edge, width))

    def frame(self, box: Box, edge: str, width: float = 1.2, dash: str = "solid", hatch: str = "") -> None:
        """An outline over everything else, hatched if asked."""
        self.late.append({"box": box, "edge": edge, "width": width, "dash": dash, "hatch": hatch})

    def line(
        self, points: Sequence[tuple[float, float]], colour: RGB | str, width: float = 0.8, dash: str = "solid"
    ) -> None:
        self.lines.append((list(points), colour, width, dash))

    def text(
        self,
        x: float,
        y: float,
        text: str,
        size: float = NORMAL,
        colour: str = "",
        align: str = "left",
        valign: str = "baseline",
        bold: bool = False,
        mono: bool = False,
        rotation: float = 0,
    ) -> None:
        self.texts.append(
            {
                "x": x,
                "y": y,
                "s": text,
                "fontsize": size,
                "color": colour or self.style.ink,
                "ha": align,
                "va": valign,
                "fontweight": "bold" if bold else "normal",
                "family": "DejaVu Sans Mono" if mono else "DejaVu Sans",
                "rotation": rotation,
            }
        )

    def finish(self, width: float, height: float) -> Figure:
        """The figure, `width` by `height` inches."""
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.collections import LineCollection, PatchCollection
        from matplotlib.figure import Figure
        from matplotlib.patches import Rectangle

        figure = Figure(figsize=(width, height), facecolor=self.style.card)
        FigureCanvasAgg(figure)
        axes = figure.add_axes((0.0, 0.0, 1.0, 1.0))
        axes.set_xlim(0, width)
        axes.set_ylim(height, 0)
        axes.axis("off")
        if self.boxes:
            patches = [Rectangle((x, y), w, h) for (x, y, w, h), *_ in self.boxes]
            axes.add_collection(
                PatchCollection(
                    patches,
                    facecolors=[fill for _, fill, _, _ in self.boxes],
                    edgecolors=[edge for _, _, edge, _ in self.boxes],
                    linewidths=[w for _, _, _, w in self.boxes],
                )
            )
        for dash in dict.fromkeys(line[3] for line in self.lines):
            chosen = [line for line in self.lines if line[3] == dash]
            axes.add_collection(
                LineCollection(
                    [p for p, *_ in chosen],
                    colors=[c for _, c, _, _ in chosen],
                    linewidths=[w for *_, w, _ in chosen],
                    linestyles=dash,
                )
            )
        for f in self.late:
            x, y, w, h = f["box"]
            axes.add_patch(
                Rectangle(
                    (x, y),
                    w,
                    h,
                    fill=False,
                    edgecolor=f["edge"],
                    linewidth=f["width"],
                    linestyle=f["dash"],
                    hatch=f["hatch"],
                )
            )
        for t in self.texts:
            axes.text(t.pop("x"), t.pop("y"), t.pop("s"), **t)
        return figure
