"""C++ in the middle of a function sees what it names, also what nothing else names."""

from __future__ import annotations

import numpy as np
import pytest

import croq_magic as croq


@pytest.mark.parametrize("target", ["cpu", "emulate"])
def test_spliced_text_sees_scalars_and_spans(target: str) -> None:
    program = croq.compile(
        """__co__ s32 [N] marked(s32 [N] x, s32 [N] weight, int bias, f32 g) {
  s32 [N] r;
  parallel p by N : thread {
    s32 y = x.at(p);
    __cpp__("y = y * 2 + bias + N;");
    r.at(p) = y;
    __cpp__("r[p] += weight[p] + int(g);");
  }
  return r;
}""",
        target=target,
    )
    x = np.array([4, -1, 7], dtype=np.int32)
    result = program.marked(x, 10 * x, 5, np.float32(2.5))
    assert result.tolist() == (2 * x + 5 + 3 + 10 * x + 2).tolist()


@pytest.mark.parametrize(
    ("result", "parameter", "named"),
    [("x.span", "s32 mdspan<3> x", "x.span"), ("M + 2 * M", "s32 [M] x", "M + 2 * M")],
)
def test_a_result_of_computed_shape_is_auto(result: str, parameter: str, named: str) -> None:
    with pytest.raises(croq.CompileError) as caught:
        croq.compile(f"__co__ s32 [{result}] f({parameter}) {{ s32 [x.span] r; return r; }}")
    (found,) = caught.value.diagnostics
    assert found.code == "DYN01" and found.span.text == named
    assert found.hint == "`__co__ auto f(...)` takes the shape of what is returned"
