"""Which index of a region of threads comes first."""

from __future__ import annotations

import pytest

from croq_magic.compiler import ir
from croq_magic.compiler.limits import OPENCL
from croq_magic.compiler.passes.base import Context
from croq_magic.compiler.passes.order_threads import OrderThreads
from croq_magic.compiler.pipeline import front_end
from croq_magic.compiler.source import Source
from croq_magic.compiler.visit import walk


def orders(body: str) -> list[tuple[str, ...]]:
    """Names of the indices of all regions of threads, after the pass."""
    text = f"__co__ void f(s32 [32, 32] x, s32 [32, 32]& y) {{ parallel b by 2 : block {{ {body} }} }}"
    front = front_end(Source(text), OPENCL, {})
    assert not front.report.has_errors, front.report.text()
    function = OrderThreads()(front.functions["f"], Context(limits=OPENCL))
    regions = (n for n in walk(function.body) if isinstance(n, ir.Region) and n.level is ir.Level.THREAD)
    return [tuple(var.name for var in region.indices) for region in regions if not region.implied]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("parallel {i, j} by [16, 32] : thread y.at(i, j) = 1;", ("j", "i")),
        ("parallel {i, j} by [16, 32] : thread y.at(j, i) = 1;", ("i", "j")),
        ("parallel {i, j} by [16, 32] : thread y.at(j, 2 * i) = x.at(i, j);", ("j", "i")),
        # A load in a loop counts more than a store behind it.
        (
            "parallel {i, j} by [16, 32] : thread { mutable int t = 0; foreach k in [8] { t += x.at(k, j); } "
            "y.at(j, i) = t; }",
            ("j", "i"),
        ),
        # Who runs together matters to `inthreads` and prints.
        ("parallel {i, j} by [16, 32] : thread { y.at(i, j) = 1; println(i); }", ("i", "j")),
        ("parallel {i, j} by [16, 32] : thread { inthreads (i < 4) { y.at(i, j) = 1; } }", ("i", "j")),
    ],
)
def test_the_index_along_the_rows_comes_first(body: str, expected: tuple[str, ...]) -> None:
    assert orders(body) == [expected]


def test_all_regions_of_a_block_alike() -> None:
    body = "parallel {i, j} by [16, 32] : thread y.at(i, j) = 1; parallel {p, q} by [16, 32] : thread y.at(q, p) += 2;"
    both = orders(body)
    assert both in ([("i", "j"), ("p", "q")], [("j", "i"), ("q", "p")])
