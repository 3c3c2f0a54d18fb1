"""A pytest plugin for tests that can bring down the process they run in: kernels hang, and break CUDA's context.

    CROQ_PIECES=JOURNAL pytest -p targets.cuda.pieces ...

Every test writes into the journal, lines of JSON, when it begins and how it ends, and a run leaves out what an earlier
one has begun. So `scripts/gpu_check` may end a run that makes no progress and start another for the rest. A run ends by
itself when a test has broken the context: all that follow would fail with it.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from typing import Any

import pytest

JOURNAL = os.environ["CROQ_PIECES"]
OPTIONAL = {"IPython", "islpy", "lark", "pcpp"}  # modules without which most programs compile all the same


def _write(**what: Any) -> None:
    with open(JOURNAL, "a") as file:
        file.write(json.dumps(what) + "\n")


def _begun() -> set[str]:
    try:
        with open(JOURNAL) as file:
            return {line["begin"] for line in map(json.loads, file) if "begin" in line}
    except FileNotFoundError:
        return set()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    begun = _begun()
    gone = [item for item in items if item.nodeid in begun]
    items[:] = [item for item in items if item.nodeid not in begun]
    if gone:
        config.hook.pytest_deselected(items=gone)


def pytest_collection_finish(session: pytest.Session) -> None:
    _write(left=len(session.items))


def pytest_runtest_logstart(nodeid: str) -> None:
    _write(begin=nodeid)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[Any]:
    report = yield
    error = call.excinfo.value if call.excinfo is not None else None
    if isinstance(error, ModuleNotFoundError) and error.name in OPTIONAL:
        report.outcome, report.longrepr = "skipped", (str(item.path), 0, f"Skipped: needs {error.name}")
    return report


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.passed and report.when != "call":
        return
    said = ""
    if report.skipped and isinstance(report.longrepr, tuple):
        said = report.longrepr[2].removeprefix("Skipped: ")
    elif report.failed:
        crash = getattr(report.longrepr, "reprcrash", None)
        said = crash.message if crash is not None else str(report.longrepr)
    _write(end=report.nodeid, outcome=report.outcome, said=" ".join(said.split())[:300])


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[Any]:
    done = yield
    if _is_broken():
        item.session.shouldstop = "the CUDA context is broken"
    return done


def _is_broken() -> bool:
    """Whether the device answers no more."""
    runtime = getattr(getattr(sys.modules.get("cupy"), "cuda", None), "runtime", None)
    try:
        if runtime is not None:
            runtime.deviceSynchronize()
    except Exception:  # whatever CuPy raises for it
        return True
    return False
