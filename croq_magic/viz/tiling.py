"""`tiling`: how the arrays of a function are cut into chunks, and who touches which."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from functools import reduce
from typing import Any

import numpy as np

from croq_magic.compiler import ir
from croq_magic.compiler.access import Access
from croq_magic.compiler.relation import NOBODY, SEVERAL, Chunks, Factor, Relation
from croq_magic.viz import theme as themes
from croq_magic.viz.figure import Diagram
from croq_magic.viz.subject import COARSE, FINE, Level, Subject, linear_weights, subject
from croq_magic.viz.words import instances_text, level_text, plural

LISTED = 1 << 16  # chunks that `data` lists one by one
MAPPED = 1 << 18  # elements of an array up to which `data` maps each to its owner
SELECTION = "the chunks are those of a selection of the instances"
SEGMENTED = 1 << 20  # elements of a dimension up to which its segments are found one by one


def tiling(fn: Any, *, theme: str = "auto", **sizes: Any) -> Diagram:
    """Every array of a function with its chunks and their owners.

    `sizes` gives symbolic dimensions: `M=128`, or arrays (or shapes) by parameter name. `.data["arrays"][name]` holds

    - `shape`, `dtype`, `storage`, and `use`, what the function does with the array;
    - `levels`, coarse to fine: `kind` (block, group, thread, iteration), the `indices` that choose a chunk (all of the
      levels before included); `sharing`, per kind the other indices, with extents, whose instances touch the same
      chunk; `grid` (chunks per dimension), `chunk` (extents of one), `count`, `ragged`, `dense`; `exact`, False where
      these come from a selection of the instances (`count` is then an upper bound); `several`, the number of elements
      that lie in several chunks (None if there are no owner maps); and one row per chunk in `low` and `high`
      (exclusive), with the indices' values in `index` (None for more than 65,536 chunks); and, where the chunks form a
      grid, per dimension its `segments`: `low`, `high` and `index` values of each, their `count`, and `excerpt`, True
      where a large dimension lists a selection, the first and last few always in it;
    - `nobody`: the number of elements that the function leaves alone (None where that is not known);
    - `instances`: how many there are of an on-chip array (one per block or thread), 1 for global ones;
    - `owner`: for `block` and `thread` the linear id per element (-1: nobody, -2: several), and the same for each
      single index (None for arrays of more than 262,144 elements);
    - `exact`, and `notes` on what is not.

    Raises `BindError` for a dimension that is missing or below 1.
    """
    s = subject(fn, sizes)
    arrays: dict[str, Any] = {}
    for buffer in _buffers(s):
        group = _defining(s.accesses.of(buffer))
        if group:
            arrays[_free_name(buffer.name, arrays)] = _array(s, buffer, group)
    data = {"function": s.function.name, "arrays": arrays}
    from croq_magic.viz.tiling_figure import draw

    return Diagram(
        f"tiling of {s.function.name}", data, _text(data), lambda style: draw(data, style), themes.choose(theme)
    )


def _free_name(name: str, taken: dict[str, Any]) -> str:
    if name not in taken:
        return name
    return next(f"{name} ({i})" for i in range(2, len(taken) + 3) if f"{name} ({i})" not in taken)


def _buffers(s: Subject) -> list[ir.Buffer]:
    """Parameters first, then what the function declares, in order."""
    params = [p.buffer for p in s.function.params if p.buffer is not None]
    touched = [a.buffer for a in s.accesses.items]
    rest = sorted({b: None for b in touched if b not in params}, key=lambda b: b.storage is not ir.Storage.GLOBAL)
    return [*params, *rest]


def _defining(accesses: Sequence[Access]) -> list[Access]:
    """The accesses that show how an array is cut: writes of global arrays, else reads; transfers before elements."""
    globally = bool(accesses) and accesses[0].buffer.storage is ir.Storage.GLOBAL
    wanted = (lambda a: a.role != "argument" and a.writes) if globally else (lambda a: a.role != "argument" and a.reads)
    for choice in (wanted, lambda a: a.role != "argument", lambda a: True):
        found = [a for a in accesses if choice(a)]
        if found:
            copies = [a for a in found if a.role.startswith("copy")]
            first = (copies or found)[0]
            same = [a for a in found if a.role == first.role and _axes(a) == _axes(first)]
            return same or [first]
    return []


def _axes(a: Access) -> tuple[str, ...]:
    return tuple(axis.name for axis in a.axes if axis.kind != "element")


def _array(s: Subject, buffer: ir.Buffer, group: Sequence[Access]) -> dict[str, Any]:
    relations = [s.relation(a) for a in group]
    first = relations[0]
    levels: list[dict[str, Any]] = []
    fixed: list[str] = []
    for level in s.levels(first):
        fixed += [name for name in level.moving if name not in fixed]
        if level.moving or not levels:
            levels.append(_level(relations, level, tuple(fixed)))
        if level.sharing:
            levels[-1]["sharing"].setdefault(level.kind, {}).update(level.sharing)
    owner = _owners(relations, fixed)
    for level_data in levels:
        maps = [owner[name] for name in level_data["indices"]]
        known = bool(maps) and not any(m is None for m in maps)
        level_data["several"] = int(np.any([m == SEVERAL for m in maps], axis=0).sum()) if known else None
    exact = all(f.exact for r in relations for f in r.factors) and all(level["exact"] for level in levels)
    notes = [note for r in relations for note in r.notes] + ([] if exact else [SELECTION])
    some = next((m for m in owner.values() if m is not None), None)
    return {
        "shape": first.shape,
        "dtype": buffer.dtype.name,
        "storage": buffer.storage.value,
        "use": _use(group[0]),
        "instances": math.prod(s.extents((axis.stop,))[0] for axis in s.apart(buffer).values()),
        "levels": levels,
        "owner": owner,
        "nobody": _untouched(relations) if some is None else int((some == NOBODY).sum()),
        "exact": not notes,
        "notes": tuple(dict.fromkeys(notes)),
    }


def _untouched(relations: Sequence[Relation]) -> int | None:
    return relations[0].untouched if len(relations) == 1 else None


def _use(a: Access) -> str:
    if a.role == "copy source":
        assert isinstance(a.statement, ir.Copy)
        target = a.statement.dst.buffer
        return f"copied to {target.storage.value} {target.name}"
    if a.role == "copy destination":
        assert isinstance(a.statement, ir.Copy)
        source = a.statement.src.buffer
        return f"copied from {source.storage.value} {source.name}"
    if a.role == "argument":
        assert isinstance(a.statement, ir.Call)
        return f"passed to {a.statement.function}"
    if a.role == "mma":
        return "used by mma" if a.reads else "written by mma"
    how = "as a whole" if a.role == "span" else "by element"
    return {"read": "read", "write": "written", "update": "accumulated"}[a.mode.value] + f" {how}"


def _level(relations: Sequence[Relation], level: Level, fixed: tuple[str, ...]) -> dict[str, Any]:
    parts = [r.chunks(fixed) for r in relations]
    merged = parts[0]
    for other in parts[1:]:
        merged = tuple(_union(a, b) for a, b in zip(merged, other, strict=False))
    rank = len(relations[0].shape)
    count = math.prod(c.count for c in merged)
    out: dict[str, Any] = {"kind": level.kind, "indices": fixed, "sharing": {}, "count": count}
    out["exact"] = all(c.exact for c in merged)
    separable = sorted(d for c in merged for d in c.dims) == list(range(rank)) and all(len(c.dims) == 1 for c in merged)
    segments = [_segments(relations, d, fixed) for d in range(rank)] if separable else None
    out["segments"] = segments
    out["grid"] = tuple(seg["count"] for seg in segments) if segments else None
    if count > LISTED or math.prod(len(c.low) for c in merged) != count:
        out |= {"index": None, "low": None, "high": None}
    else:
        out |= _listed(merged, rank)
    sizes = [c.high - c.low for c in merged]
    chunk = [0] * rank
    for c, size in zip(merged, sizes, strict=True):
        for place, d in enumerate(c.dims):
            chunk[d] = int(size[:, place].max()) if len(size) else 0
    out["chunk"] = tuple(chunk)
    out["ragged"] = any(len(size) > 1 and bool((size != size[0]).any()) for size in sizes)
    out["dense"] = len(relations) > 1 or all(c.dense for c in merged)
    return out


def _union(a: Chunks, b: Chunks) -> Chunks:
    """Boxes that hold what two accesses of the same instance touch, for the instances that both list."""
    if a.dims != b.dims or a.index.keys() != b.index.keys():
        return a
    if any(not np.array_equal(v, b.index[n]) for n, v in a.index.items()):
        count = max(a.count, b.count)
        keys = [np.stack([*c.index.values()], axis=1) for c in (a, b)]
        _, number = np.unique(np.concatenate(keys), axis=0, return_inverse=True)
        first, second = np.split(number.reshape(-1), [len(keys[0])])
        _, rows, others = np.intersect1d(first, second, assume_unique=True, return_indices=True)
        if not len(rows):
            return a
        a, b = _rows(a, rows, count), _rows(b, others, count)
    return dataclasses.replace(a, low=np.minimum(a.low, b.low), high=np.maximum(a.high, b.high))


def _rows(c: Chunks, rows: Any, count: int) -> Chunks:
    index = {n: v[rows] for n, v in c.index.items()}
    return Chunks(c.dims, index, c.low[rows], c.high[rows], c.elements[rows], count, c.exact)


def _listed(parts: Sequence[Any], rank: int) -> dict[str, Any]:
    sizes = [len(c.low) for c in parts]
    rows = np.indices(sizes).reshape(len(sizes), -1)
    low, high = (np.zeros((rows.shape[1], rank), np.int64) for _ in range(2))
    index: dict[str, Any] = {}
    for c, row in zip(parts, rows, strict=True):
        for place, d in enumerate(c.dims):
            low[:, d], high[:, d] = c.low[row, place], c.high[row, place]
        index.update({name: v[row] for name, v in c.index.items()})
    return {"index": index, "low": low, "high": high}


def _segments(relations: Sequence[Relation], dim: int, fixed: Sequence[str]) -> dict[str, Any]:
    """Runs of coordinates in one dimension that belong to the same owner.

    `low`, `high`; `state` is 0, NOBODY or SEVERAL; `index` holds the values of the axes that move in this dimension.
    """
    r = relations[0]
    factors = [next(f for f in one.factors if dim in f.coords) for one in relations]
    factor = factors[0]
    names = [name for name in fixed if name in factor.points]
    extent = r.shape[dim]
    if not all(f.complete for f in factors) or extent > SEGMENTED:
        return _thinned(r, factor, dim, names)
    owner = reduce(_both, (_owner(f, dim, names, extent)[0] for f in factors))
    _, row = _owner(factor, dim, names, extent)
    start = np.flatnonzero(np.r_[True, owner[1:] != owner[:-1]])
    state = np.where(owner[start] < 0, owner[start], 0)
    known = np.maximum(row[start], 0)
    index = {name: np.where(state == 0, factor.points[name][known], -1) for name in names}
    high = np.r_[start[1:], extent]
    return {"low": start, "high": high, "state": state, "index": index, "count": len(start), "excerpt": False}


def _thinned(r: Relation, factor: Factor, dim: int, names: Sequence[str]) -> dict[str, Any]:
    chunks = next(c for c in r.chunks(names) if c.dims == (dim,))
    order = np.argsort(chunks.low[:, 0], kind="stable")
    low, high = chunks.low[order, 0], np.minimum(chunks.high[order, 0], r.shape[dim])
    index = {name: v[order] for name, v in chunks.index.items()}
    state = np.zeros(len(low), int)
    return {"low": low, "high": high, "state": state, "index": index, "count": chunks.count, "excerpt": True}


def _owner(f: Factor, dim: int, names: Sequence[str], extent: int) -> tuple[Any, Any]:
    """Key of the owner of each coordinate (or its state), and a row of the table that touches it."""
    coords, key = f.coords[dim], f.key(names)
    rows = np.flatnonzero((coords >= 0) & (coords < extent))
    coords = coords[rows]
    row = np.full(extent, -1)
    row[coords] = rows
    owner = np.where(row >= 0, key[row] if len(key) else NOBODY, NOBODY)
    owner[coords[key[rows] != owner[coords]]] = SEVERAL
    return owner, row


def _both(a: Any, b: Any) -> Any:
    return np.where(a == b, a, np.where(a == NOBODY, b, np.where(b == NOBODY, a, SEVERAL)))


def _owners(relations: Sequence[Relation], names: Sequence[str]) -> dict[str, Any]:
    owner: dict[str, Any] = {}
    choices = {
        "block": linear_weights(relations[0], COARSE),
        "thread": linear_weights(relations[0], FINE),
        **{name: {name: 1} for name in names},
    }
    for key, weights in choices.items():
        maps = [r.owners(weights, MAPPED) for r in relations] if weights else [None]
        owner[key] = None if any(m is None for m in maps) else reduce(_both, maps)
    return owner


def _text(data: dict[str, Any]) -> str:
    lines = [f"tiling of {data['function']}"]
    for name, a in data["arrays"].items():
        shape = ", ".join(f"{n}" for n in a["shape"])
        lines += ["", f"{name}: {a['storage']} {a['dtype']} [{shape}], {a['use']}{instances_text(a)}"]
        lines += [f"  {level_text(level, i, a['levels'])}" for i, level in enumerate(a["levels"])]
        if not a["levels"]:
            lines.append("  not cut")
        if a["nobody"]:
            lines.append(f"  {plural(a['nobody'], 'element')} left alone")
        lines += [f"  not exact: {note}" for note in a["notes"]]
    return "\n".join(lines)
