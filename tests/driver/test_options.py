"""The command line: every form of an option, and what is wrong with a wrong one."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from croq_magic.driver.options import OPTIONS, UsageError, help_text, parse


@pytest.mark.parametrize(
    ("words", "field", "value"),
    [
        ("-DN=4 -D M -DK= a.co", "defines", {"N": "4", "M": "1", "K": ""}),
        ("-DN=4 -UN -D N=5 a.co", "defines", {"N": "5"}),
        ("-DN=4 -U N a.co", "defines", {}),
        ("-DN=4 -U N -DM a.co", "macro_flags", ["-DN=4", "-UN", "-DM"]),
        ("-Iinclude -I more a.co", "include", ["include", "more"]),
        ("-oout a.co", "output", "out"),
        ("a.co -o out", "output", "out"),
        ("a.co -E -o -", "output", "-"),
        ("-t cc a.co", "target", "cc"),
        ("--target=cpu a.co", "target", "cpu"),
        ("-arch=sm_80 a.co", "arch", "sm_80"),
        ("-arch sm_90a a.co", "arch", "sm_90a"),
        ("a.co", "checks", "entry"),
        ("-rtc high a.co", "checks", "high"),
        ("-rtc=low a.co", "checks", "low"),
        ("--runtime-check=all a.co", "checks", "all"),
        ("--disable-runtime-check a.co", "checks", "none"),
        ("-j4 a.co", "jobs", 4),
        ("-j 3 a.co", "jobs", 3),
        ("-lm -L lib a.co", "link", ["-lm", "-Llib"]),
        ("-es a.co", "stage", "-es"),
        ("-ii a.co", "stage", "-ii"),
        ("-c a.co -c", "stage", "-c"),
        ("--show a.co", "show", ("launches", "tiling")),
        ("--show ir a.co", "show", ("ir",)),
        ("--show=mapping,tiling a.co", "show", ("mapping", "tiling")),
        ("--show --sizes M=4,N=-5 a.co", "sizes", {"M": 4, "N": -5}),
        ("-w -Werror -g -v -n --conformance a.co", "werror", True),
        ("a.co -Xcompiler -O1 b.co", "inputs", ["a.co", "b.co"]),
        ("-E -- -a.co", "inputs", ["-a.co"]),
        ("-E -", "inputs", ["-"]),
    ],
)
def test_forms(words: str, field: str, value: object) -> None:
    assert getattr(parse(words.split()), field) == value


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("", "no input file"),
        ("-E", "no input file"),
        ("a.co -o", "-o needs a value: -o FILE"),
        ("a.co -D", "-D needs a value"),
        ("a.co -o ''", "-o needs a value"),
        ("a.co -D4", "'4' is not the name of a macro"),
        ("a.co --target=", "-t needs a value"),
        ("a.co -E=1", "-E takes no value"),
        ("a.co --targt cpu", "did you mean --target?"),
        ("a.co -lib2 --libs", "did you mean --lib?"),
        ("a.co --E", "did you mean -E?"),
        ("a.co -Zz", "unknown option -Zz (croqtile -h lists them)"),
        ("a.co -rtc hi", "no level 'hi'; there are none, entry, low"),
        ("a.co -j0", "at least 1"),
        ("a.co -jx", "unknown option -jx"),
        ("a.co -o x -o y", "two outputs: x and y"),
        ("a.co -c -S", "-c and -S exclude each other"),
        ("a.co --show -c", "--show and -c exclude each other"),
        ("a.co --show=mappin", "did you mean mapping?"),
        ("a.co --sizes M", "'M' is not of the form NAME=N"),
        ("a.co b.co -c -o x.o", "-o names one file, but -c makes one for each"),
        ("a.co -o -", "an executable cannot go to standard output"),
        ("- -E -", "standard input can be read only once"),
        ("a.co a.co", "a.co is given twice"),
    ],
)
def test_mistakes(words: str, message: str) -> None:
    with pytest.raises(UsageError) as raised:
        parse([word.strip("'") for word in words.split()])
    assert message in str(raised.value)


def test_help_names_every_option_and_fits_a_terminal() -> None:
    text = help_text()
    for option in OPTIONS:
        for flag in option.flags:
            assert flag in text
    assert max(map(len, text.splitlines())) <= 112


def test_help_needs_no_file() -> None:
    assert parse(["-h"]).help
    assert parse(["--version"]).version
    assert parse(["--explain", "SHP01"]).explain == "SHP01"


def test_the_documentation_names_every_option() -> None:
    text = (Path(__file__).parents[2] / "docs" / "programs.md").read_text()
    named = set(re.findall(r"`(--?[\w-]+)", text))
    assert {flag for option in OPTIONS for flag in option.flags} <= named


WORDS = [flag for option in OPTIONS for flag in option.flags] + [
    *(
        "-",
        "--",
        "a.co",
        "b.o",
        "",
        "x=1",
        "N",
        "-DN=1",
        "--show=ir",
        "-rtc=all",
        "-j2",
        "--sizes=M=3",
        "---",
        "-=",
        "=",
    )
]


@settings(deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(st.sampled_from(WORDS), max_size=6))
def test_any_command_line_is_understood_or_refused_in_words(words: list[str]) -> None:
    try:
        options = parse(words)
    except UsageError as error:
        assert "\n" not in str(error)
    else:
        assert options.inputs or options.help or options.version or options.explain is not None
