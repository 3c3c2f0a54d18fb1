"""How long the front end (text to IR, all proofs done) takes: a cell of 60 lines, and programs of up to 10,000.

The aims: under 50 ms for the cell, and time in proportion to the length up to 3,000 lines, whether a program is long
because it has many functions or because one function has many statements.
"""

from __future__ import annotations

import itertools
import re
import statistics
import time

import harness

from croq_magic.compiler import pipeline
from croq_magic.compiler.limits import CPU
from croq_magic.compiler.source import Source

AIM, CELL, LINEAR = 0.050, 60, 3000
LENGTHS = (60, 300, 1000, 3000, 10000)

# 20 lines: a launch over tiles, transfers, a nest of loops, reductions, conditions.
FUNCTION = """\
__co__ f32 [M, 64] step_N(f32 [M, 64] x, f32 [64] weights, f32 low) {
  f32 [x.span] out;
  parallel p by M : block {
    row = dma.copy x.chunkat(p, _) => shared;
    scale = dma.copy weights => shared;
    parallel t by 64 : thread {
      mutable f32 total = 0.0f;
      foreach k in 64 {
        total += row.data.at(0, k) * scale.data.at((k + t) % 64);
        if (total > 1000.0f) total = total - 1000.0f;
      }
      v = row.data.at(0, t) + total;
      shared f32 [64] part;
      part.at(t) = v > low ? v : __exp(v);
      sync.shared;
      out.at(p, t) = part.at(63 - t) + part.at(t) * 0.5f;
    }
  }
  return out;
}
"""
HEAD = """\
__co__ s32 [64, 128] long(s32 [64, 128] x, s32 [128] w, int n) {
  s32 [64, 128] out;
  parallel p by 64 : block, t by 128 : thread {
    mutable s32 total = 0;
"""
# 6 lines, with names of their own.
STATEMENTS = """\
    a_N = x.at(p, t) * 3 + w.at((t + N) % 128);
    if (a_N > n && t < 100) total += a_N / 7;
    else total -= x.at(p, 127 - t);
    foreach k_N in 4 {
      out.at(p, t) += total * k_N + w.at(t / 4 * 4 + k_N);
    }
"""
TAIL = "  }\n  return out;\n}\n"


_fresh = itertools.count()


def functions(lines: int) -> str:
    """A program of that many lines, all functions of 20. No variable has been seen before, so nothing is remembered."""
    text = _renamed(FUNCTION, r"M|x|low|out|p|row|t|k|total|v|part|scale|weights")
    return "".join(text.replace("_N", f"_{i}") for i in range(lines // FUNCTION.count("\n")))


def statements(lines: int) -> str:
    """A program of about that many lines, all in one function, likewise."""
    rest = lines - (HEAD + TAIL).count("\n")
    middle = "".join(STATEMENTS.replace("N", str(i)) for i in range(rest // STATEMENTS.count("\n")))
    return _renamed(HEAD + middle + TAIL, r"x|n|w|p|t|out|total|[ak]_\d+")


def _renamed(text: str, names: str) -> str:
    return re.sub(rf"\b({names})\b", rf"\g<1>_{next(_fresh)}", text)


def front_end(text: str) -> float:
    """Processor seconds from text to IR: one thread does it all, and a busy neighbour does not count."""
    start = time.process_time()
    found = pipeline.front_end(Source(text), CPU, {})
    seconds = time.process_time() - start
    errors = found.report.errors
    assert not errors, errors[0]
    return seconds


def main() -> None:
    options = harness.arguments(__doc__ or "").parse_args()
    comparisons = []
    for title, make in (("functions of 20 lines", functions), ("one long function", statements)):
        if options.only not in title:
            continue
        front_end(make(CELL))  # tables are read, modules imported
        comparison = harness.Comparison(f"front end, {title}", f"{CELL} lines")
        first = 0.0
        per_line = {}
        for lines in LENGTHS:
            taken: list[float] = []
            while len(taken) < 3 or (sum(taken) < options.budget and len(taken) < 50):
                taken.append(front_end(make(lines)))
            middle = statistics.median(taken)
            first = first or middle
            per_line[lines] = middle / make(lines).count("\n")
            comparison.rows.append(harness.summary(f"{lines} lines", taken, first))
        comparisons.append(comparison)
        growth = per_line[LINEAR] / per_line[CELL]
        print(f"{title}: {first * 1e3:.1f} ms for {CELL} lines (aim {AIM * 1e3:.0f}); microseconds a line: ", end="")
        print(", ".join(f"{lines}: {value * 1e6:.0f}" for lines, value in per_line.items()), end="; ")
        print(f"a line of {LINEAR} costs {growth:.2f} of one of {CELL}")
    harness.report(comparisons, options.json)


if __name__ == "__main__":
    main()
