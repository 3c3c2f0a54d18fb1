"""What is proven, what is an error and what is left to a check: language reference, types and shapes, section 10."""

from __future__ import annotations

import time

import pytest

from croq_magic.compiler import ir
from croq_magic.compiler.passes.base import Context
from croq_magic.compiler.passes.prove_bounds import ProveBounds
from croq_magic.compiler.passes.specialise import Specialise
from croq_magic.compiler.text import format_expr, format_function
from tests.ir_builders import dim, ele_add, matmul_dma, matmul_scalar, row_sum, saxpy
from tests.passes.cells import errors, found, front, host, printed

M, K, N = dim("M"), dim("K"), dim("N")

PROVEN = {
    "a guard": "parallel p by 8 { if (p > 0) { x = g.at(p - 1, 0); } }",
    "a guard of both ends": "parallel p by 10 { if (p > 0 && p < 9) { x = g.at(p - 1, 0); } }",
    "the other branch": "parallel p by 10 { if (p >= 8) { yield; } else { x = g.at(p, 0); } }",
    "after a yield": "parallel p by 10 { if (p >= 8) yield; x = g.at(p, 0); }",
    "after a continue": "parallel p by 8 { foreach i in [20] { if (i >= 16) continue; x = g.at(p, i); } }",
    "a choice": "parallel p by 8 { x = p < 7 ? g.at(p + 1, 0) : 0.0f; }",
    "the right side of and": "parallel p by 8 { if (p < 7 && g.at(p + 1, 0) > 0.0f) g.at(p, 0) = 1.0f; }",
    "division and remainder": "parallel p by 128 { x = g.at(p / 16, p % 16); }",
    "a composed index": "parallel p by 4, q by 2 { x = g.at(p#q, 0); }",
    "a name": "parallel p by 4 { w = p * 2; x = g.at(w, 0); }",
    "a loop of steps": "parallel p by 8 { with j in 16 { foreach j(0:0:4) { x = g.at(p, j + 3); } } }",
    "a range": "parallel p by 8 { with j in 16 { foreach j(1:-1) { x = g.at(p, j - 1) + g.at(p, j + 1); } } }",
    "an assertion": 'parallel p by 8 { assert(n >= 0 && n < 8, "n"); x = g.at(n, p); }',
    "a while": "parallel p by 8 { mutable s32 k = 0; while (k >= 0 && k < 16) { g.at(p, k) = 1.0f; k = k + 1; } }",
    "a window": "parallel p by 4 { t = g.subspan(2, 16).at(p, 0); foreach i in [2] { x = t.at(i, 15); } }",
    "a ragged window read with zeros": "parallel p by 3 { t = dma.copy g.subspan(3, 16).at(p, 0).zfill => local; }",
    "a chunk": "parallel p by 4 { t = dma.copy g.chunkat(p, _) => local; x = t.data.at(1, 15); }",
}


@pytest.mark.parametrize("name", PROVEN)
def test_proven(name: str) -> None:
    text = host(PROVEN[name])
    assert "]?" not in printed(text)


@pytest.mark.parametrize(
    "function",
    [matmul_dma(), matmul_scalar(), ele_add(), row_sum(), saxpy(), saxpy(M), matmul_dma(M, K, N)],
    ids=lambda f: f.name,
)
def test_programs_are_proven_as_they_are(function: ir.Function) -> None:
    context = Context()
    assert format_function(ProveBounds()(function, context)) == format_function(function)
    assert not list(context.report)


WRONG = [
    ("parallel p by 9 { x = g.at(p, 0); }", "VEW12", "2:23", "index `p` reaches 8, valid range is [0, 8)"),
    ("x = g.at(9, 0);", "VEW12", "2:5", "index 9, valid range is [0, 8)"),
    ("parallel p by 8 { x = g.at(p, p - 1); }", "VEW12", "2:23", "index `p - 1` reaches -1, valid range is [0, 16)"),
    (
        "parallel {a, b} by [2, 4] { parallel {c, d} by [5, 4] { x = g.at(a#c, b#d); } }",
        "VEW12",
        "2:61",
        "index `a#c` reaches 9, valid range is [0, 8)",
    ),
    (
        "parallel p by 8 { w = p * 2; x = g.at(w, 0); }",
        "VEW12",
        "2:34",
        "index `w` reaches 14, valid range is [0, 8)",
    ),
    (
        "parallel p by 8 { t = g.subspan(1, 16).at(p, 0); foreach j in [17] { x = t.at(0, j); } }",
        "VEW12",
        "2:74",
        "index `j` reaches 16, valid range is [0, 16)",
    ),
    ("parallel p by 8 { if (n > 3) { x = g.at(p, 16); } }", "VEW12", "2:36", "index 16, valid range is [0, 16)"),
    (
        "parallel p by 3 { t = dma.copy g.subspan(3, 16).at(p, 0) => local; }",
        "VEW07",
        "2:32",
        "rows 6..8 leave the span of 8 rows",
    ),
    (
        "parallel p by 2 { t = dma.copy g.view(4, 4).from(6, p) => local; }",
        "VEW07",
        "2:32",
        "rows 6..9 leave the span of 8 rows",
    ),
    (
        "parallel p by 2 { t = dma.copy g.view(4, 4).from(0, p * 13) => local; }",
        "VEW07",
        "2:32",
        "columns 13..16 leave the span of 16 columns",
    ),
    (
        "parallel p by 2 { shared f32 [4] t[2]; foreach i in [3] { t[i].at(0) = 1.0f; } }",
        "VEW13",
        "2:61",
        "subscript `i` of `t` reaches 2, valid range is [0, 2)",
    ),
]


@pytest.mark.parametrize(("body", "code", "place", "message"), WRONG)
def test_wrong(body: str, code: str, place: str, message: str) -> None:
    messages = found(host(body), code)
    assert [text for text in messages if text.endswith(f"error: {message}")]
    assert messages[0].startswith(place)


def test_witness_and_declaration_are_named() -> None:
    _, report = front(host("parallel {a, b} by [2, 4] { parallel c by 5 { x = g.at(a#c, b); } }"))
    (error,) = report.errors
    assert [note.message for note in error.notes] == ["at a = 1, c = 4", "this is dimension 0 of `g`"]
    place = error.notes[1].span
    assert place is not None and place.line == 1


def test_window_hint() -> None:
    _, report = front(host("parallel p by 3 { t = dma.copy g.subspan(3, 16).at(p, 0) => local; }"))
    (error,) = report.errors
    assert error.hint == "shrink the window or add `.zfill`"
    assert error.notes[0].message == "at p = 2"


CHECKED = [
    "parallel p by 8 { if (p < 3) yield; x = g.at(p + 3, 0); }",  # under a condition: not surely reached
    "parallel p by 8 { x = g.at(p, __to<s32>(g.at(p, 0))); }",
    "parallel p by 8 { mutable s32 k = n; x = g.at(p, k); }",
    "parallel p by 8 { mutable s32 k = 0; while (k < 16) { g.at(p, k + 1) = 1.0f; k = k + 2; } }",  # k may be negative
    "parallel p by 8 { if (n > 3) { x = g.at(n, p); } }",  # no entry check leaves its condition
    "parallel p by 8 { mutable s32 k = 0; if (k >= 0 && k < 8) { k = n; x = g.at(k, p); } }",
]


@pytest.mark.parametrize("body", CHECKED)
def test_checked_while_running(body: str) -> None:
    assert "]?" in printed(host(body))


def entry(body: str) -> list[tuple[str, str]]:
    functions, report = front(host(body))
    assert not report.errors, report.text()
    return [(c.message, format_expr(c.condition)) for c in functions["f"].checks if c.code == "RTA05"]


def test_parameters_are_checked_at_entry() -> None:
    assert entry("x = g.at(n, 0);") == [
        ("index `n` of `g` (dim 0), valid range is [0, 8)", "n >= 0 && -n + 7 >= 0"),
    ]
    assert entry("parallel p by n { x = g.at(p, 0); }") == [
        ("index `p` of `g` (dim 0), valid range is [0, 8)", "-n + 8 >= 0"),
    ]
    assert entry("foreach i in [n] { x = g.at(0, i + 1); }") == [
        ("index `i + 1` of `g` (dim 1), valid range is [0, 16)", "n <= 0 || -n + 15 >= 0"),
    ]
    assert "]?" not in printed(host("foreach i in [n] { x = g.at(0, i + 1); }"))


def test_arguments_of_an_access_are_checked_too() -> None:
    text = host("parallel p by 8 { x = a.at(b.at(p + 1)); }", "s32 [8] a, s32 [8] b")
    assert errors(text) == ["VEW12 index `p + 1` reaches 8, valid range is [0, 8)"]
    assert "a[b[p]]?" in printed(host("parallel p by 8 { x = a.at(b.at(p)); }", "s32 [8] a, s32 [8] b"))


def test_element_types_bound_an_index() -> None:
    text = host("parallel p by 8 { x = table.at(b.at(p)); }", "f32 [256] table, u8 [8] b")
    assert "]?" not in printed(text)


def test_symbolic_extents() -> None:
    params = "f32 [M, 16] g"
    assert "]?" not in printed(host("parallel p by M { x = g.at(p, 3); }", params))
    assert errors(host("parallel p by M { x = g.at(p + 1, 3); }", params)) == [
        "VEW12 index `p + 1` reaches 1, valid range is [0, M)"
    ]
    checked = host("parallel p by M { x = g.at(7, p); }", params)
    functions, _ = front(checked)
    assert [format_expr(c.condition) for c in functions["f"].checks if c.code == "RTA05"] == [
        "M - 8 >= 0",
        "-M + 16 >= 0",
    ]


def test_a_second_run_changes_nothing() -> None:
    functions, _ = front(host("parallel p by 8 { mutable s32 k = n; x = g.at(p, k); }"))
    context = Context()
    assert format_function(ProveBounds()(functions["f"], context)) == format_function(functions["f"])


def test_errors_do_not_stop_the_rest() -> None:
    body = "parallel p by 9 { x = g.at(p, 0); y = g.at(0, p + 8); }"
    assert len(errors(host(body))) == 2


def test_known_extents_do_not_move_checks_to_the_entry() -> None:
    """Entry checks are evaluated before a function is specialised, so a later proof must not lean on new ones."""
    body = "parallel p by 4 { x = g.at(p * (M - 4) + n, 0); }"
    functions, _ = front(host(body, "f32 [M, 16] g, int n"))
    assert [c.code for c in functions["f"].checks if c.code == "RTA05"] == []
    known = Specialise((("M", 16),))(functions["f"], Context())
    made = ProveBounds(entry_checks=False)(known, Context())
    assert made.checks == known.checks
    assert "]?" in format_function(made)


def test_entry_checks_are_facts_of_the_specialised_function() -> None:
    functions, _ = front(host("parallel p by 4 { x = g.at(n + p, 0); }", "f32 [M, 16] g, int n"))
    known = Specialise((("M", 16),))(functions["f"], Context())
    assert "]?" not in format_function(ProveBounds(entry_checks=False)(known, Context()))


def test_quick() -> None:
    """A program of the usual size is judged in well under the 15 ms that a cell may take for it."""
    function = matmul_dma()
    ProveBounds()(function, Context())
    started = time.perf_counter()
    for _ in range(5):
        ProveBounds()(function, Context())
    assert (time.perf_counter() - started) / 5 < 0.1  # a loaded machine; 2 ms on an idle one
