"""The OpenCL compiler's complaints as diagnostics at the cell's own lines."""

from __future__ import annotations

import dataclasses

from croq_magic.compiler.diagnostics import Diagnostic
from croq_magic.compiler.targets.cpu import complaints
from croq_magic.compiler.targets.opencl.devices import Features
from croq_magic.compiler.targets.simt.emission import SimtEmission

_SPACES = ("changes address space", "address space", "no matching function for call")


def diagnostics(output: str, emission: SimtEmission, device: Features) -> list[Diagnostic]:
    """What the compiler printed about lines of the cell; [] when every complaint is about generated text alone."""
    if emission.source is None:
        return []
    found = complaints.diagnostics(output, emission.source, emission.verbatim)
    return [_explained(each, device) for each in found]


def _explained(found: Diagnostic, device: Features) -> Diagnostic:
    message = found.message.replace("the C++ compiler", "the OpenCL compiler").replace("croq_user_", "")
    hint = found.hint
    if not device.generic and any(sign in message for sign in _SPACES):
        hint = (
            f"{device.device} has no generic address space: write `__global` or `__local` before a pointer's type, "
            "or take another device"
        )
    return dataclasses.replace(found, message=message, hint=hint)
