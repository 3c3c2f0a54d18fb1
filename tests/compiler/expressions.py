"""Random index expressions for property tests, with their value by plain Python arithmetic."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping

from hypothesis import strategies as st

from croq_magic.compiler import ir
from croq_magic.compiler.types import BOOL, S32


def var(name: str, low: int, high: int, role: ir.Role = ir.Role.LOOP) -> ir.Var:
    """A variable with values low..high-1."""
    return ir.Var(name, S32, role, ir.Const(low), ir.Const(high))


def truncated(a: int, b: int) -> int:
    """C's integer division."""
    magnitude = abs(a) // abs(b)
    return magnitude if (a < 0) == (b < 0) else -magnitude


def evaluate(e: ir.Expr, values: Mapping[str, int]) -> int:
    """The mathematical value of an integer or boolean expression; ZeroDivisionError where C has none."""
    match e:
        case ir.Const(value=value):
            return int(value)
        case ir.Var(name=name):
            return values[name]
        case ir.Unary(op=op, operand=operand):
            value = evaluate(operand, values)
            return {"-": -value, "~": ~value, "!": int(not value)}[op]
        case ir.Select():
            return evaluate(e.then if evaluate(e.condition, values) else e.other, values)
        case ir.Cast():
            return evaluate(e.operand, values)
        case ir.Builtin(name=name, args=args):
            numbers = [evaluate(a, values) for a in args]
            return {"__max": max, "__min": min}[name](numbers)
        case ir.Binary(op=op):
            a = evaluate(e.left, values)
            if op == "&&":
                return int(bool(a) and bool(evaluate(e.right, values)))
            if op == "||":
                return int(bool(a) or bool(evaluate(e.right, values)))
            b = evaluate(e.right, values)
            if op in ("/", "%"):
                quotient = truncated(a, b)
                return quotient if op == "/" else a - b * quotient
            return int(_OPERATORS[op](a, b))
    raise TypeError(e)


_OPERATORS = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "<<": lambda a, b: a << b,
    ">>": lambda a, b: a >> b,
    "&": lambda a, b: a & b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
}


def points(variables: tuple[ir.Var, ...]) -> Iterator[dict[str, int]]:
    """All values of variables with constant bounds; bounds may depend on variables before them."""
    if not variables:
        yield {}
        return
    for outer in points(variables[:-1]):
        last = variables[-1]
        assert last.lower is not None and last.upper is not None
        for value in range(evaluate(last.lower, outer), evaluate(last.upper, outer)):
            yield {**outer, last.name: value}


def expressions(variables: tuple[ir.Var, ...], depth: int = 3) -> st.SearchStrategy[ir.Expr]:
    """Arithmetic with small constants; divisors are constants other than 0, or variables that are positive."""
    constants = st.integers(-9, 9).map(ir.Const)
    positive = [v for v in variables if isinstance(v.lower, ir.Const) and v.lower.value >= 1]
    divisors = st.sampled_from([-5, -2, 1, 2, 3, 4, 8, 16]).map(ir.Const)
    leaves = st.one_of(st.sampled_from(variables), constants)

    def wider(inner: st.SearchStrategy[ir.Expr]) -> st.SearchStrategy[ir.Expr]:
        divisor = st.one_of(divisors, st.sampled_from(positive)) if positive else divisors
        return st.one_of(
            st.builds(ir.Binary, st.sampled_from("+-*"), inner, inner, st.just(S32)),
            st.builds(ir.Binary, st.sampled_from("/%"), inner, divisor, st.just(S32)),
            st.builds(ir.Unary, st.just("-"), inner, st.just(S32)),
            st.builds(ir.Builtin, st.sampled_from(["__max", "__min"]), st.tuples(inner, inner), st.just(S32)),
        )

    return st.recursive(leaves, wider, max_leaves=2**depth)


def conditions(variables: tuple[ir.Var, ...]) -> st.SearchStrategy[ir.Expr]:
    """Comparisons and their combinations."""
    sides = expressions(variables, depth=1)
    comparison = st.builds(ir.Binary, st.sampled_from(["<", "<=", ">", ">=", "==", "!="]), sides, sides, st.just(BOOL))
    return st.recursive(
        comparison,
        lambda inner: st.one_of(
            st.builds(ir.Binary, st.sampled_from(["&&", "||"]), inner, inner, st.just(BOOL)),
            st.builds(ir.Unary, st.just("!"), inner, st.just(BOOL)),
        ),
        max_leaves=3,
    )


def grid(bounds: Mapping[str, tuple[int, int]]) -> Iterator[dict[str, int]]:
    names = list(bounds)
    for values in itertools.product(*(range(*bounds[n]) for n in names)):
        yield dict(zip(names, values, strict=True))
