"""Fresh buffers that must be zero when the function begins: which there are, and who uses them first."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from croq_magic.compiler import ir
from croq_magic.compiler.visit import rewrite, walk


def for_each_zeroed(function: ir.Function, change: Callable[[ir.Body, int, ir.Buffer], ir.Body]) -> ir.Function:
    """The function with `change` applied to its body for every buffer that must be zero; it gets the body, the place of
    the declaration in it, and the buffer, and leaves the number of statements as it is."""
    body = function.body
    for position, statement in enumerate(body):
        if isinstance(statement, ir.Declare) and statement.buffer.zeroed and statement.init is None:
            body = change(body, position, statement.buffer)
    return function if body is function.body else dataclasses.replace(function, body=body)


def first_launch(body: ir.Body, position: int, buffer: ir.Buffer) -> tuple[int, ir.Launch] | None:
    """The first statement after `position` that mentions a buffer, with its place, if it is a launch."""
    first = next((i for i in range(position + 1, len(body)) if mentions(body[i], buffer)), None)
    statement = None if first is None else body[first]
    return (first, statement) if first is not None and isinstance(statement, ir.Launch) else None


def not_zeroed(body: ir.Body, buffer: ir.Buffer) -> ir.Body:
    """The body with a buffer that need not be zero any more."""
    plain = dataclasses.replace(buffer, zeroed=False)
    new: ir.Body = rewrite(body, lambda node: plain if node is buffer else None)
    return new


def mentions(statement: ir.Node, buffer: ir.Buffer) -> bool:
    """Whether anything in a node is about a buffer."""
    return any(node is buffer for node in walk(statement))
