"""Fragments on devices without tensor cores: where they live, how threads reduce them, and what comes out."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from targets.cuda_text import kernel

import croq_magic as croq

RANDOM = np.random.default_rng(11)


def run(source: str, *inputs: Any) -> Any:
    return croq.compile(source, target="emulate").f(*inputs)


def numbers(*shape: int) -> np.ndarray:
    """Floats of whole numbers: sums in any order are exact."""
    return RANDOM.integers(-50, 50, shape).astype(np.float32)


def reduction(kind: str, m: int, n: int, axis: int, unit: str) -> str:
    rest, index = (m, "i") if axis == 1 else (n, "j")
    return f"""__co__ f32 [{m}, {n}] f(f32 [{m}, {n}] x, f32 [{rest}]& out) {{
      f32 [{m}, {n}] r;
      parallel b by 1 : block, {unit} {{
        frag f32 [{m}, {n}] s;
        frag f32 [{rest}] v;
        apply {{i, j}} in s.span s.at(i, j) = x.at(i, j);
        reduce_{kind}(v, s, {axis});
        apply {{i, j}} in s.span r.at(i, j) = s.at(i, j) - v.at({index});
        apply {{k}} in v.span out.at(k) = v.at(k);
      }}
      return r;
    }}"""


# Units of whole warps, of less than one, and of neither; rows of several warps; sizes that fit nothing.
UNITS = {
    "group": "w by 1 : group",
    "warpgroup": "w by 1 : group-4",
    "128": "t by 128 : thread",
    "96": "t by 96 : thread",
    "48": "t by 48 : thread",
    "16": "t by 16 : thread",
    "7": "t by 7 : thread",
    "1": "t by 1 : thread",
    "32 by 4": "{t, u} by [32, 4] : thread",
}
SIZES = [(16, 32), (1, 300), (2, 128), (3, 5), (13, 7), (37, 64), (64, 1), (5, 33)]


@pytest.mark.parametrize("unit", UNITS)
def test_reductions_of_rows_and_columns(unit: str) -> None:
    chosen = SIZES if unit in ("128", "group") else SIZES[1::3]
    for number, (m, n) in enumerate(chosen):
        for axis in (0, 1) if len(chosen) < len(SIZES) else (number // 2 % 2,):
            kind = ("sum", "max")[(number + axis) % 2]
            x = numbers(m, n)
            out = np.zeros(m if axis == 1 else n, np.float32)
            got = run(reduction(kind, m, n, axis, UNITS[unit]), x, out)
            expected = getattr(x, kind)(axis=axis)
            np.testing.assert_array_equal(out, expected, err_msg=f"{unit} {m} {n} {axis}")
            np.testing.assert_array_equal(got, x - np.expand_dims(expected, axis))


@pytest.mark.parametrize("name", ["s32", "u8", "s8", "f16", "f64", "s64"])
def test_reductions_of_all_element_types(name: str) -> None:
    dtype = np.dtype({"s": "int", "u": "uint", "f": "float"}[name[0]] + name[1:])
    x = RANDOM.integers(0 if name == "u8" else -9, 9, (12, 20)).astype(dtype)
    source = f"""__co__ void f({name} [12, 20] x, {name} [12]& top, {name} [20]& sums) {{
      parallel b by 1 : block, w by 1 : group {{
        frag {name} [12, 20] s;
        frag {name} [12] m;
        frag {name} [20] v;
        apply {{i, j}} in s.span s.at(i, j) = x.at(i, j);
        reduce_max(m, s, 1);
        reduce_sum(v, s, 0);
        apply {{i}} in m.span top.at(i) = m.at(i);
        apply {{j}} in v.span sums.at(j) = v.at(j);
      }}
    }}"""
    top, sums = np.zeros(12, dtype), np.zeros(20, dtype)
    run(source, x, top, sums)
    np.testing.assert_array_equal(top, x.max(axis=1))
    np.testing.assert_array_equal(sums, x.sum(axis=0, dtype=dtype))


def test_a_maximum_leaves_out_what_is_no_number() -> None:
    x = numbers(6, 5)
    x[1, 3] = np.nan
    x[2] = np.nan
    x[4] = -np.inf
    out = np.zeros(6, np.float32)
    run(reduction("max", 6, 5, 1, "w by 1 : group"), x, out)
    expected = np.fmax.reduce(x, axis=1)
    np.testing.assert_array_equal(out, expected)


def test_units_reduce_their_own_tiles() -> None:
    """Two groups of one block, each with rows over the lanes of its warp."""
    x = numbers(2, 9, 40)
    source = """__co__ f32 [2, 9] f(f32 [2, 9, 40] x) {
      f32 [2, 9] r;
      parallel b by 1 : block, w by 2 : group {
        frag f32 [9, 40] s;
        frag f32 [9] m;
        apply {i, j} in s.span s.at(i, j) = x.at(w, i, j);
        reduce_sum(m, s, 1);
        apply {i} in m.span r.at(w, i) = m.at(i);
      }
      return r;
    }"""
    np.testing.assert_array_equal(run(source, x), x.sum(axis=2))


def test_reductions_in_a_loop_use_their_array_again() -> None:
    """A row spans four warps, so that their results pass through shared memory in each iteration."""
    x = numbers(5, 1, 500)
    source = """__co__ f32 [5] f(f32 [5, 1, 500] x) {
      f32 [5] r;
      parallel b by 1 : block, t by 128 : thread {
        foreach n in 5 {
          frag f32 [1, 500] s;
          frag f32 [1] m;
          apply {i, j} in s.span s.at(i, j) = x.at(n, i, j);
          reduce_sum(m, s, 1);
          apply {i, j} in s.span s.at(i, j) = s.at(i, j) - m.at(i);
          reduce_max(m, s, 1);
          apply {i} in m.span r.at(n) = m.at(i);
        }
      }
      return r;
    }"""
    np.testing.assert_array_equal(run(source, x), (x - x.sum(axis=2, keepdims=True)).max(axis=(1, 2)))
    text = kernel(source)
    assert text.count("croq_lanes_") == 2
    # One inside each reduction: that of the other one stands between two uses of an array.
    assert text.count("__syncthreads();") == 2


def test_a_vector_along_rows_and_columns_has_one_holder() -> None:
    x = numbers(8, 8)
    source = """__co__ f32 [8, 8] f(f32 [8, 8] x) {
      f32 [8, 8] r;
      parallel b by 1 : block, w by 1 : group {
        frag f32 [8, 8] s;
        frag f32 [8] m;
        apply {i, j} in s.span s.at(i, j) = x.at(i, j);
        reduce_sum(m, s, 1);
        apply {i, j} in s.span r.at(i, j) = m.at(i) * m.at(j);
      }
      return r;
    }"""
    np.testing.assert_array_equal(run(source, x), np.outer(x.sum(axis=1), x.sum(axis=1)))


def test_a_vector_that_changes_what_it_reads_has_one_holder() -> None:
    """All lanes of a row would read elements while the first of them writes them."""
    x, y = numbers(6, 16), numbers(6)
    source = """__co__ void f(f32 [6, 16] x, f32 [6]& y) {
      parallel b by 1 : block, w by 1 : group {
        frag f32 [6, 16] s;
        frag f32 [6] m;
        apply {i, j} in s.span s.at(i, j) = x.at(i, j);
        reduce_sum(m, s, 1);
        apply {i} in m.span y.at(i) = y.at(i) * 2.0f + m.at(i);
      }
    }"""
    expected = y * 2 + x.sum(axis=1)
    run(source, x, y)
    np.testing.assert_array_equal(y, expected)


def test_what_threads_read_of_others_lies_in_shared_storage() -> None:
    """The operand of a product that was computed in registers; in a loop it is rewritten only when all have read it."""
    a, b = (RANDOM.integers(-4, 5, (n, 16)).astype(np.float16) for n in (16, 16))
    source = """__co__ f32 [16, 8] f(f16 [16, 16] a, f16 [16, 16] b) {
      f32 [16, 8] c;
      parallel by 1 : block, w by 1 : group {
        acc = mma.fill.f32 0.0f;
        foreach k in 3 {
          frag f16 [16, 16] p;
          apply {i, j} in p.span p.at(i, j) = a.at(i, j) * (k + 1);
          mma.row.col acc, p, b.subspan(16, 8).at(0, 1);
        }
        mma.store acc, c;
      }
      return c;
    }"""
    np.testing.assert_array_equal(run(source, a, b), 6 * (a.astype(np.float32) @ b[:, 8:].astype(np.float32)))
    assert kernel(source).count("__syncwarp();") == 2


ROWS = reduction("max", 16, 32, 1, "t by 128 : thread")


def test_rows_of_a_warp_need_no_memory() -> None:
    text = kernel(ROWS)
    assert "__shared__" not in text
    assert "__sync" not in text
    assert "f32 s[4];" in text
    assert "croq_lanes_max<32>(s[turn" in text


def test_rows_of_one_thread_are_plain_loops() -> None:
    text = kernel(reduction("sum", 4, 10, 1, "t by 7 : thread"))
    assert "croq_lanes" not in text
    assert "__shared__" not in text


def test_columns_of_a_warp_are_summed_by_lanes_a_row_apart() -> None:
    text = kernel(reduction("sum", 32, 8, 0, "w by 1 : group"))
    assert "croq_lanes_sum<32, 8>" in text
    assert "__shared__" not in text


LOADED = """__co__ f32 [16, 8] f(f16 [16, 16] a, f16 [8, 16] b) {{
  f32 [16, 8] c;
  parallel by 1 : block {{
    sa = dma.copy a => shared;
    sb = dma.copy b => shared;
    parallel w by 1 : group {{
      acc = mma.fill.f32 0.0f;
      fa = mma.load sa;
      fb = mma.load sb;
      {between}
      mma.row.row acc, fa, fb;
      mma.store acc, c;
    }}
  }}
  return c;
}}"""


def test_operands_are_read_where_they_lie() -> None:
    text = kernel(LOADED.format(between=""))
    assert not re.search(r"\bf[ab]\b", text)
    assert "__syncwarp" not in text


@pytest.mark.parametrize("between", ["sa.data.at(3, 5) = 7.0f;", "sync.shared;"])
def test_operands_that_may_change_are_copied(between: str) -> None:
    """The fragment keeps what was loaded, whatever becomes of the tile."""
    a, b = (RANDOM.integers(-4, 5, (n, 16)).astype(np.float16) for n in (16, 8))
    source = LOADED.format(between=between)
    assert "f16 fa[256]" in kernel(source)
    np.testing.assert_array_equal(run(source, a, b), a.astype(np.float32) @ b.astype(np.float32).T)


def accumulation(m: int, n: int, axis: int, unit: str, name: str = "f32") -> str:
    rest, index = (m, "i") if axis == 1 else (n, "j")
    return f"""__co__ {name} [{rest}] f({name} [{m}, {n}] x) {{
      {name} [{rest}] r;
      parallel b by 1 : block, {unit} {{
        frag {name} [{m}, {n}] s;
        frag {name} [{n}] w;
        frag {name} [{rest}] v {{2}};
        apply {{i, j}} in s.span s.at(i, j) = x.at(i, j);
        apply {{k}} in w.span w.at(k) = k % 3;
        foreach k in 3 {{ apply {{i, j}} in s.span v.at({index}) += s.at(i, j) * x.at(i, j) * (k + w.at(j)); }}
        all_reduce_sum(v);
        apply {{k}} in v.span r.at(k) = v.at(k);
      }}
      return r;
    }}"""


@pytest.mark.parametrize(
    ("m", "n", "unit"),
    [
        (16, 32, "128"),
        (13, 7, "group"),
        (3, 5, "16"),
        (1, 300, "128"),
        (37, 64, "48"),
        (9, 3, "7"),
        (11, 20, "warpgroup"),
    ],
)
def test_sums_of_an_apply(m: int, n: int, unit: str) -> None:
    x = RANDOM.integers(-4, 4, (m, n)).astype(np.float32)
    weights = x * x * (3 + 3 * (np.arange(n) % 3))
    for axis in (0, 1):
        got = run(accumulation(m, n, axis, UNITS[unit]), x)
        np.testing.assert_array_equal(got, 2 + weights.sum(axis=axis))


def test_sums_of_an_apply_are_those_of_lanes() -> None:
    text = kernel(accumulation(16, 32, 1, UNITS["128"]))
    assert "croq_lanes_sum<32>" in text
    assert "__s" not in text  # no shared memory, no barrier
    text = kernel(accumulation(16, 32, 0, UNITS["128"]))
    assert text.count("__syncthreads();") == 2  # in the loop the array of the warps' sums is used again


def test_a_vector_that_an_apply_reads_and_adds_to_has_one_holder() -> None:
    """Each element changes what the next one adds."""
    x = RANDOM.integers(-2, 3, (5, 6)).astype(np.int32)
    source = """__co__ s32 [5] f(s32 [5, 6] x) {
      s32 [5] r;
      parallel b by 1 : block, w by 1 : group {
        frag s32 [5, 6] s;
        frag s32 [5] v {1};
        apply {i, j} in s.span s.at(i, j) = x.at(i, j);
        apply {i, j} in s.span v.at(i) += s.at(i, j) * v.at(i);
        apply {k} in v.span r.at(k) = v.at(k);
      }
      return r;
    }"""
    np.testing.assert_array_equal(run(source, x), np.prod(1 + x, axis=1))
    assert "croq_lanes" not in kernel(source)
