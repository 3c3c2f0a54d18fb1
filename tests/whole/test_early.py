"""Compilations that begin before the program is there: what becomes of those that nobody takes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import croq_magic as croq
from croq_magic.compiler.targets import base as targets
from croq_magic.compiler.whole import early
from croq_magic.compiler.whole.host import host_of

HOST = host_of(targets.choose("cpu"))
pytestmark = pytest.mark.skipif(not HOST.early_header, reason="this compiler does not read a pipe piece by piece")


def is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


def test_the_program_goes_into_the_pipe() -> None:
    with early.begun(HOST, ["-DTWO=2"]):
        assert early.take([]) is None  # other flags
        started = early.take(["-DTWO=2"])
        assert started is not None and early.take(["-DTWO=2"]) is None
        text = "int twice(int x) { return TWO * x; }\n" + "// as long as a pipe does not hold\n" * 10000
        done = started.finish(text + '#line 7 "cell"\nint main() { return choreo::mdspan<1>{3}[0] - 3; }\n')
        assert done.returncode == 0, done.stderr
        program = Path(started.output).with_name("program")
        subprocess.run(HOST.link_command([str(started.output), *map(str, HOST.runtime_objects())], str(program)))
        assert subprocess.run([program]).returncode == 0
        started.close()
    assert not program.exists()


def test_complaints_name_the_line() -> None:
    with early.begun(HOST, []):
        started = early.take([])
        assert started is not None
        done = started.finish('#line 7 "cell"\nint main() { return nothing; }\n')
        started.close()
    assert done.returncode != 0 and "cell:7:21: error: 'nothing' was not declared" in done.stderr


def test_what_nobody_takes_ends() -> None:
    with early.begun(HOST, []):
        (started,) = early._waiting
        assert is_alive(started._process.pid)
    assert not is_alive(started._process.pid)
    with pytest.raises(croq.CompileError, match="unknown name `y`"):
        croq.run_program("__co__ s32 f(s32 x) { return y; }\nint main() {}\n", target="cpu")
    assert not early._waiting


def test_it_ends_with_this_process(tmp_path: Path) -> None:
    code = (
        "import os, signal, sys\nfrom croq_magic.compiler.targets import base\n"
        "from croq_magic.compiler.whole import early, host\n"
        "with early.begun(host.host_of(base.choose('cpu')), []):\n"
        "    print(early._waiting[0]._process.pid, flush=True)\n    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == -signal.SIGKILL
    compiler = int(done.stdout)
    until = time.monotonic() + 20
    while is_alive(compiler) and time.monotonic() < until:
        time.sleep(0.05)
        with open(f"/proc/{compiler}/stat") if Path(f"/proc/{compiler}/stat").exists() else open(os.devnull) as file:
            if ") Z " in file.read():
                return  # ended; nobody has asked for its status
    assert not is_alive(compiler)
