"""Sectors of a warp's accesses, and the order of indices that would need fewer: the emulator counts the same."""

from __future__ import annotations

import numpy as np
import pytest
from targets.cuda_text import emission

import croq_magic as croq
from croq_magic.compiler.targets.simt.coalescing import findings
from croq_magic.compiler.targets.simt.threads import grid_chain, threads_of


def cell(body: str, element: str = "f32") -> str:
    return f"__co__ void f({element} [64, 64]& x) {{\n{body}\n}}"


def notes(body: str, element: str = "f32") -> list[str]:
    found = [d for d in croq.check(cell(body, element), target="cuda", arch="sm_80") if d.severity == "note"]
    assert all(d.code == "PRF01" for d in found)
    return [f"{d.span.line}:{d.span.column} {d.message}" + (f"; {d.hint}" if d.hint else "") for d in found]


def test_neighbouring_lanes_on_neighbouring_elements() -> None:
    assert notes("parallel b by 64 : block, t by 64 : thread { x.at(b, t) = 1.0f; }") == []
    assert notes("parallel {i, j} by [64, 16] : thread { x.at(j, i) = 1.0f; }") == []


def test_the_first_index_runs_along_the_rows() -> None:
    found = notes("parallel b by 2 : block, {i, j} by [32, 32] : thread { x.at(b # i, j) = 1.0f; }")
    assert found == [
        "2:56 a warp stores `x` in 32 sectors a request, 4 would do; "
        "with the indices as `{j, i}` it is 4: lanes differ in the first one",
    ]


@pytest.mark.parametrize(("element", "sectors"), [("u8", 1), ("f16", 2), ("f64", 8)])
def test_element_sizes(element: str, sectors: int) -> None:
    one = "1" if element == "u8" else f"__to<{element}>(1)"
    (found,) = notes(f"parallel b by 2 : block, {{i, j}} by [32, 32] : thread {{ x.at(b # i, j) = {one}; }}", element)
    assert f"{sectors} would do; with the indices as `{{j, i}}` it is {sectors}" in found


def test_no_order_of_the_indices_helps() -> None:
    (found,) = notes("parallel t by 64 : thread { foreach k in 63 x.at(t, k) = 1.0f; }")
    assert found.endswith(" a warp stores `x` in 32 sectors a request, 4 would do")


def test_vectors_need_more_sectors_anyway() -> None:
    """Of the sector that a vector is in a half is used at once, and the other half by the next vector of the thread."""
    assert notes("parallel t by 64 : thread { foreach k in 64 x.at(t, k) = 1.0f; }") == []


def test_one_element_for_all_lanes() -> None:
    assert notes("parallel b by 2 : block, t by 64 : thread { mutable f32 v = x.at(b, 3); x.at(b, t) = v; }") == []


def test_a_row_of_pairs_is_not_worth_a_note() -> None:
    """Twice the sectors that are needed."""
    assert notes("parallel b by 2 : block, t by 32 : thread { x.at(b, t * 2) = 1.0f; }") == []


@pytest.mark.cpu_only
def test_only_where_a_gpu_runs_the_program() -> None:
    text = cell("parallel b by 2 : block, {i, j} by [32, 32] : thread { x.at(b # i, j) = 1.0f; }")
    assert croq.check(text, target="cpu") == []
    assert croq.compile(text, target="cpu").diagnostics == []
    program = croq.compile(text, target="emulate")
    assert [(d.code, d.span.line) for d in program.diagnostics] == [("PRF01", 2)]
    assert "note: a warp stores `x`" in croq.compile(text, target="emulate").warnings[0]  # remembered


# Every line has one access of device memory.
COUNTED = {
    "rows": "parallel b by 2 : block, {i, j} by [32, 32] : thread {\n x.at(b # i, j) = 1.0f;\n }",
    "columns": "parallel b by 2 : block, {i, j} by [32, 32] : thread {\n x.at(j, b # i) = 1.0f;\n }",
    "every second": "parallel b by 64 : block, t by 32 : thread {\n x.at(b, t * 2) = 1.0f;\n }",
    "a name between": "parallel b by 1 : block, t by 64 : thread {\n k = (t * 2 + 5) % 64;\n x.at(t, k) = 1.0f;\n }",
    "a row a thread": "parallel t by 64 : thread {\n foreach k in 64\n x.at(t, k) = 1.0f;\n }",
    "an odd row a thread": "parallel t by 64 : thread {\n foreach k in 63\n x.at(t, k) = 1.0f;\n }",
    "from its own place on": "parallel b by 1 : block, t by 32 : thread {\n foreach k in [2]\n"
    " x.at(t, t + k) = 1.0f;\n }",
    "two loads": "parallel b by 2 : block, t by 32 : thread {\n a = x.at(t, b);\n c = x.at(b, 3);\n"
    " x.at(b + 60, t) = a + c;\n }",
    "half a warp": "parallel b by 2 : block, t by 64 : thread {\n inthreads (t % 32 < 16) {\n"
    " x.at(t, b) = 1.0f;\n }\n }",
    "the second warp": "parallel b by 2 : block, t by 64 : thread {\n if (t >= 32) {\n x.at(t, b) = 1.0f;\n"
    " } else {\n x.at(b, t) = 2.0f;\n }\n }",
    "a small tile": "parallel b by 2 : block, {i, j} by [8, 4] : thread {\n x.at(i, b * 4 + j) = 1.0f;\n }",
    "warps": "parallel b by 2 : block, w by 2 : group, t by 32 : thread {\n x.at(t, b # w) = 1.0f;\n }",
    "unannotated": "parallel {i, j} by [64, 64] {\n x.at(i, j) = 1.0f;\n }",
    "unannotated, strided": "parallel {i, j} by [64, 8] {\n x.at(i, j * 8) = 1.0f;\n }",
}


@pytest.mark.parametrize("name", COUNTED)
def test_the_emulator_counts_as_many(name: str) -> None:
    """Where all requests of a line are alike. The mean of the emulator is the number of the note."""
    text = cell(COUNTED[name])
    found: dict[int, tuple[float, float]] = {}
    for function in emission(text).functions:
        for launch in function.launches():
            block = grid_chain(launch.kernel.region)[-1]
            for finding in findings(block, threads_of(block)):
                assert finding.access.span is not None
                found[finding.access.span.line] = finding.sectors, finding.needed
    counted = {
        row.line: (row.parts_per_request, row.least_per_request)
        for row in croq.compile(text, target="emulate").profile(np.zeros((64, 64), np.float32))
    }
    assert found and found.keys() == counted.keys()
    for line, numbers in found.items():
        assert numbers == pytest.approx(counted[line], rel=0.05), line
