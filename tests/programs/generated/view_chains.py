"""Chains of views as sources of transfers."""

from __future__ import annotations

from random import Random

import numpy as np

from .base import TYPES, Array, Program, data, divisor, listed, part, program, random_shape


def _view_step(r: Random, v: Array, number: int) -> tuple[str, Array, list[tuple[str, int]]] | None:
    """One more view operation on `v`: its text, the new array, and the bounded variables it needs."""
    extents = v.shape
    tile = [r.randint(1, d) for d in extents]
    kind = r.choice(["chunk", "chunkat", "subspan", "step", "view", "sqz", "modspan", "span_as"])
    if kind == "chunk":
        index = [r.randrange(n) for n in tile]
        size = [d // n for d, n in zip(extents, tile, strict=True)]
        return (
            f".chunk({listed(tile)}).at({listed(index)})",
            part(v, [i * s for i, s in zip(index, size, strict=True)], size),
            [],
        )
    if kind == "chunkat":
        args, origin, size, names = [], [], [], []
        for position, (d, n) in enumerate(zip(extents, tile, strict=True)):
            value = r.randrange(n)
            whole = r.random() < 0.3
            args.append("_" if whole else f"c{number}_{position}({value})")
            origin.append(0 if whole else value * (d // n))
            size.append(d if whole else d // n)
            names += [] if whole else [(f"c{number}_{position}", n)]
        return f".chunkat({listed(args)})", part(v, origin, size), names
    if kind == "subspan":
        index = [r.randrange(d // e) for d, e in zip(extents, tile, strict=True)]
        written = ["_" if e == d and r.random() < 0.5 else e for e, d in zip(tile, extents, strict=True)]
        origin = [i * e for i, e in zip(index, tile, strict=True)]
        return f".subspan({listed(written)}).at({listed(index)})", part(v, origin, tile), []
    if kind == "step":
        steps = [r.randint(1, d) for d in extents]
        index = [r.randint(0, (d - e) // s) for d, e, s in zip(extents, tile, steps, strict=True)]
        origin = [i * s for i, s in zip(index, steps, strict=True)]
        return f".subspan({listed(tile)}).step({listed(steps)}).at({listed(index)})", part(v, origin, tile), []
    if kind in ("view", "sqz"):
        tile = [1 if kind == "sqz" and r.random() < 0.4 else e for e in tile]
        origin = [r.randint(0, d - e) for d, e in zip(extents, tile, strict=True)]
        window = part(v, origin, tile)
        text = f".view({listed(tile)}).from({listed(origin)})"
        if kind == "view":
            return text, window, []
        kept = [axis for axis, d in enumerate(window.shape) if d != 1] or [window.ndim - 1]
        return f"{text}.sqz()", window[tuple(slice(None) if axis in kept else 0 for axis in range(window.ndim))], []
    if kind == "modspan":
        if any(d % e == 0 for d, e in zip(extents, tile, strict=True)):
            return None
        rest = [d % e for d, e in zip(extents, tile, strict=True)]
        return f".modspan({listed(tile)})", part(v, [d - k for d, k in zip(extents, rest, strict=True)], rest), []
    if not v.flags.c_contiguous:
        return None
    factors, left = [], v.size
    for _ in range(r.randint(0, 2)):
        factors.append(divisor(r, left))
        left //= factors[-1]
    factors.append(left)
    r.shuffle(factors)
    return f".span_as({r.choice(['{}', '[{}]']).format(listed(factors))})", v.reshape(factors), []


def view_chain(r: Random) -> Program:
    """A chain of views, partly named, as the source of some transfer."""
    dtype = r.choice(list(TYPES))
    x = data(r, random_shape(r, r.randint(1, 4)), dtype)
    v, text, names, lines = x, "x", [], ""
    for number in range(r.randint(1, 4)):
        step = _view_step(r, v, number)
        if step is None:
            continue
        text, v, names = text + step[0], step[1], names + step[2]
        if r.random() < 0.3:
            lines += f"v{number} = {text}; "
            text = f"v{number}"
    body, expected = _transfer(r, text, v, dtype)
    inner = lines + body
    for name, extent in names:
        inner = f"with {name} in {extent} {{ {inner} }}"
    return program("view_chain", {"x": x}, expected, f"parallel by 1 : block {{ {inner} }}", dtype)


def _transfer(r: Random, text: str, v: Array, dtype: str) -> tuple[str, Array]:
    """Statements that bring the view `text` into `r`, and what they make of `v`."""
    word = r.choice(["local", "shared"])
    kind = r.choice(["direct", "staged", "async", "pad", "transp", "larger", "elements"])
    if kind == "direct":
        return f"dma.copy {text} => r;", v
    if kind == "staged":
        return f"a = dma.copy {text} => {word}; dma.copy a => r;", v
    if kind == "async":
        return f"a = dma.copy.async {text} => shared; wait a; dma.copy a.data => r;", v
    if kind == "pad":
        low, high = [r.randint(0, 2) for _ in v.shape], [r.randint(0, 2) for _ in v.shape]
        value = f"{r.randint(0, 9)}" + (".0" if dtype[0] == "f" else "")
        zeros = listed(0 for _ in v.shape)
        config = f"<{{{listed(low)}}}, {{{listed(high)}}}, {{{zeros}}}, {value}>"
        padded = np.pad(v, list(zip(low, high, strict=True)), constant_values=TYPES[dtype](float(value)))
        return f"a = dma.pad{config} {text} => {word}; dma.copy a => r;", padded
    if kind == "transp":
        order = list(range(v.ndim))
        r.shuffle(order)
        config = f"dma.transp<{listed(order)}> {text}"
        return r.choice([f"a = {config} => {word}; dma.copy a => r;", f"{config} => r;"]), v.transpose(order)
    if kind == "larger":
        extents = [d + r.randint(0, 3) for d in v.shape]
        padded = np.pad(v, [(0, e - d) for e, d in zip(extents, v.shape, strict=True)])
        copy = r.choice(["dma.copy", "dma.copy.zfill"])
        return f"{word} {dtype} [{listed(extents)}] big; {copy} {text} => big; dma.copy big => r;", padded
    return f"w = {text}; foreach e in w.span r.at(e) = w.at(e);", v
