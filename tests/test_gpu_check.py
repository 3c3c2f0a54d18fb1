"""`scripts/gpu_check`: what it makes of tests that fail, hang, and bring down their process."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
SUITE = """
import os, signal, sys, time, types
import pytest

pytestmark = pytest.mark.gpu

def test_first(): pass
def test_wrong(): assert 1 == 2, "the sum"
def test_needs_a_module(): raise ModuleNotFoundError("no islpy", name="islpy")
def test_hangs(): time.sleep(1000)
def test_between(): pass
def test_kills(): os.kill(os.getpid(), signal.SIGSEGV)
def test_breaks_the_context():
    def synchronize(): raise RuntimeError("700")
    runtime = types.SimpleNamespace(deviceSynchronize=synchronize)
    sys.modules["cupy"] = types.SimpleNamespace(cuda=types.SimpleNamespace(runtime=runtime))
    raise RuntimeError("illegal address")
def test_after(): assert "cupy" not in sys.modules
@pytest.mark.skip(reason="not here")
def test_left_out(): pass
@pytest.mark.parametrize("n", [1, 2])
def test_last(n): pass
"""


@pytest.fixture
def gpu_check(monkeypatch: pytest.MonkeyPatch) -> Any:
    loader = importlib.machinery.SourceFileLoader("gpu_check", str(ROOT / "scripts" / "gpu_check"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("gpu_check", loader))  # type: ignore[arg-type]
    monkeypatch.setitem(__import__("sys").modules, "gpu_check", module)
    monkeypatch.setattr("sys.dont_write_bytecode", True)
    loader.exec_module(module)
    monkeypatch.setattr(module, "ONE_TEST", 2)
    monkeypatch.setattr(module, "FIRST_TEST", 20)
    return module


def variables() -> dict[str, str]:
    return dict(os.environ, PYTHONPATH=os.pathsep.join([str(ROOT), str(ROOT / "tests")]))


def test_what_brings_down_a_process_leaves_the_other_tests(gpu_check: Any, tmp_path: Path) -> None:
    file = tmp_path / "test_suite.py"
    file.write_text(SUITE)
    found = gpu_check.run_tests(variables(), "", time.monotonic() + 60, file=str(file))
    assert (found.passed, found.skipped, found.ended) == (5, 2, True)
    assert found.failures == [
        "test_wrong: AssertionError: the sum assert 1 == 2",
        "test_hangs: did not end in time",
        "test_kills: ended the process with status -11",
        "test_breaks_the_context: RuntimeError: illegal address",
    ]
    assert not found.well


def test_time_that_is_up_is_said(gpu_check: Any, tmp_path: Path) -> None:
    file = tmp_path / "test_suite.py"
    file.write_text(
        "import time, pytest\npytestmark = pytest.mark.gpu\ndef test_a(): time.sleep(100)\ndef test_b(): pass"
    )
    started = time.monotonic()
    found = gpu_check.run_tests(variables(), "", started + 6, file=str(file))
    assert time.monotonic() - started < 12
    assert not found.ended and "stopped before all had run" in str(found)
    assert found.failures in ([], ["test_a: did not end in time"])


def test_nothing_to_run_is_no_success(gpu_check: Any, tmp_path: Path) -> None:
    file = tmp_path / "test_suite.py"
    file.write_text("import nothing_of_this_name")
    found = gpu_check.run_tests(variables(), "", time.monotonic() + 30, file=str(file))
    assert not found.well and found.passed == 0


def test_all_that_is_compared_compiles(monkeypatch: pytest.MonkeyPatch) -> None:
    """At the sizes of a GPU, which the emulator never sees."""
    from programs import conformance  # noqa: F401  (the tests' own `programs` comes back afterwards)

    monkeypatch.delitem(sys.modules, "programs")
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    import gpu
    from targets.cuda_text import cubin, emission

    texts = gpu.sources(gpu.Sizes())
    assert list(texts) == list(gpu.Ladder.STEPS)
    for name, text in texts.items():
        made = emission(text, "sm_90a")
        binary, log = cubin(made.text, "sm_90a")
        assert binary and not log.strip(), (name, log)
        assert len(made.kernels) == 1, name
    for path in (ROOT / "benchmarks" / "peers").glob("*.cu"):
        for arch in ("sm_75", "sm_90"):
            binary, log = cubin(path.read_text(), arch)
            assert binary and not log.strip(), (path, log)


def test_a_step_that_hangs_or_crashes_leaves_the_others(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from programs import conformance  # noqa: F401  (the tests' own `programs` comes back afterwards)

    monkeypatch.delitem(sys.modules, "programs")
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    import gpu

    script = tmp_path / "gpu.py"
    script.write_text("""
import json, sys, time, os
name, out = sys.argv[2], sys.argv[4]
if name == "add": time.sleep(100)
if name == "copy": os._exit(7)
step = dict(name=name, peer_name="p", ours=2.0, peer=1.0, unit="GB/s", ratio=2.0, low=1.9, high=2.1, aim=0.95)
open(out, "w").write(json.dumps({"steps": [step], "machine": {"device": "D", "versions": "V"}}))
""")
    monkeypatch.setattr(gpu, "__file__", str(script))
    monkeypatch.setattr(gpu, "ONE_STEP", 2.0)
    monkeypatch.setattr(gpu, "RESULTS", tmp_path)
    tests = tmp_path / "tests.json"
    tests.write_text('{"tests": "3 passed", "failed": []}')
    assert gpu.main(["--seconds", "60", "--json", "r", "--tests", str(tests)]) == 1
    recorded = json.loads((tmp_path / "r.json").read_text())
    notes = {step["name"]: step["note"] for step in recorded["steps"]}
    assert list(notes) == list(gpu.Ladder.STEPS)
    assert notes["add"] == "did not end within 2 s" and notes["copy"] == "its process ended with status 7"
    assert not any(note for name, note in notes.items() if name not in ("add", "copy"))
    assert recorded["tests"] == "3 passed" and recorded["versions"] == "V" and recorded["machine"].endswith(": D")
    out = capsys.readouterr().out
    assert out.startswith("D; V\n") and out.count("0.95 reached") == 5
