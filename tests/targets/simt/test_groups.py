"""How many asynchronous copies a wait may leave under way."""

from __future__ import annotations

from passes.cells import front

from croq_magic.compiler import ir
from croq_magic.compiler.targets.simt.groups import pending_groups
from croq_magic.compiler.visit import walk


def waits(body: str) -> list[int | None]:
    """Per wait, in order of the text, the groups that may stay pending; every copy with a token is a group."""
    functions, report = front(
        "__co__ f32 [8, 64] f(f32 [8, 64] x, int n) { f32 [8, 64] r; parallel b by 1 : block { "
        + body
        + " } return r; }"
    )
    assert not report.errors, report.text()
    (launch,) = functions["f"].launches()
    found = pending_groups(launch.kernel.region, lambda copy: copy.token is not None)
    return [found.get(id(n)) for n in walk(launch.kernel.region) if isinstance(n, ir.Wait)]


def load(name: str, row: str) -> str:
    return f"{name} = dma.copy.async x.subspan(1, 64).at({row}, 0) => shared; "


def test_in_the_order_of_their_start() -> None:
    assert waits(load("a", "0") + load("c", "1") + "wait a; wait c;") == [1, 0]


def test_the_newest_first() -> None:
    """Then the older one is complete too."""
    assert waits(load("a", "0") + load("c", "1") + "wait c; wait a;") == [0, None]


def test_several_at_once() -> None:
    assert waits(load("a", "0") + load("c", "1") + load("d", "2") + "wait a, c; wait d;") == [1, 0]


def test_handles_that_change_names() -> None:
    ring = load("a", "0") + load("c", "1") + "d = dma.any; foreach k in [6] { "
    ring += "d = dma.copy.async x.subspan(1, 64).at(k + 2, 0) => shared; wait a; rotate(a, c, d); } wait a; wait c;"
    assert waits(ring) == [2, 1, 0]


def test_a_loop_that_starts_more_than_it_waits_for() -> None:
    """Behind the loop nothing is known to be newer, and the loop may not have run at all."""
    body = load("a", "0") + "c = dma.any; foreach k in [n] { "
    body += "c = dma.copy.async x.subspan(1, 64).at(k % 8, 0) => shared; wait c; } wait a;"
    assert waits(body) == [0, 0]


def test_a_copy_on_one_path_only() -> None:
    """Where paths differ, what they have in common decides."""
    body = load("a", "0") + "if (n > 2) { " + load("c", "1") + "wait c; } wait a;"
    assert waits(body) == [0, 0]
