"""`mapping`: the loop nest of a function, and the hardware levels its parts run on."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

from croq_magic.compiler import ir
from croq_magic.compiler.visit import walk
from croq_magic.viz import nest
from croq_magic.viz import theme as themes
from croq_magic.viz.figure import Diagram
from croq_magic.viz.subject import COARSE, Subject, subject
from croq_magic.viz.words import plural, tuple_text

WARP = 32


def mapping(fn: Any, *, theme: str = "auto", **sizes: Any) -> Diagram:
    """The loop nest of a function beside the hardware levels it is mapped to, with counts.

    `sizes` as in `tiling`. `.data` holds

    - `lines`: one dict a line of the nest: `text`, `depth`, `kind`, `level` (host, block, group, thread), `indices`,
      `extents`, `count` (how often it is entered in all; None when data decide), `end` (last line of its body);
    - `launches`: for each `parallel` nest its `levels` (level, indices, extents, count), `blocks`, `threads` (of one
      block), `warps` (of one block, of 32 threads), `total` threads, and `shared` bytes of one block;
    - `traffic`: elements read and written per array as the program says it, before any optimisation, with the array's
      `storage`; `passed` counts elements handed to C++ functions.
    """
    s = subject(fn, sizes)
    numbered = nest.lines(s)
    data = {
        "function": s.function.name,
        "lines": [dataclasses.asdict(line) for line in numbered],
        "launches": [_launch(s, launch) for launch in s.function.launches()],
        "traffic": traffic(s),
    }
    from croq_magic.viz.mapping_figure import draw

    return Diagram(
        f"mapping of {s.function.name}", data, _text(data), lambda style: draw(data, style), themes.choose(theme)
    )


def _launch(s: Subject, launch: ir.Launch) -> dict[str, Any]:
    levels: list[dict[str, Any]] = []
    _levels(s, launch.kernel.region, levels)
    lanes = {"group": WARP, "group-4": 4 * WARP}.get(levels[-1]["level"])
    if lanes:
        extra = {"level": "thread", "kind": "thread", "indices": (), "extents": (lanes,), "count": lanes}
        levels.append(extra | {"implied": True})
    blocks = math.prod(level["count"] for level in levels if level["kind"] == "block")
    fine = [level for level in levels if level["kind"] != "block"]
    threads = math.prod(level["count"] for level in fine)
    declared = [n.buffer for n in walk(launch.kernel.region) if isinstance(n, ir.Declare)]
    shared = [b for b in dict.fromkeys(declared) if b.storage is ir.Storage.SHARED]
    return {
        "kernel": launch.kernel.name,
        "levels": levels,
        "blocks": blocks,
        "threads": threads,
        "warps": -(-threads // WARP),
        "total": blocks * threads,
        "shared": sum(math.prod((*s.extents(b.shape), *b.slots)) * b.dtype.size for b in shared),
    }


def _levels(s: Subject, region: ir.Region, levels: list[dict[str, Any]]) -> None:
    """The levels of a nest, outermost first. Of several inner nests of one block the largest counts: they share the
    block's threads."""
    extents = s.extents(region.extents)
    level = region.level or ir.Level.BLOCK
    levels.append(
        {
            "level": level.value,
            "kind": "block" if level in COARSE else "thread" if level is ir.Level.THREAD else "group",
            "indices": tuple(v.name for v in region.indices),
            "extents": extents,
            "count": math.prod(extents),
            "implied": region.implied,
        }
    )
    inner: list[list[dict[str, Any]]] = []
    for child in _inner(region.body):
        found: list[dict[str, Any]] = []
        _levels(s, child, found)
        inner.append(found)
    if inner:
        levels += max(inner, key=lambda found: math.prod(level["count"] for level in found))


def _inner(body: ir.Body) -> list[ir.Region]:
    """Regions directly inside a body, those in loops and conditions included."""
    found: list[ir.Region] = []
    stack: list[ir.Node] = list(body)
    while stack:
        node = stack.pop(0)
        if isinstance(node, ir.Region):
            found.append(node)
        elif isinstance(node, ir.If):
            stack = [*node.then, *node.other, *stack]
        elif isinstance(node, ir.For | ir.While | ir.Scope | ir.Masked | ir.Apply):
            stack = [*node.body, *stack]
    return found


def traffic(s: Subject) -> dict[str, dict[str, Any]]:
    """Elements read, written and passed to C++ functions, per array, counted as the program is written."""
    counts: dict[str, dict[str, Any]] = {}
    for access in s.accesses.items:
        empty = {"storage": access.buffer.storage.value, "read": 0, "written": 0, "passed": 0, "exact": True}
        entry = counts.setdefault(access.buffer.name, empty)
        r = s.relation(access)
        if access.role == "argument":
            entry["passed"] += r.count
        else:
            entry["read"] += r.count if access.reads else 0
            entry["written"] += r.count if access.writes else 0
        entry["exact"] = entry["exact"] and r.exact
    return counts


# -------------------------------------------------------------------------------------------------------- text


def launch_text(launch: dict[str, Any]) -> str:
    """`128 blocks × 256 threads = 32,768 threads`."""
    blocks, threads = plural(launch["blocks"], "block"), plural(launch["threads"], "thread")
    return f"{blocks} × {threads} = {plural(launch['total'], 'thread')}"


def line_note(line: dict[str, Any]) -> str:
    """What stands beside a line: how many instances or iterations it makes."""
    total = math.prod(line["extents"]) if line["extents"] else 0
    if line["kind"] == "parallel":
        place = {"block": "", "thread": " a block", "group": " a block"}[line["level"]]
        unit = line["text"].rsplit(": ", 1)[1]
        unit = {"group": "warp", "group-4": "warpgroup"}.get(unit, unit)
        shape = f" ({tuple_text(line['extents'])})" if len(line["extents"]) > 1 else ""
        return f"{plural(total, unit)}{place}{shape}"
    if line["kind"] == "foreach":
        return f"{plural(total, 'step')}, in order" if line["extents"] else "steps, in order"
    if line["kind"] in ("dma", "call", "compute") and line["level"] != "host":
        once = f"in each {line['level'].replace('group', 'warp')}"
        return once if line["count"] is None else f"{once}, {line['count']:,} × in all"
    return "host" if line["kind"] == "function" else ""


def _text(data: dict[str, Any]) -> str:
    out = [f"mapping of {data['function']}", ""]
    rows = [("  " * line["depth"] + line["text"], line_note(line)) for line in data["lines"]]
    width = max(len(left) for left, _ in rows)
    out += [f"{left:<{width}}  {note}".rstrip() for left, note in rows]
    for launch in data["launches"]:
        memory = f", {launch['shared']:,} bytes of shared memory a block" if launch["shared"] else ""
        out += ["", f"{launch['kernel']}: {launch_text(launch)}{memory}"]
    out += ["", "elements, as the program is written:"]
    for name, t in data["traffic"].items():
        words = [f"{t[key]:,} {key}" for key in ("read", "written", "passed") if t[key]]
        out.append(f"  {t['storage']} {name}: {', '.join(words) or 'none'}" + ("" if t["exact"] else " (about)"))
    return "\n".join(out)
