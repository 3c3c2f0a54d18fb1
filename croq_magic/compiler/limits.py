"""What a target can hold: a table the front end reads without loading an emitter.

Source: CUDA C++ Programming Guide, "Technical Specifications per Compute Capability". Shared memory is the opt-in
maximum of a block, in bytes. The CPU keeps the limits a program needs to stay portable; there they draw warnings.
"""

from __future__ import annotations

import dataclasses

from croq_magic.errors import TargetError


@dataclasses.dataclass(frozen=True)
class Limits:
    """Limits of one target. `gpu` says that exceeding them is an error rather than a warning.

    `block` and `grid` are the largest extents of the axes x, y, z; `shared_bytes` is per block; `arch` is the
    compute capability times ten, 0 where there is none.
    """

    name: str
    gpu: bool
    arch: int
    threads_per_block: int
    block: tuple[int, int, int]
    grid: tuple[int, int, int]
    shared_bytes: int
    static_shared_bytes: int
    clusters: bool = False
    tma: bool = False


# What no target goes beyond, however generous: bytes of a span (48-bit addresses, with room for sums of offsets), of
# the shared storage of a block and of the local storage of one instance, elements of a buffer array, values of an index
# (an s32) and blocks of a launch.
MAX_SPAN_BYTES = 1 << 46
MAX_SHARED_BYTES = 1 << 30
MAX_LOCAL_BYTES = 1 << 26
MAX_SLOTS = 4096
MAX_EXTENT = (1 << 31) - 1
MAX_BLOCKS = 1 << 48

_BLOCK = (1024, 1024, 64)
_GRID = ((1 << 31) - 1, 65535, 65535)


def _gpu(name: str, shared_kib: int, hopper: bool = False) -> Limits:
    arch = int("".join(filter(str.isdigit, name)))
    return Limits(name, True, arch, 1024, _BLOCK, _GRID, shared_kib * 1024, 48 * 1024, hopper, hopper)


CPU = Limits("cpu", False, 0, 1024, _BLOCK, _GRID, 99 * 1024, 48 * 1024, True, True)
# What most OpenCL devices offer; a device's own limits are known when a program is built for it.
OPENCL = Limits("opencl", False, 0, 1024, _BLOCK, _GRID, 48 * 1024, 48 * 1024)

LIMITS: dict[str, Limits] = {
    limits.name: limits
    for limits in (
        CPU,
        OPENCL,
        _gpu("sm_75", 64),
        _gpu("sm_80", 163),
        _gpu("sm_86", 99),
        _gpu("sm_87", 163),
        _gpu("sm_89", 99),
        _gpu("sm_90", 227, True),
        _gpu("sm_90a", 227, True),
        _gpu("sm_100", 227, True),
        _gpu("sm_103", 227, True),
        _gpu("sm_110", 227, True),
        _gpu("sm_120", 99, True),
        _gpu("sm_121", 99, True),
    )
}

# Other names of the targets whose limits stand here, and the architecture that counts when none is named.
_ALIASES = {"cc": "cpu", "cute": "cuda", "gpu": "cuda"}
_DEFAULT_ARCH = "sm_90a"


def of(target: str, arch: str | None = None) -> Limits | None:
    """The limits of a target and an architecture of it, without loading the target; None for a target that is not in
    this table and for `native`. TargetError for an architecture that the table does not have."""
    name = _ALIASES.get(target, target)
    if name == "cpu":
        return CPU
    if name == "opencl":
        return OPENCL
    if name != "cuda" or arch == "native":
        return None
    found = LIMITS.get(arch or _DEFAULT_ARCH)
    if found is None or not found.gpu:
        known = ", ".join(limits.name for limits in LIMITS.values() if limits.gpu)
        raise TargetError(f"there is no architecture `{arch}` of `{target}`; known are {known}")
    return found
