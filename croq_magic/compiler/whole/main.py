"""Whether a text is a whole program: it defines `main` outside all braces."""

from __future__ import annotations

import re

from croq_magic.compiler.diagnostics import Report
from croq_magic.compiler.source import Source, Span
from croq_magic.compiler.split import Unit, split

_TOKEN = re.compile(
    r"""//[^\n]*|/\*.*?\*/|R"(?P<tag>[^()\\\s"]{0,16})\(.*?\)(?P=tag)"|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'"""
    r"""|^[ \t]*\#(?:\\\r?\n|[^\n])*|\b(?P<main>main)\s*\([^(){};]*\)[^(){};]*\{|(?P<open>\{)|(?P<close>\})""",
    re.DOTALL | re.MULTILINE,
)


def find_main(unit: Unit) -> Span | None:
    """The word `main` of the first definition at file level, None without one."""
    depth = 0
    for region in unit.regions:
        if region.kind != "host":
            continue
        position = 0
        text = region.text
        while match := _TOKEN.search(text, position):
            position = match.end()
            if match["main"] and depth == 0:
                start = region.span.start + match.start("main")
                return Span(unit.source, start, start + 4)
            if match["main"] or match["open"]:
                depth += 1
            elif match["close"]:
                depth = max(0, depth - 1)
    return None


def is_whole_program(text: str) -> bool:
    """Whether a text is one; quick for texts that are not."""
    return re.search(r"\bmain\s*\(", text) is not None and find_main(split(Source(text), Report())) is not None
