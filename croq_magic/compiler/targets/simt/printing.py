"""What kernels print, in the cell.

Drivers and runtimes write it to the C library's standard output, at the latest when somebody waits for the device. In a
notebook that is not where cells write, so while we wait file descriptor 1 is a file of our own, and what has come into
it goes to `sys.stdout`.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
import tempfile
import threading
from collections.abc import Iterator

_LOCK = threading.Lock()


def _flush() -> None:
    ctypes.CDLL(None).fflush(None)


@contextlib.contextmanager
def shown(prints: bool = True) -> Iterator[None]:
    """Shows what C code writes to standard output inside; does nothing unless `prints`."""
    if not prints:
        yield
        return
    with _LOCK, tempfile.TemporaryFile() as file:
        sys.stdout.flush()
        _flush()
        kept = os.dup(1)
        os.dup2(file.fileno(), 1)
        try:
            yield
        finally:
            _flush()
            os.dup2(kept, 1)
            os.close(kept)
            file.seek(0)
            text = file.read().decode(errors="replace")
            if text:
                sys.stdout.write(text)
