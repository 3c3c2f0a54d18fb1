"""Files that the driver reads and writes: one clear message for whatever goes wrong, nothing half-written left."""

from __future__ import annotations

import contextlib
import os
import stat
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from croq_magic.compiler.source import Source
from croq_magic.driver.options import STANDARD
from croq_magic.errors import CroqError


class FileError(CroqError):
    """A file cannot be read or written; the message begins with its name as it was given."""


def read(name: str) -> Source:
    """The text of a file, or of standard input for `-`; line ends stay as they are. Raises `FileError`."""
    shown = "<stdin>" if name == STANDARD else name
    if name == STANDARD and sys.stdin is None:
        raise FileError("standard input is closed")
    try:
        data = sys.stdin.buffer.read() if name == STANDARD else Path(name).read_bytes()
    except IsADirectoryError:
        raise FileError(f"{shown}: this is a folder, not a file") from None
    except FileNotFoundError:
        raise FileError(f"{shown}: no such file") from None
    except (OSError, ValueError) as error:
        raise FileError(f"{shown}: cannot be read: {reason(error)}") from None
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        byte = data[error.start]
        raise FileError(f"{shown}:{line}: the file is not UTF-8 text (byte 0x{byte:02x})") from None
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise FileError(f"{shown}:{line}: the file is not text (it holds a zero byte)")
    return Source(text, shown)


def read_all(names: Sequence[str], complain: Callable[[str], None]) -> list[Source]:
    """The texts that can be read; a complaint about every other."""
    found = []
    for name in names:
        try:
            found.append(read(name))
        except FileError as error:
            complain(str(error))
    return found


def reason(error: Exception) -> str:
    """Why, in the system's words."""
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return text[:1].lower() + text[1:]


def require_writable(name: str, inputs: list[str]) -> None:
    """Says before any work is done that an output cannot be written or would replace an input. Raises `FileError`."""
    if name == STANDARD:
        return
    path = Path(name)
    for each in inputs:
        with contextlib.suppress(OSError):
            if each != STANDARD and os.path.samefile(each, path) and path.is_file():
                raise FileError(f"{name}: this is an input file; it would be overwritten")
    if path.is_dir():
        raise FileError(f"{name}: cannot be written: it is a folder")
    if _is_special(path):
        return
    folder = path.parent
    if not folder.is_dir():
        raise FileError(f"{name}: cannot be written: there is no folder {folder}")
    if not os.access(folder, os.W_OK | os.X_OK) or (path.exists() and not os.access(path, os.W_OK)):
        raise FileError(f"{name}: cannot be written: permission denied")


def write(name: str, data: bytes, executable: bool = False) -> None:
    """Writes all of a file or nothing of it; `-` is standard output. Raises `FileError`."""
    if name == STANDARD:
        if sys.stdout is None:
            raise FileError("standard output is closed; -o names a file")
        sys.stdout.flush()
        rest = memoryview(data)
        while rest:  # an unbuffered stream (PYTHONUNBUFFERED) takes what fits
            rest = rest[sys.stdout.buffer.write(rest) :]
        sys.stdout.buffer.flush()
        return
    path = Path(name)
    try:
        if _is_special(path):
            path.write_bytes(data)
            return
        path = Path(os.path.realpath(path))  # a link keeps pointing to what it points to
        handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
            os.chmod(temporary, _mode(executable))
            os.replace(temporary, path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise
    except OSError as error:
        raise FileError(f"{name}: cannot be written: {reason(error)}") from None


def _is_special(path: Path) -> bool:
    """Whether the path is something that is written to rather than replaced: a device, a pipe."""
    try:
        return not stat.S_ISREG(path.stat().st_mode) and not path.is_dir()
    except OSError:
        return False


def _mode(executable: bool) -> int:
    mask = os.umask(0)
    os.umask(mask)
    return (0o777 if executable else 0o666) & ~mask
