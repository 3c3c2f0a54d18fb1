"""Programs over all constructs of the language, on sizes that no power of two divides, against NumPy."""

from __future__ import annotations

import re
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import croq_magic as croq

RANDOM = np.random.default_rng(7)


def integers(*shape: int, low: int = -50, high: int = 50, dtype: Any = np.int32) -> np.ndarray:
    return RANDOM.integers(low, high, shape).astype(dtype)


def run(source: str, *inputs: Any) -> Any:
    return croq.compile(source, target="cpu").f(*inputs)


X, Y = integers(6, 15), integers(6, 15)

# Every way to visit the 90 elements of an array; E stands for the statement at (row, column).
FORMS = {
    "named tuple": "parallel t = {i, j} by [6, 15] r.at(t) = x.at(i, t(1)) * 2 + y.at(t(0), j);",
    "comma": "parallel i by 6, j by 15 E(i, j)",
    "levels": "parallel i by 6 : block, j by 15 : thread E(i, j)",
    "threads": "parallel {i, j} by [6, 15] : thread E(i, j)",
    "groups": "parallel i by 2 : block parallel k by 3 : group parallel j by 32 : thread { if (j < 15) E(i#k, j) }",
    "three levels": "parallel i by 2 { parallel k by 3 { parallel j by 32 { if (j < 15) E(i#k, j) } } }",
    "four levels": "parallel a by 2, b by 1, c by 4, d by 32 { q = a#b#c#d; if (q < 90) E(q / 15, q % 15) }",
    "warpgroups": "parallel g by 2 : group-4, t by 128 : thread { if (g#t < 90) { q = g#t; E(q / 15, q % 15) } }",
    "anonymous": "parallel by 2 : block { parallel by 3 : thread { foreach {i, j} in [6, 15] E(i, j) } }",
    "inside a loop": "parallel b by 3 : block { foreach k in [2] { parallel j by 15 : thread E(b#k, j) } }",
    "inside branches": "parallel b by 6 : block { if (b % 2 == 0) { parallel j by 15 : thread E(b, j) } "
    "else { parallel j by 15 : thread E(b, j) } }",
    "host loop": "foreach k in [6] { parallel j by 15 E(k, j) }",
    "host": "foreach {k, j} in [6, 15] E(k, j)",
    "with": "parallel by 1 { with t = {i, j} in x.span { foreach i foreach j r.at(t) = x.at(i, t(1)) * 2 + y.at(t); "
    "} }",
    "aliases": "parallel by 1 { with i in 6, j in 15 { foreach a = i, b = j E(a, b) } }",
    "where": "parallel by 1 { with {i} in [6], {k} in [6], {j} in [15] where i <-> k foreach i, j "
    "r.at(i, j) = x.at(k, j) * 2 + y.at(i, j); }",
    "ranges": "parallel by 1 { with i in 6, j in 15 { foreach i(:-3), j E(i, j) foreach i(3:), j(::2) E(i, j) "
    "foreach i(3:), j(1::2) E(i, j) } }",
    "while": "parallel p by 6 { mutable int j = 0; while (true) { if (j >= 15) break; E(p, j) j += 1; } }",
    "last value": "parallel p by 6 { with j in 15 { foreach j(:-1) { E(p, j) } E(p, j(-1)) } }",
    "asynchronous": "parallel.async p by 3 { foreach j in 15 E(p, j) } "
    "parallel.async p by 3 { foreach j in 15 E(p + 3, j) } sync.global;",
    "masks": "parallel t by 90 : thread { inthreads (t < 40) { E(t / 15, t % 15) } inthreads (t >= 40) "
    "{ E(t / 15, t % 15) } }",
    "whole spans": "parallel by 1 : block { a = dma.copy x => shared; b = dma.copy y => shared; t = a.data; "
    "t *= 2; t += b.data; dma.copy t => r; }",
    "whole views": "parallel p by 3 : block { v = r.chunkat(p, _); v += x.chunkat(p, _); v *= 2; "
    "v += y.chunkat(p, _); }",
    "derived shape": "d : x[(1), (0)]; s32 [d] tmp; parallel {j, i} by d tmp.at(j, i) = x.at(i, j) * 2 + y.at(i, j); "
    "parallel {i, j} by x.span r.at(i, j) = tmp.at(j, i);",
    "ituples": "t = {6, 15}; u = t / {2, 3}; parallel {a, b} by [u] { foreach {i, j} in [2, 3] E(a#i, b#j) }",
    "scopes": "parallel {i, j} by [6, 15] { { a = x.at(i, j) * 2; r.at(i, j) = a; } { a = y.at(i, j); "
    "r.at(i, j) += a; } ; }",
}


@pytest.fixture(scope="module")
def forms() -> croq.Program:
    functions = []
    for number, form in enumerate(FORMS.values()):
        parts = form.split("E(")
        body = parts[0]
        for part in parts[1:]:
            depth, at = 1, 0
            while depth:
                depth += {"(": 1, ")": -1}.get(part[at], 0)
                at += 1
            index = part[: at - 1]
            body += f"r.at({index}) = x.at({index}) * 2 + y.at({index});{part[at:]}"
        functions.append(
            f"__co__ s32 [6, 15] form{number}(s32 [6, 15] x, s32 [6, 15] y) {{ s32 [6, 15] r;\n{body}\nreturn r; }}"
        )
    return croq.compile("\n".join(functions), target="cpu")


def _form(number: int, name: str) -> Any:
    racing = name == "anonymous"  # all its threads store everything
    return pytest.param(number, id=name, marks=[pytest.mark.cpu_only] if racing else [])


@pytest.mark.parametrize("number", [_form(number, name) for number, name in enumerate(FORMS)])
def test_ways_to_visit_all_elements(forms: croq.Program, number: int) -> None:
    np.testing.assert_array_equal(forms.functions[f"form{number}"](X, Y), X * 2 + Y)


# ------------------------------------------------------------------------------------------------------- arithmetic

INTEGERS = {"s8": np.int8, "u8": np.uint8, "s16": np.int16, "u16": np.uint16, "s32": np.int32, "u32": np.uint32}
INTEGERS |= {"s64": np.int64, "u64": np.uint64}


def wrapped(value: int, dtype: Any) -> int:
    bits = np.dtype(dtype).itemsize * 8
    value &= (1 << bits) - 1
    return value - (1 << bits) if np.iinfo(dtype).min < 0 and value >> (bits - 1) else value


@pytest.mark.parametrize("name", INTEGERS)
def test_integer_arithmetic_wraps_and_truncates(name: str) -> None:
    dtype = INTEGERS[name]
    info = np.iinfo(dtype)
    x = RANDOM.integers(info.min, info.max, 101, dtype=dtype, endpoint=True)
    y = RANDOM.integers(info.min, info.max, 101, dtype=dtype, endpoint=True)
    y[y == 0] = 3
    x[0], y[0] = info.min, info.max
    got = run(
        f"""__co__ {name} [12, 101] f({name} [101] x, {name} [101] y) {{
          {name} [12, 101] r;
          parallel p by 101 {{
            a = x.at(p); b = y.at(p);
            r.at(0, p) = a * b; r.at(1, p) = a + b; r.at(2, p) = a - b; r.at(3, p) = a / b; r.at(4, p) = a % b;
            r.at(5, p) = -a; r.at(6, p) = ~a; r.at(7, p) = a << 3; r.at(8, p) = a >> 3;
            r.at(9, p) = a; r.at(9, p) *= b; r.at(10, p) = a; r.at(10, p) /= b; r.at(11, p) = a; r.at(11, p) -= b;
          }}
          return r;
        }}""",
        x,
        y,
    )

    def quotient(a: int, b: int) -> int:
        return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)

    operations = [
        lambda a, b: a * b,
        lambda a, b: a + b,
        lambda a, b: a - b,
        quotient,
        lambda a, b: a - b * quotient(a, b),
        lambda a, b: -a,
        lambda a, b: ~a,
        lambda a, b: a << 3,
        lambda a, b: a >> 3,
        lambda a, b: a * b,
        quotient,
        lambda a, b: a - b,
    ]
    pairs = list(zip(x.tolist(), y.tolist(), strict=True))
    expected = [[wrapped(operation(a, b), dtype) for a, b in pairs] for operation in operations]
    np.testing.assert_array_equal(got, np.array(expected, dtype))


def test_conversions_of_floats_saturate() -> None:
    x = np.array([1e10, -1e10, np.nan, np.inf, -np.inf, 2.9, -2.9, 127.5, 255.9, -1, 65535.9, 1e20], np.float32)
    source = "\n".join(
        f"__co__ {name} [12] {name}_(f32 [12] x) {{ {name} [12] r; parallel p by 12 r.at(p) = __to<{name}>(x.at(p));"
        " return r; }"
        for name in INTEGERS
    )
    program = croq.compile(source, target="cpu")
    for name, dtype in INTEGERS.items():
        info = np.iinfo(dtype)
        expected = [0 if np.isnan(v) else int(np.clip(v, -1e30, 1e30)) for v in x.astype(float)]
        expected = [min(max(v, int(info.min)), int(info.max)) for v in expected]
        np.testing.assert_array_equal(program.functions[f"{name}_"](x), np.array(expected, dtype))


@pytest.mark.parametrize(("name", "dtype"), [("f16", np.float16), ("bf16", ml_dtypes.bfloat16)])
def test_narrow_floats_round_once(name: str, dtype: Any) -> None:
    x, y = (RANDOM.normal(size=67).astype(dtype) for _ in range(2))
    got = run(
        f"__co__ {name} [67] f({name} [67] x, {name} [67] y) {{ {name} [67] r; parallel p by 67 "
        "{ r.at(p) = x.at(p) * y.at(p) + x.at(p) / 3.0f; } return r; }",
        x,
        y,
    )
    a, b = x.astype(np.float32), y.astype(np.float32)
    np.testing.assert_array_equal(got.view(np.uint16), (a * b + a / np.float32(3)).astype(dtype).view(np.uint16))


def test_precedence_and_literals() -> None:
    got = run(
        """__co__ s64 [14] f(int n) {
          s64 [14] r;
          r.at(0) = n + 1 & 3; r.at(1) = n * 2 | 1; r.at(2) = 1 << n + 1; r.at(3) = -n & 7; r.at(4) = ~n ^ 5;
          r.at(5) = n - 2 - 1; r.at(6) = n / 4 * 4; r.at(7) = n > 3 == true ? 1 : 0;
          r.at(8) = 0x1F; r.at(9) = 4294967296; r.at(10) = 4294967295u; r.at(11) = -2147483648; r.at(12) = -n % 4;
          r.at(13) = -n / 4;
          return r;
        }""",
        6,
    )
    expected = [6 + 1, 6 * 3, 1 << 7, -(6 & 7), ~6 ^ 5, 3, 4, 1, 31, 2**32, 2**32 - 1, -(2**31), -2, -1]
    np.testing.assert_array_equal(got, expected)


# -------------------------------------------------------------------------------------------------------- transfers


def test_copies_into_larger_tiles_of_extents_known_at_launch() -> None:
    program = croq.compile(
        """__co__ auto rows(s32 [M, K] x) {
          s32 [cdiv(M, 8), 8, K] r;
          parallel p by cdiv(M, 8) : block {
            shared s32 [8, 8] t {5};
            dma.copy.zfill x.view(__min(8, M - p * 8), K).from(p * 8, 0) => t;
            foreach {i, j} in [8, K] r.at(p, i, j) = t.at(i, j);
          }
          return r;
        }
        __co__ s32 [9, 9] frame(s32 [4, 5] x) {
          s32 [9, 9] r;
          parallel by 1 : block {
            shared s32 [9, 9] t {3};
            dma.pad<{1, 1}, {1, 0}, {0, 0}, -1> x => t;
            dma.copy t => r;
          }
          return r;
        }""",
        target="cpu",
    )
    for rows in (1, 7, 8, 9, 19):
        x = integers(rows, 5)
        expected = np.zeros((-(-rows // 8), 8, 5), np.int32)
        expected.reshape(-1, 5)[:rows] = x
        np.testing.assert_array_equal(program.rows(x), expected)
    with pytest.raises(croq.CheckError, match="the copy has K elements in dimension 1, its destination 8"):
        program.rows(integers(3, 9))
    x = integers(4, 5)
    expected = np.pad(np.pad(x, ((1, 1), (1, 0)), constant_values=-1), ((0, 3), (0, 3)))
    np.testing.assert_array_equal(program.frame(x), expected)


def test_futures_change_places() -> None:
    x = integers(7, 3, 5)
    got = run(
        """__co__ s32 [7, 3, 5] f(s32 [7, 3, 5] x) {
          s32 [x.span] r;
          parallel by 1 : block {
            with k in 7 {
              a = dma.copy.async x.subspan(1, 3, 5).at(0, 0, 0) => shared;
              b = dma.copy.async x.subspan(1, 3, 5).at(1, 0, 0) => shared;
              c = dma.any;
              foreach k(:-2) {
                c = dma.copy.async x.subspan(1, 3, 5).at(k + 2, 0, 0) => shared;
                wait a;
                dma.copy a => r.subspan(1, 3, 5).at(k, 0, 0);
                rotate(a, b, c);
              }
              wait a, b;
              dma.copy a => r.subspan(1, 3, 5).at(5, 0, 0);
              dma.copy b => r.subspan(1, 3, 5).at(6, 0, 0);
            }
          }
          return r;
        }""",
        x,
    )
    np.testing.assert_array_equal(got, x)


def test_strided_views_and_arrays_of_buffers() -> None:
    x = integers(7, 10, 12)
    program = croq.compile(
        """__co__ s32 [3, 5, 4] every(s32 [7, 10, 12] x) {
          s32 [3, 5, 4] r;
          parallel by 1 { dma.copy x.view(3, 5, 4 : 240, 24, 3).from(0, 0, 0) => r; }
          return r;
        }
        __co__ s32 [7, 10, 12] slots(s32 [7, 10, 12] x) {
          s32 [x.span] r;
          parallel by 1 : block {
            shared s32 [1, 10, 12] t[2][2];
            foreach k in 7 {
              dma.copy x.chunkat(k, _, _) => t[k % 2][k / 2 % 2];
              t[k % 2][k / 2 % 2] *= 2;
              foreach e in t[0][0].span r.at(k, e(1), e(2)) = t[k % 2][k / 2 % 2].at(e);
            }
          }
          return r;
        }""",
        target="cpu",
    )
    np.testing.assert_array_equal(program.every(x), x[0:6:2, ::2, ::3])
    np.testing.assert_array_equal(program.slots(x), x * 2)


# ----------------------------------------------------------------------------------------------------------- threads


def test_masks_around_copies() -> None:
    """The selected threads alone run the statements; the copies between them happen once, if any is selected."""
    x, y = integers(2, 64), integers(2, 64)
    program = croq.compile(
        """__co__ s32 [2, 64] one(s32 [2, 64] x) {
          s32 [2, 64] r;
          parallel b by 2 : block, t by 64 : thread {
            shared s32 [1, 64] s, u {7};
            inthreads (t == 3) { dma.copy x.chunkat(b, _) => s; }
            inthreads (t > 70) { dma.copy x.chunkat(b, _) => u; }
            r.at(b, t) = s.at(0, 63 - t) + u.at(0, t);
          }
          return r;
        }
        __co__ s32 [2, 64] upper(s32 [2, 64] x, s32 [2, 64] y) {
          s32 [2, 64] r;
          parallel b by 2 : block, t by 64 : thread {
            shared s32 [1, 64] s, u;
            r.at(b, t) = 5;
            inthreads (t >= 32) {
              mutable s32 k = t;
              dma.copy x.chunkat(b, _) => s;
              k += 1;
              dma.copy y.chunkat(b, _) => u;
              r.at(b, t) = s.at(0, t) * 2 + u.at(0, 63 - t) + k;
            }
          }
          return r;
        }
        __co__ s32 [2, 64] roles(s32 [2, 64] x, s32 [2, 64] y) {
          s32 [2, 64] r;
          parallel b by 2 : block, w by 2 : group, t by 32 : thread {
            shared s32 [1, 64] s[2];
            inthreads (w == 0) { dma.copy x.chunkat(b, _) => s[0]; }
            inthreads (w == 1) {
              n = y.at(b, 0) > 0 ? 2 : 3;
              foreach k in n { dma.copy y.chunkat(b, _) => s[1]; s[1].at(0, w#t) += k; }
            }
            r.at(b, w#t) = s[w].at(0, w#t);
          }
          return r;
        }""",
        target="cpu",
    )
    t = np.arange(64)
    np.testing.assert_array_equal(program.one(x), x[:, ::-1] + 7)
    np.testing.assert_array_equal(program.upper(x, y), np.where(t >= 32, x * 2 + y[:, ::-1] + t + 1, 5))
    last = np.where(y[:, :1] > 0, 1, 2)
    np.testing.assert_array_equal(program.roles(x, y), np.where(t < 32, x, y + last))


def test_values_live_across_barriers() -> None:
    x = integers(64)
    got = run(
        """__co__ s32 [64] f(s32 [64] x) {
          s32 [64] r;
          parallel t by 64 : thread {
            shared s32 [64] s;
            mutable s32 keep = x.at(t) * 3;
            local s32 [2] l;
            l.at(0) = t; l.at(1) = keep;
            s.at(t) = keep;
            sync.shared;
            if (t < 32) { keep += s.at(63 - t); }
            foreach k in 3 {
              v = s.at((t + 1) % 64);
              sync.shared;
              s.at(t) = v * 2;
              sync.shared;
            }
            r.at(t) = keep + l.at(0) - l.at(1) + s.at(t);
          }
          return r;
        }""",
        x,
    )
    kept = np.where(np.arange(64) < 32, x * 3 + (x * 3)[::-1], x * 3)
    np.testing.assert_array_equal(got, kept + np.arange(64) - x * 3 + np.roll(x * 3, -3) * 8)


def test_instances_end_and_loops_leave_early() -> None:
    x = integers(9, 13)
    program = croq.compile(
        """__co__ s32 [9, 13] ends(s32 [9, 13] x) {
          s32 [9, 13] r;
          parallel p by 9 : thread {
            foreach j in 13 {
              if (x.at(p, j) > 20) yield;
              if (x.at(p, j) < -20) continue;
              r.at(p, j) = x.at(p, j);
            }
          }
          return r;
        }
        __co__ s32 [9] inner(s32 [9, 13] x) {
          s32 [9] r;
          parallel p by 9 { foreach {i, j} in [3, 13] { if (j > 2 + i) break; r.at(p) += x.at(p, j); } }
          return r;
        }""",
        target="cpu",
    )
    alive = np.cumsum(x > 20, axis=1) == 0
    np.testing.assert_array_equal(program.ends(x), np.where(alive & (x >= -20), x, 0))
    np.testing.assert_array_equal(program.inner(x), sum(x[:, : 3 + i].sum(axis=1) for i in range(3)))


# ------------------------------------------------------------------------------------------------------------ calls


def test_calls_of_device_functions() -> None:
    x = integers(11)
    program = croq.compile(
        """template <typename T, int N> __device__ T scaled(T v) { return v * N; }
        __device__ bool positive(int v) { return v > 0; }
        __device__ void count_from(int* p, int n, int v) { for (int i = 0; i < n; ++i) p[i] = v + i; }
        namespace inner { __device__ int twice(int v) { return 2 * v; } }
        __cok__ { s32 next(s32 v) { return v + 1; } }
        __co__ s32 [11] results(s32 [11] x) {
          s32 [11] r;
          parallel t by 11 : thread {
            mutable s32 v = call scaled<s32, 3>(x.at(t));
            if (call positive(x.at(t))) v += call inner::twice(x.at(t)); else v = 7;
            r.at(t) = v;
            r.at(t) -= call next(t);
          }
          return r;
        }
        __co__ s32 [5, 8] pointers(s32 [11] x) {
          s32 [5, 8] r;
          parallel t by 5 : block {
            local s32 [8] o[2];
            call count_from(o[1], #t + 3, x.at(t));
            dma.copy o[1] => r.subspan(1, 8).at(t, 0).sqz();
            call count_from(&r.at(t, 6), 2, t);
          }
          return r;
        }""",
        target="cpu",
    )
    np.testing.assert_array_equal(program.results(x), np.where(x > 0, x * 5, 7) - np.arange(1, 12))
    rows = x[:5, None] + np.arange(8)
    rows[:, 6:] = np.arange(5)[:, None] + np.arange(2)
    np.testing.assert_array_equal(program.pointers(x), rows)


# ----------------------------------------------------------------------------------------------------- tensor cores


def small(*shape: int, dtype: Any = np.float16) -> np.ndarray:
    return integers(*shape, low=-4, high=5, dtype=dtype)


@pytest.mark.parametrize("written", [True, False], ids=["levels written", "default levels"])
def test_each_group_has_its_own_accumulator(written: bool) -> None:
    """A fragment made for the block exists once per group, and keeps its contents between inner `parallel`s."""
    a, b = small(64, 8), small(8, 8)
    source = """__co__ f32 [64, 8] f(f16 [64, 8] a, f16 [8, 8] b) {
      f32 [64, 8] c;
      parallel p by 1 : block {
        acc = mma.fill.f32 1.0f;
        foreach k in 3 {
          parallel w by 4 : group, t by 32 : thread {
            fa = mma.load a.subspan(16, 8).at(w, 0);
            fb = mma.load b;
            mma.row.col acc, fa, fb;
          }
        }
        parallel w by 4 : group, t by 32 : thread mma.store acc, c.subspan(16, 8).at(w, 0);
      }
      return c;
    }"""
    got = run(source if written else re.sub(" : (block|group|thread)", "", source), a, b)
    np.testing.assert_array_equal(got, 1 + 3 * (a.astype(np.float32) @ b.astype(np.float32)))


def test_groups_are_numbered_alike_by_one_index_and_by_two() -> None:
    a, b = small(64, 40), small(40, 24)
    got = run(
        """__co__ f32 [64, 24] f(f16 [64, 40] a, f16 [40, 24] b) {
          f32 [64, 24] c;
          parallel by 1 : block {
            acc = mma.fill.f32 0.0f;
            parallel {u, v} by [4, 3] : group mma.row.col acc, a.subspan(16, 40).at(u, 0), b.subspan(40, 8).at(0, v);
            acc += 1.0f;
            parallel w by 12 : group mma.store acc, c.subspan(16, 8).at(w % 4, w / 4);
          }
          return c;
        }""",
        a,
        b,
    )
    np.testing.assert_array_equal(got, a.astype(np.float32) @ b.astype(np.float32) + 1)


def test_attention_with_a_running_maximum() -> None:
    """The accumulator is scaled in each iteration before the product that gives it its shape."""
    q, k, v = small(32, 16), small(24, 16), small(24, 16)
    got = run(
        """__co__ f32 [32, 16] f(f16 [32, 16] q, f16 [24, 16] k, f16 [24, 16] v) {
          f32 [32, 16] o;
          parallel b by 2 : block, w by 1 : group {
            total = mma.fill.f32 0.0f;
            frag f32 [16] top {-1000.0f};
            frag f32 [16] weight {0.0f};
            foreach t in 3 {
              s = mma.fill.f32 0.0f;
              mma.row.row s, q.subspan(16, 16).at(b, 0), k.subspan(8, 16).at(t, 0);
              frag f32 [16] new;
              frag f32 [16] factor;
              frag f32 [16] sums;
              reduce_max(new, s, 1);
              apply {i} in top.span {
                new.at(i) = __max(new.at(i), top.at(i));
                factor.at(i) = __exp(top.at(i) - new.at(i));
                top.at(i) = new.at(i);
              }
              apply {i, j} in s.span s.at(i, j) = __exp(s.at(i, j) - top.at(i));
              reduce_sum(sums, s, 1);
              apply {i} in weight.span weight.at(i) = weight.at(i) * factor.at(i) + sums.at(i);
              apply {i, j} in total.span total.at(i, j) *= factor.at(i);
              frag f16 [16, 8] p;
              copy(p, s);
              mma.row.col total, p, v.subspan(8, 16).at(t, 0);
            }
            apply {i, j} in total.span total.at(i, j) /= weight.at(i);
            mma.store total, o.subspan(16, 16).at(b, 0);
          }
          return o;
        }""",
        q,
        k,
        v,
    )
    scores = q.astype(np.float64) @ k.astype(np.float64).T
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    expected = weights / weights.sum(axis=1, keepdims=True) @ v.astype(np.float64)
    np.testing.assert_allclose(got, expected, rtol=5e-3, atol=5e-3)


def test_partial_sums_of_a_vector_of_fragments() -> None:
    x = small(16, 32, dtype=np.float32)
    got = run(
        """__co__ f32 [16] f(f32 [16, 32] x) {
          f32 [16] r;
          parallel b by 1 : block, t by 128 : thread {
            frag f32 [16, 32] s;
            frag f32 [16] m {0.0f};
            apply {i, j} in s.span s.at(i, j) = x.at(i, j);
            apply {i, j} in s.span m.at(i) += s.at(i, j);
            all_reduce_sum(m);
            apply {i} in m.span r.at(i) = m.at(i);
          }
          return r;
        }""",
        x,
    )
    np.testing.assert_array_equal(got, x.sum(axis=1))


@pytest.mark.parametrize(
    ("layouts", "name", "total", "dtype"),
    [
        ("row.row", "f16", "f32", np.float16),
        ("row.col", "bf16", "f32", ml_dtypes.bfloat16),
        ("col.row", "s8", "s32", np.int8),
        ("col.col", "f64", "f64", np.float64),
    ],
)
def test_layouts_of_operands(layouts: str, name: str, total: str, dtype: Any) -> None:
    """[19, 13] = [19, 21] times [21, 13], with masked tiles."""
    a, b = small(19, 21, dtype=dtype), small(21, 13, dtype=dtype)
    left, right = layouts.split(".")
    a_shape, a_tile = ("M, K", "subspan(16, 8).at(m, k)") if left == "row" else ("K, M", "subspan(8, 16).at(k, m)")
    b_shape, b_tile = ("K, N", "subspan(8, 8).at(k, n)") if right == "col" else ("N, K", "subspan(8, 8).at(n, k)")
    got = run(
        f"""__co__ auto f({name} [{a_shape}] a, {name} [{b_shape}] b) {{
          {total} [M, N] c;
          parallel {{n, m}} by [cdiv(N, 8), cdiv(M, 16)] : block, w by 1 : group {{
            acc = mma.fill.{total} 0;
            foreach k in cdiv(K, 8) {{
              sa = dma.copy.zfill a.{a_tile} => shared;
              sb = dma.copy.zfill b.{b_tile} => shared;
              mma.{layouts} acc, sa, sb;
            }}
            mma.store.mask acc, c.subspan(16, 8).at(m, n), M - m * 16, N - n * 8;
          }}
          return c;
        }}""",
        a if left == "row" else np.ascontiguousarray(a.T),
        b if right == "col" else np.ascontiguousarray(b.T),
    )
    np.testing.assert_array_equal(got, a.astype(np.float64) @ b.astype(np.float64))
