"""How large the indices of a kernel for all shapes become, in terms of its extents.

Index arithmetic of 64 bits costs registers, and a division a hundred instructions. Arrays rarely need it: where every
sum and product that a kernel computes of its extents stays below 2^30, 32 bits are enough. `IndexLimits` collects what
must hold for that while the kernel's text is made; the host tests it at the launch.
"""

from __future__ import annotations

import dataclasses
from fractions import Fraction

from croq_magic.compiler import integers, ir
from croq_magic.compiler.types import BOOL, S32, S64

LARGEST = 1 << 30
_INDICES = (ir.Role.REGION, ir.Role.LOOP, ir.Role.COORD)
Dims = tuple[ir.Var, ...]  # a product of symbolic extents, by name
Size = dict[Dims, Fraction]  # a sum of such products: an upper bound of an absolute value


@dataclasses.dataclass
class IndexLimits:
    """What products of extents may be at most, so that all indices fit. `possible` is cleared where no limit helps."""

    limits: dict[Dims, int] = dataclasses.field(default_factory=dict)
    possible: bool = True

    def admit(self, e: ir.Expr) -> bool:
        """Whether extents can be limited so that an index fits; if so, they are."""
        size = magnitude(e)
        if size is None or size.get((), Fraction(0)) > LARGEST:
            return False
        terms = sum(1 for dims in size if dims) or 1
        for dims, factor in size.items():
            if dims:
                limit = int(LARGEST / max(Fraction(1), factor * terms))
                self.limits[dims] = min(limit, self.limits.get(dims, limit))
        return True

    def condition(self) -> ir.Expr:
        """The condition on the extents, over 64 bits; extents are at least 1, so what a stronger condition says of a
        larger product need not be said of a part of it."""
        found: ir.Expr = ir.TRUE
        for dims in sorted(self.limits, key=lambda dims: (len(dims), [var.name for var in dims])):
            limit = self.limits[dims]
            if any(_is_part(dims, other) and self.limits[other] <= limit for other in self.limits if other != dims):
                continue
            test: ir.Expr = ir.Binary("<=", _product(dims), ir.Const(limit, S64), BOOL)
            for count in range(len(dims) - 1, 1, -1):  # no product on the way may overflow either
                part = ir.Binary("<=", _product(dims[:count]), ir.Const(LARGEST, S64), BOOL)
                test = ir.Binary("&&", part, test, BOOL)
            found = test if found is ir.TRUE else ir.Binary("&&", found, test, BOOL)
        return found


def magnitude(e: ir.Expr) -> Size | None:
    """An upper bound of the absolute value of an index, None where there is none."""
    total: Size = {}
    for monomial, coefficient in integers.poly(e).terms:
        size: Size = {(): Fraction(abs(coefficient))}
        for atom in monomial:
            bound = _atom(atom)
            if bound is None:
                return None
            size = _times(size, bound)
        for dims, factor in size.items():
            total[dims] = total.get(dims, Fraction(0)) + factor
    return total


def _atom(atom: ir.Expr) -> Size | None:
    if isinstance(atom, ir.Var) and atom.role is ir.Role.DIM:
        return {(atom,): Fraction(1)}
    low, high = integers.interval(atom)
    if low is not None and high is not None:
        return {(): Fraction(max(abs(low), abs(high)))}
    if isinstance(atom, ir.Var):
        return magnitude(atom.upper) if atom.upper is not None and low is not None and low >= 0 else None
    if isinstance(atom, ir.Cast) and atom.dtype is S64 and atom.operand.dtype.is_integer:
        return magnitude(atom.operand)
    if isinstance(atom, ir.Binary) and atom.op in "/%" and atom.dtype.is_integer:
        left, divisor = magnitude(atom.left), integers.value(atom.right)
        if atom.op == "%" and left is not None and isinstance(atom.right, ir.Var):
            return _atom(atom.right) or left
        if left is not None and atom.op == "/" and divisor:
            return {dims: factor / abs(divisor) for dims, factor in left.items()}
        return left
    if isinstance(atom, ir.Builtin) and atom.name in ("__min", "__max", "cdiv") and atom.dtype.is_integer:
        sizes = [magnitude(arg) for arg in atom.args]
        total: Size = {}
        for size in sizes:
            if size is None:
                return None
            for dims, factor in size.items():
                total[dims] = total.get(dims, Fraction(0)) + factor
        return total
    return None


def bound(e: ir.Expr) -> Fraction | None:
    """An upper bound of the absolute value of an index that follows from types and constants, None where none does."""
    total = Fraction(0)
    for monomial, coefficient in integers.poly(e).terms:
        term = Fraction(abs(coefficient))
        for atom in monomial:
            found = _constant_bound(atom)
            if found is None:
                return None
            term *= found
        total += term
    return total


def _constant_bound(atom: ir.Expr) -> Fraction | None:
    low, high = integers.interval(atom)
    if low is not None and high is not None:
        return Fraction(max(abs(low), abs(high)))
    if isinstance(atom, ir.Var):
        return Fraction(1 << 31) if atom.dtype is S32 and atom.role in _INDICES else None
    divisor = integers.value(atom.right) if isinstance(atom, ir.Binary) and atom.op in "/%" else None
    if not divisor or not isinstance(atom, ir.Binary):
        return None
    if atom.op == "%":
        return Fraction(abs(divisor))
    left = bound(atom.left)
    return None if left is None else left / abs(divisor)


def _times(a: Size, b: Size) -> Size:
    found: Size = {}
    for left, x in a.items():
        for right, y in b.items():
            dims = tuple(sorted((*left, *right), key=lambda var: var.name))
            found[dims] = found.get(dims, Fraction(0)) + x * y
    return found


def _product(dims: Dims) -> ir.Expr:
    total: ir.Expr = ir.Cast(dims[0], S64)
    for var in dims[1:]:
        total = ir.Binary("*", total, ir.Cast(var, S64), S64)
    return total


def _is_part(dims: Dims, other: Dims) -> bool:
    """Whether a product is one factor or several of another."""
    rest = list(other)
    for var in dims:
        if var not in rest:
            return False
        rest.remove(var)
    return True
