"""What is said where the target cuda cannot be used, and when a launch goes wrong."""

from __future__ import annotations

import importlib.util
import sys
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from IPython.core.interactiveshell import InteractiveShell
from targets.cuda import fake_cupy

import croq_magic as croq
from croq_magic import doctor
from croq_magic.compiler import targets
from croq_magic.compiler.targets import base, detect
from croq_magic.compiler.targets.cuda import nvrtc, system
from croq_magic.compiler.targets.simt import printing

TWICE = """
__co__ s32 [N] twice(s32 [N] v) {
  s32 [N] r;
  parallel p by N { r.at(p) = v.at(p) * 2; }
  return r;
}
"""
STRAY = """
__co__ void stray(s32 [N] &v, s32 [N] places) {
  parallel p by N { v.at(places.at(p)) = 1; }
}
"""


@pytest.fixture
def cupy() -> Iterator[Any]:
    with fake_cupy.installed() as module:
        yield module


@pytest.fixture
def shell() -> Iterator[InteractiveShell]:
    made = InteractiveShell.instance()
    croq.load_ipython_extension(made)
    yield made
    croq.unload_ipython_extension(made)
    InteractiveShell.clear_instance()


def sentence() -> str:
    """Why the target cannot be used; it is one sentence, and -t cuda raises it."""
    problem = system.problem()
    assert problem is not None
    assert problem.text.count(". ") == 0 and not problem.text.endswith(".")
    assert targets.choose("auto").name == "cpu"
    with pytest.raises(croq.TargetError) as caught:
        croq.compile(TWICE, target="cuda")
    assert str(caught.value) == problem.text
    return problem.text


@pytest.fixture
def no_cupy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "cupy", raising=False)


def test_no_driver(monkeypatch: pytest.MonkeyPatch, no_cupy: None) -> None:
    for module in (detect, system):
        monkeypatch.setattr(module, "DRIVER", "libcuda-of-no-machine.so.1")
    assert sentence() == (
        "the target cuda needs an NVIDIA GPU, and no CUDA driver was found here; `-t cpu` and `-t emulate` need no GPU"
    )
    assert "cupy" not in sys.modules


def test_deciding_costs_nothing_without_a_driver(monkeypatch: pytest.MonkeyPatch, no_cupy: None) -> None:
    monkeypatch.setattr(detect, "DRIVER", "libcuda-of-no-machine.so.1")
    best = 1.0
    for _ in range(20):
        start = time.perf_counter()
        base.why_not_gpu()
        best = min(best, time.perf_counter() - start)
    assert best < 1e-3


class Driver:
    """A libcuda that answers."""

    def __init__(self, status: int, count: int) -> None:
        self.status, self.count = status, count

    def cuInit(self, flags: int) -> int:
        return self.status

    def cuDeviceGetCount(self, count: Any) -> int:
        count._obj.value = self.count
        return 0

    def cuDriverGetVersion(self, version: Any) -> int:
        version._obj.value = 12040
        return 0


@pytest.mark.parametrize(
    ("status", "count", "text"),
    [
        (100, 0, "the CUDA driver finds no GPU; "),
        (0, 0, "the CUDA driver finds no GPU; "),
        (803, 0, "library and its kernel module are of different versions; restart the machine"),
        (999, 0, r"the CUDA driver does not start (error 999); `nvidia-smi` may say why"),
    ],
)
def test_drivers_without_a_device(
    monkeypatch: pytest.MonkeyPatch, no_cupy: None, status: int, count: int, text: str
) -> None:
    monkeypatch.setattr("ctypes.CDLL", lambda name, **kwargs: Driver(status, count))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert text in sentence()


def test_hidden_devices(monkeypatch: pytest.MonkeyPatch, no_cupy: None) -> None:
    monkeypatch.setattr("ctypes.CDLL", lambda name, **kwargs: Driver(100, 0))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert "CUDA_VISIBLE_DEVICES='' leaves the CUDA driver no GPU; unset it" in sentence()


def test_a_gpu_without_cupy(monkeypatch: pytest.MonkeyPatch, no_cupy: None) -> None:
    monkeypatch.setattr("ctypes.CDLL", lambda name, **kwargs: Driver(0, 1))
    find = importlib.util.find_spec
    monkeypatch.setattr("importlib.util.find_spec", lambda name, *a: None if name == "cupy" else find(name, *a))
    assert sentence() == (
        "there is a GPU, and CuPy, which starts kernels on it, is not installed; `pip install 'croq-magic[cuda12]'`"
    )


def test_a_cupy_that_does_not_import(monkeypatch: pytest.MonkeyPatch, no_cupy: None, tmp_path: Any) -> None:
    (tmp_path / "cupy.py").write_text("raise ImportError('libnothing.so: cannot open shared object file')\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr("ctypes.CDLL", lambda name, **kwargs: Driver(0, 1))
    assert "CuPy does not import (ImportError: libnothing.so: cannot open" in sentence()


def test_a_driver_older_than_the_toolkit() -> None:
    with fake_cupy.installed(driver=12040, toolkit=13020):
        assert sentence() == (
            "the driver runs CUDA 12.4, and CuPy 14.2.0 was built for CUDA 13.2; update the driver, or "
            "`pip install 'croq-magic[cuda12]'`"
        )


def test_cupy_finds_no_device() -> None:
    with fake_cupy.installed(none=True):
        assert "no GPU" in sentence()


def test_architectures_that_are_not_supported() -> None:
    with fake_cupy.installed(fake_cupy.Gpu(70)):
        assert "Emulated GPU is sm_70, and the oldest GPU that croq_magic compiles for is sm_75" in sentence()


def test_no_nvrtc(cupy: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvrtc, "nvrtc", lambda: nvrtc.load(iter(()), 0))
    assert sentence() == (
        "the target cuda needs NVRTC to compile, and no libnvrtc was found; `pip install 'croq-magic[cuda13]'` "
        "(or cuda12) brings it"
    )


def test_an_nvrtc_newer_than_the_driver() -> None:
    with fake_cupy.installed(driver=12080, toolkit=12080):
        assert "makes code that the driver, which runs CUDA 12.8, does not load; update the driver, or" in sentence()


def test_cells_say_why_they_run_on_the_cpu(shell: InteractiveShell, capsys: Any) -> None:
    with fake_cupy.installed(driver=12040, toolkit=13020):
        shell.user_ns["v"] = np.arange(5, dtype=np.int32)
        shell.run_cell_magic("croqtile", "", TWICE)
    assert "Croqtile cells run on the CPU: the driver runs CUDA 12.4, and CuPy" in capsys.readouterr().out


# ----------------------------------------------------------------------------------------------------------- launches


def test_a_stray_access_is_this_cells_error_and_the_last_one(cupy: Any, shell: InteractiveShell, capsys: Any) -> None:
    shell.push({"v": cupy.asarray(np.zeros(64, np.int32)), "places": cupy.asarray(np.full(64, 4096, np.int32))})
    with pytest.raises(croq.TargetError) as caught:
        shell.run_cell_magic("croqtile", "", STRAY)
    text = str(caught.value)
    assert "`stray" in text and "it read or wrote memory that is not its own (CUDA_ERROR_ILLEGAL_ADDRESS)" in text
    assert "restart the notebook's kernel" in text
    cupy.state.lost = 0
    with pytest.raises(croq.TargetError, match="restart the notebook's kernel"):
        shell.run_cell_magic("croqtile", "-b v=v", TWICE)


def test_a_later_call_names_the_kernel_that_failed(cupy: Any) -> None:
    stray, twice = croq.compile(STRAY).stray, croq.compile(TWICE).twice
    v = cupy.asarray(np.zeros(64, np.int32))
    stray(v, cupy.asarray(np.full(64, 4096, np.int32)))
    with pytest.raises(croq.TargetError, match=r"`stray.*` has broken the CUDA context"):
        twice(np.arange(4, dtype=np.int32))


def test_launches_that_the_device_refuses(cupy: Any) -> None:
    twice = croq.compile(TWICE).twice
    v = cupy.asarray(np.zeros(64, np.int32))
    twice(v)
    for arrays in (v, np.zeros(64, np.int32)):
        cupy.state.next_launch = 701
        with pytest.raises(croq.TargetError, match="too few registers or too little shared memory"):
            twice(arrays)
    np.testing.assert_array_equal(twice(v).get(), 0)


@pytest.mark.parametrize("where", ["numpy", "cupy"])
def test_out_of_memory(where: str) -> None:
    with fake_cupy.installed(fake_cupy.Gpu(memory=1 << 20)) as cupy:
        twice = croq.compile(TWICE).twice
        v = np.zeros((1 << 17) + 1, np.int32)  # twice this does not fit
        with pytest.raises(croq.TargetError, match="not enough memory"):
            twice(cupy.asarray(v) if where == "cupy" else v)


def test_blocks_that_meet_must_fit(cupy: Any) -> None:
    from programs.conformance import PROGRAMS

    entry = next(each for each in PROGRAMS if each.name.startswith("C44"))
    function = croq.compile(entry.source()).functions[entry.function]
    case = entry.case()
    cupy.state.gpus = (fake_cupy.Gpu(blocks=1),)
    with pytest.raises(croq.TargetError, match="must run at once, and Emulated GPU has no room for 8 blocks of 1 thr"):
        function(*case.inputs.values())
    cupy.state.gpus = (fake_cupy.Gpu(blocks=8),)
    case.check(croq.compile(entry.source()).functions[entry.function](*case.inputs.values()))


def test_blocks_that_meet_in_two_axes_must_fit(cupy: Any) -> None:
    text = """
__co__ s32 [3, 4] f(s32 [3, 4] x) {
  s32 [3, 4] a, r;
  parallel {p, q} by [3, 4] : block<cooperative> {
    a.at(p, q) = x.at(p, q);
    sync.barrier : block;
    r.at(p, q) = a.at(2 - p, 3 - q);
  }
  return r;
}"""
    x = np.arange(12, dtype=np.int32).reshape(3, 4)
    np.testing.assert_array_equal(croq.compile(text).f(x), x[::-1, ::-1])
    cupy.state.gpus = (fake_cupy.Gpu(blocks=11),)
    with pytest.raises(croq.TargetError, match="has no room for 12 blocks of 1 threads"):
        croq.compile(text).f(x)


def test_grids_that_no_device_takes(cupy: Any) -> None:
    twice = croq.compile(TWICE).twice
    v = cupy.asarray(np.zeros(64, np.int32))
    twice(v)
    launcher = twice.compiled.variant({"N": 64}).launch
    device = launcher._device(cupy, 0)
    symbol = launcher._kernels.symbols[0]
    with pytest.raises(croq.TargetError, match=f"`{symbol}`: Emulated GPU does not take a grid of 1 x 70000 x 1"):
        device.launch(symbol, (1, 70000, 1), (32, 1, 1), 0, ())


def test_a_device_that_answers_no_more_is_still_spoken_of() -> None:
    from croq_magic.compiler.targets.cuda import faults

    with fake_cupy.installed() as cupy:
        cupy.cuda.runtime.getDeviceProperties = lambda number: cupy.state.note("properties")
        cupy.state.lost = 700
        assert faults.device_text(cupy, 0) == "the device"


def test_asserts_of_kernels_are_reported(cupy: Any) -> None:
    text = '__co__ void f(s32 [N] v) { parallel p by N { assert(v.at(p) < 7, "too large"); } }'
    f = croq.compile(text).f
    f(cupy.asarray(np.arange(7, dtype=np.int32)))
    with pytest.raises(croq.CheckError, match="too large"):
        f(cupy.asarray(np.arange(8, dtype=np.int32)))


def test_shared_memory_above_48_kib_is_asked_for(cupy: Any) -> None:
    text = """
__co__ s32 [N] reverse(s32 [N] v) {
  s32 [N] r;
  parallel b by 1 : block {
    shared s32 [15000] all;
    parallel t by 250 : thread { foreach i in N / 250 { all.at(t * 60 + i) = v.at(t * 60 + i); } }
    parallel t by 250 : thread { foreach i in N / 250 { r.at(14999 - t * 60 - i) = all.at(t * 60 + i); } }
  }
  return r;
}"""
    reverse = croq.compile(text).reverse
    v = np.arange(15000, dtype=np.int32)
    np.testing.assert_array_equal(reverse(cupy.asarray(v)).get(), v[::-1])


# ----------------------------------------------------------------------------------------------------------- notebook


def test_time_is_that_of_the_device(cupy: Any, shell: InteractiveShell, capsys: Any) -> None:
    v = np.arange(2000, dtype=np.int32)
    shell.push({"v": v, "k": 3})
    text = "__co__ void f(s32 [N] &v, int k) { parallel p by N { v.at(p) = v.at(p) + k; } }"
    shell.run_cell_magic("croqtile", "--time", text)
    np.testing.assert_array_equal(v, np.arange(2000) + 3)  # the run to warm up has not added as well
    out = capsys.readouterr().out
    assert "on the device: transfer " in out and ", kernel " in out and ", total " in out


def test_what_prints_is_timed_in_one_run(cupy: Any, shell: InteractiveShell, capsys: Any) -> None:
    shell.push({"v": np.arange(3, dtype=np.int32)})
    shell.run_cell_magic("croqtile", "--time", '__co__ void f(s32 [3] v) { println("here", v.at(1)); }')
    assert capsys.readouterr().out.count("here") == 1


@pytest.mark.parametrize("form", ["cuda", "ptx", "sass"])
def test_code_is_shown_without_a_gpu(shell: InteractiveShell, capsys: Any, form: str) -> None:
    shell.user_ns["v"] = np.arange(5, dtype=np.int32)
    shell.run_cell_magic("croqtile", f"-t cuda -a sm_80 --emit {form}", TWICE)
    out = capsys.readouterr().out
    assert {"cuda": "__global__", "ptx": ".target sm_80", "sass": "EXIT"}[form] in out
    assert "twice is defined but did not run" in out or "cupy" in sys.modules
    shell.run_cell_magic("croqtile", f"--emit {form} -o r", TWICE)  # and the cell runs where it can
    np.testing.assert_array_equal(shell.user_ns["r"], np.arange(5) * 2)


@pytest.mark.parametrize("target", ["", "-t cpu"])
def test_an_architecture_is_that_of_the_code_which_is_shown(
    shell: InteractiveShell, capsys: Any, monkeypatch: pytest.MonkeyPatch, target: str
) -> None:
    monkeypatch.setattr(base, "why_not_gpu", lambda: detect.Problem("there is none", no_gpu=True))
    shell.user_ns["v"] = np.arange(5, dtype=np.int32)
    shell.run_cell_magic("croqtile", f"{target} --emit ptx -a sm_75 -o r", TWICE)
    assert ".target sm_75" in capsys.readouterr().out
    np.testing.assert_array_equal(shell.user_ns["r"], np.arange(5) * 2)
    with pytest.raises(croq.TargetError, match="there is no architecture `sm_35`"):
        shell.run_cell_magic("croqtile", f"{target} --emit ptx -a sm_35", TWICE)


def test_c_output_is_shown_in_the_cell(capsys: Any) -> None:
    import ctypes

    with printing.shown():
        ctypes.CDLL(None).printf(b"from a kernel: %d\n", 7)
    assert capsys.readouterr().out == "from a kernel: 7\n"


def test_what_a_launch_prints_of_earlier_kernels_is_shown(
    cupy: Any, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    """CUDA empties the buffer of `printf` when a kernel starts, too."""
    import ctypes

    launch = fake_cupy.Function.__call__

    def flushing(self: Any, *args: Any, **kwargs: Any) -> None:
        ctypes.CDLL(None).printf(b"left over\n")
        launch(self, *args, **kwargs)

    monkeypatch.setattr(fake_cupy.Function, "__call__", flushing)
    text = "__co__ void f(s32 [3] v) { parallel p by 3 { println(v.at(p)); } parallel p by 3 { println(v.at(p)); } }"
    croq.compile(text).f(cupy.asarray(np.arange(3, dtype=np.int32)))
    out = capsys.readouterr().out.split("\n")
    assert sorted(each for each in out if each) == ["0", "0", "1", "1", "2", "2", "left over", "left over"]


def test_the_report_names_all_versions(cupy: Any) -> None:
    lines = doctor.report().splitlines()
    assert "auto is cuda" in lines[3]
    assert lines[-2].endswith("Emulated GPU (sm_90, compiled for sm_90a)")
    assert "CuPy 14.2.0 for CUDA 13.0" in lines[-1] and "NVRTC" in lines[-1] and "driver" in lines[-1]
