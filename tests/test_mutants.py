"""Programs with mistakes put in: the compiler finds them or accepts them, and what it accepts runs to an end.

CROQ_MUTANTS and CROQ_MUTANT_RUNS raise the numbers of mutants that are compiled and run.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections import Counter
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st
from mutant_runs import Runner, framed, strayed
from mutation import PROGRAMS, mutant

from croq_magic.compiler import pipeline
from croq_magic.compiler.diagnostics import CODES, show
from croq_magic.compiler.limits import CPU
from croq_magic.compiler.source import Source

COMPILED = int(os.environ.get("CROQ_MUTANTS", "2000"))

RUN = int(os.environ.get("CROQ_MUTANT_RUNS", "60"))
LIMIT = 2.0  # seconds of processor time


@pytest.fixture(autouse=True)
def _no_hang() -> Iterator[None]:
    """A compiler that goes round in circles ends with a traceback of where."""

    def stop(*_: object) -> None:
        raise TimeoutError("the compiler did not come to an end")

    before = signal.signal(signal.SIGPROF, stop)
    yield
    signal.setitimer(signal.ITIMER_PROF, 0)
    signal.signal(signal.SIGPROF, before)


def judge(text: str) -> bool:
    """Whether a text is accepted; anything but findings within it, in time, is a failure."""
    source = Source(text)
    signal.setitimer(signal.ITIMER_PROF, 5 * LIMIT)
    start = time.process_time()
    front = pipeline.front_end(source, CPU, {}, "all")
    seconds = time.process_time() - start
    signal.setitimer(signal.ITIMER_PROF, 0)
    assert seconds < LIMIT, f"{seconds:.1f} s for\n{text}"
    for found in front.report:
        assert found.code in CODES
        assert found.message
        for span in (found.span, *(note.span for note in found.notes if note.span is not None)):
            assert span.source is source
            assert 0 <= span.start <= span.end <= len(text)
        assert show(found)
    return not front.report.has_errors


def test_programs_without_changes_are_accepted() -> None:
    for name, text in PROGRAMS.items():
        assert judge(text), name


def test_stores_beside_an_array_are_seen() -> None:
    array = framed(np.arange(6, dtype=np.int16).reshape(2, 3))
    assert array.tolist() == [[0, 1, 2], [3, 4, 5]]
    array[:] = -1
    assert not strayed(array)
    np.lib.stride_tricks.as_strided(array, (3, 3), (6, 2))[2, 0] = 7
    assert strayed(array)


@seed(0)
@settings(max_examples=COMPILED * 5 // 4, deadline=None, database=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_mutants_are_judged(data: st.DataObject) -> None:
    judge(mutant(lambda count: data.draw(st.integers(0, count - 1))))


@pytest.mark.slow
def test_accepted_mutants_run_to_an_end(request: pytest.FixtureRequest) -> None:
    kinds: Counter[str] = Counter()
    number = 0
    with Runner() as runner:
        while kinds.total() < RUN:
            number += 1
            text = mutant(random.Random(number).randrange)
            if not judge(text):
                continue
            outcome = runner.run(text, number)
            kinds[outcome.kind] += 1
            assert not outcome.is_fault, f"mutant {number}: {outcome.kind}\n{outcome.text}\n{text}"
    print(dict(kinds))
    assert kinds["ok"] >= RUN // 3
