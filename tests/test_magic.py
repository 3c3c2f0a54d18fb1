"""`%%croqtile` in a shell of its own: options, binding by name, messages, errors."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from IPython.core.interactiveshell import InteractiveShell

import croq_magic as croq
from croq_magic.errors import OptionError

ADD = """__co__ s32 [4, 8] add(s32 [4, 8] lhs, s32 [4, 8] rhs) {
  s32 [lhs.span] output;
  parallel p by 4 {
    foreach q in [8] { output.at(p, q) = lhs.at(p, q) + rhs.at(p, q); }
  }
  return output;
}
"""
SCALE = """__co__ void scale(f32 [M]& v, f32 factor) {
  parallel p by M { v.at(p) = v.at(p) * factor; }
}
"""
CPU_LINE = "No GPU found: croqtile cells run on the CPU.\n"


@pytest.fixture
def shell(shell: InteractiveShell) -> InteractiveShell:
    """A fresh shell with the extension loaded, and arrays for `ADD`."""
    shell.push({"np": np, "lhs": np.arange(32, dtype=np.int32).reshape(4, 8), "rhs": np.full((4, 8), 5, np.int32)})
    return shell


@pytest.fixture
def run(shell: InteractiveShell) -> Callable[..., Any]:
    """Runs a cell and returns its value; an error of the cell is raised."""

    def runs(line: str, text: str) -> Any:
        result = shell.run_cell(f"%%croqtile {line}\n{text}", store_history=True)
        if result.error_in_exec is not None:
            raise result.error_in_exec
        assert result.error_before_exec is None
        return result.result

    return runs


def test_a_cell_runs_on_the_variables_of_the_notebook(shell: InteractiveShell, run: Any) -> None:
    out = run("", ADD)
    np.testing.assert_array_equal(out, shell.user_ns["lhs"] + 5)
    assert out.dtype == np.int32


def test_functions_become_variables(shell: InteractiveShell, run: Any) -> None:
    run("--no-run", ADD + SCALE)
    add, scale = shell.user_ns["add"], shell.user_ns["scale"]
    one = np.ones((4, 8), np.int32)
    np.testing.assert_array_equal(add(one, rhs=one), 2 * one)
    assert repr(add) == "<tileflow s32 [4, 8] add(s32 [4, 8] lhs, s32 [4, 8] rhs), target cpu>"
    assert "f32 [M]& v: array of np.float32, written in place" in scale.__doc__
    v = np.ones(6, np.float32)
    assert scale(v, 2.5) is None
    np.testing.assert_array_equal(v, np.full(6, 2.5, np.float32))


def test_output_names_the_value(shell: InteractiveShell, run: Any) -> None:
    assert run("-o out", ADD) is shell.user_ns["out"]


def test_output_of_a_void_function_is_refused(run: Any) -> None:
    with pytest.raises(OptionError, match="-o out: scale returns nothing"):
        run("-o out", SCALE)


def test_missing_variables_are_named(shell: InteractiveShell, run: Any, capsys: Any) -> None:
    del shell.user_ns["rhs"]
    assert run("-t cpu", ADD) is None
    assert capsys.readouterr().out == "add is defined but did not run: the notebook has no variable `rhs`.\n"
    del shell.user_ns["lhs"]
    assert run("-t cpu", ADD) is None
    assert "no variables `lhs` and `rhs`." in capsys.readouterr().out
    assert callable(shell.user_ns["add"])


def test_functions_stay_callable_when_binding_fails(shell: InteractiveShell, run: Any) -> None:
    shell.push({"rhs": np.zeros((4, 8))})
    with pytest.raises(croq.BindError, match=r"pass rhs\.astype\(np\.int32\)"):
        run("", ADD)
    one = np.ones((4, 8), np.int32)
    np.testing.assert_array_equal(shell.user_ns["add"](one, one), 2 * one)


def test_bind_takes_expressions(shell: InteractiveShell, run: Any) -> None:
    out = run("-b lhs=np.ones((4, 8), np.int32) -b 'rhs = lhs + 1'", ADD)
    np.testing.assert_array_equal(out, shell.user_ns["lhs"] + 2)
    with pytest.raises(croq.BindError, match=r"pass \(rhs \* 1\.0\)\.astype\(np\.int32\)"):
        run("-b 'rhs=rhs * 1.0'", ADD)
    with pytest.raises(OptionError, match="-b lsh: the parameters of add are lhs, rhs"):
        run("-b lsh=lhs", ADD)


def test_define_takes_expressions(shell: InteractiveShell, run: Any) -> None:
    shell.push({"rows": 2})
    text = ADD.replace("parallel p by 4", "parallel p by N")
    np.testing.assert_array_equal(run("-D N=rows*2", text), shell.user_ns["lhs"] + 5)


def test_nothing_in_a_cell_is_expanded(shell: InteractiveShell, run: Any) -> None:
    shell.push({"x": "expanded"})
    out = run("-b rhs={'a':rhs}['a']", ADD.replace("lhs.at(p, q) +", "/* {x} $x */ lhs.at(p, q) +"))
    np.testing.assert_array_equal(out, shell.user_ns["lhs"] + 5)


def test_run_chooses_the_function(shell: InteractiveShell, run: Any) -> None:
    shell.push({"v": np.ones(3, np.float32), "factor": 3.0})
    run("", ADD + SCALE)
    np.testing.assert_array_equal(shell.user_ns["v"], [3, 3, 3])
    out = run("-r add", ADD + SCALE)
    np.testing.assert_array_equal(out, shell.user_ns["lhs"] + 5)
    np.testing.assert_array_equal(shell.user_ns["v"], [3, 3, 3])
    with pytest.raises(OptionError, match="-r sub: the cell defines add, scale"):
        run("-r sub", ADD + SCALE)


def test_arrays_written_in_place_are_named(shell: InteractiveShell, run: Any, capsys: Any) -> None:
    shell.push({"v": np.ones(3, np.float32), "factor": 3.0})
    run("-t cpu", SCALE)
    assert capsys.readouterr().out == "v was modified in place\n"


def test_the_cpu_is_announced_once(run: Any, capsys: Any) -> None:
    run("--no-run", ADD)
    assert capsys.readouterr().out == CPU_LINE
    run("--no-run", ADD)
    assert capsys.readouterr().out == ""


def test_settings(shell: InteractiveShell, run: Any, capsys: Any) -> None:
    shell.run_line_magic("config", "CroqtileMagics.target = 'cpu'")
    shell.run_line_magic("config", "CroqtileMagics.time = True")
    run("--no-run", ADD)
    out = capsys.readouterr().out
    assert CPU_LINE not in out and out.startswith("compiled in ")
    shell.run_line_magic("config", "CroqtileMagics.target = 'abacus'")
    with pytest.raises(croq.TargetError, match="abacus"):
        run("--no-run", ADD)
    run("--no-run -t cpu", ADD)


def test_a_cell_without_a_tileflow_function(run: Any, capsys: Any) -> None:
    assert run("-t cpu", "__device__ int twice(int x) { return 2 * x; }") is None
    assert "no tileflow function" in capsys.readouterr().out


@pytest.mark.parametrize("cell", ["%%croqtile", "%%croqtile\n", "%%croqtile -o out", "\n%%croqtile\n\n"])
def test_a_cell_without_a_body(cell: str, shell: InteractiveShell, capsys: pytest.CaptureFixture[str]) -> None:
    """IPython itself refuses cell magics without a body."""
    shell.run_cell(cell).raise_error()
    assert "no tileflow function" in capsys.readouterr().out


def test_options_of_a_cell_without_a_body(shell: InteractiveShell, capsys: pytest.CaptureFixture[str]) -> None:
    shell.run_cell("%%croqtile --help").raise_error()
    assert "--no-run" in capsys.readouterr().out
    shell.run_line_magic("unload_ext", "croq_magic")
    assert not shell.run_cell("%%croqtile").success


def test_warnings_of_extents_are_shown(shell: InteractiveShell, run: Any, capsys: Any) -> None:
    shell.push({"v": np.ones(10, np.float32)})
    run(
        "-t cpu",
        """__co__ void touch(f32 [M]& v) {
  parallel p by 4 : block { t = dma.copy v.chunkat(p) => shared; dma.copy t => v.chunkat(p); }
}""",
    )
    shown = capsys.readouterr()
    assert "cell:3:" in shown.err and "warning" in shown.err and "M = 10" in shown.err
    assert ".py" not in shown.err


def test_emit(run: Any, capsys: Any) -> None:
    run("-t cpu --no-run --emit ir", ADD)
    assert "output" in capsys.readouterr().out
    run("-t cpu --no-run --emit source", ADD)
    assert "#line" in capsys.readouterr().out
    run("-t cpu --no-run --emit syntax", ADD)
    assert "add" in capsys.readouterr().out


def test_time(run: Any, capsys: Any) -> None:
    run("-t cpu --time", ADD)
    first = capsys.readouterr().out.splitlines()[0]
    assert re.fullmatch(r"compiled in [\d.]+ m?s, ran in [\d.]+ m?s", first)


def test_errors_are_raised_and_shown_without_our_traceback(shell: InteractiveShell, run: Any, capsys: Any) -> None:
    with pytest.raises(croq.CompileError) as caught:
        run("", ADD.replace("rhs.at(p, q)", "rsh.at(p, q)"))
    assert caught.value.diagnostics[0].span.line == 5  # the magic line is line 1
    shown = capsys.readouterr().out
    assert "cell:5:" in shown and "rsh" in shown
    assert "Traceback" not in shown and ".py" not in shown and "run_cell_magic" not in shown


def test_lines_are_counted_as_the_notebook_shows_them(shell: InteractiveShell) -> None:
    wrong = ADD.replace("rhs.at(p, q)", "rsh.at(p, q)")
    result = shell.run_cell(f"\n\n%%croqtile\n{wrong}", store_history=True)
    assert isinstance(result.error_in_exec, croq.CompileError)
    assert result.error_in_exec.diagnostics[0].span.line == 7


def test_mistakes_of_ours_say_so(run: Any, monkeypatch: Any) -> None:
    def broken(*_: Any) -> None:
        raise RuntimeError("lost")

    monkeypatch.setattr("croq_magic.program.compile", broken)
    with pytest.raises(RuntimeError, match="lost") as caught:
        run("", ADD)
    assert "mistake in croq_magic" in caught.value.__notes__[0]

    def stopped(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("croq_magic.program.compile", stopped)
    with pytest.raises(KeyboardInterrupt, match="interrupted before anything ran"):
        run("", ADD)


def test_what_a_program_prints_while_it_is_compiled_is_printed_every_time(run: Any, capsys: Any) -> None:
    program = '__co__ int one() { println!("extent ", 4 * 4); return 1; }'
    for _ in range(3):
        assert run("-t cpu", program) == 1
        assert capsys.readouterr().out.splitlines()[0] == "extent 16"


def test_wrong_options_are_no_usage_error(run: Any) -> None:
    with pytest.raises(OptionError):
        run("--nonsense", ADD)


def test_errors_in_python_show_the_users_lines(shell: InteractiveShell, run: Any, capsys: Any) -> None:
    run("--no-run", ADD)
    capsys.readouterr()
    result = shell.run_cell("def twice(x):\n    return add(x, x)\n\ntwice(np.zeros((4, 8)))")
    assert isinstance(result.error_in_exec, croq.BindError)
    shown = capsys.readouterr().out
    assert "line 4" in shown and "line 2, in twice" in shown and "return add(x, x)" in shown
    assert "binding.py" not in shown and "program.py" not in shown


def test_what_another_cell_defines_is_unknown_and_explained(run: Any, shell: InteractiveShell) -> None:
    run("--no-run", "#define WIDTH 8\n__device__ int twice(int x) { return 2 * x; }\n" + ADD)
    cell = shell.execution_count - 1
    with pytest.raises(croq.CompileError, match=rf"`WIDTH` is defined in cell In\[{cell}\]"):
        run("--no-run", ADD.replace("[8]", "[WIDTH]"))


def test_device_functions_of_another_cell_are_explained_too(run: Any) -> None:
    run("--no-run -t cpu", "__device__ void twice(int* x) { x[0] *= 2; }\n" + ADD)
    caller = """__co__ void f(s32 [M]& v) {
  parallel p by 1 { t = dma.copy v => shared; call twice(t.data); dma.copy t => v; }
}"""
    with pytest.raises(croq.CompileError, match=r"`twice` is defined in cell In\[1\]"):
        run("-t cpu -b v=np.zeros(4,np.int32)", caller)


def test_a_whole_program_runs_and_defines_its_functions(shell: InteractiveShell, run: Any, capsys: Any) -> None:
    host = """int main() {
  auto a = choreo::make_spandata<choreo::s32>(4, 8);
  a.fill(20);
  auto res = add(a.view(), a.view());
  std::cout << res[3][7] << std::endl;
}
"""
    assert run("", "#include <iostream>\n" + ADD + host) is None
    assert "40" in capsys.readouterr().out.splitlines()
    lhs = shell.user_ns["lhs"]
    np.testing.assert_array_equal(shell.user_ns["add"](lhs, lhs), lhs + lhs)
    np.testing.assert_array_equal(run("-r add", ADD + host), lhs + shell.user_ns["rhs"])


def test_show_draws_figures(shell: InteractiveShell, run: Any, monkeypatch: Any) -> None:
    shown: list[Any] = []
    monkeypatch.setattr("IPython.display.display", shown.append)
    run("--show tiling,mapping", ADD)
    assert [type(figure).__name__ for figure in shown] == ["Diagram", "Diagram"]
    assert hasattr(shown[0], "figure") and shown[0].text


def test_the_theme_of_figures_is_a_setting(shell: InteractiveShell, run: Any, monkeypatch: Any) -> None:
    shown: list[Any] = []
    monkeypatch.setattr("IPython.display.display", shown.append)
    try:
        shell.run_line_magic("config", 'CroqtileMagics.theme = "dark"')
        run("--show tiling", ADD)
    finally:
        shell.run_line_magic("config", 'CroqtileMagics.theme = "light"')
    run("--show tiling", ADD)
    dark, light = (sum(figure.figure.get_facecolor()[:3]) for figure in shown)
    assert dark < 0.5 and light > 2.5


def test_help_is_the_declaration(shell: InteractiveShell, run: Any, capsys: Any) -> None:
    run("--help", "anything")
    assert "usage: %%croqtile [-o NAME]" in capsys.readouterr().out
    assert "usage: %%croqtile [-o NAME]" in shell.find_magic("croqtile", "cell").__doc__


def test_doctor(shell: InteractiveShell, capsys: Any) -> None:
    shell.run_line_magic("croqtile", "")
    lines = capsys.readouterr().out.splitlines()
    names = ["croq_magic", "packages", "system", "target", "compiler", "cache", "gpu", "cuda"]
    assert [line.split()[0] for line in lines] == names
    assert croq.__version__ in lines[0] and "numpy" in lines[1]


def test_loading_twice_and_unloading(shell: InteractiveShell) -> None:
    shell.run_line_magic("reload_ext", "croq_magic")
    croq.load_ipython_extension(shell)
    assert sum(type(each).__name__ == "CroqtileMagics" for each in shell.configurables) == 1
    croq.unload_ipython_extension(shell)
    assert shell.find_magic("croqtile", "cell") is None


def test_a_function_does_not_take_the_place_of_its_argument(shell: InteractiveShell, run: Any) -> None:
    v = np.ones(3, np.float32)
    shell.push({"v": v})
    cell = SCALE.replace("scale", "v", 1)
    for line in ("-b factor=2.0", "-b v=v -b factor=2.0"):
        with pytest.raises(
            croq.BindError, match="a function of this cell and the variable for a parameter have one name"
        ):
            run(line, cell)
        assert shell.user_ns["v"] is v


def test_a_function_named_like_a_word_of_python_is_pointed_out(run: Any, capsys: Any) -> None:
    run("", "__co__ void lambda() {}")
    assert "lambda is a word of Python" in capsys.readouterr().out


def test_a_cell_is_compiled_anew_when_a_file_it_includes_changes(run: Any, tmp_path: Any, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    text = '#include "factor.h"\n__co__ int f() { return FACTOR; }\n'
    for factor in (3, 4):
        (tmp_path / "factor.h").write_text(f"#define FACTOR {factor}\n")
        assert run("", text) == factor
