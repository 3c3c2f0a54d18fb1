"""`scripts/gpu_check`, with the emulator in the GPU's place."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_everything_runs_in_the_emulator() -> None:
    name = "gpu-check-in-the-emulator"
    path = ROOT / "benchmarks" / "results" / f"{name}.json"
    command = [
        sys.executable,
        str(ROOT / "scripts" / "gpu_check"),
        "--emulate",
        "--json",
        name,
        "--only",
        "C02 or views",
    ]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stdout + done.stderr
        recorded = json.loads(path.read_text())
    finally:
        path.unlink(missing_ok=True)
    assert "Emulated GPU" in recorded["machine"] and recorded["small"]
    steps = {(step["name"], step["peer_name"]) for step in recorded["steps"]}
    assert {name for name, _ in steps} == {
        "launch overhead", "element-wise add", "tiled copy", "DMA matmul f32", "scalar matmul f32", "sum",
        "histogram of 256",
    }  # fmt: skip
    assert not any(step["note"] for step in recorded["steps"])
    lines = done.stdout.strip().splitlines()
    assert lines[-1].startswith("tests passed, speed measured") and "histogram of 256" in lines[-2]
