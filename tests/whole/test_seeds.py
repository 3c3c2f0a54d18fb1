"""The complete programs of the seed documents: built and run as they are, and as the self-contained file that any C++
compiler builds."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

import croq_magic as croq
from croq_magic.compiler import whole
from croq_magic.compiler.source import Source

SEEDS = sorted((Path(__file__).parents[1] / "programs" / "seeds").glob("*.co"))


@pytest.mark.parametrize("path", SEEDS, ids=lambda path: path.stem)
def test_a_seed_program_passes(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    done = croq.run_program(path.read_text(), target="cpu")
    assert (done.returncode, done.stdout, done.stderr) == (0, "Test Passed\n\n", "")
    assert capsys.readouterr().out == "Test Passed\n\n"


@pytest.mark.parametrize("name", ["ele_add", "ele_add_separate_source"])
def test_the_self_contained_file_needs_nothing_but_a_compiler(name: str, tmp_path: Path) -> None:
    (path,) = (path for path in SEEDS if path.stem == name)
    program = whole.transpile(Source(path.read_text(), path.name), "cpu")
    (tmp_path / "program.cpp").write_text(program.text)
    command = ["g++", "-std=c++17", "-O1", "-Wall", "-Werror", "-pthread", "program.cpp", "-o", "program"]
    subprocess.run(command, cwd=tmp_path, check=True)
    done = subprocess.run([tmp_path / "program"], capture_output=True, text=True, check=True)
    assert done.stdout == "Test Passed\n\n"


@pytest.mark.parametrize("path", SEEDS, ids=lambda path: path.stem)
def test_host_and_device_text_stay_byte_for_byte(path: Path) -> None:
    source = Source(path.read_text(), path.name)
    program = whole.transpile(source, "cpu")
    place = 0
    for region in program.unit.regions:
        if region.kind == "tileflow":
            continue
        text = (region.inner or region.span).text
        place = program.compact.index(text, place) + len(text)
    for region in program.unit.of_kind("tileflow"):
        assert region.text not in program.compact


def test_lines_lead_back_to_the_program() -> None:
    text = "// one\n__co__ s32 f(s32 x) {\n  return x + 1;\n} int after = __LINE__;\n" + (
        'int main() { std::cout << after << " " << __LINE__ << " " << f(2) << " " << __FILE__ << "\\n"; }\n'
    )
    done = croq.run_program(Source(text, "prog.co", 11), target="cpu")
    assert done.stdout == "14 15 3 prog.co\n"


def test_two_self_contained_objects_can_be_linked(tmp_path: Path) -> None:
    scale = "__co__ void scale(s32 [M]& x, s32 k) { parallel p by M { x.at(p) = x.at(p) * k; } }\n"
    total = "__co__ s32 total(s32 [M] x) { mutable s32 r = 0; foreach i in [M] { r += x.at(i); } return r; }\n"
    prototype = "void scale(const choreo::spanned_view<choreo::s32, 1>& x, choreo::s32 k);\n"
    main = (
        "int main() { int a[] = {1, 2, 3}; auto v = choreo::make_spanview(a); scale(v, 5);\n"
        '  std::cout << total(v) << "\\n"; }\n'
    )
    objects = []
    for number, text in enumerate((scale, prototype + total + main)):
        objects.append(tmp_path / f"{number}.o")
        whole.build(whole.transpile(text, "cpu"), objects[-1], "object")
    whole.link(objects, tmp_path / "program", "cpu")
    assert whole.run(tmp_path / "program").stdout == "30\n"
    assert sorted(each.name for each in tmp_path.iterdir()) == ["0.o", "1.o", "program"]
