"""Operands of products that need no copy: `fa = mma.load sa` where `sa` stays as it is until `fa` is used up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from croq_magic.compiler import ir
from croq_magic.compiler.passes.accesses import Mode, of_statement
from croq_magic.compiler.passes.structure import assigned, bodies
from croq_magic.compiler.visit import walk

# Statements behind which other threads may write, or do what nobody sees.
_MEETINGS = (ir.Barrier, ir.NamedBarrier, ir.Trigger, ir.WaitEvent, ir.Wait, ir.Fence, ir.Masked, ir.Once)
_OPAQUE = (ir.Call, ir.CxxText, ir.Asm, ir.Break, ir.Continue, ir.Yield)


def in_place(block: ir.Region) -> dict[ir.Fragment, ir.View]:
    """The shared tile that stands for a fragment: it is loaded once, from there, all its uses are operands of products
    behind the load in the same statements, and from the load to the last of them nobody writes the tile."""
    uses: Counter[ir.Fragment] = Counter()
    for node in walk(block):
        if isinstance(node, ir.FragmentRef):
            uses[node.fragment] += 1
        elif isinstance(node, (ir.FragmentFill, ir.Call)):
            uses.update(n for n in walk(node) if isinstance(n, ir.Fragment))
        elif isinstance(node, ir.DeclareFragment) and node.init is not None:
            uses[node.fragment] += 1
    found: dict[ir.Fragment, ir.View] = {}
    for body in _all_bodies(block.body):
        for position, s in enumerate(body):
            if isinstance(s, ir.MmaLoad) and _plain(s) and _stays(s, body[position + 1 :], uses):
                found[s.target.fragment] = s.view
    return found


def _all_bodies(body: ir.Body) -> Iterator[ir.Body]:
    yield body
    for s in body:
        for inner in bodies(s):
            yield from _all_bodies(inner)


def _plain(s: ir.MmaLoad) -> bool:
    view, fragment = s.view, s.target.fragment
    if fragment.slots or view.buffer.storage is not ir.Storage.SHARED or view.zfill or view.checks:
        return False
    return view.buffer.dtype is fragment.dtype


def _stays(s: ir.MmaLoad, after: ir.Body, uses: Counter[ir.Fragment]) -> bool:
    fragment, buffer = s.target.fragment, s.view.buffer
    missing = uses[fragment] - 1  # the load itself
    last, seen = -1, 0
    for position, statement in enumerate(after):
        for node in walk(statement):
            if isinstance(node, ir.Mma):
                here = sum(isinstance(o, ir.FragmentRef) and o.fragment is fragment for o in (node.a, node.b))
                here += node.metadata is not None and node.metadata.fragment is fragment
                if here:
                    seen, last = seen + here, position
    if seen != missing or not seen:
        return False
    between = after[: last + 1]
    names = {n.name for n in walk((s.view.offset, s.view.slot)) if isinstance(n, ir.Var)}
    if names & assigned(between):
        return False
    for node in walk(between):
        if isinstance(node, (*_MEETINGS, *_OPAQUE)):
            return False
        if isinstance(node, ir.Stmt) and any(
            a.buffer is buffer and a.mode is not Mode.READ for a in of_statement(node)
        ):
            return False
    return True
