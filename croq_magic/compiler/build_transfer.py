"""Transfers, events, barriers and tensor-core statements: the parser's actions for `dma`, `tma`, `mma`, `wait`, ...

See `build_expr.py` for how actions are called.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from croq_magic.compiler import syntax as s
from croq_magic.compiler.build_expr import ExpressionActions, Kids, cover
from croq_magic.compiler.lexer import ALIASES, SCALAR_TYPES, STORAGES, Token
from croq_magic.compiler.source import Span

OPS = (".copy", ".load", ".pad", ".transp")
# The order in which suffixes of a transfer are written; `.async` is the first after the operation.
ORDER = {".async": 0, ".evict_first": 1, ".evict_last": 1, ".swiz": 2, ".swizzle": 2, ".sp": 3, ".promote": 3}
MODIFIERS = (*ORDER, ".zfill", ".multicast")
ENGINE_WORDS = (*OPS, *MODIFIERS, ".any")


@dataclass(frozen=True, slots=True)
class SuffixWord:
    """`.swiz<128>`, `.row`, `.f32`."""

    span: Span
    word: str
    args: tuple[s.Expr, ...] | None


class TransferActions(ExpressionActions):
    def target_name(self, target: s.Expr) -> s.Name:
        """The name on the left of `= dma...`, `= mma...`."""
        if isinstance(target, s.NameRef):
            return s.Name(target.span, target.text)
        self.error("SYN01", "expected a name on the left of this `=`", target)
        return s.Name(target.span, "_")

    def dot_type(self, token: Token | SuffixWord | None) -> s.ElemType | None:
        """`.f32` as a type."""
        if token is None:
            return None
        word = (token.text if isinstance(token, Token) else token.word)[1:]
        if word not in SCALAR_TYPES:
            self.error("SYN01", f"`{word}` is not an element type", token.span)
        return s.ElemType(token.span, ALIASES.get(word, word), word)

    def suffix_word(self, kids: Kids) -> SuffixWord:
        word, _, args, closing = kids
        return SuffixWord(cover(word, closing or word), word.text, args)

    def result_transfer(self, kids: Kids) -> s.Stmt:
        target, _, transfer = kids
        name = self.target_name(target)
        span = cover(target, transfer)
        if isinstance(transfer, s.MmaMultiply) and not transfer.is_async:
            self.error("SYN01", "only an asynchronous MMA has a result", name, "add `.async`, or drop the name")
        elif isinstance(transfer, s.MmaStore | s.MmaScale | s.MmaCommit):
            self.error("SYN01", "this statement has no result", name)
            return transfer
        elif isinstance(transfer, s.MmaFill | s.MmaLoad) and transfer.target is not None:
            self.error("SYN01", "this form has no result; it writes to an existing fragment", name)
        return replace(transfer, span=span, result=name)  # type: ignore[no-any-return]

    # ---- dma, tma

    def dma(self, kids: Kids) -> s.Stmt:
        at = 1
        while at < len(kids) and isinstance(kids[at], SuffixWord):
            at += 1
        words: list[SuffixWord] = kids[1:at]
        source, _, destination, _, after = kids[at:]
        engine = kids[0].text
        span = cover(kids[0], after or (words[-1] if destination is None else destination))  # type: ignore[arg-type]
        op = words[0]
        if op.word == ".any":
            return self._placeholder(span, kids[0], words, source)
        if op.word not in OPS:
            self._unknown_operation(engine, op, source, destination)
        if engine == "tma" and op.word in (".pad", ".transp"):
            self.error("SYN01", f"`tma{op.word}` does not exist", op.span, f"`dma{op.word}`")
        if source is None:
            self.error("SYN01", f"expected a source and `=>` after `{engine}{op.word}`", op.span)
            source = s.NameRef(span, "_")
        modifiers, is_async = self._modifiers(engine, words)
        return s.Dma(
            span,
            None,
            engine,
            op.word[1:] if op.word in OPS else "copy",  # type: ignore[arg-type]
            self._config(op),
            is_async,
            modifiers,
            source if isinstance(source, s.Select) else self.view(source),
            self._destination(destination, span),
            after and s.Name(after.span, after.text),
        )

    def _placeholder(self, span: Span, engine: Token, words: list[SuffixWord], source: Any) -> s.Stmt:
        if source is not None or len(words) > 1:
            self.error("SYN01", f"`{engine.text}.any` takes no source and no suffixes", words[0].span)
        return s.Placeholder(span, s.Name(span, ""), engine.text)  # type: ignore[arg-type]

    def _unknown_operation(self, engine: str, op: SuffixWord, source: Any, destination: Any) -> None:
        if op.word == ".store":
            rest = f" {source.span.text} => {destination.span.text}" if source is not None else ""
            self.error("SYN14", f"`{engine}.store` no longer exists", op.span, f"`{engine}.copy{rest}`")
        else:
            hint = "the operations are `.copy`, `.load`, `.pad` and `.transp`"
            self.error("SYN01", f"unknown operation `{engine}{op.word}`", op.span, hint)

    def _destination(self, destination: Any, span: Span) -> s.View | s.StorageWord | s.Select:
        if isinstance(destination, Token):
            return s.StorageWord(destination.span, destination.text)  # type: ignore[arg-type]
        if isinstance(destination, s.Select):
            return destination
        return self.view(destination or s.NameRef(span, "_"))

    def _config(self, op: SuffixWord) -> s.PadConfig | s.TransposeConfig | None:
        args = op.args
        if op.word == ".pad":
            if args and len(args) == 4 and all(isinstance(arg, s.TupleLit) for arg in args[:3]):
                low, high, mid = (arg.items for arg in args[:3] if isinstance(arg, s.TupleLit))
                return s.PadConfig(op.span, low, high, mid, args[3])
            self.error("SYN01", "padding is written `dma.pad<{low}, {high}, {mid}, value>`", op.span)
        elif op.word == ".transp":
            if args:
                return s.TransposeConfig(op.span, tuple(self.constant(arg) for arg in args))
            self.error("SYN01", "a transposition names the order of dimensions: `dma.transp<1, 0>`", op.span)
        elif args is not None:
            self.error("SYN01", f"`{op.word}` takes no `<...>`", op.span)
        return None

    def constant(self, expr: s.Expr) -> int:
        """A non-negative integer literal between `<` and `>`."""
        if isinstance(expr, s.IntLit):
            return expr.value
        self.error("SYN01", f"expected an integer, found `{expr.span.text}`", expr)
        return 0

    def _modifiers(self, engine: str, words: list[SuffixWord]) -> tuple[tuple[s.Modifier, ...], bool]:
        modifiers: list[s.Modifier] = []
        is_async = False
        seen: list[SuffixWord] = []
        for word in words[1:]:
            if word.word == ".async":
                is_async = True
                if word.args:
                    hint = f"`f = {engine}.copy.async ...; trigger {word.args[0].span.text} after f;`"
                    self.error("SYN14", f"`{engine}.copy.async<...>` no longer exists", word.span, hint)
            elif word.word not in MODIFIERS:
                self.error("SYN01", f"unknown suffix `{word.word}` of `{engine}`", word.span)
                continue
            else:
                modifiers.append(self._modifier(engine, words[0].word, word))
            self._check_order(word, seen)
            seen.append(word)
        return tuple(modifiers), is_async

    def _check_order(self, word: SuffixWord, seen: list[SuffixWord]) -> None:
        if any(other.word == word.word for other in seen):
            self.error("SYN15", f"`{word.word}` is written twice", word.span)
            return
        rank = ORDER.get(word.word)
        later = [other.word for other in seen if rank is not None and ORDER.get(other.word, -1) > rank]
        if not later:
            return
        if rank == 1:
            self.error("SYN15", f"eviction modifiers must come before `{later[0]}`", word.span)
        else:
            self.error("SYN15", f"`{word.word}` must come before `{later[0]}`", word.span)

    def _modifier(self, engine: str, op: str, word: SuffixWord) -> s.Modifier:
        args = word.args or ()
        if word.word == ".sp":
            args = args[0].items if len(args) == 1 and isinstance(args[0], s.ShapeLit) else args
        name = "swiz" if word.word == ".swizzle" else word.word[1:]
        wanted = {"swiz": (0, 1), "sp": (0, 2), "promote": (1,)}.get(name, (0,))
        if len(args) not in wanted:
            self.error("SYN01", f"`{word.word}` has the wrong number of arguments", word.span)
        if name.startswith("evict") and engine == "tma" and op == ".copy":
            self.error("SYN14", f"`tma.copy{word.word}` no longer exists", word.span, f"`tma.load{word.word}`")
        return s.Modifier(word.span, name, tuple(self.constant(arg) for arg in args))

    # ---- events, barriers

    def wait(self, kids: Kids) -> s.Stmt:
        items = tuple(self._waitable(expr) for expr in kids[1])
        return s.Wait(cover(kids[0], items[-1]), items)

    def trigger(self, kids: Kids) -> s.Stmt:
        keyword, word, events, _, futures = kids
        if word is not None and word.text != ".cluster":
            self.error("SYN01", f"unknown word `{word.text}` after `trigger`", word, "only `.cluster` exists")
        items = tuple(self._waitable(expr) for expr in events)
        after = tuple(self._waitable(expr) for expr in futures or ())
        return s.Trigger(cover(keyword, (*items, *after)[-1]), word is not None, items, after)

    def _waitable(self, expr: s.Expr) -> s.Waitable:
        inner = s.strip_parens(expr)
        if isinstance(inner, s.NameRef):
            return s.Waitable(expr.span, s.Name(inner.span, inner.text))
        if isinstance(inner, s.BufferRef) and not inner.data:
            return s.Waitable(expr.span, inner.name, inner.subscripts)
        if isinstance(inner, s.ElemRef) and not inner.base.data:
            if len(inner.index) != 1:
                self.error("SYN01", "`.at` of an event takes one argument, the generation", inner)
            return s.Waitable(expr.span, inner.base.name, inner.base.subscripts, inner.index[0])
        hint = None
        if isinstance(inner, s.BufferRef):
            hint = f"wait on the future itself: `{inner.name.text}`"
        self.error("SYN01", "expected a future or an event", expr, hint)
        return s.Waitable(expr.span, s.Name(expr.span, "_"))

    def rotate(self, kids: Kids) -> s.Stmt:
        names: tuple[s.Name, ...] = kids[1] if isinstance(kids[1], tuple) else kids[2]
        span = cover(kids[0], names[-1] if isinstance(kids[1], tuple) else kids[3])
        if kids[0].text == "rotate":
            if len(names) < 2:
                self.error("SYN16", "`rotate` takes at least two futures", span)
            return s.Rotate(span, names)
        if len(names) != 2:
            hint = "use `rotate` for more" if len(names) > 2 else None
            self.error("SYN16", "`swap` takes exactly two futures", span, hint)
        return s.Swap(span, names[0], names[-1])

    def sync(self, kids: Kids) -> s.Stmt:
        keyword, dotted, _, level, _, storage, closing = kids
        word = dotted.text[1:]
        span = cover(keyword, closing or level or dotted)
        if word in STORAGES:
            if level is not None:
                self.error("SYN01", f"`sync.{word}` takes no level", level)
            return s.Sync(span, s.StorageWord(dotted.span, word))
        if word not in ("barrier", "fence"):
            hint = "`sync.shared`, `sync.global`, `sync.local`, `sync.barrier : level` or `sync.fence : level`"
            self.error("SYN01", f"unknown word `.{word}` after `sync`", dotted, hint)
        elif level is None:
            self.error("SYN01", f"expected `: level` after `sync.{word}`", dotted, f"`sync.{word} : block`")
        elif storage is not None and word == "barrier":
            self.error("SYN01", "`sync.barrier` takes no storage", storage)
        where = s.Level(level.span, level.text) if level else s.Level(span, "block")
        if word == "fence":
            return s.Fence(span, where, storage and s.StorageWord(storage.span, storage.text))
        return s.Barrier(span, where)

    # ---- tensor cores

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
        kind = self.dot_type(words[0]) if words else None
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

    def schedule(self, attribute: s.Attribute) -> tuple[int, ...] | None:
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
