"""Small rules of the reference that programs rarely need, against NumPy."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import croq_magic as croq

RANDOM = np.random.default_rng(31)
STRATEGIES = ("auto", "fibers")


@pytest.fixture(params=STRATEGIES)
def strategy(request: Any, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("CROQ_STRATEGY", request.param)
    return str(request.param)


@pytest.mark.parametrize(("name", "dtype"), [("f16", np.float16), ("bf16", ml_dtypes.bfloat16)])
@pytest.mark.parametrize("size", [1, 7, 1031])
def test_a_compound_assignment_rounds_once(name: str, dtype: Any, size: int, strategy: str) -> None:
    """types-and-shapes section 4, rule 5: the whole right-hand side in f32, rounded at the store."""
    program = croq.compile(
        f"""__co__ void f({name} [N]& x, {name} [N] y, f32 [N] z, {name} [N]& w) {{
          parallel p by N {{
            x.at(p) += y.at(p) * y.at(p);
            x.at(p) -= z.at(p);
            x.at(p) *= 0.1f;
          }}
          w *= 0.1f;
          w += y;
          parallel by 1 : block {{ w -= 0.3f; }}
        }}""",
        target="cpu",
    )
    x, y, w = (RANDOM.standard_normal(size).astype(dtype) for _ in range(3))
    z = RANDOM.standard_normal(size).astype(np.float32)

    def rounded(value: np.ndarray) -> np.ndarray:
        return value.astype(dtype).astype(np.float32)

    wide = rounded(x.astype(np.float32) + y.astype(np.float32) * y.astype(np.float32))
    wide = rounded(rounded(wide - z) * np.float32(0.1))
    other = rounded(rounded(w.astype(np.float32) * np.float32(0.1)) + y.astype(np.float32))
    other = rounded(other - np.float32(0.3))
    program.f(x, y, z, w)
    np.testing.assert_array_equal(x.astype(np.float32), wide)
    np.testing.assert_array_equal(w.astype(np.float32), other)


def test_addresses_of_scalars(strategy: str) -> None:
    """interop section 1: `&x` as an argument, for variables of every level."""
    program = croq.compile(
        """__device__ void split(int v, int* low, int64_t* high, float* half) {
          *low += v & 15; *high = (int64_t)v << 33; *half *= 0.5f;
        }
        __co__ void f(s32 [P, 8] x, s32 [P, 8]& low, s64 [P, 8]& high, f32 [P]& halves) {
          parallel p by P : block {
            mutable f32 h = p + 1.0f;
            mutable s32 unused = 0;
            s64 unseen = 1ll;
            call split(p, &unused, &unseen, &h);
            halves.at(p) = h;
            parallel t by 8 : thread {
              mutable int a = 100;
              s64 b = 0ll;
              mutable f32 c = 1.0f;
              foreach k in 3 call split(x.at(p, t), &a, &b, &c);
              low.at(p, t) = a;
              high.at(p, t) = b;
              if (c != 0.125f) { low.at(p, t) = -1; }
            }
          }
        }""",
        target="cpu",
    )
    x = RANDOM.integers(0, 1000, (5, 8), np.int32)
    low, high, half = np.zeros_like(x), np.zeros(x.shape, np.int64), np.zeros(5, np.float32)
    program.f(x, low, high, half)
    np.testing.assert_array_equal(low, 100 + 3 * (x & 15))
    np.testing.assert_array_equal(high, x.astype(np.int64) << 33)
    np.testing.assert_array_equal(half, (np.arange(5) + 1) / 2)
    with pytest.raises(croq.CompileError, match="the address of s32 cannot be taken"):
        croq.compile("__co__ void f(int n) { parallel by 1 call g(&n); }", target="cpu")
    with pytest.raises(croq.CompileError, match="PAR22"):
        croq.compile(
            "__co__ void f() { parallel by 1 : block { mutable int k = 0; parallel t by 8 : thread call g(&k); } }",
            target="cpu",
        )


@pytest.mark.parametrize("shape", [(1, 1), (4, 7), (13, 2)])
def test_derivations_of_one_item(shape: tuple[int, int]) -> None:
    program = croq.compile(
        """__co__ auto f(s32 [M, N] x) {
          s : [x.span, 3];
          rows : s[(0)];
          s32 [s[(1) * 2]] r;
          u : [x[(1)], s[(2) - 1]];
          foreach i in s[(0)] r.at(0) += i + 1;
          r.at(1) = rows(0) * 1000 + u(0) * 10 + u(1);
          return r;
        }""",
        target="cpu",
    )
    m, n = shape
    r = np.zeros(2 * n, np.int32)
    r[0], r[1] = m * (m + 1) // 2, m * 1000 + n * 10 + 2
    np.testing.assert_array_equal(program.f(np.zeros(shape, np.int32)), r)


def test_intrinsics_that_are_host_text() -> None:
    """A namespace, and a function without `__device__`, that only calls without `call` name."""
    program = croq.compile(
        """#pragma croq intrinsic prefix hw_
        #pragma choreo intrinsic namespace vendor
        inline int hw_two(int a) { return a * 2; }
        namespace vendor {
          namespace deep { inline int mul(int a) { return a * 3; } }
          inline void st(int* p) { *p = 3; }
        }
        __co__ s32 [N] f(s32 [N] x) { return x; }
        __co__ s32 [3] g() {
          s32 [3] r;
          parallel p by 3 {
            r.at(p) = hw_two(p);
            mutable s32 k = vendor::deep::mul(p);
            r.at(p) += k;
            vendor::st(&k);
            r.at(p) += k;
          }
          return r;
        }""",
        target="cpu",
    )
    np.testing.assert_array_equal(program.g(), np.arange(3) * 5 + 3)


@pytest.mark.parametrize("wait", ["if (n > 2) { wait q; } else { wait q; }", "if (n > 2) wait q; if (n <= 2) wait q;"])
@pytest.mark.parametrize("n", [0, 5])
def test_waits_in_branches(wait: str, n: int, strategy: str) -> None:
    program = croq.compile(
        f"""__co__ auto f(s32 [M, 8] x, int n) {{
          s32 [M, 8] r;
          parallel b by M : block {{
            q = dma.copy.async x.chunkat(b, _) => shared;
            {wait}
            parallel t by 8 : thread r.at(b, t) = q.data.at(0, 7 - t);
          }}
          return r;
        }}""",
        target="cpu",
    )
    x = RANDOM.integers(-9, 9, (3, 8), np.int32)
    np.testing.assert_array_equal(program.f(x, n), x[:, ::-1])


@pytest.mark.parametrize(
    "text",
    [
        """__co__ s32 [8] f() {
          s32 [8] r; s32 [8] tmp;
          parallel c by 2 : cluster, b by 4 : block {
            shared event<4> e;
            parallel t by 32 : thread {
              inthreads (t == 0) {
                tmp.at(c#b) = c#b; trigger.cluster e; wait e; r.at(c#b) = tmp.at(c * 4 + (b + 1) % 4);
              }
            }
          }
          return r;
        }""",
        """__co__ s32 [8] f() {
          s32 [8] r; s32 [1] tmp;
          global event go;
          parallel b by 2 : block, t by 32 : thread {
            inthreads (t == 0) {
              if (b == 0) { tmp.at(0) = 42; trigger go; }
              if (b == 1) { wait go; foreach i in 8 r.at(i) = tmp.at(0) + i; }
            }
          }
          return r;
        }""",
    ],
)
def test_what_events_order_between_blocks_is_no_race(text: str) -> None:
    program = croq.compile(text, target="cpu")
    assert not [d for d in program.diagnostics if d.code == "RAC01"]
    assert program.f().tolist() in ([1, 2, 3, 0, 5, 6, 7, 4], list(range(42, 50)))
