"""Shared fixtures, and the option that takes programs of the CPU tests to another target.

pytest --programs-on emulate tests/test_programs.py tests/test_execution.py ...
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

# What errors of a program say that a target has no instruction or no notion for.
_GPU = ("MMA01", "MMA06")
_REFUSALS = {"emulate": _GPU, "cuda": _GPU, "opencl": ("UNS01",)}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--programs-on", help="compile programs that are meant for the CPU for this target")


def pytest_configure(config: pytest.Config) -> None:
    """With `--programs-on`: `croq.compile(..., target="cpu")` compiles for that target, with all checks."""
    target = config.getoption("--programs-on")
    if target is None:
        return
    import croq_magic
    from croq_magic import CompileError
    from croq_magic.compiler.targets.base import why_not_gpu

    compile_for = croq_magic.compile
    has_gpu = why_not_gpu() is None

    def build_only(source: str, arch: str, checks: str) -> None:
        from targets.cuda_text import cubin, emission

        binary, log = cubin(emission(source, arch, checks).text, arch)
        assert binary, log
        pytest.skip("built for cuda; there is no GPU to run it")

    def compile(source: Any, wanted: str = "auto", arch: Any = None, **options: Any) -> Any:
        wanted = options.pop("target", wanted)
        redirected = wanted == "cpu"
        if redirected:
            wanted, arch = target, "sm_90a" if target in ("emulate", "cuda") else arch
            options.setdefault("checks", "all")
        try:
            if redirected and target == "cuda" and not has_gpu:
                build_only(source, arch, options["checks"])
            return compile_for(source, wanted, arch, **options)
        except CompileError as error:
            codes = {d.code for d in error.diagnostics if d.severity == "error"}
            if redirected and codes <= set(_REFUSALS[target]):
                pytest.skip(f"not on {target}: {error.diagnostics[0].message}")
            raise

    croq_magic.compile = compile


@pytest.fixture(autouse=True)
def _programs_on(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Leaves out what other targets need not do."""
    if request.config.getoption("--programs-on") is None:
        return
    parameters = getattr(getattr(request.node, "callspec", None), "params", {})
    fibers = any(isinstance(value, str) and value == "fibers" for value in parameters.values())  # others are arrays
    if fibers or request.node.get_closest_marker("cpu_only") is not None:
        pytest.skip("about the CPU target")
    if request.node.get_closest_marker("races") is not None:
        monkeypatch.setenv("CROQ_EMULATE", "fast")


@pytest.fixture(autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Tests share one build cache of their own: they neither read nor fill the user's."""
    folder = Path(tmp_path_factory.getbasetemp()).parent / "croq-cache"
    monkeypatch.setenv("CROQ_CACHE_DIR", str(folder))
    yield
