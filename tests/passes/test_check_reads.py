"""STO08: shared and local storage that is read before anything was stored."""

from __future__ import annotations

import pytest

from croq_magic.compiler.passes.base import Context
from croq_magic.compiler.passes.check_reads import CheckReads
from tests.passes.cells import front, host


def warnings(body: str) -> list[str]:
    functions, report = front(host(body))
    assert not report.errors, report.text()
    context = Context()
    assert CheckReads()(functions["f"], context) is functions["f"]
    return [f"{d.code} {d.span.line}:{d.span.column}: {d.message}" for d in context.report]


@pytest.mark.parametrize(
    ("body", "place"),
    [
        ("parallel p by 2 { local f32 [8] t; x = t.at(0); }", "2:40"),
        ("parallel p by 2 { local f32 [8] t; t.at(0) += 1.0f; }", "2:36"),
        ("parallel p by 2 { shared f32 [8] t; foreach i in 8 { x = t.at(i); } t.at(0) = 1.0f; }", "2:58"),
        ("parallel p by 2 { foreach i in 8 { local f32 [8] t; x = t.at(i); t.at(i) = x; } }", "2:57"),
        ("parallel p by 2 { shared s32 [8] t; __atomic_add(t.at(0), 1); }", "2:37"),
        ("parallel p by 2 { shared f32 [8, 16] t; dma.copy t => g; }", "2:50"),
    ],
)
def test_read_first(body: str, place: str) -> None:
    assert warnings(body) == [f"STO08 {place}: `t` is read before anything was stored"]


@pytest.mark.parametrize(
    "body",
    [
        "parallel p by 2 { local f32 [8] t; t.at(0) = 1.0f; x = t.at(0); }",
        "parallel p by 2 { local f32 [8] t {0.0f}; x = t.at(0); }",
        "parallel p by 2 { shared f32 [8] t; if (p > 0) t.at(0) = 1.0f; x = t.at(0); }",
        "parallel p by 2 { shared f32 [8] t; foreach i in 8 { if (i > 0) { x = t.at(0); } t.at(0) = 1.0f; } }",
        "parallel p by 2 { t = dma.copy g => shared; x = t.data.at(0, 0); }",
        "parallel p by 2 { local f32 [8] t; call fill(t); x = t.at(0); }",
        "x = g.at(0, 0);",
    ],
)
def test_written_first(body: str) -> None:
    assert warnings(body) == []
