"""Programs on a real GPU, against NumPy. `CROQ_GPU_CHECK=emulate` puts the emulator in its place."""

from __future__ import annotations

import copy
import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from programs.conformance import PROGRAMS, Conformance
from programs.generated import make

import croq_magic as croq
from croq_magic.compiler.targets import base

pytestmark = pytest.mark.gpu
EMULATED = os.environ.get("CROQ_GPU_CHECK") == "emulate"
SCALE = "__co__ void scale(f32 [N] &v, float k) { parallel p by N { v.at(p) = v.at(p) * k; } }"
# With the emulator a choice of them is enough: its own tests run them all.
CHOSEN = [p for p in PROGRAMS if not EMULATED or p.name[:3] in ("C02", "C06", "C14", "C28", "C38", "C44", "C45", "C57")]


@pytest.fixture(scope="module")
def cupy() -> Iterator[Any]:
    if EMULATED:
        from targets.cuda import fake_cupy

        with fake_cupy.installed(checked=False) as module:
            yield module
        return
    problem = base.why_not_gpu()
    if problem is not None:
        pytest.skip(problem.text)
    import cupy as module

    yield module


def random(*shape: int) -> np.ndarray:
    return np.random.default_rng(5).standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("where", ["numpy", "cupy"])
@pytest.mark.parametrize("entry", CHOSEN, ids=lambda entry: entry.name)
def test_conformance(cupy: Any, entry: Conformance, where: str) -> None:
    case = entry.case()
    try:
        function = croq.compile(entry.source(), target="cuda").functions[entry.function]
    except croq.CompileError as error:
        capability = int(cupy.cuda.Device().compute_capability)
        if capability != 90 and error.diagnostics[0].code.startswith("MMA"):
            pytest.skip(f"sm_{capability} has no such tensor cores")
        raise
    inputs = {}
    for name, value in case.inputs.items():
        on_device = where == "cupy" and isinstance(value, np.ndarray)
        try:
            inputs[name] = cupy.asarray(value) if on_device else copy.deepcopy(value)
        except (TypeError, ValueError):
            pytest.skip(f"CuPy has no arrays of {value.dtype}")
    try:
        result = function(*inputs.values())
    except croq.TargetError as error:
        if "has no arrays of" in str(error):
            pytest.skip(str(error))
        raise
    result = inputs[case.written] if case.written else result
    case.check(result.get() if isinstance(result, cupy.ndarray) else result)


@pytest.mark.parametrize("seed", range(4 if EMULATED else 40))
def test_generated_programs(cupy: Any, seed: int) -> None:
    program = make(seed)
    function = croq.compile(program.source("f"), target="cuda").f
    found = function(*(cupy.asarray(each) for each in program.inputs)).get()
    np.testing.assert_array_equal(found, program.expected)


def test_streams_and_views(cupy: Any) -> None:
    scale = croq.compile(SCALE, target="cuda").scale
    whole = random(99, 64)
    device = cupy.asarray(whole)
    cupy.cuda.get_current_stream().synchronize()  # the other stream does not wait for this one
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        for row in range(99):
            scale(device[row], 2.0)
        scale(device[3, ::2], 2.0)
        scale(device[5, 1:], 2.0)
    stream.synchronize()  # nor does this one wait for the other
    expected = 2 * whole
    expected[3, ::2] *= 2
    expected[5, 1:] *= 2
    np.testing.assert_array_equal(device.get(), expected)


def test_large_arrays_of_the_host(cupy: Any) -> None:
    scale = croq.compile(SCALE, target="cuda").scale
    v = random((11 << 20 if not EMULATED else 3 << 20) // 4 + 3)
    expected = v * np.float32(3)
    for _ in range(2):
        scale(v, 3.0)
        np.testing.assert_array_equal(v, expected)
        expected = expected * np.float32(3)


def test_dlpack_and_the_interface(cupy: Any) -> None:
    scale = croq.compile(SCALE, target="cuda").scale
    torch = sys.modules.get("torch") or pytest.importorskip("torch") if not EMULATED else pytest.skip("needs torch")
    if not torch.cuda.is_available():
        pytest.skip("torch sees no GPU")
    for dtype in (torch.float32,):
        tensor = torch.ones(77, dtype=dtype, device="cuda")
        scale(tensor, 5.0)
        assert float(tensor.sum()) == 385


def test_prints_of_kernels(cupy: Any, capsys: pytest.CaptureFixture[str]) -> None:
    text = """
__device__ void show(int v) { printf("value %d\\n", v); }
__co__ void f(s32 [3] v) { parallel p by 3 { call show(v.at(p)); } }"""
    croq.compile(text, target="cuda").f(np.array([4, 5, 6], np.int32))
    out = capsys.readouterr().out
    assert sorted(out.split()) == sorted("value 4 value 5 value 6".split())


def test_checks(cupy: Any) -> None:
    f = croq.compile('__co__ void f(s32 [N] v) { parallel p by N { assert(v.at(p) < 7, "too large"); } }', "cuda").f
    f(cupy.asarray(np.arange(7, dtype=np.int32)))
    with pytest.raises(croq.CheckError, match="too large"):
        f(cupy.asarray(np.arange(8, dtype=np.int32)))


@pytest.mark.skipif(EMULATED, reason="the emulator's own form of this is in test_failures.py")
def test_a_stray_access_breaks_its_own_process(cupy: Any) -> None:
    text = """
import cupy, numpy as np, croq_magic as croq
f = croq.compile("__co__ void stray(s32 [N] &v, s32 [N] w) { parallel p by N { v.at(w.at(p)) = 1; } }", "cuda").stray
v = cupy.zeros(64, np.int32)
f(v, cupy.full(64, 1 << 30, np.int32))
for _ in range(2):
    try:
        f(np.zeros(64, np.int32), np.zeros(64, np.int32))
    except croq.TargetError as error:
        print(error)
"""
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=60)
    lines = done.stdout.splitlines()
    assert len(lines) == 2 and lines[0] == lines[1], done.stderr
    assert "`stray" in lines[0] and "restart the notebook's kernel" in lines[0]
