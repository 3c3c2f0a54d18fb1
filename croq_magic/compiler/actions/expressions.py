"""Expressions: literals, operators, brackets, calls."""

from __future__ import annotations

from croq_magic.compiler import syntax as s
from croq_magic.compiler.actions.base import BaseActions, Kids, cover, nodes
from croq_magic.compiler.lexer import Token, spell_number, string_value
from croq_magic.compiler.precedence import resolve

_LIMITS = {"int": 2**31 - 1, "s64": 2**63 - 1, "u32": 2**32 - 1, "u64": 2**64 - 1}


class ExpressionActions(BaseActions):
    def number(self, kids: Kids) -> s.Expr:
        token: Token = kids[0]
        value = spell_number(token.text)
        if value is None:
            hint = "write it without leading zeros" if token.text[0] == "0" and token.text.isdigit() else None
            self.error("SYN01", f"`{token.text}` is not a number", token, hint)
            return s.IntLit(token.span, 0, "int")
        if isinstance(value, float):
            return s.FloatLit(token.span, value, token.text[-1] in "fF" and not token.text.startswith(("0x", "0X")))
        kind = self._integer_type(value, token)
        return s.IntLit(token.span, value, kind)

    def _integer_type(self, value: int, token: Token) -> str:
        digits = token.text.lower()
        suffix = digits[len(digits.rstrip("ul")) :]
        choices = ["s64"] if "ll" in suffix else ["int", "s64"]
        if "u" in suffix:
            choices = ["u64"] if "ll" in suffix else ["u32", "u64"]
        for kind in choices:
            if value <= _LIMITS[kind]:
                return kind
        widest = choices[-1]
        hint = "write it with the suffix `ull`" if widest == "s64" and value <= _LIMITS["u64"] else None
        self.error("SYN10", f"literal does not fit `{widest}` (max {_LIMITS[widest]})", token, hint)
        return widest

    def whole_number(self, token: Token) -> s.IntLit:
        """A number that the grammar wants to be an integer: a rank, an axis, a swizzle."""
        literal = self.number([token])
        if isinstance(literal, s.IntLit):
            return literal
        self.error("SYN01", f"expected an integer, found `{token.text}`", token)
        return s.IntLit(token.span, 1, "int")

    def strings(self, kids: Kids) -> s.StringLit:
        return s.StringLit(cover(kids[0], kids[-1]), "".join(map(string_value, kids)))

    def inf(self, kids: Kids) -> s.Expr:
        return s.InfLit(kids[0].span)

    def boolean(self, kids: Kids) -> s.Expr:
        return s.BoolLit(kids[0].span, kids[0].text == "true")

    def nullptr(self, kids: Kids) -> s.Expr:
        return s.NullPtr(kids[0].span)

    def exprs(self, kids: Kids) -> tuple[s.Expr, ...]:
        return nodes(kids)

    def infix(self, kids: Kids) -> s.Expr:
        return resolve(kids)

    def prefix(self, kids: Kids) -> s.Expr:
        return s.Unary(cover(kids[0], kids[1]), kids[0].text, kids[1])

    def postfix(self, kids: Kids) -> s.Expr:
        return s.Postfix(cover(kids[0], kids[1]), kids[1].text, kids[0])

    def ternary(self, kids: Kids) -> s.Expr:
        condition, _, then, _, other = kids
        return s.Ternary(cover(condition, other), condition, then, other)

    def address_of(self, kids: Kids) -> s.Expr:
        ampersand, operand = kids
        if not isinstance(operand, s.NameRef | s.BufferRef | s.ElemRef):
            self.error("SYN01", "`&` takes the address of a name or of an element `x.at(i)`", operand)
        return s.AddressOf(cover(ampersand, operand), operand)

    def paren(self, kids: Kids) -> s.Expr:
        return s.Paren(cover(kids[0], kids[2]), kids[1])

    def ituple(self, kids: Kids) -> s.Expr:
        if kids[1] is None:
            self.error("SYN01", "an ituple needs at least one item", cover(kids[0], kids[2]))
        return s.TupleLit(cover(kids[0], kids[2]), kids[1] or ())

    def shape(self, kids: Kids) -> s.Expr:
        if kids[1] is None:
            self.error("SYN06", "a shape needs at least one extent", cover(kids[0], kids[2]))
        return s.ShapeLit(cover(kids[0], kids[2]), kids[1] or ())

    def extent(self, kids: Kids) -> s.Expr:
        return s.Extent(cover(kids[0], kids[1]), s.Name(kids[1].span, kids[1].text))

    def count(self, kids: Kids) -> s.Expr:
        return s.Count(cover(kids[0], kids[2]), kids[1])

    def size_of(self, kids: Kids) -> s.Expr:
        return s.SizeOf(cover(kids[0], kids[2]), self.type_word(kids[1]))

    def cast(self, kids: Kids) -> s.Expr:
        word = kids[2]
        kind = word if isinstance(word, s.StringLit) else self.type_word(word)
        return s.Cast(cover(kids[0], kids[-1]), kind, kids[5])

    def select(self, kids: Kids) -> s.Expr:
        return s.Select(cover(kids[0], kids[-1]), kids[2], kids[4])

    def derived(self, kids: Kids) -> s.Expr:
        base, _, items, closing = kids
        if not isinstance(base, s.NameRef):
            self.error("SYN01", "an ituple is derived from a name: `t {(1), (0)}`", base)
            return s.TupleLit(cover(base, closing), items)
        return s.Derivation(cover(base, closing), base, tuple(map(s.dimensions, items)), "ituple")

    def call(self, kids: Kids) -> s.Expr:
        at = 2
        while isinstance(kids[at], Token) and kids[at].type == "NAME":
            at += 1
        _, template, _, _, args, closing = kids[at:]
        return s.CallExpr(cover(kids[0], closing), self.qualified(kids[1:at]), template or (), args or ())

    def constants(self, kids: Kids) -> tuple[s.Expr, ...]:
        return nodes(kids)

    def constant_pair(self, kids: Kids) -> s.Expr:
        """`2:4`, of a sparsity pattern only."""
        return s.ShapeLit(cover(kids[0], kids[2]), (kids[0], kids[2]))

    def type_arg(self, kids: Kids) -> s.Expr:
        return s.TypeArg(kids[0].span, self.type_word(kids[0]))
