"""The conformance programs at 1 to 16 million elements: the same constructs, with larger extents and grids of blocks.

Programs of one block or of a few threads became grids whose blocks do what the whole program did.
`peers/conformance.cpp` has a function of the same name for each.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

Inputs = dict[str, Any]
MILLION = 1 << 20


@dataclass(frozen=True)
class Scaled:
    """One program. `elements` is what the table shows: the elements of its largest array (C10, C34: of its grid).

    The peer takes the arrays of `inputs`, arrays of the shapes in `scratch`, the result, the scalars of `inputs` and
    the `extents`. `written` names the parameter that holds the result of a function that returns nothing.
    """

    name: str
    elements: int
    text: str
    inputs: Callable[[], Inputs]
    result: tuple[tuple[int, ...], Any] | None = None
    written: str | None = None
    scratch: tuple[tuple[int, ...], ...] = ()
    extents: tuple[int, ...] = ()
    rtol: float = 0.0

    @property
    def number(self) -> str:
        return self.name.split()[0]


def ints(*shape: int, low: int = -1000, high: int = 1000, dtype: Any = np.int32) -> np.ndarray:
    return np.random.default_rng(0).integers(low, high, shape).astype(dtype)


def floats(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).uniform(-3, 3, shape).astype(np.float32)


def halves(*shape: int) -> np.ndarray:
    """Small integers, whose products and sums are exact."""
    return ints(*shape, low=-4, high=5, dtype=np.float16)


def _none() -> Inputs:
    return {}


S32, F32 = np.int32, np.float32

PROGRAMS = [
    Scaled(
        "C01 identity",
        4 * MILLION,
        "__co__ s32 [4194304] keep(s32 [4194304] v) { return v; }",
        lambda: {"v": ints(4 * MILLION)},
        ((4 * MILLION,), S32),
    ),
    Scaled(
        "C02 element-wise",
        4 * MILLION,
        """
__co__ s32 [2048, 2048] mix(s32 [2048, 2048] x, s32 [2048, 2048] y) {
  s32 [x.span] r;
  parallel {i, j} by [2048, 2048]
    r.at(i, j) = 3 * x.at(i, j) - y.at(i, j);
  return r;
}""",
        lambda: {"x": ints(2048, 2048), "y": ints(2048, 2048) * 3},
        ((2048, 2048), S32),
    ),
    Scaled(
        "C03 host only",
        4 * MILLION,
        """
__co__ int total(s32 [4194304] v) {
  mutable s32 acc = 0;
  foreach i in v.span acc += v.at(i);
  return acc;
}""",
        lambda: {"v": ints(4 * MILLION)},
        ((1,), S32),
    ),
    Scaled(
        "C04 clamp",
        4 * MILLION,
        """
__co__ f32 [4194304] clip(f32 [4194304] x, float lo, float hi) {
  f32 [4194304] r;
  parallel b by 16384 : block, p by 256 : thread {
    v = x.at(b#p);
    r.at(b#p) = v < lo ? lo : (v > hi ? hi : v);
  }
  return r;
}""",
        lambda: {"x": floats(4 * MILLION), "lo": -1.0, "hi": 2.0},
        ((4 * MILLION,), F32),
    ),
    Scaled(
        "C05 composition",
        4 * MILLION,
        """
__co__ s32 [4194304] stairs() {
  s32 [4194304] r;
  parallel p by 4096, q by 32
    foreach k in 32
      r.at(p#q#k) = p#q#k * 10;
  return r;
}""",
        _none,
        ((4 * MILLION,), S32),
    ),
    Scaled(
        "C06 in-out parameter",
        4 * MILLION,
        """
__co__ void bump(s32 [4194304]& v, int k) {
  parallel b by 16384 : block, p by 256 : thread v.at(b#p) += k;
}""",
        lambda: {"v": ints(4 * MILLION), "k": 7},
        written="v",
    ),
    Scaled(
        "C07 conversion",
        4 * MILLION,
        """
__co__ s32 [4194304] cut(f32 [4194304] x) {
  s32 [4194304] r;
  parallel b by 16384 : block, p by 256 : thread r.at(b#p) = __to<s32>(x.at(b#p) * 1.5f);
  return r;
}""",
        lambda: {"x": floats(4 * MILLION) * F32(1000)},
        ((4 * MILLION,), S32),
    ),
    Scaled(
        "C08 loop ranges",
        4 * MILLION,
        """
__co__ s32 [4096, 1024] comb() {
  s32 [4096, 1024] r;
  parallel b by 4096
    with k in 1024
      foreach k(1:-1:2) r.at(b, k) = k;
  return r;
}""",
        _none,
        ((4096, 1024), S32),
    ),
    Scaled(
        "C09 neighbour difference",
        4 * MILLION,
        """
__co__ s32 [4096, 1024] steps(s32 [4096, 1024] x) {
  s32 [4096, 1024] r;
  parallel b by 4096
    with i in 1024 {
      r.at(b, 0) = x.at(b, 0);
      foreach i(1:) r.at(b, i) = x.at(b, i) - x.at(b, i - 1);
    }
  return r;
}""",
        lambda: {"x": ints(4096, 1024)},
        ((4096, 1024), S32),
    ),
    Scaled(
        "C10 while, branch",
        MILLION,
        """
__co__ s32 [1048576] hail() {
  s32 [1048576] r;
  parallel b by 4096 : block, p by 256 : thread {
    mutable s32 v = b#p % 10000 + 1;
    mutable s32 n = 0;
    while (v != 1) {
      if (v % 2 == 0) v = v / 2;
      else v = 3 * v + 1;
      n += 1;
    }
    r.at(b#p) = n;
  }
  return r;
}""",
        _none,
        ((MILLION,), S32),
    ),
    Scaled(
        "C11 break, continue",
        4 * MILLION,
        """
__co__ s32 [65536] firstneg(s32 [65536, 64] x) {
  s32 [65536] r;
  parallel b by 256 : block, p by 256 : thread {
    mutable s32 pos = -1;
    mutable s32 odd = 0;
    foreach i in 64 {
      if (x.at(b#p, i) % 2 == 0) continue;
      odd += 1;
      if (x.at(b#p, i) < 0) { pos = i; break; }
    }
    r.at(b#p) = pos * 10 + odd;
  }
  return r;
}""",
        lambda: {"x": ints(65536, 64, low=-50)},
        ((65536,), S32),
    ),
    Scaled(
        "C12 yield",
        4 * MILLION,
        """
__co__ s32 [4194304] skip() {
  s32 [4194304] r;
  parallel b by 16384 : block, p by 256 : thread {
    if (b#p % 3 == 0) yield;
    r.at(b#p) = b#p;
  }
  return r;
}""",
        _none,
        ((4 * MILLION,), S32),
    ),
    Scaled(
        "C13 local tiles",
        4 * MILLION,
        """
__co__ s32 [4194304] affine(s32 [4194304] x) {
  s32 [4194304] r;
  parallel t by 16384 : block {
    a = dma.copy x.chunkat(t) => local;
    local s32 [a.span] o;
    foreach i in [4194304 / #t] o.at(i) = 2 * a.data.at(i) + t;
    dma.copy o => r.chunkat(t);
  }
  return r;
}""",
        lambda: {"x": ints(4 * MILLION)},
        ((4 * MILLION,), S32),
    ),
    Scaled(
        "C14 shared tiles",
        4 * MILLION,
        """
__co__ s32 [2048, 2048] tint(s32 [2048, 2048] x) {
  s32 [2048, 2048] r;
  parallel {bi, bj} by [64, 64] : block {
    s = dma.copy x.chunkat(bi, bj) => shared;
    parallel {ti, tj} by [32, 32] : thread
      r.at(bi#ti, bj#tj) = s.data.at(31 - ti, tj) * 2 + bj#tj;
  }
  return r;
}""",
        lambda: {"x": ints(2048, 2048)},
        ((2048, 2048), S32),
    ),
    Scaled(
        "C15 tile with two indices",
        4 * MILLION,
        """
__co__ s32 [64, 256, 256] shiftall(s32 [64, 256, 256] x) {
  s32 [x.span] r;
  parallel p by 64 : block
    with idx in [16, 16] {
      foreach idx {
        a = dma.copy x.chunkat(p, idx) => local;
        foreach e in a.span a.data.at(e) += idx(0) * 100 + idx(1);
        dma.copy a => r.chunkat(p, idx);
      }
    }
  return r;
}""",
        lambda: {"x": ints(64, 256, 256)},
        ((64, 256, 256), S32),
    ),
    Scaled(
        "C16 padding",
        4 * MILLION,
        """
__co__ s32 [1024, 64, 64] frame(s32 [1024, 61, 59] x) {
  s32 [1024, 64, 64] r;
  parallel b by 1024 : block {
    a = dma.pad<{0, 1, 2}, {0, 2, 3}, {0, 0, 0}, -1> x.chunkat(b, _, _) => local;
    dma.copy a => r.chunkat(b, _, _);
  }
  return r;
}""",
        lambda: {"x": ints(1024, 61, 59)},
        ((1024, 64, 64), S32),
    ),
    Scaled(
        "C17 transposition",
        4 * MILLION,
        """
__co__ f32 [2048, 2048] flip(f32 [2048, 2048] x) {
  f32 [2048, 2048] r;
  parallel {bi, bj} by [64, 64] : block {
    a = dma.transp<1, 0> x.chunkat(bi, bj) => local;
    dma.copy a => r.chunkat(bj, bi);
  }
  return r;
}""",
        lambda: {"x": floats(2048, 2048)},
        ((2048, 2048), F32),
    ),
    Scaled(
        "C18 3-D permutation",
        4 * MILLION,
        """
__co__ s16 [256, 128, 128] spin(s16 [128, 128, 256] x) {
  s16 [256, 128, 128] r;
  parallel {bi, bj, bk} by [16, 16, 16] : block {
    a = dma.transp<2, 0, 1> x.chunkat(bi, bj, bk) => local;
    dma.copy a => r.chunkat(bk, bi, bj);
  }
  return r;
}""",
        lambda: {"x": ints(128, 128, 256, dtype=np.int16)},
        ((256, 128, 128), np.int16),
    ),
    Scaled(
        "C19 strided view",
        6 * MILLION,
        """
__co__ s32 [2048, 1024] thirds(s32 [2048, 3072] x) {
  s32 [2048, 1024] r;
  parallel b by 512 : block {
    a = dma.copy x.view(4, 1024 : 3072, 3).from(b * 4, 0) => local;
    dma.copy a => r.chunkat(b, _);
  }
  return r;
}""",
        lambda: {"x": ints(2048, 3072)},
        ((2048, 1024), S32),
    ),
    Scaled(
        "C20 overlapping tiles",
        2 * MILLION,
        """
__co__ s32 [1048576] peaks(s32 [2097154] x) {
  s32 [1048576] r;
  parallel p by 1048576 : block {
    w = dma.copy x.subspan(4).step(2).at(p) => local;
    mutable s32 m = w.data.at(0);
    foreach i in 4 m = __max(m, w.data.at(i));
    r.at(p) = m;
  }
  return r;
}""",
        lambda: {"x": ints(2 * MILLION + 2)},
        ((MILLION,), S32),
    ),
    Scaled(
        "C21 ragged tile",
        4 * MILLION,
        """
__co__ s32 [4194304] roundup(s32 [4194249] x) {
  s32 [4194304] r;
  parallel p by cdiv(4194249, 256) : block {
    a = dma.copy.zfill x.subspan(256).at(p) => local;
    dma.copy a => r.chunkat(p);
  }
  return r;
}""",
        lambda: {"x": ints(4 * MILLION - 55)},
        ((4 * MILLION,), S32),
    ),
    Scaled(
        "C22 reshape",
        4 * MILLION,
        """
__co__ s32 [4194304] unroll_rev(s32 [2048, 2048] x) {
  s32 [4194304] r;
  v = x.span_as([4194304]);
  parallel b by 16384 : block, p by 256 : thread r.at(b#p) = v.at(4194303 - b#p);
  return r;
}""",
        lambda: {"x": ints(2048, 2048)},
        ((4 * MILLION,), S32),
    ),
    Scaled(
        "C23 squeeze",
        4 * MILLION,
        """
__co__ s32 [512, 64, 128] swap01(s32 [64, 512, 128] x) {
  s32 [512, 64, 128] r;
  parallel p by 512 : block {
    a = dma.copy x.subspan(64, 1, 128).at(0, p, 0).sqz() => local;
    dma.copy a => r.subspan(1, 64, 128).at(p, 0, 0).sqz();
  }
  return r;
}""",
        lambda: {"x": ints(64, 512, 128)},
        ((512, 64, 128), S32),
    ),
    Scaled(
        "C24 1-D stencil",
        4 * MILLION,
        """
__co__ s32 [4194304] sum3(s32 [4194306] x) {
  s32 [4194304] r;
  parallel p by 4096 : block {
    w = dma.copy x.view(1026).from(p * 1024) => shared;
    parallel t by 1024 : thread
      r.at(p#t) = w.data.at(t) + w.data.at(t + 1) + w.data.at(t + 2);
  }
  return r;
}""",
        lambda: {"x": ints(4 * MILLION + 2)},
        ((4 * MILLION,), S32),
    ),
    Scaled(
        "C25 2-D stencil",
        4 * MILLION,
        """
__co__ f32 [2048, 2048] lap(f32 [2050, 2050] x) {
  f32 [2048, 2048] r;
  parallel {bi, bj} by [64, 64] : block {
    s = dma.copy x.view(34, 34).from(bi * 32, bj * 32) => shared;
    parallel {ti, tj} by [32, 32] : thread
      r.at(bi#ti, bj#tj) = s.data.at(ti, tj + 1) + s.data.at(ti + 2, tj + 1)
                         + s.data.at(ti + 1, tj) + s.data.at(ti + 1, tj + 2)
                         - 4.0f * s.data.at(ti + 1, tj + 1);
  }
  return r;
}""",
        lambda: {"x": floats(2050, 2050)},
        ((2048, 2048), F32),
    ),
    Scaled(
        "C26 buffer arrays",
        4 * MILLION,
        """
__co__ s32 [4194304] weave(s32 [4194304] x) {
  s32 [4194304] r;
  parallel b by 4096 : block {
    shared s32 [1024] t[3];
    foreach k in 3 {
      dma.copy x.chunkat(b) => t[k];
      parallel i by 1024 : thread t[k].at(i) += k * 10;
    }
    parallel i by 1024 : thread
      r.at(b#i) = t[0].at(i) + t[1].at(1023 - i) - t[2].at(i);
  }
  return r;
}""",
        lambda: {"x": ints(4 * MILLION)},
        ((4 * MILLION,), S32),
    ),
    Scaled(
        "C27 whole-span arithmetic",
        4 * MILLION,
        """
__co__ s32 [4096, 1024] blend(s32 [4096, 1024] x, s32 [1024] b) {
  s32 [4096, 1024] r;
  parallel p by 1024 : block {
    a = dma.copy x.chunkat(p, _) => shared;
    c = dma.copy b => shared;
    t = a.data;
    t += c.data;
    t *= 3;
    dma.copy t => r.chunkat(p, _);
  }
  return r;
}""",
        lambda: {"x": ints(4096, 1024), "b": ints(1024)},
        ((4096, 1024), S32),
    ),
    Scaled(
        "C28 histogram",
        4 * MILLION,
        """
__co__ s32 [4096, 10] tally(s32 [4096, 1024] x) {
  s32 [4096, 10] r;
  parallel b by 4096 : block, t by 1024 : thread {
    shared s32 [10] bins {0};
    __atomic_add(bins.at(x.at(b, t) % 10), 1);
    sync.shared;
    if (t < 10) r.at(b, t) = bins.at(t);
  }
  return r;
}""",
        lambda: {"x": ints(4096, 1024, low=0)},
        ((4096, 10), S32),
    ),
    Scaled(
        "C29 global atomics",
        MILLION,
        """
__co__ s32 [3] ends(s32 [1048576] x) {
  s32 [3] r;
  r.at(0) = 1000000;
  r.at(1) = -1000000;
  parallel b by 4096 : block, t by 256 : thread {
    __atomic_min(r.at(0), x.at(b#t));
    __atomic_max(r.at(1), x.at(b#t));
    mutable s32 old = __atomic_cas(r.at(2), 0, 1);
    if (old == 0) __atomic_add(r.at(2), 41);
  }
  return r;
}""",
        lambda: {"x": ints(MILLION, low=-100000, high=100000)},
        ((3,), S32),
    ),
    Scaled(
        "C30 prefix sum",
        MILLION,
        """
__co__ s32 [1048576] scan(s32 [1048576] x) {
  s32 [1048576] r;
  parallel b by 4096 : block, t by 256 : thread {
    shared s32 [256] s;
    s.at(t) = x.at(b#t);
    sync.shared;
    mutable int hop = 1;
    while (hop < 256) {
      mutable s32 add = 0;
      if (t >= hop) { add = s.at(t - hop); }
      sync.shared;
      s.at(t) += add;
      sync.shared;
      hop = hop * 2;
    }
    r.at(b#t) = s.at(t);
  }
  return r;
}""",
        lambda: {"x": ints(MILLION)},
        ((MILLION,), S32),
    ),
    Scaled(
        "C31 tree reduction",
        4 * MILLION,
        """
__co__ s32 [16384] energy(s32 [16384, 256] x) {
  s32 [16384] r;
  parallel b by 16384 : block {
    shared s32 [256] s;
    parallel t by 256 : thread {
      s.at(t) = x.at(b, t) * x.at(b, t);
      sync.shared;
      foreach k in 8 {
        w = 128 >> k;
        if (t < w) s.at(t) += s.at(t + w);
        sync.shared;
      }
      if (t == 0) r.at(b) = s.at(0);
    }
  }
  return r;
}""",
        lambda: {"x": ints(16384, 256)},
        ((16384,), S32),
    ),
    Scaled(
        "C32 row softmax",
        MILLION,
        """
__co__ f32 [4096, 256] soft(f32 [4096, 256] x) {
  f32 [4096, 256] r;
  parallel b by 4096 : block {
    shared f32 [256] e;
    shared f32 [1] tot;
    parallel t by 256 : thread {
      e.at(t) = __exp(x.at(b, t));
      sync.shared;
      inthreads (t == 0) {
        mutable f32 s = 0.0f;
        foreach i in 256 s += e.at(i);
        tot.at(0) = s;
      }
      r.at(b, t) = e.at(t) / tot.at(0);
    }
  }
  return r;
}""",
        lambda: {"x": floats(4096, 256)},
        ((4096, 256), F32),
        rtol=1e-5,
    ),
    Scaled(
        "C33 thread masking",
        4 * MILLION,
        """
__co__ s32 [4194304] mirror(s32 [4194304] x) {
  s32 [4194304] r;
  parallel b by 16384 : block, t by 256 : thread {
    shared s32 [256] s;
    inthreads (t < 128) { s.at(t) = x.at(b#t); }
    inthreads (t >= 128) { s.at(t) = 0 - x.at(b#t); }
    r.at(b#t) = s.at(255 - t);
  }
  return r;
}""",
        lambda: {"x": ints(4 * MILLION)},
        ((4 * MILLION,), S32),
    ),
    Scaled(
        "C34 implicit masking",
        MILLION,
        """
__co__ s32 [1048576] once() {
  s32 [1048576] r;
  parallel b by 1048576 : block {
    shared s32 [1] n {0};
    parallel t by 32 : thread __atomic_add(n.at(0), 1);
    n.at(0) += 100;
    parallel u by 32 : thread
      if (u == 0) r.at(b) = n.at(0) + b;
  }
  return r;
}""",
        _none,
        ((MILLION,), S32),
    ),
    Scaled(
        "C35 three levels",
        4 * MILLION,
        """
__co__ s32 [4194304] ids() {
  s32 [4194304] r;
  parallel b by 65536 : block, g by 2 : group, t by 32 : thread
    r.at(b#g#t) = 1000 * b + 100 * g + t;
  return r;
}""",
        _none,
        ((4 * MILLION,), S32),
    ),
    Scaled(
        "C36 dynamic matrix product",
        MILLION,
        """
__co__ auto mm(s32 [M, K] a, s32 [K, N] b) {
  s32 [a.span(0), b.span(1)] c;
  parallel {j, i} by [N, M] : block
    foreach k in K
      c.at(i, j) += a.at(i, k) * b.at(k, j);
  return c;
}""",
        lambda: {"a": ints(1024, 64), "b": ints(64, 1024)},
        ((1024, 1024), S32),
        extents=(1024, 1024, 64),
    ),
    Scaled(
        "C37 anonymous dimension",
        4 * MILLION,
        """
__co__ auto rowsum(f32 [?, 64] x) {
  f32 [x.span(0)] r;
  assert(x.span(0) % 2 == 0, "even number of rows expected");
  parallel p by x.span(0) : block {
    a = dma.copy x.subspan(1, 64).at(p, 0) => local;
    mutable f32 s = 0.0f;
    foreach i in 64 s += a.data.at(0, i);
    r.at(p) = s;
  }
  return r;
}""",
        lambda: {"x": floats(65536, 64)},
        ((65536,), F32),
        extents=(65536,),
    ),
    Scaled(
        "C38 two kernels",
        4 * MILLION,
        """
__co__ s32 [4194304] fold2(s32 [4194304] x) {
  s32 [4194304] t, r;
  parallel b by 16384 : block, p by 256 : thread t.at(b#p) = x.at(b#p) + 1;
  parallel b by 16384 : block, q by 256 : thread r.at(b#q) = t.at(b#q) * t.at(4194303 - b#q);
  return r;
}""",
        lambda: {"x": ints(4 * MILLION)},
        ((4 * MILLION,), S32),
        scratch=((4 * MILLION,),),
    ),
    Scaled(
        "C39 launches in a host loop",
        MILLION,
        """
__co__ s32 [1048576] blur(s32 [1048576] x, int times) {
  s32 [1048576] a, b;
  dma.copy x => a;
  foreach s in times {
    parallel p by 4096 : block, t by 256 : thread b.at(p#t) = a.at(p#t) + a.at((p#t + 1) % 1048576);
    parallel q by 4096 : block, t by 256 : thread a.at(q#t) = b.at(q#t);
  }
  return a;
}""",
        lambda: {"x": ints(MILLION), "times": 8},
        ((MILLION,), S32),
        scratch=((MILLION,),),
    ),
    Scaled(
        "C40 async copies",
        4 * MILLION,
        """
__co__ s32 [16384, 256] addrows(s32 [16384, 256] x, s32 [16384, 256] y) {
  s32 [16384, 256] r;
  parallel b by 16384 : block {
    fx = dma.copy.async x.chunkat(b, _) => shared;
    fy = dma.copy.async y.chunkat(b, _) => shared;
    wait fx, fy;
    parallel t by 256 : thread
      r.at(b, t) = fx.data.at(0, t) + fy.data.at(0, 255 - t);
  }
  return r;
}""",
        lambda: {"x": ints(16384, 256), "y": ints(16384, 256) * 2},
        ((16384, 256), S32),
    ),
    Scaled(
        "C41 double buffering",
        4 * MILLION,
        """
__co__ s32 [4096, 128] fold(s32 [4096, 1024] x) {
  s32 [4096, 128] r;
  parallel b by 4096 : block {
    local s32 [128] acc {0};
    with k in 8 {
      cur = dma.copy.async x.chunkat(b, k) => shared;
      nxt = dma.any;
      foreach k(1:) {
        nxt = dma.copy.async x.chunkat(b, k) => shared;
        wait cur;
        foreach i in 128 acc.at(i) += cur.data.at(0, i) * k;
        swap(cur, nxt);
      }
      wait cur;
      foreach i in 128 acc.at(i) += cur.data.at(0, i) * #k;
    }
    dma.copy acc => r.subspan(1, 128).at(b, 0).sqz();
  }
  return r;
}""",
        lambda: {"x": ints(4096, 1024)},
        ((4096, 128), S32),
    ),
    Scaled(
        "C42 ping-pong by select",
        4 * MILLION,
        """
__co__ s32 [8192, 512] alt(s32 [8192, 512] x) {
  s32 [8192, 512] r;
  parallel b by 1024 : block {
    shared s32 [1, 512] u, v;
    foreach k in 8 {
      f = dma.copy x.chunkat(b#k, _) => select(k % 2, u, v);
      dma.copy f => r.chunkat(b#k, _);
    }
    r.at(b * 8, 0) = u.at(0, 0) * 1000 + v.at(0, 0);
  }
  return r;
}""",
        lambda: {"x": ints(8192, 512)},
        ((8192, 512), S32),
    ),
    Scaled(
        "C43 rotation",
        3 * MILLION,
        """
__co__ s32 [3072, 1024] turn(s32 [3072, 1024] x) {
  s32 [3072, 1024] r;
  parallel b by 1024 : block {
    a0 = dma.copy x.subspan(1, 1024).at(b * 3, 0) => shared;
    a1 = dma.copy x.subspan(1, 1024).at(b * 3 + 1, 0) => shared;
    a2 = dma.copy x.subspan(1, 1024).at(b * 3 + 2, 0) => shared;
    rotate(a0, a1, a2);
    dma.copy a0 => r.subspan(1, 1024).at(b * 3, 0);
    dma.copy a1 => r.subspan(1, 1024).at(b * 3 + 1, 0);
    dma.copy a2 => r.subspan(1, 1024).at(b * 3 + 2, 0);
  }
  return r;
}""",
        lambda: {"x": ints(3072, 1024)},
        ((3072, 1024), S32),
    ),
    Scaled(
        "C44 grid barrier",
        4 * MILLION,
        """
__co__ s32 [64, 65536] ring(s32 [64, 65536] x) {
  s32 [64, 65536] a, r;
  parallel b by 64 : block<cooperative> {
    foreach i in 65536 a.at(b, i) = x.at(b, i) * 2;
    sync.barrier : block;
    foreach i in 65536 r.at(b, i) = a.at((b + 1) % 64, i);
  }
  return r;
}""",
        lambda: {"x": ints(64, 65536)},
        ((64, 65536), S32),
        scratch=((64, 65536),),
    ),
    Scaled(
        "C45 producer and consumer",
        MILLION,
        """
__co__ s32 [8192, 128] relay(s32 [8192, 128] x) {
  s32 [8192, 128] r;
  parallel b by 512 : block {
    shared s32 [128] slot[2];
    shared event have[2], freed[2] = ready;
    parallel w by 2 : group-4, t by 128 : thread {
      inthreads.async (w == 0) {
        foreach n in 16 {
          wait freed.at(n);
          slot[n % 2].at(t) = x.at(b#n, t) * 2;
          trigger have.at(n);
        }
      }
      inthreads.async (w == 1) {
        foreach n in 16 {
          wait have.at(n);
          r.at(b#n, t) = slot[n % 2].at(127 - t) + 1;
          trigger freed.at(n);
        }
      }
    }
  }
  return r;
}""",
        lambda: {"x": ints(8192, 128)},
        ((8192, 128), S32),
    ),
    Scaled(
        "C46 older event idiom",
        2 * MILLION,
        """
__co__ s32 [4096, 512] relay2(s32 [4096, 512] x) {
  s32 [4096, 512] r;
  parallel b by 512 : block {
    shared s32 [1, 512] slot[2];
    shared event have[2], freed[2];
    parallel w by 2 : group-4 {
      inthreads.async (w == 0) {
        foreach {n} in [8] {
          s = n % 2;
          wait freed[s];
          dma.copy x.chunkat(b#n, _) => slot[s];
          trigger have[s];
        }
      }
      inthreads.async (w == 1) {
        foreach {s} in [2] trigger freed[s];
        foreach {n} in [8] {
          s = n % 2;
          wait have[s];
          dma.copy slot[s] => r.chunkat(b#n, _);
          trigger freed[s];
        }
      }
    }
  }
  return r;
}""",
        lambda: {"x": ints(4096, 512)},
        ((4096, 512), S32),
    ),
    Scaled(
        "C47 device function",
        4 * MILLION,
        """
__device__ int twice_plus(int v, int k) { return 2 * v + k; }
__co__ s32 [4194304] viacall(s32 [4194304] x) {
  s32 [4194304] r;
  parallel b by 16384 : block, t by 256 : thread {
    mutable s32 y = call twice_plus(x.at(b#t), 5);
    r.at(b#t) = y;
  }
  return r;
}""",
        lambda: {"x": ints(4 * MILLION)},
        ((4 * MILLION,), S32),
    ),
    Scaled(
        "C48 template call",
        4 * MILLION,
        """
template <int N> __device__ void rev(int* p) {
  for (int i = 0; i < N / 2; ++i) { int h = p[i]; p[i] = p[N - 1 - i]; p[N - 1 - i] = h; }
}
__co__ s32 [16384, 256] backwards(s32 [16384, 256] x) {
  s32 [16384, 256] r;
  parallel p by 16384 : block, t by 1 : thread {
    a = dma.copy x.chunkat(p, _) => local;
    call rev<256>(a.data);
    dma.copy a => r.chunkat(p, _);
  }
  return r;
}""",
        lambda: {"x": ints(16384, 256)},
        ((16384, 256), S32),
    ),
    Scaled(
        "C49 macros",
        4 * MILLION,
        """
#define ROWS 1448
#define COLS (2 * ROWS)
#define SQ(v) ((v) * (v))
__co__ s32 [ROWS, COLS] grid() {
  s32 [ROWS, COLS] r;
  parallel {i, j} by [ROWS, COLS]
#if COLS > 10 && defined(SQ)
    r.at(i, j) = SQ(i) + j;
#else
    r.at(i, j) = 0;
#endif
  return r;
}""",
        _none,
        ((1448, 2896), S32),
    ),
    Scaled(
        "C50 builtins",
        MILLION,
        """
__co__ f32 [1048576] curve(f32 [1048576] x) {
  f32 [1048576] r;
  parallel b by 4096 : block, p by 256 : thread {
    v = x.at(b#p);
    r.at(b#p) = __sqrt(__fabs(v)) + __tanh(v) * __sigmoid(v) + __max(v, 0.5f) - __floor(v);
  }
  return r;
}""",
        lambda: {"x": floats(MILLION)},
        ((MILLION,), F32),
        rtol=1e-5,
    ),
    Scaled(
        "C51 half precision",
        4 * MILLION,
        """
__co__ f16 [4194304] axpy(f16 [4194304] x, f16 [4194304] y) {
  f16 [4194304] r;
  parallel b by 16384 : block, p by 256 : thread r.at(b#p) = x.at(b#p) * y.at(b#p) + x.at(b#p);
  return r;
}""",
        lambda: {"x": floats(4 * MILLION).astype(np.float16), "y": floats(4 * MILLION)[::-1].astype(np.float16)},
        ((4 * MILLION,), np.float16),
    ),
    Scaled(
        "C52 one mma tile",
        MILLION,
        """
__co__ f32 [65536, 16] tile(f16 [65536, 16] a, f16 [16, 16] b) {
  f32 [65536, 16] c;
  parallel m by 4096 : block
    parallel w by 1 : group {
      acc = mma.fill.f32 0.0f;
      fa = mma.load a.chunkat(m, _);
      fb = mma.load b;
      mma.row.col acc, fa, fb;
      mma.store acc, c.chunkat(m, _);
    }
  return c;
}""",
        lambda: {"a": halves(65536, 16), "b": halves(16, 16)},
        ((65536, 16), F32),
    ),
    Scaled(
        "C53 mma with a K loop",
        MILLION,
        """
#define TK 16
__co__ f32 [1024, 1024] gemm_nt(f16 [1024, 64] a, f16 [1024, 64] b) {
  f32 [1024, 1024] c;
  parallel {n, m} by [128, 64] : block {
    acc = mma.fill.f32 0.0f;
    foreach k in 64 / TK {
      sa = dma.copy a.subspan(16, TK).at(m, k) => shared;
      sb = dma.copy b.subspan(8, TK).at(n, k) => shared;
      parallel w by 1 : group {
        fa = mma.load sa;
        fb = mma.load sb;
        mma.row.row acc, fa, fb;
      }
    }
    parallel w by 1 : group
      mma.store acc, c.subspan(16, 8).at(m, n);
  }
  return c;
}""",
        lambda: {"a": halves(1024, 64), "b": halves(1024, 64)},
        ((1024, 1024), F32),
    ),
    Scaled(
        "C54 integer mma",
        MILLION,
        """
__co__ void igemm(s8 [P, 16] a, s8 [16, Q] b, s32 [P, Q]& c) {
  parallel {n, m} by [cdiv(Q, 8), cdiv(P, 8)] : block, w by 1 : group {
    sa = dma.copy.zfill a.subspan(8, 16).at(m, 0) => shared;
    sb = dma.copy.zfill b.subspan(16, 8).at(0, n) => shared;
    acc = mma.fill.s32 0;
    fa = mma.load sa;
    fb = mma.load sb;
    mma.row.col acc, fa, fb;
    mma.store.mask acc, c.subspan(8, 8).at(m, n), P - m * 8, Q - n * 8;
  }
}""",
        lambda: {
            "a": ints(1021, 16, low=-9, high=9, dtype=np.int8),
            "b": ints(16, 1030, low=-9, high=9, dtype=np.int8),
            "c": np.zeros((1021, 1030), np.int32),
        },
        written="c",
        extents=(1021, 1030),
    ),
    Scaled(
        "C55 fragment reduction",
        MILLION,
        """
__co__ f32 [16384, 64] center(f32 [16384, 64] x) {
  f32 [16384, 64] r;
  parallel b by 1024 : block, t by 128 : thread {
    frag f32 [16, 64] s {0.0f};
    frag f32 [16] m;
    apply {i, j} in s.span s.at(i, j) = x.at(b * 16 + i, j);
    reduce_max(m, s, 1);
    apply {i, j} in s.span r.at(b * 16 + i, j) = s.at(i, j) - m.at(i);
  }
  return r;
}""",
        lambda: {"x": floats(16384, 64)},
        ((16384, 64), F32),
    ),
    Scaled(
        "C56 warpgroup mma",
        2 * MILLION,
        """
__co__ f32 [32768, 32] wg(f16 [32768, 64] a, f16 [32, 64] b) {
  f32 [32768, 32] c;
  parallel p by 512 : block {
    sa = dma.copy.swiz<128> a.chunkat(p, _) => shared;
    sb = dma.copy.swiz<128> b => shared;
    parallel g by 1 : group-4 {
      acc = mma.fill.f32 0.0f;
      done = mma.row.row.async acc, sa, sb;
      wait done;
      mma.store acc, c.chunkat(p, _);
    }
  }
  return c;
}""",
        lambda: {"a": halves(32768, 64), "b": halves(32, 64)},
        ((32768, 32), F32),
    ),
    Scaled(
        "C57 TMA pipeline",
        5 * MILLION,
        """
__co__ void pipe(global f16 [32768, K] a, global f16 [32, K] b, global f32 [32768, 32] c) {
  parallel p by 512 : block {
    shared f16 [64, 32] ta[2];
    shared f16 [32, 32] tb[2];
    shared event have[2], freed[2] = ready;
    parallel role by 2 : group-4 {
      inthreads.async (role == 0) {
        foreach {n} in [cdiv(K, 32)] {
          wait freed.at(n);
          la = tma.load.async a.subspan(64, 32).at(p, n) => ta[n % 2];
          lb = tma.load.async b.subspan(32, 32).at(0, n) => tb[n % 2];
          trigger have.at(n) after la, lb;
        }
      }
      inthreads.async (role == 1) {
        acc = mma.fill.f32 0.0f;
        foreach {n} in [cdiv(K, 32)] {
          wait have.at(n);
          s = mma.row.row.async acc, ta[n % 2], tb[n % 2];
          wait s;
          trigger freed.at(n);
        }
        mma.store acc, c.subspan(64, 32).at(p, 0);
      }
    }
  }
}""",
        lambda: {"a": halves(32768, 160), "b": halves(32, 160), "c": np.zeros((32768, 32), np.float32)},
        written="c",
        extents=(160,),
    ),
]
