"""`printf` in the C++ of a cell: its text goes where `print` goes, complete and in the order of blocks."""

from __future__ import annotations

import numpy as np
import pytest

import croq_magic as croq

SHOW = r"""
__device__ void show(int p, const float* x) {
  if (p % 2 == 0) printf("block %d: %.2f %s\n", p, x[0], "even");
  if (p == 2) printf("no format\n");
}
__co__ void f(f32 [64, 4] x) {
  parallel p by 64 : block { call show(p, x.chunkat(p, _)); }
}
"""


@pytest.mark.parametrize("headers", ["", "#include <cstdio>\n", "#include <stdio.h>\n#include <string>\n"])
def test_device_functions_print_to_the_cell(headers: str, capfd: pytest.CaptureFixture[str]) -> None:
    x = np.arange(256, dtype=np.float32).reshape(64, 4)
    program = croq.compile(headers + SHOW)
    capfd.readouterr()
    written: list[str] = []
    with pytest.MonkeyPatch.context() as patch:  # sys.stdout and not file descriptor 1
        patch.setattr("sys.stdout.write", written.append)
        program.f(x)
    expect = []
    for p in range(0, 64, 2):
        expect.append(f"block {p}: {x[p, 0]:.2f} even")
        expect += ["no format"] if p == 2 else []
    assert "".join(written).splitlines() == expect
    assert capfd.readouterr().out == ""


def test_long_lines_and_spliced_text(capsys: pytest.CaptureFixture[str]) -> None:
    text = r"""
__co__ void f() {
  parallel p by 3 : block { __cpp__("printf(\"%600d|%lld\\n\", int(p), 1ll << 40);"); println("and ", p); }
}
"""
    croq.compile(text).f()
    assert capsys.readouterr().out.splitlines() == [
        line for p in range(3) for line in (f"{p:600d}|{1 << 40}", f"and {p}")
    ]
