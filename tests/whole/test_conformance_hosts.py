"""Conformance programs called from C++: the same results as NumPy, whatever the parameters and the result are."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from programs.conformance import PROGRAMS, Conformance
from whole import hosts

import croq_magic as croq
from croq_magic import run
from croq_magic.compiler import whole

# One of every kind: extents that are symbolic, in-out, scalars, half precision, events, device functions, tensor cores.
NAMES = ("C03", "C06", "C28", "C36", "C45", "C47", "C51", "C54")
CHOSEN = [program for program in PROGRAMS if program.name.startswith(NAMES)]


@pytest.mark.parametrize("program", CHOSEN, ids=lambda program: program.name)
def test_a_host_gets_what_numpy_gives(program: Conformance, tmp_path: Path) -> None:
    case = program.case()
    source = program.source()
    signature = croq.compile(source, target="cpu").functions[program.function].compiled.signature
    hosts.write_inputs(signature, case.inputs, tmp_path)
    transpiled = whole.transpile(source + "\n" + hosts.host(signature, case.inputs, case.written), "cpu")
    done = whole.run(whole.executable(transpiled), [str(tmp_path)])
    run.require_success(done)
    case.check(hosts.result(case.expected, tmp_path))


def test_all_kinds_are_there() -> None:
    assert len(CHOSEN) == len(NAMES)
    assert all(dataclasses.is_dataclass(each) for each in CHOSEN)
