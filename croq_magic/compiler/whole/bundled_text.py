"""Bundled headers as one text: what a self-contained source begins with, without the parts that it never compiles."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from croq_magic.compiler.bundled import INCLUDE, header

_INCLUDE = re.compile(r'[ \t]*#[ \t]*include[ \t]*"([^"\n]+)"')
_DIRECTIVE = re.compile(r"[ \t]*#[ \t]*(ifdef|ifndef|if|elif|else|endif)\b[ \t]*(\w*)")
_SINGLE_SOURCE = "croq_host_cudart.h"  # the file that decides for one source of host and device


def switches(names: Sequence[str]) -> dict[str, bool]:
    """Which of our own macros a self-contained source with these files defines."""
    return {"CROQ_SELF_CONTAINED": True, "CROQ_SINGLE_SOURCE": _SINGLE_SOURCE in names, "CROQ_EMULATE": False}


def flatten(names: Sequence[str], defined: Mapping[str, bool] | None = None) -> list[str]:
    """Bundled files with the bundled files they include, each once, in order, with `#line` markers. What `#ifdef` and
    `#ifndef` of a macro in `defined` decide is decided here; the branch that is not taken stays out."""
    known = defined or {}
    done: set[str] = set()
    out: list[str] = []

    def add(name: str) -> None:
        if name in done:
            return
        done.add(name)
        expected = 0  # the number that the compiler counts for the next line; 0 until a marker says one
        for number, line in _live(header(name), known):
            include = _INCLUDE.match(line)
            if include and (INCLUDE / include[1]).exists():
                add(include[1])
                expected = 0
                continue
            if number != expected:
                out.append(f'#line {number} "{name}"\n')
            out.append(line)
            expected = number + 1

    for name in names:
        add(name)
    return out


def _live(text: str, known: Mapping[str, bool]) -> Iterator[tuple[int, str]]:
    """Numbered lines of a file, without `#pragma once` and what `known` decides."""
    open_conditions: list[bool | None] = []  # whether the current branch of each is taken; None where C++ decides
    for number, line in enumerate(text.splitlines(), 1):
        match = _DIRECTIVE.match(line)
        if match and match[1] in ("if", "ifdef", "ifndef"):
            decided = match[2] in known and match[1] != "if"
            open_conditions.append(known[match[2]] == (match[1] == "ifdef") if decided else None)
            if decided:
                continue
        elif match and open_conditions:
            taken = open_conditions[-1]
            if match[1] == "endif":
                open_conditions.pop()
            elif taken is not None and match[1] == "else":
                open_conditions[-1] = not taken
            if taken is not None:
                assert match[1] != "elif", f"line {number}: #elif after a macro that is decided here"
                continue
        if False not in open_conditions and line.strip() != "#pragma once":
            yield number, line + "\n"
