"""Loop nests over all elements of an array: element-wise programs and permutations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import numpy as np

from .base import Program, data, divisor, listed, program, random_shape


def nest(r: Random, shape: Sequence[int]) -> tuple[str, str, list[str]]:
    """A random nest whose instances are the elements of `shape`: its head, its closing braces, the index of each
    dimension."""
    kinds = r.choice(
        [["par"], ["par", "par"], ["par", "for"], ["for"], ["par", "with"], ["comma"], ["par", "for", "for"]]
    )
    levels = r.choice([("", ""), (": block", ": thread")]) if kinds.count("par") == 2 else (r.choice(["", ": block"]),)
    heads = [] if kinds[0] in ("par", "comma") else ["parallel by 1 {"]
    parts: list[list[str]] = [[] for _ in shape]
    left = list(shape)
    for number, kind in enumerate(kinds):
        factors = [n if number == len(kinds) - 1 else divisor(r, n) for n in left]
        left = [n // f for n, f in zip(left, factors, strict=True)]
        names = [f"i{number}_{position}" for position in range(len(shape))]
        order = r.sample(range(len(shape)), len(shape))
        if kind == "par":
            heads.append(f"parallel {{{listed(names[:3])}}} by [{listed(factors[:3])}] {levels[number]} {{")
            if len(shape) > 3:
                heads.append(f"foreach {{{listed(names[3:])}}} in [{listed(factors[3:])}] {{")
        elif kind == "comma":
            heads.append(f"parallel {listed(f'{n} by {f}' for n, f in list(zip(names, factors, strict=True))[:2])} {{")
            if len(shape) > 2:
                heads.append(f"foreach {{{listed(names[2:])}}} in [{listed(factors[2:])}] {{")
        elif kind == "for":
            ranges = listed(f"{names[k]} in {factors[k]}" for k in order)
            tuples = f"{{{listed(names)}}} in [{listed(factors)}]"
            heads.append(f"foreach {r.choice([ranges, tuples, f't{number} = {tuples}'])} {{")
        else:
            heads.append(
                f"with {{{listed(names)}}} in [{listed(factors)}] {{ foreach {listed(names[k] for k in order)} {{"
            )
        for part, name in zip(parts, names, strict=True):
            part.append(name)
    head = " ".join(heads)
    opened = head.count("{") - head.count("}")
    return head, "}" * opened, ["#".join(part) for part in parts]


def _wrapped(v: Any) -> Any:
    return np.asarray(v).astype(np.int64).astype(np.int32).astype(np.int64)


def _expression(r: Random, leaves: list[tuple[str, Any]], depth: int) -> tuple[str, Any]:
    """An s32 expression and its value, kept in 64 bits."""
    if depth == 0 or r.random() < 0.2:
        number = r.randint(0, 9)
        return (str(number), np.int64(number)) if r.random() < 0.25 else r.choice(leaves)
    (a, x), (b, y) = (_expression(r, leaves, depth - 1) for _ in range(2))
    forms: list[tuple[str, Callable[[], Any]]] = [
        (f"({a} + {b})", lambda: _wrapped(x + y)),
        (f"({a} - {b})", lambda: _wrapped(x - y)),
        (f"({a} * {b})", lambda: _wrapped(x * y)),
        (f"({a} < {b} ? {a} : {b})", lambda: np.minimum(x, y)),
        (f"__max({a}, {b})", lambda: np.maximum(x, y)),
        (f"({a} >> 2)", lambda: x >> 2),
        (f"(({a}) & ({b}))", lambda: x & y),
        (f"({a} % 7)", lambda: np.fmod(x, 7)),
        (f"({a} / 3)", lambda: np.sign(x) * (np.abs(x) // 3)),
        (f"(-({a}))", lambda: _wrapped(-x)),
    ]
    text, value = r.choice(forms)
    return text, value()


def elementwise(r: Random) -> Program:
    """An expression of elements at, opposite to and rotated from the current index, and of the index itself."""
    shape = random_shape(r, r.randint(1, 4))
    x, y = data(r, shape), data(r, shape)
    head, tail, index = nest(r, shape)
    shifts = [r.randint(0, 5) for _ in shape]
    opposite = listed(f"{n - 1} - ({i})" for i, n in zip(index, shape, strict=True))
    rotated = listed(f"(({i}) + {k}) % {n}" for i, k, n in zip(index, shifts, shape, strict=True))
    leaves = [
        (f"x.at({listed(index)})", x.astype(np.int64)),
        (f"y.at({listed(index)})", y.astype(np.int64)),
        (f"x.at({opposite})", np.flip(x).astype(np.int64)),
        (f"y.at({rotated})", np.roll(y, [-k for k in shifts], tuple(range(len(shape)))).astype(np.int64)),
        *((f"({i})", grid) for i, grid in zip(index, np.indices(shape).astype(np.int64), strict=True)),
    ]
    text, value = _expression(r, leaves, r.randint(1, 4))
    expected = np.broadcast_to(value, shape).astype(np.int32)
    body = f"{head} r.at({listed(index)}) {r.choice(['=', '+='])} {text}; {tail}"
    return program("elementwise", {"x": x, "y": y}, expected, body)


def permute(r: Random) -> Program:
    shape = random_shape(r, r.randint(2, 4))
    x = data(r, shape)
    head, tail, index = nest(r, shape)
    order = r.sample(range(len(shape)), len(shape))
    body = f"{head} r.at({listed(index[k] for k in order)}) = x.at({listed(index)}); {tail}"
    return program("permute", {"x": x}, x.transpose(order), body)
