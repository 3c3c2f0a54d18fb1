"""Says what the fibers of a region do together: statements of a block or group that one of them runs for all.

Inside a region whose instances have stacks of their own (`choose-strategy`), a copy into shared storage, whole-span
arithmetic on it and a statement on fragments are carried out once by the instances that reach it: they become `once`.
An `inthreads` with joins becomes one without, between barriers. What is finer than the region needs no meeting.
"""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from croq_magic.compiler import ir
from croq_magic.compiler.passes.base import Context
from croq_magic.compiler.passes.joins import fragment_owner, is_collective
from croq_magic.compiler.passes.structure import map_kernels, map_regions, with_bodies

Level = ir.Level


@dataclasses.dataclass(frozen=True)
class FormMeetings:
    """After it `Once` and `Barrier` are the only statements in which fibers meet; every `Masked` is asynchronous."""

    name: ClassVar[str] = "form-meetings"

    def __call__(self, function: ir.Function, context: Context) -> ir.Function:
        return map_kernels(function, _outside)


def _outside(region: ir.Region) -> ir.Region:
    """A region of loops: those of fibers inside it are looked for."""
    if region.fibers:
        return dataclasses.replace(region, body=_body(region.body, region))
    body = map_regions(region.body, _outside)
    return region if body is region.body else dataclasses.replace(region, body=body)


def _body(body: ir.Body, region: ir.Region) -> ir.Body:
    out: list[ir.Stmt] = []
    for s in body:
        for new in _statement(s, region):
            _append(out, new)
    return tuple(out)


def _statement(s: ir.Stmt, region: ir.Region) -> ir.Body:
    assert region.level is not None
    if isinstance(s, ir.Wait):
        return ()  # a copy is complete when it is issued, and those who see it met there
    if isinstance(s, ir.Barrier):
        return (s,) if s.scope.depth < region.level.depth else ()
    if isinstance(s, ir.Region):
        return (_outside(s),)
    if is_collective(s) and region.level.depth > Level.BLOCK.depth:
        return (ir.Once(Level.BLOCK, (s,), s.span),)
    owner = fragment_owner(s)
    if owner is not None and owner.depth < region.level.depth:
        return (ir.Once(owner, (s,), s.span),)
    if owner is not None:
        return (s,)
    inside = with_bodies(s, lambda inner: _body(inner, region))
    if isinstance(inside, ir.Masked) and not inside.is_async:
        join = ir.Barrier(Level.BLOCK, "inthreads", span=s.span)
        return join, dataclasses.replace(inside, is_async=True), join
    return (inside,)


def _append(out: list[ir.Stmt], s: ir.Stmt) -> None:
    """Adds a statement; neighbours that meet in the same unit meet once."""
    last = out[-1] if out else None
    if isinstance(last, ir.Once) and isinstance(s, ir.Once) and last.scope is s.scope:
        out[-1] = dataclasses.replace(last, body=(*last.body, *s.body))
    elif isinstance(last, ir.Once) and isinstance(s, ir.Barrier) and s.reason and last.scope.depth <= s.scope.depth:
        pass
    else:
        if isinstance(s, ir.Once):
            while out and isinstance(b := out[-1], ir.Barrier) and b.reason and s.scope.depth <= b.scope.depth:
                out.pop()
        out.append(s)
