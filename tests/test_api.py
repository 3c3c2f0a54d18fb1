"""The public API from plain Python."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from processes import in_a_fork

import croq_magic as croq
from croq_magic.arguments import numpy_dtype
from croq_magic.compiler.types import BY_NAME

MATMUL = """
__co__ s32 [M, N] matmul(s32 [M, K] lhs, s32 [K, N] rhs) {
  s32 [lhs.span(0), rhs.span(1)] output;
  parallel p by M, q by N {
    foreach k in [K] { output.at(p, q) += lhs.at(p, k) * rhs.at(k, q); }
  }
  return output;
}
"""
IDENTITY = "__co__ void touch(f32 [4]& v) { parallel p by 4 { v.at(p) += 1.0f; } }\n"


def integers(*shape: int) -> np.ndarray:
    return np.random.default_rng(7).integers(-10, 10, shape, dtype=np.int32)


def test_compile_and_call() -> None:
    program = croq.compile(MATMUL + IDENTITY)
    assert list(program.functions) == ["matmul", "touch"]
    assert program.matmul is program.functions["matmul"]
    lhs, rhs = integers(5, 7), integers(7, 3)
    np.testing.assert_array_equal(program.matmul(lhs, rhs), lhs @ rhs)
    np.testing.assert_array_equal(program.matmul(rhs=rhs, lhs=lhs), lhs @ rhs)


def test_awkward_layouts_are_multiplied_right() -> None:
    program = croq.compile(MATMUL)
    lhs, rhs = integers(14, 5).T[:, ::2], integers(7, 3)[::-1]
    np.testing.assert_array_equal(program.matmul(lhs, rhs), lhs @ rhs)


def test_defines() -> None:
    program = croq.compile(IDENTITY.replace("1.0f", "STEP"), defines={"STEP": 3})
    v = np.zeros(4, np.float32)
    program.touch(v)
    np.testing.assert_array_equal(v, [3, 3, 3, 3])


@pytest.mark.cpu_only
def test_text_forms() -> None:
    program = croq.compile(IDENTITY)
    assert "touch" in program.source() and "touch" in program.ir()
    assert repr(program) == "<croq_magic program for cpu: touch>"
    assert program.diagnostics == []
    with pytest.raises(AttributeError, match="the program has no function 'tuch'"):
        program.tuch  # noqa: B018


def test_wrong_programs() -> None:
    wrong = IDENTITY.replace("v.at(p)", "w.at(p)")
    with pytest.raises(croq.CompileError) as caught:
        croq.compile(wrong)
    first = caught.value.diagnostics[0]
    assert first.severity == "error" and first.span.line == 1 and "w" in first.message
    found = croq.check(wrong)
    assert [d.message for d in found if d.severity == "error"] == [first.message]
    assert croq.check(IDENTITY) == []


def test_all_errors_are_croq_errors() -> None:
    for error in (croq.CompileError, croq.BindError, croq.CheckError, croq.TargetError):
        assert issubclass(error, croq.CroqError)
    with pytest.raises(croq.TargetError, match="abacus"):
        croq.compile(IDENTITY, target="abacus")


def test_import_is_light() -> None:
    """Loading the extension into IPython pulls in no numeric library and no part of the compiler."""
    script = """
import sys, IPython.core.interactiveshell
import croq_magic, croq_magic.magic
heavy = ("numpy", "matplotlib", "lark", "islpy", "pcpp", "cupy", "croq_magic.compiler")
print([name for name in heavy if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_public_names() -> None:
    for name in croq.__all__:
        assert getattr(croq, name) is not None
    assert set(croq.__all__) <= set(dir(croq))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        croq.nothing  # noqa: B018


# ------------------------------------------------------------------------------------------------ while it is running

SPIN = """
__co__ void spin(s32 [4]& v, int n) {
  parallel p by 4 {
    foreach i in [n] { foreach j in [1000] { v.at(p) = v.at(p) * 3 + i + j; } }
  }
}
"""


def test_two_threads_at_once() -> None:
    program = croq.compile(MATMUL)
    pairs = [(integers(20 + i, 30), integers(30, 10 + i)) for i in range(8)]
    with ThreadPoolExecutor(2) as pool:
        for _ in range(5):
            results = list(pool.map(lambda pair: program.matmul(*pair), pairs))
            for (lhs, rhs), out in zip(pairs, results, strict=True):
                np.testing.assert_array_equal(out, lhs @ rhs)


def test_a_forked_child() -> None:
    program = croq.compile(MATMUL)
    lhs, rhs = integers(64, 64), integers(64, 64)
    expected = lhs @ rhs
    np.testing.assert_array_equal(program.matmul(lhs, rhs), expected)
    in_a_fork(lambda: np.testing.assert_array_equal(program.matmul(lhs, rhs), expected))
    np.testing.assert_array_equal(program.matmul(lhs, rhs), expected)


def test_a_running_function_is_interrupted_and_says_what_it_wrote() -> None:
    program = croq.compile(SPIN)
    v = np.zeros(4, np.int32)
    program.spin(v, 1)
    timer = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))
    started = time.perf_counter()
    timer.start()
    with pytest.raises(KeyboardInterrupt, match="spin was interrupted\n    `v` may be partly written"):
        program.spin(v, 2_000_000_000)
    assert time.perf_counter() - started < 0.2 + 0.5
    program.spin(v, 1)


def test_an_interrupted_function_leaves_copies_alone() -> None:
    program = croq.compile(SPIN)
    v = np.zeros(8, np.int32)[::2]
    threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt) as caught:
        program.spin(v, 2_000_000_000)
    assert str(caught.value) == "spin was interrupted"
    assert not v.any()


# ------------------------------------------------------------------------------------------------------- checks, calls


def test_a_stray_index_is_an_error_not_a_crash() -> None:
    program = croq.compile("""
__co__ f32 [M] gather(f32 [N] x, s32 [M] index) {
  f32 [M] out;
  parallel p by M { out.at(p) = x.at(index.at(p)); }
  return out;
}
""")
    x = np.arange(5, dtype=np.float32)
    np.testing.assert_array_equal(program.gather(x, np.array([4, 0, 2], np.int32)), [4, 0, 2])
    with pytest.raises(croq.CheckError) as caught:
        program.gather(x, np.array([4, 5, 2], np.int32))
    for part in ("gather", "x", "5", "p = 1"):
        assert part in str(caught.value)


def test_the_short_way_checks_as_the_long_one() -> None:
    """After a first call, arguments that do not fit are still refused and odd layouts still read right."""
    program = croq.compile(MATMUL + SPIN)
    lhs, rhs = integers(4, 6), integers(6, 5)
    for _ in range(3):
        np.testing.assert_array_equal(program.matmul(lhs, rhs), lhs @ rhs)
    with pytest.raises(croq.BindError, match="expected int32"):
        program.matmul(lhs.astype(np.int64), rhs)
    with pytest.raises(croq.BindError, match="dimension K is 6 in `lhs`"):
        program.matmul(lhs, rhs[:5])
    with pytest.raises(croq.BindError, match="is missing"):
        program.matmul(lhs)
    np.testing.assert_array_equal(program.matmul(np.asfortranarray(lhs), rhs), lhs @ rhs)
    v = np.zeros(4, np.int32)
    program.spin(v, 1)
    program.spin(v, 1)
    with pytest.raises(croq.BindError, match="outside the range of s32"):
        program.spin(v, 1 << 40)
    v.flags.writeable = False
    with pytest.raises(croq.BindError, match="read-only"):
        program.spin(v, 1)


def test_a_remainder_is_warned_about_once_the_extents_are_known() -> None:
    program = croq.compile("""
__co__ void scale(f32 [M]& x) {
  parallel p by 4 : block {
    t = dma.copy x.chunkat(p) => shared;
    parallel q by [M / 4] : thread { t.data.at(q) = t.data.at(q) * 2.0f; }
    dma.copy t => x.chunkat(p);
  }
}
""")
    x = np.ones(12, np.float32)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        program.scale(x)
    np.testing.assert_array_equal(x, np.full(12, 2))
    x = np.ones(10, np.float32)
    with pytest.warns(UserWarning, match=r"cell:4:.*M is not a multiple of 4") as caught:
        program.scale(x)
    assert caught[0].filename == __file__
    np.testing.assert_array_equal(x, [2] * 8 + [1] * 2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        program.scale(x)
    with pytest.raises(croq.CheckError, match=r"cell:4:.*scale: .*M = 3"):
        program.scale(np.ones(3, np.float32))


def test_results_are_new_arrays() -> None:
    program = croq.compile(MATMUL)
    lhs, rhs = integers(4, 6), integers(6, 5)
    first, second = program.matmul(lhs, rhs), program.matmul(lhs, rhs)
    assert not np.shares_memory(first, second)
    first[...] = 0
    np.testing.assert_array_equal(second, lhs @ rhs)


def test_scalar_results() -> None:
    program = croq.compile("__co__ int twice(int n) { return n * 2; }")
    assert program.twice(21) == 42
    assert program.twice(np.int64(-4)) == -8


def test_launches() -> None:
    program = croq.compile("""
__co__ void f(f32 [M, 64]& x) {
  parallel {a, b} by [M / 16, 4] : block {
    shared f32 [16, 16] t;
    parallel {c, d} by [16, 16] : thread { t.at(c, d) = 1.0f; x.at(a#c, b#d) += t.at(c, d); }
  }
}
""")
    (launch,) = program.f.launches(np.zeros((48, 64), np.float32))
    assert (launch.grid, launch.block, launch.shared_bytes) == ((3, 4, 1), (16, 16, 1), 1024)
    assert [(level, extents) for level, _, extents in launch.levels] == [("block", (3, 4)), ("thread", (16, 16))]
    assert (launch.blocks, launch.threads) == (12, 256)


@pytest.mark.parametrize("name", ["s8", "u8", "s16", "u16", "s32", "u32", "s64", "u64", "f16", "bf16", "f32", "f64"])
def test_every_element_type_goes_in_and_out(name: str) -> None:
    program = croq.compile(f"""
__co__ {name} [M] scale({name} [M] x, {name} factor) {{
  {name} [M] out;
  parallel p by M {{ out.at(p) = x.at(p) * factor; }}
  return out;
}}
__co__ {name} pick({name} value) {{ return value; }}
""")
    dtype = numpy_dtype(BY_NAME[name])
    x = np.arange(40).astype(dtype)
    out = program.scale(x, 3)
    assert out.dtype == dtype
    np.testing.assert_array_equal(out, x * dtype.type(3))
    picked = program.pick(dtype.type(5))
    assert picked == dtype.type(5) and np.asarray(picked).dtype == dtype


def test_a_returned_parameter_is_a_copy() -> None:
    program = croq.compile("__co__ s32 [3] same(s32 [3] x) { return x; }")
    x = np.array([1, 2, 3], np.int32)
    for _ in range(3):
        out = program.same(x)
        np.testing.assert_array_equal(out, x)
        assert not np.shares_memory(out, x)


def test_one_array_for_two_parameters() -> None:
    program = croq.compile("""
__co__ void shift(s32 [M] a, s32 [M]& v) {
  parallel p by 1 { foreach i in [M] { if (i > 0) { v.at(i) = a.at(i - 1) + 1; } } }
}
""")
    for _ in range(3):
        v = np.zeros(5, np.int32)
        program.shift(v, v)  # `a` keeps the values from before the call
        np.testing.assert_array_equal(v, [0, 1, 1, 1, 1])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("__co__ s32 [1000000, 1000000] f() { s32 [1000000, 1000000] r; return r; }", "f: its result needs 3.638 TiB"),
        (
            "__co__ auto f() { s32 [1000000, 1000000] t; t.at(3, 4) = 1; return t.at(3, 4); }",
            "f: not enough memory for its buffers",
        ),
    ],
)
def test_arrays_larger_than_memory(text: str, message: str) -> None:
    with pytest.raises(croq.TargetError, match=message):
        croq.compile(text, target="cpu").f()


def test_kernels_that_write_arrays_larger_than_memory() -> None:
    text = "__co__ void f() { s32 [1000000, 1000000] t; parallel p by 4 : block t.at(p, 4) = 5; }"
    with pytest.raises(croq.TargetError, match="f: not enough memory for its buffers"):
        croq.compile(text, target="cpu").f()


def test_sizes_that_wrap_round() -> None:
    program = croq.compile(
        "__co__ int f(s8 [M] x) { s8 [M * 1073741824, M * 1073741824] t; t.at(1, 2) = 1; return t.at(1, 2); }"
        "__co__ auto g(s8 [M] x) { s8 [M * 1073741824, M * 1073741824] t; return t; }",
        target="cpu",
    )
    x = np.zeros(16, np.int8)  # 2**68 bytes
    with pytest.raises(croq.TargetError, match="f: not enough memory"):
        program.f(x)
    with pytest.raises(croq.TargetError, match="g: its result needs 256 EiB"):
        program.g(x)


def test_more_parameters_than_most_functions_have() -> None:
    names = [f"a{i}" for i in range(100)]
    text = f"__co__ s32 f({', '.join(f's32 {name}' for name in names)}) {{ return {' - '.join(names)}; }}"
    assert croq.compile(text, target="cpu").f(*range(100)) == -sum(range(1, 100))


def test_an_interrupt_while_a_function_prints(monkeypatch: pytest.MonkeyPatch) -> None:
    class Stop(Exception):
        pass

    class Screen:
        def write(self, text: str) -> None:
            raise Stop

    text = '__co__ void f(int n) { foreach i in n println("line ", i); }'
    function = croq.compile(text, target="cpu").f
    with monkeypatch.context() as context, pytest.raises(Stop):
        context.setattr("sys.stdout", Screen())
        function(3)
    assert function(1) is None
