"""Elements that a thread loads or stores one after the other become accesses of up to 16 bytes.

A loop of constant length over neighbouring elements takes them a vector at a time: what it loads comes into storage of
the thread before, what it stores leaves it behind, and the elements between are those of registers.

    for i in 0..4 {                               local a4: f32 [4]
      c[p + i] = a[p + i] * s               =>    copy a[p : 4] => a4
    }                                             local c4: f32 [4]
                                                  for unroll e in 0..4 {
                                                    c4[e] = a4[e] * s
                                                  }
                                                  copy c4 => c[p : 4]

A buffer takes part where nothing can tell. Elements that are only read come in together; those that are written must
be written in every turn of the loop, and every access to their buffer in a turn must be to the turn's own element. What
is loaded or stored under a condition stays as it is: an element that the program leaves alone may lie outside the
buffer, or be another thread's. `vectorise-copies` then finds the width of the copies. (Memory of a block is left alone:
its alignment is in the text, and compilers see the rest.)
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Sequence
from typing import ClassVar

from croq_magic.compiler import integers, ir, views
from croq_magic.compiler.passes.base import Context
from croq_magic.compiler.passes.structure import assigned, bodies, each, fresh_name, map_kernels, with_bodies
from croq_magic.compiler.passes.vectorise_copies import Known, factor, known_factors
from croq_magic.compiler.types import S32
from croq_magic.compiler.visit import children, rewrite, substitute, walk

WIDEST = 16  # bytes
_PLAIN = (ir.Let, ir.Assign, ir.Store, ir.If, ir.Scope)


@dataclasses.dataclass(frozen=True)
class VectoriseElements:
    """Works on the loops of threads."""

    name: ClassVar[str] = "vectorise-elements"

    def __call__(self, function: ir.Function, context: Context) -> ir.Function:
        taken = {node.name for node in walk(function.body) if isinstance(node, (ir.Var, ir.Buffer))}

        def threads(region: ir.Region, known: Known) -> ir.Region:
            def inner(s: ir.Stmt) -> ir.Stmt:
                if isinstance(s, ir.Region):
                    return threads(s, known)
                return with_bodies(s, lambda body: each(body, inner))

            if region.level is ir.Level.THREAD:
                body = _body(region.body, known, taken)
            else:
                body = each(region.body, inner)
            return region if body is region.body else dataclasses.replace(region, body=body)

        return map_kernels(function, lambda root: threads(root, known_factors(root)))


@dataclasses.dataclass(frozen=True)
class Group:
    """Elements of one buffer that a loop runs along: `start` is the offset of the first in the buffer's slot, `width`
    how many lie together and aligned. `loaded`: they are needed before the loop, `stored`: they change in it."""

    view: ir.View  # one of those that the elements are reached through
    start: ir.Expr
    width: int
    loaded: bool
    stored: bool


@dataclasses.dataclass(frozen=True)
class _Use:
    """A load or store of device memory. `always`: every turn gets there and nothing is checked."""

    node: ir.Load | ir.Store
    offset: ir.Expr
    slot: tuple[ir.Expr, ...]
    always: bool

    @property
    def buffer(self) -> ir.Buffer:
        return self.node.view.buffer

    @property
    def writes(self) -> bool:
        return isinstance(self.node, ir.Store)

    @property
    def reads(self) -> bool:
        return isinstance(self.node, ir.Load) or bool(self.node.op)


@dataclasses.dataclass(frozen=True)
class Plan:
    """What of a loop is done a vector at a time. `rest` are the accesses that stay as they are."""

    groups: tuple[Group, ...]
    rest: tuple[ir.Load | ir.Store, ...]
    varying: frozenset[str]

    @property
    def width(self) -> int:
        """Elements that a turn of the outer loop takes."""
        return max((group.width for group in self.groups), default=1)


def plan(body: ir.Body, var: ir.Var, count: int, known: Known) -> Plan | None:
    """The groups of a loop of `count` turns, None where something in its body forbids any."""
    values: dict[ir.Var, ir.Expr] = {}
    varying = {var.name}
    if not _collect(body, values, varying):
        return None
    uses = list(_uses(body, values, True))
    by_buffer: dict[int, list[_Use]] = {}
    for use in uses:
        by_buffer.setdefault(id(use.buffer), []).append(use)
    groups: list[Group] = []
    for found in by_buffer.values():
        groups += _groups(found, var, count, known, varying)
    rest = tuple(use.node for use in uses if not any(_belongs(use, group, var) for group in groups))
    return Plan(tuple(groups), rest, frozenset(varying))


def _collect(body: ir.Body, values: dict[ir.Var, ir.Expr], varying: set[str]) -> bool:
    """Whether a body is plain; notes what its indices stand for, and which of its scalars differ between turns."""
    varying |= assigned(body)
    for s in body:
        if not isinstance(s, _PLAIN):
            return False
        if isinstance(s, ir.Let) and s.value is not None and s.var.role is ir.Role.REGION:
            values[s.var] = integers.simplify(substitute(s.value, values))
        if not all(_collect(inner, values, varying) for inner in bodies(s)):
            return False
    return True


def _uses(node: ir.Node | tuple[ir.Node, ...], values: dict[ir.Var, ir.Expr], always: bool) -> Iterator[_Use]:
    """Accesses of device memory in the order in which they happen, but for those within one expression."""
    if isinstance(node, tuple):
        for one in node:
            yield from _uses(one, values, always)
        return
    if isinstance(node, ir.If):
        yield from _uses(node.condition, values, always)
        yield from _uses((*node.then, *node.other), values, False)
        return
    if isinstance(node, ir.Select):
        yield from _uses(node.condition, values, always)
        yield from _uses((node.then, node.other), values, False)
        return
    if isinstance(node, ir.Binary) and node.op in ("&&", "||"):
        yield from _uses(node.left, values, always)
        yield from _uses(node.right, values, False)
        return
    if isinstance(node, (ir.Load, ir.Store)):
        parts = (*node.index, node.value) if isinstance(node, ir.Store) else node.index
        yield from _uses(parts, values, always)
        if node.view.buffer.storage is ir.Storage.GLOBAL:
            _, offset = views.element(node.view, node.index)
            checked = bool(node.checks or node.view.checks)
            at = integers.simplify(substitute(offset, values))
            slot = tuple(integers.simplify(substitute(e, values)) for e in node.view.slot)
            yield _Use(node, at, slot, always and not checked)
        return
    for child in children(node):
        yield from _uses(child, values, always)


def _groups(uses: Sequence[_Use], var: ir.Var, count: int, known: Known, varying: set[str]) -> list[Group]:
    """The groups of one buffer."""
    if uses[0].buffer.dtype.bits < 8:
        return []
    if any(use.writes for use in uses):
        first = uses[0]
        same = all(integers.equal(use.offset, first.offset) and _same(use.slot, first.slot) for use in uses)
        checked = any(use.node.checks or use.node.view.checks for use in uses)
        if not same or checked or not any(use.writes and use.always for use in uses):
            return []
        whole = first.writes and first.always and not first.reads
        found = _group(first, var, count, known, varying, loaded=not whole, stored=True)
        return [found] if found else []
    groups: list[Group] = []
    for use in uses:
        if not use.always or any(_belongs(use, group, var) for group in groups):
            continue
        found = _group(use, var, count, known, varying, loaded=True, stored=False)
        groups += [found] if found else []
    return groups


def _group(
    use: _Use, var: ir.Var, count: int, known: Known, varying: set[str], loaded: bool, stored: bool
) -> Group | None:
    start = integers.sub(use.offset, var)
    if any(isinstance(n, ir.Var) and n.name in varying for n in walk((start, use.slot))):
        return None
    size = use.buffer.dtype.size
    width = math.gcd(WIDEST // size, count, factor(start, known))
    return Group(use.node.view, start, width, loaded, stored) if width > 1 else None


def _same(a: Sequence[ir.Expr], b: Sequence[ir.Expr]) -> bool:
    return all(map(integers.equal, a, b))


def _belongs(use: _Use, group: Group, var: ir.Var) -> bool:
    return (
        use.buffer is group.view.buffer
        and not (use.node.checks or use.node.view.checks)
        and _same(use.slot, group.view.slot)
        and integers.equal(use.offset, integers.add(group.start, var))
    )


# ----------------------------------------------------------------------------------------------------- the new loop


def _body(body: ir.Body, known: Known, taken: set[str]) -> ir.Body:
    out: list[ir.Stmt] = []
    for s in body:
        new: ir.Body = (with_bodies(s, lambda inner: _body(inner, known, taken)),)
        if isinstance(s, ir.For) and s.step == 1 and not s.unroll and integers.value(s.start) == 0:
            count = integers.value(s.stop)
            found = plan(s.body, s.var, count, known) if count and count > 1 else None
            if found is not None and found.groups and count is not None:
                new = _vectorised(s, found, count, known, taken)
        out += new
    return body if len(out) == len(body) and all(map(lambda a, b: a is b, out, body)) else tuple(out)


def _vectorised(s: ir.For, found: Plan, count: int, known: Known, taken: set[str]) -> ir.Body:
    width = found.width
    turns = count // width
    lane = s.var if turns == 1 else _loop_variable(fresh_name("e", taken), integers.constant(width))
    outer = _loop_variable(fresh_name(f"{s.var.name}{width}", taken), integers.constant(turns))
    first: ir.Expr = integers.mul(outer, integers.constant(width)) if turns > 1 else integers.ZERO
    place = integers.add(first, lane)
    before: list[ir.Stmt] = []
    behind: list[ir.Stmt] = []
    locals_: list[tuple[Group, ir.View]] = []
    for group in found.groups:
        b = group.view.buffer
        name = fresh_name(f"{b.name}{width}", taken)
        own = views.whole(ir.Buffer(name, b.dtype, ir.Storage.LOCAL, (integers.constant(width),), span=b.span))
        start = integers.simplify(substitute(group.start, {s.var: first}))
        slot = group.view.slot
        flat = views.reshape(views.whole(b, slot), (integers.product(b.shape),))
        memory = views.window(flat, (integers.add(start, first),), (integers.constant(width),), span=group.view.span)
        before.append(ir.Declare(own.buffer, span=s.span))
        if group.loaded:
            before.append(ir.Copy(memory, own, span=s.span))
        if group.stored:
            behind.append(ir.Copy(own, memory, span=s.span))
        locals_.append((group, own))
    values: dict[ir.Var, ir.Expr] = {}
    _collect(s.body, values, set())

    def change(node: ir.Node) -> ir.Node | None:
        if not isinstance(node, (ir.Load, ir.Store)) or node.view.buffer.storage is not ir.Storage.GLOBAL:
            return None
        offset = integers.simplify(substitute(views.element(node.view, node.index)[1], values))
        slot = tuple(integers.simplify(substitute(e, values)) for e in node.view.slot)
        use = _Use(node, offset, slot, True)
        own = next((own for group, own in locals_ if _belongs(use, group, s.var)), None)
        return None if own is None else dataclasses.replace(node, view=own, index=(s.var,))

    body = _without_unused(rewrite(s.body, change))
    if turns > 1:
        body = rewrite(body, lambda n: _moved(n, s.var, lane, place, {own.buffer for _, own in locals_}))
    lanes = ir.For(lane, integers.ZERO, integers.constant(width), 1, body, ir.LoopKind.UNROLL, span=s.span)
    whole = (*before, lanes, *behind)
    if turns == 1:
        return whole
    kind = ir.LoopKind.UNROLL if s.kind is ir.LoopKind.UNROLL else ir.LoopKind.SERIAL
    return (ir.For(outer, integers.ZERO, integers.constant(turns), 1, whole, kind, span=s.span),)


def _loop_variable(name: str, extent: ir.Expr) -> ir.Var:
    return ir.Var(name, S32, ir.Role.LOOP, integers.ZERO, extent)


def _moved(node: ir.Node, var: ir.Var, lane: ir.Var, place: ir.Expr, own: set[ir.Buffer]) -> ir.Node | None:
    """The loop's variable replaced by the element's place, by the lane where the thread's vectors are indexed."""
    if isinstance(node, (ir.Load, ir.Store)) and node.view.buffer in own:
        return dataclasses.replace(node, index=(lane,))
    return place if node == var else None


def _without_unused(body: ir.Body) -> ir.Body:
    """A body without the indices that only accesses needed."""
    used = {n.name for s in body for n in walk(s) if isinstance(n, ir.Var)}
    counts = dict.fromkeys(used, 0)
    for s in body:
        for n in walk(s):
            if isinstance(n, ir.Var):
                counts[n.name] += 1
    out: list[ir.Stmt] = []
    for s in body:
        if isinstance(s, ir.Let) and s.var.role is ir.Role.REGION and counts[s.var.name] == 1:
            continue
        out.append(s)
    return tuple(out)
