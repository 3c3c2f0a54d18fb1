"""Roles that wait for each other: a pipelined f16 tile product against the plain loop, and what a fiber costs.

The aim: the pipeline (a loader and a multiplier, in turn in one loop or on two fibers) takes at most three times as
long as the same product without roles. The ring of scalars shows all ways to run roles: turns in a loop, a fiber a
group, and a fiber for every thread.
"""

from __future__ import annotations

import os

import harness
import numpy as np

import croq_magic as croq

PLAIN = """
__co__ void product(global f16 [M, K] a, global f16 [N, K] b, global f32 [M, N] c) {
  parallel {bm, bn} by [M / 64, N / 64] : block, g by 1 : group-4 {
    acc = mma.fill.f32 0.0f;
    foreach {n} in [K / 32] {
      la = dma.copy a.subspan(64, 32).at(bm, n) => shared;
      lb = dma.copy b.subspan(64, 32).at(bn, n) => shared;
      mma.row.row acc, la.data, lb.data;
    }
    mma.store acc, c.subspan(64, 64).at(bm, bn);
  }
}
"""
PIPELINE = """
__co__ void product(global f16 [M, K] a, global f16 [N, K] b, global f32 [M, N] c) {
  parallel {bm, bn} by [M / 64, N / 64] : block {
    shared f16 [64, 32] ta[3];
    shared f16 [64, 32] tb[3];
    shared event have[3], freed[3] = ready;
    parallel role by 2 : group-4 {
      inthreads.async (role == 0) {
        foreach {n} in [K / 32] {
          wait freed.at(n);
          la = tma.load.async a.subspan(64, 32).at(bm, n) => ta[n % 3];
          lb = tma.load.async b.subspan(64, 32).at(bn, n) => tb[n % 3];
          trigger have.at(n) after la, lb;
        }
      }
      inthreads.async (role == 1) {
        acc = mma.fill.f32 0.0f;
        foreach {n} in [K / 32] {
          wait have.at(n);
          step = mma.row.row.async acc, ta[n % 3], tb[n % 3];
          wait step;
          trigger freed.at(n);
        }
        mma.store acc, c.subspan(64, 64).at(bm, bn);
      }
    }
  }
}
"""
RING = """
__co__ s32 [1000, 128] relay(s32 [1000, 128] x) {
  s32 [1000, 128] r;
  parallel b by 1 : block {
    shared s32 [128] slot[2];
    shared event have[2], freed[2] = ready;
    parallel w by 2 : group-4, t by 128 : thread {
      inthreads.async (w == 0) {
        foreach n in 1000 { wait freed.at(n); slot[n % 2].at(t) = x.at(n, t) * 2; trigger have.at(n); }
      }
      inthreads.async (w == 1) {
        foreach n in 1000 { wait have.at(n); r.at(n, t) = slot[n % 2].at(127 - t) + 1; trigger freed.at(n); }
      }
    }
  }
  return r;
}
"""


def products(size: int = 1024) -> harness.Comparison:
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-4, 5, (size, size)).astype(np.float16) for _ in range(2))
    expect = a.astype(np.float32) @ b.astype(np.float32).T
    title = f"f16 tile product {size} x {size} x {size}, tiles 64 x 64 x 32"
    comparison = harness.Comparison(title, "plain loop", 2.0 * size**3)
    ways = (("plain loop", PLAIN, "auto"), ("roles in turn", PIPELINE, "auto"), ("roles on fibers", PIPELINE, "roles"))
    for name, source, strategy in ways:
        os.environ["CROQ_STRATEGY"] = strategy
        function, c = croq.compile(source).functions["product"], np.zeros((size, size), np.float32)
        function(a, b, c)
        np.testing.assert_array_equal(c, expect)
        comparison.add(name, lambda function=function, c=c: function(a, b, c))
    del os.environ["CROQ_STRATEGY"]
    return comparison


def rings() -> harness.Comparison:
    x = np.arange(1000 * 128, dtype=np.int32).reshape(1000, 128)
    title = "ring of two slots, 1000 steps of 2 x 128 threads (rate: threads and steps)"
    comparison = harness.Comparison(title, "a fiber a thread", 1000.0 * 256)
    for name, strategy in (("turns in a loop", "auto"), ("a fiber a group", "roles"), ("a fiber a thread", "fibers")):
        os.environ["CROQ_STRATEGY"] = strategy
        function = croq.compile(RING).functions["relay"]
        np.testing.assert_array_equal(function(x), x[:, ::-1] * 2 + 1)
        comparison.add(name, lambda function=function: function(x))
    del os.environ["CROQ_STRATEGY"]
    return comparison


def main() -> None:
    options = harness.arguments(__doc__.splitlines()[0]).parse_args()
    wanted = [make for make in (products, rings) if options.only in make.__name__]
    harness.report([make().run(options.budget) for make in wanted], options.json)


if __name__ == "__main__":
    main()
