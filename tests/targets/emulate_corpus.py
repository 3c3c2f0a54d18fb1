"""Kernels in one text, each under a line that says what the emulator must find in it, and how it is launched.

    // KIND NAME [GRID, BLOCK] shared=BYTES cooperative seed=NUMBER

The lines of the finding are those marked `//!`; `//= f` means the lines of a function that are marked `//? f`. Kernels
have the parameters (int* a, int* b, float* f, int n): 1024 elements each, a and f counting up from 0, b zeros; n is 64.
"""

from __future__ import annotations

import ctypes
import functools
import re
from pathlib import Path
from typing import NamedTuple

import numpy as np

from croq_magic.compiler.targets.emulate import build, kernels
from croq_magic.compiler.targets.emulate.runtime import runtime

_HEAD = re.compile(r"^// (?P<kind>[a-z ]+?) (?P<name>\w+) \[(?P<grid>\d+), (?P<block>\d+)\](?P<rest>.*)$")
N, ELEMENTS = 64, 1024


class Planted(NamedTuple):
    kind: str
    name: str
    grid: int
    block: int
    shared: int
    cooperative: bool
    seed: int
    lines: frozenset[int]


class Values(NamedTuple):
    a: np.ndarray
    b: np.ndarray
    f: np.ndarray


@functools.cache
def corpus(path: Path) -> tuple[str, dict[str, Planted]]:
    """The text of a file and its kernels."""
    text = path.read_text()
    lines = text.split("\n")
    marks: dict[str, set[int]] = {}
    for number, line in enumerate(lines, 1):
        if mark := re.search(r"//\? (\w+)$", line):
            marks.setdefault(mark[1], set()).add(number)
    heads = [(number, head) for number, line in enumerate(lines, 1) if (head := _HEAD.match(line))]
    found = {}
    for (number, head), end in zip(heads, [*(n for n, _ in heads[1:]), len(lines) + 1], strict=True):
        wanted: set[int] = set()
        for at in range(number, end):
            if lines[at - 1].endswith("//!"):
                wanted.add(at)
            if mark := re.search(r"//= (\w+)$", lines[at - 1]):
                wanted |= marks[mark[1]]
        rest = head["rest"]
        number_of = {key: int(value) for key, value in re.findall(r"(\w+)=(\d+)", rest)}
        found[head["name"]] = Planted(
            head["kind"],
            head["name"],
            int(head["grid"]),
            int(head["block"]),
            number_of.get("shared", 0),
            "cooperative" in rest,
            number_of.get("seed", 0),
            frozenset(wanted),
        )
    return text, found


def run(path: Path, name: str, seed: int | None = None, checked: bool = True) -> tuple[kernels.Outcome, Values]:
    """Runs one kernel of a corpus; the library is built once for all of them."""
    text, entries = corpus(path)
    entry = entries[name]
    library = _library(text, tuple(entries), checked)
    device = runtime()
    values = Values(
        np.arange(ELEMENTS, dtype=np.int32),
        np.zeros(ELEMENTS, np.int32),
        np.arange(ELEMENTS, dtype=np.float32),
    )
    places = [device.allocate(value.nbytes) for value in values]
    try:
        for place, value in zip(places, values, strict=True):
            ctypes.memmove(place, value.ctypes.data, value.nbytes)
        outcome = kernels.launch(
            library,
            name,
            (entry.grid, 1, 1),
            (entry.block, 1, 1),
            [*places, N],
            entry.shared,
            seed=entry.seed if seed is None else seed,
            cooperative=entry.cooperative,
        )
        for place, value in zip(places, values, strict=True):
            ctypes.memmove(value.ctypes.data, place, value.nbytes)
        return outcome, values
    finally:
        for place in places:
            device.release(place)


@functools.cache
def _library(text: str, names: tuple[str, ...], checked: bool) -> build.Library:
    return build.library(text, names, "corpus", checked)
