"""Program, and what all makers use."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

import numpy as np

TYPES: dict[str, Any] = {
    "s8": np.int8,
    "s16": np.int16,
    "s32": np.int32,
    "s64": np.int64,
    "u8": np.uint8,
    "u16": np.uint16,
    "u32": np.uint32,
    "u64": np.uint64,
    "f16": np.float16,
    "f32": np.float32,
    "f64": np.float64,
}
SIZES = (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 15, 16, 17, 19, 24, 31)
Array = np.ndarray


@dataclass(frozen=True)
class Program:
    """A function `params -> result` with the body `body`, which fills `r`."""

    kind: str
    params: str
    result: str
    body: str
    inputs: tuple[Array, ...]
    expected: Array

    def source(self, name: str) -> str:
        return f"__co__ {self.result} {name}({self.params}) {{\n  {self.result} r;\n  {self.body}\n  return r;\n}}\n"


def listed(items: Iterable[object]) -> str:
    return ", ".join(map(str, items))


def random_shape(r: Random, rank: int, largest: int = 13) -> list[int]:
    return [r.choice([size for size in SIZES if size <= largest]) for _ in range(rank)]


def divisor(r: Random, n: int) -> int:
    return r.choice([k for k in range(1, n + 1) if n % k == 0])


def data(r: Random, shape: Sequence[int], dtype: str = "s32") -> Array:
    low, high = {"s": (-40, 41), "u": (0, 90), "f": (-8, 9)}[dtype[0]]
    return np.random.default_rng(r.randrange(2**32)).integers(low, high, tuple(shape)).astype(TYPES[dtype])


def composed(outer: Sequence[str], inner: Sequence[str]) -> str:
    return listed(f"{a}#{b}" for a, b in zip(outer, inner, strict=True))


def tile_of(r: Random, base: str, names: Sequence[str], counts: Sequence[int], extents: Sequence[int]) -> str:
    """The tile of `base` at the indices `names`, in one of its spellings."""
    origin = listed(f"{name}*{extent}" for name, extent in zip(names, extents, strict=True))
    return r.choice(
        [
            f"{base}.chunkat({listed(names)})",
            f"{base}.chunk({listed(counts)}).at({listed(names)})",
            f"{base}.subspan({listed(extents)}).at({listed(names)})",
            f"{base}.view({listed(extents)}).from({origin})",
        ]
    )


def program(kind: str, inputs: dict[str, Array], expected: Array, body: str, dtype: str = "s32") -> Program:
    params = listed(f"{dtype} [{listed(array.shape)}] {name}" for name, array in inputs.items())
    expected = np.ascontiguousarray(expected)
    return Program(kind, params, f"{dtype} [{listed(expected.shape)}]", body, tuple(inputs.values()), expected)


def part(v: Array, origin: Sequence[int], extents: Sequence[int]) -> Array:
    return v[tuple(slice(o, o + e) for o, e in zip(origin, extents, strict=True))]
