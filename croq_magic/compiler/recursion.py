"""Room for deeply nested programs: trees are walked recursively, and Python stops at a depth of 1000 by default."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator

DEPTH = 20_000


@contextlib.contextmanager
def deep() -> Iterator[None]:
    """Lifts the recursion limit. Since Python 3.11 a call of a Python function takes no space on the C stack."""
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(max(limit, DEPTH))
    try:
        yield
    finally:
        sys.setrecursionlimit(limit)
