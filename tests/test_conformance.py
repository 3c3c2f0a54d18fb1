"""The conformance programs, compiled and run on every target that can run here, against NumPy."""

from __future__ import annotations

import copy

import pytest
from programs.conformance import PROGRAMS, Conformance

import croq_magic as croq

# Programs of constructs that are still to come: the test below fails when one of them starts to compile.
LATER = {"C45", "C46", "C57"}
NOW = [entry for entry in PROGRAMS if entry.name[:3] not in LATER]


@pytest.mark.parametrize("entry", NOW, ids=lambda entry: entry.name)
def test_program(entry: Conformance) -> None:
    case = entry.case()
    inputs = copy.deepcopy(case.inputs)
    result = croq.compile(entry.source(), target="cpu").functions[entry.function](*inputs.values())
    case.check(inputs[case.written] if case.written else result)
    for name, value in inputs.items():
        if name != case.written:
            assert (value == case.inputs[name]).all() if hasattr(value, "all") else value == case.inputs[name]


@pytest.mark.parametrize("entry", [e for e in PROGRAMS if e.name[:3] in LATER], ids=lambda entry: entry.name)
def test_program_of_a_later_version(entry: Conformance) -> None:
    with pytest.raises(croq.CompileError) as caught:
        croq.compile(entry.source(), target="cpu")
    assert {d.code for d in caught.value.diagnostics if d.severity == "error"} == {"UNS01"}
