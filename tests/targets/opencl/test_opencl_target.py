"""The OpenCL target from a cell to arrays: memory, checks, device text, devices."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from programs.conformance import FOLDER
from targets.opencl.opencl_devices import each_device, features, needs_device

import croq_magic as croq
from croq_magic.compiler.targets import base
from croq_magic.compiler.targets.opencl import foreign, words
from croq_magic.compiler.targets.opencl.dialect import OpenclDialect

RANDOM = np.random.default_rng(3)


def compiled(source: str, arch: str | None = None, **options: Any) -> croq.Program:
    return croq.compile(source, target="opencl", arch=arch, **options)


# ------------------------------------------------------------------------------------------------------ memory, order


@each_device
def test_launches_in_host_loops_see_each_other(arch: str) -> None:
    """Host statements before, between and after launches, on 13 elements."""
    program = compiled(
        """
__co__ auto steps(s32 [n] x, int k) {
  s32 [n] a; s32 [n] b;
  dma.copy x => a;
  foreach s in [k] {
    parallel p by n { b.at(p) = a.at((p + 1) % n) + s; }
    if (s % 2 == 0) { a.at(0) += b.at(0); }
    parallel p by n { a.at(p) = a.at(p) + 2 * b.at(p); }
  }
  return a;
}
""",
        arch,
    )
    x = RANDOM.integers(-99, 99, 13).astype(np.int32)
    a = x.copy()
    for s in range(3):
        b = np.roll(a, -1) + np.int32(s)
        if s % 2 == 0:
            a[0] += b[0]
        a = a + 2 * b
    np.testing.assert_array_equal(program.steps(x, 3), a)


@each_device
def test_awkward_arrays(arch: str) -> None:
    """Strided and read-only inputs, an in-out slice that starts off a word, a size of one."""
    program = compiled(
        "__co__ void f(s16 [m, n] x, s16 [m, n]& y) { parallel {i, j} by y.span y.at(i, j) += x.at(i, j); }", arch
    )
    base_array = RANDOM.integers(-99, 99, (7, 22)).astype(np.int16)
    x = base_array[:, ::2]
    y = RANDOM.integers(-99, 99, 7 * 11 + 1).astype(np.int16)
    view = y[1:].reshape(7, 11)
    expected = view + x
    program.f(x, view)
    np.testing.assert_array_equal(view, expected)
    one = np.full((1, 1), 5, np.int16)
    fixed = np.full((1, 1), 6, np.int16)
    fixed.flags.writeable = False
    program.f(fixed, one)
    assert one[0, 0] == 11


@each_device
def test_async_launches_and_scalar_results(arch: str) -> None:
    program = compiled(
        """
__co__ int total(s32 [n] x) {
  s32 [n] a;
  parallel.async p by n { a.at(p) = x.at(p) * 3; }
  sync.global;
  mutable int t = 0;
  foreach i in [n] { t += a.at(i); }
  return t;
}
""",
        arch,
    )
    x = RANDOM.integers(-999, 999, 41).astype(np.int32)
    result = program.total(x)
    assert isinstance(result, np.int32) and result == 3 * x.sum()


@each_device
@pytest.mark.parametrize("name", ["f16", "bf16", "f8_e4m3", "f8_e5m2", "s4", "u8", "bool", "f64", "s64"])
def test_every_kind_of_element(name: str, arch: str) -> None:
    """x + x of narrow types, rounded or wrapped as on the CPU target."""
    if name == "f64" and not features(arch).double:
        pytest.skip("no f64")
    text = f"__co__ {name} [29] f({name} [29] x) {{ {name} [29] y; parallel p by 29 y.at(p) = "
    body = "!x.at(p);" if name == "bool" else "__to<f32>(x.at(p)) * 1.25f;" if name[0] in "fb" else "x.at(p) + x.at(p);"
    source = text + body + " return y; }"
    kinds = {"f16": np.float16, "bf16": ml_dtypes.bfloat16, "f8_e4m3": ml_dtypes.float8_e4m3fn}
    kinds |= {"f8_e5m2": ml_dtypes.float8_e5m2, "s4": ml_dtypes.int4, "bool": np.bool_}
    kind = np.dtype(kinds.get(name) or {"u8": np.uint8, "f64": np.float64, "s64": np.int64}[name])
    x = (RANDOM.integers(-7, 7, 29) * (1 if name in ("s4", "u8", "s64") else 3.7)).astype(kind)
    got = compiled(source, arch).f(x)
    want = croq.compile(source, target="cpu").f(x)
    np.testing.assert_array_equal(got.view(np.uint8), want.view(np.uint8))


@each_device
def test_shared_storage_sized_at_launch(arch: str) -> None:
    """Dynamic shared memory: reversed rows of a width that is known at the launch, for more than the built variants."""
    program = compiled(
        """
__co__ auto rev(s32 [m, n] x) {
  s32 [m, n] y;
  parallel b by m : block {
    t = dma.copy x.chunkat(b, _) => shared;
    parallel j by 8 : thread {
      foreach k in [cdiv(n, 8)] { q = k * 8 + j; if (q < n) { y.at(b, q) = t.data.at(0, n - 1 - q); } }
    }
  }
  return y;
}
""",
        arch,
    )
    for n in (1, 2, 7, 13, 31, 64, 97, 100, 101, 103):
        x = RANDOM.integers(-99, 99, (3, n)).astype(np.int32)
        np.testing.assert_array_equal(program.rev(x), x[:, ::-1])


# ------------------------------------------------------------------------------------------------------------- checks


CHECKED = """
__co__ s32 [n] pick(s32 [n] x, s32 [n] at) {
  s32 [n] y;
  parallel p by n : block { y.at(p) = x.at(at.at(p)); }
  return y;
}
__co__ void guard(s32 [n]& x, int k) {
  parallel p by n : block { assert(x.at(p) < k, "too large"); x.at(p) = 0; }
}
"""


@each_device
def test_failed_checks_say_what_the_cpu_says(arch: str) -> None:
    x, at = np.arange(7, dtype=np.int32), np.array([0, 1, 2, 3, 9, 5, 6], np.int32)
    texts = []
    for program in (croq.compile(CHECKED, target="cpu"), compiled(CHECKED, arch)):
        with pytest.raises(croq.CheckError) as caught:
            program.pick(x, at)
        texts.append(str(caught.value))
        with pytest.raises(croq.CheckError, match="too large"):
            program.guard(x.copy(), 6)
        np.testing.assert_array_equal(program.pick(x, x[::-1].copy()), x[::-1])  # the next call starts afresh
    assert texts[0] == texts[1] and "p = 4" in texts[0]


@needs_device
def test_a_failing_call_keeps_arrays_where_the_device_has_memory_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """`CROQ_OPENCL_COPY=1` makes a device that shares memory copy; in a process of its own, as features are kept."""
    code = f"""
import numpy as np, croq_magic as croq
program = croq.compile({CHECKED!r}, target="opencl")
x = np.arange(7, dtype=np.int32)
try:
    program.guard(x, 6)
except croq.CheckError as error:
    assert "too large" in str(error)
    assert (x == np.arange(7)).all(), x
    x[6] = 0
    program.guard(x, 6)
    assert not x.any()
    print("good")
"""
    monkeypatch.setenv("CROQ_OPENCL_COPY", "1")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.stdout.strip() == "good", done.stderr


@each_device
def test_too_many_threads_for_the_device(arch: str) -> None:
    limit = features(arch).threads
    source = f"__co__ void f(s32 [n]& x) {{ parallel b by 1 : block, t by {limit * 2} : thread x.at(0) = 1; }}"
    with pytest.raises(croq.TargetError, match=f"{limit * 2} threads.* at most {limit}"):
        compiled(source, arch).f(np.zeros(3, np.int32))


# -------------------------------------------------------------------------------------------------------- device text


@needs_device
def test_a_device_function_called_kernel() -> None:
    source = (FOLDER.parent / "seeds" / "ele_add_separate_source.co").read_text()
    a, b = (RANDOM.integers(-99, 99, (6, 17, 128)).astype(np.int32) for _ in range(2))
    np.testing.assert_array_equal(compiled(source).ele_add(a, b), a + b)


GENERIC = """
__cok__ {
extern "C" void dot(int* a, int* b, choreo::s32* out, int n) {
  *out = 0;
  for (int i = 0; i < n; ++i) *out += a[i] * b[i];
}
extern "C" { int mix(int v) { return v / 2; } }
}
__co__ s32 [m] rows(s32 [m, n] a, s32 [m, n] b) {
  s32 [m] y;
  parallel p by m : block {
    ta = dma.copy a.chunkat(p, _) => shared;
    local s32 [1] out;
    call dot(ta.data, b.chunkat(p, _), out, n);
    y.at(p) = call mix(out.at(0));
  }
  return y;
}
"""


@each_device
def test_pointers_without_an_address_space(arch: str) -> None:
    """Names that OpenCL C reserves, both forms of `extern "C"`; shared, global and local memory for one function."""
    a, b = (RANDOM.integers(-9, 9, (5, 11)).astype(np.int32) for _ in range(2))
    if features(arch).generic:
        total = (a * b).sum(1)
        np.testing.assert_array_equal(compiled(GENERIC, arch).rows(a, b), np.trunc(total / 2).astype(np.int32))
        return
    with pytest.raises(croq.CompileError) as caught:
        compiled(GENERIC, arch).rows(a, b)
    assert "no generic address space" in str(caught.value) and caught.value.diagnostics[0].code == "CXX01"


@needs_device
@pytest.mark.parametrize(
    ("text", "message", "column"),
    [
        ("void f(int& x) { x = 1; }", "a reference is C++", 11),
        ("template <int N> void f(int* x) { x[0] = N; }", "`template` is C++", 1),
        ("void f(int* x) { x[0] = static_cast<int>(1.5f); }", "`static_cast` is C++", 25),
        ("void f(int* x) { x[0] = y; }", "undeclared identifier `y`", 25),
    ],
)
def test_what_is_not_c(text: str, message: str, column: int) -> None:
    source = (
        f"__cok__ {{\n{text}\n}}\n__co__ void g(s32 [4]& x) {{ parallel p by 1 {{ local s32 [1] t; call f(t); }} }}"
    )
    with pytest.raises(croq.CompileError) as caught:
        compiled(source).g(np.zeros(4, np.int32))
    found = caught.value.diagnostics[0]
    assert message in found.message and (found.span.line, found.span.column) == (2, column)


def test_text_keeps_its_columns() -> None:
    text = 'extern "C" {\n  int f(choreo::s32* p) { return p[0]; } // extern "C"\n}\n#include <cmath>\nint g;'
    changed = foreign.as_opencl(text)
    assert [len(line) for line in changed.split("\n")] == [len(line) for line in text.split("\n")]
    assert "s32* p) { return p[0]; }" in changed and "choreo" not in changed and "#" not in changed
    assert words.renames(foreign.plain("void kernel(int a) { } float dot(int a) { return clamp(a); } // half")) == [
        "dot",
        "kernel",
    ]


# ------------------------------------------------------------------------------------------------------------ devices


@needs_device
def test_an_unknown_device_lists_the_known_ones() -> None:
    with pytest.raises(croq.TargetError, match="there is no OpenCL device `nothing`; 0 is "):
        compiled("__co__ void f(s32 [4]& x) { parallel p by 4 x.at(p) = 1; }", "nothing").f(np.zeros(4, np.int32))


def test_without_a_runtime_one_sentence_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OCL_ICD_VENDORS", "/nonexistent")
    code = """
import croq_magic as croq, numpy as np
try:
    croq.compile("__co__ void f(s32 [4]& x) { parallel p by 4 x.at(p) = 1; }", target="opencl")
except croq.TargetError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.stdout.startswith("the target opencl") and done.stdout.count("\n") == 1, done.stdout + done.stderr
    assert "opencl-cpu" in done.stdout or "intel-cmplr-lib-rt" in done.stdout


def test_what_a_device_lacks_is_said() -> None:
    from croq_magic.compiler.targets.emit_cxx import Unsupported
    from croq_magic.compiler.targets.opencl.devices import Features
    from croq_magic.compiler.targets.simt.dialect import Space
    from croq_magic.compiler.types import F64, S64

    weak = Features("Weak", "P", "1", 120, *[False] * 6, 64, (64, 64, 64), 1 << 14, False, False, False)
    dialect = OpenclDialect(weak)
    for act, what in (
        (lambda: dialect.ctype(F64), "cl_khr_fp64"),
        (lambda: dialect.warp_barrier(), "subgroups of 32"),
        (lambda: dialect.atomic("add", S64, Space.GLOBAL, "p", ["1"]), "64 bits"),
    ):
        with pytest.raises(Unsupported, match=f"{what}.*Weak does not have"):
            act()


def test_the_registry_knows_it() -> None:
    assert "opencl" in base.names() and base.choose("opencl").name == "opencl"


@each_device
def test_signed_integers_wrap(arch: str) -> None:
    """What C leaves open when a sum or product overflows is fixed by the language."""
    text = """
__co__ s32 [n] f(s32 [n] x) {
  s32 [n] y;
  parallel p by n { y.at(p) = (x.at(p) + 1 > x.at(p) ? 1 : 0) + 2 * (x.at(p) * 2 / 2) + (-x.at(p) >> 3); }
  return y;
}
"""
    x = np.array([2**31 - 1, -(2**31), 5, 0, 1 << 30, -1], np.int32)
    with np.errstate(over="ignore"):
        twice = x * np.int32(2)
        expected = (x + np.int32(1) > x) + 2 * np.trunc(twice / 2).astype(np.int32) + (-x >> 3)
    np.testing.assert_array_equal(compiled(text, arch).f(x), expected.astype(np.int32))
