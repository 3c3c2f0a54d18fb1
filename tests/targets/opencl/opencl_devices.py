"""The OpenCL devices that tests run on: every one that this machine has."""

from __future__ import annotations

import pytest

from croq_magic.compiler.targets.opencl import devices
from croq_magic.errors import TargetError

try:
    COUNT = len(devices.devices())
    REASON = ""
except TargetError as error:
    COUNT, REASON = 0, str(error)

needs_device = pytest.mark.skipif(not COUNT, reason=REASON or "there is a device")
# The numbers of all devices as `arch`, and one skipped test where there is none.
EACH = [pytest.param(str(n), id=devices.devices()[n].platform.name) for n in range(COUNT)] or [
    pytest.param("0", marks=needs_device)
]
each_device = pytest.mark.parametrize("arch", EACH)


def features(arch: str) -> devices.Features:
    return devices.features(devices.choose(arch))
