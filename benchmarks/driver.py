"""The driver, as a shell starts it: target source of short and long files, and text to result of whole programs.

    source     `croqtile -es` for 60 and 2,000 lines; the peer is `g++ -fsyntax-only` on the source that it emits
    cold       `croqtile FILE && ./a.out` with an empty cache: the runtime is compiled too
    edited     the same with the runtime in the cache and a program that was not compiled before
    unchanged  the same text again, which is remembered
    emitted    g++ on the emitted source, which holds program and runtime, then running it (CPU)
    g++        on what somebody would write without the language (`peers/programs/`), then running it: the peer

The programs are the complete ones of the tutorials; each must print that its test has passed.
"""

from __future__ import annotations

import itertools
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import frontend
import harness

ROOT = Path(__file__).parents[1]
SEEDS = sorted((ROOT / "tests" / "programs" / "seeds").glob("*.co"))
BY_HAND = Path(__file__).parent / "peers" / "programs"
CROQTILE = [sys.executable, "-m", "croq_magic"]
FLAGS = ["-std=c++17", "-O3", "-march=native", "-ffp-contract=off", "-pthread", "-w"]
LENGTHS = (60, 2000)
MAIN = '#include <cstdio>\nint main() { std::printf("Test Passed\\n"); }\n'

_fresh = itertools.count()


def run(command: Sequence[str | Path], folder: Path) -> str:
    """Runs a command and returns its standard output; ends the benchmark if it fails."""
    environment = {**os.environ, "CROQ_CACHE_DIR": str(folder / "cache"), "PYTHONPATH": str(ROOT)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # modules are compiled once, not at every start
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, env=environment, cwd=folder)
    if done.returncode:
        raise SystemExit(f"{command}:\n{done.stdout}{done.stderr}")
    return done.stdout


def seconds(folder: Path, *commands: Sequence[str | Path]) -> float:
    start = time.perf_counter()
    for command in commands:
        out = run(command, folder)
    if commands[-1][0] == folder / "made":
        assert "Test Passed" in out, out
    return time.perf_counter() - start


def sources(rounds: int) -> list[harness.Comparison]:
    """`-es` against the C++ compiler reading the result."""
    comparisons = []
    for lines in LENGTHS:
        taken: dict[str, list[float]] = {"croqtile -es": [], "g++ -fsyntax-only": []}
        with tempfile.TemporaryDirectory() as text:
            folder = Path(text)
            file, emitted = folder / "long.co", folder / "long.cpp"
            for number in range(rounds + 1):  # the first writes the modules' byte code
                file.write_text(frontend.functions(lines) + MAIN)
                ours = seconds(folder, [*CROQTILE, "-es", file, "-o", emitted])
                peer = seconds(folder, ["g++", *FLAGS, "-fsyntax-only", emitted])
                if number:
                    taken["croqtile -es"].append(ours)
                    taken["g++ -fsyntax-only"].append(peer)
        comparisons.append(_compared(f"target source of {lines} lines", "g++ -fsyntax-only", taken))
    return comparisons


def programs(rounds: int, targets: Sequence[str]) -> list[harness.Comparison]:
    """Text to result of the tutorials' complete programs."""
    comparisons = []
    for seed, target in itertools.product(SEEDS, targets):
        if target == "opencl" and "__device__" in seed.read_text():
            continue  # for single-source targets; the same with `__cok__` stands beside it
        taken: dict[str, list[float]] = {name: [] for name in ("cold", "edited", "unchanged", "emitted", "g++")}
        by_hand = BY_HAND / ("matmul.cpp" if seed.stem.startswith("matmul") else "ele_add.cpp")
        with tempfile.TemporaryDirectory() as text:
            folder = Path(text)
            file, made, emitted = folder / seed.name, folder / "made", folder / "emitted.cpp"
            build = [*CROQTILE, "-t", target, file, "-o", made]
            for number in range(rounds + 1):
                run(["rm", "-rf", folder / "cache"], folder)
                for phase in ("cold", "edited", "unchanged"):
                    if phase != "unchanged":
                        file.write_text(_edited(seed.read_text()))
                    spent = seconds(folder, build, [made])
                    if number:
                        taken[phase].append(spent)
                if target == "cpu":
                    run([*CROQTILE, "-es", file, "-o", emitted], folder)
                    spent = seconds(folder, ["g++", *FLAGS, emitted, "-o", made], [made])
                    if number:
                        taken["emitted"].append(spent)
                spent = seconds(folder, ["g++", *FLAGS, by_hand, "-o", made], [made])
                if number:
                    taken["g++"].append(spent)
        comparisons.append(_compared(f"text to result, {seed.stem}, {target}", "g++", taken))
    return comparisons


def _edited(text: str) -> str:
    """The program with another name for its function: nothing of it is in any cache."""
    name = re.search(r"__co__[^({]*?(\w+)\s*\(", text)
    assert name is not None
    return re.sub(rf"\b{name[1]}\b", f"{name[1]}_{next(_fresh)}", text)


def _compared(title: str, peer: str, taken: dict[str, list[float]]) -> harness.Comparison:
    comparison = harness.Comparison(title, peer)
    middle = harness.summary(peer, taken[peer], 1.0).seconds
    comparison.rows = [harness.summary(name, values, middle) for name, values in taken.items() if values]
    return comparison


def main() -> None:
    parser = harness.arguments(__doc__ or "")
    parser.add_argument("--rounds", type=int, default=3, help="measurements of each kind (default 3)")
    parser.add_argument("--targets", default="cpu", help="targets with a comma between them (default cpu)")
    options = parser.parse_args()
    comparisons = []
    if not options.only or options.only in "target source":
        comparisons += sources(options.rounds)
    if not options.only or options.only in "text to result":
        comparisons += programs(options.rounds, options.targets.split(","))
    harness.report(comparisons, options.json)


if __name__ == "__main__":
    main()
