"""C++ files that travel with the package."""

from __future__ import annotations

from functools import cache
from pathlib import Path

INCLUDE = Path(__file__).resolve().parent / "include"


@cache
def header(name: str) -> str:
    """Text of a bundled file."""
    return (INCLUDE / name).read_text(encoding="utf-8")
