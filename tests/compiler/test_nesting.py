"""Deep nesting: compiled, or refused with SYN19, in either case at once."""

from __future__ import annotations

import time

import numpy as np
import pytest

import croq_magic as croq


def body(text: str) -> str:
    return f"__co__ void f(f32 [8, 16]& g, s32 [16]& y, int n) {{ parallel b by 1 : block {{ {text} }} }}"


def names(step: str, count: int) -> str:
    lines = [f"int a{i} = {step.format(before=f'a{i - 1}' if i else 'n', i=i)};" for i in range(count)]
    return f"{''.join(lines)} y.at(0) = a{count - 1};"


SHAPES = {
    "parentheses": lambda n: f"y.at(0) = {'(' * n}n{')' * n};",
    "minus": lambda n: f"y.at(0) = {'- ' * n}n;",
    "not": lambda n: f"x = {'! ' * n}(n > 0);",
    "sum": lambda n: f"y.at(0) = {' + '.join(['n'] * n)};",
    "loads": lambda n: f"g.at(0, 0) = {' + '.join(['g.at(0, 1)'] * n)};",
    "right": lambda n: f"y.at(0) = {'(n * ' * n}1{')' * n};",
    "and": lambda n: f"if ({' && '.join(f'n > {i}' for i in range(n))}) y.at(0) = 1;",
    "and loads": lambda n: f"if ({' && '.join(f'y.at({i % 16}) > 0' for i in range(n))}) y.at(0) = 1;",
    "mod": lambda n: f"y.at(0) = n{' % 7' * n};",
    "ternary": lambda n: f"y.at(0) = {'n > 0 ? 1 : ' * n}2;",
    "max": lambda n: f"y.at(0) = {'__max(n, ' * n}1{')' * n};",
    "exp": lambda n: f"g.at(0, 0) = {'__exp(' * n}1.0f{')' * n};",
    "index": lambda n: f"y.at(0) = {'y.at(' * n}0{')' * n};",
    "views": lambda n: f"t = g{'.subspan(8, 16).at(0, 0)' * n};",
    "braces": lambda n: f"{'{' * n}y.at(0) = 1;{'}' * n}",
    "if": lambda n: f"{'if (n > 0) ' * n}y.at(0) = 1;",
    "foreach": lambda n: f"{'foreach i in [2] ' * n}y.at(0) = 1;",
    "inthreads": lambda n: f"{'inthreads (b == 0) ' * n}y.at(0) = 1;",
    "open": lambda n: f"x = {'(' * n}",
    "names": lambda n: names("{before} * 3 + {i}", n),
    "names, mod": lambda n: names("({before} + {i}) % 17", n),
    "names, doubled": lambda n: names("{before} + {before}", n),
}


@pytest.mark.parametrize("count", [300, 1500])
@pytest.mark.parametrize("shape", SHAPES)
def test_an_answer_comes_at_once(shape: str, count: int) -> None:
    if count > 300 and shape.startswith("names"):
        pytest.skip("lines, not levels")
    program = body(SHAPES[shape](count))
    started = time.process_time()
    found = [d.code for d in croq.check(program) if d.severity == "error"]
    assert time.process_time() - started < 2.0
    assert shape == "open" or set(found) <= {"SYN19"}, found


@pytest.mark.parametrize("op", ["*", "+", "-"])
def test_long_chains_of_names_are_quick(op: str) -> None:
    names = [f"a{i}" for i in range(1000)]
    parameters = ", ".join(f"int {name}" for name in names)
    program = f"""__co__ s32 [4] f(s32 [4] x, {parameters}) {{
      s32 [4] r;
      parallel i by 4 {{ r.at(i) = x.at({f" {op} ".join(names)}); }}
      return r;
    }}"""
    started = time.process_time()
    assert croq.check(program, target="cpu") == []
    assert time.process_time() - started < 2.0


def test_the_place_and_the_hint() -> None:
    (found,) = croq.check(body(SHAPES["braces"](200)))
    assert found.code == "SYN19"
    assert found.message == "`f` is nested too deeply: more than 128 statements inside each other"
    (found,) = croq.check(body(SHAPES["index"](40)))
    assert found.hint == "name intermediate results"


def test_chains_are_no_nesting() -> None:
    count = 300
    cases = "".join(f"if (n == {i}) y.at(0) = {i} * 2; else " for i in range(count))
    text = body(f"{cases} y.at(0) = -1; y.at(1) = {' + '.join(['n'] * 2000)};")
    program = croq.compile(text, target="cpu")
    for n in (0, 17, count - 1, count):
        y = np.zeros(16, np.int32)
        program.f(np.zeros((8, 16), np.float32), y, n)
        assert y[:2].tolist() == [2 * n if n < count else -1, 2000 * n]


@pytest.mark.parametrize("step", ["({before} + {i}) % 17", "__max({before}, {i}) / 2", "{before} - {before} / 3"])
def test_names_made_of_names(step: str) -> None:
    count, n = 90, 12345
    program = croq.compile(body(names(step, count)), target="cpu")
    y = np.zeros(16, np.int32)
    program.f(np.zeros((8, 16), np.float32), y, n)
    value = n
    for i in range(count):
        value = eval(step.format(before=value, i=i).replace("/", "//").replace("__max", "max"))
    assert y[0] == value
