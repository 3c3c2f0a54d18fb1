"""Rows of a softmax and element-wise math on f32, per element: this project, NumPy, and numba with as many threads."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import harness
import numba
import numpy as np

import croq_magic as croq

ROWS, COLUMNS = 1024, 1024

SOFTMAX = """
__co__ void softmax(global f32 [R, C] x, global f32 [R, C] y) {
  parallel r by R : block {
    f32 most = x.at(r, 0);
    foreach i in [C] { most = __max(most, x.at(r, i)); }
    f32 total = 0.0f;
    foreach i in [C] {
      f32 e = __exp(x.at(r, i) - most);
      y.at(r, i) = e;
      total += e;
    }
    f32 scale = 1.0f / total;
    foreach i in [C] { y.at(r, i) = y.at(r, i) * scale; }
  }
}
"""
ELEMENTWISE = """
__co__ void each(global f32 [R, C] x, global f32 [R, C] y) {{
  parallel r by R : block {{ foreach i in [C] {{ y.at(r, i) = {expression}; }} }}
}}
"""


@numba.njit(parallel=True)
def numba_softmax(x, y):
    for r in numba.prange(x.shape[0]):
        most = x[r, 0]
        for i in range(x.shape[1]):
            most = max(most, x[r, i])
        total = np.float32(0)
        for i in range(x.shape[1]):
            e = np.exp(x[r, i] - most)
            y[r, i] = e
            total += e
        scale = np.float32(1) / total
        for i in range(x.shape[1]):
            y[r, i] *= scale


def numba_apply(function):
    inner = numba.njit(function)

    @numba.njit(parallel=True)
    def apply(x, y):
        for r in numba.prange(x.shape[0]):
            for i in range(x.shape[1]):
                y[r, i] = inner(x[r, i])

    return apply


F = np.float32


def gelu(x):
    return F(0.5) * x * (F(1) + np.tanh(F(0.79788456) * (x + F(0.044715) * x * x * x)))


def sigmoid(x):
    return F(1) / (F(1) + np.exp(-x))


def numpy_softmax(x, y):
    np.exp(x - x.max(axis=1, keepdims=True), out=y)
    y /= y.sum(axis=1, keepdims=True)


def numpy_apply(function, x, y):
    y[...] = function(x)


CASES: dict[str, tuple[str, Callable]] = {
    "exp": ("__exp(x.at(r, i))", lambda x: np.exp(x)),
    "log": ("__log(x.at(r, i))", lambda x: np.log(x)),
    "sin": ("__sin(x.at(r, i))", lambda x: np.sin(x)),
    "cos": ("__cos(x.at(r, i))", lambda x: np.cos(x)),
    "tanh": ("__tanh(x.at(r, i))", lambda x: np.tanh(x)),
    "sigmoid": ("__sigmoid(x.at(r, i))", sigmoid),
    "gelu": ("__gelu(x.at(r, i))", gelu),
}


def comparison(name: str) -> harness.Comparison:
    rng = np.random.default_rng(0)
    x = (rng.random((ROWS, COLUMNS)) * 10 + 0.01).astype(np.float32)
    if name != "log":
        x -= 5
    outs = {peer: np.zeros_like(x) for peer in ("croq_magic", "NumPy", "numba")}
    if name == "softmax":
        ours, ahead, compiled = croq.compile(SOFTMAX).softmax, numpy_softmax, numba_softmax
    else:
        expression, function = CASES[name]
        ours = croq.compile(ELEMENTWISE.format(expression=expression)).each
        ahead, compiled = partial(numpy_apply, function), numba_apply(function)
    ahead(x, outs["NumPy"])
    made = harness.Comparison(f"{name} of {ROWS} x {COLUMNS} f32", "NumPy", x.size, "Gelem/s")
    for peer, call in (("croq_magic", ours), ("NumPy", ahead), ("numba", compiled)):
        call(x, outs[peer])
        np.testing.assert_allclose(outs[peer], outs["NumPy"], rtol=1e-4, atol=1e-6, err_msg=f"{name}: {peer}")
        made.add(peer, partial(call, x, outs[peer]))
    return made


def main() -> None:
    options = harness.arguments(__doc__ or "").parse_args()
    done = [comparison(name).run(options.budget) for name in ("softmax", *CASES) if options.only in name]
    harness.report(done, options.json)


if __name__ == "__main__":
    main()
