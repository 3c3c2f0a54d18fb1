"""widen-blocks: threads for blocks that move data, with the joins they need."""

from __future__ import annotations

import numpy as np
import pytest
from passes.cells import front

import croq_magic as croq
from croq_magic.compiler.passes.base import Context, run_passes
from croq_magic.compiler.passes.widen_blocks import WidenBlocks
from croq_magic.compiler.text import format_function


def kernel(body: str, params: str = "f32 [8, 64] x") -> list[str]:
    text = f"__co__ f32 [8, 64] f({params}) {{ f32 [8, 64] r; parallel b by 8 : block {{ {body} }} return r; }}"
    functions, report = front(text)
    assert not report.errors, report.text()
    lines = format_function(run_passes(functions["f"], [WidenBlocks()], Context())).splitlines()
    start = next(i for i, line in enumerate(lines) if "region" in line)
    return [line.strip() for line in lines[start + 1 :] if line.strip(" }") and "return" not in line]


ROW = "x.subspan(1, 64).at(b, 0)"


def test_a_tile_that_is_changed_as_a_whole() -> None:
    assert kernel(f"a = dma.copy {ROW} => shared; t = a.data; t *= 2.0f; dma.copy t => r.subspan(1, 64).at(b, 0);") == [
        "shared a: f32 [1, 64]",
        "copy x[b + c0, c1 : 1, 64] => a",
        "barrier block  // a written",
        "a *= 2.0f",
        "barrier block  // a written",
        "copy a => r[b + c0, c1 : 1, 64]",
        "region thread [t < 32] implied {",
    ]


def test_scalars_of_the_block_need_no_join() -> None:
    lines = kernel(
        f"a = dma.copy {ROW} => shared; mutable f32 s = 0.0f; foreach i in 64 s += a.data.at(0, i); r.at(b, 0) = s;"
    )
    assert [line for line in lines if line.startswith("barrier")] == ["barrier block  // a written"]


@pytest.mark.parametrize(
    "body",
    [
        "r.at(b, 0) = x.at(b, 0);",
        "a = dma.copy x.subspan(1, 4).at(b, 0) => shared; r.at(b, 0) = a.data.at(0, 0);",  # one access of 16 bytes
        f"a = dma.copy {ROW} => shared; parallel t by 64 : thread r.at(b, t) = a.data.at(0, t);",
        f"a = dma.copy {ROW} => local; r.at(b, 0) = a.data.at(0, 0);",
    ],
)
def test_what_stays_as_it_is(body: str) -> None:
    assert not any("implied" in line for line in kernel(body))


@pytest.mark.parametrize("columns", [1, 7, 64, 129])
def test_values(columns: int) -> None:
    source = f"""__co__ s32 [3, {columns}] f(s32 [3, {columns}] x, s32 [{columns}] y) {{
      s32 [3, {columns}] r;
      parallel b by 3 : block {{
        a = dma.copy x.subspan(1, {columns}).at(b, 0) => shared;
        c = dma.copy y => shared;
        t = a.data; u = c.data;
        foreach k in 3 {{ t += u; u += k; }}
        mutable s32 first = t.at(0, 0);
        t -= first;
        t.at(0, 0) = first;
        dma.copy t => r.subspan(1, {columns}).at(b, 0);
      }}
      return r;
    }}"""
    x, y = np.arange(3 * columns, dtype=np.int32).reshape(3, columns), np.arange(columns, dtype=np.int32) ** 2
    wanted = x + 3 * y + 1
    first = wanted[:, :1].copy()
    wanted = wanted - first
    wanted[:, :1] = first
    np.testing.assert_array_equal(croq.compile(source, target="emulate").f(x, y), wanted)
