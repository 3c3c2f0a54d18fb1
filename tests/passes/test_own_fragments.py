"""The owner of a fragment is the innermost group that uses it, whether its level was written or not."""

from __future__ import annotations

import pytest

from croq_magic.compiler import ir
from croq_magic.compiler.visit import walk
from croq_magic.program import compile

CELL = """__co__ void f(f16 [64, 16] a, f16 [8, 16] b, f32 [64, 8]& c) {{
  parallel p by 1{block} {{
    acc = mma.fill.f32 0.0f;
    {groups} {{
      mma.row.row acc, a, b;
      mma.store acc, c;
    }}
  }}
}}
"""


@pytest.mark.parametrize(
    ("block", "groups", "owner"),
    [
        (" : block", "parallel w by 1 : group", ir.Level.GROUP),
        (" : block", "parallel w by 1 : group-4", ir.Level.GROUP4),
        (" : block", "parallel w by 1 : group-4, v by 4 : group", ir.Level.GROUP),
        ("", "parallel w by 1 parallel t by 32", ir.Level.GROUP),
        (" : block", "parallel t by 64 : thread", ir.Level.BLOCK),
    ],
)
def test_owner(block: str, groups: str, owner: ir.Level) -> None:
    function = compile(CELL.format(block=block, groups=groups), target="cpu").f.ir_function
    fragments = {node for node in walk(function.body) if isinstance(node, ir.Fragment)}
    assert [fragment.owner for fragment in fragments] == [owner]
