"""`Diagram`, what every function of this package returns: a picture, the values it shows, and the same in words."""

from __future__ import annotations

import io
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from croq_magic.viz import theme

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DPI = 160


class Diagram:
    """A diagram of a tileflow function.

    `data` holds what it shows as plain values and NumPy arrays; `text` says the same in words, always alike for the
    same program; `figure` is a matplotlib figure, drawn at first use. In a notebook the diagram shows itself.
    """

    def __init__(
        self, title: str, data: dict[str, Any], text: str, draw: Callable[[theme.Theme], Figure], style: theme.Theme
    ) -> None:
        self.title, self.data, self.text = title, data, text
        self._draw, self._theme = draw, style

    @cached_property
    def figure(self) -> Figure:
        return self._draw(self._theme)

    def __repr__(self) -> str:
        return f"<{self.title}>"

    def __str__(self) -> str:
        return self.text

    def save(self, path: str | Path, dpi: int = DPI) -> Path:
        """Writes the picture; the name's ending chooses the format (png, svg, pdf)."""
        path = Path(path)
        if path.suffix.lower() == ".png":
            path.write_bytes(self.png(dpi))
            return path
        self.figure.savefig(path, dpi=dpi, facecolor=self.figure.get_facecolor())
        return path

    def png(self, dpi: int = DPI) -> bytes:
        """The picture as PNG, with a palette of 256 colours: a quarter of the size, and notebooks keep it."""
        from PIL import Image

        full = Image.open(io.BytesIO(self.render("png", dpi))).convert("RGB")
        buffer = io.BytesIO()
        full.quantize(256, kmeans=3, dither=Image.Dither.NONE).save(buffer, "png", optimize=True)
        return buffer.getvalue()

    def svg(self) -> str:
        return self.render("svg").decode()

    def render(self, form: str, dpi: int = DPI) -> bytes:
        """The picture in one of matplotlib's formats (svg, pdf, png); alike for the same program."""
        buffer = io.BytesIO()
        dates = {"png": "Software", "pdf": "CreationDate"}
        metadata: dict[str, Any] = {dates.get(form, "Date"): None}
        facecolor = self.figure.get_facecolor()
        self.figure.savefig(buffer, format=form, dpi=dpi, facecolor=facecolor, metadata=metadata)
        return buffer.getvalue()

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> tuple[dict[str, Any], dict[str, Any]]:
        """For IPython: the picture at its size in CSS pixels, and the text for where pictures cannot be shown."""
        width, height = self.figure.get_size_inches() * 96
        size = {"width": round(width), "height": round(height)}
        return {"image/png": self.png(), "text/plain": self.text}, {"image/png": size}
