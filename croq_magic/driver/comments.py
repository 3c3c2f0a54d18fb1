"""`-n`: a program without the comments of its host text. Lines and columns of what stays do not change."""

from __future__ import annotations

import re

from croq_magic.compiler.diagnostics import Report
from croq_magic.compiler.source import Source
from croq_magic.compiler.split import split

_PIECE = re.compile(
    r"""
      (?P<end>[ \t]*(?://(?:\\\r?\n|[^\n])*|/\*(?:(?!\*/).)*\*/[ \t]*)(?=\r?$))
    | (?P<inner>/\*(?:(?!\*/).)*\*/)
    | R"(?P<tag>[^()\\\s"]{0,16})\((?:.*?)\)(?P=tag)"
    | "(?:[^"\\\n]|\\.)*"
    | '(?:[^'\\\n]|\\.)*'
    """,
    re.VERBOSE | re.DOTALL | re.MULTILINE,
)


def without_comments(source: Source) -> Source:
    """The source with comments of host text, and of preprocessor lines in it, removed."""
    parts = []
    for region in split(source, Report()).regions:
        kept = region.text
        parts.append(_PIECE.sub(_blank, kept) if region.kind in ("host", "directive") else kept)
    return Source("".join(parts), source.name, source.first_line)


def _blank(match: re.Match[str]) -> str:
    if match["end"] is not None:  # nothing follows on the line: blanks would be left over
        return "".join(char for char in match[0] if char in "\r\n")
    if match["inner"] is not None:
        *before, last = match[0].split("\n")
        return "".join("\r\n" if line.endswith("\r") else "\n" for line in before) + " " * len(last)
    return match[0]
