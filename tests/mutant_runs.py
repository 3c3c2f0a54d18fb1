"""Runs programs in a child process, so that a crash or a hang of a compiled program is a finding and not the end.

The child reads one program a line, compiles it with every check on, calls its functions on small arrays, and answers
with one line: what became of it. It is started again when it dies.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import re
import select
import signal
import subprocess
import sys
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import Any

CALL_LIMIT = 1.0  # seconds after which a call is interrupted, as the stop button does
ANSWER_LIMIT = 30.0  # seconds for compiling and running one program; no answer by then is a hang
MEMORY = 6 << 30
MOST_ELEMENTS = 1 << 20


@dataclass(frozen=True)
class Outcome:
    """`kind` is "ok", "compile" (an error in the cell), "check", "refused" (any other CroqError), "stopped" (it ran
    into the time limit and obeyed), "skipped", or one of the faults: "internal", "crash", "hang"."""

    kind: str
    text: str = ""

    @property
    def is_fault(self) -> bool:
        return self.kind in ("internal", "crash", "hang")


class Runner:
    """A child process that runs programs; use it as a context."""

    def __init__(self, environment: dict[str, str] | None = None) -> None:
        self._environment = {**os.environ, **(environment or {})}
        self._child: subprocess.Popen[bytes] | None = None
        self._errors = Path(os.environ.get("TMPDIR", "/tmp")) / f"mutants-{os.getpid()}.txt"

    def __enter__(self) -> Runner:
        return self

    def __exit__(self, *_: object) -> None:
        self._end()
        self._errors.unlink(missing_ok=True)

    def run(self, text: str, seed: int = 0) -> Outcome:
        """What becomes of a program with arguments drawn from `seed`."""
        if self._child is None:
            with self._errors.open("wb") as errors:
                self._child = subprocess.Popen(
                    [sys.executable, __file__],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=errors,
                    env=self._environment,
                    start_new_session=True,
                )
        child = self._child
        assert child.stdin is not None and child.stdout is not None
        try:
            child.stdin.write(json.dumps([text, seed]).encode() + b"\n")
            child.stdin.flush()
        except BrokenPipeError:
            return self._died()
        if not select.select([child.stdout], [], [], ANSWER_LIMIT)[0]:
            self._end()
            return Outcome("hang", f"no answer after {ANSWER_LIMIT:.0f} s")
        line = child.stdout.readline()
        return Outcome(*json.loads(line)) if line else self._died()

    def _died(self) -> Outcome:
        assert self._child is not None
        code = self._child.wait()
        self._end()
        name = signal.Signals(-code).name if code < 0 else f"exit status {code}"
        return Outcome("crash", f"{name}\n{self._errors.read_text(errors='replace')[-6000:]}")

    def _end(self) -> None:
        if self._child is None:
            return
        for pipe in (self._child.stdin, self._child.stdout):
            if pipe is not None:
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()
        if self._child.poll() is None:
            os.killpg(self._child.pid, signal.SIGKILL)  # a compiler that it has started ends too
        self._child.wait()
        self._child = None


# ---------------------------------------------------------------------------------------------------- in the child


class Stopped(BaseException):
    """The time of a call is over."""


def _stop(*_: object) -> None:
    raise Stopped


def examine(text: str, seed: int) -> tuple[str, str]:
    """Compiles a program and calls all its functions: kind and text of the outcome."""
    import croq_magic as croq

    try:
        program = croq.compile(text, target="cpu", checks="all")
    except croq.CompileError as error:
        return _refusal(error, text)
    worst = ("skipped", "no function that can be called")
    for function in program:
        if _runs_foreign_code(function.ir_function):
            continue
        arguments = _arguments(function.compiled.signature, random.Random(seed))
        if arguments is None:
            worst = ("skipped", "arguments too large")
            continue
        try:
            signal.setitimer(signal.ITIMER_REAL, CALL_LIMIT + 20)  # building counts, but may take longer
            bound = function.binder.bind(arguments)
            function.build(bound)
            signal.setitimer(signal.ITIMER_REAL, CALL_LIMIT)
            function.run(bound)
            worst = ("ok", "")
            pairs = zip(function.binder.names, arguments, strict=True)
            if names := [name for name, array in pairs if strayed(array)]:
                return "internal", f"stores outside of {', '.join(names)}"
        except croq.CompileError as error:
            return _refusal(error, text)
        except croq.CheckError as error:
            worst = ("check", str(error))
        except croq.TargetError as error:
            if "please report" in str(error):
                return "internal", str(error)
            worst = ("refused", str(error))
        except croq.CroqError as error:
            worst = ("refused", f"{type(error).__name__}: {error}")
        except Stopped:
            worst = ("stopped", "")
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
    return worst


def _refusal(error: Any, text: str) -> tuple[str, str]:
    """A compile error; one of the C++ compiler is ours where the program has no C++."""
    assert error.diagnostics, "an error without findings"
    codes = [d.code for d in error.diagnostics if d.severity == "error"]
    ours = "CXX01" in codes and not re.search(r"\b(call|__cpp__|asm|__asm__)\b", text)
    return "internal" if ours else "compile", "\n".join(f"{d.code} {d.message}" for d in error.diagnostics)


def _runs_foreign_code(function: Any) -> bool:
    """Whether C++ or assembly of the user's runs: what that does is the user's own."""
    from croq_magic.compiler import ir
    from croq_magic.compiler.visit import walk

    return any(isinstance(node, (ir.Call, ir.CxxText, ir.Asm)) for node in walk(function.body))


def _arguments(signature: Any, rng: random.Random) -> list[Any] | None:
    """Small numbers and arrays for every parameter; None when declared extents make them too large."""
    import numpy as np

    from croq_magic.arguments import numpy_dtype

    dims: dict[str, int] = {}
    values: list[Any] = []
    for param in signature.params:
        if param.kind == "stream":
            values.append(None)
            continue
        dtype = numpy_dtype(param.dtype)
        shape: tuple[int, ...] = ()
        if param.kind == "span":
            shape = tuple(
                e if isinstance(e, int) else dims.setdefault(e, rng.choice([1, 4, 7, 8, 16])) for e in param.extents
            )
            if np.prod([float(extent) for extent in shape]) > MOST_ELEMENTS:
                return None
        numbers = np.random.default_rng(rng.randrange(1 << 30)).integers(-3, 9, shape)
        if dtype.kind in "ub":
            numbers = abs(numbers)
        if param.kind == "span":
            values.append(framed(numbers.astype(dtype)))
        elif dtype.kind in "iu":
            values.append(int(numbers))
        else:
            values.append(bool(numbers) if dtype.kind == "b" else float(numbers))
    return values


MARGIN = 4096
MARK = 0xA5


def framed(array: Any) -> Any:
    """A copy of an array inside of a larger one, whose margins show what is stored beside it."""
    import numpy as np

    frame = np.full(array.nbytes + 2 * MARGIN, MARK, np.uint8)
    inner = frame[MARGIN:-MARGIN].view(array.dtype).reshape(array.shape)
    inner[...] = array
    return inner


def strayed(array: Any) -> bool:
    """Whether something was stored in the margins of a framed array."""
    import numpy as np

    if not isinstance(array, np.ndarray):
        return False
    frame = array
    while isinstance(frame.base, np.ndarray):
        frame = frame.base
    return bool((frame[:MARGIN] != MARK).any() or (frame[-MARGIN:] != MARK).any())


def main() -> None:
    import faulthandler
    import gc
    import io
    import resource

    faulthandler.enable()
    if "ASAN_OPTIONS" not in os.environ:  # a sanitizer reserves address space by the terabyte
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    os.environ.pop("LD_PRELOAD", None)
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    signal.signal(signal.SIGALRM, _stop)
    for line in sys.stdin:
        text, seed = json.loads(line)
        sys.stdout = io.StringIO()
        try:
            outcome = examine(text, seed)
        except BaseException:
            outcome = ("internal", traceback.format_exc())
        gc.collect()  # a program that has written where it must not shows now, not in the next one
        answers.write(json.dumps(outcome) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
