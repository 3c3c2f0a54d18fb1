"""Matrix products on tiles and operations on fragments."""

from __future__ import annotations

from dataclasses import replace

from croq_magic.compiler import syntax as s
from croq_magic.compiler.actions.base import Kids, cover
from croq_magic.compiler.actions.transfers import SuffixWord, TransferActions
from croq_magic.compiler.source import Span


class TensorCoreActions(TransferActions):
    def result_transfer(self, kids: Kids) -> s.Stmt:
        target, _, transfer = kids
        name = self.target_name(target)
        span = cover(target, transfer)
        if isinstance(transfer, s.Empty):  # an operation that does not exist
            return transfer
        if isinstance(transfer, s.MmaMultiply) and not transfer.is_async:
            self.error("SYN01", "only an asynchronous MMA has a result", name, "add `.async`, or drop the name")
        elif isinstance(transfer, s.MmaStore | s.MmaScale | s.MmaCommit):
            self.error("SYN01", "this statement has no result", name)
            return transfer
        elif isinstance(transfer, s.MmaFill | s.MmaLoad) and transfer.target is not None:
            self.error("SYN01", "this form has no result; it writes to an existing fragment", name)
        return replace(transfer, span=span, result=name)  # type: ignore[no-any-return]

    def mma(self, kids: Kids) -> s.Stmt:
        words: list[SuffixWord] = [kid for kid in kids if isinstance(kid, SuffixWord)]
        args: tuple[s.Expr, ...] = kids[-1] or ()
        span = cover(kids[0], args[-1] if args else kids[-2])
        first = words[0].word if words else ""
        if first in (".row", ".col"):
            return self._multiply(span, words, args)
        action = {
            ".fill": self._fill,
            ".load": self._load,
            ".scale": self._scale,
            ".store": self._store,
            ".commit": self._commit,
        }.get(first)
        if action is not None:
            return action(span, words[1:], args)
        self._unknown_mma(span, words)
        return s.Empty(span)

    def _unknown_mma(self, span: Span, words: list[SuffixWord]) -> None:
        removed = {
            ".wait": "`wait f` on the future of the MMA",
            ".desc": "pass the shared view directly",
        }
        first = words[0].word if words else ""
        if first in removed:
            self.error("SYN14", f"`mma{first}` no longer exists", words[0].span, removed[first])
            return
        expected = "`.fill`, `.load`, `.row`, `.col`, `.scale`, `.store` or `.commit`"
        found = f"unknown operation `mma{first}`" if first else "`mma` needs an operation"
        self.error("SYN01", f"{found}; expected {expected}", words[0].span if words else span)

    def _arguments(self, span: Span, form: str, args: tuple[s.Expr, ...], *counts: int) -> tuple[s.Expr, ...]:
        """The arguments, filled up after an error so that the caller can go on."""
        if len(args) not in counts:
            self.error("SYN01", f"this form is written `{form}`; found {len(args)} arguments", span)
            return (*args, *[s.NameRef(span, "_")] * max(counts))[: max(counts)]
        return args

    def _no_suffixes(self, words: list[SuffixWord], operation: str, known: tuple[str, ...] = ()) -> None:
        for word in words:
            if word.word not in known:
                self.error("SYN01", f"unknown suffix `{word.word}` of `{operation}`", word.span)

    def _fill(self, span: Span, words: list[SuffixWord], args: tuple[s.Expr, ...]) -> s.Stmt:
        self._no_suffixes(words[1:], "mma.fill")
        kind = self.dot_type(words[0].word, words[0].span) if words else None
        form = "c = mma.fill.f32 v` or `mma.fill c, v"
        args = self._arguments(span, form, args, 1, 2)
        if len(args) == 1:
            return s.MmaFill(span, None, None, kind, args[0])
        return s.MmaFill(span, None, self.buffer(args[0]), kind, args[1])

    def _load(self, span: Span, words: list[SuffixWord], args: tuple[s.Expr, ...]) -> s.Stmt:
        self._no_suffixes(words, "mma.load", (".frag", ".swiz", ".swizzle", ".async"))
        args = self._arguments(span, "a = mma.load view` or `mma.load view, a", args, 1, 2)
        swizzle = next((word for word in words if word.word in (".swiz", ".swizzle")), None)
        value = None
        if swizzle is not None:
            if not swizzle.args or len(swizzle.args) != 1:
                self.error("SYN01", "the swizzle is written `.swiz<128>`", swizzle.span)
            else:
                self.constant(swizzle.args[0])
                value = swizzle.args[0] if isinstance(swizzle.args[0], s.IntLit) else None
        is_async = any(word.word == ".async" for word in words)
        target = self.buffer(args[1]) if len(args) == 2 else None
        return s.MmaLoad(span, None, target, self.view(args[0]), value, is_async)

    def _multiply(self, span: Span, words: list[SuffixWord], args: tuple[s.Expr, ...]) -> s.Stmt:
        layouts = [word.word[1:] for word in words[:2] if word.word in (".row", ".col")]
        if len(layouts) != 2:
            self.error("SYN01", "an MMA names two layouts, `.row` or `.col` each", words[0].span)
            layouts = (layouts + layouts)[:2]
        rest = words[2:]
        for word in rest:
            if word.word == ".order":
                hint = "`[[schedule(k_tiles(...))]]` before the statement"
                self.error("SYN14", "`.order<...>` no longer exists", word.span, hint)
        self._no_suffixes(rest, "mma", (".async", ".scale", ".sp", ".order"))
        names = [word.word for word in rest]
        prefix = "mma." + ".".join(layouts)
        scale = None
        metadata = None
        if ".scale" in names:
            args = self._arguments(span, f"{prefix}.scale c, a, b, sa, sb", args, 5)
            scale = (self.view(args[3]), args[4])
        elif ".sp" in names:
            args = self._arguments(span, f"{prefix}.sp c, a, b, meta", args, 3, 4)
            metadata = self.view(args[3]) if len(args) == 4 else None
        else:
            args = self._arguments(span, f"{prefix} c, a, b", args, 3)
        return s.MmaMultiply(
            span,
            None,
            layouts[0],  # type: ignore[arg-type]
            layouts[1],  # type: ignore[arg-type]
            self.buffer(args[0], "an accumulator"),
            self.view(args[1]),
            self.view(args[2]),
            is_async=".async" in names,
            sparse=".sp" in names,
            metadata=metadata,
            scale=scale,
        )

    def _scale(self, span: Span, words: list[SuffixWord], args: tuple[s.Expr, ...]) -> s.Stmt:
        self._no_suffixes(words, "mma.scale")
        args = self._arguments(span, "mma.scale c, sa, sb", args, 3)
        return s.MmaScale(span, self.buffer(args[0], "an accumulator"), self.view(args[1]), args[2])

    def _store(self, span: Span, words: list[SuffixWord], args: tuple[s.Expr, ...]) -> s.Stmt:
        self._no_suffixes(words, "mma.store", (".async", ".transp", ".mask"))
        names = [word.word for word in words]
        if ".mask" in names:
            args = self._arguments(span, "mma.store.mask c, view, rows, columns", args, 3, 4)
        else:
            args = self._arguments(span, "mma.store c, view", args, 2)
        return s.MmaStore(
            span,
            self.buffer(args[0]),
            self.view(args[1]),
            is_async=".async" in names,
            transpose=".transp" in names,
            mask=args[2:],
        )

    def _commit(self, span: Span, words: list[SuffixWord], args: tuple[s.Expr, ...]) -> s.Stmt:
        self._no_suffixes(words, "mma.commit")
        self._arguments(span, "mma.commit", args, 0)
        return s.MmaCommit(span)

    def fragment_operation(self, call: s.IntrinsicCall) -> s.Stmt:
        """`reduce_max(m, s, 1)`, `reduce_sum`, `all_reduce_sum(v)`, `copy(a, b)`."""
        name = call.callee.text
        if name == "all_reduce_sum":
            args = self._arguments(call.span, "all_reduce_sum(fragment)", call.args, 1)
            return s.AllReduce(call.span, self.buffer(args[0]))
        if name == "copy":
            args = self._arguments(call.span, "copy(to, from)", call.args, 2)
            return s.FragCopy(call.span, self.buffer(args[0]), self.buffer(args[1]))
        args = self._arguments(call.span, f"{name}(to, from, axis)", call.args, 3)
        axis = args[2] if isinstance(args[2], s.IntLit) else s.IntLit(args[2].span, self.constant(args[2]), "int")
        kind = "max" if name == "reduce_max" else "sum"
        return s.FragReduce(call.span, kind, self.buffer(args[0]), self.buffer(args[1]), axis)  # type: ignore[arg-type]

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
            return replace(statement, span=span, schedule=self._schedule(attribute))
        if not isinstance(statement, s.Parallel):
            self.error("SYN07", f"`{name}` belongs directly before `parallel`", attribute)
            return statement  # type: ignore[no-any-return]
        return replace(statement, span=span, attributes=(attribute, *statement.attributes))

    def _schedule(self, attribute: s.Attribute) -> tuple[int, ...] | None:
        """`[[schedule(k_tiles(1, 0))]]`."""
        call = attribute.args[0] if len(attribute.args) == 1 else None
        items: tuple[s.Expr, ...] | None = None
        if isinstance(call, s.IntrinsicCall) and call.callee.text == "k_tiles":
            items = call.args
        elif isinstance(call, s.Pick) and isinstance(call.base, s.NameRef) and call.base.text == "k_tiles":
            items = (call.index,)
        if not items:
            self.error("SYN07", "a schedule is written `[[schedule(k_tiles(0, 1))]]`", attribute)
            return None
        return tuple(self.constant(item) for item in items)
