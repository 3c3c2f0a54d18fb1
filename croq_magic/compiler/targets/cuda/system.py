"""What this machine has of CUDA: driver, devices, CuPy, NVRTC; and one sentence for what is missing.

Asking must cost nothing where there is no GPU, so the driver's library is asked first, and CuPy is imported only when
that has found a device. A CuPy that is loaded already is asked itself.
"""

from __future__ import annotations

import ctypes
import functools
import importlib
import importlib.util
import os
import sys
from typing import Any

from croq_magic.compiler.targets.cuda import nvrtc
from croq_magic.compiler.targets.detect import DRIVER, ELSEWHERE, NO_DRIVER, Problem
from croq_magic.errors import TargetError

OLDEST = 75
# Compute capabilities and the architecture that is compiled for; what is between runs the one below, if that is of the
# same generation, and else what the driver makes of its PTX.
_ARCHS = {75: "sm_75", 80: "sm_80", 86: "sm_86", 87: "sm_87", 89: "sm_89", 90: "sm_90a"} | {
    number: f"sm_{number}" for number in (100, 103, 110, 120, 121)
}
_NO_DEVICE, _TOO_OLD, _MISMATCH = 100, 35, 803  # of cudaError_t and CUresult; 35 is the runtime's alone
_INSTALL = {12: "`pip install 'croq-magic[cuda12]'`", 13: "`pip install 'croq-magic[cuda13]'`"}


def version(number: int) -> str:
    """`13.0` for CUDA's own 13000."""
    return f"{number // 1000}.{number % 1000 // 10}"


def _install(major: int) -> str:
    return _INSTALL.get(min(major, max(_INSTALL)), _INSTALL[12])


def driver_problem() -> Problem | None:
    """Asks the driver's library whether there is a device."""
    try:
        driver = ctypes.CDLL(DRIVER)
    except OSError:
        return NO_DRIVER
    status = driver.cuInit(0)
    count = ctypes.c_int()
    status = status or driver.cuDeviceGetCount(ctypes.byref(count))
    if status == _NO_DEVICE or (status == 0 and count.value == 0):
        return no_device()
    if status == _MISMATCH:
        return Problem("the CUDA driver's library and its kernel module are of different versions; restart the machine")
    if status:
        return Problem(f"the CUDA driver does not start (error {status}); `nvidia-smi` may say why; {ELSEWHERE}")
    return None


def no_device() -> Problem:
    """The sentence for a driver without devices."""
    hidden = os.environ.get("CUDA_VISIBLE_DEVICES")
    if hidden is not None:
        what = f"CUDA_VISIBLE_DEVICES={hidden!r} leaves the CUDA driver no GPU; unset it"
        return Problem(f"{what}, or take another target: {ELSEWHERE}", True)
    return Problem(f"the CUDA driver finds no GPU; {ELSEWHERE}", True)


def problem() -> Problem | None:
    """Why the target cuda cannot be used on this machine; None if it can."""
    loaded: Any = sys.modules.get("cupy")
    if loaded is None:
        found = driver_problem()
        if found is not None:
            return found
        if importlib.util.find_spec("cupy") is None:
            major = nvrtc.driver_major()
            return Problem(f"there is a GPU, and CuPy, which starts kernels on it, is not installed; {_install(major)}")
        try:
            loaded = importlib.import_module("cupy")
        except Exception as error:  # what a broken installation raises is its own choice
            said = " ".join(str(error).split())[:200]
            return Problem(f"CuPy does not import ({type(error).__name__}: {said}); reinstall it")
    return _cupy_problem(loaded)


@functools.lru_cache(maxsize=2)
def _cupy_problem(cupy: Any) -> Problem | None:
    """Asks CuPy for devices, and whether our compiler and they fit together."""
    runtime = cupy.cuda.runtime
    try:
        count = runtime.getDeviceCount()
    except Exception as error:  # CUDARuntimeError, where CuPy could load at all
        status = getattr(error, "status", None)
        if status == _NO_DEVICE:
            return no_device()
        if status == _TOO_OLD:
            return _driver_too_old(cupy)
        return Problem(f"CuPy {cupy.__version__} cannot use the GPU: {error}")
    if count == 0:
        return no_device()
    capability = capability_of(cupy)
    try:
        if arch_of(capability) is None:
            raise TargetError(_unsupported(cupy, capability))
        compiler = nvrtc.nvrtc()
        driver = runtime.driverGetVersion()
        if compiler.version[0] > driver // 1000:
            raise TargetError(
                f"{compiler.name} makes code that the driver, which runs CUDA {version(driver)}, does not load; update "
                f"the driver, or {_install(driver // 1000)}"
            )
    except TargetError as error:
        return Problem(str(error))
    return None


def _driver_too_old(cupy: Any) -> Problem:
    runtime = cupy.cuda.runtime
    built = version(runtime.runtimeGetVersion())
    driver = runtime.driverGetVersion()
    if driver == 0:
        return NO_DRIVER
    return Problem(
        f"the driver runs CUDA {version(driver)}, and CuPy {cupy.__version__} was built for CUDA {built}; update the "
        f"driver, or {_install(driver // 1000)}"
    )


def _unsupported(cupy: Any, capability: int) -> str:
    oldest = f"the oldest GPU that croq_magic compiles for is sm_{OLDEST}"
    return f"{device_name(cupy)} is sm_{capability}, and {oldest}; {ELSEWHERE}"


def capability_of(cupy: Any, device: int | None = None) -> int:
    """The compute capability of a device (the current one) times ten."""
    return int((cupy.cuda.Device() if device is None else cupy.cuda.Device(device)).compute_capability)


def device_name(cupy: Any, device: int | None = None) -> str:
    number = cupy.cuda.Device().id if device is None else device
    name = cupy.cuda.runtime.getDeviceProperties(number)["name"]
    return name.decode() if isinstance(name, bytes) else str(name)


def arch_of(capability: int) -> str | None:
    """The architecture to compile for, None for a device that is too old. Of a device that this version does not know
    it is the newest before it (`runs_on` says whether as machine code or as PTX)."""
    below = [known for known in _ARCHS if known <= capability]
    return _ARCHS[max(below)] if below else None


def runs_on(arch: str, capability: int) -> bool:
    """Whether code for an architecture runs on a device: those of one generation run what older ones do, but an `a`
    stands for one alone."""
    number = int("".join(filter(str.isdigit, arch)))
    if arch.endswith("a"):
        return capability == number
    return capability // 10 == number // 10 and capability >= number


def cupy() -> Any:
    """The module CuPy, with a usable device. TargetError in one sentence if there is none."""
    found = problem()
    if found is not None:
        raise TargetError(found.text)
    return sys.modules["cupy"]


def current_arch() -> str:
    """The architecture of CuPy's current device. TargetError without one."""
    module = cupy()
    capability = capability_of(module)
    found = arch_of(capability)
    if found is None:
        raise TargetError(_unsupported(module, capability))
    return found
