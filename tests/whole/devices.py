"""The targets that a host can run kernels on beside the CPU, and the ways they do it: with memory of their own, and
with the host's."""

from __future__ import annotations

import pytest

from croq_magic.compiler.targets import base as targets
from croq_magic.errors import TargetError

# Target, and the environment that makes it work so.
WAYS = {
    "opencl": ("opencl", {}),
    "opencl-copies": ("opencl", {"CROQ_OPENCL_COPY": "1"}),
    "emulate": ("emulate", {}),
    "emulate-fast": ("emulate", {"CROQ_EMULATE": "fast"}),
}


def _missing(target: str) -> str:
    if target != "opencl":
        return ""
    try:
        _ = targets.choose(target).device  # type: ignore[attr-defined]
    except TargetError as error:
        return str(error)
    return ""


MISSING = {name: _missing(name) for name in {target for target, _ in WAYS.values()}}
NAMES = [
    pytest.param(name, marks=pytest.mark.skipif(bool(MISSING[target]), reason=MISSING[target]))
    for name, (target, _) in WAYS.items()
]


@pytest.fixture
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The target to build for, with the environment set."""
    target, environment = WAYS[request.param]
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    return target


each_way = pytest.mark.parametrize("way", NAMES, indirect=True)
