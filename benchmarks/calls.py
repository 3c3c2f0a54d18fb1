"""The overhead of one call on arrays of one element: a bare ctypes call, a numba function, a bound function."""

from __future__ import annotations

import compiled_python
import harness
import numpy as np
import programs
from native import bound


def main() -> None:
    options = harness.arguments(__doc__ or "").parse_args()
    a, b = np.array([1], np.int32), np.array([2], np.int32)
    outs = {name: np.zeros(1, np.int32) for name in ("croq_magic", "numba", "NumPy +")}
    ours = programs.function(programs.NOTHING, "nothing")
    comparison = harness.Comparison("a call on arrays of one element", "numba")
    comparison.add("ctypes, bare", bound("elementwise", "nothing", a, b, outs["numba"]))
    comparison.add("croq_magic", lambda: ours(a, b, outs["croq_magic"]))
    comparison.add("numba", lambda: compiled_python.nothing(a, b, outs["numba"]))
    comparison.add("NumPy +", lambda: np.add(a, b, out=outs["NumPy +"]))
    comparison.run(options.budget)
    for name, out in outs.items():
        if out[0] != 3:
            raise SystemExit(f"{name} computes something else")
    harness.report([comparison], options.json)


if __name__ == "__main__":
    main()
