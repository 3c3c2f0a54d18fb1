"""Programs whose constructs SIMT targets treat in their own way, in the emulator and on OpenCL devices, against NumPy.

`pytest --programs-on emulate tests/test_programs.py` and the like take all others there.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from programs.generated import make
from targets.opencl.opencl_devices import COUNT

import croq_magic as croq

TARGETS = ["emulate", pytest.param("opencl", marks=pytest.mark.skipif(not COUNT, reason="no OpenCL device"))]
each_target = pytest.mark.parametrize("target", TARGETS)
RANDOM = np.random.default_rng(31)


def integers(*shape: int) -> np.ndarray:
    return RANDOM.integers(-50, 50, shape).astype(np.int32)


def run(target: str, text: str, *inputs: Any) -> Any:
    arch = "sm_90a" if target == "emulate" else None
    return croq.compile(text, target, arch, checks="all").f(*inputs)


@each_target
def test_random_programs(target: str) -> None:
    programs = [make(seed) for seed in range(8)]
    unit = croq.compile("\n".join(p.source(f"f{i}") for i, p in enumerate(programs)), target=target)
    for i, program in enumerate(programs):
        np.testing.assert_array_equal(unit.functions[f"f{i}"](*program.inputs), program.expected, program.source("f"))


@each_target
def test_many_short_instances(target: str) -> None:
    """More than a thread can do for itself: several instances a thread, with a rest."""
    x, y = integers(521, 523), integers(521, 523)
    text = """__co__ s32 [521, 523] f(s32 [521, 523] x, s32 [521, 523] y) {
      s32 [521, 523] r;
      parallel {i, j} by [521, 523] r.at(i, j) = x.at(i, j) * 3 - y.at(i, j);
      return r;
    }"""
    np.testing.assert_array_equal(run(target, text, x, y), x * 3 - y)


@each_target
def test_threads_that_end_before_barriers(target: str) -> None:
    x = integers(5, 8)
    text = """__co__ s32 [5, 8] f(s32 [5, 8] x) {
      s32 [5, 8] r;
      parallel b by 5 : block, t by 8 : thread {
        shared s32 [8] s;
        s.at(t) = x.at(b, t);
        if (t > b + 2) yield;
        v = x.at(b, t);
        sync.shared;
        foreach k in 3 { if (k == t) yield; r.at(b, t) += s.at(7 - t) + v; }
        foreach k in 3 { if (k + 4 == t) yield; sync.shared; r.at(b, t) += k; }
        r.at(b, t) *= 2;
      }
      return r;
    }"""
    expected = np.zeros_like(x)
    for b in range(5):
        for t in range(min(8, b + 3)):
            expected[b, t] = min(t, 3) * (x[b, 7 - t] + x[b, t])
            if t >= 3:
                expected[b, t] += sum(range(min(t - 4, 3))) if t >= 4 else 3
                expected[b, t] *= 1 if 4 <= t <= 6 else 2
    np.testing.assert_array_equal(run(target, text, x), expected)


@each_target
def test_stores_at_the_edges_of_a_tensor(target: str) -> None:
    """`tma.copy` into a tile that reaches over the end stores what lies inside."""
    x = integers(7, 13)
    text = """__co__ void f(s32 [7, 13] x, s32 [7, 13]& r) {
      parallel {i, j} by [2, 2] : block {
        t = tma.copy x.subspan(4, 8).at(i, j).zfill => shared;
        tma.copy t => r.subspan(4, 8).at(i, j);
      }
    }"""
    r = np.zeros_like(x)
    run(target, text, x, r)
    np.testing.assert_array_equal(r, x)


@each_target
@pytest.mark.parametrize("divisor", ["b", "n"])
def test_a_zero_divisor_of_a_whole_span(target: str, divisor: str) -> None:
    text = f"__co__ void f(s32 [M, N]& a, s32 [N] b, int n) {{ parallel p by 1 : block {{ a /= {divisor}; }} }}"
    a, b = integers(3, 5), np.array([3, -7, 1, 2, 13], np.int32)
    quotient = a.copy()
    run(target, text, quotient, b, 3)
    np.testing.assert_array_equal(quotient, np.trunc(a / (b if divisor == "b" else 3)).astype(np.int32))
    b[2] = 0
    with pytest.raises(croq.CheckError, match="division by zero"):
        run(target, text, a, b, 0)


@each_target
def test_compressed_tiles(target: str) -> None:
    """Kept values and their positions, by a crew of threads, with a group left over and one that is not sparse."""
    x = np.zeros((6, 12), np.float32)
    kept = {0: (0, 1), 1: (1, 3), 2: (2, 3), 3: (0, 3), 4: (0, 2), 5: (1, 2)}
    values = np.zeros((6, 6), np.float32)
    positions = np.zeros((6, 2), np.uint8)
    for row in range(6):
        for group in range(3):
            places = kept[(row + group) % 6]
            for n, place in enumerate(places):
                values[row, 2 * group + n] = x[row, 4 * group + place] = 1 + row * 6 + 2 * group + n
            positions[row, group // 2] |= (places[0] | places[1] << 2) << (4 * (group % 2))
    text = """__co__ void f(f32 [6, 12] x, f32 [6, 6]& v, u8 [6, 2]& p) {
      parallel b by 1 : block {
        a = dma.copy.sp<2:4> x => shared;
        dma.copy a.data => v;
        dma.copy a.mdata => p;
      }
    }"""
    v, p = np.zeros_like(values), np.zeros_like(positions)
    run(target, text, x, v, p)
    np.testing.assert_array_equal(v, values)
    np.testing.assert_array_equal(p, positions)
    x[4, 4:8] = 1
    with pytest.raises(croq.CheckError, match="not 2:4-sparse"):
        run(target, text, x, v, p)


@each_target
def test_results_of_atomics_of_a_block_in_a_loop(target: str) -> None:
    """One thread adds, all get the value of their turn."""
    x = integers(64)
    text = """__co__ s32 [64] f(s32 [64] x) {
      s32 [64] r;
      parallel b by 1 : block {
        shared s32 [2] t {3};
        foreach k in 5 {
          mutable s32 old = __atomic_add(t.at(1), 4);
          parallel p by 64 : thread { r.at(p) += old * x.at(p); }
        }
      }
      return r;
    }"""
    np.testing.assert_array_equal(run(target, text, x), x * sum(range(3, 23, 4)))


REFUSED = {
    "statements above blocks": (
        "__co__ void f(s32 [32]& x) {\n parallel c by 2 : cluster {\n  x.at(c + 4) = 1;\n"
        "  parallel b by 16 : block { x.at(c#b) = 1; } } }",
        (3, "statements of a cluster "),
    ),
    "a fragment as an argument": (
        "__device__ void g(float* p) {}\n__co__ void f(f32 [16, 8]& x) { parallel b by 1 : block {\n"
        " frag f32 [16, 8] c {0.0f};\n call g(c);\n mma.store c, x; } }",
        (4, "fragments as arguments are not supported"),
    ),
    "a loop whose threads end": (
        "__co__ void f(s32 [8]& x) { parallel b by 1 : block, t by 8 : thread { mutable s32 n = 3;\n"
        " while (n > 0) { if (t == n)\n yield; sync.shared; n -= 1; } } }",
        (3, "a `yield` that ends some threads of a `while` loop"),
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_a_gpu_cannot_do_is_said_at_its_place(name: str) -> None:
    text, (line, message) = REFUSED[name]
    with pytest.raises(croq.CompileError) as failure:
        croq.compile(text, target="emulate")
    checked = [d for d in croq.check(text, target="cuda") if d.severity == "error"]
    for found in (failure.value.diagnostics, checked):
        assert [(d.code, d.span.line) for d in found] == [("UNS01", line)]
        assert found[0].message.startswith(message)
