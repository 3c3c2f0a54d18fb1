"""Device functions written in the language, and parts of global memory under a local name."""

from __future__ import annotations

import numpy as np
import pytest

import croq_magic as croq

SOURCE = """
__co_device__ f32 dot(f32 [N] a, f32 [N] b, int k) {
  mutable f32 s = 0.0f;
  foreach i in N s += a.at(i) * b.at(i) * k;
  return s;
}
__co_device__ void twice(s32 [5] v) { foreach i in 5 v.at(i) = dot2(v.at(i)); }
__co__ auto rows(f32 [M, 7] x) {
  f32 [M] r;
  parallel p by M {
    a = dma.copy x.chunkat(p, _) => local;
    b = a.data.span_as([7]);
    r.at(p) = call dot(b, b, 2);
  }
  return r;
}
__co__ s32 [11] part(s32 [5, 6] x) {
  s32 [11] r;
  parallel by 1 {
    m = x.map<local>(8, 11);
    parallel q by 11 : thread r.at(q) = m.at(q);
  }
  return r;
}
""".replace("dot2(v.at(i))", "2 * v.at(i)")


def test_call_and_map() -> None:
    program = croq.compile(SOURCE, target="cpu")
    x = np.arange(21, dtype=np.float32).reshape(3, 7)
    np.testing.assert_array_equal(program.rows(x), 2 * (x * x).sum(axis=1))
    v = np.arange(30, dtype=np.int32).reshape(5, 6)
    np.testing.assert_array_equal(program.part(v), v.reshape(-1)[8:19])


def call(body: str, text: str) -> list[str]:
    source = f"__co_device__ s32 f(s32 [4] a, int k) {{ {body} }}\n__co__ void g(s32 [4] x, f32 [4] y) {{\n  {text}\n}}"
    return [f"{d.code} {d.span.line} {d.message}" for d in croq.check(source) if d.severity == "error"]


@pytest.mark.parametrize(
    ("body", "text", "expected"),
    [
        ("return k;", "parallel by 1 { call f(x); }", "CAL08 3 `f` takes 2 arguments, found 1"),
        ("return k;", "parallel by 1 { call f(y, 1); }", "DMA01 3 `a` is `s32`, `y` is `f32`"),
        ("return k;", "parallel by 1 { call f(1, 1); }", "CAL02 3 `a` is a span, s32 is passed"),
        ("return k;", "call f(x, 1);", "CAL01 3 `call` is allowed only inside `parallel`"),
        ("return z;", "z = 3; parallel by 1 { call f(x, 1); }", "NAM10 1 unknown name `z`"),
        (
            "call f(a, k);",
            "parallel by 1 { call f(x, 1); }",
            "CAL05 1 `f` calls itself; device functions in tileflow syntax cannot",
        ),
    ],
)
def test_wrong_calls(body: str, text: str, expected: str) -> None:
    assert call(body if "return z" not in body else "mutable int q = z; return q;", text) == [expected]


def test_without_a_span_parameter_it_is_cxx() -> None:
    source = """
__co_device__ s32 poly(s32 a, s32 b) { return a * a + b; }
__co_device__ void unused(int a) { }
__co__ s32 [5] f(s32 [5] x) { s32 [5] r; parallel p by 5 r.at(p) = call poly(x.at(p), p); return r; }
"""
    x = np.arange(5, dtype=np.int32) - 2
    np.testing.assert_array_equal(croq.compile(source, target="cpu").f(x), x * x + np.arange(5))


RETURNS = """
__co_device__ s32 find(s32 [N] x, s32 v) {
  foreach i in [N] { if (x.at(i) == v) { return i; } if (x.at(i) < 0) return -2; }
  return -1;
}
__co_device__ s32 search(s32 [N] x, s32 v) {
  if (v == 0) return 100;
  foreach {i, j} in [N, 2] {
    if (x.at(i) + j == v) { if (j == 1) { return i * 10 + j; } else return i; }
    x.at(i) += 0;
  }
  mutable s32 k = 0;
  while (k < 5) { k += 1; if (k == v - 40) return k + 1000; if (k == 3) continue; }
  { if (v > 50) return 5; else { if (v > 45) { mutable s32 z = v; return z; } } }
  return -1;
}
__co_device__ void mark(s32 [N] x, s32 v) {
  if (v < 3) return;
  x.at(v) = v;
  if (v == 5) { return; }
  x.at(0) = x.at(0) + 1;
}
__co__ void f(s32 [7]& x, s32 [M] v, s32 [M]& y, s32 [M]& z, s32 [M, 9]& w) {
  parallel p by M : block {
    mutable s32 r = call find(x, v.at(p)); y.at(p) = r;
    mutable s32 q = call search(x, v.at(p)); z.at(p) = q;
    t = w.subspan(1, 9).at(p, 0).sqz();
    call mark(t, v.at(p) % 9);
  }
}
"""


def test_returns_in_the_middle() -> None:
    x = np.array([3, 9, 4, 9, -1, 6, 2], np.int32)
    v = np.array([3, 9, 4, 6, 2, 7, 8, 0, 10, 41, 43, 45, 46, 47, 51, 60], np.int32)

    def find(v: int) -> int:
        for i, each in enumerate(x):
            if each == v:
                return i
            if each < 0:
                return -2
        return -1

    def search(v: int) -> int:
        if v == 0:
            return 100
        for i, each in enumerate(x):
            for j in range(2):
                if each + j == v:
                    return i * 10 + j if j == 1 else i
        for k in range(1, 6):
            if k == v - 40:
                return k + 1000
        return 5 if v > 50 else v if v > 45 else -1

    marks = np.zeros((len(v), 9), np.int32)
    for row, each in zip(marks, v % 9, strict=True):
        if each >= 3:
            row[each] = each
            row[0] += each != 5
    y, z, w = np.zeros_like(v), np.zeros_like(v), np.zeros((len(v), 9), np.int32)
    croq.compile(RETURNS, target="cpu").f(x, v, y, z, w)
    assert y.tolist() == [find(each) for each in v]
    assert z.tolist() == [search(each) for each in v]
    assert np.array_equal(w, marks)


def test_a_device_function_that_may_return_nothing() -> None:
    text = """__co_device__ s32 g(s32 [N] x) { if (x.at(0) > 0) return 1; }
__co__ void f(s32 [4]& x) { parallel p by 1 : block { mutable s32 r = call g(x); x.at(1) = r; } }"""
    found = [d for d in croq.check(text) if d.severity == "error"]
    assert [(d.code, d.span.text) for d in found] == [("TYP19", "g")]
