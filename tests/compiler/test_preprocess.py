from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from compiler.catalogue import CATALOGUE, Entry, program
from compiler.frontend import expression, function, read, show

import croq_magic as croq
from croq_magic.compiler import syntax
from croq_magic.compiler.diagnostics import Report
from croq_magic.compiler.limits import CPU, LIMITS
from croq_magic.compiler.preprocess import preprocess
from croq_magic.compiler.source import Source
from croq_magic.compiler.split import split

BAD = [entry for entry in CATALOGUE if entry.code.startswith("PRE")]


def value(text: str, defines: dict[str, str] | None = None) -> str:
    """The right-hand side of the last statement, with all parentheses."""
    last = function(text, defines).body.body[-1]
    assert isinstance(last, syntax.Assign)
    return show(last.value)


def body(lines: str) -> str:
    return "__co__ void f(int n, int p) {\n" + lines + "\n}"


@pytest.mark.parametrize("entry", BAD, ids=lambda entry: entry.code)
def test_the_catalogue(entry: Entry) -> None:
    _, findings = read(program(entry))
    assert [(found.code, found.message) for found in findings] == [(entry.code, entry.message)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("#define N 4\n" + body("x = N;"), "4"),
        ("#define N M\n#define M 4\n" + body("x = N;"), "4"),
        ("#define N (N + 1)\n" + body("x = N;"), "(N + 1)"),
        ("#define SQ(v) ((v) * (v))\n" + body("x = SQ(n + 1);"), "((n + 1) * (n + 1))"),
        ("#define SQ(v) ((v) * (v))\n" + body("x = SQ(SQ(2));"), "((2 * 2) * (2 * 2))"),
        ("#define ADD(a, b) ((a) + (b))\n" + body("x = ADD(__max(n, 1), 2);"), "(__max(n, 1) + 2)"),
        ("#define EMPTY\n" + body("x = EMPTY n EMPTY;"), "n"),
        ("#define LONG 1 + \\\n  2 // comment\n" + body("x = LONG;"), "(1 + 2)"),
        ("#define ROWS #p\n" + body("x = ROWS;"), "#p"),
        ("#define N 4\n#undef N\n" + body("x = N;"), "N"),
        ("#define SQ(v) 1\n" + body("x = SQ;"), "SQ"),
        (body("#define N 4\nx = N;"), "4"),
        (body("x = __CROQ__ + __CHOREO_TARGET_CPU__;"), "(1 + 1)"),
        (body("\nx = __LINE__;"), "3"),
    ],
)
def test_expansion(text: str, expected: str) -> None:
    assert value(text) == expected


def test_strings_and_comments_are_not_expanded() -> None:
    (printed,) = function("#define N 4\n" + body('println("N"); // N')).body.body
    assert isinstance(printed, syntax.Print)
    assert isinstance(printed.args[0], syntax.StringLit)
    assert printed.args[0].value == "N"


def test_definitions_from_outside() -> None:
    assert value(body("x = N;"), {"N": "3 + 1"}) == "(3 + 1)"
    assert value(body("#ifdef FLAG\nx = 1;\n#else\nx = 2;\n#endif"), {"FLAG": ""}) == "1"


@pytest.mark.parametrize(
    ("condition", "live"),
    [
        ("if 1", True),
        ("if 0", False),
        ("if UNKNOWN", False),
        ("if N > 2 && defined(N)", True),
        ("if defined N && !defined M", True),
        ("if (1 ? 0 : 1) || ~0", True),
        ("if 0x10 == 16u", True),
        ("if 7 / 2 * 2 == 6 && 7 % 4 == 3", True),
        ("if 1 << 3 >> 1 == 4", True),
        ("if (6 & 3) == 2 && (6 ^ 3) == 5 && (6 | 1) == 7", True),
        ("if -1 < +1", True),
        ("if 2 + 3 * 4 == 14", True),
        ("if SQ(3) == 9", True),
        ("ifdef N", True),
        ("ifndef N", False),
    ],
)
def test_conditions(condition: str, live: bool) -> None:
    text = "#define N 4\n#define SQ(v) ((v) * (v))\n" + body(f"#{condition}\nx = 1;\n#else\nx = 0;\n#endif")
    assert value(text) == ("1" if live else "0")


def test_the_first_true_branch_counts() -> None:
    text = "#if 0\nx = 0;\n#elif 1\nx = 1;\n#elif 1\nx = 2;\n#else\nx = 3;\n#endif"
    assert value(body(text)) == "1"


def test_dead_branches_hide_directives_and_nested_conditions() -> None:
    text = "#if 0\n#if 1\n#define N 1\n#else\n#define N 2\n#endif\n#error no\n#endif\nx = N;"
    assert value(body(text)) == "N"


def test_a_function_in_a_dead_branch_is_not_compiled() -> None:
    functions, findings = read("#if 0\n__co__ void f() { = }\n#endif\n__co__ void g() { }")
    assert not findings
    assert [tree and tree.name.text for tree in functions] == ["g"]


def test_target_macros() -> None:
    text = body("#ifdef __CHOREO_TARGET_CUDA__\nx = __CHOREO_ARCH__;\n#else\nx = 0;\n#endif")
    (cpu,), _ = read(text)
    (cuda,), _ = read(text, limits=LIMITS["sm_86"])
    assert cpu is not None
    assert cuda is not None
    assert [show(tree.body.body[0].value) for tree in (cpu, cuda)] == ["0", "86"]  # type: ignore[attr-defined]


def test_what_comes_from_a_macro_stands_where_it_is_used() -> None:
    text = "#define BAD(v) (v + )\n" + body("x = 1 + BAD(n);")
    _, (found,) = read(text)
    assert (found.span.line, found.span.column, found.span.text) == (3, 9, "BAD")
    (note,) = found.notes
    assert note.message == "in expansion of macro `BAD`"
    assert note.span is not None
    assert (note.span.line, note.span.column) == (1, 9)


def test_an_argument_keeps_its_own_place() -> None:
    text = "#define TWICE(v) (2 * (v))\n" + body("x = TWICE(n + 17);")
    assign = function(text).body.body[0]
    literals = [node for node in syntax.walk(assign) if isinstance(node, syntax.IntLit)]
    assert [(node.value, node.span.column) for node in literals] == [(2, 5), (17, 15)]


def test_arity_points_to_the_use_and_to_the_definition() -> None:
    _, (found,) = read("#define ADD(a, b) ((a) + (b))\n" + body("x = ADD(1);"))
    assert (found.code, found.span.line, found.span.column) == ("PRE04", 3, 5)
    assert [note.span and note.span.line for note in found.notes] == [1]


@pytest.mark.parametrize("operator", ["a ## b", "#a"])
def test_operators_of_c_macros_are_rejected_where_they_are_used(operator: str) -> None:
    definition = f"#define M(a, b) {operator}\n"
    assert not read(definition + body("x = 1;"))[1]
    _, findings = read(definition + body("x = M(1, 2);"))
    assert findings[0].code == "PRE07"
    assert findings[0].span.line == 3


def test_redefinition_draws_a_note_only_if_it_changes() -> None:
    same, changed = "#define N 4\n#define N 4\n", "#define N 4\n#define N 5\n"
    assert not read(same + body("x = N;"))[1]
    _, (found,) = read(changed + body("x = N;"))
    assert (found.severity, found.message, found.span.line) == ("note", "`N` is redefined", 2)
    assert value(same + body("x = N;")) == "4"


@pytest.mark.parametrize(
    ("text", "code", "line"),
    [
        ("\n#if 1\n", "PRE01", 2),
        ("#if 1\n#else\n#else\n#endif\n", "PRE02", 3),
        ("#endif\n", "PRE02", 1),
        ("#elif 1\n", "PRE02", 1),
        (body("#if 1"), "PRE01", 2),
        (body("#if 1 +\n#endif"), "PRE06", 2),
        (body('#include "x.h"'), "PRE07", 2),
        (body("#error stop"), "PRE03", 2),
        (body("#pragma once"), "PRE05", 2),
        ("#pragma croq other x\n", "PRE05", 1),
        ("#pragma choreo intrinsic namespace\n", "PRE05", 1),
        ("#pragma croq intrinsic prefix croq_x\n", "PRE05", 1),
    ],
)
def test_mistakes(text: str, code: str, line: int) -> None:
    _, (found,) = read(text)
    assert (found.code, found.span.line) == (code, line)


def test_host_directives_that_only_a_compiler_understands_are_left_alone() -> None:
    text = "#if __has_include(<cuda.h>) && FOO(1, 'a')\n#error no\n#endif\n#pragma once\n"
    assert not read(text + body("x = 1;"))[1]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("#error stop", 1),
        ("#define N 3\n#if N == 3\n#error stop\n#endif", 3),
        ("#ifndef TILE\n#error stop\n#endif", 2),
        ("#if 0\n#elif !defined(TILE)\n#error stop\n#endif", 3),
        ("__device__ int q() {\n#if 1\n#error stop\n#endif\nreturn 1; }", 3),
        ("#if 0\n#error stop\n#endif", None),
        ("#if 1\n#else\n#error stop\n#endif", None),
        ("#if __cplusplus < 300000\n#error stop\n#endif", None),
        ("#define NEW __cplusplus > 1\n#if !(NEW)\n#error stop\n#endif", None),
        ("#if __cplusplus\n#else\n#error stop\n#endif", None),
        ("#include <limits.h>\n#ifndef CHAR_BIT\n#error stop\n#endif", None),
    ],
)
def test_a_live_error_in_the_host_text_of_a_cell(text: str, line: int | None) -> None:
    """Only what a C++ compiler surely says too: it never sees this text. That of a whole program it does see."""
    text += "\n" + body("x = 1;")
    assert [(d.code, d.span.line, d.message) for d in read(text)[1]] == ([("PRE03", line, "stop")] if line else [])
    report = Report()
    preprocess(split(Source(text), report), {}, report, CPU, cell=False)
    assert not report.has_errors


@pytest.mark.parametrize(("condition", "bad"), [("(1", True), ("1 +", True), ("N +", True), ("__has_x(<y>)", False)])
def test_conditions_in_host_text_that_are_none(condition: str, bad: bool) -> None:
    text = f"#define N 1\n#if {condition}\n#endif\n" + body("x = 1;")
    assert [(d.code, d.span.line) for d in read(text)[1]] == ([("PRE06", 2)] if bad else [])


def test_intrinsics_are_registered_for_the_unit_or_for_the_block() -> None:
    text = "#pragma croq intrinsic prefix hw_\n#pragma choreo intrinsic namespace vendor\n"
    report = Report()
    unit = split(Source(text + body("#pragma croq intrinsic prefix dev_\nx = 1;")), report)
    preprocessed = preprocess(unit, {}, report, CPU)
    assert (preprocessed.prefixes, preprocessed.namespaces) == (("hw_",), ("vendor",))
    pragma = function(body("#pragma croq intrinsic prefix dev_\nx = 1;")).body.body[0]
    assert isinstance(pragma, syntax.PragmaIntrinsic)
    assert (pragma.kind, pragma.name.text, pragma.span.line) == ("prefix", "dev_", 2)
    assert not report.has_errors


def test_definitions_of_quoted_includes_count(tmp_path: Path) -> None:
    (tmp_path / "sizes.h").write_text("#ifndef SIZES\n#define SIZES\n#define TILE 16\n#endif\nint unused;\n")
    (tree,), findings = read('#include "sizes.h"\n' + body("x = TILE;"), name=str(tmp_path / "prog.co"))
    assert not findings
    assert tree is not None
    assert show(tree.body.body[0].value) == "16"  # type: ignore[attr-defined]


def test_lines_that_begin_with_an_extent_are_text() -> None:
    assert show(expression("n +\n#n")) == "(n + #n)"


def test_a_text_without_macros_does_not_load_the_macro_engine() -> None:
    code = (
        "import sys\n"
        "from compiler.frontend import function\n"
        "function('__co__ void f() { parallel p by 4 { x = p; } }')\n"
        "assert 'pcpp' not in sys.modules and 'lark' not in sys.modules\n"
    )
    tests = Path(__file__).parents[1]
    subprocess.run([sys.executable, "-c", code], check=True, cwd=tests, env={"PYTHONPATH": f"{tests}:{tests.parent}"})


HEADERS = {
    "ops.h": '#pragma once\n#include "sub/more.h"\n#define TILE 8\n'
    '__cok__ {\n  extern "C" float twice(f32 x) { return scaled(x); }\n}\n',
    "sub/more.h": '#include "deep.h"\n__device__ inline float scaled(float x) { return x * FACTOR; }\n',
    "sub/deep.h": "#ifndef DEEP\n#define DEEP\n#define FACTOR 2.0f\n#endif\n",
}
USES = """#include "ops.h"
#include "ops.h"
#include "sub/deep.h"
__co__ f32 [M] f(f32 [M] x) {
  f32 [M] y;
  parallel p by cdiv(M, TILE) : block foreach i in TILE {
    if (p#i < M) { mutable f32 r = call twice(x.at(p#i)); y.at(p#i) = r; }
  }
  return y;
}
"""


@pytest.fixture
def headers(tmp_path: Path) -> Path:
    (tmp_path / "sub").mkdir()
    for name, text in HEADERS.items():
        (tmp_path / name).write_text(text)
    return tmp_path


def test_device_blocks_of_quoted_includes_stand_in_place(headers: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = croq.compile(Source(USES, str(headers / "prog.co")), target="cpu")
    x = np.arange(13, dtype=np.float32)
    assert np.array_equal(program.f(x), 2 * x)
    monkeypatch.chdir(headers)  # a cell's folder is the one the notebook works in
    assert np.array_equal(croq.compile(USES, target="cpu").f(x), 2 * x)
    (headers / "sub/deep.h").write_text("#define FACTOR -1.5f\n")
    assert np.array_equal(croq.compile(USES, target="cpu").f(x), -1.5 * x)  # the file is read again


def test_a_complaint_about_an_included_function_stands_in_its_file(headers: Path) -> None:
    (headers / "sub/more.h").write_text("\n__device__ inline float scaled(float x) {\n  return x * missing;\n}\n")
    program = croq.compile(Source(USES.replace('#include "sub/deep.h"\n', ""), str(headers / "prog.co")), target="cpu")
    with pytest.raises(croq.CompileError) as error:
        program.f(np.zeros(3, np.float32))
    found = error.value.diagnostics[0]
    assert (found.code, found.span.text, found.span.line) == ("CXX01", "missing", 3)
    assert found.span.name == str(headers / "sub/more.h")


def test_a_quoted_include_that_is_not_found() -> None:
    text = '#if 0\n#include "dead.h"\n#endif\n#include "choreo.h"\n#include <vector>\n#include "nope.h"\n' + body("")
    (found,) = croq.check(text)
    assert (found.code, found.severity, found.span.line) == ("PRE08", "warning", 6)
    assert found.message == "the file `nope.h` is not found; what it defines is missing"
    assert found.hint == f"looked for in {Path.cwd()}"


@pytest.mark.parametrize(
    ("definitions", "use"),
    [
        ("#define A0 n\n" + "".join(f"#define A{i} A{i - 1}+A{i - 1}\n" for i in range(1, 40)), "A39"),
        ("#define D(x) x+x\n", "D(" * 40 + "n" + ")" * 40),
    ],
)
def test_macros_that_grow_beyond_measure(definitions: str, use: str) -> None:
    began = time.perf_counter()
    _, (found,) = read(definitions + body(f"x = {use};"))
    assert (found.code, found.span.text) == ("PRE07", use[: use.find("(")] if "(" in use else use)
    assert time.perf_counter() - began < 10  # without a limit: years


def test_macros_that_grow_with_the_text() -> None:
    lines = "".join(f"x{i} = A8;\n" for i in range(400))
    definitions = "#define A0 1\n" + "".join(f"#define A{i} A{i - 1}+A{i - 1}\n" for i in range(1, 5))
    assert not read(definitions + body(lines.replace("A8", "A4")))[1]
