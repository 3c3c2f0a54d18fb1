"""Blocks, loops, conditions and `parallel`."""

from __future__ import annotations

from dataclasses import replace

from croq_magic.compiler import syntax as s
from croq_magic.compiler.actions.base import BaseActions, Kids, cover, nodes
from croq_magic.compiler.lexer import Token


class StructureActions(BaseActions):
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
            level=s.Level(level.span, level.text),
            device=device and s.Name(device.span, device.text),
            cooperative=cooperative is not None,
        )

    def _bounds(self, bound: s.Expr) -> tuple[s.Expr, ...]:
        self.shape_context(bound.span)
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
        self.shape_context(bound.span)
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
