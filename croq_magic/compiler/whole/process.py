"""Running a program in a process of its own.

Standard input is empty. What it writes arrives as it comes, line by line. Two pipes would lose the order of what is
written to standard output and to standard error; so programs built here write to one, and choreo.h puts marks around
what is an error. A program that writes without end is stopped at a limit. Whatever ends the wait ends the whole group
of processes with it.
"""

from __future__ import annotations

import codecs
import contextlib
import os
import platform
import secrets
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Literal, NamedTuple

from croq_magic.errors import ProgramError, TargetError

Stream = Literal["stdout", "stderr"]
OutputHandler = Callable[[Stream, str], None]

_VARIABLE = "CROQ_STREAMED"  # see choreo.h

LIMIT = 8 << 20  # bytes that a program may write: a notebook with more cannot be opened any more
_KEPT = 4096  # characters of the last lines in an error
_LAST_LINES = 8
_REST = 0.02  # seconds between pieces of text that come in quick succession ...
_HURRIED = 20  # ... when so many have come
_LINGER = 0.2  # seconds that a child left behind may hold the streams open

_SIGNALS = {
    "SIGSEGV": "it used memory that is not its own, or large local arrays filled its stack",
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
    marks: bool = True,
) -> Finished:
    """Runs an executable and gives what it wrote and its exit status; `on_output` gets every piece of text as it comes.
    Without `marks` it is a program that was not built here: its streams are two pipes.

    KeyboardInterrupt, and any other exception, ends the program and passes on. TargetError if it does not start.
    """
    mark = b""
    variables = dict(os.environ if environment is None else environment)
    variables.pop(_VARIABLE, None)
    if marks and _can_mark():
        variables[_VARIABLE] = "\x1e" + secrets.token_hex(8)
        mark = variables[_VARIABLE].encode()
    try:
        process = subprocess.Popen(
            [str(program), *args],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT if mark else subprocess.PIPE,
            cwd=cwd,
            env=variables,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        raise TargetError(f"the program does not start: {getattr(error, 'strerror', None) or error}") from None
    reader = _Reader(on_output, limit, mark)
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

    def __init__(self, on_output: OutputHandler | None, limit: int, mark: bytes) -> None:
        self._marks = _Marks(mark)
        self._last = 0.0
        self._hurried = 0
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
        gone: float | None = None
        with selectors.DefaultSelector() as selector:
            for name, pipe in (("stdout", process.stdout), ("stderr", process.stderr)):
                if pipe is not None:
                    selector.register(pipe, selectors.EVENT_READ, name)
            while selector.get_map() and not self.full:
                ready = selector.select(0.05 if gone is not None or deadline is not None else 0.5)
                # What is on standard output when standard error has something was, most likely, written before it.
                for key, _ in sorted(ready, key=lambda item: str(item[0].data), reverse=True):
                    if not self._read(key.fd, key.data):
                        selector.unregister(key.fileobj)
                self._rest_between_pieces()
                if not ready and process.poll() is not None:
                    gone = gone or time.monotonic()
                    if time.monotonic() - gone > _LINGER:
                        break
                if deadline is not None and time.monotonic() > deadline:
                    break
            while not self.full and process.poll() is None and (deadline is None or time.monotonic() <= deadline):
                time.sleep(0.002)  # its streams are closed and it still runs
        self._decode("stdout", self._marks.end())
        for stream, decoder in self._decoders.items():
            self._pass_on(stream, decoder.decode(b"", final=True))

    def _rest_between_pieces(self) -> None:
        """Lets pieces that come in quick succession grow: to show each alone costs more than to write it."""
        now = time.monotonic()
        self._hurried = self._hurried + 1 if now - self._last < _REST else 0
        self._last = now
        if self._hurried > _HURRIED:
            time.sleep(_REST)

    def _read(self, descriptor: int, stream: Stream) -> bool:
        data = os.read(descriptor, 1 << 16)
        if not data:
            return False
        if len(data) >= self._left:
            data = data[: self._left]
            self.full = True
        self._left -= len(data)
        for which, part in self._marks.split(data) if stream == "stdout" else [(stream, data)]:
            self._decode(which, part)
        return True

    def _decode(self, stream: Stream, data: bytes) -> None:
        self._pass_on(stream, self._decoders[stream].decode(data))

    def _pass_on(self, stream: Stream, text: str) -> None:
        if not text:
            return
        self.text[stream].append(text)
        if self._on_output is not None:
            self._on_output(stream, text)


class _Marks:
    """Tells the streams in one pipe apart: `mark` + E begins what is written to standard error, `mark` + O ends it."""

    def __init__(self, mark: bytes) -> None:
        self._mark = mark
        self._rest = b""
        self._stream: Stream = "stdout"

    def split(self, data: bytes) -> list[tuple[Stream, bytes]]:
        if not self._mark:
            return [(self._stream, data)]
        out: list[tuple[Stream, bytes]] = []
        data = self._rest + data
        while (at := data.find(self._mark)) >= 0 and len(data) > at + len(self._mark):
            out.append((self._stream, data[:at]))
            end = at + len(self._mark)
            self._stream = "stderr" if data[end : end + 1] == b"E" else "stdout"
            data = data[end + 1 :]
        # What may be the beginning of a mark waits for the rest of it.
        sizes = range(min(len(self._mark), len(data)), 0, -1)
        kept = next((size for size in sizes if self._mark.startswith(data[-size:])), 0)
        self._rest = data[len(data) - kept :]
        out.append((self._stream, data[: len(data) - kept]))
        filled = [(stream, part) for stream, part in out if part]
        return [(stream, b"".join(p for _, p in parts)) for stream, parts in groupby(filled, lambda each: each[0])]

    def end(self) -> bytes:
        """What was kept and is no mark."""
        return self._rest


def _can_mark() -> bool:
    """Whether choreo.h can put marks around what is written to standard error: with the GNU C library."""
    return sys.platform == "linux" and platform.libc_ver()[0] == "glibc"


def _end(process: subprocess.Popen[bytes]) -> None:
    """Ends a process and what it has started."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def require_success(done: Finished, shown: bool = False) -> None:
    """Raises `ProgramError` unless a program ended with status 0. Its message has the last lines that the program
    wrote, unless they are `shown` right above it."""
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
    if shown:
        raise ProgramError(text, done.returncode)
    last = (done.stderr.strip() or done.stdout.strip())[-_KEPT:].splitlines()[-_LAST_LINES:]
    raise ProgramError("\n".join([text, *(f"    {line}" for line in last)]), done.returncode)
