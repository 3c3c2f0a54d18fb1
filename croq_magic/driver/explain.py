"""`croqtile --explain CODE`: what a diagnostic means, a program that draws it, and what is said about it."""

from __future__ import annotations

import difflib
import json
import textwrap
from importlib import resources
from typing import TypedDict

from croq_magic.compiler.codes import CODES
from croq_magic.driver.options import UsageError


class _Example(TypedDict):
    program: str
    message: str
    hint: str | None


def explain(code: str) -> str:
    """The long text of a code, in any case of letters. Raises `UsageError` for one that does not exist."""
    wanted = code.strip("[]").upper()
    if wanted not in CODES:
        near = difflib.get_close_matches(wanted, CODES, n=1)
        known = f"did you mean {near[0]}?" if near else f"codes look like {next(iter(CODES))}"
        raise UsageError(f"--explain: there is no diagnostic {code}; {known}")
    entry = CODES[wanted]
    lines = [f"{entry.code} ({entry.severity}): {entry.title}", f"Subject: {entry.section}"]
    path = resources.files("croq_magic").joinpath("compiler/explanations.json")
    examples: dict[str, _Example] = json.loads(path.read_text(encoding="utf-8"))
    if (example := examples.get(wanted)) is not None:
        lines += ["", "For example, this program", ""]
        lines += [f"    {line}" for line in example["program"].splitlines()]
        lines += ["", "draws the message", "", f"    {entry.severity}: {example['message']} [{entry.code}]"]
        if example["hint"]:
            lines.append(f"    hint: {example['hint']}")
    elif entry.code in _MORE:
        lines += ["", *textwrap.wrap(_MORE[entry.code], 100)]
    if entry.severity == "warning":
        lines += ["", "A warning changes nothing in what the program does; -w drops it, -Werror makes it an error."]
    return "\n".join(lines)


_MORE = {
    "SYN18": "A word looks like one of the markers `__co__`, `__cok__`, `__device__` or `__co_device__` and is none: "
    "the text behind it counts as host text.",
    "SYN19": "Expressions or blocks stand inside each other too deeply for the compiler. Names for intermediate "
    "results make them flat.",
    "SYN20": "Text outside functions is no declaration of C++, for example a line of Python in the cell of a program.",
    "TYP22": "The divisor is the constant zero, or is proven to be zero.",
    "STO10": "A span that was passed without `&` is written. The caller's array changes, which its declaration hides.",
    "STO11": "A `local` belongs to each instance of the level that declares it; a finer level's instances would all "
    "write to it at once.",
    "STO12": "A shared or local span is larger than any target's memory of that kind.",
    "SHP15": "An extent, or a number of instances, is larger than indices can count.",
    "PAR29": "Named barriers have numbers from 1 and count whole groups of 32 threads.",
    "PRE07": "The preprocessor does not know the directive or the form of a macro: `#x` and `a##b` "
    "would collide with the operator `#` of the language, and `#include` belongs to host text.",
    "RAC01": "Two instances touch one element, at least one of them writes, and no join orders them.",
    "CXX01": "The target's C++ compiler refuses host or device text, which is passed on as it is written. The message "
    "is that compiler's own, at the line of the program.",
    "PRF01": "Neighbouring threads access elements that lie apart, so that a GPU moves more sectors of 32 bytes than "
    "the elements need. Nothing is wrong, but it is slow. The first index of a `parallel` is the one that neighbouring "
    "threads differ in; the hint names an order of the indices that needs fewer sectors, if there is one.",
    "UNS01": "The construct is part of the language, but this version or this target cannot compile it.",
}
