"""What kernels print on OpenCL devices: in the cell, between what the host prints."""

from __future__ import annotations

import numpy as np
import pytest
from targets.opencl.opencl_devices import each_device

import croq_magic as croq

TEXT = """
__co__ void f(s32 [3] x) {
  u64 large = 18446744073709551615ull;
  println("begin");
  parallel i by 3 : block { println("i ", i, " x ", x.at(i), " ", x.at(i) > 1, " ", 1.5f, " 100% \\"q\\" ", large); }
  println("middle");
  parallel i by 2 : block { parallel t by 2 : thread { println("t ", t - 1); } }
  println("end");
}
"""


@each_device
def test_order(arch: str, capsys: pytest.CaptureFixture[str]) -> None:
    croq.compile(TEXT, target="opencl", arch=arch).functions["f"](np.arange(3, dtype=np.int32))
    lines = capsys.readouterr().out.splitlines()
    own = [f'i {i} x {i} {str(i > 1).lower()} 1.500000 100% "q" {2**64 - 1}' for i in range(3)]
    assert [lines[0], lines[4], lines[9:]] == ["begin", "middle", ["end"]]
    assert sorted(lines[1:4]) == own  # blocks are in no order
    assert sorted(lines[5:9]) == ["t -1", "t -1", "t 0", "t 0"]
