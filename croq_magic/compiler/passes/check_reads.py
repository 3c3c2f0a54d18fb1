"""Warns about shared and local storage that is read before anything can have been stored into it (STO08).

Reads and writes are compared in program order, by buffer. A write that comes later counts only if a loop leads from it
back to the read and the declaration is not executed again on the way. Kernels with concurrent roles are left alone.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import ClassVar

from croq_magic.compiler import ir
from croq_magic.compiler.passes.base import Context
from croq_magic.compiler.passes.structure import bodies
from croq_magic.compiler.source import Span
from croq_magic.compiler.visit import walk

_PRIVATE = (ir.Storage.SHARED, ir.Storage.LOCAL)


@dataclasses.dataclass(frozen=True)
class CheckReads:
    """Reports; the function stays as it is."""

    name: ClassVar[str] = "check-reads"

    def __call__(self, function: ir.Function, context: Context) -> ir.Function:
        for launch in function.launches():
            nodes = list(walk(launch.kernel.region))
            if not any(isinstance(node, ir.Masked) and node.is_async for node in nodes):
                _Reads(context).check(launch.kernel.region)
        return function


@dataclasses.dataclass(frozen=True)
class _Touch:
    """One read or write in program order, and the loops around it."""

    buffer: ir.Buffer
    writes: bool
    loops: tuple[ir.Stmt, ...]
    span: Span | None


class _Reads:
    def __init__(self, context: Context) -> None:
        self.context = context
        self.touches: list[_Touch] = []
        self.declared: dict[ir.Buffer, tuple[ir.Stmt, ...]] = {}

    def check(self, kernel: ir.Region) -> None:
        self.body(kernel.body, ())
        told: set[ir.Buffer] = set()
        written: set[ir.Buffer] = set()
        for position, touch in enumerate(self.touches):
            if touch.writes:
                written.add(touch.buffer)
            elif touch.buffer not in written and touch.buffer not in told and touch.buffer in self.declared:
                told.add(touch.buffer)
                if touch.span is not None and not self.comes_around(position):
                    message = f"`{touch.buffer.name}` is read before anything was stored"
                    self.context.report.warning("STO08", message, touch.span)

    def comes_around(self, position: int) -> bool:
        """Whether a later write may reach the read at a position in another iteration."""
        read = self.touches[position]
        outside = self.declared[read.buffer]
        carrying = [loop for loop in read.loops if loop not in outside]
        return any(
            later.writes and later.buffer is read.buffer and any(loop in carrying for loop in later.loops)
            for later in self.touches[position:]
        )

    def body(self, body: ir.Body, loops: tuple[ir.Stmt, ...]) -> None:
        for s in body:
            if isinstance(s, ir.Declare) and s.buffer.storage in _PRIVATE:
                self.declared[s.buffer] = loops
            for buffer, writes, span in _touched(s):
                if buffer.storage in _PRIVATE:
                    self.touches.append(_Touch(buffer, writes, loops, span or s.span))
            inner = (*loops, s) if isinstance(s, (ir.For, ir.While)) else loops
            for nested in bodies(s):
                self.body(nested, inner)


def _touched(s: ir.Stmt) -> Iterator[tuple[ir.Buffer, bool, Span | None]]:
    """What a statement itself reads (first) and writes."""
    match s:
        case ir.If() | ir.While():
            yield from _loads(s.condition)
        case ir.For():
            yield from _loads((s.start, s.stop))
        case ir.Masked():
            yield from _loads(s.predicate)
        case ir.Region():
            yield from _loads(s.extents)
        case ir.Scope() | ir.Apply():
            return
        case ir.Store():
            yield from _loads((*s.index, s.value))
            if s.op:
                yield s.view.buffer, False, s.span
            yield s.view.buffer, True, s.span
        case ir.Atomic():
            yield from _loads((*s.index, s.value))
            yield s.view.buffer, False, s.span
            yield s.view.buffer, True, s.span
        case ir.Copy():
            yield s.src.buffer, False, s.src.span
            yield s.dst.buffer, True, s.span
        case ir.SpanOp():
            if isinstance(s.value, ir.View):
                yield s.value.buffer, False, s.value.span
            yield from _loads(s.value)
            if s.op:
                yield s.view.buffer, False, s.span
            yield s.view.buffer, True, s.span
        case ir.Declare():
            yield from _loads(() if s.init is None else s.init)
            if s.init is not None:
                yield s.buffer, True, s.span
        case ir.MmaStore():
            yield s.view.buffer, True, s.span
        case ir.MmaLoad():
            yield s.view.buffer, False, s.view.span
        case ir.Call():
            for arg in s.args:
                yield from _loads(arg if isinstance(arg, ir.Expr) else ())
            for view in (node for node in walk(s.args) if isinstance(node, ir.View)):
                yield view.buffer, True, s.span  # a foreign function may fill it
        case _:
            yield from _loads((s,))


def _loads(node: ir.Node | tuple[ir.Node, ...]) -> Iterator[tuple[ir.Buffer, bool, Span | None]]:
    for inner in walk(node):
        if isinstance(inner, ir.Load):
            yield inner.view.buffer, False, inner.span
