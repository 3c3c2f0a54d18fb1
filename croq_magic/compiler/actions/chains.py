"""Chains: a name with `[i]`, `.data`, `.span`, `.at(...)`, view operations or arguments after it."""

from __future__ import annotations

import difflib
from dataclasses import dataclass, replace
from typing import Any, Literal

from croq_magic.compiler import syntax as s
from croq_magic.compiler.actions.base import BaseActions, Kids, cover
from croq_magic.compiler.lexer import ATOMICS, BARRIER_CALLS, MATH, Token
from croq_magic.compiler.node import identity_node
from croq_magic.compiler.source import Span

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


@dataclass(frozen=True, slots=True)
class Suffix:
    """A part of a chain after its name: `word` is ".at", "[" or "("; `args` is None for a word without parentheses."""

    span: Span
    word: str
    word_span: Span
    args: tuple[s.Expr, ...] | None = None
    strides: tuple[s.Expr, ...] | None = None


@identity_node
class MapOp(s.ViewOp):
    """`.map<local>(offset, length)`: only on its way into a `MapView`."""

    kind: Literal["map", "remap"]
    args: tuple[s.Expr, ...]


class ChainActions(BaseActions):
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
        callee = self.qualified(tokens)
        if not suffixes:
            return s.NameArg(callee.span, callee)
        if suffixes[0].word != "(":
            self.error("SYN01", f"expected `(` after `{callee.text}`", suffixes[0].word_span)
        elif len(suffixes) > 1:
            self.error("SYN01", "nothing can follow a call; bind its result first", suffixes[1].word_span)
        return s.IntrinsicCall(cover(callee, tokens[0]).to(suffixes[0].span), callee, suffixes[0].args or ())

    def scope(self, kids: Kids) -> Token:
        return kids[1]  # type: ignore[no-any-return]

    def pick(self, kids: Kids) -> Suffix:
        return Suffix(cover(kids[0], kids[2]), "(", kids[0].span, (kids[1],))

    def picked(self, kids: Kids) -> s.Expr:
        expr: s.Expr = kids[0]
        for suffix in kids[1:]:
            expr = self.pick_element(expr, suffix)
        return expr

    def pick_element(self, base: s.Expr, suffix: Suffix) -> s.Expr:
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

    def __init__(self, actions: ChainActions, name: Token) -> None:
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
            self.done = self.actions.pick_element(self.done, replace(suffix, span=suffix.span))
        return True

    def _after_done(self, suffix: Suffix, span: Span) -> bool:
        assert self.done is not None
        if suffix.word == "(" and isinstance(self.done, s.SpanOf | s.Pick):
            self.done = self.actions.pick_element(self.done, suffix)
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
