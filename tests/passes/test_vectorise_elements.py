"""vectorise-elements: which loops become loops over vectors, and what of them stays as it is."""

from __future__ import annotations

import pytest
from passes.cells import front

from croq_magic.compiler.passes.base import Context, run_passes
from croq_magic.compiler.passes.vectorise_copies import VectoriseCopies
from croq_magic.compiler.passes.vectorise_elements import VectoriseElements
from croq_magic.compiler.text import format_function


def threads(body: str, params: str) -> list[str]:
    """The lines of the threads' code after the passes."""
    functions, report = front(f"__co__ void f({params}) {{ parallel t by 6 : thread {{ {body} }} }}")
    assert not report.errors, report.text()
    function = run_passes(functions["f"], [VectoriseElements(), VectoriseCopies(private=True)], Context())
    lines = format_function(function).splitlines()
    start = next(i for i, line in enumerate(lines) if "region thread" in line)
    return [line.strip() for line in lines[start + 1 :] if line.strip(" }")]


def test_loads_before_and_stores_behind() -> None:
    found = threads("foreach k in 4 y.at(t, k) = x.at(t, k) * 2.0f;", "f32 [6, 4] x, f32 [6, 4]& y")
    assert found == [
        "local x4: f32 [4]",
        "copy vector:16 x[t, c0 : 4] => x4",
        "local y4: f32 [4]",
        "for unroll k in 0..4 {",
        "y4[k] = x4[k] * 2.0f",
        "copy vector:16 y4 => y[t, c0 : 4]",
    ]


def test_long_loops_are_cut() -> None:
    found = threads("foreach k in 24 y.at(t, k) += k;", "f16 [6, 24]& y")
    assert found[0] == "for k8 in 0..3 {"
    assert found[2] == "copy vector:16 y[t, k8 * 8 + c0 : 8] => y8"
    assert found[3] == "for unroll e in 0..8 {"
    assert "k8 * 8 + e" in found[4] and found[4].startswith("y8[e] += ")
    assert found[5] == "copy vector:16 y8 => y[t, k8 * 8 + c0 : 8]"


def test_the_alignment_is_that_of_rows() -> None:
    """Rows of 6 elements of 4 bytes start at multiples of 8 bytes, rows of 7 at any."""
    body = "foreach k in {} y.at(t, k) = x.at(t, k);"
    found = threads(body.format(6), "f32 [6, 6] x, f32 [6, 6]& y")
    assert found[0] == "for k2 in 0..3 {" and sum("vector:8" in line for line in found) == 2
    assert not any("copy" in line for line in threads(body.format(6), "f32 [6, 7] x, f32 [6, 7]& y"))


def test_a_sum_loads_vectors() -> None:
    found = threads("f32 s = 0.0f; foreach k in 4 s += x.at(t, k); y.at(t) = s;", "f32 [6, 4] x, f32 [6]& y")
    assert "copy vector:16 x[t, c0 : 4] => x4" in found and "s = s + x4[k]" in found


def test_what_is_one_element_or_far_apart_stays() -> None:
    found = threads(
        "foreach k in 4 y.at(t, k) = x.at(t, k) + x.at(k, t % 4) + z.at(t);", "f32 [6, 4] x, f32 [6] z, f32 [6, 4]& y"
    )
    assert "y4[k] = x4[k] + x[k, t % 4] + z[t]" in found


@pytest.mark.parametrize(
    "body",
    [
        "foreach k in 3 y.at(t, k) = x.at(t, k);",  # no vector has three elements
        "foreach k in 4 if (t > 2) y.at(t, k) = 1;",
        "foreach k in 4 { s = t > 2 ? x.at(t, k) : 0; y.at(t, 0) += s; }",
        "foreach k in 4 y.at(t, 3 - k) = 1;",
        "foreach k in 4 { y.at(t, k) = 1; y.at(t, k + 4) = 2; }",  # may be the same element for all that is known
        "foreach k in 4 y.at(t, k + 1) = y.at(t, k);",  # each turn loads what the one before stored
        "foreach k in 4 { y.at(t, k) = 1; if (x.at(t, 0) == k) break; }",
        "foreach k in 4 __atomic_add(y.at(t, k), 1);",
        "foreach k in 4 y.at(x.at(k, 0), k) = 1;",  # tested while running
        "foreach k in 4 foreach m in 3 y.at(t, k) = m;",
    ],
)
def test_these_stay(body: str) -> None:
    found = threads(body, "s32 [6, 8] x, s32 [6, 8]& y")
    assert not any("copy" in line for line in found), found


def test_memory_of_a_block_is_left_to_the_compiler() -> None:
    functions, _ = front(
        "__co__ void f(s32 [4]& y) { parallel b by 1 : block { shared s32 [6, 4] s {1}; parallel t by 6 : thread"
        " { foreach k in 4 s.at(t, k) += 1; y.at(t % 4) = s.at(t, 0); } } }"
    )
    function = run_passes(functions["f"], [VectoriseElements()], Context())
    assert function is functions["f"]
