"""Programs whose emitted text has lost a barrier, run in the emulator."""

from __future__ import annotations

import copy
import dataclasses
import re
from collections.abc import Iterator

import numpy as np
from programs.conformance import Conformance

from croq_magic.compiler import pipeline
from croq_magic.compiler.source import Source
from croq_magic.compiler.targets.emulate import module
from croq_magic.errors import CheckError
from croq_magic.program import Program

BARRIER = re.compile(
    r"__sync(threads|warp)\([^;]*\);|croq_bar_sync\([^;]*\);|croq_mbarrier_wait\([^;]*\);|croq_async_wait<\d+>\(\);|croq_grid_sync\([^;]*\);"
)


def mutants(entry: Conformance) -> Iterator[tuple[str, bool, str]]:
    """For each barrier and wait in the text of a program: what it is and where, whether the text without it is found
    out (by the emulator, or by a wrong result), and how."""
    arch = "sm_90a" if entry.name[:3] in ("C56", "C57") else None
    unit = pipeline.compile(Source(entry.source()), "emulate", arch)
    function = Program(unit).functions[entry.function]
    lowered = unit.functions[entry.function].lowered
    emission = unit.chosen.emit(unit.regions, [lowered])
    for match in BARRIER.finditer(emission.text):
        text = emission.text[: match.start()] + emission.text[match.end() :]
        built = module.load(dataclasses.replace(emission, text=text), lowered, True, unit.chosen.limits.arch)
        case = entry.case()
        inputs = copy.deepcopy(case.inputs)
        bound = function.binder.bind(tuple(inputs.values()))
        result = bound.plan.new_result()
        line = emission.text.count("\n", 0, match.start()) + 1
        what = f"{match[0]} at line {line}"
        try:
            value = built.launch(bound.values, bound.plan.dims, result)
            bound.write_back()
            given = inputs[case.written] if case.written else value if result is None else result
            case.check(np.asarray(given))
        except CheckError as error:
            yield what, True, str(error)
        except AssertionError:
            yield what, True, "wrong result"
        else:
            yield what, False, ""
