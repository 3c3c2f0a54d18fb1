"""Numbers and threads of named barriers."""

from __future__ import annotations

import numpy as np
import pytest

import croq_magic as croq

CELL = """
__co__ s32 [64] f(s32 [64] x, int n) {{
  s32 [64] r;
  {host}
  parallel b by 1 : block {{
    parallel w by 2 : group, t by 32 : thread {{
      {body}
      r.at(w * 32 + t) = x.at(t);
    }}
  }}
  return r;
}}
"""


def findings(body: str, host: str = "") -> list[str]:
    found = croq.check(CELL.format(body=body, host=host))
    return [f"{d.span.line}:{d.span.column} {d.code} {d.message}" for d in found if d.severity == "error"]


@pytest.mark.parametrize(
    "body, expect",
    [
        ("__bar_sync(0, 64);", "7:18 PAR29 there is no barrier 0; their numbers are 1 to 15"),
        ("__bar_arrive(16, 64);", "7:20 PAR29 there is no barrier 16; their numbers are 1 to 15"),
        ("__bar_sync(1, 48);", "7:21 PAR29 `__bar_sync` counts whole warps; 48 is not a positive multiple of 32"),
        ("__bar_sync(1, 0);", "7:21 PAR29 `__bar_sync` counts whole warps; 0 is not a positive multiple of 32"),
        ("mutable s32 k = 0; k = __bar_sync(1, 64);", "7:30 CAL04 `__bar_sync` has no result"),
    ],
)
def test_what_is_known(body: str, expect: str) -> None:
    assert findings(body) == [expect]


def test_on_the_host() -> None:
    assert findings("", "__bar_sync(1, 64);") == ["4:3 PAR13 `__bar_sync` needs an enclosing `parallel`"]


def test_what_is_known_when_it_runs() -> None:
    function = croq.compile(CELL.format(body="__bar_sync(n, 64);", host="")).f
    x = np.arange(64, dtype=np.int32)
    np.testing.assert_array_equal(function(x, 15), np.tile(x[:32], 2))
    with pytest.raises(croq.CroqError, match="there is no barrier n; their numbers are 1 to 15"):
        function(x, 16)
