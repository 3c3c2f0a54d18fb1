"""An adversary's kernels: each fault in planted.cu is found and named with its lines, none of sound.cu is accused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from targets import emulate_corpus

PLANTED, SOUND = Path(__file__).with_name("planted.cu"), Path(__file__).with_name("sound.cu")
SEEDS = range(6)
# What a race may have as its consequence.
BESIDE = {"race": {"uninitialised", "deadlock", "pending copy"}}


def test_there_are_many() -> None:
    assert len(emulate_corpus.corpus(PLANTED)[1]) >= 84 and len(emulate_corpus.corpus(SOUND)[1]) >= 39


@pytest.mark.parametrize("name", emulate_corpus.corpus(PLANTED)[1])
def test_planted(name: str) -> None:
    wanted = emulate_corpus.corpus(PLANTED)[1][name]
    outcome, _ = emulate_corpus.run(PLANTED, name)
    texts = "\n".join(found.text for found in outcome.findings)
    lines = {line.line for found in outcome.findings if found.kind == wanted.kind for line in found.lines}
    others = {found.kind for found in outcome.findings} - {wanted.kind}
    assert lines and others <= BESIDE.get(wanted.kind, set()), texts
    if wanted.kind == "fault":  # a full stack is met anywhere in the function
        assert lines <= wanted.lines, texts
    else:
        assert lines == wanted.lines, texts
    beside = {line.line for found in outcome.findings if found.kind == "uninitialised" for line in found.lines}
    assert beside <= wanted.lines, texts


# Faults whose mark is that of an order of events, which another order need not show.
@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("kind", ["race", "outside", "uninitialised", "pending copy", "divergent barrier", "alignment"])
def test_planted_in_other_orders(kind: str, seed: int) -> None:
    for name, wanted in emulate_corpus.corpus(PLANTED)[1].items():
        if wanted.kind == kind and not wanted.seed:
            outcome, _ = emulate_corpus.run(PLANTED, name, seed)
            assert outcome.findings, name


A = np.arange(1024)


def _rows(count: int, width: int) -> np.ndarray:
    return A[: count * width].reshape(count, width)


def _double_chain(n: int, step: Callable[[int], int]) -> int:
    value = 0
    for _ in range(n):
        value = step(value)
    return value


# What kernels leave at the begin of b.
RESULTS: dict[str, np.ndarray | list[int]] = {
    "flag_by_volatile_and_fence": [7, 8],
    "flag_by_atomics": np.concatenate([A[:64] * 2, A[63::-1] * 2]),
    "fences_of_all_before_the_barrier": np.concatenate([A[:64] * 2, A[63::-1] * 2]),
    "last_block_adds_up": 5 * A[:64] + 10,
    "chain_of_blocks": 2 ** A[:9],
    "look_back": np.cumsum(A[:9]),
    "spin_lock": [15],
    "ticket_lock": [_double_chain(8, lambda v: 3 * v + 1)],
    "flag_within_the_block": [3],
    "warp_tree_with_syncwarp": [A[:32].sum(), A[32:64].sum()],
    "shuffles_order_memory": np.concatenate([A[31::-1], np.full(32, 5)]),
    "halves_of_a_warp": A[:32] ^ 15,
    "ragged_warp": [A[:32].sum(), A[32:45].sum()],
    "block_reduction": [A[:256].sum()],
    "scan_in_shared_memory": np.cumsum(A[:64]),
    "histogram": [24] * 8,
    "double_buffer": _rows(5, 128)[:, ::-1].ravel(),
    "source_written_after_wait_and_barrier": A[63::-1] + 3,
    "own_source_written_after_the_wait": np.where(A[:32] % 2, 0, A[:32]),
    "memory_copied_and_set": [*A[:64].reshape(16, 4)[::-1].ravel(), -1, -1],
    "three_stages": _rows(7, 32)[:, ::-1].ravel(),
    "own_copies_need_no_barrier": A[:64] + 1,
    "named_barriers_of_two_roles": _rows(5, 64)[:, ::-1].ravel(),
    "two_named_barriers_of_one_block": (A[:128] ^ 63) + 2,
    "ring_of_mbarriers": _rows(7, 32)[:, ::-1].ravel(),
    "elected_producer": _rows(8, 8)[:, ::-1].ravel(),
    "grid_barrier": ((np.arange(5)[:, None] + 3) % 5 * 100 + A[:32]).ravel(),
    "bytes_of_one_word": np.tile(np.arange(64, dtype=np.uint8).view(np.int32), 2),
    "wide_and_narrow": A[:128],
    "structs_need_no_more_than_their_own_alignment": [0, *np.arange(1, 17).reshape(8, 2)[::-1].ravel()],
    "parity_of_blocks": [1, 0] * 128,
    "early_end_of_whole_warps": A[63::-1],
    "same_value_by_atomics": [64, 2**31 - 1, 9],
    "compare_and_swap_loop": [132],
    "many_shared_arrays": 5 * (31 - A[:32]) + 2,
    "pointers_to_the_end": [496] * 32,
    "dynamic_memory_in_parts": np.tile(2 * (31 - A[:32]), 2),
}


@pytest.mark.parametrize("name", emulate_corpus.corpus(SOUND)[1])
def test_sound(name: str) -> None:
    for seed in SEEDS:
        outcome, values = emulate_corpus.run(SOUND, name, seed)
        assert not outcome.findings, (seed, "\n".join(found.text for found in outcome.findings))
        if name in RESULTS:
            wanted = np.asarray(RESULTS[name])
            np.testing.assert_array_equal(values.b[: wanted.size], wanted)
        elif name == "own_grid_barrier":
            block, turn = np.arange(6)[:, None], np.arange(3)[:, None, None]
            wanted = (block + 1) % 6 * 100 + turn + A[31::-1]
            np.testing.assert_array_equal(values.f[:576], wanted.ravel())
        else:
            assert name == "grid_barrier_by_sense"
            np.testing.assert_array_equal(values.f[:512], np.concatenate([np.tile(A[:64] + r, 4) for r in range(2)]))
