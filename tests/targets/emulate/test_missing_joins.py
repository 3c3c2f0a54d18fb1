"""Programs whose text without any one of its barriers is found out: one for every kind of join, and all conformance
programs, which so have no barrier that nobody needs."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable

import numpy as np
import pytest
from programs.conformance import PROGRAMS as CONFORMANCE
from programs.conformance import Case, Conformance
from targets.cuda_text import kernel
from targets.emulate_mutants import BARRIER, mutants

RANDOM = np.random.default_rng(5)


@dataclasses.dataclass(frozen=True)
class Cell:
    """A program as `mutants` takes it, and the barriers that its text has."""

    text: str
    barriers: tuple[str, ...]
    result: Callable[[np.ndarray], np.ndarray]
    shape: tuple[int, ...] = (64,)
    name: str = "J00_join"
    function: str = "f"

    def source(self) -> str:
        shape = ", ".join(map(str, self.shape))
        return f"__co__ s32 [{shape}] f(s32 [{shape}] x) {{ s32 [{shape}] r;\n{self.text}\nreturn r; }}"

    def case(self) -> Case:
        x = RANDOM.integers(-50, 50, self.shape).astype(np.int32)
        return Case({"x": x}, self.result(x).astype(np.int32))


BLOCK, WARP = "__syncthreads", "__syncwarp"
PROGRAMS = {
    "a copy before threads": Cell(
        "parallel b by 1 : block { t = dma.copy x => shared;\n"
        " parallel p by 64 : thread { r.at(p) = t.data.at(63 - p); } }",
        (BLOCK,),
        lambda x: x[::-1],
    ),
    "threads before a copy": Cell(
        "parallel b by 1 : block { shared s32 [64] t;\n parallel p by 64 : thread { t.at(63 - p) = x.at(p); }\n"
        " dma.copy t => r; }",
        (BLOCK,),
        lambda x: x[::-1],
    ),
    "threads after threads": Cell(
        "parallel b by 1 : block { shared s32 [64] t;\n parallel p by 64 : thread { t.at(p) = x.at(p); }\n"
        " parallel q by 64 : thread { r.at(q) = t.at(63 - q); } }",
        (BLOCK,),
        lambda x: x[::-1],
    ),
    "storage that the next turn of a loop writes again": Cell(
        "parallel b by 1 : block { shared s32 [64] t;\n foreach k in 3 {\n"
        " parallel p by 64 : thread { t.at(p) = x.at(p) + k; }\n"
        " parallel q by 64 : thread { r.at(q) += t.at(63 - q); } } }",
        (BLOCK, BLOCK),
        lambda x: 3 * x[::-1] + 3,
    ),
    "a store of the block": Cell(
        "parallel b by 1 : block { shared s32 [1] t;\n t.at(0) = x.at(5);\n"
        " parallel p by 64 : thread { r.at(p) = t.at(0) + p; } }",
        (BLOCK,),
        lambda x: x[5] + np.arange(64),
    ),
    "a store of a warp": Cell(
        "parallel b by 1 : block { parallel w by 2 : group { shared s32 [2] t;\n t.at(w) = x.at(w);\n"
        " parallel p by 32 : thread { r.at(w#p) = t.at(w) + p; } } }",
        (WARP,),
        lambda x: np.repeat(x[:2], 32) + np.tile(np.arange(32), 2),
    ),
    "storage with an initial value": Cell(
        "parallel b by 1 : block { shared s32 [64] t {2};\n"
        " parallel p by 64 : thread { r.at(p) = t.at(63 - p) + x.at(p); } }",
        (BLOCK,),
        lambda x: x + 2,
    ),
    "a whole span": Cell(
        "parallel b by 1 : block { t = dma.copy x => shared;\n v = t.data;\n v *= 2;\n"
        " parallel p by 64 : thread { r.at(p) = t.data.at(63 - p); } }",
        (BLOCK, BLOCK),
        lambda x: x[::-1] * 2,
    ),
    "the program's own barrier": Cell(
        "parallel b by 1 : block { shared s32 [64] t;\n parallel p by 64 : thread { t.at(p) = x.at(p);\n"
        " sync.shared;\n r.at(p) = t.at(63 - p); } }",
        (BLOCK,),
        lambda x: x[::-1],
    ),
    "a barrier of selected threads": Cell(
        "parallel b by 1 : block { shared s32 [64] t;\n parallel w by 2 : group, p by 32 : thread {\n"
        " inthreads.async (w == 0) { t.at(p) = x.at(p);\n sync.barrier : group;\n r.at(p) = t.at(31 - p); }\n"
        " inthreads.async (w == 1) { r.at(w#p) = x.at(w#p); } } }",
        (WARP,),
        lambda x: np.concatenate([x[31::-1], x[32:]]),
    ),
    "the result of an atomic of the block": Cell(
        "parallel b by 1 : block { shared s32 [2] t {3};\n mutable s32 old = __atomic_add(t.at(1), 4);\n"
        " parallel p by 64 : thread { r.at(p) = old + x.at(p); } }",
        (BLOCK, BLOCK),
        lambda x: x + 3,
    ),
    "an asynchronous copy": Cell(
        "parallel b by 1 : block { t = dma.copy.async x => shared;\n wait t;\n"
        " parallel p by 64 : thread { r.at(p) = t.data.at(63 - p); } }",
        ("croq_async_wait", BLOCK),
        lambda x: x[::-1],
    ),
    "an event": Cell(
        "parallel b by 1 : block { shared s32 [32] t;\n shared event full;\n"
        " parallel w by 2 : group, p by 32 : thread {\n"
        " inthreads.async (w == 0) { t.at(p) = x.at(p);\n trigger full; }\n"
        " inthreads.async (w == 1) { wait full;\n r.at(p) = t.at(31 - p); } } }",
        (BLOCK, "croq_mbarrier_wait"),
        lambda x: np.concatenate([x[31::-1], np.zeros(32)]),
    ),
    "a condition on what its branch writes": Cell(
        "parallel b by 1 : block { shared s32 [1] t {-99};\n if (t.at(0) < x.at(5)) t.at(0) = x.at(5);\n"
        " parallel p by 64 : thread { r.at(p) = t.at(0) + p; } }",
        (BLOCK, BLOCK, BLOCK),
        lambda x: x[5] + np.arange(64),
    ),
    "a loop until what it writes is reached": Cell(
        "parallel b by 1 : block { shared s32 [1] t {0};\n while (t.at(0) < 3) t.at(0) = t.at(0) + 1;\n"
        " parallel p by 64 : thread { r.at(p) = t.at(0) + x.at(p); } }",
        (BLOCK, BLOCK, BLOCK),
        lambda x: x + 3,
    ),
    "a barrier of all blocks": Cell(
        "parallel b by 64 : block <cooperative> { r.at(b) = x.at(b) * 2;\n sync.barrier : block;\n"
        " mutable s32 v = r.at(63 - b);\n sync.barrier : block;\n r.at(b) = v; }",
        ("croq_grid_sync", "croq_grid_sync"),
        lambda x: x[::-1] * 2,
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_missing_barrier_is_noticed(name: str) -> None:
    program = PROGRAMS[name]
    text = kernel(program.source())
    found = tuple(re.match(r"\w+", match[0])[0] for match in BARRIER.finditer(text))  # type: ignore[index]
    assert found == program.barriers, text
    outcomes = list(mutants(program))  # type: ignore[arg-type]
    assert len(outcomes) == len(found)
    assert all(noticed for _, noticed, _ in outcomes), [what for what, noticed, _ in outcomes if not noticed]


UNNOTICED: dict[str, str] = {}  # by program: why the emulator cannot notice that a barrier is gone


@pytest.mark.parametrize("entry", CONFORMANCE, ids=lambda entry: entry.name)
def test_conformance_programs_have_no_barrier_too_many(entry: Conformance) -> None:
    outcomes = list(mutants(entry))
    unnoticed = [what for what, noticed, _ in outcomes if not noticed]
    assert not unnoticed or entry.name in UNNOTICED
    if entry.name[:3] in ("C14", "C31", "C40", "C44", "C45", "C46"):
        assert any("data race" in how or "asynchronous copy" in how for _, _, how in outcomes)
