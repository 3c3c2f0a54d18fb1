"""Functions, parameters, declarations and assignments."""

from __future__ import annotations

import re
from typing import Any

from croq_magic.compiler import syntax as s
from croq_magic.compiler.actions.base import Kids, cover, nodes
from croq_magic.compiler.actions.chains import ChainActions, MapOp
from croq_magic.compiler.actions.expressions import ExpressionActions
from croq_magic.compiler.lexer import Token
from croq_magic.compiler.source import Span
from croq_magic.compiler.type_words import not_a_type

_DECLARED = re.compile(r"\s+[A-Za-z_]\w*\s*[;,{[]")  # a name and what may follow one that is declared


class DeclarationActions(ChainActions, ExpressionActions):
    def start(self, kids: Kids) -> s.Function:
        for derivation in self.derivations:
            self._misread(derivation)
        return kids[0]  # type: ignore[no-any-return]

    def _misread(self, derivation: s.Derivation) -> None:
        """`g[0, 1]` where no shape is wanted: an element, or the type of a declaration if a name follows."""
        after = derivation.span.source.text[derivation.span.end :]
        if isinstance(derivation.base, s.NameRef) and _DECLARED.match(after):
            message, hint = not_a_type(derivation.base.text)
            self.error("SYN01", message, derivation.base, hint)
            return
        dims = ", ".join(item.span.text for item in derivation.items)
        self.error("SYN11", f"use `.at({dims})` for elements; `[i][j]` indexes buffer arrays", derivation)

    def function(self, kids: Kids) -> s.Function:
        marker, result, name, _, params, _, body = kids
        return s.Function(
            cover(marker, body), result, self.new_name(name), params or (), body, marker.text == "__co_device__"
        )

    def result(self, kids: Kids) -> s.ParamType:
        if kids[0].type == "TYPE":
            return self._param_type(kids[0], kids[1])
        return s.ParamType(kids[0].span, kids[0].text)

    def params(self, kids: Kids) -> tuple[s.Param, ...]:
        return nodes(kids)

    def param(self, kids: Kids) -> s.Param:
        storage, kind, by_ref, name = kids
        last = name or by_ref or kind
        return s.Param(
            cover(storage or kind, last),
            kind,
            by_ref is not None,
            name and self.new_name(name),
            self.storage_word(storage),
        )

    def param_type(self, kids: Kids) -> s.ParamType:
        if kids[0].type == "TYPE":
            return self._param_type(kids[0], kids[1])
        return s.ParamType(kids[0].span, kids[0].text)

    def _param_type(self, word: Token, shape: s.ParamShape | None) -> s.ParamType:
        kind = self.type_word(word)
        return s.ParamType(cover(word, shape or word), kind.name, kind, shape)

    def param_shape(self, kids: Kids) -> s.ParamShape:
        span = cover(kids[0] or kids[1], kids[3])
        dims: list[Any] = list(kids[2] or ())
        if not dims:
            self.error("SYN06", "a shape needs at least one extent", span)
        if len(dims) == 1 and isinstance(dims[0], s.ShapeLit):  # doubled brackets are tolerated
            dims = list(dims[0].items)
        return s.ParamShape(span, tuple(self._param_dim(dim) for dim in dims))

    def _param_dim(self, dim: s.ParamDim | s.Expr) -> s.ParamDim:
        if isinstance(dim, s.ParamDim):
            return dim
        if isinstance(dim, s.NameRef):
            return s.ParamDim(dim.span, "symbol", symbol=dim.text)
        return s.ParamDim(dim.span, "const", value=dim)

    def anonymous_shape(self, kids: Kids) -> s.ParamShape:
        rank = self.whole_number(kids[2])
        dim = s.ParamDim(rank.span, "any")
        return s.ParamShape(cover(kids[0], kids[-1]), (dim,) * min(rank.value, 64))

    def dims(self, kids: Kids) -> tuple[s.ParamDim | s.Expr, ...]:
        return nodes(kids)

    def open_dim(self, kids: Kids) -> s.ParamDim:
        return s.ParamDim(kids[0].span, "any" if kids[0].text == "?" else "unbounded")

    def _extents(self, dims: tuple[Any, ...] | None, span: Span) -> tuple[s.Expr, ...]:
        """The extents of a declaration in a body."""
        self.shape_context(span)
        if not dims:
            self.error("SYN06", "a shape needs at least one extent", span)
        for dim in dims or ():
            if isinstance(dim, s.ParamDim):
                self.error("DYN02", f"`{dim.span.text}` is allowed only in parameters", dim)
        return tuple(dim for dim in dims or () if isinstance(dim, s.Expr))

    def _not_mutable(self, token: Token | None, what: str) -> None:
        if token is not None and token.text == "mutable":
            self.error("TYP03", f"{what} cannot be mutable", token)

    def mdspan_decl(self, kids: Kids) -> s.Stmt:
        mutable, keyword, _, rank, _, name, *arrays, sign, value = kids
        self._not_mutable(mutable, "a shape")
        self._no_array(arrays, name, "mdspan")
        if sign.text == "=":
            shown = f"`{keyword.text} {name.text} : {value.span.text}`" if isinstance(value, s.ShapeLit) else None
            self.error("SYN03", "a shape is defined with `:`", sign, shown)
        return self._mdspan(cover(mutable or keyword, value), name, value, rank and self.whole_number(rank), True)

    def short_mdspan_decl(self, kids: Kids) -> s.Stmt:
        target, _, value = kids
        if not isinstance(target, s.NameRef):
            self.error("SYN01", "expected a name before `:`", target)
            target = s.NameRef(target.span, "_")
        name = Token("name", target.text, target.span, "NAME")
        return self._mdspan(cover(target, value), name, value, None, False)

    def _mdspan(self, span: Span, name: Token, value: s.Expr, rank: s.IntLit | None, keyword: bool) -> s.Stmt:
        self.shape_context(value.span)
        if isinstance(value, s.TupleLit):
            self.error("SYN04", "an ituple is initialised with `=`", value, f"`{name.text} = {value.span.text}`")
        return s.MdspanDecl(span, self.new_name(name), value, rank, keyword)

    def ituple_decl(self, kids: Kids) -> s.Stmt:
        mutable, keyword, _, rank, _, name, *arrays, sign, value = kids
        self._not_mutable(mutable, "an ituple")
        self._no_array(arrays, name, "ituple")
        if sign.text == ":":
            self.error("SYN04", "an ituple is initialised with `=`", sign)
        elif isinstance(value, s.ShapeLit):
            self._shape_as_ituple(name.text, value)
        rank = rank and self.whole_number(rank)
        return s.ItupleDecl(cover(mutable or keyword, value), self.new_name(name), value, rank)

    def _no_array(self, arrays: list[s.Expr], name: Token, word: str) -> None:
        if arrays:
            rank = arrays[0].span.text
            hint = f"rank goes in angle brackets, `{word}<{rank}> {name.text}`"
            self.error("SYN05", f"{word} arrays do not exist", cover(arrays[0], arrays[-1]), hint)

    def _shape_as_ituple(self, name: str, value: s.ShapeLit) -> None:
        items = ", ".join(item.span.text for item in value.items)
        self.error(
            "SYN02",
            "an ituple is written with `{ }`",
            value,
            f"`{name} = {{{items}}}`; for a shape write `{name} : [{items}]`",
        )

    def scalar_decl(self, kids: Kids) -> s.Stmt:
        qualifier, word, items = kids
        mutable = qualifier is not None and qualifier.text == "mutable"
        storage = None if mutable else self.storage_word(qualifier)
        return s.ScalarDecl(cover(qualifier or word, items[-1]), mutable, self.type_word(word), items, storage)

    def untyped_decl(self, kids: Kids) -> s.Stmt:
        return s.ScalarDecl(cover(kids[0], kids[1][-1]), True, None, kids[1])

    def scalar_items(self, kids: Kids) -> tuple[s.ScalarItem, ...]:
        return nodes(kids)

    def scalar_item(self, kids: Kids) -> s.ScalarItem:
        name = self.new_name(kids[0])
        if len(kids) == 1:
            return s.ScalarItem(name.span, name, None)
        return s.ScalarItem(cover(kids[0], kids[-1]), name, kids[2], kids[1].text == "{")

    def span_decl(self, kids: Kids) -> s.Stmt:
        qualifier, word, opening, dims, closing, items = kids
        self._not_mutable(qualifier, "a span")
        storage = None if qualifier is None or qualifier.text == "mutable" else self.storage_word(qualifier)
        extents = self._extents(dims, cover(opening, closing))
        return s.SpanDecl(cover(qualifier or word, items[-1]), storage, self.type_word(word), extents, items)

    def buffer_items(self, kids: Kids) -> tuple[s.BufferItem, ...]:
        return nodes(kids)

    def buffer_item(self, kids: Kids) -> s.BufferItem:
        name, *arrays, _, value, closing = kids
        last = closing or (arrays[-1] if arrays else name)
        return s.BufferItem(cover(name, last), self.new_name(name), tuple(arrays), value)

    def array(self, kids: Kids) -> s.Expr:
        return kids[1]  # type: ignore[no-any-return]

    def frag_decl(self, kids: Kids) -> s.Stmt:
        keyword, word, opening, dims, closing, items = kids
        extents = None if isinstance(dims, Token) else self._extents(dims, cover(opening, closing))
        return s.FragDecl(cover(keyword, items[-1]), self.type_word(word), extents, items)

    def short_frag_decl(self, kids: Kids) -> s.Stmt:
        keyword, word, items = kids
        return s.FragDecl(cover(keyword, items[-1]), word and self.dot_type(word.text, word.span), None, items)

    def event_decl(self, kids: Kids) -> s.Stmt:
        qualifier, keyword, _, count, _, *items = kids
        self._not_mutable(qualifier, "an event")
        storage = None if qualifier is None or qualifier.text == "mutable" else self.storage_word(qualifier)
        return s.EventDecl(
            cover(qualifier or keyword, items[-1]), storage, count and self.whole_number(count), nodes(items)
        )

    def event_item(self, kids: Kids) -> s.EventItem:
        name, *arrays, _, initial = kids
        last = initial or (arrays[-1] if arrays else name)
        word = initial and s.Name(initial.span, initial.text)
        return s.EventItem(cover(name, last), self.new_name(name), tuple(arrays), word)

    def assigns(self, kids: Kids) -> s.Stmt:
        items = nodes(kids)
        if len(items) == 1:
            return items[0]  # type: ignore[no-any-return]
        for item in items:
            if isinstance(item, s.MapView):
                self.error("SYN01", "a mapped view is bound in a statement of its own", item)
        return s.Assigns(cover(items[0], items[-1]), tuple(item for item in items if isinstance(item, s.Assign)))

    def assign(self, kids: Kids) -> s.Stmt:
        target, sign, value = kids
        span = cover(target, value)
        if isinstance(value, s.View) and isinstance(value.ops[-1] if value.ops else None, MapOp):
            return self._map_view(span, target, value)
        if isinstance(target, s.NameRef):
            if sign.text == "=" and isinstance(value, s.ShapeLit):
                self._shape_as_ituple(target.text, value)
        elif isinstance(target, s.BufferRef):
            if sign.text == "=":
                index = ", ".join(e.span.text for e in target.subscripts) or "..."
                hint = f"`{target.name.text}.at({index})` is an element; `dma.copy ... => ...` copies a whole buffer"
                self.error("SYN01", "a whole buffer cannot be assigned", target, hint)
        elif not isinstance(target, s.ElemRef):
            self.error("SYN01", "cannot assign to this; expected a name or an element `x.at(...)`", target)
        return s.Assign(span, target, sign.text, value)

    def _map_view(self, span: Span, target: s.Expr, value: s.View) -> s.Stmt:
        op = value.ops[-1]
        assert isinstance(op, MapOp)
        if len(op.args) != 2:
            self.error("SYN01", f"`.{op.kind}<local>` takes an offset and a length", op)
        source = s.View(value.span, value.base, value.ops[:-1])
        offset, length = (*op.args, *op.args)[:2]
        return s.MapView(span, self.target_name(target), source, op.kind, offset, length)

    def target_name(self, target: s.Expr) -> s.Name:
        """The name on the left of `= dma...`, `= mma...`."""
        if isinstance(target, s.NameRef):
            return s.Name(target.span, target.text)
        self.error("SYN01", "expected a name on the left of this `=`", target)
        return s.Name(target.span, "_")
