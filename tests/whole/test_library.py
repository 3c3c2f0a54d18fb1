"""The host library, choreo.h: a C++ program that compares everything with values worked out by hand."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from croq_magic.compiler.bundled import INCLUDE

FOLDER = Path(__file__).parent


def build(text: Path, program: Path, *flags: str) -> Path:
    command = [
        "g++",
        "-std=c++17",
        "-Wall",
        "-Wextra",
        "-Werror",
        *flags,
        f"-I{INCLUDE}",
        str(text),
        "-o",
        str(program),
    ]
    subprocess.run(command, check=True)
    return program


@pytest.mark.parametrize("flags", [("-O1",), ("-O0", "-fsanitize=address,undefined", "-DCROQ_SOFTWARE_F16")])
def test_every_name(flags: tuple[str, ...], tmp_path: Path) -> None:
    done = subprocess.run([build(FOLDER / "library.cpp", tmp_path / "p", *flags)], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "[4, 5, 6] 1.5 2.5 0.5\n", "")


def test_failures_name_the_place_and_end_the_program(tmp_path: Path) -> None:
    (tmp_path / "p.cpp").write_text("""#include "choreo.h"
int main(int, char** words) {
  auto x = choreo::make_spandata<choreo::s32>(2, 3);
  std::cout << "before ";
  switch (words[1][0]) {
    case 'a': choreo::choreo_assert(x.rank() == 3, "three"); break;
    case 'c': ::croq_assert(false, std::string("text")); break;
    case 'r': choreo::runtime_check(false, "check"); break;
    case '0': x[2][0] = 1; break;
    case '1': x[1][(size_t)-1] = 1; break;
    case 's': choreo::make_spanview<3>(x.data(), {2, 3}); break;
    case 'm': choreo::make_spandata<choreo::f64>(1ull << 62, 3); break;
    case 'f': x.fill_random(3, 2); break;
  }
}
""")
    program = build(tmp_path / "p.cpp", tmp_path / "p", "-O0")
    expected = {
        "a": "p.cpp:6: assertion failed: three",
        "c": "p.cpp:7: assertion failed: text",
        "r": "p.cpp:8: runtime check failed: check",
        "0": "index 2 is out of range for dimension 0, which has extent 2",
        "1": "index -1 is out of range for dimension 1, which has extent 3",
        "s": "a shape of rank 3 is given 2 extents",
        "m": "not enough memory for an array of",
        "f": "fill_random: the lower bound is above the upper one",
    }
    for word, text in expected.items():
        done = subprocess.run([program, word], capture_output=True, text=True)
        assert done.returncode != 0
        assert done.stdout == "before " and text in done.stderr


def test_bounds_are_not_checked_without_debugging(tmp_path: Path) -> None:
    (tmp_path / "p.cpp").write_text(
        '#include "choreo.h"\nint main() { int a[6] = {0}; auto v = choreo::make_spanview<2>(a, {2, 3});\n'
        "  return v[0][4]; }\n"
    )
    assert subprocess.run([build(tmp_path / "p.cpp", tmp_path / "p", "-DNDEBUG")]).returncode == 0
    assert subprocess.run([build(tmp_path / "p.cpp", tmp_path / "q")], stderr=subprocess.DEVNULL).returncode != 0


def test_random_contents_repeat_with_a_seed(tmp_path: Path) -> None:
    (tmp_path / "p.cpp").write_text(
        '#include "choreo.h"\nint main() { auto x = choreo::make_spandata<choreo::s32>(5);\n'
        '  x.fill_random(0, 1000000); for (int each : x) std::cout << each << " "; }\n'
    )
    program = build(tmp_path / "p.cpp", tmp_path / "p")

    def run(**seed: str) -> str:
        environment = {name: value for name, value in os.environ.items() if name != "CHOREO_SEED"} | seed
        return subprocess.run([program], capture_output=True, text=True, check=True, env=environment).stdout

    assert run(CHOREO_SEED="7") == run(CHOREO_SEED="7") != run(CHOREO_SEED="8")
    assert run() != run()
