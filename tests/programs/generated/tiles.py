"""Tiles: copies, matrix products, stencils, reductions."""

from __future__ import annotations

import math
from random import Random
from typing import Any

import numpy as np

from .base import Program, composed, data, divisor, listed, part, program, random_shape, tile_of


def tiles(r: Random) -> Program:
    """Every tile reversed, through shared or local storage, by loops or by threads."""
    shape = random_shape(r, r.randint(1, 3), 17)
    counts = [divisor(r, n) for n in shape]
    extents = [n // k for n, k in zip(shape, counts, strict=True)]
    dtype = r.choice(["s32", "s16", "f32", "f64", "u8", "s64", "f16"])
    x = data(r, shape, dtype)
    outer = [f"b{k}" for k in range(len(shape))]
    inner = [f"t{k}" for k in range(len(shape))]
    opposite = listed(f"{n - 1} - {name}" for n, name in zip(extents, inner, strict=True))
    threads = math.prod(extents) <= 1024 and r.random() < 0.5
    word = "shared" if threads else r.choice(["shared", "local"])
    each = f"{{{listed(inner)}}}"
    loop = f"parallel {each} by s.span : thread" if threads else f"foreach {each} in [{listed(extents)}]"
    if r.random() < 0.5:
        work = f"{loop} r.at({composed(outer, inner)}) = s.data.at({opposite});"
    else:
        target = tile_of(r, "r", outer, counts, extents)
        work = (
            f"{word} {dtype} [s.span] o; {loop} o.at({opposite}) = s.data.at({listed(inner)}); dma.copy o => {target};"
        )
    copy = f"s = dma.copy {tile_of(r, 'x', outer, counts, extents)} => {word};"
    around = r.choice(
        ["parallel {names} by [{counts}] : block {{", "parallel by 1 : block {{ foreach {names} in [{counts}] {{"]
    )
    head = around.format(names=f"{{{listed(outer)}}}", counts=listed(counts))
    body = f"{head} {copy} {work} {'}' * (1 if head.startswith('parallel {') else 2)}"
    split = x.reshape([n for pair in zip(counts, extents, strict=True) for n in pair])
    return program("tiles", {"x": x}, np.flip(split, tuple(range(1, split.ndim, 2))).reshape(shape), body, dtype)


def matrix_product(r: Random) -> Program:
    m, n, k = random_shape(r, 3, 17)
    rows, columns, steps = (divisor(r, size) for size in (m, n, k))
    dtype = r.choice(["s32", "u32", "s64", "f32", "f64"])
    a, b = data(r, [m, k], dtype), data(r, [k, n], dtype)
    em, en, ek = m // rows, n // columns, k // steps
    blocks = r.choice([f"{{px, py}} by [{rows}, {columns}]", f"{{py, px}} by [{columns}, {rows}]"])
    threads = r.choice([f"{{qx, qy}} by [{em}, {en}]", f"{{qy, qx}} by [{en}, {em}]"])
    loads = "la = dma.copy a.chunkat(px, tk) => shared; lb = dma.copy b.chunkat(tk, py) => shared;"
    product = "la.data.at(qx, k) * lb.data.at(k, qy)"
    body = r.choice(
        [
            f"parallel {blocks} : block {{ foreach tk in [{steps}] {{ {loads} parallel {threads} : thread"
            f" {{ foreach k in [{k} / #tk] r.at(px#qx, py#qy) += {product}; }} }} }}",
            f"parallel {blocks} : block, {threads} : thread {{ mutable {dtype} s = 0; foreach k in {k}"
            f" s += a.at(px#qx, k) * b.at(k, py#qy); r.at(px#qx, py#qy) = s; }}",
            f"parallel {blocks} : block {{ shared {dtype} [{em}, {en}] acc {{0}}; foreach tk in {steps} {{ {loads}"
            f" parallel {threads} : thread foreach k in {ek} acc.at(qx, qy) += {product}; }}"
            f" dma.copy acc => r.chunkat(px, py); }}",
        ]
    )
    return program("matrix_product", {"a": a, "b": b}, a @ b, body, dtype)


def stencil(r: Random) -> Program:
    """A weighted sum of neighbours, from the array itself or from a tile with a halo."""
    shape = random_shape(r, r.randint(1, 2), 24)
    halo = r.randint(1, 2)
    counts = [divisor(r, n) for n in shape]
    extents = [n // k for n, k in zip(shape, counts, strict=True)]
    x = data(r, [n + 2 * halo for n in shape])
    outer = [f"b{k}" for k in range(len(shape))]
    inner = [f"t{k}" for k in range(len(shape))]
    offsets = [[r.randint(0, 2 * halo) for _ in shape] for _ in range(r.randint(2, 5))]
    weights = [r.randint(-3, 3) for _ in offsets]
    threads = math.prod(extents) <= 1024 and r.random() < 0.5
    word = r.choice(["shared", "array"] if threads else ["shared", "local", "array"])

    def read(offset: list[int]) -> str:
        names = [f"{b}#{t}" for b, t in zip(outer, inner, strict=True)] if word == "array" else inner
        index = listed(f"{name} + {k}" for name, k in zip(names, offset, strict=True))
        return f"{'x' if word == 'array' else 's.data'}.at({index})"

    total = " + ".join(f"{w} * {read(offset)}" for w, offset in zip(weights, offsets, strict=True))
    origin = listed(f"{b}*{e}" for b, e in zip(outer, extents, strict=True))
    window = f"s = dma.copy x.view({listed(e + 2 * halo for e in extents)}).from({origin}) => {word};"
    each = f"{{{listed(inner)}}}"
    loop = f"parallel {each} by [{listed(extents)}] : thread" if threads else f"foreach {each} in [{listed(extents)}]"
    body = (
        f"parallel {{{listed(outer)}}} by [{listed(counts)}] : block {{ {'' if word == 'array' else window}"
        f" {loop} r.at({composed(outer, inner)}) = {total}; }}"
    )
    expected = sum(np.int32(w) * part(x, offset, shape) for w, offset in zip(weights, offsets, strict=True))
    return program("stencil", {"x": x}, np.asarray(expected, np.int32), body)


def reduction(r: Random) -> Program:
    """Sum, maximum or minimum over one dimension: by loops on the device or the host, or by atomics."""
    shape = random_shape(r, r.randint(1, 3), 17)
    x = data(r, shape)
    axis = r.randrange(len(shape))
    count = shape[axis]
    rest = [n for k, n in enumerate(shape) if k != axis] or [1]
    names = [f"i{k}" for k in range(len(shape))]
    out = [name for k, name in enumerate(names) if k != axis] or ["z"]
    op, reduce = r.choice([("add", np.add), ("max", np.maximum), ("min", np.minimum)])
    element = f"x.at({listed(names)})"
    update = {
        "add": f"m += {element};",
        "max": f"m = __max(m, {element});",
        "min": f"if ({element} < m) m = {element};",
    }
    at_start = listed("0" if k == axis else name for k, name in enumerate(names))
    start = "0" if op == "add" else f"x.at({at_start})"
    name = names[axis]
    loop = r.choice(
        [
            f"foreach {name} in {count} {update[op]}",
            f"with {name} in {count} {{ foreach {name}({'' if op == 'add' else '1'}:) {update[op]} }}",
            f"mutable int w = 0; while (w < {count}) {{ {update[op].replace(name, 'w')} w += 1; }}",
        ]
    )
    by = f"{{{listed(out)}}} by [{listed(rest)}]"
    if r.random() < 0.3:
        body = f"parallel {by} : block, {name} by {count} : thread __atomic_{op}(r.at({listed(out)}), {element});"
        initial: Any = 0
    else:
        head = r.choice([f"parallel {by}", f"parallel {by} : block", f"foreach {{{listed(out)}}} in [{listed(rest)}]"])
        body = f"{head} {{ mutable s32 m = {start}; {loop} r.at({listed(out)}) = m; }}"
        initial = 0 if op == "add" else None
    if initial is None:
        expected = reduce.reduce(x, axis)
    else:
        expected = reduce.reduce(x, axis, initial=initial)
    return program("reduction", {"x": x}, np.asarray(expected).reshape(rest).astype(np.int32), body)
