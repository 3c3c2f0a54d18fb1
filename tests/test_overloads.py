"""Tileflow functions of one name: which may be defined, and which one a call runs (language reference, O-4)."""

from __future__ import annotations

import numpy as np
import pytest
from IPython.core.interactiveshell import InteractiveShell

import croq_magic as croq

BODY = "parallel p by M : block"
TEXT = f"""
__co__ f32 [M] f(f32 [M] x) {{ f32 [M] y; {BODY} y.at(p) = x.at(p) * 2.0f; return y; }}
__co__ s32 [M] f(s32 [M] x) {{ s32 [M] y; {BODY} y.at(p) = x.at(p) * 3; return y; }}
__co__ f32 [M, N] f(f32 [M, N] x) {{ f32 [M, N] y; parallel {{p, q}} by [M, N] : block y.at(p, q) = x.at(p, q) * 5.0f;
  return y; }}
__co__ f32 [M] f(f32 [M] x, f32 [M] z) {{ f32 [M] y; {BODY} y.at(p) = x.at(p) - z.at(p); return y; }}
__co__ int f_2(int n) {{ return n; }}
"""


@pytest.fixture(scope="module")
def program() -> croq.Program:
    return croq.compile(TEXT)


def test_rank_type_and_number_of_arguments_choose(program: croq.Program) -> None:
    floats, whole = np.arange(7, dtype=np.float32), np.arange(11, dtype=np.int32)
    plane = np.arange(15, dtype=np.float32).reshape(3, 5)
    assert np.array_equal(program.f(floats), floats * 2)
    assert np.array_equal(program.f(whole), whole * 3)
    assert np.array_equal(program.f(plane), plane * 5)
    assert np.array_equal(program.f(plane[:, ::2]), plane[:, ::2] * 5)
    assert np.array_equal(program.f(floats, z=floats[::-1]), floats - floats[::-1])
    assert program.f_2(9) == 9  # names made for overloads never meet a function's own


def test_the_functions_of_a_program(program: croq.Program) -> None:
    assert list(program.functions) == ["f", "f_2"]
    assert len(program.all_functions) == 5
    assert [f.signature.split("(")[1] for f in program.f.overloads] == [
        "f32 [M] x)",
        "s32 [M] x)",
        "f32 [M, N] x)",
        "f32 [M] x, f32 [M] z)",
    ]
    if program.target == "cpu":
        assert program.source().count("croq_entry_f(") == 1
    assert program.ir().count("func f") == 5
    assert repr(program.f).count("<tileflow") == 4


def test_no_overload_fits(program: croq.Program) -> None:
    with pytest.raises(croq.BindError) as error:
        program.f(np.zeros(4))
    assert str(error.value).splitlines() == [
        "f: no overload fits the arguments",
        "    f32 [M] f(f32 [M] x)",
        "        parameter `x` has elements of type float64, expected float32 (f32)",
        "    s32 [M] f(s32 [M] x)",
        "        parameter `x` has elements of type float64, expected int32 (s32)",
        "    f32 [M, N] f(f32 [M, N] x)",
        "        parameter `x` has rank 1, expected 2",
        "    f32 [M] f(f32 [M] x, f32 [M] z)",
        "        `z` is missing",
    ]


def test_extents_are_checked_by_the_chosen_one(program: croq.Program) -> None:
    with pytest.raises(croq.BindError, match="dimension M is 3 in `x`"):
        program.f(np.zeros(3, np.float32), np.zeros(4, np.float32))


def test_numbers_prefer_their_own_type() -> None:
    program = croq.compile("""
__co__ int g(int n) { return 1; }
__co__ int g(f32 n) { return 2; }
__co__ int g(bool n) { return 3; }
__co__ int h(int n, f32 x) { return 1; }
__co__ int h(f32 n, int x) { return 2; }""")
    assert [program.g(v) for v in (3, 3.0, True, np.float32(1), np.int32(1), np.uint8(1))] == [1, 2, 3, 2, 1, 1]
    assert program.h(1, 2.5) == 1
    assert program.h(2.5, 1) == 2
    with pytest.raises(croq.BindError, match="several overloads fit the arguments") as error:
        program.h(1, 1)
    assert str(error.value).count("h(") == 2


def test_the_same_types_twice() -> None:
    (found,) = croq.check("__co__ void f(f32 [4] x, int n) {}\n__co__ void f(global f32 [8]& x, s32 k) {}")
    assert (found.code, found.span.line) == ("STO09", 2) or found.code == "NAM02"
    (found,) = croq.check("__co__ void f(f32 [4] x, int n) {}\n__co__ void f(f32 [M]& x, s32 k) {}")
    assert found.code == "NAM02"
    assert found.message == "`f` is already defined at line 1 for parameters of these types"
    assert found.span.line == 2


def test_messages_use_the_name_of_the_program() -> None:
    text = "__co__ int f(int n) { return n; }\n__co__ int f(f32 x) { }\n"
    (found,) = croq.check(text)
    assert found.message == "non-void function `f` never returns a value"
    program = croq.compile("__co__ int f(f32 x) { return 1; }\n__co__ int f(int n) { return 12 / n; }")
    with pytest.raises(croq.CheckError, match=r"^cell:2:30: f: division by zero"):
        program.f(0)


def test_overloads_from_the_cache(program: croq.Program) -> None:
    again = croq.compile(TEXT)
    x = np.arange(5, dtype=np.int32)
    assert np.array_equal(again.f(x), x * 3)
    assert np.array_equal(again.f(x.astype(np.float32)), x * 2.0)


def test_a_diagram_is_about_one_of_them(program: croq.Program) -> None:
    with pytest.raises(croq.BindError, match=r"f\.overloads\[0\]"):
        croq.viz.tiling(program.f)
    assert "f32 [M, N] f(" in str(program.f.overloads[2].signature)
    assert len(program.f.launches(np.zeros((2, 3), np.float32))) == 1


def test_a_cell_runs_the_overload_that_fits_its_variables(shell: InteractiveShell) -> None:
    text = "\n".join(TEXT.splitlines()[1:6])
    run = shell.run_cell
    shell.push({"x": np.arange(6, dtype=np.int32)})
    assert np.array_equal(run(f"%%croqtile\n{text}").result, np.arange(6) * 3)
    shell.push({"x": np.ones((2, 2), np.float32)})
    assert np.array_equal(run(f"%%croqtile -r f\n{text}").result, np.full((2, 2), 5))
    bound = run(f"%%croqtile -b x=v -b z=v\n{text}".replace("=v", "=x[0]")).result
    assert np.array_equal(bound, [0, 0])
    assert len(shell.user_ns["f"].overloads) == 4
