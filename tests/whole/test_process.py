"""The process that a program runs in: streams as they come, standard input, limits, interrupts, exit statuses."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from pathlib import Path

import pytest

from croq_magic.compiler.whole import process
from croq_magic.compiler.whole.process import Finished, run
from croq_magic.errors import ProgramError, TargetError


def python(code: str, *args: str, **options: object) -> Finished:
    return run(sys.executable, ["-u", "-c", code, *args], marks=False, **options)  # type: ignore[arg-type]


def test_both_streams_and_the_exit_status() -> None:
    done = python("import sys; print('out', sys.argv[1]); print('err', file=sys.stderr); sys.exit(3)", "a b")
    assert done == Finished(3, "out a b\n", "err\n")


def test_standard_input_is_empty() -> None:
    assert python("import sys; print(repr(sys.stdin.read()))").stdout == "''\n"


def test_output_comes_while_the_program_runs() -> None:
    times: list[float] = []
    code = "import os, time\nfor i in range(3): os.write(1, b'line\\n'); time.sleep(0.2)"
    python(code, on_output=lambda *_: times.append(time.time()))
    assert len(times) == 3
    assert times[1] - times[0] > 0.1 and times[2] - times[1] > 0.1


def test_lines_of_the_streams_keep_their_order() -> None:
    code = "import os, time\nfor i in range(4): os.write(1 + i % 2, b'%d\\n' % i); time.sleep(0.05)"
    seen: list[tuple[str, str]] = []
    python(code, on_output=lambda stream, text: seen.append((stream, text)))
    assert seen == [("stdout", "0\n"), ("stderr", "1\n"), ("stdout", "2\n"), ("stderr", "3\n")]


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_marks_tell_the_streams_of_one_pipe_apart(size: int) -> None:
    mark = b"\x1e0123"
    data = b"a\x1e01b" + mark + b"Ec\nd" + mark + b"O" + mark + b"Ee" + mark + b"O\x1e" + b"f\x1e0"
    marks = process._Marks(mark)
    parts = [part for at in range(0, len(data), size) for part in marks.split(data[at : at + size])]
    parts.append(("stdout", marks.end()))
    joined: list[list[object]] = []
    for stream, part in parts:
        if joined and joined[-1][0] == stream:
            joined[-1][1] += part  # type: ignore[operator]
        else:
            joined.append([stream, part])
    assert joined == [["stdout", b"a\x1e01b"], ["stderr", b"c\nde"], ["stdout", b"\x1ef\x1e0"]]


def test_characters_that_arrive_in_parts() -> None:
    code = "import os, sys, time\nfor b in sys.argv[1].encode(): os.write(1, bytes([b])); time.sleep(0.02)\n"
    assert python(code + "os.write(1, b'\\xff')", "\u00e9\u4e2d").stdout == "\u00e9\u4e2d\ufffd"


def test_a_program_that_writes_without_end_is_stopped() -> None:
    started = time.monotonic()
    done = python("while True: print('x' * 99)", limit=1 << 20)
    assert done.truncated and len(done.stdout) == 1 << 20
    assert time.monotonic() - started < 20
    with pytest.raises(ProgramError, match="wrote more than 8 MiB and was stopped"):
        process.require_success(done)


@pytest.mark.skipif(threading.current_thread() is not threading.main_thread(), reason="signals need the main thread")
def test_an_interrupt_ends_the_whole_group(tmp_path: Path) -> None:
    child = "import time, pathlib, sys\nwhile True: pathlib.Path(sys.argv[1]).touch(); time.sleep(0.01)"
    code = f"import subprocess, sys\nprint('go')\nsubprocess.run([sys.executable, '-c', {child!r}, sys.argv[1]])"
    mark = tmp_path / "alive"

    def interrupt() -> None:
        while not mark.exists():
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt, daemon=True).start()
    with pytest.raises(KeyboardInterrupt):
        python(code, str(mark))
    mark.unlink(missing_ok=True)
    time.sleep(0.1)
    assert not mark.exists()


def test_a_child_left_behind_does_not_keep_the_caller_waiting() -> None:
    started = time.monotonic()
    done = python("import subprocess, sys\nsubprocess.Popen(['sleep', '60'])\nprint('done')")
    assert done == Finished(0, "done\n", "")
    assert time.monotonic() - started < 10


def test_a_timeout_ends_it() -> None:
    assert python("import time; time.sleep(60)", timeout=0.2).returncode == -signal.SIGKILL


@pytest.mark.parametrize(
    ("code", "text"),
    [
        ("import os; os.abort()", "ended by SIGABRT: it was aborted"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", "SIGSEGV: it used memory that is not its own"),
        ("import sys; sys.exit(7)", "ended with exit status 7"),
    ],
)
def test_how_it_ended_in_words(code: str, text: str) -> None:
    done = python("import sys\nfor i in range(20): print('line', i, file=sys.stderr)\n" + code)
    with pytest.raises(ProgramError, match=text) as caught:
        process.require_success(done)
    assert caught.value.returncode == done.returncode
    assert str(caught.value).splitlines()[-1].strip() == "line 19"
    assert "line 3\n" not in str(caught.value)


def test_what_cannot_be_started(tmp_path: Path) -> None:
    with pytest.raises(TargetError, match="does not start: No such file"):
        run(tmp_path / "nothing")
    with pytest.raises(TargetError, match="does not start"):
        run(sys.executable, ["a\0b"])
