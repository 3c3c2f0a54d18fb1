"""A launch whose blocks meet becomes launches, for devices that do not promise to run all blocks at the same time.

`split_grid.py` cuts the region of blocks at barriers of the grid; what lives on from one phase to the next is kept once
for every instance. Here each phase becomes a launch, loops around barriers become loops of the host, and what is kept
lies in global memory:

    launch ring {                                       register kept: s32 [8]   global now
      region block [b < 8] cooperative {                launch ring { region block [b < 8] { ... kept[b] = k } }
        k = x[b] * 2                             =>     for n in 0..3 {
        for n in 0..3 {                                   launch ring { region block [b < 8] { ... kept[b] } }
          barrier block                                 }
          ...
"""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from croq_magic.compiler import ir
from croq_magic.compiler.passes.base import Context
from croq_magic.compiler.passes.split_grid import split_grid
from croq_magic.compiler.visit import rewrite, walk


@dataclasses.dataclass(frozen=True)
class PhaseLaunches:
    """Takes the barriers of the grid away where what stands around them can be done by the host."""

    name: ClassVar[str] = "phase-launches"

    def __call__(self, function: ir.Function, context: Context) -> ir.Function:
        taken = {node.name for node in walk(function.body) if isinstance(node, (ir.Var, ir.Buffer))}

        def change(node: ir.Node) -> ir.Body | None:
            return _launches(node, taken) if isinstance(node, ir.Launch) else None

        body: ir.Body = rewrite(function.body, change)
        return function if body is function.body else dataclasses.replace(function, body=body)


def _launches(launch: ir.Launch, taken: set[str]) -> ir.Body | None:
    names = set(taken)
    root = split_grid(launch.kernel.region, names)
    if root is None:
        return None
    kept: dict[ir.Buffer, ir.Buffer] = {}
    done = _of_host(launch, root.body, kept)
    if done is None:
        return None
    taken |= names

    def in_memory(node: ir.Node) -> ir.Node | None:
        if isinstance(node, ir.View) and node.buffer in kept:
            return dataclasses.replace(node, buffer=kept[node.buffer])
        if isinstance(node, ir.Declare) and node.buffer in kept:
            return dataclasses.replace(node, buffer=kept[node.buffer])
        return None

    moved: ir.Body = rewrite(done, in_memory)
    return moved


def _of_host(launch: ir.Launch, body: ir.Body, kept: dict[ir.Buffer, ir.Buffer]) -> ir.Body | None:
    """Phases and what stands between them as statements of the host; None if the host cannot do it."""
    out: list[ir.Stmt] = []
    for s in body:
        if isinstance(s, ir.Region) and s.level is ir.Level.BLOCK and s.fibers is None:
            attributes = dataclasses.replace(s.attributes, cooperative=False)
            region = dataclasses.replace(s, attributes=attributes)
            out.append(dataclasses.replace(launch, kernel=dataclasses.replace(launch.kernel, region=region)))
        elif isinstance(s, ir.Declare) and s.buffer.storage is not ir.Storage.GLOBAL and not s.buffer.slots:
            kept[s.buffer] = dataclasses.replace(s.buffer, storage=ir.Storage.GLOBAL)
            out.append(s)
        elif isinstance(s, ir.For) and not _loads(s.start, s.stop):
            inner = _of_host(launch, s.body, kept)
            if inner is None:
                return None
            out.append(dataclasses.replace(s, body=inner))
        elif isinstance(s, ir.If) and not _loads(s.condition):
            then, other = _of_host(launch, s.then, kept), _of_host(launch, s.other, kept)
            if then is None or other is None:
                return None
            out.append(dataclasses.replace(s, then=then, other=other))
        else:
            return None
    return tuple(out)


def _loads(*values: ir.Expr) -> bool:
    return any(isinstance(node, ir.Load) for value in values for node in walk(value))
