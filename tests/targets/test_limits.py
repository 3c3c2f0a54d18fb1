"""Programs that ask for much: they run, or say what is too much; none overruns a stack."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator

import numpy as np
import pytest

import croq_magic as croq

X = np.arange(8, dtype=np.int32)


def run(body: str) -> np.ndarray:
    text = f"__co__ s32 [8] f(s32 [8] x) {{ s32 [8] r; {body} return r; }}"
    return croq.compile(text, target="cpu", checks="all").f(X)


def test_many_local_arrays_do_not_overrun_the_stack() -> None:
    declared = "".join(f"local s32 [8000] t{i} {{{i}}}; t{i}.at(p) += x.at(p);" for i in range(400))
    total = " + ".join(f"t{i}.at(p)" for i in range(0, 400, 57))
    result = run(f"parallel b by 1 : block, p by 8 : thread {{ {declared} r.at(p) = {total}; }}")
    used = range(0, 400, 57)
    assert result.tolist() == [sum(used) + len(used) * v for v in range(8)]


@pytest.mark.parametrize("rows", [2, 64])
def test_all_buffers_of_an_array_are_filled(rows: int) -> None:
    result = run(
        f"parallel b by 1 : block, p by 8 : thread {{ shared s32 [4] t[{rows}][{rows}] {{3}}; mutable s32 sum = 0; "
        f"foreach i in {rows}, j in {rows}, k in 4 sum += t[i][j].at(k); r.at(p) = sum; }}"
    )
    assert (result == 3 * 4 * rows * rows).all()


def test_tables_of_events_do_not_overrun_the_stack() -> None:
    result = run(
        "parallel b by 1 : block { shared event e[64][64]; parallel p by 512 : thread {"
        "  inthreads.async (p < 1) { trigger e; }"
        "  inthreads.async (p == 1) { wait e[3][5]; r.at(0) = 7; } } }"
    )
    assert result[0] == 7


def test_more_fibers_than_fit() -> None:
    with pytest.raises(croq.CompileError, match="1000000000 instances that wait for each other"):
        run(
            "parallel b by 1 : block { shared event e; parallel p by 1000000000 : thread {"
            "  inthreads.async (p < 1) { trigger e; } inthreads.async (p == 1) { wait e; r.at(0) = 7; } } }"
        )


class Alarm(Exception):
    pass


@pytest.fixture
def alarm() -> Iterator[None]:
    """An alarm rings after 0.3 seconds; what it stops must end within a few more."""

    def ring(*_: object) -> None:
        raise Alarm

    before = signal.signal(signal.SIGALRM, ring)
    start = time.monotonic()
    signal.setitimer(signal.ITIMER_REAL, 0.3)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)
    assert time.monotonic() - start < 5


def test_an_alarm_stops_a_function_that_prints_without_end(
    capsys: pytest.CaptureFixture[str], request: pytest.FixtureRequest
) -> None:
    function = croq.compile("__co__ void f(int n) { foreach i in n println(i); }", target="cpu").f
    function(1)
    request.getfixturevalue("alarm")
    with pytest.raises(Alarm):
        function(2**31 - 1)
    assert capsys.readouterr().out.startswith("0\n0\n1\n2\n")


def test_an_alarm_stops_fibers_that_never_wait(request: pytest.FixtureRequest) -> None:
    text = """__co__ s32 [8] f(s32 [8] x) { s32 [8] r;
      parallel b by 1 : block { shared event e; parallel p by 100000 : thread {
        mutable s32 sum = 0; foreach i in 20000 sum += x.at(i % 8) ^ sum; r.at(p % 8) = sum;
        inthreads.async (p < 1) trigger e;
        inthreads.async (p == 1) wait e;
      } }
      return r; }"""
    function = croq.compile(text, target="cpu").f
    request.getfixturevalue("alarm")
    with pytest.raises(Alarm):
        function(X)


MASKED = """__co__ void f(s8 [P, 16] a, s8 [16, Q] b, s32 [R, Q]& c) {
  parallel {n, m} by [cdiv(Q, 8), cdiv(P, 8)] : block, w by 1 : group {
    sa = dma.copy.zfill a.subspan(8, 16).at(m, 0) => shared;
    sb = dma.copy.zfill b.subspan(16, 8).at(0, n) => shared;
    acc = mma.fill.s32 0;
    fa = mma.load sa;
    fb = mma.load sb;
    mma.row.col acc, fa, fb;
    mma.store.mask acc, c.subspan(8, 8).at(m, n), P - m * 8, Q - n * 8;
  }
}"""


def test_a_mask_that_lets_too_much_through_is_a_failed_check() -> None:
    function = croq.compile(MASKED, target="cpu").f
    a = (np.arange(13 * 16) % 7 - 3).astype(np.int8).reshape(13, 16)
    b = (np.arange(16 * 10) % 5 - 2).astype(np.int8).reshape(16, 10)
    c = np.zeros((13, 10), np.int32)
    function(a, b, c)
    np.testing.assert_array_equal(c, a.astype(np.int32) @ b)
    with pytest.raises(croq.CheckError, match="out of range for dimension 0 of `c`, which has extent 9"):
        function(a, b, np.zeros((9, 10), np.int32))


def test_a_mask_that_fits_its_matrix_needs_no_check() -> None:
    assert "croq_fail" not in croq.compile(MASKED.replace("R", "P"), target="cpu", checks="all").source()


def test_blocks_below_a_cluster_have_their_own_storage() -> None:
    text = MASKED.replace("R", "P").replace(": block", ": cluster")
    a = (np.arange(13 * 16) % 7 - 3).astype(np.int8).reshape(13, 16)
    b = (np.arange(16 * 10) % 5 - 2).astype(np.int8).reshape(16, 10)
    c = np.zeros((13, 10), np.int32)
    croq.compile(text, target="cpu").f(a, b, c)
    np.testing.assert_array_equal(c, a.astype(np.int32) @ b)
