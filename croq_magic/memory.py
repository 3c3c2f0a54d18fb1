"""How much memory there is: what is larger is refused at once, before the system kills the process that touches it."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from functools import cache

_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


@cache
def physical() -> int:
    """Bytes of memory this process may ever hold: the machine's, or a container's share of it."""
    try:
        most = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        most = 1 << 46
    for path in _LIMITS:
        try:
            with open(path, encoding="ascii") as file:
                most = min(most, int(file.read()))
        except (OSError, ValueError):  # no such limit, or "max"
            continue
    return most


def too_large(shape: Sequence[int], itemsize: int) -> str:
    """Why an array cannot be made, as the end of a sentence; "" if it fits."""
    needed = math.prod(shape) * itemsize
    return f"needs {text(needed)}, this machine has {text(physical())}" if needed > physical() else ""


def text(count: int) -> str:
    """Bytes in the unit that suits them."""
    value, unit = float(count), "bytes"
    for larger in ("KiB", "MiB", "GiB", "TiB", "PiB", "EiB"):
        if value < 1024:
            break
        value, unit = value / 1024, larger
    return f"{value:.4g} {unit}"
