"""What an installation contains."""

from __future__ import annotations

import importlib.metadata
import json
import subprocess
import sys
from importlib import resources
from pathlib import Path

import pytest
from jupyter_client.kernelspec import find_kernel_specs

import croq_magic
from croq_magic.driver import main

ROOT = Path(__file__).resolve().parents[1]


def test_metadata() -> None:
    found = importlib.metadata.distribution("croq-magic")
    assert found.version == croq_magic.__version__
    assert found.metadata["License-Expression"] == "Apache-2.0"
    extras = set(found.metadata.get_all("Provides-Extra") or ())
    assert {"cuda12", "cuda13", "opencl", "explore", "compiler", "lab", "test"} <= extras


def test_core_dependencies_are_those_of_the_design() -> None:
    required = importlib.metadata.requires("croq-magic") or []
    core = {line.split(">")[0].strip().lower().replace("-", "_") for line in required if "extra ==" not in line}
    assert core == {"numpy", "ml_dtypes", "lark", "ipython", "ipykernel", "matplotlib", "islpy", "pcpp"}


@pytest.mark.parametrize(
    "name",
    [
        "compiler/grammar.lark",
        "compiler/explanations.json",
        "compiler/include/choreo.h",
        "compiler/include/croq_cpu.h",
        "py.typed",
    ],
)
def test_data_files_travel_with_the_package(name: str) -> None:
    assert resources.files("croq_magic").joinpath(name).is_file()


def test_the_kernelspec_is_found_and_starts_this_package() -> None:
    spec = json.loads(Path(find_kernel_specs()["croqtile"], "kernel.json").read_text())
    assert spec["argv"] == ["python", "-m", "croq_magic.kernel", "-f", "{connection_file}"]
    assert spec["display_name"] == "Croqtile"


def test_licence() -> None:
    text = (ROOT / "LICENSE").read_text()
    assert "Apache License" in text and "Version 2.0, January 2004" in text
    assert "END OF TERMS AND CONDITIONS" in text


def test_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor"]) == 0
    assert capsys.readouterr().out.startswith("croq_magic ")
    assert main([]) == 2
    done = subprocess.run([sys.executable, "-m", "croq_magic", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == f"croqtile {croq_magic.__version__}\n"
