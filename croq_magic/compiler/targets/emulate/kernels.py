"""Launching emulated kernels, and asking what was found."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence
from typing import NamedTuple

from croq_magic.compiler.source import Source
from croq_magic.compiler.targets.emulate.build import Library
from croq_magic.compiler.targets.emulate.findings import Found, describe
from croq_magic.compiler.targets.emulate.profile import Row, rows
from croq_magic.compiler.targets.emulate.runtime import Extents, Index, LaunchWords, Report, runtime
from croq_magic.errors import TargetError

STACK_BYTES = 768 << 10  # local memory of a thread may have 512 KiB
MOST_THREADS, MOST_SHARED, MOST_CLUSTER = 1024, 227 << 10, 16


class Outcome(NamedTuple):
    """What one launch has done. `findings` are in the order in which they were met; `rows` are there when profiled."""

    findings: list[Found]
    rows: list[Row]
    threads: int
    barriers: int


def launch(
    library: Library,
    symbol: str,
    grid: Extents,
    block: Extents,
    arguments: Sequence[int],
    shared_bytes: int = 0,
    *,
    seed: int = 0,
    profiled: bool = False,
    cooperative: bool = False,
    source: Source | None = None,
) -> Outcome:
    """Runs one kernel to its end. Arguments are words of eight bytes: addresses, or the bytes of numbers.

    TargetError for a launch that no GPU would accept, or without memory; KeyboardInterrupt when interrupted.
    """
    threads = block[0] * block[1] * block[2]
    if not 1 <= threads <= MOST_THREADS:
        raise TargetError(f"{symbol}: a block of {threads} threads; a GPU takes 1 to {MOST_THREADS}")
    if shared_bytes > MOST_SHARED:
        raise TargetError(f"{symbol}: {shared_bytes} bytes of shared memory a block; a GPU has {MOST_SHARED}")
    if min(grid) < 1 or grid[0] >= 1 << 31 or max(grid[1:]) >= 1 << 16:
        raise TargetError(f"{symbol}: a grid of {grid[0]} x {grid[1]} x {grid[2]} blocks cannot be launched")
    cluster = library.cluster(symbol)
    if cluster is not None:
        sizes = " x ".join(map(str, cluster))
        if not 1 <= math.prod(cluster) <= MOST_CLUSTER:
            raise TargetError(f"{symbol}: clusters of {sizes} blocks; a GPU takes 1 to {MOST_CLUSTER} blocks")
        if any(whole % part for whole, part in zip(grid, cluster, strict=True)):
            whole = " x ".join(map(str, grid))
            raise TargetError(f"{symbol}: a grid of {whole} blocks cannot be launched in clusters of {sizes}")
    report = Report()
    words = LaunchWords()
    words.run = library.kernel(symbol)
    words.grid, words.block = Index(*grid), Index(*block)
    words.cluster = Index(*(cluster or (0, 0, 0)))
    words.shared_bytes, words.stack_bytes = shared_bytes, STACK_BYTES
    words.module, words.anchor = library.base, library.anchor
    words.shared_size, words.shared_shift = library.shared_size, library.shared_shift
    words.arrays, words.array_count = ctypes.addressof(library.places), len(library.places) // 2
    words.seed = seed
    words.checked, words.profiled, words.cooperative = library.checked, profiled and library.checked, cooperative
    together = cooperative or cluster is not None or "croq_grid_sync" in library.text
    words.serial = library.checked or together or "printf" in library.text or seed != 0
    words.report = ctypes.pointer(report)
    run = runtime()
    try:
        run.launch(words, arguments)
        found = describe(report, library, symbol, grid, block, source)
        table = rows(report, library, symbol) if profiled else []
        return Outcome(found, table, report.threads, report.barriers)
    finally:
        run.handle.croq_emulate_forget(ctypes.byref(report))
