"""How elements are dealt out: every thread and turn looked at one by one."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import pytest

from croq_magic.compiler import evaluate, integers, ir
from croq_magic.compiler.passes.fragment_layouts import Along, Layout, Linear, Rows, lanes_for, plain, warp_part

MEMBER = ir.Var("member", upper=integers.constant(1 << 20), lower=integers.ZERO, role=ir.Role.REGION)


def held(layout: Layout) -> dict[tuple[int, ...], list[tuple[int, int]]]:
    """Who holds an element: thread and place, for every element."""
    loops = [
        ir.Var(f"loop{i}", role=ir.Role.LOOP, lower=integers.ZERO, upper=integers.constant(loop.trips))
        for i, loop in enumerate(layout.loops)
    ]
    names = ["member", *(var.name for var in loops)]
    if isinstance(layout, Linear):
        element = layout.linear(MEMBER, loops)
        coords = layout.coords(element)
        guard = layout.guard(element)
        guards: Sequence[ir.Expr] = [] if guard is None else [guard]
    else:
        coords = layout.coords(MEMBER, loops)
        guards = layout.guards(coords)
    compute = evaluate.function((*coords, layout.place(loops), *guards), names)
    found: dict[tuple[int, ...], list[tuple[int, int]]] = {}
    for member in range(layout.width):
        for turn in itertools.product(*(range(loop.trips) for loop in layout.loops)):
            values = compute(member, *turn)
            if all(values[len(coords) + 1 :]):
                found.setdefault(tuple(map(int, values[: len(coords)])), []).append((member, int(values[len(coords)])))
    return found


@pytest.mark.parametrize(
    "layout",
    [
        Linear(32, (7, 5)),
        Linear(7, (3, 4)),
        Linear(48, (11,)),
        Linear(128, (2, 3, 5)),
        Rows(32, (16, 16), 16),
        Rows(32, (5, 24), 8),
        Rows(48, (13, 7), 4),
        Rows(128, (3, 300), 64),
        Rows(7, (10, 3), 1),
        Rows(1, (3, 4), 1),
    ],
    ids=str,
)
def test_tiles_have_one_holder_an_element(layout: Layout) -> None:
    found = held(layout)
    shape = layout.shape  # type: ignore[union-attr]
    assert sorted(found) == list(itertools.product(*map(range, shape)))
    assert all(len(holders) == 1 for holders in found.values())
    places = [holder for holders in found.values() for holder in holders]
    assert len(set(places)) == len(places)  # no two elements of a thread in one place
    assert max(place for _, place in places) < layout.turns


@pytest.mark.parametrize("tile", [Rows(32, (16, 16), 16), Rows(48, (13, 7), 4), Rows(96, (5, 33), 32)], ids=str)
@pytest.mark.parametrize("dimension", [0, 1])
def test_vectors_are_held_by_all_that_hold_their_rows(tile: Rows, dimension: int) -> None:
    vector = Along(tile.width, tile.shape[dimension], tile.lanes, dimension)
    holders = held(vector)
    loop = [place for _, place in itertools.chain.from_iterable(holders.values())]
    assert max(loop) < vector.turns
    for coords, ((member, place),) in held(tile).items():
        turn = place // tile.steps if dimension == 0 else place % tile.steps
        assert (member, turn) in holders[(coords[dimension],)]
    first = vector.first(MEMBER)
    chosen = evaluate.function((first if first is not None else ir.TRUE,), ["member"])
    for owners in holders.values():
        assert sum(bool(chosen(member)[0]) for member, _ in owners) == 1


def test_a_row_lies_in_neighbouring_threads() -> None:
    """So that lanes can reduce it: those whose numbers differ in the last bits alone."""
    for (row, _), ((member, _),) in held(Rows(128, (16, 20), 8)).items():
        assert member // 8 == row % 16


@pytest.mark.parametrize(
    ("width", "shapes", "lanes"),
    [
        (128, [(16, 32)], 32),
        (32, [(16, 8), (16, 16)], 8),  # attention: scores, and the output along with them
        (128, [(1, 1000)], 128),  # rows of several warps, for there are not enough of them
        (128, [(2, 128)], 32),  # the same turns, without memory
        (48, [(5, 100)], 8),
        (7, [(9, 9)], 1),
        (32, [(16, 3)], 4),
    ],
)
def test_lanes_of_a_row(width: int, shapes: list[tuple[int, int]], lanes: int) -> None:
    assert lanes_for(width, shapes) == lanes
    best = min(sum(Rows(width, s, each).turns for s in shapes) for each in (1, 2, 4, 8, 16, 32) if width % each == 0)
    assert sum(Rows(width, s, lanes).turns for s in shapes) <= best


def test_plain_layouts() -> None:
    assert plain(32, (16, 8)) == Rows(32, (16, 8), 8)
    assert plain(32, (4, 96)) == Rows(32, (4, 96), 32)
    assert plain(32, (4, 40)) == Linear(32, (4, 40))
    assert plain(32, (9,)) == Linear(32, (9,))


def test_parts_of_a_unit_that_need_no_memory() -> None:
    assert [warp_part(width, 4) for width in (128, 96, 32, 16, 48, 12)] == [32, 32, 32, 16, 4, 4]
