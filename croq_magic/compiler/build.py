"""Statements and functions: the parser's actions for the upper half of grammar.lark.

See `build_expr.py` for how actions are called. Mistakes that the grammar lets through are reported here, in words.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from croq_magic.compiler import syntax as s
from croq_magic.compiler.build_expr import Kids, MapOp, cover, nodes
from croq_magic.compiler.build_transfer import TransferActions
from croq_magic.compiler.diagnostics import Report
from croq_magic.compiler.lexer import Token
from croq_magic.compiler.source import Span

ATTRIBUTES = ("launch_bounds", "maxnreg", "schedule")


class Actions(TransferActions):
    """All actions, for one parse."""

    def __init__(self, report: Report) -> None:
        self.report = report
        self.derivations = []

    # ---- functions

    def start(self, kids: Kids) -> s.Function:
        for derivation in self.derivations:
            dims = ", ".join(item.span.text for item in derivation.items)
            self.error("SYN11", f"use `.at({dims})` for elements; `[i][j]` indexes buffer arrays", derivation)
        return kids[0]  # type: ignore[no-any-return]

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
            cover(storage or kind, last), kind, by_ref is not None, name and self.new_name(name), self._storage(storage)
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

    # ---- helpers

    def _storage(self, token: Token | None) -> s.StorageWord | None:
        return None if token is None else s.StorageWord(token.span, token.text)  # type: ignore[arg-type]

    def _level(self, token: Token) -> s.Level:
        return s.Level(token.span, token.text)

    def _shape_context(self, span: Span) -> None:
        """Inside `span`, `a[i, j]` is a derivation."""
        self.derivations = [derivation for derivation in self.derivations if derivation.span not in span]

    def _extents(self, dims: tuple[Any, ...] | None, span: Span) -> tuple[s.Expr, ...]:
        """The extents of a declaration in a body."""
        self._shape_context(span)
        if not dims:
            self.error("SYN06", "a shape needs at least one extent", span)
        for dim in dims or ():
            if isinstance(dim, s.ParamDim):
                self.error("DYN02", f"`{dim.span.text}` is allowed only in parameters", dim)
        return tuple(dim for dim in dims or () if isinstance(dim, s.Expr))

    def _not_mutable(self, token: Token | None, what: str) -> None:
        if token is not None and token.text == "mutable":
            self.error("TYP03", f"{what} cannot be mutable", token)

    # ---- blocks

    def block(self, kids: Kids) -> s.Block:
        return s.Block(cover(kids[0], kids[-1]), tuple(kids[1:-1]))

    def terminated(self, kids: Kids) -> s.Stmt:
        statement, semicolon = kids
        if isinstance(statement, Token):
            return s.Empty(statement.span)
        return replace(statement, span=cover(statement, semicolon))  # type: ignore[no-any-return]

    def empty(self, kids: Kids) -> s.Stmt:
        return s.Empty(kids[0].span)

    def pragma(self, kids: Kids) -> s.Stmt:
        kind, name = kids[0].text.split()
        return s.PragmaIntrinsic(kids[0].span, kind, s.Name(kids[0].span, name))

    # ---- declarations

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
        self._shape_context(value.span)
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
        storage = None if mutable else self._storage(qualifier)
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
        storage = None if qualifier is None or qualifier.text == "mutable" else self._storage(qualifier)
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
        return s.FragDecl(cover(keyword, items[-1]), self.dot_type(word), None, items)

    def event_decl(self, kids: Kids) -> s.Stmt:
        qualifier, keyword, _, count, _, *items = kids
        self._not_mutable(qualifier, "an event")
        storage = None if qualifier is None or qualifier.text == "mutable" else self._storage(qualifier)
        return s.EventDecl(
            cover(qualifier or keyword, items[-1]), storage, count and self.whole_number(count), nodes(items)
        )

    def event_item(self, kids: Kids) -> s.EventItem:
        name, *arrays, _, initial = kids
        last = initial or (arrays[-1] if arrays else name)
        word = initial and s.Name(initial.span, initial.text)
        return s.EventItem(cover(name, last), self.new_name(name), tuple(arrays), word)

    # ---- assignments

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
                self.error("SYN01", "a whole buffer cannot be assigned", target, "copy it: `dma.copy ... => ...`")
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

    # ---- structured statements

    def parallel(self, kids: Kids) -> s.Stmt:
        keyword, word, _, stream, _, *rest = kids
        body = rest.pop()
        if word is not None and word.text != ".async":
            self.error("SYN01", f"unknown word `{word.text}` after `parallel`", word, "only `.async` exists")
        stream_name = stream and s.Name(stream.span, stream.text)
        return s.Parallel(cover(keyword, body), (), word is not None, stream_name, nodes(rest), body)

    def axis(self, kids: Kids) -> s.AxisGroup:
        head, _, level, _, device, _, _, cooperative, closing = kids
        if level is None:
            return head  # type: ignore[no-any-return]
        if device is not None and level.text != "device":
            self.error("SYN01", f"`{level.text}` takes no name in parentheses; only `device` does", device)
        last = closing or kids[5] or level
        return replace(  # type: ignore[no-any-return]
            head,
            span=cover(head, last),
            level=self._level(level),
            device=device and s.Name(device.span, device.text),
            cooperative=cooperative is not None,
        )

    def _bounds(self, bound: s.Expr) -> tuple[s.Expr, ...]:
        self._shape_context(bound.span)
        return bound.items if isinstance(bound, s.ShapeLit) else (bound,)

    def axis_unnamed(self, kids: Kids) -> s.AxisGroup:
        return s.AxisGroup(cover(kids[0], kids[1]), (), None, self._bounds(kids[1]))

    def axis_named(self, kids: Kids) -> s.AxisGroup:
        name, _, bound = kids
        return s.AxisGroup(cover(name, bound), (self.new_name(name),), None, self._bounds(bound))

    def axis_braced(self, kids: Kids) -> s.AxisGroup:
        whole, _, opening, names, _, _, bound = kids
        name = whole and self.new_name(whole)
        return s.AxisGroup(cover(whole or opening, bound), names, name, self._bounds(bound), braced=True)

    def axis_bracketed(self, kids: Kids) -> s.AxisGroup:
        opening, names, closing, _, bound = kids
        items = ", ".join(name.text for name in names)
        shown = items if len(names) == 1 else f"{{{items}}}"
        self.error(
            "SYN08",
            "expected a name or `{names}` after `parallel`",
            cover(opening, closing),
            f"`parallel {shown} by {bound.span.text}`",
        )
        return s.AxisGroup(cover(opening, bound), names, None, self._bounds(bound), braced=len(names) > 1)

    def attribute(self, kids: Kids) -> s.Attribute:
        opening, name, _, args, _, _, closing = kids
        return s.Attribute(cover(opening, closing), s.Name(name.span, name.text), args or ())

    def attributed(self, kids: Kids) -> s.Stmt:
        attribute, statement = kids
        name = attribute.name.text
        span = cover(attribute, statement)
        if name == "schedule":
            if not isinstance(statement, s.MmaMultiply):
                self.error("MMA08", "the attribute applies to an MMA only", attribute)
                return statement  # type: ignore[no-any-return]
            return replace(statement, span=span, schedule=self.schedule(attribute))
        if not isinstance(statement, s.Parallel):
            self.error("SYN07", f"`{name}` belongs directly before `parallel`", attribute)
            return statement  # type: ignore[no-any-return]
        return replace(statement, span=span, attributes=(attribute, *statement.attributes))

    def with_(self, kids: Kids) -> s.Stmt:
        keyword, bindings, _, ties, body = kids
        return s.With(cover(keyword, body), bindings, ties or (), body)

    def bindings(self, kids: Kids) -> tuple[s.Binding, ...]:
        return nodes(kids)

    def binding(self, kids: Kids) -> s.Binding:
        name, _, bound = kids
        return s.Binding(cover(name, bound), (), self.new_name(name), self._bound(bound))

    def binding_braced(self, kids: Kids) -> s.Binding:
        whole, _, opening, names, _, _, bound = kids
        return s.Binding(cover(whole or opening, bound), names, whole and self.new_name(whole), self._bound(bound))

    def _bound(self, bound: s.Expr) -> s.Expr:
        self._shape_context(bound.span)
        if isinstance(bound, s.Count):
            self.error("SYN17", "a count is not a bound", bound, f"`[{bound.span.text}]`")
        return bound

    def ties(self, kids: Kids) -> tuple[s.Tie, ...]:
        return nodes(kids)

    def tie(self, kids: Kids) -> s.Tie:
        left, _, right = kids
        return s.Tie(cover(left, right), s.Name(left.span, left.text), s.Name(right.span, right.text))

    def foreach(self, kids: Kids) -> s.Stmt:
        keyword, heads, _, hints, body = kids
        bindings = tuple(head for head in heads if isinstance(head, s.Binding))
        ranges = tuple(head for head in heads if isinstance(head, s.Range))
        return s.Foreach(cover(keyword, body), bindings, ranges, hints or (), body)

    def ranges(self, kids: Kids) -> tuple[s.Range, ...]:
        return nodes(kids)

    def range(self, kids: Kids) -> s.Range:
        alias, _, name, _, lower, _, upper, _, step, closing = kids
        literal = step
        if step is not None and not isinstance(step, s.IntLit):
            self.error("SYN01", "the step of a range is a positive integer literal", step)
            literal = None
        span = cover(alias or name, closing or name)
        return s.Range(span, s.Name(name.span, name.text), alias and self.new_name(alias), lower, upper, literal)

    def hints(self, kids: Kids) -> tuple[s.Hint, ...]:
        return nodes(kids)

    def unroll(self, kids: Kids) -> s.Hint:
        return s.Hint(cover(kids[0], kids[3] or kids[0]), "unroll", factor=kids[2])

    def vectorize(self, kids: Kids) -> s.Hint:
        name = s.Name(kids[2].span, kids[2].text)
        return s.Hint(cover(kids[0], kids[-1]), "vectorize", name, kids[4])

    def while_(self, kids: Kids) -> s.Stmt:
        return s.While(cover(kids[0], kids[4]), kids[2], kids[4])

    def if_(self, kids: Kids) -> s.Stmt:
        keyword, _, condition, _, then, _, other = kids
        return s.If(cover(keyword, other or then), condition, then, other)

    def inthreads(self, kids: Kids) -> s.Stmt:
        keyword, word, _, condition, _, body = kids
        if word is not None and word.text != ".async":
            self.error("SYN01", f"unknown word `{word.text}` after `inthreads`", word, "only `.async` exists")
        return s.InThreads(cover(keyword, body), word is not None, condition, body)

    def apply(self, kids: Kids) -> s.Stmt:
        keyword, _, names, _, _, subject, body = kids
        if not isinstance(subject, s.SpanOf) or subject.base.subscripts or subject.base.data:
            self.error("SYN01", "expected `name.span` of a fragment after `in`", subject)
            return s.Apply(cover(keyword, body), names, s.Name(subject.span, "_"), body)
        return s.Apply(cover(keyword, body), names, subject.base.name, body)

    # ---- calls and the rest

    def call_stmt(self, kids: Kids) -> s.Stmt:
        expr = kids[0]
        if isinstance(expr, s.Pick) and isinstance(expr.base, s.NameRef):
            # With one argument a call looks like a pick.
            name = s.Name(expr.base.span, expr.base.text)
            expr = s.IntrinsicCall(expr.span, s.QName(name.span, (name,)), (expr.index,))
        if isinstance(expr, s.IntrinsicCall):
            return self._intrinsic(expr)
        if not isinstance(expr, s.CallLike):
            what = f"`{expr.span.text}`" if len(expr.span.text) < 40 else "this"
            self.error("SYN01", f"{what} is not a statement", expr, "assign it: `x = ...;`")
        return s.CallStmt(expr.span, expr)

    def _intrinsic(self, call: s.IntrinsicCall) -> s.Stmt:
        name = call.callee.text
        if name in ATTRIBUTES:
            inner = call.span.text
            target = "an MMA" if name == "schedule" else "`parallel`"
            self.error("SYN07", f"`{name}` is an attribute", call, f"write `[[{inner}]]` before {target}")
        elif name in ("copy", "reduce_max", "reduce_sum", "all_reduce_sum"):
            return self.fragment_operation(call)
        return s.CallStmt(call.span, call)

    def return_(self, kids: Kids) -> s.Stmt:
        return s.Return(cover(kids[0], kids[1] or kids[0]), kids[1])

    def break_(self, kids: Kids) -> s.Stmt:
        return s.Break(kids[0].span)

    def continue_(self, kids: Kids) -> s.Stmt:
        return s.Continue(kids[0].span)

    def yield_(self, kids: Kids) -> s.Stmt:
        return s.Yield(kids[0].span)

    def assert_(self, kids: Kids) -> s.Stmt:
        return s.Assert(cover(kids[0], kids[-1]), kids[2], kids[4].value)

    def print_(self, kids: Kids) -> s.Stmt:
        word, bang, _, args, closing = kids
        return s.Print(cover(word, closing), word.text == "println", bang is not None, args)

    def cpp(self, kids: Kids) -> s.Stmt:
        return s.CppEscape(cover(kids[0], kids[-1]), kids[2])

    def asm(self, kids: Kids) -> s.Stmt:
        at = 1
        while kids[at].type != "LPAR":
            if kids[at].text == "goto":
                self.error("SYN12", "`asm goto` is not supported", kids[at])
            at += 1
        volatile = any(kid.text == "volatile" for kid in kids[1:at])
        template, *parts, closing = kids[at + 1 :]
        sections: list[list[s.AsmOperand]] = [[]]
        for part in parts:
            if isinstance(part, s.AsmOperand):
                sections[-1].append(part)
            elif isinstance(part, Token) and part.type in ("COLON", "SCOPE"):
                sections += [[] for _ in part.text]
                if len(sections) > 4 and not any(kid.text == "goto" for kid in kids[1:at]):
                    self.error("SYN12", "inline assembly has at most three `:`", part)
        _, outputs, inputs, clobbers = (*sections, [], [], [])[:4]
        return s.Asm(
            cover(kids[0], closing),
            volatile,
            template,
            tuple(outputs),
            tuple(inputs),
            tuple(clobber.constraint for clobber in clobbers),
        )

    def asm_operand(self, kids: Kids) -> s.AsmOperand:
        opening, name, _, constraint, _, value, closing = kids
        span = cover(opening or constraint, closing or constraint)
        if value is None:
            value = s.StringLit(constraint.span, constraint.value)
        return s.AsmOperand(span, constraint.value, value, name and s.Name(name.span, name.text))
