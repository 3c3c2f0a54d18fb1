"""Threads that end early stay for the barriers that others wait at.

A barrier counts all threads of a block. A thread that a `yield` has ended would be missing there, so it goes on with
nothing to do: what follows the `yield` is done only by threads that are alive, except for the statements in which
threads meet.

    if (t > n) yield;                  =>     live = true;  if (t > n) live = false;
    a[t] = t;  barrier;  b[t] = a[0];         if (live) a[t] = t;  barrier;  if (live) b[t] = a[0];
"""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from croq_magic.compiler import ir
from croq_magic.compiler.passes.base import Context
from croq_magic.compiler.passes.joins import scope_of
from croq_magic.compiler.passes.structure import bodies, fresh_name, map_kernels
from croq_magic.compiler.types import BOOL
from croq_magic.compiler.visit import rewrite, walk


@dataclasses.dataclass(frozen=True)
class GuardEnds:
    """After it no `yield` stands before a statement in which threads meet, but in `while` loops: UNS01 there."""

    name: ClassVar[str] = "guard-ends"

    def __call__(self, function: ir.Function, context: Context) -> ir.Function:
        if not any(isinstance(node, ir.Yield) for node in walk(function.body)):
            return function
        taken = {node.name for node in walk(function.body) if isinstance(node, (ir.Var, ir.Buffer))}

        def change(node: ir.Node) -> ir.Node | None:
            if not isinstance(node, ir.Region) or not _waited_for(node.body):
                return None
            return _Guarding(fresh_name("live", taken), context).region(node)

        def kernel(region: ir.Region) -> ir.Region:
            return rewrite(region, change)

        return map_kernels(function, kernel)


def _ends(s: ir.Stmt) -> bool:
    """Whether a `yield` in a statement ends the instance that runs it."""
    if isinstance(s, ir.Region):
        return False
    return isinstance(s, ir.Yield) or any(_ends(inner) for body in bodies(s) for inner in body)


def _meets(s: ir.Stmt) -> bool:
    return scope_of(s) is not None


def _waited_for(body: ir.Body) -> bool:
    """Whether threads may wait for one that has ended."""
    ended = False
    for s in body:
        if ended and _meets(s):
            return True
        if _ends(s):
            ended = True
            if _meets(s) and (isinstance(s, (ir.For, ir.While)) or any(map(_waited_for, bodies(s)))):
                return True
    return False


class _Guarding:
    """Works on the body of one region."""

    def __init__(self, name: str, context: Context) -> None:
        self.live = ir.Var(name, BOOL, ir.Role.MUTABLE)
        self.context = context
        self.hoisted: dict[str, ir.Var] = {}  # scalars that are declared before the condition around their values

    def region(self, s: ir.Region) -> ir.Region:
        body = (ir.Let(self.live, ir.TRUE), *self.body(s.body, False))

        def renamed(node: ir.Node) -> ir.Node | None:
            return self.hoisted.get(node.name) if isinstance(node, ir.Var) else None

        return dataclasses.replace(s, body=rewrite(body, renamed) if self.hoisted else body)

    def body(self, body: ir.Body, ended: bool) -> ir.Body:
        """`ended`: the thread may have ended before."""
        out: list[ir.Stmt] = []
        alive: list[ir.Stmt] = []  # what follows only in threads that are alive

        def flush() -> None:
            if alive:
                out.append(ir.If(self.live, tuple(alive)))
                alive.clear()

        for s in body:
            if isinstance(s, ir.Yield):
                (alive if ended else out).append(ir.Assign(self.live, ir.FALSE, span=s.span))
                break  # the rest is never reached
            if not ended:
                out.append(self.inner(s, False))
                ended = _ends(s)
            elif _meets(s) or isinstance(s, ir.Declare) or (isinstance(s, ir.Let) and _harmless(s)):
                flush()
                out.append(self.inner(s, True))
            else:
                if isinstance(s, ir.Let):
                    flush()
                    out.append(ir.Let(self._hoisted(s.var), None, span=s.span))
                    if s.value is not None:
                        alive.append(ir.Assign(s.var, s.value, span=s.span))
                    continue
                alive.append(self.inner(s, False))
                if _ends(s):
                    flush()
        flush()
        return tuple(out)

    def _hoisted(self, var: ir.Var) -> ir.Var:
        return self.hoisted.setdefault(var.name, dataclasses.replace(var, role=ir.Role.MUTABLE))

    def inner(self, s: ir.Stmt, ended: bool) -> ir.Stmt:
        """A statement with its bodies guarded."""
        if isinstance(s, ir.Region) or not (_ends(s) or (ended and _meets(s))):
            return s
        if isinstance(s, ir.If):
            return dataclasses.replace(s, then=self.body(s.then, ended), other=self.body(s.other, ended))
        if isinstance(s, ir.For) and _meets(s):
            return dataclasses.replace(s, body=self.body(s.body, True))  # ended in an earlier iteration
        if isinstance(s, ir.While) and _meets(s):
            what = "a `yield` that ends some threads of a `while` loop in which others wait is not supported on a GPU"
            span = next((n.span for n in walk(s) if isinstance(n, ir.Yield)), None) or s.span
            assert span is not None  # the program wrote it
            self.context.report.error("UNS01", what, span)
            return s
        if isinstance(s, (ir.For, ir.While)):
            leave = ir.If(ir.Unary("!", self.live, BOOL), (ir.Break(),))
            return dataclasses.replace(s, body=(*self.body(s.body, False), leave))
        if isinstance(s, (ir.Scope, ir.Masked, ir.Once)):
            return dataclasses.replace(s, body=self.body(s.body, ended))
        return s


def _harmless(s: ir.Let) -> bool:
    """Whether a value can be computed by threads that should not: what others do together may depend on it."""
    if s.value is None:
        return True
    return not any(isinstance(n, ir.Load) or (isinstance(n, ir.Binary) and n.checked) for n in walk(s.value))
