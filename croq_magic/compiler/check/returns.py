"""`return` in the middle of a function that is put in the place of its call: control flow without jumps.

What follows a `return` becomes the other branch of the condition it stands in. Inside loops, where that is impossible,
a variable remembers that the function has returned, and the loops end.
"""

from __future__ import annotations

import dataclasses

from croq_magic.compiler import ir
from croq_magic.compiler.types import BOOL


def structured(body: ir.Body, flag: str) -> ir.Body:
    """The statements without `ir.Return`; `flag` is a name for the variable."""
    done = ir.Var(flag, BOOL, ir.Role.MUTABLE)
    result = _Structurer(done)
    statements = result.body(body, in_loop=False)
    return (ir.Let(done, ir.FALSE), *statements) if result.used else statements


def _always(body: ir.Body) -> bool:
    """Whether a body returns on every path."""
    for s in body:
        if isinstance(s, ir.Return) or (isinstance(s, ir.Scope) and _always(s.body)):
            return True
        if isinstance(s, ir.If) and _always(s.then) and _always(s.other):
            return True
    return False


def _may(s: ir.Stmt) -> bool:
    match s:
        case ir.Return():
            return True
        case ir.If(then=then, other=other):
            return any(map(_may, (*then, *other)))
        case ir.Scope(body=body) | ir.For(body=body) | ir.While(body=body):
            return any(map(_may, body))
    return False


class _Structurer:
    def __init__(self, done: ir.Var) -> None:
        self.done = done
        self.used = False

    def body(self, body: ir.Body, in_loop: bool) -> ir.Body:
        for position, s in enumerate(body):
            if _may(s):
                return (*body[:position], *self._from(s, body[position + 1 :], in_loop))
        return body

    def _from(self, s: ir.Stmt, rest: ir.Body, in_loop: bool) -> ir.Body:
        """A statement that may return, and what follows it."""
        if isinstance(s, ir.Return):
            return self._leave(s) if in_loop else ()
        if isinstance(s, ir.If) and _always(s.then):
            return (self._branches(s, s.then, (*s.other, *rest), in_loop),)
        if isinstance(s, ir.If) and _always(s.other):
            return (self._branches(s, (*s.then, *rest), s.other, in_loop),)
        if isinstance(s, ir.Scope) and (_always(s.body) or not rest):
            return (dataclasses.replace(s, body=self.body(s.body, in_loop)),)
        if isinstance(s, ir.If) and not rest:
            return (self._branches(s, s.then, s.other, in_loop),)
        self.used = True
        return (self._marked(s), *self._unless_done(rest, in_loop))

    def _branches(self, s: ir.If, then: ir.Body, other: ir.Body, in_loop: bool) -> ir.If:
        return dataclasses.replace(s, then=self.body(then, in_loop), other=self.body(other, in_loop))

    def _leave(self, s: ir.Return) -> ir.Body:
        self.used = True
        return (ir.Assign(self.done, ir.TRUE, span=s.span), ir.Break(span=s.span))

    def _marked(self, s: ir.Stmt) -> ir.Stmt:
        """The statement with returns that set the variable."""
        match s:
            case ir.For() | ir.While():
                return dataclasses.replace(s, body=self.body(s.body, in_loop=True))
            case ir.Scope():
                return dataclasses.replace(s, body=self._marks(s.body))
            case ir.If():
                return dataclasses.replace(s, then=self._marks(s.then), other=self._marks(s.other))
        raise AssertionError(f"{type(s).__name__} does not return")

    def _marks(self, body: ir.Body) -> ir.Body:
        for position, s in enumerate(body):
            if isinstance(s, ir.Return):
                return (*body[:position], ir.Assign(self.done, ir.TRUE, span=s.span))
            if _may(s):
                return (*body[:position], self._marked(s), *self._unless_done(body[position + 1 :], in_loop=False))
        return body

    def _unless_done(self, rest: ir.Body, in_loop: bool) -> ir.Body:
        if in_loop:
            leave = ir.If(self.done, (ir.Break(),))
            return (leave, *self.body(rest, in_loop))
        if not rest:
            return ()
        return (ir.If(ir.Unary("!", self.done, BOOL), self._marks(rest)),)
