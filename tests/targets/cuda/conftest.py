"""Tests here compile CUDA."""

from __future__ import annotations

import pytest

from croq_magic.compiler.targets.cuda import nvrtc
from croq_magic.errors import TargetError


@pytest.fixture(autouse=True, scope="session")
def _needs_nvrtc() -> None:
    try:
        nvrtc.nvrtc()
    except TargetError as error:
        pytest.skip(str(error))
