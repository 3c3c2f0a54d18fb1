"""Running a program in a process of its own.

Standard input is empty. What it writes arrives as it comes, line by line: each stream in order, and a line of standard
error after what was written to standard output before it, as far as the system lets one know. A program that writes
without end is stopped at a limit. Whatever ends the wait ends the whole group of processes with it.
"""

from __future__ import annotations

import codecs
import contextlib
import os
import selectors
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from croq_magic.errors import ProgramError, TargetError

Stream = Literal["stdout", "stderr"]
OutputHandler = Callable[[Stream, str], None]

LIMIT = 8 << 20  # bytes that a program may write: a notebook with more cannot be opened any more
_KEPT = 4096  # characters of the last lines in an error
_LAST_LINES = 8
_LINGER = 0.2  # seconds that a child left behind may hold the streams open

_SIGNALS = {
    "SIGSEGV": "it used memory that is not its own",
    "SIGBUS": "it used memory that is not there",
    "SIGABRT": "it was aborted",
    "SIGFPE": "an integer was divided by zero",
    "SIGILL": "it has an instruction that this processor does not know",
    "SIGKILL": "it was killed, perhaps because the memory was used up",
    "SIGTERM": "it was terminated",
    "SIGINT": "it was interrupted",
    "SIGPIPE": "nobody read what it wrote",
    "SIGTRAP": "it stopped at a trap",
}


class Finished(NamedTuple):
    """A program that has ended. `returncode` is negative for a signal; `truncated` says that it was stopped at the
    output limit."""

    returncode: int
    stdout: str
    stderr: str
    truncated: bool = False


def run(
    program: Path | str,
    args: Sequence[str] = (),
    on_output: OutputHandler | None = None,
    *,
    limit: int = LIMIT,
    timeout: float | None = None,
    cwd: str | None = None,
    environment: Mapping[str, str] | None = None,
) -> Finished:
    """Runs an executable and gives what it wrote and its exit status; `on_output` gets every piece of text as it comes.

    KeyboardInterrupt, and any other exception, ends the program and passes on. TargetError if it does not start.
    """
    variables = dict(os.environ if environment is None else environment, CROQ_STREAMED="1")
    try:
        process = subprocess.Popen(
            [str(program), *args],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=cwd,
            env=variables,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        raise TargetError(f"the program does not start: {getattr(error, 'strerror', None) or error}") from None
    reader = _Reader(on_output, limit)
    try:
        reader.follow(process, None if timeout is None else time.monotonic() + timeout)
    finally:
        _end(process)
        for pipe in (process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()
    return Finished(process.returncode, "".join(reader.text["stdout"]), "".join(reader.text["stderr"]), reader.full)


class _Reader:
    """Decodes and passes on what a process writes."""

    def __init__(self, on_output: OutputHandler | None, limit: int) -> None:
        self.text: dict[Stream, list[str]] = {"stdout": [], "stderr": []}
        self.full = False
        self._on_output = on_output
        self._left = limit
        decoder = codecs.getincrementaldecoder("utf-8")
        self._decoders: dict[Stream, codecs.IncrementalDecoder] = {
            "stdout": decoder("replace"),
            "stderr": decoder("replace"),
        }

    def follow(self, process: subprocess.Popen[bytes], deadline: float | None) -> None:
        """Reads until both streams end, the limit is reached, or only a child left behind holds the streams."""
        assert process.stdout is not None and process.stderr is not None
        gone: float | None = None
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ, "stdout")
            selector.register(process.stderr, selectors.EVENT_READ, "stderr")
            while selector.get_map() and not self.full:
                ready = selector.select(0.05 if gone is not None or deadline is not None else 0.5)
                # What is on standard output when standard error has something was, most likely, written before it.
                for key, _ in sorted(ready, key=lambda item: str(item[0].data), reverse=True):
                    if not self._read(key.fd, key.data):
                        selector.unregister(key.fileobj)
                if not ready and process.poll() is not None:
                    gone = gone or time.monotonic()
                    if time.monotonic() - gone > _LINGER:
                        break
                if deadline is not None and time.monotonic() > deadline:
                    break
            while not self.full and process.poll() is None and (deadline is None or time.monotonic() <= deadline):
                time.sleep(0.002)  # its streams are closed and it still runs
        for stream, decoder in self._decoders.items():
            self._pass_on(stream, decoder.decode(b"", final=True))

    def _read(self, descriptor: int, stream: Stream) -> bool:
        data = os.read(descriptor, 1 << 16)
        if not data:
            return False
        if len(data) >= self._left:
            data = data[: self._left]
            self.full = True
        self._left -= len(data)
        self._pass_on(stream, self._decoders[stream].decode(data))
        return True

    def _pass_on(self, stream: Stream, text: str) -> None:
        if not text:
            return
        self.text[stream].append(text)
        if self._on_output is not None:
            self._on_output(stream, text)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Ends a process and what it has started."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def require_success(done: Finished) -> None:
    """Raises `ProgramError` unless a program ended with status 0."""
    if done.truncated:
        text = f"the program wrote more than {LIMIT >> 20} MiB and was stopped"
        raise ProgramError(text, done.returncode)
    if done.returncode == 0:
        return
    if done.returncode < 0:
        number = -done.returncode
        try:
            name = signal.Signals(number).name
        except ValueError:
            name = f"signal {number}"
        meaning = _SIGNALS.get(name)
        text = f"the program was ended by {name}" + (f": {meaning}" if meaning else "")
    else:
        text = f"the program ended with exit status {done.returncode}"
    last = (done.stderr.strip() or done.stdout.strip())[-_KEPT:].splitlines()[-_LAST_LINES:]
    raise ProgramError("\n".join([text, *(f"    {line}" for line in last)]), done.returncode)
