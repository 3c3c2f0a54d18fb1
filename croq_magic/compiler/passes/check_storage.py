"""Counts the shared memory of a block against the target's limit (STO06)."""

from __future__ import annotations

import dataclasses

from croq_magic.compiler import integers, ir
from croq_magic.compiler.passes.base import Context
from croq_magic.compiler.visit import walk


@dataclasses.dataclass(frozen=True)
class CheckStorage:
    """Buffers whose uses do not overlap may share memory later; here every declaration counts, as the program asks."""

    name: str = "check-storage"

    def __call__(self, function: ir.Function, context: Context) -> ir.Function:
        for launch in function.launches():
            _check(launch.kernel, context)
        return function


def _check(kernel: ir.Kernel, context: Context) -> None:
    sizes = [(size, s) for s in walk(kernel.region) if isinstance(s, ir.Declare) and (size := _shared_bytes(s.buffer))]
    total = sum(size for size, _ in sizes)
    limits = context.limits
    if total <= limits.shared_bytes:
        return
    largest = max(sizes, key=lambda item: item[0])[1]
    span = largest.span or kernel.region.span
    if span is None:
        return
    name = limits.name if limits.gpu else "a GPU of sm_86"
    message = f"block needs {total} bytes of shared memory, {name} offers {limits.shared_bytes}. "
    report = context.report.error if limits.gpu else context.report.warning
    report("STO06", message + f"largest: `{largest.buffer.name}`", span, hint="use smaller tiles")


def _shared_bytes(buffer: ir.Buffer) -> int:
    """Bytes of a shared buffer with all its slots; 0 for other storages and for symbolic extents."""
    if buffer.storage is not ir.Storage.SHARED:
        return 0
    size = buffer.dtype.size
    for extent in (*(integers.value(e) for e in buffer.shape), *buffer.slots):
        if extent is None:
            return 0
        size *= extent
    return size
