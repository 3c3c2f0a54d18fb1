"""The execution model section by section, on sizes that fit nothing, against NumPy, as loops and as fibers."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import croq_magic as croq

RANDOM = np.random.default_rng(11)


def integers(*shape: int, low: int = -50, high: int = 50, dtype: Any = np.int32) -> np.ndarray:
    return RANDOM.integers(low, high, shape).astype(dtype)


@pytest.fixture(params=["loops", "fibers"], autouse=True)
def _strategy(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CROQ_STRATEGY", request.param)


def program(source: str) -> croq.Program:
    return croq.compile(source, target="cpu")


same = np.testing.assert_array_equal

# ----------------------------------------------------------------------------- 1. launches, host code between them


def test_host_code_between_around_and_inside_launches() -> None:
    p = program(
        """__co__ s32 [7, 5] ping_pong(s32 [7, 5] x, int steps) {
          s32 [7, 5] r;
          s32 [2, 7, 5] both;
          dma.copy x.span_as([1, 7, 5]) => both.subspan(1, 7, 5).at(0, 0, 0);
          foreach k in [steps] {
            parallel i by 7, j by 5
              both.at((k + 1) % 2, i, j) = both.at(k % 2, i, (j + 1) % 5) + both.at(k % 2, (i + 1) % 7, j);
            if (k % 3 == 1) { both.at((k + 1) % 2, 6, 4) += 100; }
          }
          parallel i by 7 { foreach j in 5 r.at(i, j) = both.at(steps % 2, i, j); }
          return r;
        }
        __co__ auto sums(s32 [N, 5] x, int split) {
          s32 [2, 5] r;
          f = dma.copy x => global;
          if (split > 0) {
            parallel.async j by 5 { foreach i in [split] r.at(0, j) += f.data.at(i, j); }
          }
          parallel.async j by 5 { with i in N { foreach i(split:) r.at(1, j) += f.data.at(i, j); } }
          sync.global;
          foreach j in 5 r.at(0, j) = r.at(0, j) * 10 + r.at(1, j);
          return r;
        }
        __co__ s32 total(s32 [N] x) {
          mutable s32 t = 0;
          s32 [N] y;
          parallel p by N : thread y.at(p) = x.at(p) * x.at(p);
          foreach i in y.span t += y.at(i);
          if (t > 1000) { return -1; }
          return t;
        }"""
    )
    x = integers(7, 5)
    for steps in (1, 2, 7):
        now = x.copy()
        for k in range(steps):
            now = np.roll(now, -1, 1) + np.roll(now, -1, 0)
            if k % 3 == 1:
                now[6, 4] += 100
        same(p.ping_pong(x, steps), now)
    for n, split in [(1, 0), (1, 1), (11, 4), (13, 0)]:
        x = integers(n, 5)
        a, b = x[:split].sum(axis=0), x[split:].sum(axis=0)
        same(p.sums(x, split), np.array([a * 10 + b, b]))
    assert p.total(np.array([1, 2, 3], np.int32)) == 14
    assert p.total(np.array([40], np.int32)) == -1


def test_streams_keep_their_order() -> None:
    p = program(
        """__co__ s32 [9] f(s32 [9] x, stream s) {
          s32 [9] a, r;
          parallel.async<s> i by 9 a.at(i) = x.at(i) + 1;
          parallel<s> i by 9 a.at(i) = a.at(i) * a.at(8 - i > i ? i : i);
          parallel.async<s> i by 9 r.at(i) = a.at(8 - i);
          sync.global;
          return r;
        }"""
    )
    x = integers(9)
    same(p.f(x, 0), ((x + 1) ** 2)[::-1])


# ------------------------------------------------------------------------------------------------ 2. and 3. levels


@pytest.mark.races
def test_statements_of_every_level_run_once_an_instance() -> None:
    """Counted with atomics, and by what one level leaves for the next."""
    p = program(
        """__co__ s32 [8] f(int rounds) {
          s32 [8] n;
          parallel b by 3 : block {
            shared s32 [64] s;
            __atomic_add(n.at(0), 1);
            foreach k in [rounds] {
              __atomic_add(n.at(1), 1);
              parallel w by 2 : group {
                __atomic_add(n.at(2), 1);
                parallel t by 32 : thread { s.at(w#t) = w#t + k; __atomic_add(n.at(3), 1); }
                __atomic_add(n.at(4), s.at(w * 32 + 31) - s.at(w * 32));
              }
              __atomic_max(n.at(5), s.at(63));
            }
            n.at(6) = 5;
          }
          n.at(7) = n.at(0) + n.at(6);
          return n;
        }"""
    )
    for rounds in (1, 4):
        same(p.f(rounds), [3, 3 * rounds, 6 * rounds, 192 * rounds, 186 * rounds, 63 + rounds - 1, 5, 8])


def test_values_of_outer_levels_inside() -> None:
    """Scalars and `local` storage of the block are read by its threads; what threads leave in `shared` comes back."""
    p = program(
        """__co__ s32 [B, 3] f(s32 [B, N] x) {
          s32 [B, 3] r;
          parallel b by B : block {
            mutable s32 scale = b + 1;
            local s32 [3] table;
            foreach i in 3 table.at(i) = i * scale;
            shared s32 [N] s;
            shared s32 [3] sum {0};
            if (b % 2 == 1) scale += 10;
            parallel t by N : thread { s.at(t) = x.at(b, t) * scale + table.at(t % 3); }
            foreach i in N sum.at(i % 3) += s.at(i);
            scale = sum.at(1);
            parallel t by 3 : thread { r.at(b, t) = sum.at(t) + scale; }
          }
          return r;
        }"""
    )
    for blocks, n in [(1, 1), (4, 37), (3, 64)]:
        x = integers(blocks, n)
        b = np.arange(blocks)[:, None]
        s = x * (b + 1 + 10 * (b % 2)) + (np.arange(n) % 3) * (b + 1)
        sums = np.array([[row[i::3].sum() for i in range(3)] for row in s])
        same(p.f(x), sums + sums[:, 1:2])


def test_shared_declared_in_threads_is_one_a_block() -> None:
    p = program(
        """__co__ s32 [2, 33] f(s32 [2, 33] x) {
          s32 [2, 33] r;
          parallel b by 2 : block {
            parallel t by 33 : thread {
              shared s32 [33] s;
              s.at(t) = x.at(b, t);
              sync.shared;
              r.at(b, t) = s.at(32 - t);
            }
            parallel t by 33 : thread { r.at(b, t) *= 2; }
            foreach k in 3 { parallel t by 33 : thread { r.at(b, t) += k; } }
          }
          return r;
        }"""
    )
    x = integers(2, 33)
    same(p.f(x), x[:, ::-1] * 2 + 3)


def test_axes_of_one_level_and_named_tuples() -> None:
    p = program(
        """__co__ s32 [3, 2, 5, 7] f(s32 [3, 2, 5, 7] x) {
          s32 [3, 2, 5, 7] r;
          parallel g = {a, b} by [3, 2] : block {
            shared s32 [5, 7] s;
            parallel e = {i, j} by [5, 7] : thread {
              s.at(e) = x.at(g, e) + #i * 1000 + #b;
              sync.shared;
              q = e(0)#e(1);
              r.at(g(0), b, i, e(1)) = s.at(4 - i, 6 - j) + q;
            }
          }
          return r;
        }"""
    )
    x = integers(3, 2, 5, 7)
    same(p.f(x), x[:, :, ::-1, ::-1] + 5002 + np.arange(35).reshape(5, 7))


# ------------------------------------------------------------------------------------------------ 4. loops


def test_loop_ranges() -> None:
    p = program(
        """__co__ s32 [12, 3] f(int l, int u) {
          s32 [12, 3] r;
          parallel p by 3 {
            mutable s32 lo = l;
            with x in 5, y in 4 {
              foreach x(lo:u) { r.at(0, p) += x + 1; lo = 100; }
              foreach x(::3) r.at(1, p) += x * 10 + 1;
              foreach x(1:2:2) r.at(2, p) += x * 10 + 1;
              foreach x(:-4) r.at(3, p) += 1;
              foreach x(4:) foreach y(:-2) r.at(4, p) += x * y + 1;
              foreach z = x(2:-1), y { r.at(5, p) += z * 100 + x; }
              r.at(6, p) = x + y;
              foreach x { if (x == 3) break; foreach y { if (y % 2 == 1) continue; r.at(7, p) += x + y; } }
              r.at(8, p) = x;
              foreach x(3:-2) r.at(9, p) += 1;
              foreach {i, j} in [x(-1), 3] { if (j > i) break; r.at(10, p) += i * 3 + j; }
            }
            mutable s32 n = 27, steps = 0;
            while (n != 1) { n = n % 2 == 0 ? n / 2 : 3 * n + 1; steps += 1; if (steps > 200) break; }
            r.at(11, p) = steps;
          }
          return r;
        }"""
    )
    for lo, hi in [(0, 0), (2, 1), (4, -2), (0, -5), (-1, 3)]:
        expected = [
            sum(x + 1 for x in range(lo, 5 + hi)),
            sum(x * 10 + 1 for x in range(0, 5, 3)),
            sum(x * 10 + 1 for x in range(1, 7, 2)),
            1,
            sum(4 * y + 1 for y in range(2)),
            sum(z * 100 * 4 for z in range(2, 4)),
            0,
            sum(x + y for x in range(3) for y in (0, 2)),
            0,
            0,
            sum(i * 3 + j for i in range(4) for j in range(3) if j <= i),
            111,
        ]
        same(p.f(lo, hi), np.repeat(np.array(expected)[:, None], 3, axis=1))


def test_leaving_loops_around_collectives() -> None:
    """Uniform `break` and `continue` around copies and barriers; `yield` of some instances before them."""
    p = program(
        """__co__ s32 [4, 6] f(s32 [9, 6] x) {
          s32 [4, 6] r;
          parallel b by 4 : block {
            shared s32 [1, 6] s;
            parallel t by 6 : thread {
              mutable s32 sum = 0;
              foreach k in 9 {
                if ((k + b) % 3 == 0) continue;
                dma.copy x.chunkat(k, _) => s;
                if (s.at(0, 0) > 40 - b) break;
                sum += s.at(0, 5 - t);
              }
              r.at(b, t) = sum;
            }
          }
          return r;
        }
        __co__ s32 [5, 8] ends(s32 [5, 8] x) {
          s32 [5, 8] r;
          parallel b by 5 : block, t by 8 : thread {
            shared s32 [8] s;
            s.at(t) = x.at(b, t);
            if (t > b + 2) yield;
            r.at(b, t) = -1;
            sync.shared;
            foreach k in 3 { if (k == t) yield; r.at(b, t) += s.at(7 - t) + k; }
            r.at(b, t) *= 2;
          }
          return r;
        }"""
    )
    x = integers(9, 6)
    expected = np.zeros((4, 6), np.int32)
    for b in range(4):
        for k in range(9):
            if (k + b) % 3 == 0:
                continue
            if x[k, 0] > 40 - b:
                break
            expected[b] += x[k, ::-1]
    same(p.f(x), expected)
    x = integers(5, 8)
    expected = np.zeros((5, 8), np.int32)
    for b in range(5):
        for t in range(8):
            if t > b + 2:
                continue
            steps = min(t, 3)
            expected[b, t] = -1 + steps * x[b, 7 - t] + sum(range(steps))
            expected[b, t] *= 1 if t < 3 else 2
    same(p.ends(x), expected)


def test_unrolled_and_vector_loops_are_plain_loops() -> None:
    p = program(
        """__co__ f32 [13, 24] f(f32 [13, 24] x) {
          f32 [13, 24] r;
          parallel p by 13 {
            foreach j in [24] : vectorize(j, 8) {
              r.at(p, j) = x.at(p, j) > 0.0f ? x.at(p, j) * 2.0f : x.at(p, 23 - j);
            }
            foreach j in [5] : unroll { r.at(p, j) += 1.0f; if (j == 3) { r.at(p, j) *= 3.0f; } }
            foreach j in [7] : unroll(3) { r.at(p, j) -= 0.5f; }
          }
          return r;
        }"""
    )
    x = RANDOM.normal(size=(13, 24)).astype(np.float32)
    expected = np.where(x > 0, x * 2, x[:, ::-1])
    expected[:, :5] += 1
    expected[:, 3] *= 3
    expected[:, :7] -= np.float32(0.5)
    same(p.f(x), expected)


# ------------------------------------------------------------------------------------------------ 5. storage


def test_storage_of_every_kind_and_size() -> None:
    p = program(
        """__co__ s32 [B, K] symbolic(s32 [B, K] x, int extra) {
          s32 [B, K] r;
          parallel b by B : block {
            shared s32 [K + extra, 2] t[2] {3};
            whole = dma.copy x.subspan(1, K).at(b, 0) => shared;
            parallel i by K : thread {
              mutable s32 mine = whole.data.at(0, i);
              t[1].at(i + extra, 1) = mine * 2;
              sync.shared;
              mine += t[1].at(K - 1 - i + extra, 1) + t[0].at(i, 0) + t[1].at(0, 0);
              sync.shared;
              r.at(b, i) = mine;
            }
          }
          return r;
        }
        __co__ s32 [5, 6] arrays(s32 [5, 6] x) {
          s32 [5, 6] r;
          parallel b by 5 : block {
            shared s32 [6] s[2][3] {7};
            parallel t by 6 : thread {
              local s32 [2] mine[3] {1};
              s[t % 2][t / 2].at(t) = x.at(b, t);
              mine[t % 3].at(1) = t;
              mine[2].at(0) += mine[t % 3].at(1);
              sync.shared;
              r.at(b, t) = s[t % 2][t / 2].at(t) + s[1 - t % 2][0].at(5 - t) * 100 + mine[2].at(0) + mine[0].at(1);
            }
          }
          return r;
        }
        __co__ s32 [3] fresh(s32 [3] x) {
          s32 [3] r;
          parallel b by 3 : block {
            foreach k in 2 {
              shared s32 [4] s {0};
              foreach i in 4 s.at(i) += x.at(b) + k;
              r.at(b) += s.at(3);
            }
          }
          return r;
        }"""
    )
    for b, k, extra in [(1, 1, 1), (2, 7, 3), (3, 100, 1)]:
        x = integers(b, k)
        # t[1][0][0] is never written by threads: column 0 stays 3
        same(p.symbolic(x, extra), x + x[:, ::-1] * 2 + 3 + 3)
    x = integers(5, 6)
    expected = np.zeros_like(x)
    for b in range(5):
        s = np.full((2, 3, 6), 7)
        for t in range(6):
            s[t % 2, t // 2, t] = x[b, t]
        for t in range(6):
            mine = np.ones((3, 2), int)
            mine[t % 3, 1] = t
            mine[2, 0] += mine[t % 3, 1]
            expected[b, t] = s[t % 2, t // 2, t] + s[1 - t % 2, 0, 5 - t] * 100 + mine[2, 0] + mine[0, 1]
    same(p.arrays(x), expected)
    x = integers(3)
    same(p.fresh(x), 2 * x + 1)


def test_general_code_runs_every_extent(monkeypatch: pytest.MonkeyPatch) -> None:
    """The version for all extents, which takes over after a few: storage of symbolic size, ragged tiles, roles."""
    from croq_magic.compiler import pipeline

    monkeypatch.setattr(pipeline, "MAX_VARIANTS", 0)
    p = program(
        """__co__ s32 [M, K] f(s32 [M, K] x) {
          s32 [M, K] r;
          parallel b by cdiv(M, 3) : block {
            shared s32 [3, K] s;
            dma.copy.zfill x.subspan(3, K).at(b, 0) => s;
            parallel t by K : thread {
              mutable s32 keep = s.at(0, t) + s.at(2, K - 1 - t);
              sync.shared;
              s.at(1, t) += keep;
              sync.shared;
              foreach i in 3 { if (b * 3 + i < M) r.at(b * 3 + i, t) = s.at(i, K - 1 - t) + keep; }
            }
          }
          return r;
        }"""
    )
    for m, k in [(1, 1), (3, 2), (7, 13), (8, 65)]:
        x = integers(m, k)
        s = np.zeros((-(-m // 3) * 3, k), np.int32)
        s[:m] = x
        s = s.reshape(-1, 3, k)
        keep = s[:, 0] + s[:, 2, ::-1]
        s[:, 1] += keep
        same(p.f(x), (s[:, :, ::-1] + keep[:, None]).reshape(-1, k)[:m])


# ------------------------------------------------------------------------------------------------ 6. transfers


def test_every_direction() -> None:
    """Global, shared and local to each other, asynchronous ones too, and global to global inside a kernel."""
    p = program(
        """__co__ s32 [6, 3, 7] f(s32 [3, 7] x) {
          s32 [6, 3, 7] r;
          parallel p by 3 : block {
            a = dma.copy x.chunkat(p, _) => shared;
            b = dma.copy a => local;
            c = dma.copy b.data => shared;
            shared s32 [1, 7] d;
            dma.copy c => d;
            dma.copy d.span_as([1, 1, 7]) => r.subspan(1, 1, 7).at(0, p, 0);
            e = dma.copy.async x.chunkat(p, _) => local;
            wait e;
            dma.copy e.data.span_as([1, 1, 7]) => r.subspan(1, 1, 7).at(1, p, 0);
            f = dma.copy.async d => local;
            g = dma.copy.async e => shared after f;
            wait f, g;
            local s32 [7] l;
            dma.copy g.data.span_as([7]) => l;
            dma.copy l.span_as([1, 1, 7]) => r.subspan(1, 1, 7).at(2, p, 0);
            dma.copy x.chunkat(p, _).span_as([1, 1, 7]) => r.subspan(1, 1, 7).at(3, p, 0);
            parallel t by 7 : thread {
              h = dma.copy x.subspan(1, 1).at(p, t) => local;
              h.data.at(0, 0) += t;
              dma.copy h.data.span_as([1, 1, 1]) => r.subspan(1, 1, 1).at(4, p, t);
              k = dma.copy d.subspan(1, 1).at(0, 6 - t) => local;
              dma.copy k.data.span_as([1, 1, 1]) => r.subspan(1, 1, 1).at(5, p, t);
            }
          }
          return r;
        }"""
    )
    x = integers(3, 7)
    same(p.f(x), np.stack([x, x, x, x, x + np.arange(7), x[:, ::-1]]))


@pytest.mark.parametrize("word", ["shared", "local"])
def test_permutations_and_padding_of_every_rank(word: str) -> None:
    orders = [(0, 1, 2), (0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0)]
    shape = (3, 5, 2)
    functions = []
    for number, order in enumerate(orders):
        extents = ", ".join(str(shape[d]) for d in order)
        functions.append(
            f"__co__ s16 [{extents}] t{number}(s16 [3, 5, 2] x) {{ s16 [{extents}] r; parallel by 1 : block {{ "
            f"f = dma.transp<{', '.join(map(str, order))}> x => {word}; dma.copy f => r; }} return r; }}"
        )
    functions.append(
        f"""__co__ void pad(s16 [3, 5, 2] x, s16 [7, 5, 6]& r) {{
          parallel by 1 : block {{
            f = dma.pad<{{1, 0, 4}}, {{3, 0, 0}}, {{0, 0, 0}}, -7> x => {word};
            dma.copy f => r;
          }}
        }}
        __co__ void runtime(s16 [N] x, s16 [A]& r, int lo, int hi) {{
          parallel by 1 : block {{ dma.pad<{{lo}}, {{hi}}, {{0}}, 9> x => r; }}
        }}
        __co__ void tiles(f16 [5, 7] x, f16 [3, 4, 4, 5]& r) {{
          parallel {{p, q}} by [3, 4] {{
            f = dma.copy.zfill x.subspan(2, 2).at(p, q) => {word};
            g = dma.pad<{{1, 2}}, {{1, 1}}, {{0, 0}}, 0.5f> f => {word};
            dma.copy g.data.span_as([1, 1, 4, 5]) => r.subspan(1, 1, 4, 5).at(p, q, 0, 0);
          }}
        }}"""
    )
    p = program("\n".join(functions))
    x = integers(*shape, dtype=np.int16)
    for number, order in enumerate(orders):
        same(p.functions[f"t{number}"](x), x.transpose(order))
    r = np.zeros((7, 5, 6), np.int16)
    p.pad(x, r)
    same(r, np.pad(x, ((1, 3), (0, 0), (4, 0)), constant_values=-7))
    for n, lo, hi in [(1, 0, 0), (5, 2, 0), (4, 0, 3)]:
        v, r = integers(n, dtype=np.int16), np.zeros(n + lo + hi, np.int16)
        p.runtime(v, r, lo, hi)
        same(r, np.pad(v, (lo, hi), constant_values=9))
    y = RANDOM.normal(size=(5, 7)).astype(np.float16)
    padded = np.zeros((6, 8), np.float16)
    padded[:5, :7] = y
    r16 = np.zeros((3, 4, 4, 5), np.float16)
    p.tiles(y, r16)
    expected = np.pad(
        padded.reshape(3, 2, 4, 2).transpose(0, 2, 1, 3), ((0, 0), (0, 0), (1, 1), (2, 1)), constant_values=0.5
    )
    same(r16, expected)


def test_windows() -> None:
    """Every view: shifted and zero-filled on all sides, overlapping, strided, remainders, of futures and of views."""
    p = program(
        """__co__ s32 [9, 3, 4] around(s32 [7, 5] x, int di, int dj) {
          s32 [9, 3, 4] r;
          parallel p by 9 {
            f = dma.copy x.view(3, 4).from(p - 2 + di, p * 2 - 5 + dj).zfill => shared;
            dma.copy f.data.span_as([1, 3, 4]) => r.chunkat(p, _, _);
          }
          return r;
        }
        __co__ s32 [5, 3] overlaps(s32 [11] x) {
          s32 [5, 3] r;
          parallel p by 5 { dma.copy x.subspan(3).step(2).at(p) => r.subspan(1, 3).at(p, 0).span_as([3]); }
          return r;
        }
        __co__ s32 [3, 2] diagonal(s32 [4, 6] x) {
          s32 [3, 2] r;
          parallel by 1 { dma.copy x.view(3, 2 : 7, 2).from(0, 1) => r; }
          return r;
        }
        __co__ s32 [2, 2] spaced(s32 [8, 6] x) {
          s32 [2, 2] r;
          parallel by 1 { dma.copy x.subspan(2, 2 : 12, 2).at(1, 0) => r; }
          return r;
        }
        __co__ auto rest(s32 [M, N] x) {
          s32 [M % 4, N % 3] r;
          parallel by 1 { dma.copy x.modspan(4, 3) => r; }
          return r;
        }
        __co__ s32 [4, 2, 3] nested(s32 [8, 9] x) {
          s32 [4, 2, 3] r;
          parallel {i, j} by [2, 2] : block {
            t = dma.copy x.subspan(4, 6).at(i, 0) => shared;
            v = t.data.subspan(2, 6).at(j, 0).view(2, 3).from(0, i + 1);
            w = r.subspan(1, 2, 3).at(i * 2 + j, 0, 0).span_as([2, 3]);
            dma.copy v => w;
            w += v;
            v *= 2;
            w -= x.subspan(4, 9).at(i, 0).subspan(2, 3).at(j, 1 + i).subspan(1, 3).at(1, 0).sqz();
          }
          return r;
        }
        __co__ s32 [2, 3] squeezed(s32 [4, 1, 2, 3] x, int k) {
          s32 [2, 3] r;
          parallel by 1 { dma.copy x.subspan(1, 1, 2, 3).at(k, 0, 0, 0).sqz() => r; }
          return r;
        }
        __co__ s32 [6] flat(s32 [4, 3] x) {
          s32 [6] r;
          parallel by 1 {
            v = x.subspan(2, _).at(1, 0); w = v.span_as([6]); all = x.span_as([12]);
            foreach i in 6 r.at(i) = w.at(5 - i) + all.at(i);
          }
          return r;
        }"""
    )
    x = integers(7, 5)
    framed = np.pad(x, 30)
    for di, dj in [(0, 0), (3, -4), (-9, 9)]:
        expected = [
            framed[30 + k - 2 + di : 33 + k - 2 + di, 30 + k * 2 - 5 + dj : 34 + k * 2 - 5 + dj] for k in range(9)
        ]
        same(p.around(x, di, dj), np.array(expected))
    x = integers(11)
    same(p.overlaps(x), np.array([x[2 * k : 2 * k + 3] for k in range(5)]))
    x = integers(4, 6)
    same(p.diagonal(x), x.ravel()[2 + np.add.outer(np.arange(3) * 7, np.arange(2) * 2)])
    x = integers(8, 6)
    same(p.spaced(x), x.ravel()[24 + np.add.outer(np.arange(2) * 12, np.arange(2) * 2)])
    for m, n in [(5, 4), (7, 5), (11, 8)]:
        x = integers(m, n)
        same(p.rest(x), x[m // 4 * 4 :, n // 3 * 3 :])
    x = integers(8, 9)
    expected = np.zeros((4, 2, 3), np.int32)
    for i in range(2):
        for j in range(2):
            v = x[4 * i + 2 * j : 4 * i + 2 * j + 2, i + 1 : i + 4]
            last = x[4 * i + 2 * j + 1, 3 * (1 + i) : 3 * (1 + i) + 3]
            expected[i * 2 + j] = 2 * v - last
    same(p.nested(x), expected)
    x = integers(4, 1, 2, 3)
    same(p.squeezed(x, 2), x[2, 0])
    x = integers(4, 3)
    same(p.flat(x), x[2:].ravel()[::-1] + x.ravel()[:6])


@pytest.mark.parametrize("width", [32, 64, 128])
def test_swizzled_tiles_read_and_written_by_element(width: int) -> None:
    p = program(
        f"""__co__ f16 [16, 64] f(f16 [16, 64] x) {{
          f16 [16, 64] r;
          parallel by 1 : block {{
            a = dma.copy.swiz<{width}> x => shared;
            parallel t by 64 : thread {{
              a.data.at(t % 16, t) = __to<f16>(a.data.at(t % 16, t) * 2.0f);
              sync.shared;
              foreach i in 16 r.at(i, t) = a.data.at(15 - i, 63 - t);
            }}
          }}
          return r;
        }}"""
    )
    x = RANDOM.normal(size=(16, 64)).astype(np.float16)
    expected = x.copy()
    expected[np.arange(64) % 16, np.arange(64)] *= 2
    same(p.f(x), expected[::-1, ::-1])


@pytest.mark.parametrize("depth", [2, 3, 4])
@pytest.mark.parametrize("storage", ["shared", "local"])
def test_pipelines_of_placeholders(depth: int, storage: str) -> None:
    """`depth` buffers in flight, for trip counts below, at and above the depth."""
    names = [f"f{i}" for i in range(depth)]
    first = "\n".join(
        f"{n} = dma.any; if ({i} < N) {{ {n} = dma.copy.async x.subspan(1, 6).at({i}, 0) => {storage}; }}"
        for i, n in enumerate(names[:-1])
    )
    p = program(
        f"""__co__ s32 [N, 6] f(s32 [N, 6] x) {{
          s32 [N, 6] r;
          parallel b by 2 : block {{
            {first}
            {names[-1]} = dma.any;
            foreach k in N {{
              if (k + {depth - 1} < N) {{
                {names[-1]} = dma.copy.async x.subspan(1, 6).at(k + {depth - 1}, 0) => {storage};
              }}
              wait f0;
              if (k % 2 == b) {{ foreach j in 6 r.at(k, j) = f0.data.at(0, 5 - j) * 2 + k; }}
              rotate({", ".join(names)});
            }}
          }}
          return r;
        }}"""
    )
    for n in (1, 2, 3, 4, 7):
        x = integers(n, 6)
        same(p.f(x), x[:, ::-1] * 2 + np.arange(n)[:, None])


def test_ping_pong_by_select_and_swap_inside_threads() -> None:
    p = program(
        """__co__ s32 [N, 8] chosen(s32 [N, 8] x) {
          s32 [N, 8] r;
          parallel b by 1 : block, t by 8 : thread {
            shared s32 [1, 8] a, c, d;
            foreach k in N {
              dma.copy x.subspan(1, 8).at(k, 0) => select(k % 3, a, c, d);
              s = select(k % 3, a, c, d);
              before = select((k + 2) % 3, a, c, d);
              r.at(k, t) = s.at(0, 7 - t) - (k > 0 ? before.at(0, t) : 0);
            }
          }
          return r;
        }
        __co__ s32 [N, 8] swapped(s32 [N, 8] x) {
          s32 [N, 8] r;
          parallel b by 1 : block, t by 8 : thread {
            a = dma.copy.async x.subspan(1, 8).at(0, 0) => shared;
            z = dma.any;
            with k in N {
              foreach k(1:) {
                z = dma.copy.async x.subspan(1, 8).at(k, 0) => shared;
                wait a;
                r.at(k - 1, t) = a.data.at(0, 7 - t);
                sync.shared;
                swap(a, z);
              }
            }
            wait a;
            r.at(N - 1, t) = a.data.at(0, 7 - t) * 5;
          }
          return r;
        }"""
    )
    for n in (1, 2, 3, 8):
        x = integers(n, 8)
        before = np.vstack([np.zeros((1, 8), np.int32), x[:-1]])
        same(p.chosen(x), x[:, ::-1] - before)
        expected = x[:, ::-1].copy()
        expected[-1] *= 5
        same(p.swapped(x), expected)


def test_tma_at_the_edges_of_a_tensor() -> None:
    """Loads read zeros outside, stores leave out what lies there: before the origin, behind the end, in any rank."""
    p = program(
        """__co__ s32 [M, N] tiles(s32 [M, N] x) {
          s32 [M, N] r;
          parallel {i, j} by [cdiv(M, 4), cdiv(N, 8)] : block {
            t = tma.load x.subspan(4, 8).at(i, j) => shared;
            t.data += 1;
            tma.copy t => r.subspan(4, 8).at(i, j);
          }
          return r;
        }
        __co__ s32 [3, 5, 7] shifted(s32 [3, 5, 7] x, int a, int b, int c) {
          s32 [3, 5, 7] r;
          parallel by 1 : block {
            t = tma.load.async x.view(2, 4, 8).from(a, b, c) => shared;
            wait t;
            t.data += 100;
            f = tma.copy.async t => r.view(2, 4, 8).from(a + 1, b - 1, c);
            wait f;
          }
          return r;
        }"""
    )
    for m, n in [(1, 1), (4, 8), (5, 9), (13, 21)]:
        x = integers(m, n)
        same(p.tiles(x), x + 1)
    x = integers(3, 5, 7)
    framed, frame = np.pad(x, 20), 20
    for a, b, c in [(0, 0, 0), (-1, 2, -3), (2, 4, 6), (-5, 0, 0), (1, -9, 12)]:
        box = framed[frame + a : frame + a + 2, frame + b : frame + b + 4, frame + c : frame + c + 8] + 100
        expected = np.zeros_like(framed)
        expected[frame + a + 1 : frame + a + 3, frame + b - 1 : frame + b + 3, frame + c : frame + c + 8] = box
        same(p.shifted(x, a, b, c), expected[frame:-frame, frame:-frame, frame:-frame])


def test_transfers_after_each_other() -> None:
    p = program(
        """__co__ s32 [4, 8] f(s32 [4, 8] x, s32 [8] y) {
          s32 [4, 8] r;
          parallel b by 4 : block {
            f = dma.copy.async x.chunkat(b, _) => shared;
            g = dma.copy.async y => shared after f;
            h = dma.pad<{0, 1}, {0, 1}, {0, 0}, 5>.async x.chunkat(b, _) => shared after g;
            k = dma.transp.async<1, 0> x.chunkat(b, _) => shared after h;
            wait f, g, h, k;
            f.data.at(0, 0) += h.data.at(0, 0) + k.data.at(7, 0);
            parallel t by 8 : thread { r.at(b, t) = f.data.at(0, 7 - t) * g.data.at(t) + h.data.at(0, t + 2); }
          }
          return r;
        }"""
    )
    x, y = integers(4, 8), integers(8)
    f = x.copy()
    f[:, 0] += 5 + x[:, 7]
    h = np.pad(x, ((0, 0), (1, 1)), constant_values=5)
    same(p.f(x, y), f[:, ::-1] * y + h[:, 2:])


def test_select_among_parts_and_different_buffers() -> None:
    p = program(
        """__co__ s32 [5, 8] parts(s32 [5, 8] x, int k) {
          s32 [5, 8] r;
          parallel p by 5 : block {
            shared s32 [3, 8] t;
            foreach i in 3 dma.copy x.view(1, 8).from((p + i) % 5, 0) => t.subspan(1, 8).at(i, 0);
            s = select(k % 3, t.subspan(1, 8).at(0, 0), t.subspan(1, 8).at(1, 0), t.subspan(1, 8).at(2, 0));
            parallel j by 8 : thread { r.at(p, j) = s.at(0, 7 - j); }
          }
          return r;
        }
        __co__ s32 [5, 8] buffers(s32 [5, 8] x, s32 [5, 8]& y, s32 [5, 8]& z, int k) {
          s32 [5, 8] r;
          foreach it in [3] {
            parallel p by 5 : block {
              s = select((k + it) % 2, x, y);
              d = select((k + it) % 2, y, z);
              f = dma.copy s.chunkat(p, _) => shared;
              parallel t by 8 : thread { f.data.at(0, t) += s.at(p, 7 - t); }
              dma.copy f => d.chunkat(p, _);
            }
          }
          dma.copy select(k, z, y) => r;
          return r;
        }"""
    )
    x, y, z = integers(5, 8), integers(5, 8), integers(5, 8)
    for k in (0, 1, 5):
        same(p.parts(x, k), np.roll(x, -(k % 3), axis=0)[:, ::-1])
    for k in (0, 1):
        a, b, c = x.copy(), y.copy(), z.copy()
        got_b, got_c = y.copy(), z.copy()
        result = p.buffers(x.copy(), got_b, got_c, k)
        for it in range(3):
            s = b if (k + it) % 2 else a
            v = s + s[:, ::-1]
            b, c = (b, v) if (k + it) % 2 else (v, c)
        same(result, b if k else c)
        same(got_b, b)
        same(got_c, c)


def test_whole_spans() -> None:
    """Every operation, scalars and lower ranks on the right, broadcast over what is missing, views on both sides."""
    p = program(
        """__co__ s32 [5, 3, 7] f(s32 [5, 3, 7] x, s32 [3, 7] y, s32 [7] z) {
          s32 [5, 3, 7] r;
          parallel b by 5 : block {
            shared s32 [3, 7] s;
            dma.copy x.chunkat(b, _, _).span_as([3, 7]) => s;
            s += y; s *= z; s -= 3; s /= b + 2; s %= 11;
            t = s.subspan(2, 3).at(0, 1);
            t += y.subspan(2, 3).at(0, 0);
            local s32 [7] l {2};
            l += z;
            foreach i in 7 s.at(2, i) += l.at(i);
            dma.copy s.span_as([1, 3, 7]) => r.chunkat(b, _, _);
          }
          r += z;
          return r;
        }"""
    )
    x, y, z = integers(5, 3, 7), integers(3, 7), integers(7)
    s = (x + y) * z - 3
    b = np.arange(5)[:, None, None] + 2
    s = np.sign(s) * (abs(s) // b)
    s = np.sign(s) * (abs(s) % 11)
    s[:, 0:2, 3:6] += y[0:2, 0:3]
    s[:, 2] += z + 2
    same(p.f(x, y, z), s + z)


# ------------------------------------------------------------------------------------------------ 7. barriers, atomics


def test_barriers_of_groups() -> None:
    p = program(
        """__co__ s32 [2, 3, 32] warps(s32 [2, 3, 32] x) {
          s32 [2, 3, 32] r;
          parallel b by 2 : block, w by 3 : group, t by 32 : thread {
            shared s32 [3, 32] s;
            mutable s32 v = x.at(b, w, t);
            foreach k in [w + 2] {
              s.at(w, t) = v;
              sync.barrier : group;
              v = s.at(w, (t + 1) % 32) + k;
              sync.barrier : group;
            }
            sync.fence : block;
            r.at(b, w, t) = v;
          }
          return r;
        }
        __co__ s32 [128] quads(s32 [128] x) {
          s32 [128] r;
          parallel g by 1 : group-4, t by 128 : thread {
            shared s32 [128] s;
            s.at(t) = x.at(t);
            sync.barrier : group-4;
            mutable s32 v = s.at(127 - t);
            sync.barrier : thread;
            s.at(t) = v + 1;
            sync.barrier : block;
            sync.local;
            r.at(t) = s.at((t + 5) % 128);
          }
          return r;
        }
        __co__ s32 [B, 9] grid(s32 [B, 9] x) {
          s32 [B, 9] r, mid;
          parallel b by B : block<cooperative>, t by 9 : thread {
            mutable s32 mine = x.at(b, t);
            foreach k in 3 {
              mid.at(b, t) = mine;
              sync.barrier : device;
              mine = mid.at((b + 1) % B, 8 - t) + k;
              sync.barrier : device;
            }
            r.at(b, t) = mine;
          }
          return r;
        }"""
    )
    x = integers(2, 3, 32)
    expected = np.stack([np.roll(x[:, w], -(w + 2), axis=1) + sum(range(w + 2)) for w in range(3)], axis=1)
    same(p.warps(x), expected)
    x = integers(128)
    same(p.quads(x), np.roll(x[::-1] + 1, -5))
    for blocks in (1, 2, 5):
        x = integers(blocks, 9)
        mine = x
        for k in range(3):
            mine = np.roll(mine, -1, axis=0)[:, ::-1] + k
        same(p.grid(x), mine)


ATOMICS = {
    "add": ["s32", "u32", "u64", "f32", "f64", "f16", "bf16"],
    "sub": ["s32", "u32"],
    "exch": ["s32", "u32", "u64", "f32"],
    "min": ["s32", "u32", "s64", "u64"],
    "max": ["s32", "u32", "s64", "u64"],
    "and": ["s32", "u32", "s64", "u64"],
    "or": ["s32", "u32", "s64", "u64"],
    "xor": ["s32", "u32", "s64", "u64"],
}
DTYPES: dict[str, Any] = {
    "s32": np.int32,
    "u32": np.uint32,
    "s64": np.int64,
    "u64": np.uint64,
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "f32": np.float32,
    "f64": np.float64,
}


@pytest.mark.parametrize("operation", ATOMICS)
def test_atomics(operation: str) -> None:
    """Updates of three places by 40 threads of 3 blocks, in global and in shared storage; what was there before each
    update is what another left, in some order."""
    p = program(
        "\n".join(
            f"""__co__ void of_{t}({t} [120] x, {t} [3]& g, {t} [3, 3]& s, {t} [120]& old)
            {{
              parallel b by 3 : block {{
                shared {t} [3] mine;
                foreach i in 3 mine.at(i) = s.at(b, i);
                parallel t by 40 : thread {{
                  mutable {t} before = __atomic_{operation}(g.at(t % 3), x.at(b#t));
                  old.at(b#t) = before;
                  __atomic_{operation}(mine.at(t % 3), x.at(b#t));
                }}
                foreach i in 3 s.at(b, i) = mine.at(i);
              }}
            }}"""
            for t in ATOMICS[operation]
        )
    )
    binary = {
        "add": np.add,
        "sub": np.subtract,
        "min": np.minimum,
        "max": np.maximum,
        "and": np.bitwise_and,
        "or": np.bitwise_or,
        "xor": np.bitwise_xor,
        "exch": lambda a, b: b,
    }[operation]
    for name in ATOMICS[operation]:
        dtype = DTYPES[name]
        low = 0 if name[0] == "u" else -3
        x, g, s = (RANDOM.integers(low, 4, n).astype(dtype) for n in (120, 3, 9))
        if name in ("s64", "u64"):
            x, g = x * dtype(2**40 + 1), g * dtype(2**40 + 1)
        s = s.reshape(3, 3)
        final, mine, old = g.copy(), s.copy(), np.zeros(120, dtype)
        p.functions[f"of_{name}"](x, final, mine, old)
        places = np.tile(np.arange(40) % 3, 3)
        for place in range(3):
            chosen = places == place
            after = binary(old[chosen], x[chosen]).astype(dtype)
            left = sorted([*after.tolist(), g[place].item()])
            assert left == sorted([*old[chosen].tolist(), final[place].item()])
            if operation != "exch":
                expected = g[place]
                for value in x[chosen]:
                    expected = dtype(binary(expected, value))
                assert final[place] == expected
                for b in range(3):
                    expected = s[b, place]
                    for value in x[40 * b : 40 * b + 40][places[:40] == place]:
                        expected = dtype(binary(expected, value))
                    assert mine[b, place] == expected


@pytest.mark.races
def test_compare_and_swap_of_every_type() -> None:
    p = program(
        "\n".join(
            f"""__co__ {t} [2] of_{t}({t} [50] x) {{
              {t} [2] r;
              parallel p by 50 {{
                mutable bool done = false;
                while (!done) {{
                  {t} seen = r.at(0);
                  mutable {t} before = __atomic_cas(r.at(0), seen, __to<{t}>(seen + x.at(p)));
                  done = before == seen;
                }}
                mutable {t} none = __atomic_cas(r.at(1), __to<{t}>(1), x.at(p));
              }}
              return r;
            }}"""
            for t in ("s32", "u32", "u64", "u16")
        )
    )
    for name, dtype in {"s32": np.int32, "u32": np.uint32, "u64": np.uint64, "u16": np.uint16}.items():
        x = RANDOM.integers(0, 100, 50).astype(dtype)
        same(p.functions[f"of_{name}"](x), np.array([x.sum(dtype=dtype), 0], dtype))


# ------------------------------------------------------------------------------------------------ 8. roles


def test_predicates_of_inthreads() -> None:
    """Overlapping regions in program order, negations, conditions on variables of two levels and on what is derived."""
    p = program(
        """__co__ s32 [3, 4, 16] f(s32 [3, 4, 16] x, int limit) {
          s32 [3, 4, 16] r;
          parallel b by 3 : block, q by 64 : thread {
            shared s32 [4, 16] s;
            i = q / 16; j = q % 16;
            s.at(i, j) = x.at(b, i, j);
            inthreads (i < 3) { s.at(i, j) += 1; }
            inthreads (j > 4 && i != 2) { s.at(i, j) *= 2; }
            inthreads (!(q < limit) || j == 0) { s.at(i, j) -= 7; }
            inthreads (q % 5 == 1) { r.at(b, i, j) = s.at(3 - i, 15 - j) * 100; }
            inthreads (b == 1 && i == 1) { r.at(b, i, j) += 1; }
            r.at(b, i, j) += s.at(i, j);
          }
          return r;
        }"""
    )
    i, j = np.indices((4, 16))
    q = i * 16 + j
    for limit in (0, 21, 64):
        x = integers(3, 4, 16)
        s = x.copy()
        s += i < 3
        s = np.where((j > 4) & (i != 2), s * 2, s)
        s = np.where((q >= limit) | (j == 0), s - 7, s)
        r = np.where(q % 5 == 1, s[:, ::-1, ::-1] * 100, 0)
        r[1, 1] += 1
        same(p.f(x, limit), r + s)


def test_async_roles_on_disjoint_threads() -> None:
    p = program(
        """__co__ s32 [3, 96] f(s32 [3, 96] x) {
          s32 [3, 96] r;
          parallel b by 3 : block, w by 3 : group, t by 32 : thread {
            shared s32 [96] s, u;
            inthreads.async (w == 0) { foreach k in 3 s.at(k * 32 + t) = x.at(b, k * 32 + 31 - t); }
            inthreads.async (w > 0) { u.at(w#t) = x.at(b, w#t) * w; }
            inthreads.async (w == 0) { u.at(t) = -t; }
            sync.shared;
            r.at(b, w#t) = s.at(95 - w#t) + u.at((w#t + 1) % 96);
          }
          return r;
        }"""
    )
    x = integers(3, 96)
    s = x.reshape(3, 3, 32)[:, :, ::-1].reshape(3, 96)
    u = x * (np.arange(96) // 32)
    u[:, :32] = -np.arange(32)
    same(p.f(x), s[:, ::-1] + np.roll(u, -1, axis=1))


# ------------------------------------------------------------------------------------------------ 9. parameters


def test_parameters_and_results() -> None:
    p = program(
        """__co__ void both(s32 [N]& x, global s32 [N] y, s32 [N] z) {
          parallel p by N { x.at(p) += z.at(p); y.at(p) = x.at(p) * 2; }
          foreach i in N { x.at(i) -= 1; }
        }
        __co__ s32 [M, N] copied(s32 [M, N] x) { return x; }
        __co__ auto part(f32 [2, N] x) {
          f32 [N] r;
          parallel p by N { r.at(p) = x.at(1, p) - x.at(0, p); }
          if (N > 3) { r.at(3) = 0.25f; return r; }
          return r;
        }
        __co__ f64 scalar(f64 a, u8 b, s64 c) { return a * b + c; }
        __co__ bool test(int a, int b) { return a > b && a % 2 == 0; }"""
    )
    for n in (1, 6):
        x, y, z = integers(n), integers(n), integers(n)
        before = x.copy()
        p.both(x, y, z)
        same(x, before + z - 1)
        same(y, (before + z) * 2)
    x = integers(3, 5)
    got = p.copied(x)
    same(got, x)
    assert not np.shares_memory(got, x)
    for n in (2, 5):
        f = RANDOM.normal(size=(2, n)).astype(np.float32)
        expected = f[1] - f[0]
        if n > 3:
            expected[3] = 0.25
        same(p.part(f), expected)
    assert p.scalar(1.5, 200, -(2**40)) == 300 - 2**40
    assert p.test(4, 3) is True or p.test(4, 3) == 1
    assert not p.test(3, 2)


# ------------------------------------------------------------------------------------------------ windows of windows


def test_windows_of_windows_stay_in_their_parents() -> None:
    """Inside the buffer, but outside the part of it that the view was taken from."""
    p = program(
        """__co__ s32 [4] tile(s32 [4, 8] x, int k) {
          s32 [4] r;
          parallel by 1 { dma.copy x.subspan(1, 8).at(1, 0).subspan(1, 4).at(k, 0).sqz() => r; }
          return r;
        }
        __co__ s32 [4] window(s32 [4, 8] x, int o) {
          s32 [4] r;
          parallel by 1 { dma.copy x.subspan(1, 6).at(1, 0).view(1, 4).from(0, o).sqz() => r; }
          return r;
        }
        __co__ s32 [4] filled(s32 [4, 8] x, int o) {
          s32 [4] r;
          parallel by 1 { t = dma.copy x.subspan(1, 6).at(1, 0).view(1, 4).from(0, o).zfill => shared;
            dma.copy t.data.span_as([4]) => r; }
          return r;
        }"""
    )
    x = integers(4, 8)
    same(p.tile(x, 0), x[1, :4])
    same(p.window(x, 2), x[1, 2:6])
    same(p.filled(x, 6), [*x[1, 6:8], 0, 0])
    with pytest.raises(croq.CheckError, match="tile index k of dimension 0, only 1 tiles exist"):
        p.tile(x, 1)
    with pytest.raises(croq.CheckError, match="elements o to o \\+ 4 of dimension 1, the view has 6"):
        p.window(x, 3)


def test_shared_storage_of_symbolic_size_has_limits() -> None:
    p = program(
        "__co__ f32 [K] f(f32 [K] x, int w) { f32 [K] r; parallel by 1 : block { shared f32 [K, w] s[2] {1.0f}; "
        "parallel t by K : thread { r.at(t) = x.at(t) + s[1].at(t, w - 1); } } return r; }"
    )
    same(p.f(np.ones(5, np.float32), 3), np.full(5, 2, np.float32))
    with pytest.raises(croq.CheckError, match=r"a block needs .* bytes of shared memory, at most 1073741824 can be"):
        p.f(np.ones(5, np.float32), 1 << 27)
    with pytest.raises(croq.CompileError, match="`shared` buffers need extents known at launch, found `n`"):
        program(
            "__co__ void f(s32 [4] x) { parallel b by 4 : block { int n = x.at(b); shared s32 [n] s; s.at(0) = 1; } }"
        )
