"""The conformance programs, compiled and run on every target that can run here, against NumPy."""

from __future__ import annotations

import copy

import pytest
from programs.conformance import PROGRAMS, Conformance

import croq_magic as croq


@pytest.mark.parametrize("entry", PROGRAMS, ids=lambda entry: entry.name)
def test_program(entry: Conformance) -> None:
    case = entry.case()
    inputs = copy.deepcopy(case.inputs)
    result = croq.compile(entry.source(), target="cpu").functions[entry.function](*inputs.values())
    case.check(inputs[case.written] if case.written else result)
    for name, value in inputs.items():
        if name != case.written:
            assert (value == case.inputs[name]).all() if hasattr(value, "all") else value == case.inputs[name]
