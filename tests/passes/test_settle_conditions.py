"""settle-conditions: what always holds, or never, once extents are known."""

from __future__ import annotations

import numpy as np
import pytest

import croq_magic as croq
from croq_magic.compiler import ir
from croq_magic.compiler.passes.base import Context
from croq_magic.compiler.passes.settle_conditions import SettleConditions
from croq_magic.compiler.passes.specialise import Specialise
from croq_magic.compiler.text import format_body
from tests.passes.cells import front

PARAMS = "f32 [N] x, f32 [N]& y, int n"


def settled(body: str, **dims: int) -> str:
    """The first kernel for these extents after the pass, a line a statement."""
    functions, report = front(f"__co__ void f({PARAMS}) {{ {body} }}")
    assert not report.errors, report.text()
    function = Specialise(tuple(dims.items()))(functions["f"], Context())
    after = SettleConditions()(function, Context())
    return "\n".join(line.strip() for line in format_body(next(after.launches()).kernel.region.body).splitlines())


TILES = "parallel p by cdiv(N, 16) : block, t by 16 : thread {{ {} }}"
GUARDED = TILES.format("i = p * 16 + t; if (i < N) y.at(i) = x.at(i);")


def test_tiles_that_divide_the_extent_have_no_edges() -> None:
    assert "if" not in settled(GUARDED, N=64)
    assert "y[p * 16 + t] = x[p * 16 + t]" in settled(GUARDED, N=64)


@pytest.mark.parametrize("n", [1, 63, 65])
def test_others_do(n: int) -> None:
    assert f"if p * 16 + t < {n} {{" in settled(GUARDED, N=n)


def test_what_is_known_of_a_conjunction_goes() -> None:
    text = settled(TILES.format("i = p * 16 + t; if (i < N && t > n && i >= 0) y.at(i) = 1.0f;"), N=64)
    assert "if t > n {" in text


def test_what_never_holds_leaves_the_other_branch() -> None:
    text = settled(TILES.format("i = p * 16 + t; if (i >= N) y.at(0) = 1.0f; else y.at(i) = 2.0f;"), N=64)
    assert "if" not in text and "1.0f" not in text and "y[p * 16 + t] = 2.0f" in text


def test_conditions_around_count() -> None:
    text = settled(TILES.format("if (t < n) { if (t <= n) y.at(p * 16 + t) = 1.0f; }"), N=64)
    assert text.count("if") == 1


def test_a_condition_on_what_changes_stays() -> None:
    body = "mutable int k = 0; foreach i in 4 { if (k < 2) { k = k + 1; if (k < 2) y.at(p * 16 + t) += 1.0f; } }"
    assert settled(TILES.format(body), N=64).count("if") == 2


def test_a_branch_that_leaves_keeps_its_condition() -> None:
    text = settled(TILES.format("if (t < 16) yield; y.at(p * 16 + t) = 1.0f;"), N=64)
    assert "if" in text and "yield" in text


def test_names_of_a_branch_stay_in_it() -> None:
    body = "i = p * 16 + t; if (i < N) { v = x.at(i); y.at(i) = v; } v = 3.0f; if (i >= 0) y.at(i) += v;"
    text = settled(TILES.format(body), N=64)
    assert "if" not in text and "scope" in text


def test_choices() -> None:
    text = settled(TILES.format("i = p * 16 + t; y.at(i) = i < N ? x.at(i) : 0.0f;"), N=64)
    assert "y[p * 16 + t]" in text and "0.0f" not in text


def test_results_with_and_without_edges() -> None:
    program = croq.compile(
        """__co__ auto scale(f32 [M, N] x, float k) {
          f32 [M, N] y;
          parallel {p, q} by [cdiv(N, 8), cdiv(M, 4)] : block, {t, u} by [8, 4] : thread {
            i = q * 4 + u;
            j = p * 8 + t;
            if (i < M && j < N) { v = x.at(i, j) * k; y.at(i, j) = j + 1 < N ? v : v + 1.0f; }
          }
          return y;
        }""",
        target="cpu",
    )
    for shape in ((4, 8), (8, 16), (1, 1), (5, 8), (4, 9), (13, 31)):
        x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
        expected = x * 3
        expected[:, -1] += 1
        np.testing.assert_array_equal(program.scale(x, 3.0), expected)


def test_nothing_to_settle_is_the_same_function() -> None:
    functions, _ = front(f"__co__ void f({PARAMS}) {{ {GUARDED} }}")
    function: ir.Function = functions["f"]
    assert SettleConditions()(function, Context()) is function
