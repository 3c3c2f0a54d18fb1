"""The parser made from grammar.lark: built once, kept on disk, loaded at first use.

Building takes a third of a second, loading some milliseconds. Where the cache cannot be written or is damaged, the
parser is built and all goes on without it.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import sys
import tempfile
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

import lark
from lark.lexer import Lexer

from croq_magic.compiler.build import Actions

_GRAMMAR = Path(__file__).with_name("grammar.lark")


class _TokensComeFromOutside(Lexer):  # type: ignore[misc]
    """Lark wants a lexer; `parse.py` feeds the tokens itself."""

    def __init__(self, lexer_conf: Any) -> None:
        pass

    def lex(self, lexer_state: Any) -> Iterator[Any]:
        return iter(())


def cache_folder() -> Path:
    """`CROQ_CACHE_DIR`, else `croq_magic` in the user's cache folder (XDG_CACHE_HOME or ~/.cache)."""
    if folder := os.environ.get("CROQ_CACHE_DIR"):
        return Path(folder)
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "croq_magic"


@lru_cache(maxsize=1)
def load() -> tuple[lark.Lark, Actions]:
    """The parser and the object whose methods it calls. Both are shared: parse under a lock."""
    actions = Actions()
    grammar = _GRAMMAR.read_text(encoding="utf-8")
    key = hashlib.sha256("\0".join([grammar, lark.__version__, sys.version]).encode()).hexdigest()[:20]
    try:
        folder = cache_folder()
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if folder.stat().st_uid != os.getuid():  # the cache holds a pickle, which is a program: read only our own
            return _make(grammar, actions, None), actions
        path = folder / f"grammar-{key}.cache"
        if path.exists():
            return _make(grammar, actions, path), actions  # lark builds anew if the file is damaged
        # A second process may write at the same time: the last rename wins, and both wrote the same.
        handle, temporary = tempfile.mkstemp(dir=folder, prefix=".grammar-")
        os.close(handle)
        os.unlink(temporary)
        parser = _make(grammar, actions, Path(temporary))
        with contextlib.suppress(FileNotFoundError):
            os.replace(temporary, path)
        return parser, actions
    except (OSError, RuntimeError):  # not writable, or there is no home folder
        return _make(grammar, actions, None), actions


def _make(grammar: str, actions: Actions, cache: Path | None) -> lark.Lark:
    return lark.Lark(
        grammar,
        parser="lalr",
        lexer=_TokensComeFromOutside,
        transformer=actions,
        keep_all_tokens=True,
        maybe_placeholders=True,
        cache=str(cache) if cache else False,
    )
