"""Transfers, events and barriers: `dma`, `tma`, `wait`, `trigger`, `swap`, `rotate`, `sync`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from croq_magic.compiler import syntax as s
from croq_magic.compiler.actions.base import Kids, cover
from croq_magic.compiler.actions.declarations import DeclarationActions
from croq_magic.compiler.lexer import STORAGES, Token
from croq_magic.compiler.source import Span

OPS = (".copy", ".load", ".pad", ".transp")
# The order in which suffixes of a transfer are written; `.async` is the first after the operation.
ORDER = {".async": 0, ".evict_first": 1, ".evict_last": 1, ".swiz": 2, ".swizzle": 2, ".sp": 3, ".promote": 3}
MODIFIERS = (*ORDER, ".zfill", ".multicast")


@dataclass(frozen=True, slots=True)
class SuffixWord:
    """`.swiz<128>`, `.row`, `.f32`."""

    span: Span
    word: str
    args: tuple[s.Expr, ...] | None


class TransferActions(DeclarationActions):
    def suffix_word(self, kids: Kids) -> SuffixWord:
        word, _, args, closing = kids
        return SuffixWord(cover(word, closing or word), word.text, args)

    def dma(self, kids: Kids) -> s.Stmt:
        at = 1
        while at < len(kids) and isinstance(kids[at], SuffixWord):
            at += 1
        words: list[SuffixWord] = kids[1:at]
        source, _, destination, _, after = kids[at:]
        engine = kids[0].text
        span = cover(kids[0], after or (words[-1] if destination is None else destination))  # type: ignore[arg-type]
        op = words[0]
        if op.word in (".pad", ".transp") and op.args is None and len(words) > 1 and words[1].word == ".async":
            # `.async` before the configuration, as in `dma.transp.async<1, 0>`
            op = words[0] = SuffixWord(op.span, op.word, words[1].args)
            words[1] = SuffixWord(words[1].span, ".async", None)
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
            generation = inner.index[0] if inner.index else None
            return s.Waitable(expr.span, inner.base.name, inner.base.subscripts, generation)
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
