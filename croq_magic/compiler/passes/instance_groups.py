"""Neighbouring instances of a level as the lanes of a vector: what `spread-blocks` asks before it puts them together.

Two forms. *Flat*: all accesses of device memory are at one and the same place of the level, counted over all its
indices together (`c[i, j] = a[i, j] + b[i, j]`), so that rows of any length can be cut into vectors. *Rows*: lanes are
neighbours along one index alone, whose extent is a multiple of the vector; other accesses may use the other indices.
"""

from __future__ import annotations

import dataclasses
import math

from croq_magic.compiler import integers, ir, views
from croq_magic.compiler.passes import vectorise_elements
from croq_magic.compiler.passes.structure import fresh_name
from croq_magic.compiler.passes.vectorise_copies import Known
from croq_magic.compiler.types import S32
from croq_magic.compiler.visit import rewrite, substitute, walk

Order = list[tuple[ir.Var, ir.Expr]]  # indices with their extents, the fastest first
_FEW = 8  # accesses of a short body
_PLAIN = (ir.Let, ir.Assign, ir.Store, ir.If, ir.Scope)


@dataclasses.dataclass(frozen=True)
class Lanes:
    """What the lanes of one thread do. `body` is over `place`, the number of the first of `width` instances (flat), or
    of the vector, `width` instances each (rows). `traffic` is what it loads and stores, in bytes."""

    width: int
    flat: bool
    body: ir.Body
    traffic: int


def order(root: ir.Region) -> Order:
    """Indices with extents, the one first that most accesses of device memory run along element by element, the others
    from the last to the first, as rows lie in memory."""
    pairs = list(zip(root.indices, root.extents, strict=True))
    score = dict.fromkeys(root.indices, 0)
    for node in walk(root.body):
        if isinstance(node, (ir.Load, ir.Store)) and node.view.buffer.storage is ir.Storage.GLOBAL:
            _, offset = views.element(node.view, node.index)
            terms = integers.poly(offset)
            for var in score:
                score[var] += abs(terms.coefficient(var)) == 1
    best = max(pairs, key=lambda pair: score[pair[0]])
    return [best, *(pair for pair in reversed(pairs) if pair is not best)]


def is_short(body: ir.Body) -> bool:
    """Whether an instance loads and stores a few elements and does nothing else."""
    nodes = list(walk(body))
    plain = all(isinstance(n, _PLAIN) for n in nodes if isinstance(n, ir.Stmt))
    accesses = [n for n in nodes if isinstance(n, (ir.Load, ir.Store))]
    known = all(not a.checks and not a.view.checks for a in accesses)
    return plain and known and bool(accesses) and len(accesses) <= _FEW


def lanes(body: ir.Body, pairs: Order, place: ir.Var, width: int, taken: set[str]) -> Lanes | None:
    """Neighbouring instances as `width` lanes; None where they make no vectors."""
    lane = ir.Var(fresh_name("e", taken), S32, ir.Role.LOOP, integers.ZERO, integers.constant(width))
    found = _flat(body, pairs, place, lane, width) or _rows(body, pairs, place, lane, width, taken)
    if found is None:
        taken.discard(lane.name)
    return found


def decoded(body: ir.Body, pairs: Order, place: ir.Expr) -> ir.Body:
    """The definitions of those indices that a body uses, from the number of the instance."""
    used = {node.name for node in walk(body) if isinstance(node, ir.Var)}
    found: list[ir.Stmt] = []
    stride: ir.Expr = integers.ONE
    for position, (var, extent) in enumerate(pairs):
        if var.name in used and var != place:
            value = integers.floordiv(place, stride)
            if position < len(pairs) - 1:
                value = integers.mod(value, extent)
            found.append(ir.Let(var, integers.ZERO if integers.value(extent) == 1 else value))
        stride = integers.mul(stride, extent)
    return tuple(found)


def flattened(body: ir.Body, pairs: Order, place: ir.Expr) -> ir.Body | None:
    """A body whose accesses of device memory are at the number of the instance, whatever its indices are; None where
    one is not."""
    if len(pairs) == 1:
        return (*decoded(body, pairs, place), *body)
    names = {var.name for var, _ in pairs}
    first, rest, stride = pairs[0][0], place, pairs[0][1]
    for var, extent in pairs[1:]:
        rest = integers.sub(rest, integers.mul(stride, var))
        stride = integers.mul(stride, extent)
    apart = False

    def change(node: ir.Node) -> ir.Node | None:
        nonlocal apart
        if not isinstance(node, (ir.Load, ir.Store)) or node.view.buffer.storage is not ir.Storage.GLOBAL:
            return None
        offset = views.element(node.view, node.index)[1]
        if not _mentions((offset, node.view.slot), names):
            return None
        at = integers.simplify(substitute(offset, {first: rest}))
        if _mentions((at, node.view.slot), names):
            apart = True
            return None
        b = node.view.buffer
        flat = views.reshape(views.whole(b, node.view.slot, node.view.span), (integers.product(b.shape),))
        return dataclasses.replace(node, view=flat, index=(at,))

    new = rewrite(body, change)
    lets = decoded(new, pairs, place)
    constant = all(integers.value(extent) is not None for _, extent in pairs)
    if apart or (lets and not constant):  # a division of 64 bits an element takes longer than the access
        return None
    return (*lets, *new)


def _mentions(nodes: tuple[object, ...], names: set[str]) -> bool:
    return any(isinstance(n, ir.Var) and n.name in names for n in walk(nodes))


def widest(body: ir.Body, most: int) -> int:
    """How many elements of the largest type that is accessed in device memory make a vector of `most` bytes."""
    sizes = [
        node.view.buffer.dtype.size if node.view.buffer.dtype.bits >= 8 else most
        for node in walk(body)
        if isinstance(node, (ir.Load, ir.Store)) and node.view.buffer.storage is ir.Storage.GLOBAL
    ]
    return most // max(sizes) if sizes and most else 1


def _flat(body: ir.Body, pairs: Order, place: ir.Var, lane: ir.Var, width: int) -> Lanes | None:
    new = flattened(body, pairs, integers.add(place, lane))
    return None if new is None else _checked(new, lane, width, {place: width}, True, ())


def _rows(body: ir.Body, pairs: Order, place: ir.Var, lane: ir.Var, width: int, taken: set[str]) -> Lanes | None:
    inner, extent = pairs[0]
    length = integers.value(extent)
    if len(pairs) == 1 or length is None or length % width:
        return None
    size = integers.constant(width)
    start = ir.Var(fresh_name(f"{inner.name}_first", taken), inner.dtype, ir.Role.REGION, integers.ZERO, extent)
    let = ir.Let(inner, integers.add(start, lane))
    vectors = [(start, integers.constant(length // width)), *pairs[1:]]
    lets = decoded((let, *body), vectors, place)
    lets = tuple(
        dataclasses.replace(s, value=integers.mul(s.value, size))
        if isinstance(s, ir.Let) and s.var == start and s.value is not None
        else s
        for s in lets
    )
    found = _checked((let, *body), lane, width, {start: width}, False, lets)
    if found is None:
        taken.discard(start.name)
    return found


def _checked(body: ir.Body, lane: ir.Var, width: int, known: Known, flat: bool, before: ir.Body) -> Lanes | None:
    """The lanes, if all that differs between them is done in vectors."""
    found = vectorise_elements.plan(body, lane, width, known)
    if found is None or found.width != width or any(group.width != width for group in found.groups):
        return None
    if any(_mentions((node.index, node.view.slot), set(found.varying)) for node in found.rest):
        return None
    loop = ir.For(lane, integers.ZERO, integers.constant(width), 1, body, ir.LoopKind.UNROLL)
    traffic = sum(width * g.view.buffer.dtype.size * (g.loaded + g.stored) for g in found.groups)
    return Lanes(width, flat, (*before, loop), traffic)


def turns(traffic: int, wanted: int, most: int) -> int:
    """How many vectors a thread takes one after the other so that `wanted` bytes are under way."""
    return max(1, min(most, math.ceil(wanted / max(1, traffic))))
