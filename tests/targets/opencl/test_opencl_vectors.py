"""Element-wise levels as vectors in the form that OpenCL GPUs get, run by whatever device is there."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from targets.opencl.opencl_devices import needs_device
from targets.simt.test_vectors import PROGRAMS, numbers

import croq_magic as croq
from croq_magic.compiler.targets.opencl import devices


@needs_device
@pytest.mark.parametrize("name", list(PROGRAMS))
def test_programs(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    real = devices.features

    def gpu(device: Any) -> devices.Features:
        return real(device)._replace(cpu=False)

    monkeypatch.setattr(devices, "features", gpu)
    text, arrays, wanted = PROGRAMS[name]
    values = [numbers(dtype, *shape) for dtype, shape in arrays]
    right = wanted(*(value.copy() for value in values))
    function = next(iter(croq.compile(f"// as on a GPU\n{text}", target="opencl").functions.values()))
    function(*values)
    np.testing.assert_array_equal(values[-1], right)
    if name == "in place":
        assert "uint4" in function.source()
