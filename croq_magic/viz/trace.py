"""`trace`: who makes one element of an array, in which iterations, and from which elements of the inputs."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from croq_magic.compiler import ir
from croq_magic.compiler.access import Access, Mode
from croq_magic.errors import BindError
from croq_magic.viz import theme as themes
from croq_magic.viz.figure import Diagram
from croq_magic.viz.nest import statement_text
from croq_magic.viz.resolve import Resolver, Table
from croq_magic.viz.subject import COARSE, FINE, Subject, level_kind, linear_weights, subject
from croq_magic.viz.words import plural

SEARCH = "has more writers than are looked through"
INSTANCES = 64  # of the blocks and threads that write one element, as many are listed
POINTS = 1 << 16  # iterations of one element that are followed


def trace(fn: Any, output: Sequence[int], *, array: str | None = None, theme: str = "auto", **sizes: Any) -> Diagram:
    """Which block, thread and iterations make one element, and which elements of the inputs they read.

    `output` is the element's index, in the returned array or in the parameter or global array called `array`.
    `sizes` as in `tiling`. `.data` holds

    - `array`, `shape`, `index`;
    - `writes`: one dict per writing instance: `block` and `thread` (index values), `block_id`, `thread_id` (linear),
      `iterations` (arrays of index values, one entry a write), `count`, `statement`;
    - `reads`: per array, on-chip ones too: `storage`, `coords` (one row a read, in order), `iterations` (of the write
      that the read is for; arrays like `coords`), `low` and `high` (the box of all reads);
    - `loads`: copies that brought the data in: `source`, `target`, `storage`, `index` (values of the indices around the
      copy) and the source box of each in `low` and `high` (exclusive);
    - `intermediate`: arrays among `reads` that the function itself makes, where the trace stops;
    - `exact`, and `notes` on what is not.

    Reads of on-chip arrays are followed back to the global ones. Raises `BindError` for an index outside the array.
    """
    s = subject(fn, sizes)
    buffer = _array(s, array)
    shape = s.extents(buffer.shape)
    index = _index(s.function.name, buffer.name, output, shape)
    resolver = Resolver(s)
    writes: list[dict[str, Any]] = []
    chosen: dict[str, list[Any]] = {}
    exact = True
    for access in s.accesses.of(buffer):
        if not access.writes:
            continue
        r = s.relation(access, index)
        if not all(f.exact for f in r.factors):
            resolver.note(f"{access.buffer.name} {SEARCH}")
        access_points = r.points(POINTS)
        count = len(next(iter(access_points.values()), np.zeros(1)))
        if not r.count:
            continue
        if r.count > count:
            resolver.note("only a part of the writes of this element is followed")
        exact = exact and not r.notes
        resolver.found.notes += [n for n in r.notes if n not in resolver.found.notes]
        writes += _writes(access, access_points, r)
        before = {b: len(parts) for b, parts in resolver.found.reads.items()}
        resolver.follow(access, Table(access_points, np.arange(count)))
        for b, parts in resolver.found.reads.items():
            loops = [a.name for a in access.axes if a.kind == "loop"]
            for coords, origin in parts[before.get(b, 0) :]:
                chosen.setdefault(b.name, []).append((b, coords, {n: access_points[n][origin] for n in loops}))
    data = {
        "function": s.function.name,
        "array": buffer.name,
        "shape": shape,
        "index": index,
        "writes": writes,
        "reads": {name: _reads(s, parts) for name, parts in chosen.items()},
        "loads": _loads(resolver),
        "intermediate": _intermediate(s, buffer, chosen),
        "exact": exact and not resolver.found.notes,
        "notes": tuple(resolver.found.notes),
        "chunk": _block_chunk(s, buffer, writes),
    }
    from croq_magic.viz.trace_figure import draw

    return Diagram(
        f"trace of {s.function.name}", data, _text(data), lambda style: draw(data, style), themes.choose(theme)
    )


def _array(s: Subject, name: str | None) -> ir.Buffer:
    """The array that is traced: the returned one, or a written parameter, or the one asked for."""
    known = {a.buffer.name: a.buffer for a in s.accesses.items if a.buffer.storage is ir.Storage.GLOBAL}
    if name is not None:
        if name not in known:
            raise BindError(f"{s.function.name} has no global array {name!r} (it has {', '.join(known)})")
        return known[name]
    for statement in reversed(s.function.body):
        if isinstance(statement, ir.Return) and isinstance(statement.value, ir.View):
            return statement.value.buffer
    written = [p.buffer for p in s.function.params if p.buffer is not None and p.written]
    if not written:
        raise BindError(f"{s.function.name} returns no array: choose one with array=...")
    return written[0]


def _index(function: str, name: str, output: Sequence[int], shape: tuple[int, ...]) -> tuple[int, ...]:
    """The element's index, checked. An integer will do for an array of rank 1."""
    valid = ", ".join(f"0..{n - 1}" for n in shape)
    try:
        given: list[Any] = list(output)
    except TypeError:
        given = [output]
    try:
        index = tuple(operator.index(i) for i in given)
    except TypeError:
        raise BindError(f"{function}: {output!r} is no index of {name}: give integers in [{valid}]") from None
    if len(index) != len(shape) or not all(0 <= i < n for i, n in zip(index, shape, strict=True)):
        raise BindError(f"{function}: {name} has shape {shape}, so {index} is no index of it (valid: [{valid}])")
    return index


def _writes(access: Access, points: dict[str, Any], r: Any) -> list[dict[str, Any]]:
    """The points grouped by block and thread."""
    regions = [a for a in access.axes if a.kind == "region"]
    loops = [a.name for a in access.axes if a.kind == "loop"]
    count = len(next(iter(points.values()), np.zeros(1)))
    keys = np.stack([points[a.name] for a in regions], axis=1) if regions else np.zeros((count, 1), np.int64)
    instances, number = np.unique(keys, axis=0, return_inverse=True)
    result = []
    for i, values in enumerate(instances[:INSTANCES]):
        rows = np.flatnonzero(number.reshape(-1) == i)
        by_name = dict(zip((a.name for a in regions), (int(v) for v in values), strict=False))
        kinds: dict[str, dict[str, int]] = {"block": {}, "thread": {}}
        for a in regions:
            kinds["block" if level_kind(a.level) == "block" else "thread"][a.name] = by_name[a.name]
        result.append(
            {
                **kinds,
                "block_id": sum(w * by_name[n] for n, w in linear_weights(r, COARSE).items()),
                "thread_id": sum(w * by_name[n] for n, w in linear_weights(r, FINE).items()),
                "iterations": {n: points[n][rows] for n in loops},
                "count": len(rows),
                "mode": access.mode.value,
                "statement": statement_text(access.statement),
            }
        )
    return result


def _reads(s: Subject, parts: Sequence[Any]) -> dict[str, Any]:
    buffer = parts[0][0]
    coords = np.concatenate([c for _, c, _ in parts])
    names = [n for n in parts[0][2] if all(n in iterations for _, _, iterations in parts)]
    iterations = {n: np.concatenate([it[n] for _, _, it in parts]) for n in names}
    return {
        "storage": buffer.storage.value,
        "shape": s.extents(buffer.shape),
        "coords": coords,
        "iterations": iterations,
        "low": tuple(int(v) for v in coords.min(axis=0)),
        "high": tuple(int(v) + 1 for v in coords.max(axis=0)),
    }


def _loads(resolver: Resolver) -> list[dict[str, Any]]:
    result = []
    for (source, target), parts in resolver.found.loads.items():
        names = list(parts[0][0])
        index = {n: np.concatenate([p[0][n] for p in parts]) for n in names}
        low, high = (np.concatenate([p[i] for p in parts]) for i in (1, 2))
        table = np.column_stack([*(index[n] for n in names), low, high])
        _, first = np.unique(table, axis=0, return_index=True)
        result.append(
            {
                "source": source.name,
                "target": target.name,
                "storage": target.storage.value,
                "index": {n: v[first] for n, v in index.items()},
                "low": low[first],
                "high": high[first],
            }
        )
    return result


def _intermediate(s: Subject, traced: ir.Buffer, chosen: dict[str, list[Any]]) -> tuple[str, ...]:
    """Global arrays that the function declares, writes and reads on the way."""
    params = {p.buffer for p in s.function.params}
    buffers = [parts[0][0] for parts in chosen.values()]
    made = [b for b in buffers if b.storage is ir.Storage.GLOBAL and b not in params and b is not traced]
    return tuple(b.name for b in made)


def _block_chunk(s: Subject, buffer: ir.Buffer, writes: Sequence[dict[str, Any]]) -> Any:
    """The box of the array that the element's block writes: what its chunk looks like."""
    if not writes:
        return None
    access = next((a for a in s.accesses.of(buffer) if a.writes and a.mode is not Mode.ARGUMENT), None)
    block = writes[0]["block"]
    if access is None or not block:
        return None
    r = s.instance(access, block)
    low, high = [0] * len(r.shape), list(r.shape)
    for chunks in r.chunks(()):
        if not len(chunks.low):
            return None
        for place, d in enumerate(chunks.dims):
            low[d], high[d] = int(chunks.low[:, place].min()), int(chunks.high[:, place].max())
    return tuple(low), tuple(high)


# -------------------------------------------------------------------------------------------------------- text


def ranges(coords: np.ndarray) -> str:
    """`37, 0..15` for the values of each column; steps and gaps are told."""
    return ", ".join(_range(np.unique(column)) for column in coords.T)


def _range(values: np.ndarray) -> str:
    if not len(values):
        return "none"
    first, last = int(values[0]), int(values[-1])
    if len(values) == 1:
        return f"{first}"
    steps = np.unique(np.diff(values))
    if len(steps) == 1:
        return f"{first}..{last}" + (f" step {steps[0]}" if steps[0] != 1 else "")
    return f"{len(values)} of {first}..{last}"


def box_text(low: Sequence[int], high: Sequence[int]) -> str:
    return ", ".join(f"{a}" if b - a == 1 else f"{a}..{b - 1}" for a, b in zip(low, high, strict=True))


def values_text(values: dict[str, int]) -> str:
    return ", ".join(f"{n}={v}" for n, v in values.items())


def write_text(w: dict[str, Any]) -> str:
    """`block px=2, py=3 (number 26), thread qx=5, qy=2 (number 37)`."""
    parts = []
    for kind in ("block", "thread"):
        if w[kind]:
            number = f" (number {w[kind + '_id']:,})" if len(w[kind]) > 1 else ""
            parts.append(f"{kind} {values_text(w[kind])}{number}")
    return ", ".join(parts) or "the host"


def unwritten_text(data: dict[str, Any]) -> str:
    if any(note.endswith(SEARCH) for note in data["notes"]):
        return "no write of this element was found"
    return "no statement writes this element: it keeps the value it has at the start"


def iterations_text(w: dict[str, Any]) -> str:
    loops = ", ".join(f"{n} = {_range(np.unique(v))}" for n, v in w["iterations"].items())
    return f"{plural(w['count'], 'time')}" + (f": {loops}" if loops else "")


def _text(data: dict[str, Any]) -> str:
    place = ", ".join(map(str, data["index"]))
    lines = [f"trace of {data['function']}: {data['array']}[{place}]", ""]
    for w in data["writes"][:4]:
        lines.append(f"made by {write_text(w)}, {iterations_text(w)}")
        lines.append(f"    {w['statement']}")
    if len(data["writes"]) > 4:
        lines.append(f"and by {plural(len(data['writes']) - 4, 'other instance')}")
    if not data["writes"]:
        lines.append(unwritten_text(data))
    for load in data["loads"]:
        count = len(load["low"])
        lines.append(f"{load['source']} is copied to {load['storage']} {load['target']} {plural(count, 'time')}:")
        for i in [*range(min(count, 2)), *([count - 1] if count > 2 else [])]:
            where = values_text({n: int(v[i]) for n, v in load["index"].items()})
            if i == count - 1 and count > 3:
                lines.append("    ...")
            lines.append(f"    {where or 'once'}: {load['source']}[{box_text(load['low'][i], load['high'][i])}]")
    for name, r in data["reads"].items():
        kind = "reads" if r["storage"] == "global" else f"reads from {r['storage']}"
        distinct = len(np.unique(r["coords"], axis=0))
        lines.append(f"{kind} {name}[{ranges(r['coords'])}]: {plural(distinct, 'element')}")
    lines += [f'{n} is made by this function too: array="{n}" traces it' for n in data["intermediate"]]
    lines += [f"not exact: {note}" for note in data["notes"]]
    return "\n".join(lines)
