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
