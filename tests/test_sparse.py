"""2:4-sparse compression and the multiplications that consume it, against a model written out in NumPy."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import croq_magic as croq

RANDOM = np.random.default_rng(24)
TYPES = {"f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32, "s8": np.int8, "u8": np.uint8}


def sparse(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    """Random arrays in which no more than two of four neighbours are not zero, and often fewer."""
    x = RANDOM.integers(1, 9, (*shape[:-1], shape[-1] // 4, 4)) * RANDOM.choice(
        [-1, 1], (*shape[:-1], shape[-1] // 4, 4)
    )
    if np.issubdtype(dtype, np.unsignedinteger):
        x = abs(x)
    order = RANDOM.random(x.shape).argsort(-1)
    kept = RANDOM.integers(0, 3, x.shape[:-1])
    return np.where(order < kept[..., None], x, 0).reshape(shape).astype(dtype)


def compressed(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Kept values and their positions, group by group."""
    rows, k = x.reshape(-1, x.shape[-1]), x.shape[-1]
    values = np.zeros((len(rows), k // 2), x.dtype)
    positions = np.zeros((len(rows), -(-k // 8)), np.uint8)
    for r, row in enumerate(rows):
        for g in range(k // 4):
            group = row[4 * g : 4 * g + 4]
            places = [i for i in range(4) if group[i] != 0]
            places += [i for i in range(4) if i not in places][: 2 - len(places)]
            places.sort()
            values[r, 2 * g : 2 * g + 2] = group[places]
            positions[r, g // 2] |= (places[0] | places[1] << 2) << (4 * (g % 2))
    return values.reshape(*x.shape[:-1], -1), positions.reshape(*x.shape[:-1], -1)


def test_the_model_restores_what_it_compressed() -> None:
    x = sparse(5, 12)
    values, positions = compressed(x)
    full = np.zeros_like(x)
    for r in range(5):
        for g in range(3):
            nibble = int(positions[r, g // 2]) >> (4 * (g % 2)) & 15
            full[r, 4 * g + (nibble & 3)] = values[r, 2 * g]
            full[r, 4 * g + (nibble >> 2)] = values[r, 2 * g + 1]
    np.testing.assert_array_equal(full, x)


@pytest.mark.parametrize("strategy", ["loops", "fibers"])
def test_compression(strategy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CROQ_STRATEGY", strategy)
    sizes = [(1, 4), (3, 8), (7, 20), (5, 132)]
    program = croq.compile(
        "\n".join(
            f"""__co__ void {name}_{k}({name} [{m}, {k}] x, {name} [{m}, {k // 2}]& v, u8 [{m}, {-(-k // 8)}]& p) {{
              parallel by 1 : block {{
                parallel t by 2 : thread {{
                  a = dma.copy.sp<2:4> x => shared;
                  dma.copy a => v;
                  foreach {{i, j}} in p.span {{ if (i % 2 == t) p.at(i, j) = a.mdata.at(i, j); }}
                }}
              }}
            }}"""
            for name in TYPES
            for m, k in sizes
        ),
        target="cpu",
    )
    for name, dtype in TYPES.items():
        for m, k in sizes:
            x = sparse(m, k, dtype=dtype)
            values, positions = compressed(x)
            got, places = np.zeros_like(values), np.full_like(positions, 255)
            program.functions[f"{name}_{k}"](x, got, places)
            np.testing.assert_array_equal(got, values)
            np.testing.assert_array_equal(places, positions)


def test_compression_of_every_rank_into_every_place() -> None:
    """Host part, `local`, a declared tile with room to spare, rank 3, symbolic extents, a ragged tile."""
    program = croq.compile(
        """__co__ auto host(f32 [A, B, K] x, f32 [A, B, H]& v) {
          f = dma.copy.sp x => v;
          return f.mdata;
        }
        __co__ void ragged(f32 [M, 24] x, f32 [T, 4, 12]& v, u8 [T, 4, 3]& p) {
          parallel b by cdiv(M, 4) : block {
            f = dma.copy.async.sp<2:4> x.subspan(4, 24).at(b, 0).zfill => shared;
            wait f;
            dma.copy f.data.span_as([1, 4, 12]) => v.chunkat(b, _, _);
            dma.copy f.mdata.span_as([1, 4, 3]) => p.chunkat(b, _, _);
          }
        }
        __co__ void roomy(f32 [3, 16] x, f32 [5, 8]& v, u8 [5, 2]& p) {
          parallel by 1 : block {
            shared f32 [5, 8] t {7.0f};
            f = dma.copy.sp<2:4> x.zfill => t;
            dma.copy t => v;
            dma.copy f.mdata => p;
          }
        }""",
        target="cpu",
    )
    for a, b, k in [(1, 1, 8), (2, 3, 40), (5, 1, 16)]:
        x = sparse(a, b, k)
        values, positions = compressed(x)
        got = np.zeros_like(values)
        np.testing.assert_array_equal(program.host(x, got), positions)
        np.testing.assert_array_equal(got, values)
    for m in (1, 4, 7):
        x = sparse(m, 24)
        padded = np.zeros((-(-m // 4) * 4, 24), np.float32)
        padded[:m] = x
        values, positions = compressed(padded.reshape(-1, 4, 24))
        got, places = np.zeros_like(values), np.zeros_like(positions)
        program.ragged(x, got, places)
        np.testing.assert_array_equal(got, values)
        np.testing.assert_array_equal(places, positions)
    x = sparse(3, 16)
    values, positions = compressed(x)
    got, places = np.ones((5, 8), np.float32), np.ones((5, 2), np.uint8)
    program.roomy(x, got, places)
    np.testing.assert_array_equal(got, np.vstack([values, np.zeros((2, 8))]))
    np.testing.assert_array_equal(places[:3], positions)


def test_sparse_products() -> None:
    """Metadata given, from a parameter, and left out; operands loaded and as views; a K loop with swapped buffers."""
    m, n, k = 16, 8, 32
    program = croq.compile(
        """__co__ f32 [16, 8] given(f16 [16, 16] v, u8 [16, 4] p, f16 [8, 32] b) {
          f32 [16, 8] r;
          parallel by 1 : block { parallel by 1 : group {
            c = mma.fill.f32 0.0f;
            a = mma.load v; me = mma.load p; t = mma.load b;
            mma.row.row.sp c, a, t, me;
            mma.store c, r;
          } }
          return r;
        }
        __co__ f32 [16, 8] columns(f16 [16, 16] v, u8 [16, 4] p, f16 [32, 8] b) {
          f32 [16, 8] r;
          parallel by 1 : block {
            t = dma.transp<1, 0> v => shared;
            parallel by 1 : group {
              c = mma.fill.f32 1.0f;
              me = mma.load p;
              mma.col.col.sp c, t, b, me;
              mma.store c, r;
            }
          }
          return r;
        }
        __co__ f32 [16, 8] whole(f16 [16, 32] x, f16 [8, 32] b) {
          f32 [16, 8] r;
          parallel by 1 : block {
            f = dma.copy.sp<2:4> x => shared;
            parallel by 1 : group {
              c = mma.fill.f32 0.0f;
              a = mma.load f;
              mma.row.row.sp c, a, b;
              mma.row.row.sp c, f, b;
              mma.store c, r;
            }
          }
          return r;
        }
        __co__ f32 [M, N] loop(f16 [M, K] x, f16 [N, K] b) {
          f32 [M, N] r;
          parallel {i, j} by [M / 16, N / 8] : block {
            parallel by 1 : group {
              c = mma.fill.f32 0.0f;
              f = dma.copy.async.sp<2:4> x.subspan(16, 32).at(i, 0) => shared;
              g = dma.any;
              with n in K / 32 {
                foreach n(1:) {
                  g = dma.copy.async.sp<2:4> x.subspan(16, 32).at(i, n) => shared;
                  wait f;
                  a = mma.load f.data; me = mma.load f.mdata;
                  mma.row.row.sp c, a, b.subspan(8, 32).at(j, n - 1), me;
                  swap(f, g);
                }
              }
              wait f;
              a = mma.load f.data; me = mma.load f.mdata;
              mma.row.row.sp c, a, b.subspan(8, 32).at(j, K / 32 - 1), me;
              mma.store c, r.subspan(16, 8).at(i, j);
            }
          }
          return r;
        }
        __co__ s32 [16, 8] bytes(s8 [16, 64] x, s8 [8, 64] b) {
          s32 [16, 8] r;
          parallel by 1 : block {
            f = dma.copy.sp x => shared;
            parallel by 1 : group { c = mma.fill 0; me = mma.load f.mdata; mma.row.row.sp c, f, b, me; mma.store c, r; }
          }
          return r;
        }""",
        target="cpu",
    )
    x, b = sparse(m, k, dtype=np.float16), RANDOM.integers(-5, 6, (n, k)).astype(np.float16)
    values, positions = compressed(x)
    expected = x.astype(np.float64) @ b.T.astype(np.float64)
    np.testing.assert_array_equal(program.given(values, positions, b), expected)
    np.testing.assert_array_equal(program.columns(values, positions, np.ascontiguousarray(b.T)), expected + 1)
    np.testing.assert_array_equal(program.whole(x, b), 2 * expected)
    for rows, columns, inner in [(16, 8, 32), (48, 24, 96), (32, 8, 160)]:
        x, b = sparse(rows, inner, dtype=np.float16), RANDOM.integers(-5, 6, (columns, inner)).astype(np.float16)
        np.testing.assert_array_equal(program.loop(x, b), x.astype(np.float64) @ b.T.astype(np.float64))
    x, b = sparse(16, 64, dtype=np.int8), RANDOM.integers(-100, 100, (8, 64)).astype(np.int8)
    np.testing.assert_array_equal(program.bytes(x, b), x.astype(np.int64) @ b.T.astype(np.int64))


def test_dense_groups_are_reported_while_running() -> None:
    program = croq.compile(
        "__co__ f32 [3, 4] f(f32 [3, 8] x) { f32 [3, 4] r; parallel by 1 : block { t = dma.copy.sp<2:4> x => shared; "
        "dma.copy t => r; } return r; }",
        target="cpu",
    )
    x = sparse(3, 8)
    np.testing.assert_array_equal(program.f(x), compressed(x)[0])
    x[2, 4:] = [1, 2, 0, 3]
    with pytest.raises(croq.CheckError, match="`x` is not 2:4-sparse: more than two of four neighbours are not zero"):
        program.f(x)


@pytest.mark.parametrize(
    ("statements", "message"),
    [
        ("t = dma.copy.sp<2:4> g.subspan(8, 6).at(0, 0) => shared;", "groups of four along the last dimension"),
        ("t = dma.transp<1, 0>.sp<2:4> g => shared;", "`dma.transp` does not compress"),
        ("t = dma.copy g => shared; dma.copy t.mdata => shared;", "`t` is no compressed transfer and has no `.mdata`"),
        ("c = mma.fill.f32 0.0f; mma.row.row.sp c, h.subspan(8, 8).at(0, 0), h;", "metadata of .* are not known"),
        ("c = mma.fill.f32 0.0f; me = mma.load h; mma.row.row.sp c, h.subspan(8, 8).at(0, 0), h, me;", "are `u8`"),
        ("c = mma.fill.f32 0.0f; me = mma.load m; mma.row.row.sp c, h.subspan(8, 8).at(0, 0), h, me;", "A needs 2"),
    ],
)
def test_messages(statements: str, message: str) -> None:
    source = f"__co__ void f(f32 [8, 16] g, f16 [8, 16] h, u8 [8, 3] m) {{ parallel p by 2 {{ {statements} }} }}"
    with pytest.raises(croq.CompileError, match=message):
        croq.compile(source, target="cpu")
