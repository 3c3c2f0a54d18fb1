"""Affine index expressions: what an index does when one variable takes a step, and whether iterations meet.

Passes that reorder loops ask two questions here: by how many elements does an access move in a variable (`stride`),
and do different iterations of some loops touch different elements (`distinct`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Sequence

from croq_magic.compiler import integers, ir, views
from croq_magic.compiler.visit import walk


@dataclasses.dataclass(frozen=True)
class Dim:
    """A variable that runs from 0 to `extent` in steps of 1; `parts` are the variables it was merged from."""

    var: ir.Var
    extent: ir.Expr
    parts: frozenset[str] = frozenset()

    @property
    def sources(self) -> frozenset[str]:
        """Names of the program's variables that this one stands for."""
        return self.parts or frozenset((self.var.name,))

    @property
    def size(self) -> int | None:
        """The extent where it is a constant."""
        return integers.value(self.extent)


def names(node: ir.Node | tuple[ir.Node, ...]) -> set[str]:
    """Names of all variables below a node; those of a view are its own coordinates and not counted."""
    found: set[str] = set()
    for item in walk(node):
        if isinstance(item, ir.Var) and item.role is not ir.Role.COORD:
            found.add(item.name)
    return found


def depends(node: ir.Node | tuple[ir.Node, ...], variables: Collection[str]) -> bool:
    """Whether a variable of these names occurs below a node."""
    return not names(node).isdisjoint(variables)


def stride(e: ir.Expr, variable: ir.Var) -> ir.Expr | None:
    """What `e` grows by when `variable` grows by 1; None when that is not the same everywhere."""
    terms: list[tuple[integers.Monomial, int]] = []
    for monomial, coefficient in integers.poly(e).terms:
        rest = list(monomial)
        if variable in rest:
            rest.remove(variable)
            terms.append((tuple(rest), coefficient))
        if any(variable.name in names(atom) for atom in rest):
            return None
    return integers.expr(integers.Poly(tuple(terms)))


def element(access: ir.Load | ir.Store | ir.Atomic) -> tuple[tuple[ir.Expr, ...], ir.Expr]:
    """Base coordinates and element offset of an access."""
    return views.element(access.view, access.index)


def same_element(a: ir.Load | ir.Store, b: ir.Load | ir.Store) -> bool:
    """Whether two accesses surely name the same element when their variables have the same values."""
    if a.view.buffer is not b.view.buffer or len(a.view.slot) != len(b.view.slot):
        return False
    slots = all(integers.equal(x, y) for x, y in zip(a.view.slot, b.view.slot, strict=True))
    return slots and integers.equal(element(a)[1], element(b)[1])


def apart(a: ir.Load | ir.Store, b: ir.Load | ir.Store) -> bool:
    """Whether two accesses surely name different elements when their variables have the same values."""
    if a.view.buffer is not b.view.buffer:
        return True
    pairs = zip((*a.view.slot, *element(a)[0]), (*b.view.slot, *element(b)[0]), strict=False)
    return any(integers.value(integers.sub(x, y)) not in (None, 0) for x, y in pairs)


def distinct(access: ir.Load | ir.Store, dims: Iterable[Dim]) -> bool:
    """Whether different values of `dims` surely give different elements.

    Proven on base coordinates, which are in range: every dimension moves one coordinate only, and within a coordinate
    each stride is larger than all that the smaller ones reach together. Else the same on the element offset.
    """
    moving = [d for d in dims if d.size != 1]
    coordinates, offset = element(access)
    return _distinct_by((*access.view.slot, *coordinates), moving) or _distinct_by((offset,), moving)


def _distinct_by(expressions: Sequence[ir.Expr], dims: Sequence[Dim]) -> bool:
    steps: list[dict[str, ir.Expr]] = []
    for e in expressions:
        of_one: dict[str, ir.Expr] = {}
        for d in dims:
            step = stride(e, d.var)
            if step is None:
                return False
            if integers.value(step) != 0:
                of_one[d.var.name] = step
        steps.append(of_one)
    left = {d.var.name: d.extent for d in dims}
    progress = True
    while left and progress:
        progress = False
        for of_one in steps:
            # Dimensions already known to be equal in two iterations that meet add the same to both.
            here = [name for name in of_one if name in left]
            if here and _mixed_radix([(of_one[name], left[name]) for name in here]):
                for name in here:
                    del left[name]
                progress = True
    return not left


def _mixed_radix(steps: list[tuple[ir.Expr, ir.Expr]]) -> bool:
    """Whether `sum(step * i)` differs for different i in their extents."""

    def size(item: tuple[ir.Expr, ir.Expr]) -> tuple[int, int]:
        p = integers.poly(item[0])
        constant = p.constant
        if constant is not None:
            return 0, abs(constant)
        return max(len(m) for m, _ in p.terms), max(abs(c) for _, c in p.terms)

    reach: ir.Expr = integers.ZERO
    for step, extent in sorted(steps, key=size):
        constant = integers.value(step)
        if constant is not None:
            step = integers.constant(abs(constant))
        low, _ = integers.interval(integers.sub(step, reach))
        if low is None or low < 1:
            return False
        reach = integers.add(reach, integers.mul(step, integers.sub(extent, integers.ONE)))
    return True
