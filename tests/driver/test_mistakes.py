"""Bad input: one clear message, the right exit status, nothing half-written left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from driver.conftest import FUNCTION, Run

from croq_magic import driver
from croq_magic.driver import files

COMMAND = [sys.executable, "-m", "croq_magic"]
WRONG = "__co__ void f(s32 [4]& x) {{ x.at(0) = {name}; }}\n"


def one_line(err: str) -> str:
    assert err.count("\n") == 1, err
    return err


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("missing.co", "croqtile: error: missing.co: no such file"),
        ("folder", "croqtile: error: folder: this is a folder, not a file"),
        ("latin.co", "croqtile: error: latin.co:2: the file is not UTF-8 text (byte 0xe9)"),
        ("binary.co", "croqtile: error: binary.co:1: the file is not text (it holds a zero byte)"),
        ("no\nsuch", "croqtile: error: no\nsuch: no such file"),
        ("a" * 300, f"croqtile: error: {'a' * 300}: cannot be read: file name too long"),
        ("twice.co/x", "croqtile: error: twice.co/x: cannot be read: not a directory"),
    ],
)
def test_files_that_cannot_be_read(name: str, message: str, here: Path, function: Path, croqtile: Run) -> None:
    (here / "folder").mkdir()
    (here / "latin.co").write_bytes(b"// ok\n// caf\xe9\n")
    (here / "binary.co").write_bytes(b"\x7fELF\0\0")
    for stage in ("-E", "-es", "-c"):
        assert croqtile(stage, name) == (1, "", message + "\n")
    assert not list(here.glob("*.o"))


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read and write everything")
def test_permissions(function: Path, here: Path, croqtile: Run) -> None:
    function.chmod(0)
    assert "permission denied" in one_line(croqtile("-E", "twice.co").err)
    function.chmod(0o600)
    here.chmod(0o500)
    assert "out: cannot be written: permission denied" in one_line(croqtile("-E", "twice.co", "-o", "out").err)
    here.chmod(0o700)


@pytest.mark.parametrize("stage", ["-E", "-es", "-c", "-S", "--lib"])
def test_outputs_that_cannot_be_written(stage: str, function: Path, here: Path, croqtile: Run) -> None:
    (here / "folder").mkdir()
    for output, reason in [
        ("folder", "it is a folder"),
        ("nowhere/out", "there is no folder nowhere"),
        ("twice.co/out", "there is no folder twice.co"),
        ("/proc/nothing/out", "there is no folder /proc/nothing"),
    ]:
        result = croqtile(stage, "twice.co", "-o", output)
        assert (result.status, result.out) == (1, "")
        assert one_line(result.err) == f"croqtile: error: {output}: cannot be written: {reason}\n"
    result = croqtile(stage, "twice.co", "-o", "./twice.co")
    assert one_line(result.err) == "croqtile: error: ./twice.co: this is an input file; it would be overwritten\n"
    assert function.read_text() == FUNCTION
    assert sorted(path.name for path in here.iterdir()) == ["folder", "twice.co"]


def test_a_failed_write_leaves_the_old_file(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (here / "out").write_text("old")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(files.FileError, match=r"^out: cannot be written: no space left on device$"):
        files.write("out", b"new")
    assert (here / "out").read_text() == "old"
    assert [path.name for path in here.iterdir()] == ["out"]


def test_links_and_devices_are_written_to(here: Path, function: Path, croqtile: Run) -> None:
    (here / "real").write_text("old")
    (here / "link").symlink_to("real")
    assert croqtile("-E", "twice.co", "-o", "link").status == 0
    assert (here / "link").is_symlink()
    assert (here / "real").read_text() == FUNCTION
    assert croqtile("-E", "twice.co", "-o", "/dev/null").status == 0
    assert Path("/dev/null").is_char_device()


def test_messages_have_the_form_of_a_compiler(here: Path, croqtile: Run) -> None:
    (here / "sub").mkdir()
    (here / "sub" / "bad.co").write_text("__co__ void f(s32 [4]& tile) {\n\ttile.at(0) = tle.at(1);\n}\n")
    result = croqtile("-c", "./sub/bad.co")
    assert (result.status, result.out) == (1, "")
    assert result.err == (
        "./sub/bad.co:2:15: error: unknown name `tle` [NAM10]\n"
        "    \ttile.at(0) = tle.at(1);\n"
        "    \t             ^~~\n"
        "hint: did you mean `tile`?\n"
    )


def test_at_most_twenty_errors_over_all_files(here: Path, croqtile: Run) -> None:
    for number in range(2):
        text = "".join(f"__co__ void f{i}(s32 [4]& x) {{ x.at(0) = u{i}; }}\n" for i in range(13))
        (here / f"{number}.co").write_text(text)
    result = croqtile("-es", "0.co", "1.co")
    assert result.status == 1
    assert result.err.count(" error: ") == 20
    assert result.err.endswith("26 errors, the first 20 are shown\n")
    assert result.out == ""


def test_warnings(here: Path, croqtile: Run) -> None:
    text = "__co__ void f(s32 [4]& x) { mutable s32 k = 2.5f; x.at(0) = k; }\n"
    (here / "w.co").write_text(text)
    warned = croqtile("-es", "w.co", "-o", "w.cpp")
    assert warned.status == 0
    assert warned.err.startswith("w.co:1:45: warning: ")
    assert "[TYP06]" in warned.err
    assert croqtile("-es", "-w", "w.co", "-o", "w.cpp") == (0, "", "")
    strict = croqtile("-es", "-Werror", "w.co", "-o", "other.cpp")
    assert strict.status == 1
    assert strict.err.startswith("w.co:1:45: error: ")
    assert not (here / "other.cpp").exists()


def test_line_directives_count(here: Path, croqtile: Run) -> None:
    (here / "a.co").write_text('#line 40 "origin.dsl"\n' + WRONG.format(name="u"))
    assert croqtile("-E", "a.co").status == 0
    assert croqtile("-i", "a.co").err.startswith("origin.dsl:40:")


def test_the_compilers_own_words_about_host_text(here: Path, croqtile: Run) -> None:
    (here / "a.co").write_text('#include "nowhere.h"\n' + FUNCTION + "int main() { return 0; }\n")
    result = croqtile("a.co")
    assert result.status == 1
    assert "nowhere.h" in result.err
    assert "a.co:1:" in result.err
    (here / "b.co").write_text(FUNCTION + "int main() { return undeclared; }\n")
    result = croqtile("b.co")
    assert result.status == 1
    assert "b.co:7:21: error: " in result.err
    assert [path.name for path in here.iterdir() if path.suffix != ".co"] == []


def test_usage_errors_have_their_own_status(croqtile: Run) -> None:
    for words in ([], ["-Z", "a.co"], ["-t", "tpu", "a.co"], ["--explain", "X1"], ["doctor", "now"]):
        result = croqtile(*words)
        assert (result.status, result.out) == (2, "")
        assert one_line(result.err).startswith("croqtile: error: ")


def test_targets_by_name(function: Path, croqtile: Run) -> None:
    for name in ("cpu", "cc"):
        assert croqtile("-E", "-t", name, "twice.co").status == 0
    assert "did you mean cuda?" in croqtile("-E", "-t", "cud", "twice.co").err
    assert "no architecture `sm_80`" in one_line(croqtile("-E", "-t", "cpu", "-arch=sm_80", "twice.co").err)


def test_an_internal_error_is_one_line(function: Path, croqtile: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    from croq_magic.driver import run

    def broken(*_: object) -> None:
        raise ZeroDivisionError("no\nway")

    monkeypatch.setattr(run, "_inspect", broken)
    result = croqtile("-E", "twice.co")
    assert result.status == 3
    said = one_line(result.err)
    assert said.startswith("croqtile: error: internal error: ZeroDivisionError at test_mistakes.py:")
    assert ": no way (CHOREO_VERBOSE=1 shows more" in said
    monkeypatch.setenv("CHOREO_VERBOSE", "1")
    assert "Traceback" in croqtile("-E", "twice.co").err


def test_an_interrupt_is_one_line(function: Path, croqtile: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    from croq_magic.driver import run

    def stopped(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(run, "_inspect", stopped)
    assert croqtile("-E", "twice.co") == (130, "", "croqtile: error: interrupted\n")


@pytest.mark.parametrize("words", [["-c"], ["-o", "made"], ["-S", "-j2", "b.co"]], ids=["object", "program", "two"])
def test_ctrl_c_while_the_compiler_runs_leaves_nothing(here: Path, words: list[str]) -> None:
    """A C++ compiler that does not come back is stopped with the driver."""
    slow = here / "slow"
    slow.write_text('#!/bin/sh\ncase "$*" in *--version*) echo "g++ 12"; exit;; esac\ntouch started\nexec sleep 60\n')
    slow.chmod(0o755)
    for name in ("a.co", "b.co"):
        (here / name).write_text(FUNCTION + "int main() {}\n")
    process = subprocess.Popen(
        [*COMMAND, *words, "a.co"], stderr=subprocess.PIPE, text=True, start_new_session=True,
        env={**os.environ, "CXX": str(slow), "TMPDIR": str(here), "CROQ_CACHE_DIR": str(here / "cache")},
    )  # fmt: skip
    for _ in range(600):
        if (here / "started").exists():
            break
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does
    _, err = process.communicate(timeout=20)
    assert process.returncode == 130
    assert err == "croqtile: error: interrupted\n"
    assert sorted(path.name for path in here.iterdir()) == ["a.co", "b.co", "cache", "slow", "started"]


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_closed_standard_output_is_no_error(here: Path, unbuffered: str) -> None:
    (here / "a.co").write_text("// long\n" * 500_000)
    script = f"{' '.join(COMMAND)} -E a.co | head -c 20"
    environment = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
    command = ["bash", "-c", f"set -o pipefail; {script}"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.stdout == "// long\n// long\n// l"
    assert done.stderr == ""
    assert done.returncode == 141


def test_python_m_is_the_same_command(here: Path) -> None:
    done = subprocess.run([*COMMAND, "--version"], capture_output=True, text=True)
    assert done.returncode == 0
    assert done.stdout.startswith("croqtile ")
    long = "int x;\n" * 300_000
    done = subprocess.run([*COMMAND, "-", "-E"], input=long, capture_output=True, text=True)
    assert (done.returncode, done.stdout == long) == (0, True)


def test_help_and_doctor(croqtile: Run) -> None:
    assert croqtile("-h").out.startswith("usage: croqtile")
    assert "compiler" in croqtile("doctor").out
    assert driver.main(["--version"]) == 0


@pytest.mark.parametrize(
    ("closed", "status", "said"),
    [
        ("-E a.co >&-", 1, "croqtile: error: standard output is closed; -o names a file\n"),
        ("-E a.co -o out >&-", 0, ""),
        ("-E - <&-", 1, "croqtile: error: standard input is closed\n"),
        ("-E a.co -Z 2>&-", 2, ""),
        ("-E a.co >/dev/full", 1, "croqtile: error: No space left on device\n"),
        ("-E a.co -o /dev/full", 1, "croqtile: error: /dev/full: cannot be written: no space left on device\n"),
    ],
)
def test_streams_that_are_not_there(here: Path, closed: str, status: int, said: str) -> None:
    (here / "a.co").write_text("int x;\n")
    done = subprocess.run(["sh", "-c", f"{' '.join(COMMAND)} {closed}"], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (status, "", said)


def test_outputs_that_would_be_one_file_or_an_input(here: Path, croqtile: Run) -> None:
    for folder in ("x", "y"):
        (here / folder).mkdir()
        (here / folder / "a.co").write_text(FUNCTION)
    result = croqtile("-c", "x/a.co", "y/a.co")
    assert result.status == 2
    assert "x/a.co and y/a.co would both become a.o" in one_line(result.err)
    (here / "b.s").write_text(FUNCTION)
    assert "b.s: this is an input file" in one_line(croqtile("-S", "b.s").err)
    assert (here / "b.s").read_text() == FUNCTION
    (here / "libx.a").write_bytes(b"!<arch>\n")
    assert "libx.a: a library is made of programs and objects" in one_line(croqtile("--lib", "x/a.co", "libx.a").err)
