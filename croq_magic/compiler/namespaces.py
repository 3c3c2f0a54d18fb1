"""The C++ namespaces that tileflow functions stand in."""

from __future__ import annotations

import re

from croq_magic.compiler.split import Unit

_TOKEN = re.compile(
    r"""//[^\n]*|/\*.*?\*/|R"(?P<tag>[^()\\\s"]{0,16})\(.*?\)(?P=tag)"|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'"""
    r"""|\bnamespace\b(?P<name>[\w\s:]*)\{|(?P<open>\{)|(?P<close>\})""",
    re.DOTALL,
)


def of_functions(unit: Unit) -> list[tuple[int, int, str]]:
    """Start, end and namespace of every tileflow function of the source, `a::b` for one in `b` of `a`, "" outside all.

    Each nameless namespace counts as one of the name that the compiler would give it: none.
    """
    out: list[tuple[int, int, str]] = []
    blocks: list[str] = []  # what is open: the name of a namespace, "" for other braces
    for region in unit.regions:
        if region.kind == "tileflow":
            path = "::".join(name for name in blocks if name)
            out.append((region.span.start, region.span.end, path))
        elif region.kind == "host":
            for match in _TOKEN.finditer(region.text):
                if match["name"] is not None:
                    blocks.append(re.sub(r"\s+", "", match["name"]))
                elif match["open"]:
                    blocks.append("")
                elif match["close"] and blocks:
                    blocks.pop()
    return out


def of_function(unit: Unit, place: int) -> str:
    """The namespace of the tileflow function that `place` in the source lies in."""
    return next((path for start, end, path in of_functions(unit) if start <= place < end), "")
