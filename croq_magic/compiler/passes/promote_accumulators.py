"""Keeps in registers what a loop accumulates in memory.

`output.at(i, j) += ...` in a loop over K loads and stores the same element in every iteration. When the element does
not change with the loop, it is loaded once before, kept in a register, and stored once after. The order in which
values are added stays that of the program, and the register starts from the element's value: results are bit-equal.

The loop may stand around a region of threads, with copies and joins between, as in a product of tiles in shared
memory; then each thread has its own element of a `REGISTER` buffer, indexed by the region's indices (and by those of
inner loops that move the element). A loop within one thread gets a mutable scalar.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import ClassVar

from croq_magic.compiler import affine, integers, ir, views
from croq_magic.compiler.passes.base import Context
from croq_magic.compiler.passes.structure import bodies, map_kernels, with_bodies
from croq_magic.compiler.visit import children, rewrite, walk

Access = ir.Load | ir.Store
Path = tuple[ir.Stmt, ...]
_SIGNALS = (ir.Trigger, ir.NamedBarrier)  # others may read what is accumulated from here on
_OPAQUE = (ir.CxxText, ir.Asm, ir.While, ir.Yield, ir.Break, ir.Continue, ir.Atomic, ir.Masked, ir.Apply, *_SIGNALS)


@dataclasses.dataclass(frozen=True)
class PromoteAccumulators:
    """Promotes what is accumulated in loops of kernels; `private` bounds the elements that one thread keeps in
    registers (the extents of inner loops multiplied)."""

    name: ClassVar[str] = "promote-accumulators"
    private: int = 64

    def __call__(self, function: ir.Function, context: Context) -> ir.Function:
        taken = {b.name for b in walk(function) if isinstance(b, ir.Buffer)} | affine.names(function)

        def kernel(region: ir.Region) -> ir.Region:
            # A processor's own order of loops does better than a thread's array in memory.
            gpu = context.limits.gpu
            options = Options(self.private, arrays=gpu, touched=_touched(region.body) if gpu else None)
            body = promote(region.body, taken, options)
            return region if body is region.body else dataclasses.replace(region, body=body)

        return map_kernels(function, kernel)


@dataclasses.dataclass(frozen=True)
class Options:
    """`private` bounds the elements that one thread keeps. Without `arrays` a loop within one thread gets scalars only.
    With `registers` elements of `REGISTER` buffers are promoted as well. Where threads really meet at joins, `touched`
    counts what touches each buffer in the kernel."""

    private: int = 64
    arrays: bool = False
    registers: bool = False
    touched: Mapping[ir.Buffer, int] | None = None


def promote(body: ir.Body, taken: set[str], options: Options) -> ir.Body:
    """`body` with the accumulators of all loops in it promoted, those of outer loops first. `taken` holds the names in
    use; new ones are added to it."""
    out: list[ir.Stmt] = []
    changed = False
    for statement in body:
        before: list[ir.Stmt] = []
        after: list[ir.Stmt] = []
        new = statement
        if isinstance(statement, ir.For):
            for found in _accumulators(statement, options):
                joins = _joins(statement, found, options)
                entry, new, leave = _replace(new, found, _fresh(found.buffer.name, taken))
                before += [*joins, *entry]
                after += [*leave, *joins]
        new = with_bodies(new, lambda inner: promote(inner, taken, options))
        changed = changed or new is not statement
        out += [*before, new, *after]
    return tuple(out) if changed else body


def _touched(body: ir.Body) -> Counter[ir.Buffer]:
    found = Counter(n.buffer for n in walk(body) if isinstance(n, ir.View))
    return found + Counter(n.buffer for n in walk(body) if isinstance(n, ir.Declare) and n.init is not None)


def _joins(loop: ir.For, found: _Accumulator, options: Options) -> list[ir.Stmt]:
    """The join that stands for those in the loop, which the load before it and the store after it do not see: other
    threads may have written the element before, or read it afterwards."""
    if options.touched is None or found.buffer.storage not in (ir.Storage.SHARED, ir.Storage.GLOBAL):
        return []
    scopes = [n.scope for n in walk(loop) if isinstance(n, ir.Barrier)]
    if not scopes or _touched((loop,))[found.buffer] == options.touched[found.buffer]:
        return []
    scope = ir.Level.BLOCK if ir.Level.BLOCK in scopes else scopes[0]
    return [ir.Barrier(scope, f"{found.buffer.name} is accumulated in registers", span=loop.span)]


def _fresh(name: str, taken: set[str]) -> str:
    new, count = f"{name}_acc", 1
    while new in taken:
        count += 1
        new = f"{name}_acc{count}"
    taken.add(new)
    return new


@dataclasses.dataclass(frozen=True)
class _Accumulator:
    """An element that a loop accumulates: one access to it, and the regions and loops between the loop and the access
    that move it, outer to inner."""

    access: Access
    movers: tuple[ir.Region | ir.For, ...]

    @property
    def buffer(self) -> ir.Buffer:
        return self.access.view.buffer

    @property
    def threads(self) -> bool:
        return any(isinstance(step, ir.Region) for step in self.movers)

    @property
    def dims(self) -> tuple[affine.Dim, ...]:
        found: list[affine.Dim] = []
        for step in self.movers:
            if isinstance(step, ir.Region):
                found += map(affine.Dim, step.indices, step.extents)
            else:
                found.append(affine.Dim(step.var, step.stop))
        return tuple(found)


def _accumulators(loop: ir.For, options: Options) -> Iterator[_Accumulator]:
    nodes = list(walk(loop.body))
    if any(isinstance(n, _OPAQUE) for n in nodes):
        return
    unsafe = {n.buffer for n in nodes if isinstance(n, ir.Declare)}
    for n in nodes:
        if not isinstance(n, (ir.Load, ir.Store)):
            unsafe |= {v.buffer for v in children(n) if isinstance(v, ir.View)}
        if isinstance(n, ir.Stmt) and bodies(n):
            heads = tuple(c for c in children(n) if not isinstance(c, ir.Stmt))
            unsafe |= {v.view.buffer for v in walk(heads) if isinstance(v, ir.Load)}
    by_buffer: dict[ir.Buffer, list[tuple[Access, Path]]] = {}
    for access, path in _places(loop.body, ()):
        by_buffer.setdefault(access.view.buffer, []).append((access, path))
    inside = _defined(nodes) | {loop.var.name}
    for buffer, places in by_buffer.items():
        if buffer not in unsafe and (options.registers or buffer.storage is not ir.Storage.REGISTER):
            yield from _of_buffer(places, inside, options)


def _places(body: ir.Body, path: Path) -> Iterator[tuple[Access, Path]]:
    """Every element access of the plain statements below `body`, with the structured statements around it."""
    for statement in body:
        inner = bodies(statement)
        for part in inner:
            yield from _places(part, (*path, statement))
        if not inner:
            for n in walk(statement):
                if isinstance(n, (ir.Load, ir.Store)):
                    yield n, path


def _defined(nodes: list[ir.Node]) -> set[str]:
    """Names that get values among `nodes`."""
    found: set[str] = set()
    for n in nodes:
        if isinstance(n, (ir.For, ir.Let, ir.Assign)):
            found.add(n.var.name)
        elif isinstance(n, ir.Region):
            found |= {v.name for v in n.indices}
        elif isinstance(n, ir.Call) and n.result is not None:
            found.add(n.result.name)
        elif isinstance(n, ir.Rotate):
            found |= {v.name for v in n.slots}
    return found


def _of_buffer(places: list[tuple[Access, Path]], inside: set[str], options: Options) -> Iterator[_Accumulator]:
    groups: list[list[tuple[Access, Path]]] = []
    for access, path in places:
        home = next((g for g in groups if affine.same_element(g[0][0], access)), None)
        if home is None:
            groups.append([(access, path)])
        else:
            home.append((access, path))
    found: list[_Accumulator] = []
    for group in groups:
        accumulator = _of_group(group, inside, options)
        if accumulator is None:
            return
        found.append(accumulator)
    serial = any(isinstance(step, ir.For) for a in found for step in a.movers)
    apart = all(affine.apart(a.access, b.access) for a in found for b in found if a is not b)
    if len(found) > 1 and (serial or not apart):
        return  # perhaps one element under two names
    yield from (a for a, group in zip(found, groups, strict=True) if _accumulates([access for access, _ in group]))


def _accumulates(accesses: list[Access]) -> bool:
    stores = [a for a in accesses if isinstance(a, ir.Store)]
    return bool(stores) and (len(stores) < len(accesses) or any(s.op for s in stores))


def _of_group(group: list[tuple[Access, Path]], inside: set[str], options: Options) -> _Accumulator | None:
    """The accumulator of accesses to one element, or None where it is not private to a thread or not in place."""
    first, path = group[0]
    address = affine.names((*affine.element(first)[0], affine.element(first)[1], *first.view.slot))
    movers = _movers(path, address)
    if movers is None or any(a.checks or a.view.checks or _movers(p, address) != movers for a, p in group):
        return None
    accumulator = _Accumulator(first, movers)
    dims = accumulator.dims
    if address & (inside - {d.var.name for d in dims}) or any(d.size is None for d in dims):
        return None
    kept = 1
    for step in movers:
        if isinstance(step, ir.For):
            kept *= affine.Dim(step.var, step.stop).size or 1
    if kept > 1 and not accumulator.threads and (not options.arrays or _in_registers(first.view.buffer, options)):
        return None
    return accumulator if kept <= options.private and affine.distinct(first, dims) else None


def _in_registers(buffer: ir.Buffer, options: Options) -> bool:
    """Whether a thread's own storage is small enough that loops over it are written out: then it is in registers."""
    size = integers.value(integers.product((*map(integers.constant, buffer.slots), *buffer.shape)))
    return buffer.storage is ir.Storage.LOCAL and size is not None and size <= options.private


def _movers(path: Path, address: set[str]) -> tuple[ir.Region | ir.For, ...] | None:
    """The regions of a path and its loops that move the address; None if a condition or a loop outside a region makes
    it impossible to run through the elements by themselves."""
    movers: list[ir.Region | ir.For] = []
    for step in path:
        if isinstance(step, ir.Region):
            if movers and isinstance(movers[-1], ir.For):
                return None
            movers.append(step)
        elif isinstance(step, ir.For):
            if step.var.name in address:
                if integers.value(step.start) != 0 or step.step != 1:
                    return None
                movers.append(step)
        elif not isinstance(step, ir.Scope):
            return None
    return tuple(movers)


def _replace(loop: ir.Stmt, found: _Accumulator, name: str) -> tuple[list[ir.Stmt], ir.Stmt, list[ir.Stmt]]:
    """What stands before the loop, the loop, and what stands after it."""
    memory, span = found.access, loop.span
    load = ir.Load(memory.view, memory.index, span=memory.span)
    if not found.movers:
        scalar = ir.Var(name, found.buffer.dtype, ir.Role.MUTABLE)

        def to_scalar(node: ir.Node) -> ir.Node | None:
            if not isinstance(node, (ir.Load, ir.Store)) or not affine.same_element(node, memory):
                return None
            if isinstance(node, ir.Load):
                return scalar
            return ir.Assign(scalar, combined(scalar, node), span=node.span)

        let = ir.Let(scalar, load, span=span)
        back = ir.Store(memory.view, memory.index, scalar, span=memory.span)
        return [let], rewrite(loop, to_scalar), [back]
    dims = found.dims
    shape = tuple(d.extent for d in dims)
    register = views.whole(ir.Buffer(name, found.buffer.dtype, ir.Storage.REGISTER, shape, span=memory.span))
    index = tuple(d.var for d in dims)

    def to_register(node: ir.Node) -> ir.Node | None:
        if not isinstance(node, (ir.Load, ir.Store)) or not affine.same_element(node, memory):
            return None
        return dataclasses.replace(node, view=register, index=index)

    fetch = ir.Store(register, index, load, span=memory.span)
    keep = ir.Store(memory.view, memory.index, ir.Load(register, index), span=memory.span)
    declare = ir.Declare(register.buffer, span=span)
    return [declare, _around(found.movers, fetch)], rewrite(loop, to_register), [_around(found.movers, keep)]


def _around(movers: tuple[ir.Region | ir.For, ...], statement: ir.Stmt) -> ir.Stmt:
    for step in reversed(movers):
        statement = dataclasses.replace(step, body=(statement,))
    return statement


def combined(current: ir.Expr, store: ir.Store) -> ir.Expr:
    """The value that a store leaves in an element whose value is `current`."""
    if not store.op:
        return store.value
    compute = store.value.dtype
    left = current if current.dtype is compute else ir.Cast(current, compute)
    result = ir.Binary(store.op, left, store.value, compute)
    return result if compute is current.dtype else ir.Cast(result, current.dtype)
