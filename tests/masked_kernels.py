"""Kernels whose `inthreads` select threads in every way, with statements that the selected threads carry out together.

What a kernel computes follows from the language reference: those who are selected meet around copies into shared
storage, fills and whole-span arithmetic (execution model, sections 3, 6.3 and 8.1). `expected` says it in NumPy.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from random import Random

import numpy as np

SIZE = 96  # elements of a tile
TURNS = 4

Value = Callable[[np.ndarray, np.ndarray], np.ndarray]  # of x and the numbers of the threads that store a result


@dataclasses.dataclass(frozen=True)
class Levels:
    """The levels inside a block, the number of their threads, and the number of a thread in the block."""

    text: str
    threads: int
    number: str
    unit: int = 0
    rows: int = 1

    def selected(self, predicate: str) -> np.ndarray:
        """Whether each thread satisfies a predicate."""
        number = np.arange(self.threads)
        unit = self.unit or self.threads
        text = predicate.replace("&&", ") & (").replace("||", ") | (").replace("!(", "~(")
        names = {"t": number % unit, "w": number // unit, "g": number // unit}
        names |= {"i": number % (self.threads // self.rows), "j": number // (self.threads // self.rows)}
        return np.broadcast_to(eval(f"({text})", {}, names), number.shape)


FLAT = Levels("t by 128 : thread", 128, "t")
LONG = Levels("t by 256 : thread", 256, "t")
WARPS = Levels("w by 4 : group, t by 32 : thread", 128, "(w * 32 + t)", 32)
FOURS = Levels("g by 2 : group-4, t by 128 : thread", 256, "(g * 128 + t)", 128)
PLANE = Levels("{i, j} by [16, 8] : thread", 128, "(j * 16 + i)", rows=8)

SELECTIONS = {
    # a part of a warp, one warp, several, a warpgroup, all, sets that are no whole warps or not neighbours
    FLAT: (
        *("t < 16", "t >= 5 && t < 9", "t == 77", "t < 32", "t >= 96", "t < 64", "t >= 32 && t < 96", "t < 128"),
        *("t < 40", "t >= 20 && t < 70", "t % 2 == 0", "!(t == 7)", "t < 32 || t >= 96", "t % 64 < 32"),
    ),
    LONG: ("t < 128", "t >= 128", "t >= 64 && t < 192", "t < 100"),
    WARPS: (
        *("w == 2", "w < 2", "w >= 1", "w >= 1 && w < 3", "!(w == 1)", "w < 4"),
        *("t < 16", "w == 1 && t < 16", "w < 3 && t < 20", "w == 3 || t == 0", "t % 2 == 0"),
    ),
    FOURS: ("g == 1", "g < 2", "g == 0 && t < 64", "t < 64", "g == 1 && t < 40", "t == 5", "t < 32"),
    PLANE: ("j < 4", "j < 2", "j >= 6", "i < 8", "j == 3 && i >= 4", "i == 0", "j < 8"),
}


@dataclasses.dataclass(frozen=True)
class Kind:
    """What the selected threads do. In `body`, NUM is the number of a thread, FAR the place of another one's element,
    INNER the predicate that selects again."""

    body: str
    value: Value


def _far(n: np.ndarray) -> np.ndarray:
    return (n * 7 + 5) % SIZE


def _gathered(x: np.ndarray, n: np.ndarray) -> np.ndarray:
    tile = np.full(SIZE, 4)
    own = n[n < SIZE]
    tile[own] = x[1][own] * 2
    return tile[_far(n)]


def _turned(x: np.ndarray, n: np.ndarray) -> np.ndarray:
    found = np.zeros(len(n), np.int64)
    for k in range(TURNS):
        found = found * 3 + x[k][_far(n)]
    return found


KINDS = {
    "copy": Kind(
        "u = dma.copy x.subspan(1, SIZE).at(1, 0) => shared; r.at(NUM) = u.data.at(0, FAR);", lambda x, n: x[1][_far(n)]
    ),
    "landed": Kind(
        "u = dma.copy.async x.subspan(1, SIZE).at(1, 0) => shared; wait u; r.at(NUM) = u.data.at(0, FAR);",
        lambda x, n: x[1][_far(n)],
    ),
    "gather": Kind(
        "shared s32 [SIZE] s {4}; if (NUM < SIZE) s.at(NUM) = x.at(1, NUM) * 2; dma.copy s => o;"
        " r.at(NUM) = o.at(FAR);",
        _gathered,
    ),
    "span": Kind(
        "u = dma.copy x.subspan(1, SIZE).at(1, 0) => shared; v = u.data; v *= 3; r.at(NUM) = u.data.at(0, FAR); v += 1;"
        " r.at(NUM) += u.data.at(0, FAR);",
        lambda x, n: x[1][_far(n)] * 6 + 1,
    ),
    "turns": Kind(
        "r.at(NUM) = 0; foreach k in TURNS { u = dma.copy x.chunkat(k, _) => shared;"
        " r.at(NUM) = r.at(NUM) * 3 + u.data.at(0, FAR); }",
        _turned,
    ),
    "ahead": Kind(
        """r.at(NUM) = 0;
        with k in TURNS {
          cur = dma.copy.async x.chunkat(k, _) => shared;
          nxt = dma.any;
          foreach k(1:) {
            nxt = dma.copy.async x.chunkat(k, _) => shared;
            wait cur;
            r.at(NUM) = r.at(NUM) * 3 + cur.data.at(0, FAR);
            swap(cur, nxt);
          }
          wait cur;
          r.at(NUM) = r.at(NUM) * 3 + cur.data.at(0, FAR);
        }""",
        _turned,
    ),
}
NESTED = Kind(
    "u = dma.copy x.subspan(1, SIZE).at(0, 0) => shared; r.at(NUM) = u.data.at(0, FAR);"
    " inthreads (INNER) { v = dma.copy x.subspan(1, SIZE).at(1, 0) => shared; r.at(NUM) += v.data.at(0, FAR) * 5; }"
    " inthreads (INNER) { z = dma.copy x.subspan(1, SIZE).at(2, 0) => shared; r.at(NUM) += z.data.at(0, FAR) * 7; }",
    lambda x, n: x[0][_far(n)],
)


@dataclasses.dataclass(frozen=True)
class Masked:
    """A function `s32 [TURNS, SIZE] -> s32 [threads]`; its result is zero where nobody is selected."""

    name: str
    levels: Levels
    predicates: tuple[str, ...]  # of regions after each other, each with the kind of its place
    kinds: tuple[Kind, ...]
    joined: bool = False  # without `.async`
    inner: str = ""

    def source(self) -> str:
        n = self.levels.number
        parts = []
        for place, (predicate, kind) in enumerate(zip(self.predicates, self.kinds, strict=True)):
            word = "inthreads" if self.joined else "inthreads.async"
            body = kind.body.replace("NUM", n).replace("FAR", f"(({n} * 7 + 5) % SIZE)").replace("INNER", self.inner)
            body = body.replace("=> o;", f"=> o{place};").replace(" o.at", f" o{place}.at")
            parts.append(f"    {word} ({predicate}) {{\n      {body}\n    }}")
        outside = "".join(f"  s32 [SIZE] o{place};\n" for place in range(len(self.kinds)))
        text = f"""__co__ s32 [{self.levels.threads}] {self.name}(s32 [TURNS, SIZE] x) {{
  s32 [{self.levels.threads}] r {{0}};
{outside}  parallel b by 1 : block, {self.levels.text} {{
{chr(10).join(parts)}
  }}
  return r;
}}"""
        return text.replace("SIZE", str(SIZE)).replace("TURNS", str(TURNS))

    def expected(self, x: np.ndarray) -> np.ndarray:
        result = np.zeros(self.levels.threads, np.int64)
        for predicate, kind in zip(self.predicates, self.kinds, strict=True):
            chosen = np.flatnonzero(self.levels.selected(predicate))
            result[chosen] = kind.value(x.astype(np.int64), chosen)
            if kind is NESTED:
                again = np.flatnonzero(self.levels.selected(predicate) & self.levels.selected(self.inner))
                result[again] += x[1][_far(again)] * 5 + x[2][_far(again)] * 7
        return result.astype(np.int32)


def random_masked(random: Random, name: str) -> Masked:
    """A kernel with one to three regions after each other, whose threads may overlap where they join."""
    levels = random.choice(list(SELECTIONS))
    kinds = [*KINDS.values(), *([NESTED] if levels is not PLANE else [])]
    joined = random.random() < 0.5
    count = random.randint(1, 3)
    predicates = [random_predicate(random, levels)]
    free = ~levels.selected(predicates[0])
    while len(predicates) < count:
        predicate = random_predicate(random, levels)
        chosen = levels.selected(predicate)
        if not joined and np.any(chosen & ~free):
            count -= 1
            continue
        free &= ~chosen
        predicates.append(predicate)
    return Masked(
        name,
        levels,
        tuple(predicates),
        tuple(random.choices(kinds, k=len(predicates))),
        joined,
        random_predicate(random, levels),
    )


def random_predicate(random: Random, levels: Levels) -> str:
    axes = {FLAT: {"t": 128}, LONG: {"t": 256}, WARPS: {"w": 4, "t": 32}, FOURS: {"g": 2, "t": 128}}
    extents = axes.get(levels, {"i": 16, "j": 8})

    def one() -> str:
        name = random.choice(list(extents))
        extent = extents[name]
        value = random.choice([random.randrange(extent), extent // 2, extent // 4])
        kind = random.randrange(5)
        if kind == 0:
            return f"{name} == {value}"
        if kind == 1:
            return f"{name} % {random.choice([2, 3, 4])} == {random.randrange(2)}"
        if kind == 2:
            return f"!({name} == {value})"
        return f"{name} {random.choice(['<', '>=', '<=', '>'])} {value}"

    return random.choice([one, one, lambda: f"{one()} && {one()}", lambda: f"{one()} || {one()}"])()
