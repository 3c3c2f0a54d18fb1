"""What the very first cell on a machine needs, made ready while its author is still reading.

Loading the extension starts a thread that loads the CPU runtime. If the cache has none, it is built, and meanwhile the
thread loads the compiler, which a cell needs that was never compiled before. With a filled cache nothing else is
loaded: cells compiled before need no compiler.
"""

from __future__ import annotations

import contextlib
import threading

_LOADING = 0.05  # seconds; loading a runtime from the cache takes a few milliseconds, building one a hundred


def start() -> threading.Thread:
    """Starts the thread. What goes wrong in it is met again, and reported, by the cell that needs it."""
    thread = threading.Thread(target=_warm, name="croq-warm", daemon=True)
    thread.start()
    return thread


def _warm() -> None:
    with contextlib.suppress(Exception):
        from croq_magic.compiler.targets.cpu.runtime import prepare

        loading = prepare()
        if loading is None:
            return
        loading.join(_LOADING)
        if loading.is_alive():
            from croq_magic.compiler import pipeline  # noqa: F401
