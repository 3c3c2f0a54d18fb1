"""Sectors of a warp's accesses, and the order of indices that would need fewer."""

from __future__ import annotations

import pytest
from targets.cuda_text import emission


def notes(body: str, element: str = "f32") -> list[str]:
    text = f"__co__ void f({element} [64, 64]& x) {{\n{body}\n}}"
    return [f"{note.span.line}: {note.message}" for note in emission(text).notes]


def test_neighbouring_lanes_on_neighbouring_elements() -> None:
    assert notes("parallel b by 64 : block, t by 64 : thread { x.at(b, t) = 1.0f; }") == []
    assert notes("parallel {i, j} by [64, 16] : thread { x.at(j, i) = 1.0f; }") == []


def test_the_first_index_runs_along_the_rows() -> None:
    found = notes("parallel b by 2 : block, {i, j} by [32, 32] : thread { x.at(b # i, j) = 1.0f; }")
    assert found == [
        "2: a warp stores `x` in 32 sectors a request, 4 would do; with the indices as `{j, i}` it is 4",
    ]


@pytest.mark.parametrize(("element", "sectors"), [("u8", 1), ("f16", 2), ("f64", 8)])
def test_element_sizes(element: str, sectors: int) -> None:
    one = "1" if element == "u8" else f"__to<{element}>(1)"
    (found,) = notes(f"parallel b by 2 : block, {{i, j}} by [32, 32] : thread {{ x.at(b # i, j) = {one}; }}", element)
    assert f"{sectors} would do; with the indices as `{{j, i}}` it is {sectors}" in found


def test_no_order_of_the_indices_helps() -> None:
    (found,) = notes("parallel t by 64 : thread { foreach k in 64 x.at(t, k) = 1.0f; }")
    assert found == "2: a warp stores `x` in 32 sectors a request, 4 would do"


def test_one_element_for_all_lanes() -> None:
    assert notes("parallel b by 2 : block, t by 64 : thread { mutable f32 v = x.at(b, 3); x.at(b, t) = v; }") == []


def test_a_row_of_pairs_is_not_worth_a_note() -> None:
    """Twice the sectors that are needed."""
    assert notes("parallel b by 2 : block, t by 32 : thread { x.at(b, t * 2) = 1.0f; }") == []
