"""The parser made from grammar.lark: built once, kept on disk, loaded at first use.

Building takes a third of a second, loading some milliseconds. Where the cache cannot be written or is damaged, the
parser is built and all goes on without it.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
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
    grammar = _GRAMMAR.read_text(encoding="utf-8")
    key = hashlib.sha256("\0".join([grammar, lark.__version__, sys.version]).encode()).hexdigest()[:20]
    try:
        path = cache_folder() / f"grammar-{key}.cache"
    except RuntimeError:  # no home folder
        path = None
    parser = _read(path) if path else None
    if parser is None:
        parser = lark.Lark(
            grammar,
            parser="lalr",
            lexer=_TokensComeFromOutside,
            transformer=Actions(),
            keep_all_tokens=True,
            maybe_placeholders=True,
        )
        if path:
            _write(path, parser)
    # The actions belong to the parser's options, so they come back with it from the cache.
    return parser, parser.options.transformer


def _read(path: Path) -> lark.Lark | None:
    """The cached parser, or None if there is none, it is damaged, or the folder belongs to someone else."""
    try:
        if path.parent.stat().st_uid != os.getuid():  # a pickle is a program: read only our own
            return None
        digest, _, data = path.read_bytes().partition(b"\n")
        if digest != hashlib.sha256(data).hexdigest().encode():
            return None
        return lark.Lark.load(io.BytesIO(data))
    except Exception:  # whatever is wrong with the cache, building the parser anew puts it right
        return None


def _write(path: Path, parser: lark.Lark) -> None:
    buffer = io.BytesIO()
    parser.save(buffer)
    data = buffer.getvalue()
    with contextlib.suppress(OSError):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # A second process may write at the same time: the last rename wins, and both wrote the same.
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".grammar-")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(hashlib.sha256(data).hexdigest().encode() + b"\n" + data)
            os.replace(temporary, path)
        except OSError:
            os.unlink(temporary)
            raise
