"""Symbolic integers: index expressions kept in a canonical form.

An index expression is a polynomial with integer coefficients over atoms: variables, and divisions and remainders that
do not simplify. `M + 2 - M` is 2, `(M*4)/4` is `M`, `M/4*4` stays; `(16*p + q) / 16` is `p` when 0 <= q < 16.
Division truncates in the language; simplifications that need it to be a floor check the sign first.

The functions below (`add`, `mul`, `floordiv`, ...) build simplified expressions; `simplify` does so for a whole tree.
Anything that is not integer arithmetic (a load, a cast, a comparison) is an opaque atom.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable
from typing import TypeVar

from croq_magic.compiler import ir
from croq_magic.compiler.types import BOOL, S32, S64, DType

T = TypeVar("T")
Monomial = tuple[ir.Expr, ...]
ZERO, ONE = ir.Const(0), ir.Const(1)


@dataclasses.dataclass(frozen=True)
class Poly:
    """Sum of `coefficient * product of atoms`; terms keep their order of appearance, none is zero."""

    terms: tuple[tuple[Monomial, int], ...]

    @property
    def constant(self) -> int | None:
        """The value, if there is no atom."""
        if not self.terms:
            return 0
        return self.terms[0][1] if len(self.terms) == 1 and not self.terms[0][0] else None

    def coefficient(self, atom: ir.Expr) -> int:
        """Coefficient of the linear term in `atom`."""
        return next((c for m, c in self.terms if m == (atom,)), 0)

    def atoms(self) -> list[ir.Expr]:
        return list(dict.fromkeys(a for m, _ in self.terms for a in m))


def _poly(terms: Iterable[tuple[Monomial, int]]) -> Poly:
    total: dict[Monomial, int] = {}
    for monomial, coefficient in terms:
        found = total.get(monomial, 0) + coefficient
        if found:
            total[monomial] = found
        else:  # what comes again later comes last, as if the sum had been made step by step
            total.pop(monomial, None)
    return Poly(tuple(total.items()))


def _key(atom: ir.Expr) -> str:
    return atom.name if isinstance(atom, ir.Var) else repr(atom)


def _remembered(find: Callable[[ir.Expr], T]) -> Callable[[ir.Expr], T]:
    """`find`, whose answers are kept in the node: expressions never change, and each is asked about at every level of
    those that it is a part of. (A table would hash whole expressions, which takes as long as most answers.)"""
    key = f"_{find.__name__}"

    def remembering(e: ir.Expr) -> T:
        known: dict[str, T] = e.__dict__
        if key not in known:
            known[key] = find(e)
        return known[key]

    remembering.__doc__ = find.__doc__
    return remembering


@_remembered
def poly(e: ir.Expr) -> Poly:
    """The polynomial of an integer expression."""
    if isinstance(e, ir.Const) and isinstance(e.value, (int, bool)):
        return Poly((((), int(e.value)),)) if e.value else Poly(())
    if isinstance(e, ir.Unary) and e.op == "-" and e.dtype.is_integer:
        return _scale(poly(e.operand), -1)
    if isinstance(e, ir.Binary) and e.dtype.is_integer and not e.checked:
        if e.op in ("+", "-"):
            parts = [(poly(part), sign) for part, sign in _chain(e, ("+", "-"))]
            return _poly([term for p, sign in parts for term in _scale(p, sign).terms])
        if e.op == "*":
            return _product([poly(part) for part, _ in _chain(e, ("*",))])
        if e.op == "/":
            return _quotient(poly(e.left), poly(e.right))
        if e.op == "%":
            return _remainder(poly(e.left), poly(e.right))
    if isinstance(e, ir.Builtin) and e.name in ("__max", "__min") and e.dtype.is_integer:
        args = tuple(simplify(a) for a in e.args)
        (low0, high0), (low1, high1) = (interval(a) for a in args)
        first, second = args
        wants_large = e.name == "__max"
        if low0 is not None and high1 is not None and low0 >= high1:
            return poly(first if wants_large else second)
        if low1 is not None and high0 is not None and low1 >= high0:
            return poly(second if wants_large else first)
        return Poly((((dataclasses.replace(e, args=args),), 1),))
    return Poly((((e,), 1),))


def _scale(p: Poly, factor: int) -> Poly:
    return Poly(tuple((m, c * factor) for m, c in p.terms)) if factor else Poly(())


def _chain(e: ir.Binary, ops: tuple[str, ...]) -> list[tuple[ir.Expr, int]]:
    """The operands of `a + b - c` or `a * b * c`, with the sign of each: to go from each prefix to the next would take
    a long chain's length squared. A prefix whose polynomial is known is one operand."""
    parts: list[tuple[ir.Expr, int]] = []
    node: ir.Expr = e
    while isinstance(node, ir.Binary) and node.op in ops and node.dtype.is_integer and not node.checked:
        if "_poly" in node.__dict__:
            break
        parts.append((node.right, -1 if node.op == "-" else 1))
        node = node.left
    return [(node, 1), *reversed(parts)]


def _product(factors: list[Poly]) -> Poly:
    if all(len(factor.terms) == 1 for factor in factors):
        atoms = [atom for factor in factors for atom in factor.terms[0][0]]
        return Poly(((tuple(sorted(atoms, key=_key)), math.prod(factor.terms[0][1] for factor in factors)),))
    result = factors[0]
    for factor in factors[1:]:
        pairs = ((m, c, n, d) for m, c in result.terms for n, d in factor.terms)
        result = _poly((tuple(sorted((*m, *n), key=_key)), c * d) for m, c, n, d in pairs)
    return result


def _atom(op: str, a: Poly, b: Poly) -> Poly:
    return Poly((((ir.Binary(op, expr(a), expr(b), S32),), 1),))


def _split(a: Poly, d: int) -> tuple[Poly, Poly]:
    """`a = d * quotient + rest` with every coefficient of `rest` in [0, d), the constant included."""
    quotient = _poly((m, c // d) for m, c in a.terms)
    rest = _poly((m, c % d) for m, c in a.terms)
    return quotient, rest


def _exact(a: Poly, b: Poly) -> Poly | None:
    """`a / b` when `b` is a monomial that divides every term of `a`."""
    if len(b.terms) != 1:
        return None
    (divisor, coefficient) = b.terms[0]
    out: list[tuple[Monomial, int]] = []
    for monomial, c in a.terms:
        rest = list(monomial)
        for atom in divisor:
            if atom not in rest:
                return None
            rest.remove(atom)
        if c % coefficient:
            return None
        out.append((tuple(rest), c // coefficient))
    return _poly(out)


def _quotient(a: Poly, b: Poly) -> Poly:
    d = b.constant
    exact = _exact(a, b) if d != 0 else None
    if exact is not None:
        return exact
    if d is not None and a.constant is not None and d != 0:
        return _constant(truncated(a.constant, d))
    if d is not None and d > 0:
        low, _ = _interval(a)
        if low is not None and low >= 0:
            quotient, rest = _split(a, d)
            rest_low, rest_high = _interval(rest)
            if rest_low is not None and rest_high is not None and rest_low >= 0 and rest_high < d:
                return quotient
            if quotient.terms and rest_low is not None and rest_low >= 0:
                quotient_low, _ = _interval(quotient)
                if quotient_low is not None and quotient_low >= 0:
                    return _poly([*quotient.terms, *_atom("/", rest, b).terms])
    return _atom("/", a, b)


def _remainder(a: Poly, b: Poly) -> Poly:
    d = b.constant
    if d != 0 and _exact(a, b) is not None:
        return Poly(())
    if d is not None and d > 0:
        if a.constant is not None:
            return _constant(a.constant - d * truncated(a.constant, d))
        low, _ = _interval(a)
        if low is not None and low >= 0:
            _, rest = _split(a, d)
            rest_low, rest_high = _interval(rest)
            if rest_low is not None and rest_low >= 0:
                if rest_high is not None and rest_high < d:
                    return rest
                return _atom("%", rest, b)
    return _atom("%", a, b)


def truncated(a: int, d: int) -> int:
    """The quotient rounded towards zero."""
    return a // d if (a < 0) == (d < 0) else -(-a // d)


def _constant(value: int) -> Poly:
    return Poly((((), value),)) if value else Poly(())


def expr(p: Poly) -> ir.Expr:
    """The expression of a polynomial: terms in order, constants last."""
    result: ir.Expr | None = None
    for monomial, coefficient in sorted(p.terms, key=lambda term: not term[0]):
        term: ir.Expr | None = None
        magnitude = abs(coefficient)
        for atom in monomial:
            term = atom if term is None else ir.Binary("*", term, atom, S32)
        if term is None:
            term = constant(magnitude)
        elif magnitude != 1:
            term = ir.Binary("*", term, constant(magnitude), S32)
        if result is None:
            result = term if coefficient > 0 else negate_term(term)
        else:
            result = ir.Binary("+" if coefficient > 0 else "-", result, term, S32)
    return ZERO if result is None else result


def negate_term(term: ir.Expr) -> ir.Expr:
    if isinstance(term, ir.Const):
        return constant(-int(term.value))
    return ir.Unary("-", term, S32)


def constant(value: int) -> ir.Const:
    """An integer literal: s32 where it fits, else s64."""
    return ir.Const(value, S32 if -(1 << 31) <= value < 1 << 31 else S64)


def simplify(e: ir.Expr) -> ir.Expr:
    """Canonical form of an index expression."""
    if isinstance(e, (ir.Const, ir.Var)) or not _is_arithmetic(e):
        return e
    return expr(poly(e))


def _is_arithmetic(e: ir.Expr) -> bool:
    return isinstance(e, (ir.Binary, ir.Unary, ir.Builtin)) and e.dtype.is_integer


def binary(op: str, a: ir.Expr, b: ir.Expr, dtype: DType = S32) -> ir.Expr:
    return simplify(ir.Binary(op, a, b, dtype))


def add(a: ir.Expr, b: ir.Expr) -> ir.Expr:
    return binary("+", a, b)


def sub(a: ir.Expr, b: ir.Expr) -> ir.Expr:
    return binary("-", a, b)


def mul(a: ir.Expr, b: ir.Expr) -> ir.Expr:
    return binary("*", a, b)


def floordiv(a: ir.Expr, b: ir.Expr) -> ir.Expr:
    """`a / b` for operands of one sign, where truncation and floor agree."""
    return binary("/", a, b)


def mod(a: ir.Expr, b: ir.Expr) -> ir.Expr:
    return binary("%", a, b)


def ceildiv(a: ir.Expr, b: ir.Expr) -> ir.Expr:
    return floordiv(sub(add(a, b), ONE), b)


def product(items: Iterable[ir.Expr]) -> ir.Expr:
    result: ir.Expr = ONE
    for item in items:
        result = mul(result, item)
    return result


def row_major(extents: tuple[ir.Expr, ...]) -> tuple[ir.Expr, ...]:
    """Element strides of a contiguous array, last dimension fastest."""
    strides: list[ir.Expr] = []
    step: ir.Expr = ONE
    for extent in reversed(extents):
        strides.append(step)
        step = mul(step, extent)
    return tuple(reversed(strides))


def value(e: ir.Expr) -> int | None:
    """The integer a constant expression stands for, else None."""
    e = simplify(e)
    return int(e.value) if isinstance(e, ir.Const) and isinstance(e.value, (int, bool)) else None


def equal(a: ir.Expr, b: ir.Expr) -> bool:
    """Whether two expressions are the same polynomial."""
    return a is b or not poly(sub(a, b)).terms


Bounds = tuple[int | None, int | None]


@_remembered
def size(e: ir.Expr) -> int:
    """How many nodes an expression has when it is written out; parts that occur twice count twice."""
    return 1 + sum(size(part) for part in e.__dict__.values() if isinstance(part, ir.Expr))


@_remembered
def interval(e: ir.Expr) -> Bounds:
    """Inclusive integer bounds of `e` from the bounds its variables carry; None where unbounded."""
    if isinstance(e, ir.Const):
        return (int(e.value), int(e.value)) if isinstance(e.value, (int, bool)) else (None, None)
    if isinstance(e, ir.Var):
        low = interval(e.lower)[0] if e.lower is not None else None
        high = interval(e.upper)[1] if e.upper is not None else None
        least, most = _type_interval(e.dtype)
        return (least if low is None else low), (most if high is None else high - 1)
    if isinstance(e, ir.Load):
        return _type_interval(e.dtype)
    if isinstance(e, ir.Cast) and e.dtype.is_integer:
        low, high = interval(e.operand) if e.operand.dtype.is_integer else (None, None)
        least, most = e.dtype.range
        if low is not None and high is not None and least <= low and high <= most:
            return low, high
        return _type_interval(e.dtype)
    if isinstance(e, ir.Binary) and e.dtype.is_integer and e.op in ("/", "%"):
        return _division_interval(e)
    if isinstance(e, ir.Builtin) and e.name in ("__max", "__min") and e.dtype.is_integer:
        (low0, high0), (low1, high1) = (interval(a) for a in e.args)
        if e.name == "__max":
            return _pick(max, low0, low1, either=True), _pick(max, high0, high1, either=False)
        return _pick(min, low0, low1, either=False), _pick(min, high0, high1, either=True)
    if isinstance(e, ir.Select):
        (low0, high0), (low1, high1) = interval(e.then), interval(e.other)
        return _pick(min, low0, low1, either=False), _pick(max, high0, high1, either=False)
    if isinstance(e, (ir.Binary, ir.Unary)) and e.dtype.is_integer:
        p = poly(e)
        if p.terms != (((e,), 1),):
            return _interval(p)
        if isinstance(e, ir.Binary) and e.op == "&":
            mask = value(e.right)
            if mask is not None and mask >= 0:
                return 0, mask
        if isinstance(e, ir.Binary) and e.op in ("<<", ">>"):
            return _shift_interval(e)
    return None, None


def _type_interval(dtype: DType) -> Bounds:
    """What the element type alone says; of a wide signed type nothing worth a sum is known."""
    if not dtype.is_integer:
        return (0, 1) if dtype is BOOL else (None, None)
    low, high = dtype.range
    return (None, None) if dtype.is_signed and dtype.bits >= 32 else (low, high)


def _pick(choose: object, a: int | None, b: int | None, either: bool) -> int | None:
    if a is None or b is None:
        return (a if b is None else b) if either else None
    return choose(a, b)  # type: ignore[operator, no-any-return]


def _shift_interval(e: ir.Binary) -> Bounds:
    (low, high), (few, many) = interval(e.left), interval(e.right)
    if low is None or high is None or few is None or many is None or low < 0 or few < 0 or many > 31:
        return None, None
    if e.op == ">>":
        return low >> many, high >> few
    if high << many > e.dtype.range[1]:  # bits that leave the type are lost
        return None, None
    return low << few, high << many


def _division_interval(e: ir.Binary) -> Bounds:
    (low, high), d = interval(e.left), value(e.right)
    if d is None or d <= 0:
        divisor_low, _ = interval(e.right)
        if divisor_low is None or divisor_low < 1:
            return None, None
        if e.op == "/":
            return (0 if low is not None and low >= 0 else None), (high if high is not None and high >= 0 else None)
        _, divisor_high = interval(e.right)
        top = None if divisor_high is None else divisor_high - 1
        return (0 if low is not None and low >= 0 else None if top is None else -top), top
    if e.op == "%":
        return (0 if low is not None and low >= 0 else 1 - d), (d - 1 if high is None else max(0, min(high, d - 1)))
    return (None if low is None else truncated(low, d)), (None if high is None else truncated(high, d))


def _interval(p: Poly) -> Bounds:
    low: int | None = 0
    high: int | None = 0
    for monomial, coefficient in p.terms:
        term_low, term_high = monomial_interval(monomial)
        if coefficient < 0:
            term_low, term_high = term_high, term_low
        low = None if low is None or term_low is None else low + coefficient * term_low
        high = None if high is None or term_high is None else high + coefficient * term_high
    return low, high


def monomial_interval(monomial: Monomial) -> Bounds:
    """Inclusive bounds of a product of atoms."""
    low: int | None = 1
    high: int | None = 1
    for atom in monomial:
        atom_low, atom_high = interval(atom)
        if low is not None and atom_low is not None and low >= 0 and atom_low >= 0:
            low = low * atom_low
            high = None if high is None or atom_high is None else high * atom_high
        elif None not in (low, high, atom_low, atom_high):
            corners = [x * y for x in (low, high) for y in (atom_low, atom_high)]  # type: ignore[operator]
            low, high = min(corners), max(corners)
        else:
            return None, None
    return low, high
