"""A compilation that begins before the program is there.

Parsing the headers of the host library takes the C++ compiler as long as our own front end takes for a program. So the
compiler is started on a file that includes the header and then a pipe, and the program goes into the pipe when it has
been transpiled. That saves a third of the time of a cold build. If this process ends, the pipe does, and the compiler.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

from croq_magic.compiler.bundled import INCLUDE
from croq_magic.compiler.whole.host import HostTarget

_lock = threading.Lock()
_waiting: list[Started] = []  # for all threads: what was begun in one may be needed in another


@contextlib.contextmanager
def begun(host: HostTarget, flags: Sequence[str]) -> Iterator[None]:
    """Begins to compile a program with these flags, which `take` finds inside; what is not taken is given up."""
    started = None
    host.begin()
    if host.early_header:
        with contextlib.suppress(OSError):  # what is wrong is met again by the compilation itself
            started = Started(host, flags)
            with _lock:
                _waiting.append(started)
    try:
        yield
    finally:
        with _lock:
            given_up = started in _waiting
            if started is not None and given_up:
                _waiting.remove(started)
        if started is not None and given_up:
            started.close()


def take(flags: Sequence[str]) -> Started | None:
    """A compilation that was begun with these flags. Who takes it closes it."""
    with _lock:
        found = next((each for each in _waiting if each.flags == list(flags)), None)
        if found is not None:
            _waiting.remove(found)
        return found


class Started:
    """A compiler that has begun to read and waits for the program."""

    def __init__(self, host: HostTarget, flags: Sequence[str]) -> None:
        self.flags = list(flags)
        self.header = host.early_header
        self._folder = tempfile.TemporaryDirectory(prefix="croq_magic-")
        folder = Path(self._folder.name)
        source, self.output = folder / "early.cpp", folder / "early.o"
        read, self._write = os.pipe()
        try:
            source.write_text(f'#include "{self.header}"\n#include "/dev/fd/{read}"\n')
            command = host.compile_command(str(source), str(self.output), "object", flags=flags)
            self.command = [*command, f"-I{INCLUDE}"]
            self._messages = (folder / "messages").open("w+b")
            self._process = subprocess.Popen(
                self.command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=self._messages,
                env=dict(os.environ, LC_ALL="C"),
                pass_fds=(read,),
                start_new_session=True,
            )
        except BaseException:
            os.close(self._write)
            self._folder.cleanup()
            raise
        finally:
            os.close(read)

    def finish(self, text: str) -> subprocess.CompletedProcess[str]:
        """Gives the compiler the program, without the header it has read, and waits for it."""
        with contextlib.suppress(BrokenPipeError), os.fdopen(self._write, "wb") as pipe:
            self._write = -1
            pipe.write(text.encode())
        code = self._process.wait()
        self._messages.seek(0)
        return subprocess.CompletedProcess(self.command, code, "", self._messages.read().decode("utf-8", "replace"))

    def close(self) -> None:
        """Ends what is still running and removes its files."""
        if self._write >= 0:
            os.close(self._write)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._messages.close()
        self._folder.cleanup()
