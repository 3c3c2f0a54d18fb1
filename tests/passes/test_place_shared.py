"""Shared storage: buffers that are never in use at the same time lie in one place."""

from __future__ import annotations

from passes.cells import front

from croq_magic.compiler import ir
from croq_magic.compiler.passes.place_shared import place_shared
from croq_magic.compiler.visit import walk


def places(body: str) -> dict[str, int]:
    """Offsets of the shared buffers of a block of 64 threads, by name."""
    functions, report = front(
        "__co__ f32 [8, 64] f(f32 [8, 64] x) { f32 [8, 64] r; parallel b by 1 : block { " + body + " } return r; }"
    )
    assert not report.errors, report.text()
    (launch,) = functions["f"].launches()
    root = launch.kernel.region
    placed = place_shared(root)
    buffers = {n.buffer for n in walk(root) if isinstance(n, ir.Declare) and n.buffer.storage is ir.Storage.SHARED}
    return {buffer.name: placed[id(buffer)] for buffer in buffers if id(buffer) in placed}


ROW = "x.subspan(1, 64).at({}, 0)"
USE = "parallel t by 64 : thread {{ r.at({}, t) = {}.data.at(0, 63 - t); }} "


def load(name: str, row: str) -> str:
    return f"{name} = dma.copy {ROW.format(row)} => shared; "


def test_one_after_the_other_with_a_barrier_between() -> None:
    found = places(load("a", "0") + USE.format(0, "a") + "sync.shared; " + load("c", "1") + USE.format(1, "c"))
    assert found == {"a": 0, "c": 0}


def test_without_a_barrier_between_they_stay_apart() -> None:
    """The barrier before the use of `c` comes after `c` has been written."""
    found = places(load("a", "0") + USE.format(0, "a") + load("c", "1") + USE.format(1, "c"))
    assert sorted(found.values()) == [0, 256]


def test_used_together() -> None:
    both = "parallel t by 64 : thread { r.at(0, t) = a.data.at(0, 63 - t) + c.data.at(0, 63 - t); }"
    assert sorted(places(load("a", "0") + load("c", "1") + both).values()) == [0, 256]


def test_what_lives_through_a_loop() -> None:
    """`a` is needed in every iteration, so nothing in the loop may take its place, however late in it."""
    body = (
        load("a", "0")
        + "foreach k in [4] { "
        + USE.format("k", "a")
        + "sync.shared; "
        + load("c", "k")
        + "parallel t by 64 : thread { r.at(k + 4, t) = c.data.at(0, 63 - t); } sync.shared; }"
    )
    found = places(body)
    assert sorted(found.values()) == [0, 256]


def test_tiles_of_one_iteration_take_turns() -> None:
    body = (
        "foreach k in [4] { "
        + load("a", "k")
        + USE.format("k", "a")
        + "sync.shared; "
        + load("c", "k")
        + "parallel t by 64 : thread { r.at(k + 4, t) = c.data.at(0, 63 - t); } sync.shared; }"
    )
    assert places(body) == {"a": 0, "c": 0}


def test_a_transfer_under_way_keeps_its_place() -> None:
    """`a` is read no more, but its copy ends only at the wait."""
    body = (
        "a = dma.copy.async " + ROW.format(0) + " => shared; sync.shared; "
        + load("c", "1") + USE.format(1, "c") + "wait a;"
    )  # fmt: skip
    assert sorted(places(body).values()) == [0, 256]


def test_arrays_of_buffers_are_aligned() -> None:
    body = (
        "shared f32 [3] small; shared f16 [64, 64] tiles[2]; "
        "parallel t by 64 : thread { small.at(t % 3) = 1.0f; tiles[0].at(t, t) = 1.0h; tiles[1].at(t, t) = 2.0h; "
        "r.at(0, t) = small.at(0) + __to<f32>(tiles[0].at(t, 0)); }"
    )
    found = places(body.replace("1.0h", "__to<f16>(1.0f)").replace("2.0h", "__to<f16>(2.0f)"))
    assert found == {"tiles": 0, "small": 2 * 64 * 64 * 2}
