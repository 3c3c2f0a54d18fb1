"""CuPy itself, as far as it goes without a GPU: that the fake has nothing it lacks, and that it takes our arguments."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[2]
pytestmark = pytest.mark.skipif(importlib.util.find_spec("cupy") is None, reason="needs CuPy")
# What only the fake has: it is asked by tests, or is how the fake does its work.
OF_THE_FAKE = {"queue", "put", "run", "state", "waits_for_null", "text", "library", "capability", "name"}


def run(code: str) -> str:
    """What a process of its own prints; in this one `cupy` may be the fake."""
    code = f"import sys\nsys.path.insert(0, {str(TESTS)!r})\n{code}"
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_fake_has_nothing_that_cupy_lacks() -> None:
    out = run(f"""
import types, cupy
from targets.cuda import fake_cupy
left = {OF_THE_FAKE!r}
def names(thing):
    return {{n for n in vars(thing) if not n.startswith("_")}} - left
def compare(fake, real, where):
    for name in sorted(names(fake)):
        if not hasattr(real, name):
            print(where + "." + name)
            continue
        mine, theirs = getattr(fake, name), getattr(real, name)
        if isinstance(mine, (types.SimpleNamespace, type)) and not isinstance(theirs, types.BuiltinFunctionType):
            compare(mine, theirs, where + "." + name)
compare(fake_cupy._module(), cupy, "cupy")
""")
    # Found in real objects alone, where they are attributes of C.
    assert set(out.split()) <= {"cupy.cuda.Stream.null"}, out


def test_the_errors_of_cupy_are_known() -> None:
    out = run("""
import cupy
from croq_magic.compiler.targets.cuda import faults
for error in (cupy.cuda.runtime.CUDARuntimeError(700), cupy.cuda.memory.OutOfMemoryError(8, 0)):
    faults.forget()
    print(faults.explain(error, "k"))
print(cupy.cuda.driver.CUDADriverError.__name__)
""")
    first, second, third = out.splitlines()
    assert "it read or wrote memory that is not its own (cudaErrorIllegalAddress)" in first
    assert second == "k: not enough memory on the device" and third == "CUDADriverError"


def test_scalars_of_all_types_are_taken_as_they_are() -> None:
    """The bytes that a kernel gets, up to the width of its parameter."""
    out = run("""
import numpy as np
from cupy._core._scalar import CScalar
from croq_magic.compiler import types
from croq_magic.compiler.targets.cuda.device import plain
from croq_magic.compiler.targets.simt import elements
for name, dtype in types.BY_NAME.items():
    value = elements.encode(1.0 if dtype.is_float else True if name == "bool" else 1, dtype)
    given = plain(value)
    assert CScalar(given).dtype.itemsize == np.asarray(value).itemsize, name
    assert given.tobytes() == np.asarray(value).tobytes(), name
    print(name)
""")
    assert {"f16", "bf16", "f32", "f64", "s64", "u8", "bool", "f8_e4m3"} <= set(out.split())


def test_without_a_driver_it_is_said() -> None:
    out = run("""
import cupy
import croq_magic as croq
from croq_magic.compiler.targets.cuda import system
try:
    cupy.cuda.runtime.getDeviceCount()
    print("a GPU")
except cupy.cuda.runtime.CUDARuntimeError:
    print(system.problem().text)
""")
    assert out.startswith(("a GPU", "the target cuda needs an NVIDIA GPU, and no CUDA driver was found here"))
