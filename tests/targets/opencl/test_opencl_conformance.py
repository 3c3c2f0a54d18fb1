"""The conformance programs on OpenCL devices: what OpenCL can say gives NumPy's results, the rest a clear error."""

from __future__ import annotations

import numpy as np
import pytest
from programs.conformance import PROGRAMS, Conformance
from targets.opencl.opencl_devices import each_device

import croq_magic as croq

# Programs that OpenCL cannot express, and what is said about them.
IMPOSSIBLE = {
    "C45_producer_and_consumer": "events are not supported by the opencl target",
    "C46_older_event_idiom": "events are not supported by the opencl target",
    "C47_device_function": "the opencl target has no `__device__` functions",
    "C48_template_call": "the opencl target has no `__device__` functions",
    "C57_tma_pipeline": "events are not supported by the opencl target",
}


@each_device
@pytest.mark.parametrize("entry", PROGRAMS, ids=lambda entry: entry.name)
def test_results_are_those_of_numpy(entry: Conformance, arch: str) -> None:
    case = entry.case()
    inputs = {k: v.copy() if isinstance(v, np.ndarray) else v for k, v in case.inputs.items()}
    said = IMPOSSIBLE.get(entry.name)
    if said:
        with pytest.raises(croq.CompileError, match=said) as caught:
            croq.compile(entry.source(), target="opencl", arch=arch).functions[entry.function](**inputs)
        assert all(found.span.line for found in caught.value.diagnostics)
        return
    program = croq.compile(entry.source(), target="opencl", arch=arch)
    result = program.functions[entry.function](**inputs)
    case.check(inputs[case.written] if case.written else result)
