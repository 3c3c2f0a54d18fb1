"""Loops and fibers compute the same: all conformance programs that both can run, bit for bit."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
from programs.conformance import PROGRAMS, Conformance

import croq_magic as croq


def outcome(entry: Conformance, strategy: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("CROQ_STRATEGY", strategy)
    case = entry.case()
    inputs = copy.deepcopy(case.inputs)
    result = croq.compile(entry.source(), target="cpu").functions[entry.function](*inputs.values())
    result = inputs[case.written] if case.written else result
    case.check(result)
    return result


@pytest.mark.parametrize("entry", PROGRAMS, ids=lambda entry: entry.name)
def test_both_strategies(entry: Conformance, monkeypatch: pytest.MonkeyPatch) -> None:
    fibers = outcome(entry, "fibers", monkeypatch)
    loops = outcome(entry, "loops", monkeypatch)
    if entry.name[:3] in ("C45", "C46", "C57"):
        np.testing.assert_array_equal(np.asarray(outcome(entry, "roles", monkeypatch)), np.asarray(loops))
    np.testing.assert_array_equal(np.asarray(fibers), np.asarray(loops))


def test_unknown_strategy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CROQ_STRATEGY", "threads")
    with pytest.raises(croq.TargetError, match="CROQ_STRATEGY must be auto, loops, roles or fibers, not 'threads'"):
        croq.compile("__co__ void f() { }", target="cpu")
