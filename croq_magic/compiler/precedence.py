"""The precedence of operators (grammar section 6.1), applied to the flat lists that the parser finds."""

from __future__ import annotations

from collections.abc import Sequence

from croq_magic.compiler.lexer import Token
from croq_magic.compiler.source import Span
from croq_magic.compiler.syntax import Binary, Expr, Unary

# Operators by level, tightest first. Bitwise operators bind tighter than arithmetic, unlike in C.
LEVELS = {
    operator: level
    for level, operators in {
        3: "#",
        4: "& ^ |",
        6: "#* #/ #%",
        7: "#+ #-",
        8: "* / %",
        9: "+ -",
        10: "<< >>",
        11: "< > <= >=",
        12: "== !=",
        13: "&&",
        14: "||",
    }.items()
    for operator in operators.split()
}
LOOSEST = 14
PREFIX_LEVEL = 5  # of ! ++ -- - +; `~` (level 2) binds tighter than any infix operator


def resolve(items: Sequence[Expr | Token]) -> Expr:
    """`operand operator operand ...` as a tree. A `Unary` among the operands was written without parentheses."""
    left, at = _operand(items, 0)
    tree, used = _climb(items, left, at, LOOSEST)
    assert used == len(items)
    return tree


def _climb(items: Sequence[Expr | Token], left: Expr, at: int, loosest: int) -> tuple[Expr, int]:
    """`left` with all that follows from `at` up to an operator looser than `loosest`, and where that ends."""
    while at < len(items):
        operator = items[at]
        assert isinstance(operator, Token)
        level = LEVELS[operator.text]
        if level > loosest:
            break
        right, at = _operand(items, at + 1)
        right, at = _climb(items, right, at, level - 1)
        left = Binary(_join(left, right), operator.text, left, right)
    return left, at


def _operand(items: Sequence[Expr | Token], at: int) -> tuple[Expr, int]:
    operand = items[at]
    assert isinstance(operand, Expr)
    return _prefixed(operand, items, at + 1)


def _prefixed(operand: Expr, items: Sequence[Expr | Token], at: int) -> tuple[Expr, int]:
    """`-a & b` is -(a & b): the operand of a prefix reaches over the operators that bind tighter than it."""
    if not isinstance(operand, Unary) or operand.op == "~":
        return operand, at
    inner, at = _prefixed(operand.operand, items, at)
    inner, at = _climb(items, inner, at, PREFIX_LEVEL - 1)
    return Unary(_join(operand, inner), operand.op, inner), at


def _join(left: Expr, right: Expr) -> Span:
    return Span(left.span.source, left.span.start, max(left.span.end, right.span.end))
