"""Expressions and views: the parser's actions for the lower half of grammar.lark.

Every method is named after a rule and gets the values of its symbols, tokens included; absent optional parts are None.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from croq_magic.compiler import syntax as s
from croq_magic.compiler.diagnostics import Report
from croq_magic.compiler.lexer import ALIASES, ATOMICS, BARRIER_CALLS, MATH, RESERVED, Token, spell_number, string_value
from croq_magic.compiler.precedence import resolve
from croq_magic.compiler.source import Span

Kids = list[Any]  # what lark hands over: tokens, nodes, tuples of nodes and None

VIEW_WORDS = [
    ".span",
    ".data",
    ".mdata",
    ".at",
    ".chunkat",
    ".chunk",
    ".subspan",
    ".modspan",
    ".step",
    ".view",
    ".from",
    ".span_as",
    ".sqz",
    ".zfill",
    ".map",
    ".remap",
]
_LIMITS = {"int": 2**31 - 1, "s64": 2**63 - 1, "u32": 2**32 - 1, "u64": 2**64 - 1}


def cover(first: Token | s.Node, last: Token | s.Node) -> Span:
    """From the start of `first` to the end of `last`."""
    start, end = first.span, last.span
    return Span(start.source, start.start, max(start.end, end.end))


def nodes(kids: Kids) -> tuple[Any, ...]:
    """What is not punctuation."""
    return tuple(kid for kid in kids if kid is not None and not isinstance(kid, Token))


@dataclass(frozen=True, slots=True)
class Suffix:
    """A part of a chain after its name: `word` is ".at", "[" or "("; `args` is None for a word without parentheses."""

    span: Span
    word: str
    word_span: Span
    args: tuple[s.Expr, ...] | None = None
    strides: tuple[s.Expr, ...] | None = None


class ExpressionActions:
    """`report` takes the findings; `derivations` are the `a[i, j]` for which no shape context has been seen yet."""

    report: Report
    derivations: list[s.Derivation]

    def error(self, code: str, message: str, at: Token | s.Node | Span, hint: str | None = None) -> None:
        self.report.error(code, message, at if isinstance(at, Span) else at.span, hint=hint)

    # ---- names, types, literals

    def new_name(self, token: Token) -> s.Name:
        """A name that is declared."""
        if token.text in RESERVED:
            self.error("SYN01", f"`{token.text}` is a reserved word and cannot be declared", token)
        return s.Name(token.span, token.text)

    def names(self, kids: Kids) -> tuple[s.Name, ...]:
        return tuple(self.new_name(kid) for kid in kids if kid.type == "NAME")

    def type_word(self, token: Token) -> s.ElemType:
        return s.ElemType(token.span, ALIASES.get(token.text, token.text), token.text)

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

    # ---- operators

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

    # ---- brackets

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

    def pick(self, kids: Kids) -> Suffix:
        return Suffix(cover(kids[0], kids[2]), "(", kids[0].span, (kids[1],))

    def picked(self, kids: Kids) -> s.Expr:
        expr: s.Expr = kids[0]
        for suffix in kids[1:]:
            expr = self._pick(expr, suffix)
        return expr

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

    # ---- calls

    def scope(self, kids: Kids) -> Token:
        return kids[1]  # type: ignore[no-any-return]

    def _qname(self, tokens: Sequence[Token]) -> s.QName:
        parts = tuple(s.Name(token.span, token.text) for token in tokens)
        return s.QName(cover(parts[0], parts[-1]), parts)

    def call(self, kids: Kids) -> s.Expr:
        at = 2
        while isinstance(kids[at], Token) and kids[at].type == "NAME":
            at += 1
        _, template, _, _, args, closing = kids[at:]
        return s.CallExpr(cover(kids[0], closing), self._qname(kids[1:at]), template or (), args or ())

    def constants(self, kids: Kids) -> tuple[s.Expr, ...]:
        return nodes(kids)

    def constant_pair(self, kids: Kids) -> s.Expr:
        """`2:4`, of a sparsity pattern only."""
        return s.ShapeLit(cover(kids[0], kids[2]), (kids[0], kids[2]))

    def type_arg(self, kids: Kids) -> s.Expr:
        return s.TypeArg(kids[0].span, self.type_word(kids[0]))

    # ---- chains

    def dot(self, kids: Kids) -> Suffix:
        return Suffix(kids[0].span, kids[0].text, kids[0].span)

    def dot_call(self, kids: Kids) -> Suffix:
        word, _, args, _, strides, closing = kids
        if strides is not None and word.text not in (".subspan", ".modspan", ".view"):
            self.error("SYN01", f"`:` and strides do not belong to `{word.text}`", strides[0])
        return Suffix(cover(word, closing), word.text, word.span, args or (), strides)

    def dot_map(self, kids: Kids) -> Suffix:
        word, _, storage, _, _, args, closing = kids
        if storage.text != "local":
            self.error("SYN01", f"only `{word.text}<local>` exists", storage)
        return Suffix(cover(word, closing), word.text, word.span, args)

    def subscript(self, kids: Kids) -> Suffix:
        opening, items, closing = kids
        if items is None:
            self.error("SYN06", "a shape needs at least one extent", cover(opening, closing))
        return Suffix(cover(opening, closing), "[", opening.span, items or (s.IntLit(opening.span, 0, "int"),))

    def call_suffix(self, kids: Kids) -> Suffix:
        opening, args, closing = kids
        return Suffix(cover(opening, closing), "(", opening.span, args or ())

    def chain(self, kids: Kids) -> Any:
        name: Token = kids[0]
        if len(kids) == 1:
            return s.Wildcard(name.span) if name.text == "_" else s.NameRef(name.span, name.text)
        at = 1
        while at < len(kids) and isinstance(kids[at], Token):
            at += 1
        if at > 1:
            return self._scoped(kids[:at], kids[at:])
        return Chain(self, name).read(kids[1:])

    def _scoped(self, tokens: list[Token], suffixes: list[Suffix]) -> s.Expr:
        callee = self._qname(tokens)
        if not suffixes:
            return s.NameArg(callee.span, callee)
        if suffixes[0].word != "(":
            self.error("SYN01", f"expected `(` after `{callee.text}`", suffixes[0].word_span)
        elif len(suffixes) > 1:
            self.error("SYN01", "nothing can follow a call; bind its result first", suffixes[1].word_span)
        return s.IntrinsicCall(cover(callee, tokens[0]).to(suffixes[0].span), callee, suffixes[0].args or ())

    def _pick(self, base: s.Expr, suffix: Suffix) -> s.Expr:
        args = suffix.args or ()
        span = base.span.to(suffix.span)
        if len(args) != 1:
            self.error("SYN01", f"`(k)` picks one element, found {len(args)} arguments", suffix.span)
            return base
        return s.Pick(span, base, args[0])

    def view(self, expr: s.Expr) -> s.View:
        """What stands where the grammar wants a view."""
        if isinstance(expr, s.View):
            return expr
        if isinstance(expr, s.NameRef):
            return s.View(expr.span, s.BufferRef(expr.span, s.Name(expr.span, expr.text)))
        if isinstance(expr, s.BufferRef):
            return s.View(expr.span, expr)
        found, hint = "an expression", None
        if isinstance(expr, s.ElemRef):
            found, hint = "an element", "name a part of it, for example with `.subspan(1).at(i)`"
        elif isinstance(expr, s.SpanOf):
            found, hint = "a shape", f"leave out `.span`: `{expr.base.span.text}`"
        self.error("SYN01", f"expected a span or a view, found {found}", expr, hint)
        return s.View(expr.span, s.BufferRef(expr.span, s.Name(expr.span, "_")))

    def buffer(self, expr: s.Expr, what: str = "a fragment") -> s.BufferRef:
        """A name with subscripts, where the grammar wants no other expression."""
        if isinstance(expr, s.NameRef):
            return s.BufferRef(expr.span, s.Name(expr.span, expr.text))
        if isinstance(expr, s.BufferRef):
            return expr
        self.error("SYN01", f"expected the name of {what}", expr)
        return s.BufferRef(expr.span, s.Name(expr.span, "_"))


class Chain:
    """Reads `x[i].data.subspan(4).at(p)...` from left to right.

    Until the first view operation it collects a `BufferRef`; what ends a chain (`.span`, `.at` of a buffer, a call)
    goes to `done`; view operations go to `ops`, where `.at`, `.step` and `.from` complete the last one.
    """

    def __init__(self, actions: ExpressionActions, name: Token) -> None:
        self.actions = actions
        self.name = s.Name(name.span, name.text)
        self.span = name.span
        self.subscripts: tuple[s.Expr, ...] = ()
        self.data: Literal["data", "mdata"] | None = None
        self.ops: list[s.ViewOp] = []
        self.done: s.Expr | None = None

    def read(self, suffixes: list[Suffix]) -> s.Expr:
        for suffix in suffixes:
            span = self.span.to(suffix.span)
            if not self._step(suffix, span):
                return self.done or s.NameRef(self.name.span, self.name.text)
            self.span = span
        if self.done is not None:
            return self.done
        if self.ops:
            self._complete(self.ops[-1])
            return s.View(self.span, self._base(), tuple(self.ops))
        if self.subscripts or self.data:
            return self._base()
        return s.NameRef(self.span, self.name.text)

    def _base(self) -> s.BufferRef:
        first = self.name.span
        end = self.span if not self.ops else Span(first.source, first.start, self.ops[0].span.start)
        return s.BufferRef(end, self.name, self.subscripts, self.data)

    def _step(self, suffix: Suffix, span: Span) -> bool:
        """Adds one suffix; False after an error."""
        word, args = suffix.word, suffix.args
        if self.done is not None:
            return self._after_done(suffix, span)
        if word == "[":
            return self._subscript(suffix, span)
        if word == "(":
            return self._call(suffix, span)
        if word in (".data", ".mdata", ".zfill") and args is not None:
            return self._fail(f"`{word}` takes no parentheses", suffix)
        if word in VIEW_WORDS and word not in (".data", ".mdata", ".zfill", ".span") and args is None:
            return self._fail(f"expected `(` after `{word}`", suffix)
        if word in (".data", ".mdata"):
            if self.ops or self.data:
                return self._fail(f"`{word}` belongs directly after the name of a future", suffix)
            self.data = "data" if word == ".data" else "mdata"
        elif word == ".span":
            return self._span(suffix, span)
        elif word == ".at" and not self.ops:
            self.done = s.ElemRef(span, self._base(), args or ())
        else:
            return self._operation(suffix)
        return True

    def _span(self, suffix: Suffix, span: Span) -> bool:
        if self.ops:
            return self._fail("`.span` of a view: name the view first", suffix, "`v = ...; v.span`")
        self.done = s.SpanOf(self.span.to(suffix.word_span), self._base())
        if suffix.args is not None:  # `x.span(0)` is lexed as one suffix
            self.done = self.actions._pick(self.done, replace(suffix, span=suffix.span))
        return True

    def _after_done(self, suffix: Suffix, span: Span) -> bool:
        assert self.done is not None
        if suffix.word == "(" and isinstance(self.done, s.SpanOf | s.Pick):
            self.done = self.actions._pick(self.done, suffix)
        elif suffix.word == "[" and isinstance(self.done, s.SpanOf):
            self.done = s.Derivation(span, self.done, tuple(map(s.dimensions, suffix.args or ())), "shape")
        elif isinstance(self.done, s.ElemRef):
            return self._fail("nothing can follow an element `.at(...)`", suffix)
        else:
            return self._fail(f"`{suffix.word}` cannot stand here", suffix)
        return True

    def _subscript(self, suffix: Suffix, span: Span) -> bool:
        items = suffix.args or ()
        if self.ops:
            return self._fail("subscripts belong before view operations", suffix, "`t[i].subspan(...)`")
        if len(items) == 1:
            self.subscripts += items
            return True
        if self.subscripts or self.data:
            dims = ", ".join(item.span.text for item in items)
            return self._fail(f"use `.at({dims})` for elements; `[i][j]` indexes buffer arrays", suffix, code="SYN11")
        base = s.NameRef(self.name.span, self.name.text)
        derivation = s.Derivation(span, base, tuple(map(s.dimensions, items)), "shape")
        self.actions.derivations.append(derivation)
        self.done = derivation
        return True

    def _call(self, suffix: Suffix, span: Span) -> bool:
        args = suffix.args or ()
        if self.ops or self.subscripts or self.data:
            return self._fail("unexpected `(`", suffix, "elements are written `.at(...)`")
        text = self.name.text
        if text in MATH:
            self.done = s.Builtin(span, self.name, args)
        elif text in ATOMICS:
            self.done = s.AtomicCall(span, self.name, args)
        elif text in BARRIER_CALLS:
            self.done = s.BarrierCall(span, self.name, args)
        elif len(args) == 1:
            self.done = s.Pick(span, s.NameRef(self.name.span, text), args[0])
        else:
            self.done = s.IntrinsicCall(span, s.QName(self.name.span, (self.name,)), args)
        return True

    def _operation(self, suffix: Suffix) -> bool:
        args, strides = suffix.args or (), suffix.strides
        last = self.ops[-1] if self.ops else None
        whole = last.span.to(suffix.span) if last else suffix.span
        match suffix.word:
            case ".chunkat":
                return self._append(s.ChunkAt(suffix.span, args))
            case ".chunk":
                return self._append(s.Chunk(suffix.span, args, ()))
            case ".subspan":
                return self._append(s.Subspan(suffix.span, "subspan", args, strides))
            case ".modspan":
                return self._append(s.Subspan(suffix.span, "modspan", args, strides))
            case ".view":
                return self._append(s.Window(suffix.span, args, strides))
            case ".span_as":
                return self._append(s.SpanAs(suffix.span, args))
            case ".zfill":
                return self._append(s.ZeroFill(suffix.span))
            case ".sqz":
                if args:
                    return self._fail("`.sqz()` takes no arguments", suffix)
                return self._append(s.Squeeze(suffix.span))
            case ".at" if isinstance(last, s.Subspan) and last.at is None:
                self.ops[-1] = replace(last, span=whole, at=args)
            case ".at" if isinstance(last, s.Chunk) and not last.at:
                self.ops[-1] = replace(last, span=whole, at=args)
            case ".at":
                return self._fail("an element of a view: name the view first", suffix, "`v = ...; v.at(...)`")
            case ".step" if isinstance(last, s.Subspan) and last.step is None and last.at is None:
                self.ops[-1] = replace(last, span=whole, step=args)
            case ".step":
                return self._fail("`.step(...)` belongs directly after `.subspan(...)`", suffix)
            case ".from" if isinstance(last, s.Window) and last.origin is None:
                self.ops[-1] = replace(last, span=whole, origin=args)
            case ".from":
                return self._fail("`.from(...)` belongs directly after `.view(...)`", suffix)
            case ".map" | ".remap":
                return self._append(MapOp(suffix.span, "map" if suffix.word == ".map" else "remap", args))
            case word:
                near = difflib.get_close_matches(word, VIEW_WORDS, 1, 0.6)
                return self._fail(f"unknown word `{word}`", suffix, f"did you mean `{near[0]}`?" if near else None)
        return True

    def _append(self, op: s.ViewOp) -> bool:
        if self.ops:
            self._complete(self.ops[-1])
        self.ops.append(op)
        return True

    def _complete(self, op: s.ViewOp) -> None:
        if isinstance(op, s.Chunk) and not op.at:
            self.actions.error("SYN01", "`.chunk(...)` needs `.at(...)` after it", op)

    def _fail(self, message: str, suffix: Suffix, hint: str | None = None, code: str = "SYN01") -> bool:
        self.actions.error(code, message, suffix.word_span, hint)
        return False


@dataclass(frozen=True, eq=False, slots=True)
class MapOp(s.ViewOp):
    """`.map<local>(offset, length)`: only on its way into a `MapView`."""

    kind: Literal["map", "remap"]
    args: tuple[s.Expr, ...]
