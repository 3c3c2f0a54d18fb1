"""`k++`, `k--`, `++k`, `--k` as operands, evaluated from left to right; results by hand and against Python."""

from __future__ import annotations

import numpy as np
import pytest

import croq_magic as croq


def run(body: str, n: int = 3) -> list[int]:
    program = croq.compile(
        "__co__ void f(s32 [8]& y, int n) { parallel b by 1 : block { mutable s32 k = n; " + body + " } }",
        target="cpu",
        checks="all",
    )
    y = np.zeros(8, np.int32)
    program.f(y, n)
    return y.tolist()  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("y.at(0) = k++; y.at(1) = k; y.at(2) = ++k; y.at(3) = k--; y.at(4) = --k; y.at(5) = k;", [3, 4, 5, 5, 3, 3]),
        ("y.at(0) = k + k++ + k; y.at(1) = k;", [3 + 3 + 4, 4]),
        ("y.at(0) = k++ * 10 + k++; y.at(1) = -k++ + 1; y.at(2) = k;", [3 * 10 + 4, -5 + 1, 6]),
        ("y.at(0) = - --k; y.at(1) = (++k) * 2; y.at(2) = !k++ ? 1 : 5;", [-2, 6, 5]),
        ("y.at(k++) = 5; y.at(k++) += k; y.at(k) = k++; y.at(7) = k;", [0, 0, 0, 5, 5, 5, 0, 6]),
        ("if (k > 100 && k++ > 0) y.at(0) = 1; y.at(1) = k;", [0, 3]),
        ("if (k > 1 && k++ > 2 && k > 3) y.at(0) = k; y.at(1) = k;", [4, 4]),
        ("if (k > 1 || k++ > 0) y.at(0) = k; if (k > 100 || k++ > 0) y.at(1) = k;", [3, 4]),
        ("y.at(0) = k > 3 ? k++ : k--; y.at(1) = k; y.at(2) = k < 3 ? ++k : --k; y.at(3) = k;", [3, 2, 3, 3]),
        ("mutable s32 j = 0; while (k-- > 0) { if (k == 1) continue; y.at(j++) = k + 10; } y.at(6) = k; y.at(7) = j;",
         [12, 10, 0, 0, 0, 0, -1, 2]),
        ("while (k < 6) { y.at(k++) = k; }", [0, 0, 0, 4, 5, 6]),
        ("y.at(2) = 7; y.at(0) = y.at(2)++ + y.at(2); y.at(1) = --y.at(2);", [15, 7, 7]),
        ("foreach i in [k++] y.at(i) = k; y.at(5) = k;", [4, 4, 4, 0, 0, 4]),
        ("mutable s32 a = k++, b = k++; y.at(0) = a, y.at(1) = b, y.at(2) = k;", [3, 4, 5]),
        ("mutable u8 c = 255; mutable s32 q = c++; y.at(0) = q; y.at(1) = __to<s32>(c);", [255, 0]),
        ("mutable f32 x = 1.5f; y.at(0) = __to<s32>(x++ * 2.0f); y.at(1) = __to<s32>(x * 2.0f);", [3, 5]),
        ("local s32 [4] t {0}; t.at(k--) = k; t.at(k--) = 8; y.at(0) = t.at(3); y.at(1) = t.at(2); y.at(2) = k;",
         [2, 8, 1]),
    ],
)  # fmt: skip
def test_steps(body: str, expected: list[int]) -> None:
    assert run(body) == [*expected, *[0] * (8 - len(expected))]


def test_steps_of_every_thread_and_in_device_functions() -> None:
    program = croq.compile(
        """
__co_device__ s32 count(s32 [N] x, s32 from) {
  mutable s32 k = from;
  mutable s32 n = 0;
  while (k < N && x.at(k++) > 0) n++ ? n : n;
  return k++ + n--;
}
__co__ s32 [M] f(s32 [M] x) {
  s32 [M] y;
  parallel b by 1 : block, t by M : thread { mutable s32 r = call count(x, t); y.at(t) = r; }
  return y;
}""".replace("n++ ? n : n;", "{ r = n++; }"),
        target="cpu",
    )
    x = np.array([3, 1, 0, 5, 2, 2, -1, 8, 1, 1, 4], np.int32)

    def count(k: int) -> int:
        n = 0
        while k < len(x):
            k += 1
            if x[k - 1] <= 0:
                break
            n += 1
        return k + n

    assert program.f(x).tolist() == [count(k) for k in range(len(x))]


@pytest.mark.parametrize(
    ("body", "code", "text"),
    [
        ("x = n++ + 1;", "TYP01", "n"),
        ("mutable bool t = true; x = t++;", "TYP10", "t"),
        ("y.at(0) = y.at(y.at(k++))++;", "TYP01", "y.at(y.at(k++))++"),
        ("y.at(0) = ++(k + 1);", "TYP01", "++(k + 1)"),
        ("parallel t by 4 : thread { y.at(t) = k++; }", "PAR22", "k++"),
        ("k++;", "SYN01", "++"),
    ],
)
def test_what_cannot_be_stepped(body: str, code: str, text: str) -> None:
    program = "__co__ void f(s32 [8]& y, int n) { parallel b by 1 : block { mutable s32 k = n; " + body + " } }"
    found = [d for d in croq.check(program) if d.severity == "error"]
    assert [(d.code, d.span.text) for d in found] == [(code, text)]
