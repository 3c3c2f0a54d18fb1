"""`croqtile`: the compiler driver, for files of Croqtile as `g++` is for files of C++.

`main` runs one command line and never lets an exception out. `options` is the table of options, `run` does what they
ask, `files` reads and writes, `messages` prints.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
from collections.abc import Iterator, Sequence

__all__ = ["main"]

SUCCESS, DIAGNOSTICS, USAGE, INTERNAL = 0, 1, 2, 3
INTERRUPTED, CLOSED = 130, 141  # as a shell reports SIGINT and SIGPIPE


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command line (`sys.argv` without its first word, if None) and returns the exit status.

    0: success, 1: errors in the program or its files, 2: a wrong command line, 3: a fault of the compiler itself.
    """
    from croq_magic.driver.options import UsageError
    from croq_magic.errors import CroqError

    words = list(sys.argv[1:] if arguments is None else arguments)
    if sys.stderr is None:  # closed by whoever started us
        sys.stderr = io.StringIO()
    try:
        status = _run(words)
        if sys.stdout is not None:
            sys.stdout.flush()
        return status
    except UsageError as error:
        return _failed(str(error), USAGE)
    except CroqError as error:
        return _failed(str(error), DIAGNOSTICS)
    except KeyboardInterrupt:
        return _failed("interrupted", INTERRUPTED)
    except BrokenPipeError:
        # Whoever read our output has enough. Python would complain once more when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return CLOSED
    except OSError as error:  # the disk is full, the temporary folder is gone
        where = f"{error.filename}: " if error.filename else ""
        return _failed(f"{where}{error.strerror or error}", DIAGNOSTICS)
    except Exception as error:
        return _internal(error)


def _run(words: list[str]) -> int:
    if words[:1] == ["doctor"] and not os.path.exists("doctor"):
        from croq_magic import doctor

        if len(words) > 1:
            from croq_magic.driver.options import UsageError

            raise UsageError(f"doctor takes no options, found {words[1]}")
        print(doctor.report())
        return SUCCESS
    from croq_magic.driver import options
    from croq_magic.driver.run import run

    chosen = options.parse(words)
    with _conformance() if chosen.conformance else contextlib.nullcontext():
        return run(chosen)


@contextlib.contextmanager
def _conformance() -> Iterator[None]:
    """Targets that contract multiplications with additions do not, inside."""
    before = os.environ.get("CROQ_CONFORMANCE")
    os.environ["CROQ_CONFORMANCE"] = "1"
    try:
        yield
    finally:
        os.environ.pop("CROQ_CONFORMANCE")
        if before is not None:
            os.environ["CROQ_CONFORMANCE"] = before


def _failed(text: str, status: int) -> int:
    from croq_magic.driver.messages import say

    say(text)
    return status


def verbose() -> bool:
    """Whether `CHOREO_VERBOSE` asks for more."""
    return os.environ.get("CHOREO_VERBOSE", "0") not in ("", "0")


def _internal(error: Exception) -> int:
    """One line about a fault of ours, and all of it with `CHOREO_VERBOSE`."""
    import traceback

    if verbose():
        traceback.print_exception(error)
    frame = traceback.extract_tb(error.__traceback__)[-1]
    place = f"{os.path.basename(frame.filename)}:{frame.lineno}"
    said = " ".join(str(error).split()) or "no message"
    text = f"internal error: {type(error).__name__} at {place}: {said[:200]}"
    return _failed(text + ("" if verbose() else " (CHOREO_VERBOSE=1 shows more; please report it)"), INTERNAL)
