"""OpenCL devices of this machine, what they can do, and the choice of one."""

from __future__ import annotations

import os
from functools import lru_cache
from typing import Any, NamedTuple

from croq_magic.compiler.targets.opencl.runtimes import pyopencl
from croq_magic.errors import TargetError

VARIABLE = "CROQ_OPENCL_DEVICE"


class Features(NamedTuple):
    """What decides how programs are written for a device: plain values, part of cache keys.

    `standard` is the newest `-cl-std` of the device's compiler (120, 200, 300). `generic`: pointers without an address
    space. `shuffles`: threads of a subgroup, whose size may be asked for, can pass each other values.
    """

    device: str
    platform: str
    driver: str
    standard: int
    half: bool
    double: bool
    generic: bool
    atomics64: bool
    subgroups: bool
    required_subgroup: bool
    threads: int
    block: tuple[int, int, int]
    shared_bytes: int
    unified: bool
    cpu: bool
    correct_division: bool
    shuffles: bool = False


@lru_cache(maxsize=1)
def devices() -> tuple[Any, ...]:
    """All devices: GPUs, then accelerators, then CPUs. TargetError if there is none."""
    cl = pyopencl()
    found = []
    for platform in cl.get_platforms():
        try:
            found += platform.get_devices()
        except cl.Error:
            continue
    usable = [device for device in found if device.available and device.compiler_available]
    if not usable:
        names = ", ".join(platform.name.strip() for platform in cl.get_platforms())
        raise TargetError(
            f"the target opencl has no device: found {names} without a usable one; "
            "`pip install croq-magic[opencl-cpu]` brings a runtime for the CPU"
        )
    order = {cl.device_type.GPU: 0, cl.device_type.ACCELERATOR: 1, cl.device_type.CPU: 2}

    def rank(device: Any) -> tuple[int, bool]:
        """Of two CPU runtimes the one that can run more programs comes first."""
        return min([o for bit, o in order.items() if device.type & bit], default=3), not features(device).generic

    return tuple(sorted(usable, key=rank))


def shown(device: Any) -> str:
    """A device as messages and choices name it."""
    return f"{device.platform.name.strip()}: {device.name.strip()}"


def choose(wanted: str | None = None) -> Any:
    """The device of that number or name (any part of platform and name); by default what `CROQ_OPENCL_DEVICE` says,
    else the first GPU, else a CPU. TargetError that lists what there is."""
    wanted = wanted or os.environ.get(VARIABLE) or ""
    known = devices()
    if not wanted or wanted == "native":
        return known[0]
    if wanted.isdigit() and int(wanted) < len(known):
        return known[int(wanted)]
    kinds = {"gpu": "GPU", "cpu": "CPU", "accelerator": "ACCELERATOR"}
    if wanted.lower() in kinds:
        bit = getattr(pyopencl().device_type, kinds[wanted.lower()])
        matching = [device for device in known if device.type & bit]
    else:
        matching = [device for device in known if wanted.lower() in shown(device).lower()]
    if not matching:
        listed = "; ".join(f"{number} is {shown(device)}" for number, device in enumerate(known))
        raise TargetError(f"there is no OpenCL device `{wanted}`; {listed}")
    return matching[0]


@lru_cache(maxsize=8)
def features(device: Any) -> Features:
    """The device's properties."""
    cl = pyopencl()
    extensions = set(device.extensions.split())
    standard = _standard(device)
    modern = {feature.name for feature in _query(device, "opencl_c_features", ())}
    svm = int(_query(device, "svm_capabilities", 0))
    sizes = [int(size) for size in device.max_work_item_sizes]
    cpu = bool(device.type & cl.device_type.CPU)
    fine = cl.device_svm_capabilities.FINE_GRAIN_SYSTEM
    return Features(
        device.name.strip(),
        device.platform.name.strip(),
        f"{device.platform.version.strip()} {device.driver_version.strip()}",
        standard,
        "cl_khr_fp16" in extensions,
        "cl_khr_fp64" in extensions or "__opencl_c_fp64" in modern,
        standard == 200 or "__opencl_c_generic_address_space" in modern,
        {"cl_khr_int64_base_atomics", "cl_khr_int64_extended_atomics"} <= extensions,
        "cl_khr_subgroups" in extensions or "cl_intel_subgroups" in extensions or "__opencl_c_subgroups" in modern,
        "cl_intel_required_subgroup_size" in extensions,
        int(device.max_work_group_size),
        (sizes[0], sizes[1], sizes[2]),
        int(device.local_mem_size),
        bool(svm & fine) and os.environ.get("CROQ_OPENCL_COPY") != "1",
        cpu,
        bool(int(device.single_fp_config) & cl.device_fp_config.CORRECTLY_ROUNDED_DIVIDE_SQRT),
        {"cl_khr_subgroup_shuffle", "cl_intel_required_subgroup_size"} <= extensions,
    )


def _query(device: Any, name: str, otherwise: Any) -> Any:
    try:
        return getattr(device, name)
    except Exception:  # an attribute that the device's version does not know
        return otherwise


def _standard(device: Any) -> int:
    """The newest language version that `-cl-std` may name."""
    versions = [(v.version >> 22, v.version >> 12 & 0x3FF) for v in _query(device, "opencl_c_all_versions", ())]
    if not versions:
        words = device.opencl_c_version.split()  # "OpenCL C 1.2 ..."
        major, _, minor = words[2].partition(".")
        versions = [(int(major), int(minor or 0))]
    if any(version >= (3, 0) for version in versions):
        return 300
    if any(version >= (2, 0) for version in versions):
        return 200
    return 120
