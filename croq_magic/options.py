"""The options of `%%croqtile`: one declaration that parses them and is their help text."""

from __future__ import annotations

import argparse
import difflib
import keyword
from typing import Any, NoReturn

from croq_magic.errors import OptionError

CHECK_LEVELS = ("auto", "none", "entry", "low", "medium", "high", "all")
EMIT_KINDS = ("source", "ir", "syntax")
CUDA_KINDS = ("cuda", "ptx", "sass")  # shown without a GPU too
FIGURES = ("tiling", "mapping")


_DESCRIPTION = """\
Compile the tileflow program in this cell and run it on the notebook's arrays.
Every __co__ function becomes a callable variable. The last one (or -r) runs if all its parameters have
variables of the same name; its value is the value of the cell. A cell with `int main()` is a whole program,
which runs in a process of its own."""


class _Parser(argparse.ArgumentParser):
    """Raises `OptionError` where argparse would print and exit."""

    def error(self, message: str) -> NoReturn:
        known = [option for action in self._actions for option in action.option_strings]
        word = message.rpartition(":")[2].split()
        if message.startswith("unrecognized") and word and not word[0].startswith("-"):
            message += '; an expression with blanks is quoted as a whole, -b "x = a + b"'
        near = difflib.get_close_matches(word[0], known, n=1) if message.startswith("unrecognized") and word else []
        message += f" (did you mean {near[0]}?)" if near else ""
        raise OptionError(f"{message}\n{self.format_usage().strip()}")


def _assignment(text: str) -> tuple[str, str]:
    name, separator, expression = text.partition("=")
    name = name.strip()
    if not separator or not name.isidentifier() or not expression.strip():
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form NAME=EXPR")
    return name, expression.strip()


def _definition(text: str) -> tuple[str, str]:
    return (text, "1") if text.isidentifier() else _assignment(text)


def _identifier(text: str) -> str:
    if not text.isidentifier():
        raise argparse.ArgumentTypeError(f"{text!r} is not a name")
    return text


def _variable(text: str) -> str:
    """The name of a variable of the notebook."""
    if keyword.iskeyword(_identifier(text)):
        raise argparse.ArgumentTypeError(f"{text!r} is a word of Python and names no variable; {text}_ would do")
    return text


def figures(text: str) -> tuple[str, ...]:
    """`tiling,mapping` as a tuple; "" is none."""
    names = tuple(name.strip() for name in text.split(",") if name.strip())
    unknown = [name for name in names if name not in FIGURES]
    if unknown:
        raise argparse.ArgumentTypeError(f"no figure {unknown[0]!r} (choose from {', '.join(FIGURES)})")
    return names


def parser() -> argparse.ArgumentParser:
    """The one declaration. `None` as a value means: not given, the setting of `%config CroqtileMagics` counts."""
    p = _Parser(
        prog="%%croqtile",
        description=_DESCRIPTION,
        add_help=False,
        allow_abbrev=False,
        formatter_class=lambda prog: argparse.RawDescriptionHelpFormatter(prog, max_help_position=30, width=110),
    )
    add = p.add_argument
    add("-o", "--output", metavar="NAME", type=_variable, help="store the value in this variable too")
    add("-t", "--target", metavar="TARGET", help="auto (default), cpu, cuda, ...")
    add("-a", "--arch", metavar="ARCH", help="architecture of the target: native (default), sm_80, sm_90a, ...")
    add("-D", dest="defines", metavar="NAME=EXPR", action="append", default=[], type=_definition)
    p._actions[-1].help = "define a macro; EXPR is a Python expression"
    add("-b", "--bind", dest="bindings", metavar="PARAM=EXPR", action="append", default=[], type=_assignment)
    p._actions[-1].help = "bind a parameter to the value of a Python expression"
    add("-r", "--run", metavar="FUNCTION", type=_identifier, help="run this function instead of the last one")
    add("--args", metavar='"ARGS"', default="", help="command line of a program with `main`")
    add("--no-run", action="store_true", help="compile only")
    add("--show", metavar="FIGURES", type=figures, help="draw tiling, mapping or both (tiling,mapping)")
    add("--emit", metavar="FORM", choices=(*EMIT_KINDS, *CUDA_KINDS))
    p._actions[-1].help = "print the generated source, the tile IR (ir), the syntax tree (syntax), cuda, ptx or sass"
    add("--time", action="store_true", default=None, help="print how long compiling and running took")
    add("--checks", metavar="LEVEL", choices=CHECK_LEVELS, help=f"run-time checks: {', '.join(CHECK_LEVELS)}")
    add("-h", "--help", action="store_true", help="show this text")
    return p


def parse(line: str) -> argparse.Namespace:
    """The options of a magic line. Raises `OptionError`."""
    given = parser().parse_args(split(line))
    for option, pairs in (("-b", given.bindings), ("-D", given.defines)):
        values: dict[str, str] = {}
        for name, value in pairs:
            if name in values:
                raise OptionError(f"{option} {name} is given twice: {name}={values[name]} and {name}={value}")
            values[name] = value
    return given


def split(line: str) -> list[str]:
    """Words of a magic line.

    Blanks inside quotes and brackets do not separate, so that Python expressions need no quoting: `-b x=f(a, b)["k"]`.
    A word that is quoted as a whole loses its quotes: `-b "x = a + b"`.
    """
    words: list[str] = []
    current, quote, depth = "", "", 0
    escaped = False
    for char in line:
        if quote:
            current += char
            if escaped:
                escaped = False
            elif char == "\\":
                escaped = True
            elif char == quote:
                quote = ""
            continue
        if char in "\"'":
            quote = char
        elif char in "([{":
            depth += 1
        elif char in ")]}":
            depth -= 1
        if char.isspace() and depth <= 0:
            if current:
                words.append(current)
            current = ""
        else:
            current += char
    if quote:
        raise OptionError(f"the quote {quote} is not closed in: {line.strip()}")
    if depth > 0:
        raise OptionError(f"a bracket is not closed in: {line.strip()}")
    if current:
        words.append(current)
    return [_unquoted(word) for word in words]


def words(text: str, option: str) -> list[str]:
    """Words of a command line, quoted as in a shell. Raises `OptionError`."""
    import shlex

    try:
        return shlex.split(text)
    except ValueError as error:
        raise OptionError(f"{option}: {str(error).lower()}: {text}") from None


def _unquoted(word: str) -> str:
    whole = len(word) > 1 and word[0] in "\"'" and word.index(word[0], 1) == len(word) - 1
    return word[1:-1] if whole else word


def evaluate(expression: str, namespace: dict[str, Any], option: str) -> Any:
    """The value of a Python expression in the notebook's namespace. Raises `OptionError`."""
    try:
        return eval(compile(expression, option, "eval"), namespace)
    except Exception as error:
        reason = error.msg if isinstance(error, SyntaxError) else error
        raise OptionError(f"{option}: cannot evaluate `{expression}`: {type(error).__name__}: {reason}") from error


def macro_text(value: Any, option: str) -> str:
    """What a macro defined with a Python value expands to."""
    if hasattr(value, "item") and getattr(value, "shape", None) == ():
        value = value.item()
    if isinstance(value, bool):
        return "1" if value else "0"
    if isinstance(value, (int, float)) and value == value and abs(value) != float("inf"):
        return repr(value) if value >= 0 else f"({value!r})"  # a minus sign must not meet another one
    if isinstance(value, str):
        return value
    came = repr(value) if isinstance(value, float) else f"a value of type {type(value).__name__}"
    raise OptionError(f"{option}: a macro needs a finite number or a string, not {came}")
