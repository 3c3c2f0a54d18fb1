"""Where an overflow of signed integers would be seen.

C leaves open what a signed sum gives that does not fit, and compilers conclude from it; the language wraps. A
comparison or division of a sum itself is written without sign by `Expressions`. Here are the scalars and buffers that
carry a sum to such a place, maybe by way of others: what they are set to is written in the same way. Sums that nobody
compares, such as accumulators, stay as they are: modulo the size of the type every compiler computes the same.
"""

from __future__ import annotations

from collections.abc import Iterator

from croq_magic.compiler import ir
from croq_magic.compiler.types import S32, S64
from croq_magic.compiler.visit import walk

SEES_OVERFLOW = ("<", "<=", ">", ">=", "==", "!=", "/", "%", ">>")


def watched(root: ir.Node) -> frozenset[str]:
    """Names of the signed scalars and buffers of a kernel whose sign or size something depends on."""
    found: set[str] = set()
    made_of: dict[str, set[str]] = {}
    for node in walk(root):
        if (isinstance(node, ir.Binary) and node.op in SEES_OVERFLOW) or isinstance(node, (ir.Cast, ir.Builtin)):
            found.update(_names(node))
        elif isinstance(node, (ir.Let, ir.Assign)) and node.value is not None:
            made_of.setdefault(node.var.name, set()).update(_names(node.value))
        elif isinstance(node, ir.Store):
            made_of.setdefault(node.view.buffer.name, set()).update(_names(node.value))
            if node.op in ("/", "%"):
                found.add(node.view.buffer.name)
        elif isinstance(node, ir.Copy):
            for view in (n for n in walk(node) if isinstance(n, ir.View)):
                made_of.setdefault(view.buffer.name, set()).update(_buffers(node))
    open_names = list(found)
    while open_names:
        for name in made_of.get(open_names.pop(), set()) - found:
            found.add(name)
            open_names.append(name)
    return frozenset(found)


def _names(value: ir.Expr) -> Iterator[str]:
    for node in walk(value):
        if isinstance(node, ir.Var) and node.dtype in (S32, S64):
            yield node.name
        elif isinstance(node, ir.View) and node.buffer.dtype in (S32, S64):
            yield node.buffer.name


def _buffers(copy: ir.Copy) -> Iterator[str]:
    return (n.buffer.name for n in walk(copy) if isinstance(n, ir.View) and n.buffer.dtype in (S32, S64))
