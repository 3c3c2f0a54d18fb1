"""Launches through CuPy, with the emulator in the GPU's place: where arrays are, what is copied, what is waited for."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from programs.conformance import PROGRAMS
from targets.cuda import fake_cupy

import croq_magic as croq
from croq_magic.compiler.targets.cuda.direct import direct

ADD = """
__co__ f32 [M, N] add(f32 [M, N] a, f32 [M, N] b) {
  f32 [M, N] r;
  parallel p by M, q by N { r.at(p, q) = a.at(p, q) + b.at(p, q); }
  return r;
}
"""
SCALE = """
__co__ void scale(f32 [N] &v, float k) {
  parallel p by N { v.at(p) = v.at(p) * k; }
}
"""
ASYNC = [  # programs with a host part of their own, shared memory, atomics, cooperation, scalars, roles
    "C01", "C06", "C14", "C28", "C36", "C38", "C39", "C44", "C45", "C51",
]  # fmt: skip


@pytest.fixture
def cupy() -> Iterator[Any]:
    with fake_cupy.installed() as module:
        yield module


def random(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    return np.random.default_rng(3).standard_normal(shape).astype(dtype)


def test_auto_is_the_gpu(cupy: Any) -> None:
    program = croq.compile(ADD)
    assert program.target == "cuda" and program.unit.chosen.arch == "sm_90a"


def test_results_live_where_the_arrays_do(cupy: Any) -> None:
    add = croq.compile(ADD).add
    a, b = random(7, 13), random(7, 13)
    on_host = add(a, b)
    assert type(on_host) is np.ndarray
    np.testing.assert_array_equal(on_host, a + b)
    on_device = add(cupy.asarray(a), cupy.asarray(b))
    assert type(on_device) is cupy.ndarray
    np.testing.assert_array_equal(on_device.get(), a + b)


def test_calls_with_device_arrays_wait_for_nothing(cupy: Any) -> None:
    program = croq.compile(ADD + SCALE)
    a, b = cupy.asarray(random(7, 13)), cupy.asarray(random(7, 13))
    for _ in range(3):  # the first builds, the others go the short way
        total = program.add(a, b)
        program.scale(total.reshape(-1), 2.0)
    assert cupy.cuda.get_current_stream().queue  # nothing has run yet
    assert not {"synchronize", "memcpy", "alloc"} & cupy.state.calls.keys()
    np.testing.assert_array_equal(total.get(), 2 * (a.get() + b.get()))


def test_the_short_way_is_the_kernel_and_nothing_else(cupy: Any) -> None:
    add = croq.compile(ADD).add
    a, b = cupy.asarray(random(3, 5)), cupy.asarray(random(3, 5))
    add(a, b)
    before = dict(cupy.state.calls)
    add(a, b)
    after = cupy.state.calls
    assert {name: after[name] - before.get(name, 0) for name in after} == {
        name: 1 if name in ("empty", "launch") else 0 for name in after
    }


def test_the_current_stream_is_used(cupy: Any) -> None:
    add = croq.compile(ADD).add
    a, b = cupy.asarray(random(3, 5)), cupy.asarray(random(3, 5))
    add(a, b).get()
    with cupy.cuda.Stream() as stream:
        add(a, b)
        assert len(stream.queue) == 1
    assert not cupy.cuda.get_current_stream().queue


def test_written_arrays(cupy: Any) -> None:
    scale = croq.compile(SCALE).scale
    v = random(301)
    on_device, on_host = cupy.asarray(v), v.copy()
    scale(on_device, 3.0)
    scale(on_host, 3.0)
    np.testing.assert_array_equal(on_host, v * np.float32(3))
    np.testing.assert_array_equal(on_device.get(), on_host)


def test_views_that_kernels_cannot_use_are_copied(cupy: Any) -> None:
    program = croq.compile(ADD + SCALE)
    whole = random(9, 26)
    device = cupy.asarray(whole)
    for index in ((slice(1, 8), slice(None, None, 2)), (slice(8, 1, -1), slice(3, 16)), (slice(0, 7), slice(1, 14))):
        np.testing.assert_array_equal(program.add(device[index], device[index]).get(), 2 * whole[index])
    np.testing.assert_array_equal(program.add(device.T, device.T).get(), 2 * whole.T)
    v = cupy.asarray(whole.reshape(-1))
    program.scale(v[1:100], 2.0)  # whole, but no multiple of 16 bytes from the start
    program.scale(v[101::3], 4.0)
    expected = whole.reshape(-1).copy()
    expected[1:100] *= 2
    expected[101::3] *= 4
    np.testing.assert_array_equal(v.get(), expected)


def test_mixed_arrays_follow_the_first_with_a_note(cupy: Any) -> None:
    add = croq.compile(ADD).add
    a, b = random(4, 4), random(4, 4)
    with pytest.warns(croq.errors.ShapeWarning, match="`b` on the device, `a` in NumPy arrays.*follows `a`"):
        assert type(add(a, cupy.asarray(b))) is np.ndarray
    with pytest.warns(croq.errors.ShapeWarning, match="follows `a`"):
        result = add(cupy.asarray(a), b)
    np.testing.assert_array_equal(result.get(), a + b)


class Foreign:
    """An array of another library, as the interfaces show it."""

    def __init__(self, base: Any, read_only: bool = False) -> None:
        self.base = base
        self.dtype, self.shape = base.dtype, base.shape
        self.__cuda_array_interface__ = {**base.__cuda_array_interface__, "data": (base.data.ptr, read_only)}


class Exchanged:
    """An array that knows DLPack alone."""

    def __init__(self, base: Any) -> None:
        self.base, self.dtype, self.shape = base, base.dtype, base.shape

    def __dlpack__(self, **kwargs: Any) -> Any:
        raise AssertionError("CuPy asks for it")

    def __dlpack_device__(self) -> tuple[int, int]:
        return (2, 0)


@pytest.mark.parametrize("kind", [Foreign, Exchanged])
def test_arrays_of_other_libraries_are_used_in_place(cupy: Any, kind: Any) -> None:
    scale = croq.compile(SCALE).scale
    v = random(33)
    device = cupy.asarray(v)
    scale(kind(device), 2.0)
    assert not {"memcpy", "alloc"} & cupy.state.calls.keys()
    np.testing.assert_array_equal(device.get(), 2 * v)


def test_what_cannot_be_bound(cupy: Any) -> None:
    program = croq.compile(ADD + SCALE)
    device = cupy.asarray(random(4, 6))
    with pytest.raises(croq.BindError, match="read-only"):
        program.scale(Foreign(cupy.asarray(random(4)), True), 2.0)
    with pytest.raises(croq.BindError, match=r"dimension N is 6 in `a` \(dim 1\) but 4 in `b`"):
        program.add(device, device[:, :4])
    with pytest.raises(croq.BindError, match=r"has rank 1, expected 2"):
        program.add(device.reshape(-1), device)
    with pytest.raises(croq.BindError, match=r"elements of type float64.*\n.*\n.*\n.*pass a.astype\(np.float32\)"):
        program.add(cupy.asarray(random(4, 6, dtype=np.float64)), device)


PAIR = "__co__ void pair(f32 [N] &v, f32 [N] w) { parallel p by N { v.at(p) = w.at(N - 1 - p); } }"


def test_shared_memory_of_arguments(cupy: Any) -> None:
    pair = croq.compile(PAIR).pair
    v = random(64)
    device = cupy.asarray(v)
    pair(device[16:48], device[20:52])  # an input that overlaps an output is copied first
    expected = v.copy()
    expected[16:48] = v[20:52][::-1]
    np.testing.assert_array_equal(device.get(), expected)
    pair(device[0:32], device[32:64])
    assert cupy.state.calls["assign"] == 1


def test_one_array_for_an_input_and_an_output(cupy: Any) -> None:
    program = croq.compile("__co__ void add(s32 [N] &v, s32 [N] w) { parallel p by N { v.at(p) += w.at(N - 1 - p); } }")
    v = cupy.asarray(np.arange(300, dtype=np.int32))
    for factor in (1, 2, 4):
        program.add(v, v)
        np.testing.assert_array_equal(v.get(), np.full(300, 299) * factor)
    whole = np.arange(12, dtype=np.int32)
    ours = cupy.asarray(whole)
    program.add(ours[1:6], ours[1:6])
    np.testing.assert_array_equal(ours.get(), [0, 6, 6, 6, 6, 6, *range(6, 12)])


def test_large_numpy_arrays_go_through_pinned_memory(cupy: Any) -> None:
    scale = croq.compile(SCALE).scale
    v = random((9 << 20) // 4 + 7)
    expected = v * np.float32(2)
    scale(v, 2.0)
    np.testing.assert_array_equal(v, expected)
    kinds = ["copy" if each == "pinned copy" else "kernel" for each in cupy.state.events]
    assert kinds == ["copy"] * 3 + ["kernel"] + ["copy"] * 3
    small = random(100)
    scale(small, 2.0)
    assert cupy.state.events.count("plain copy") == 2


def test_arrays_decide_the_device() -> None:
    with fake_cupy.installed(fake_cupy.Gpu(90), fake_cupy.Gpu(90)) as cupy:
        add = croq.compile(ADD).add
        a = random(5, 5)
        with cupy.cuda.Device(1):
            there = cupy.asarray(a)
        for _ in range(2):
            result = add(there, there)
            assert result.data.device_id == 1
            with cupy.cuda.Device(1):
                np.testing.assert_array_equal(result.get(), 2 * a)
        with pytest.raises(croq.BindError, match="`a` is on device 1 and `b` on device 0; a function runs on one"):
            add(there, cupy.asarray(a))


def test_a_newer_device_gets_code_of_its_own() -> None:
    with fake_cupy.installed(fake_cupy.Gpu(80), fake_cupy.Gpu(89)) as cupy:
        program = croq.compile(ADD)
        assert program.unit.chosen.arch == "sm_80"
        with cupy.cuda.Device(1):
            a = cupy.asarray(random(3, 3))
            np.testing.assert_array_equal(program.add(a, a).get(), 2 * a.get())
        other = croq.compile(ADD, target="cuda", arch="sm_90a")
        with pytest.raises(croq.TargetError, match=r"compiled for sm_90a, and .* is sm_80; compile it with -a sm_80"):
            other.add(random(3, 3), random(3, 3))


@pytest.mark.parametrize(("capability", "arch"), [(100, "sm_100"), (110, "sm_110"), (121, "sm_121"), (88, "sm_87")])
def test_newer_devices(capability: int, arch: str) -> None:
    with fake_cupy.installed(fake_cupy.Gpu(capability)) as cupy:
        program = croq.compile(ADD)
        assert program.unit.chosen.arch == arch
        a = cupy.asarray(random(5, 7))
        np.testing.assert_array_equal(program.add(a, a).get(), 2 * a.get())


def test_a_device_newer_than_all_that_are_known_gets_ptx(monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = []
    load = fake_cupy.Module.load
    monkeypatch.setattr(fake_cupy.Module, "load", lambda self, code: (loaded.append(code), load(self, code)))
    with fake_cupy.installed(fake_cupy.Gpu(132)) as cupy:
        a = cupy.asarray(random(5, 7))
        np.testing.assert_array_equal(croq.compile(ADD).add(a, a).get(), 2 * a.get())
    assert b".target sm_121" in loaded[-1]


def test_a_device_newer_than_nvrtc_gets_ptx(monkeypatch: pytest.MonkeyPatch) -> None:
    from croq_magic.compiler.targets.cuda import nvrtc

    monkeypatch.setitem(vars(nvrtc.nvrtc()), "archs", (75, 80, 90))
    text = ADD.replace("add", "on_an_old_compiler")
    with fake_cupy.installed(fake_cupy.Gpu(120)) as cupy:
        a = cupy.asarray(random(5, 7))
        np.testing.assert_array_equal(croq.compile(text).on_an_old_compiler(a, a).get(), 2 * a.get())
        with pytest.raises(croq.TargetError, match=r"NVRTC 1.* makes no machine code for this architecture"):
            unit = croq.compile(text).unit
            unit.chosen.shown('extern "C" __global__ void k() {}', "sass", unit.regions)


@pytest.mark.parametrize(
    ("dtype", "value"),
    [("bf16", 1.5), ("f16", 1.5), ("f8_e4m3", -0.5), ("s64", 1 << 40), ("s8", -3), ("u16", 60000), ("f32", 0.25)],
)
def test_scalars_of_all_types(cupy: Any, dtype: str, value: float) -> None:
    text = f"__co__ void f({dtype} k, f64 [N] &v) {{ parallel p by N {{ v.at(p) = v.at(p) + __to<f64>(k); }} }}"
    f = croq.compile(text, "cuda").f
    v = cupy.asarray(np.zeros(5))
    for _ in range(3):  # the long way, and the short one
        f(value, v)
    np.testing.assert_array_equal(v.get(), 3.0 * value)


def test_copies_of_the_host_part_stay_on_the_device(cupy: Any) -> None:
    text = """
__co__ s32 [5, 6] f(s32 [5, 6] x, s32 [5, 6] &y) {
  s32 [5, 6] a, b;
  dma.copy x => a;
  parallel p by 5, q by 6 { b.at(p, q) = a.at(p, q) + 1; }
  dma.copy b => y;
  dma.copy b.chunk(1, 6).at(2, 0) => a.chunk(1, 6).at(4, 0);
  return a;
}""".replace("chunk(1, 6)", "subspan(1, 6)")
    f = croq.compile(text).f
    x = np.arange(30, dtype=np.int32).reshape(5, 6)
    expected = x.copy()
    expected[4] = x[2] + 1
    for where in (cupy.asarray, np.array):
        y = where(np.zeros((5, 6), np.int32))
        result = f(where(x), y)
        found = [each.get() if isinstance(each, cupy.ndarray) else each for each in (result, y)]
        np.testing.assert_array_equal(found[0], expected)
        np.testing.assert_array_equal(found[1], x + 1)
    entry = next(each for each in PROGRAMS if each.name.startswith("C39"))
    blur = croq.compile(entry.source(), target="cuda").functions[entry.function]
    inputs = [cupy.asarray(v) if isinstance(v, np.ndarray) else v for v in entry.case().inputs.values()]
    blur(*inputs)
    before = dict(cupy.state.calls)
    blur(*inputs)
    after = cupy.state.calls
    assert after["device copy"] == before["device copy"] + 1 and after.get("memcpy") == before.get("memcpy")


def test_what_was_uploaded_is_the_array_at_the_call() -> None:
    """Also where the device reads the host's memory by itself, after the call has returned."""
    for host_pages in (False, True):
        with fake_cupy.installed(fake_cupy.Gpu(host_pages=host_pages)) as cupy, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            add = croq.compile(ADD).add
            a, b = cupy.asarray(random(4, 4)), random(4, 4)
            kept = b.copy()
            result = add(a, b)
            b[...] = 0
            np.testing.assert_array_equal(result.get(), a.get() + kept)


@pytest.mark.parametrize("name", ASYNC)
@pytest.mark.parametrize("where", ["numpy", "cupy"])
def test_conformance_programs(cupy: Any, name: str, where: str) -> None:
    entry = next(each for each in PROGRAMS if each.name.startswith(name))
    case = entry.case()
    on_device = where == "cupy"
    inputs = {
        key: cupy.asarray(value) if on_device and isinstance(value, np.ndarray) else copy.deepcopy(value)
        for key, value in case.inputs.items()
    }
    function = croq.compile(entry.source(), target="cuda").functions[entry.function]
    for _ in range(1 if case.written else 2):
        result = function(*inputs.values())
    if case.written:
        result = inputs[case.written]
    arrays = any(isinstance(value, np.ndarray) for value in case.inputs.values())
    if isinstance(case.expected, np.ndarray) and case.expected.shape and arrays:
        assert isinstance(result, cupy.ndarray if on_device else np.ndarray)
    case.check(result.get() if isinstance(result, cupy.ndarray) else result)


def test_programs_from_the_cache_are_launched_the_same_way(cupy: Any) -> None:
    from croq_magic.compiler import store

    text = ADD.replace("add", "sum_of_both")
    a = random(6, 6)
    croq.compile(text, target="cuda").sum_of_both(a, a)
    program = croq.compile(text, target="cuda")
    assert isinstance(program.unit, store.StoredUnit)
    device = cupy.asarray(a)
    np.testing.assert_array_equal(program.sum_of_both(device, device).get(), 2 * a)
    assert "full" not in vars(program.unit)  # nothing was compiled again


def test_which_host_bodies_are_launched_at_once(cupy: Any) -> None:
    ways = {}
    for name in ("C01", "C02", "C38", "C39", "C44"):
        entry = next(each for each in PROGRAMS if each.name.startswith(name))
        compiled = croq.compile(entry.source(), target="cuda").unit.functions[entry.function]
        case = entry.case()
        program = croq.compile(entry.source(), target="cuda").functions[entry.function]
        bound = program.binder.bind(list(copy.deepcopy(case.inputs).values()))
        host = compiled.variant(bound.plan.dims).launch._host.text
        ways[name] = direct(host, frozenset(compiled.variant(bound.plan.dims).launch._kernels.cooperative)) is not None
    assert ways == {"C01": False, "C02": True, "C38": True, "C39": False, "C44": False}
