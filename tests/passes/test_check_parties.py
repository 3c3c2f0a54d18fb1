"""Numbers of arrivals that a program states, and those that its roles have."""

from __future__ import annotations

import pytest

from croq_magic.compiler import pipeline
from croq_magic.compiler.source import Source

PROGRAM = """__co__ void f(s32 [64] r) {{
  parallel b by 2 : block {{
    shared event<{count}> e = ready, ring[2] = ready;
    parallel w by 3 : group{threads} {{
      inthreads.async ({role}) {{ trigger {event}; {more} }}
      inthreads.async (w == 2) {{ wait e, ring; }}
    }}
  }}
}}"""


def warnings(**parts: str) -> list[str]:
    values = {"count": "32", "threads": ", t by 32 : thread", "role": "w == 0", "event": "e", "more": ""} | parts
    report = pipeline.check(Source(PROGRAM.format(**values)), target="cpu")
    return [d.message for d in report.sorted() if d.code == "EVT08" and "arrivals" in d.message]


@pytest.mark.parametrize(
    ("parts", "derived"),
    [
        ({}, None),
        ({"count": "31"}, "32 threads trigger"),
        ({"role": "w < 2"}, "64 threads trigger"),
        ({"count": "64", "role": "w < 2"}, None),
        ({"threads": ""}, None),
        ({"threads": "", "count": "1"}, "32 threads trigger"),
        ({"role": "t == 5"}, "3 threads trigger"),
        ({"role": "w == 1 && t == 5"}, "1 thread triggers"),
        ({"role": "w == 1 && t == 5", "count": "1"}, None),
        ({"count": "7", "more": "trigger e;"}, None),
        ({"count": "7", "event": "ring[w]"}, None),
        ({"count": "7", "event": "ring[1]"}, "32 threads trigger"),
        ({"count": "7", "role": "r.at(0) == w"}, None),
    ],
)
def test_parties(parts: dict[str, str], derived: str | None) -> None:
    found = warnings(**parts)
    assert len(found) == (derived is not None)
    if derived is not None:
        assert derived in found[0]
