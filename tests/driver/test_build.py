"""What the driver makes of programs: executables, objects, assembly, libraries, target source, scripts."""

from __future__ import annotations

import io
import os
import re
import stat
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from driver.conftest import FUNCTION, Run

PROGRAM = (
    "#include <cstdio>\n"
    + FUNCTION
    + """\
#ifndef COUNT
#define COUNT 5
#endif
int main(int argc, char** argv) {
  auto x = choreo::make_spandata<choreo::s32>(COUNT);
  x.fill(21);
  auto y = twice(x.view());
  std::printf("%d of %d", int(y[COUNT - 1]), COUNT);
  for (int i = 1; i < argc; ++i) std::printf(" %s", argv[i]);
  std::printf("\\n");
  return argc - 1;
}
"""
)
USER = """\
#include <cstdio>
choreo::spanned_data<choreo::s32, 1> twice(const choreo::spanned_view<choreo::s32, 1>& x);
int main() {
  auto x = choreo::make_spandata<choreo::s32>(7);
  x.fill(4);
  std::printf("%d\\n", int(twice(x.view())[6]));
}
"""


@pytest.fixture
def program(here: Path) -> Path:
    path = here / "a.co"
    path.write_text(PROGRAM)
    return path


def output_of(*words: str, **environment: str) -> tuple[int, str]:
    done = subprocess.run(words, capture_output=True, text=True, timeout=120, env={**os.environ, **environment})
    assert done.stderr == ""
    return done.returncode, done.stdout


QUICK = ("-Xcompiler", "-O0")  # the code itself is tested elsewhere


def names(here: Path) -> list[str]:
    return sorted(path.name for path in here.iterdir())


def test_an_executable(program: Path, here: Path, croqtile: Run) -> None:
    assert croqtile("a.co") == (0, "", "")
    assert names(here) == ["a.co", "a.out"]
    assert output_of("./a.out", "x", "y") == (2, "42 of 5 x y\n")


def test_macros_reach_host_and_tileflow_text(program: Path, croqtile: Run) -> None:
    # T and N are also names of parameters in the bundled headers.
    assert croqtile(*QUICK, "a.co", "-DCOUNT=13", "-DN=13", "-DT=1", "-ob").status == 0
    assert output_of("./b") == (0, "42 of 13\n")


def test_target_source_is_complete(program: Path, here: Path, croqtile: Run) -> None:
    shown = croqtile("-es", "-DCOUNT=3", "a.co")
    assert shown.status == 0
    assert '#line 7 "a.co"\n' in shown.out  # behind the function
    assert PROGRAM[PROGRAM.index("#ifndef") :] in shown.out
    assert croqtile("-es", "-DCOUNT=3", "a.co", "-o", "a.cpp") == (0, "", "")
    assert (here / "a.cpp").read_text() == shown.out
    subprocess.run(["g++", "-std=c++17", "-O0", "-pthread", "a.cpp", "-o", "made"], check=True)
    assert output_of("./made") == (0, "42 of 3\n")


@pytest.mark.parametrize("words", [[], ["-DCOUNT=1"]], ids=["plain", "macro"])
def test_a_script_needs_nothing_of_the_package(
    program: Path, here: Path, croqtile: Run, tmp_path_factory: pytest.TempPathFactory, words: list[str]
) -> None:
    assert croqtile("-gs", *words, "a.co", "-o", "a.sh").status == 0
    assert stat.S_IMODE((here / "a.sh").stat().st_mode) & 0o100
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    command = ["env", "-i", "PATH=/usr/bin:/bin", f"TMPDIR={elsewhere}", "CXXFLAGS=-O0 -g0", "sh", str(here / "a.sh")]
    done = subprocess.run([*command, "--execute", "one", "t w o"], cwd=elsewhere, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, f"42 of {1 if words else 5} one t w o\n")
    assert names(elsewhere) == []
    done = subprocess.run(command, cwd=elsewhere, capture_output=True, text=True)
    assert (done.returncode, done.stdout, names(elsewhere)) == (0, "", ["a"])
    assert output_of(str(elsewhere / "a"))[0] == 0
    for wrong in (["--exec"], ["-o"]):
        done = subprocess.run([*command, *wrong], capture_output=True, text=True)
        assert done.returncode == 2
        assert done.stderr.count("\n") == 1
    done = subprocess.run(
        [*command[:2], "PATH=/nowhere", "/bin/sh", str(here / "a.sh")], capture_output=True, text=True
    )
    assert done.returncode == 1
    assert "no C++ compiler found" in done.stderr


def test_a_script_carries_headers_and_several_sources(here: Path, croqtile: Run, tmp_path_factory: object) -> None:
    for folder in ("src", "inc/deep", "made"):
        (here / folder).mkdir(parents=True)
    (here / "real.h").write_text("#pragma once\n#define SEVEN 7\n")
    (here / "inc" / "deep" / "b.h").symlink_to(here / "real.h")
    (here / "inc" / "a.h").write_text('#pragma once\n#include "deep/b.h"\n')
    (here / "src" / "own.h").write_text("#include <a.h>\nint seven();  // EOF '\"$`\\\n")
    (here / "src" / "one.co").write_text('#include "own.h"\nint seven() { return SEVEN; }\n' + FUNCTION)
    (here / "src" / "two.co").write_text('#include "own.h"\n' + USER.replace("x.fill(4)", "x.fill(seven())"))
    assert croqtile("-gs", "-I", "inc", "src/one.co", "src/two.co", "-o", "all.sh") == (0, "", "")
    done = subprocess.run(
        ["env", "-i", "PATH=/usr/bin:/bin", "CXXFLAGS=-O0", "sh", "../all.sh", "--execute"],
        cwd=here / "made", capture_output=True, text=True,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (0, "14\n", "")


def test_objects_libraries_and_the_linker(here: Path, function: Path, program: Path, croqtile: Run) -> None:
    (here / "user.co").write_text(USER)
    assert croqtile(*QUICK, "-c", "twice.co", "user.co", "-j2").status == 0
    assert croqtile("twice.o", "user.o", "-o", "linked").status == 0
    assert output_of("./linked") == (0, "8\n")
    assert croqtile(*QUICK, "twice.co", "user.co", "-o", "together").status == 0
    assert output_of("./together") == (0, "8\n")
    # The library has a `main` of its own, which is left out.
    assert croqtile(*QUICK, "--lib", "a.co", "-o", "libtwice.a").status == 0
    assert croqtile(*QUICK, "user.co", "-L.", "-ltwice", "-lm", "-o", "with_library").status == 0
    assert output_of("./with_library") == (0, "8\n")
    assert croqtile(*QUICK, "user.co", "libtwice.a", "-o", "with_file").status == 0
    assert output_of("./with_file") == (0, "8\n")


def test_assembly(function: Path, here: Path, croqtile: Run) -> None:
    assert croqtile(*QUICK, "-S", "twice.co").status == 0
    assert ".text" in (here / "twice.s").read_text()
    assert croqtile(*QUICK, "-S", "twice.co", "-o", "-").out == (here / "twice.s").read_text()


def test_debug_information_names_the_program(program: Path, here: Path, croqtile: Run) -> None:
    assert croqtile(*QUICK, "-g", "-S", "a.co").status == 0
    assert '"a.co"' in (here / "a.s").read_text()


def test_without_comments(program: Path, here: Path, croqtile: Run) -> None:
    program.write_text(PROGRAM.replace("int main", "/* secret */ int main"))
    assert "secret" in croqtile("-es", "a.co").out
    assert "secret" not in croqtile("-es", "-n", "a.co").out


def test_standard_input(here: Path, croqtile: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(PROGRAM.encode())))
    assert croqtile(*QUICK, "-", "-o", "made").status == 0
    assert output_of("./made") == (0, "42 of 5\n")
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(FUNCTION.encode())))
    assert croqtile(*QUICK, "-c", "-").status == 0
    assert "stdin.o" in names(here)


def test_verbose_shows_what_is_run(program: Path, croqtile: Run) -> None:
    said = croqtile(*QUICK, "-v", "a.co").err.splitlines()
    assert len(said) >= 2
    assert all("g++" in line or "clang" in line or "c++" in line for line in said)


def test_the_compiler_is_chosen_by_the_environment(
    program: Path, croqtile: Run, monkeypatch: pytest.MonkeyPatch, here: Path
) -> None:
    monkeypatch.setenv("CXX", "/nowhere/g++")
    assert croqtile("a.co") == (
        1, "", "croqtile: error: the C++ compiler named by CXX was not found: /nowhere/g++\n"
    )  # fmt: skip
    assert names(here) == ["a.co"]


def test_no_main(function: Path, croqtile: Run, here: Path) -> None:
    result = croqtile("twice.co")
    assert (result.status, result.out) == (1, "")
    assert result.err.startswith("croqtile: error: no main: twice.co can be compiled with -c, -es or --lib")
    assert names(here) == ["twice.co"]
    assert croqtile("-gs", "twice.co").status == 1
    assert croqtile("-es", "twice.co").status == 0


def test_two_mains(program: Path, here: Path, croqtile: Run) -> None:
    (here / "b.co").write_text("int main() {}\n")
    result = croqtile("a.co", "b.co")
    assert result.status == 1
    assert result.err.startswith("b.co:1:5: error: a second `main`, in b.co [CXX01]\n    int main() {}\n        ^~~~\n")
    assert "a.co:11:5: note: the one of a.co\n" in result.err


def test_the_program_of_the_documentation(here: Path, croqtile: Run) -> None:
    page = (Path(__file__).parents[2] / "docs" / "programs.md").read_text()
    (text,) = re.findall(r"```croqtile\n(.*?)```", page, re.DOTALL)
    (here / "add.co").write_text(text)
    assert croqtile("add.co", "-o", "add") == (0, "", "")
    assert output_of("./add") == (0, "Test Passed\n")
    (here / "add.co").write_text(text.replace("lhs.at(p", "lsh.at(p"))
    example = re.search(r"    \./src/add\.co:(.*?)\n\n", page, re.DOTALL)
    assert example is not None
    said = croqtile("-c", "add.co").err
    assert [line.strip() for line in said.splitlines()] == [
        line.strip().replace("./src/", "") for line in example[0].strip().splitlines()
    ]


def test_the_librarys_own_macros_count_in_its_headers(here: Path, croqtile: Run) -> None:
    (here / "a.co").write_text(
        """\
#include <cstdio>
int main() {
  auto x = choreo::make_spandata<choreo::s32>(2, 3);
  x.fill(5);
  std::printf("%d\\n", int(x[0][3]));
}
"""
    )
    assert croqtile(*QUICK, "a.co", "-DNDEBUG").status == 0
    assert output_of("./a.out") == (0, "5\n")
    assert croqtile(*QUICK, "a.co").status == 0
    done = subprocess.run(["./a.out"], capture_output=True, text=True)
    assert done.returncode != 0
    assert "3" in done.stderr


def test_checks_while_running(here: Path, croqtile: Run) -> None:
    (here / "a.co").write_text(
        """\
#include <cstdio>
#include <cstdlib>
__co__ s32 f(s32 [4] x, int i) { return x.at(i); }
int main(int argc, char** argv) {
  int memory[64] = {};
  memory[9] = 7;
  std::printf("%d\\n", int(f(choreo::make_spanview<1>(memory, {4}), std::atoi(argv[1]))));
}
"""
    )
    for level, status, text in [("none", 0, "7\n"), ("all", -6, "")]:
        assert croqtile(*QUICK, "a.co", "-rtc", level).status == 0
        done = subprocess.run(["./a.out", "9"], capture_output=True, text=True)
        assert (done.returncode, done.stdout) == (status, text), level
    assert "9" in done.stderr
    assert "a.co:3" in done.stderr


def test_what_was_built_before_is_not_built_again(
    program: Path, here: Path, croqtile: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiler = here / "compiler"
    compiler.write_text('#!/bin/sh\necho "$@" >>calls\nexec g++ "$@"\n')
    compiler.chmod(0o755)
    monkeypatch.setenv("CXX", str(compiler))
    monkeypatch.setenv("CROQ_CACHE_DIR", str(here / "cache"))

    def calls(*words: str) -> int:
        (here / "calls").write_text("")
        assert croqtile(*QUICK, *words, "-o", "made").status == 0
        return (here / "calls").read_text().count("\n")

    assert calls("a.co") > 0
    (here / "made").unlink()
    assert calls("a.co") == 0
    assert output_of("./made") == (0, "42 of 5\n")
    assert calls("a.co", "-DCOUNT=3") > 0
    assert output_of("./made") == (0, "42 of 3\n")
    # A header may change, and a warning must be seen every time.
    (here / "b.h").write_text("#define COUNT 2\n")
    program.write_text('#include "b.h"\n' + PROGRAM)
    assert calls("a.co") > 0
    (here / "b.h").write_text("#define COUNT 9\n")
    assert calls("a.co") > 0
    assert output_of("./made") == (0, "42 of 9\n")
    program.write_text(PROGRAM.replace("r.at(p) =", "mutable s32 k = 2.5f; r.at(p) = k *"))
    for _ in range(2):
        assert "[TYP06]" in croqtile(*QUICK, "a.co").err
