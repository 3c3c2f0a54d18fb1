"""Imports that must not be interrupted: an extension module imported by halves may abort the process the next time."""

from __future__ import annotations

import importlib
import signal
import sys
import threading
from types import FrameType, ModuleType


def import_whole(name: str) -> ModuleType:
    """Imports a module; a Ctrl-C that comes meanwhile takes effect afterwards.

    Only the main thread is interrupted by signals, so in others this is a plain import.
    """
    if name in sys.modules:
        return sys.modules[name]
    if threading.current_thread() is not threading.main_thread():
        return importlib.import_module(name)
    came: list[tuple[int, FrameType | None]] = []
    handler = signal.signal(signal.SIGINT, lambda number, frame: came.append((number, frame)))
    try:
        module = importlib.import_module(name)
    finally:
        signal.signal(signal.SIGINT, handler if handler is not None else signal.SIG_DFL)
    if came:
        signal.raise_signal(signal.SIGINT)
    return module
