"""Shared fixtures, and the options that take programs of the CPU tests to other targets (`elsewhere.py`).

pytest --programs-on emulate tests/test_programs.py tests/test_execution.py ...
pytest --programs-also emulate,cubin
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--programs-on", help="compile programs that are meant for the CPU for this target")
    parser.addoption("--programs-also", help="and run them on others too: emulate, cubin")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--programs-on") or config.getoption("--programs-also"):
        from elsewhere import Elsewhere

        config.pluginmanager.register(Elsewhere(config), "elsewhere")


@pytest.fixture(autouse=True)
def _elsewhere(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    plugin = request.config.pluginmanager.get_plugin("elsewhere")
    if plugin is None:
        yield
        return
    with plugin.around(request.node, monkeypatch):
        yield


@pytest.fixture(autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Tests share one build cache of their own: they neither read nor fill the user's."""
    folder = Path(tmp_path_factory.getbasetemp()).parent / "croq-cache"
    monkeypatch.setenv("CROQ_CACHE_DIR", str(folder))
    yield


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[InteractiveShell]:
    """A fresh shell with the extension loaded."""
    from IPython.core.interactiveshell import InteractiveShell
    from traitlets.config import Config

    InteractiveShell.clear_instance()
    config = Config()
    config.HistoryManager.enabled = False
    made = InteractiveShell.instance(config=config, ipython_dir=str(tmp_path))
    made.run_line_magic("load_ext", "croq_magic")
    yield made
    InteractiveShell.clear_instance()
