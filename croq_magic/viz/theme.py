"""Colours and text sizes of the diagrams.

Owners of one kind share a hue and differ in luminance, so pictures survive greyscale and every kind of colour vision:
blue for blocks, orange for threads, grey for iterations (hues after Okabe and Ito, "Color Universal Design", 2008).
The card is opaque, so that a figure is legible on any page; `dark` is for dark pages.
"""

from __future__ import annotations

import dataclasses

RGB = tuple[float, float, float]


@dataclasses.dataclass(frozen=True)
class Theme:
    """Colours as hex; `ramps` give the first and last colour of an owner kind, in order of the owner's number."""

    name: str
    card: str
    ink: str
    soft: str
    line: str
    accent: str
    empty: str
    ramps: dict[str, tuple[str, str]]

    def owner(self, kind: str, position: float, shift: float = 0.0) -> RGB:
        """Colour of the owner at `position` in 0..1 among its kind, lightened or darkened by `shift`."""
        first, last = (_rgb(c) for c in self.ramps.get(kind, self.ramps["iteration"]))
        mixed = [a + (b - a) * position + shift for a, b in zip(first, last, strict=True)]
        return (_clip(mixed[0]), _clip(mixed[1]), _clip(mixed[2]))

    def on(self, background: RGB) -> str:
        """Text colour that can be read on `background`."""
        return max("#101418", "#ffffff", key=lambda colour: contrast(colour, background))


def luminance(colour: RGB | str) -> float:
    """Relative luminance (WCAG 2): 0 for black, 1 for white."""
    channels = _rgb(colour) if isinstance(colour, str) else colour
    red, green, blue = (c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in channels)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(a: RGB | str, b: RGB | str) -> float:
    """Contrast ratio (WCAG 2), 1 to 21."""
    high, low = sorted((luminance(a), luminance(b)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def _rgb(colour: str) -> RGB:
    red, green, blue = (int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5))
    return red, green, blue


def _clip(v: float) -> float:
    return min(max(v, 0.0), 1.0)


LIGHT = Theme(
    "light",
    card="#ffffff",
    ink="#1c2126",
    soft="#59626b",
    line="#8b949e",
    accent="#b3261e",
    empty="#f0f1f3",
    ramps={
        "block": ("#d6e9f8", "#0b4f86"),
        "thread": ("#fdebcf", "#a65300"),
        "group": ("#d3efe6", "#00634a"),
        "iteration": ("#eceaf2", "#5a5470"),
    },
)
DARK = Theme(
    "dark",
    card="#15181c",
    ink="#e9edf1",
    soft="#a3adb8",
    line="#6b757f",
    accent="#ff8a7a",
    empty="#23282e",
    ramps={
        "block": ("#123a5c", "#a8d6f9"),
        "thread": ("#5c3206", "#ffd08a"),
        "group": ("#074434", "#9fe3cd"),
        "iteration": ("#38344a", "#d3cde6"),
    },
)
TITLE, NORMAL, SMALL = 9.5, 8.0, 7.0  # points

_standing = LIGHT


def set_default(name: str) -> None:
    """Makes "light" or "dark" what "auto" stands for from now on."""
    global _standing
    _standing = choose(name)


def choose(name: str) -> Theme:
    """ "light" and "dark" as they say; "auto" is light unless `set_default` has said otherwise.

    A page does not tell its own theme; the opaque card keeps a light figure legible on a dark page too.
    """
    themes = {"light": LIGHT, "auto": _standing, "dark": DARK}
    if name not in themes:
        raise ValueError(f'theme must be "light", "dark" or "auto", not {name!r}')
    return themes[name]
