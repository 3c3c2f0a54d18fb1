"""The vector registers of this processor, for the shape of register tiles."""

from __future__ import annotations

import platform
from functools import lru_cache
from pathlib import Path


@lru_cache(maxsize=1)
def vector_registers() -> tuple[int, int]:
    """Width in bytes and number of the vector registers that `-march=native` code has."""
    if platform.machine().lower() in ("arm64", "aarch64"):
        return 16, 32
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            flags = next((line.split() for line in file if line.startswith("flags")), [])
    except OSError:
        flags = []
    return registers_of(flags)


@lru_cache(maxsize=1)
def last_level_cache() -> int:
    """Bytes of the largest cache; 32 MiB where the system does not say."""
    largest = 0
    for path in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size"):
        try:
            text = path.read_text().strip()
            largest = max(largest, int(text[:-1]) * {"K": 1 << 10, "M": 1 << 20}[text[-1]])
        except (OSError, ValueError, KeyError, IndexError):
            continue
    return largest or 32 << 20


def registers_of(flags: list[str]) -> tuple[int, int]:
    """The same for the x86-64 feature names that Linux lists."""
    if {"avx512f", "avx512bw", "avx512dq", "avx512vl"} <= set(flags):
        return 64, 32
    return (32, 16) if "avx2" in flags else (16, 16)
