"""Storage is not filled when what comes next stores every element.

A fragment declared with a value and then written in an `apply`, a tile set to zero and then loaded: on a processor the
fill would be a pass over the tile of its own.
"""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from croq_magic.compiler import ir
from croq_magic.compiler.passes.base import Context
from croq_magic.compiler.passes.drop_zeroing import overwrites
from croq_magic.compiler.passes.structure import map_kernels, with_bodies
from croq_magic.compiler.visit import walk


@dataclasses.dataclass(frozen=True)
class DropFills:
    """For storage inside a block; `drop-zeroing` does the same for fresh global buffers."""

    name: ClassVar[str] = "drop-fills"

    def __call__(self, function: ir.Function, context: Context) -> ir.Function:
        return map_kernels(function, _region)


def _region(root: ir.Region) -> ir.Region:
    body = _body(root.body)
    return root if body is root.body else dataclasses.replace(root, body=body)


def _body(body: ir.Body) -> ir.Body:
    out: list[ir.Stmt] = []
    for position, s in enumerate(body):
        buffer = _filled(s)
        if buffer is None or not _overwritten(body[position + 1 :], buffer):
            out.append(with_bodies(s, _body))
        elif isinstance(s, ir.Declare):
            out.append(dataclasses.replace(s, init=None))
    return body if len(out) == len(body) and all(a is b for a, b in zip(out, body, strict=True)) else tuple(out)


def _filled(s: ir.Stmt) -> ir.Buffer | None:
    """The storage of a block that a statement fills with one value, and does nothing else."""
    if isinstance(s, ir.Declare):
        buffer, value = s.buffer, s.init
    elif isinstance(s, ir.SpanOp) and isinstance(s.value, ir.Expr) and not s.op and _is_whole(s.view):
        buffer, value = s.view.buffer, s.value
    else:
        return None
    if value is None or buffer.storage is ir.Storage.GLOBAL or buffer.slots:
        return None
    return buffer if not any(isinstance(n, (ir.Load, ir.Binary)) for n in walk(value)) else None


def _is_whole(view: ir.View) -> bool:
    """Whether a view is of every element of its buffer."""
    return not view.slot and not view.checks and view.map == view.coords and view.extents == view.buffer.shape


def _overwritten(rest: ir.Body, buffer: ir.Buffer) -> bool:
    for s in rest:
        if any(node is buffer for node in walk(s)):
            return overwrites(s, buffer)
    return False
