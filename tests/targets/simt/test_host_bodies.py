"""Host bodies run in Python: the same results and the same failures as compiled for the CPU."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import croq_magic as croq
from croq_magic.compiler import types
from croq_magic.compiler.targets.simt import elements
from croq_magic.compiler.targets.simt.host import HostProgram

RANDOM = np.random.default_rng(5)
SOURCE = """
__co__ f32 [n] mixed(f32 [n] x, int k, f32 s) {
  f32 [n] y;
  mutable int a = 5;
  mutable f16 h = __to<f16>(0.1);
  foreach i in n {
    a = a * 1103515245 + 12345;
    h = h * __to<f16>(1.3) + __to<f16>(0.01);
    y.at(i) = x.at(i) * s + a % 17 + h;
    if (i % 3 == k) { y.at(i) += 2; }
  }
  return y;
}
__co__ int total(s32 [n] v) {
  mutable int t = 0;
  foreach i in n { t += v.at(i) / 3 - (v.at(i) >> 1) + (v.at(i) ^ 12); }
  return t;
}
__co__ s32 [m, n] turned(s32 [n, m] v) { s32 [m, n] y; dma.transp<1, 0> v => y; return y; }
__co__ auto padded(s32 [n] v) { s32 [n + 3] y; dma.pad<{1}, {2}, {0}, 9> v => y; return y; }
__co__ void bump(s32 [n]& v, int d) { foreach i in n { v.at(i) += v.at(i) / d; } }
__co__ int pick(s32 [n] v, s32 [n] at, int k) { return v.at(at.at(k)); }
__co__ int first(s32 [n] v, int k) { assert(v.at(0) > k, "first is too small"); return 3; }
"""


class Nothing:
    """A device that no kernel runs on."""

    unified = True

    def synchronize(self) -> None: ...


@pytest.fixture(scope="module")
def program() -> croq.Program:
    return croq.compile(SOURCE, target="cpu")


def hosted(program: croq.Program, name: str, *args: Any) -> Any:
    function = program.functions[name]
    bound = function.binder.bind(function.binder.arrange(args, {}))
    unit = croq.compile(SOURCE + f"// {name}", target="cpu").unit  # with its IR, whatever the cache has
    compiled = getattr(unit, "full", unit).functions[name]
    lowered = compiled._lower(compiled._specialised(bound.plan.dims))
    host = HostProgram(lowered, (), source=unit.full.regions.source if hasattr(unit, "full") else unit.regions.source)
    result = bound.plan.new_result()
    if result is not None and host.fills_result:
        result.fill(7)
    restored = HostProgram.restore(host.record, host.source)
    value = restored.run(Nothing(), bound.values, bound.plan.dims, result)
    bound.write_back()
    return value if result is None else result


@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("mixed", (RANDOM.normal(size=13).astype(np.float32), 1, 2.5)),
        ("total", (np.arange(-20, 17, dtype=np.int32) * 99991,)),
        ("turned", (np.arange(21, dtype=np.int32).reshape(3, 7),)),
        ("padded", (np.arange(5, dtype=np.int32),)),
    ],
)
def test_results(program: croq.Program, name: str, args: tuple[Any, ...]) -> None:
    np.testing.assert_array_equal(hosted(program, name, *args), program.functions[name](*args))


def test_parameters_are_written(program: croq.Program) -> None:
    ours, theirs = (np.arange(-9, 10, dtype=np.int32)[::2] for _ in range(2))
    hosted(program, "bump", ours, 2)
    program.bump(theirs, 2)
    np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("bump", (np.arange(4, dtype=np.int32), 0)),
        ("pick", (np.arange(3, dtype=np.int32), np.array([0, 3, 1], np.int32), 1)),
        ("first", (np.arange(3, dtype=np.int32), 5)),
    ],
)
def test_failures(program: croq.Program, name: str, args: tuple[Any, ...]) -> None:
    texts = []
    for run in (lambda: hosted(program, name, *args), lambda: program.functions[name](*args)):
        with pytest.raises(croq.CheckError) as caught:
            run()
        texts.append(str(caught.value).partition("\n    may be")[0].split("\n")[:2])
    assert texts[0] == texts[1]


@pytest.mark.parametrize("dtype", [d for d in types.ALL if d.is_float and d.bits <= 8 and d.numpy], ids=str)
def test_small_floats(dtype: types.DType) -> None:
    """Decoded as ml_dtypes does, rounded as it does up to the largest number, and saturated beyond."""
    kind = np.dtype(getattr(ml_dtypes, dtype.numpy))
    codes = np.arange(1 << dtype.bits, dtype=np.uint8).view(kind)
    values = codes.astype(np.float64)
    get, put = elements.access(codes.copy(), dtype)
    np.testing.assert_array_equal([get(i) for i in range(len(codes))], values)
    rounded = elements.rounding(dtype)
    for value in RANDOM.normal(size=500) * 10.0 ** RANDOM.integers(-4, 3, 500):
        wanted = float(np.float64(value).astype(kind))
        if abs(value) <= dtype.largest and wanted == wanted:
            assert rounded(float(value)) == wanted
    put(1, get(2))
    assert get(1) == get(2)
    if dtype.name == "f8_e4m3":
        assert rounded(1e9) == 448.0 and rounded(-np.inf) == -448.0


@pytest.mark.parametrize("operator", ["+", "-", "*", "^", "%"])
@pytest.mark.parametrize("name", ["s32", "f32", "u16"])
def test_long_expressions(operator: str, name: str) -> None:
    if name == "f32" and operator in "^%":
        return
    text = f"__co__ {name} f({name} a, {name} b) {{ return {f' {operator} '.join(['a', 'b'] * 250)}; }}"
    results = [croq.compile(text, target=target).functions["f"](3, 1) for target in ("cpu", "opencl")]
    assert results[0] == results[1]


def test_long_conditions_are_evaluated_at_every_turn() -> None:
    condition = " * ".join(["(k + 1)"] * 90)
    value = " ^ ".join(["v.at(k)", "a"] * 101)
    text = f"""
    __co__ s32 f(s32 a, s32 [8] v) {{
      mutable s32 k = 0;
      while ({condition} < 50 && k < 4) {{ k = k + 1; }}
      return k + ({value});
    }}"""
    v = np.arange(8, dtype=np.int32)
    k = next(k for k in range(5) if k == 4 or ((k + 1) ** 90 + 2**31) % 2**32 - 2**31 >= 50)
    assert croq.compile(text, target="opencl").functions["f"](3, v) == k + (v[k] ^ 3)
