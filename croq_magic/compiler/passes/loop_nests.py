"""A thread region as a nest that may be reordered: parallel dimensions around the statements of one instance.

Instances of a region are independent, so any order that keeps the statements of each instance in sequence is a legal
schedule. Serial loops around all of an instance's statements join the parallel dimensions where that is proven:
different iterations store different elements, and what is stored is read at no other element. A nest that is not
understood in full stays as it is.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from croq_magic.compiler import affine, integers, ir
from croq_magic.compiler.affine import Dim
from croq_magic.compiler.passes.promote_accumulators import Options, promote
from croq_magic.compiler.types import F32, F64, S8, S16, S32, S64, U8, U16, U32, U64, DType
from croq_magic.compiler.visit import rewrite, substitute, walk

# Element types for which C++ compilers have vectors whose every operation is that of the scalars.
VECTOR_TYPES = frozenset({S8, S16, S32, S64, U8, U16, U32, U64, F32, F64})
_PLAIN = (ir.Let, ir.Assign, ir.Store)


@dataclasses.dataclass(frozen=True)
class Nest:
    """`body` is run for all values of `dims`, in any order."""

    dims: tuple[Dim, ...]
    body: ir.Body

    def accesses(self) -> Iterator[ir.Load | ir.Store]:
        return (n for n in walk(self.body) if isinstance(n, (ir.Load, ir.Store)))

    def stores(self) -> list[ir.Store]:
        return [n for n in walk(self.body) if isinstance(n, ir.Store)]

    @property
    def straight(self) -> bool:
        """No loop is left inside."""
        return not any(isinstance(s, ir.For) for s in self.body)

    @property
    def registers(self) -> bool:
        """It touches an accumulator that lives longer than the nest."""
        return any(a.view.buffer.storage is ir.Storage.REGISTER for a in self.accesses())


def of_region(region: ir.Region, taken: set[str]) -> Nest | None:
    """The nest of a region's instances, what they accumulate in scalars (`REGISTER` buffers excepted), or None where
    the region must stay as it is."""
    ones = {v: integers.ZERO for v, e in zip(region.indices, region.extents, strict=True) if integers.value(e) == 1}
    body = substitute(region.body, dict(ones))
    dims = tuple(Dim(v, e) for v, e in zip(region.indices, region.extents, strict=True) if v not in ones)
    nest = _absorb(Nest(dims, body))
    if nest is None or not nest.dims or not _understood(nest):
        return None
    return dataclasses.replace(nest, body=promote(nest.body, taken, Options()))


def _absorb(nest: Nest) -> Nest | None:
    """The nest with the serial loops around the whole body turned into dimensions where that is proven, and those that
    only accumulate moved inside."""
    chain: list[ir.For] = []
    body = nest.body
    moving = {d.var.name for d in nest.dims}
    while len(body) == 1 and isinstance(body[0], ir.For):
        loop = body[0]
        if loop.kind is not ir.LoopKind.SERIAL or loop.step != 1 or integers.value(loop.start) != 0:
            break
        if affine.depends((loop.stop,), moving | {c.var.name for c in chain}):
            break
        chain.append(loop)
        body = loop.body
    stores = [n for n in walk(body) if isinstance(n, ir.Store)]
    if not stores or not _in_place(body, stores):
        return None
    addresses = [affine.names((affine.element(s)[1], *affine.element(s)[0])) for s in stores]
    placing = [loop for loop in chain if all(loop.var.name in names for names in addresses)]
    if not all(isinstance(s, ir.Store) for s in body):
        # Loops may swap places only when nothing but stores is inside: keep what stands below the first other one.
        count = next((i for i, loop in enumerate(chain) if loop not in placing), len(chain))
        placing = chain[:count]
    dims = (*nest.dims, *(Dim(loop.var, loop.stop) for loop in placing))
    if placing and all(affine.distinct(s, dims) for s in stores):
        inner = body
        for loop in reversed([loop for loop in chain if not any(loop is p for p in placing)]):
            inner = (dataclasses.replace(loop, body=inner),)
        return Nest(dims, inner)
    return nest if all(affine.distinct(s, nest.dims) for s in stores) else None


def _in_place(body: ir.Body, stores: list[ir.Store]) -> bool:
    """Whether every buffer that is stored into is accessed at one element only (for given values of the indices)."""
    first: dict[ir.Buffer, ir.Store] = {}
    for s in stores:
        first.setdefault(s.view.buffer, s)
    accesses = [n for n in walk(body) if isinstance(n, (ir.Load, ir.Store)) and n.view.buffer in first]
    return all(affine.same_element(first[a.view.buffer], a) for a in accesses)


def _understood(nest: Nest) -> bool:
    """Whether all statements are scalars, element accesses without checks and loops that are the same for all."""
    moving = {d.var.name for d in nest.dims}
    varying = set(moving)

    def fine(body: ir.Body) -> bool:
        for s in body:
            if isinstance(s, ir.For):
                if s.kind is not ir.LoopKind.SERIAL or affine.depends((s.start, s.stop), varying):
                    return False
                if any(isinstance(n, ir.Load) for n in walk((s.start, s.stop))) or not fine(s.body):
                    return False
            elif isinstance(s, _PLAIN):
                if isinstance(s, (ir.Let, ir.Assign)):
                    varying.add(s.var.name)
            else:
                return False
        return True

    if not fine(nest.body):
        return False
    scalars = varying - moving
    for a in nest.accesses():
        if a.checks or a.view.checks or a.view.zfill:
            return False
        if affine.depends((*a.index, *a.view.slot), scalars) or any(isinstance(n, ir.Load) for n in walk(a.index)):
            return False  # an index that is computed or loaded
    return True


def vector_type(nest: Nest) -> DType | None:
    """The widest element type a nest computes in, or None if something in it has no exact vector form."""
    widest: DType | None = None
    for n in walk(nest.body):
        if not isinstance(n, (ir.Store, ir.Let, ir.Assign)):
            continue
        values = [n.value] if n.value is not None else []
        kinds = [n.view.buffer.dtype] if isinstance(n, ir.Store) else [n.var.dtype]
        if isinstance(n, ir.Store) and (n.op == "%" or (n.op == "/" and n.value.dtype.is_integer)):
            return None
        for value in values:
            found = _value_types(value)
            if found is None:
                return None
            kinds += found
        for dtype in kinds:
            if dtype not in VECTOR_TYPES:
                return None
            if widest is None or dtype.size > widest.size:
                widest = dtype
    return widest


def _value_types(e: ir.Expr) -> list[DType] | None:
    """Types of all parts of a value (indices excluded), None where a part has no exact vector form."""
    if isinstance(e, (ir.Var, ir.Const, ir.Load)):
        return [e.dtype]
    parts: tuple[ir.Expr, ...] = ()
    if isinstance(e, ir.Binary):
        parts = (e.left, e.right) if e.op in "+-*&|^" or (e.op == "/" and e.dtype.is_float) else ()
    elif isinstance(e, ir.Unary):
        parts = (e.operand,) if e.op in "-~" else ()
    elif isinstance(e, ir.Cast):
        parts = () if e.operand.dtype.is_float and e.dtype.is_integer else (e.operand,)
    if not parts:
        return None
    found = [e.dtype]
    for part in parts:
        inner = _value_types(part)
        if inner is None:
            return None
        found += inner
    return found


def collapse(nest: Nest, outer: Dim, inner: Dim) -> Nest | None:
    """The nest with two dimensions merged into one where every index moves with `outer * #inner + inner`, as `p#m`
    does; None where one does not, or a value depends on them."""
    size = inner.extent
    merged = ir.Var(
        f"{outer.var.name}_{inner.var.name}",
        inner.var.dtype,
        ir.Role.LOOP,
        integers.ZERO,
        integers.mul(outer.extent, size),
    )
    names = {outer.var.name, inner.var.name}
    possible = True

    def index(e: ir.Expr) -> ir.Expr:
        nonlocal possible
        if not affine.depends(e, names):
            return e
        big, small = affine.stride(e, outer.var), affine.stride(e, inner.var)
        if big is None or small is None or not integers.equal(big, integers.mul(small, size)):
            possible = False
            return e
        rest = substitute(e, {outer.var: integers.ZERO, inner.var: integers.ZERO})
        return integers.add(integers.mul(small, merged), rest)

    def change(node: ir.Node) -> ir.Node | None:
        if not isinstance(node, (ir.Load, ir.Store)):
            return None
        new = tuple(map(index, node.index))
        view = node.view
        if affine.depends((*view.map, view.offset), names):
            view = dataclasses.replace(view, map=tuple(map(index, view.map)), offset=index(view.offset))
        return dataclasses.replace(node, index=new, view=view)

    body = rewrite(nest.body, change)
    if not possible or affine.depends(body, names):
        return None
    both = Dim(merged, integers.mul(outer.extent, size), outer.sources | inner.sources)
    return Nest(tuple(both if d is inner else d for d in nest.dims if d is not outer), body)
