"""The magic line: words, options, and what a wrong one says."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from croq_magic import options
from croq_magic.errors import OptionError


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("-o out  -t cpu", ["-o", "out", "-t", "cpu"]),
        ("-b x=f(a, b)['k v']", ["-b", "x=f(a, b)['k v']"]),
        ("-b x=a[:, 0] -r f", ["-b", "x=a[:, 0]", "-r", "f"]),
        ('-b "x = a + b"', ["-b", "x = a + b"]),
        ("-D 'T = \"f32\"'", ["-D", 'T = "f32"']),
        ('-D T="a b"', ["-D", 'T="a b"']),
        ('-D T="a\\" b"', ["-D", 'T="a\\" b"']),
        ("", []),
    ],
)
def test_words(line: str, words: list[str]) -> None:
    assert options.split(line) == words


@pytest.mark.parametrize(
    ("line", "message"), [("-b x='a", "quote ' is not closed"), ("-b x=f(a", "bracket is not closed")]
)
def test_unclosed(line: str, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        options.split(line)


def test_all_options() -> None:
    line = "-o out -t cpu -D N=4*4 -D M -b x=a.T -r f --no-run --show tiling,mapping --emit ir --time --checks all"
    given = options.parse(line)
    assert (given.output, given.target, given.run, given.emit, given.checks) == ("out", "cpu", "f", "ir", "all")
    assert given.defines == [("N", "4*4"), ("M", "1")]
    assert given.bindings == [("x", "a.T")]
    assert given.show == ("tiling", "mapping")
    assert given.no_run and given.time


def test_nothing_given() -> None:
    given = options.parse("")
    assert given.target is given.checks is given.show is given.time is given.output is None
    assert given.defines == given.bindings == [] and not given.no_run


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("--norun", "did you mean --no-run?"),
        ("-x", "unrecognized arguments: -x"),
        ("stray", "unrecognized arguments: stray"),
        ("-b x", "'x' is not of the form NAME=EXPR"),
        ("-b 3=x", "'3=x' is not of the form NAME=EXPR"),
        ("-D N=", "'N=' is not of the form NAME=EXPR"),
        ("-o 2x", "'2x' is not a name"),
        ("-o", "expected one argument"),
        ("--show tilling", "no figure 'tilling' (choose from tiling, mapping)"),
        ("--emit asm", "invalid choice: 'asm'"),
        ("--checks some", "invalid choice: 'some'"),
    ],
)
def test_wrong_options(line: str, message: str) -> None:
    with pytest.raises(OptionError) as caught:
        options.parse(line)
    assert message in str(caught.value)
    assert "usage: %%croqtile [-o NAME]" in str(caught.value)


def test_every_option_is_explained() -> None:
    text = options.parser().format_help()
    for option in ("-o", "-t", "-D", "-b", "-r", "--no-run", "--show", "--emit", "--time", "--checks"):
        assert f"  {option}" in text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (16, "16"),
        (-3, "(-3)"),
        (np.int64(7), "7"),
        (np.array(7), "7"),
        (True, "1"),
        (np.bool_(False), "0"),
        (0.5, "0.5"),
        (-1e-5, "(-1e-05)"),
        ("a + b", "a + b"),
    ],
)
def test_macro_text(value: Any, text: str) -> None:
    assert options.macro_text(value, "-D N") == text


@pytest.mark.parametrize("value", [[1], None, np.zeros(3), float("nan"), float("inf")])
def test_values_that_are_no_macro(value: Any) -> None:
    with pytest.raises(OptionError, match="-D N: a macro needs a finite number or a string"):
        options.macro_text(value, "-D N")


def test_expressions_see_the_notebook() -> None:
    assert options.evaluate("a + 1", {"a": 2}, "-b x") == 3
    with pytest.raises(OptionError, match="-b x: cannot evaluate `nothing`: NameError"):
        options.evaluate("nothing", {}, "-b x")
    with pytest.raises(OptionError, match=r"-b x: cannot evaluate `1 \+`: SyntaxError: invalid syntax$"):
        options.evaluate("1 +", {}, "-b x")


def test_a_name_is_given_once() -> None:
    with pytest.raises(OptionError, match=r"^-b x is given twice: x=a and x=b$"):
        options.parse("-b x=a -b y=a -b x=b")
    with pytest.raises(OptionError, match=r"^-D N is given twice: N=1 and N=2$"):
        options.parse("-D N -D N=2")
    assert options.parse("-b x=a -D x=2").bindings == [("x", "a")]


def test_a_word_of_python_is_no_variable() -> None:
    with pytest.raises(OptionError, match="'class' is a word of Python and names no variable; class_ would do"):
        options.parse("-o class")


def test_an_expression_with_blanks_is_explained() -> None:
    with pytest.raises(OptionError, match='an expression with blanks is quoted as a whole, -b "x = a \\+ b"'):
        options.parse("-b lhs=2 * lhs")
