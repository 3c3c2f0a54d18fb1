"""Diagrams of tileflow functions, computed from the access maps of the tile IR.

    viz.tiling(fn)                       every array with its chunks and who owns them
    viz.mapping(fn)                      the loop nest and the hardware levels it runs on
    viz.trace(fn, output=(37, 50))       who makes one element, and what of the inputs it is made of

Each takes, where the function has symbolic dimensions, their values or the arrays: `viz.tiling(fn, M=128)` or
`viz.tiling(fn, lhs=lhs, rhs=rhs)`; and `theme="light"` or `"dark"`. Each returns a `Diagram`, which a notebook shows
as a picture; `.figure` is the matplotlib figure, `.data` what it shows as arrays and plain values, `.text` the same in
words. matplotlib is loaded when a picture is drawn, and its pyplot state is not touched.
"""

from __future__ import annotations

from croq_magic.viz.figure import Diagram
from croq_magic.viz.mapping import mapping
from croq_magic.viz.tiling import tiling
from croq_magic.viz.trace import trace

__all__ = ["Diagram", "mapping", "tiling", "trace"]
