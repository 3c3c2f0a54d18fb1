"""Shared fixtures."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Tests share one build cache of their own: they neither read nor fill the user's."""
    folder = Path(tmp_path_factory.getbasetemp()).parent / "croq-cache"
    monkeypatch.setenv("CROQ_CACHE_DIR", str(folder))
    yield
