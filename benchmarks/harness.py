"""Interleaved timings of things that do the same work, as a table of medians, spreads and ratios.

All entries of a comparison run in one process, in turn, round after round: what slows the machine down for a second
slows every entry down. The ratio to the named peer is taken round by round, so it is steadier than the medians.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path

RESULTS = Path(__file__).parent / "results"


@dataclass(frozen=True)
class Row:
    """What one entry took: `seconds` is the median of a single call, `best` the shortest, `spread` the distance
    between the quartiles. On a shared machine the shortest says most about the code."""

    name: str
    seconds: float
    best: float
    spread: float
    ratio: float
    rate: float | None


@dataclass
class Comparison:
    """Entries that do the same `work` (operations or bytes of one call), compared with the entry named `peer`.

    The ratio of an entry is the peer's time over its own: above 1 it is faster than the peer.
    """

    title: str
    peer: str
    work: float | None = None
    unit: str = "G/s"
    pause: float = 2e-3  # threads of the entry before spin for a while after their work and would disturb the next
    entries: dict[str, Callable[[], object]] = field(default_factory=dict)
    rows: list[Row] = field(default_factory=list)

    def add(self, name: str, call: Callable[[], object]) -> None:
        self.entries[name] = call

    def run(self, budget: float = 1.0, rounds: int | None = None) -> Comparison:
        """Measures for about `budget` seconds, at least five and at most 200 rounds (or exactly `rounds`)."""
        batches: dict[str, int] = {}
        slow: set[str] = set()  # these take part in the first two rounds only, without a call to warm up
        once = 0.0
        for name, call in self.entries.items():
            start = time.perf_counter()
            call()
            single = max(time.perf_counter() - start, 1e-8)
            if single > budget / 4:
                slow.add(name)
                batches[name] = 1
                continue
            start = time.perf_counter()
            call()
            single = max(time.perf_counter() - start, 1e-8)
            # A batch of about 1 ms, so that reading the clock does not count.
            batches[name] = max(1, round(1e-3 / single))
            once += (batches[name] + 1) * single + self.pause
        rounds = rounds or min(200, max(5, int(budget / max(once, 1e-3))))
        times: dict[str, list[float]] = {name: [] for name in self.entries}
        for number in range(rounds):
            for name, call in self.entries.items():
                if name in slow and number > 1:
                    continue
                repeat = range(batches[name])
                time.sleep(self.pause)
                if name not in slow:
                    call()  # wakes the entry's own threads and fetches its data
                start = time.perf_counter()
                for _ in repeat:
                    call()
                times[name].append((time.perf_counter() - start) / batches[name])
        peer = times[self.peer]
        self.rows = []
        for name, taken in times.items():
            low, middle, high = statistics.quantiles(taken, n=4)
            ratio = statistics.median(p / t for p, t in zip(peer, taken, strict=False))
            rate = self.work / middle / 1e9 if self.work else None
            self.rows.append(Row(name, middle, min(taken), high - low, ratio, rate))
        return self

    def table(self) -> str:
        width = max(len(row.name) for row in self.rows)
        rate = f"{self.unit:>10}" if self.work else ""
        lines = [self.title, f"  {'':{width}}  {'median':>10}  {'best':>10}  {'IQR':>10}{rate}  against {self.peer}"]
        for row in self.rows:
            speed = f"{row.rate:10.1f}" if row.rate is not None else ""
            times = "  ".join(f"{duration(t):>10}" for t in (row.seconds, row.best, row.spread))
            lines.append(f"  {row.name:{width}}  {times}{speed}  {row.ratio:7.2f}")
        return "\n".join(lines)


def summary(name: str, taken: list[float], peer: float, work: float | None = None) -> Row:
    """A row from separate measurements, against a peer that takes `peer` seconds."""
    low, middle, high = statistics.quantiles(taken, n=4, method="inclusive") if len(taken) > 1 else taken * 3
    return Row(name, middle, min(taken), high - low, peer / middle, work / middle / 1e9 if work else None)


def duration(seconds: float) -> str:
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if abs(seconds) >= scale:
            return f"{seconds / scale:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"


def machine() -> str:
    """The processor as /proc/cpuinfo names it, with its number of cores and widest vector instructions."""
    name, flags = platform.processor() or platform.machine(), ""
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            key, _, value = line.partition(":")
            if key.strip() in ("model name", "CPU part"):
                name = value.strip()
            elif key.strip() in ("flags", "Features"):
                flags = value
    except OSError:
        pass
    vectors = next((v for v in ("avx512f", "avx2", "sve", "asimd", "sse2") if f" {v}" in f" {flags}"), "")
    return f"{name}, {os.cpu_count()} cores, {vectors}".rstrip(", ")


def arguments(description: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--json", metavar="NAME", help="also record the result as benchmarks/results/NAME.json")
    parser.add_argument("--budget", type=float, default=1.0, help="seconds for one comparison (default 1)")
    parser.add_argument("--only", default="", help="run the comparisons whose title contains this text")
    return parser


def report(comparisons: list[Comparison], name: str | None) -> None:
    """Prints the tables; with a name records them together with the machine and the date."""
    print(f"{machine()}; Python {platform.python_version()}")
    for comparison in comparisons:
        print("\n" + comparison.table())
    record(comparisons, name)


def record(comparisons: list[Comparison], name: str | None) -> None:
    """Writes the results to results/<name>.json, if a name is given."""
    if name:
        RESULTS.mkdir(exist_ok=True)
        content = {
            "machine": machine(),
            "date": time.strftime("%Y-%m-%d"),
            "python": platform.python_version(),
            "comparisons": [
                {"title": c.title, "peer": c.peer, "work": c.work, "rows": [asdict(row) for row in c.rows]}
                for c in comparisons
            ],
        }
        (RESULTS / f"{name}.json").write_text(json.dumps(content, indent=1) + "\n")
