"""Markers that are almost right: `_co_ s32 f()` is host text to the splitter and would be passed over silently."""

from __future__ import annotations

import re

from croq_magic.compiler.diagnostics import Report
from croq_magic.compiler.split import Unit

_SKIPPED = r"""//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'"""
_ALMOST = re.compile(rf"(?:{_SKIPPED})|\b(?P<word>_*(?:c[o0]k?|device|co_device)_*)\b(?=\s+(?:\w|\{{))", re.DOTALL)
_RIGHT = {
    "co": "__co__",
    "c0": "__co__",
    "cok": "__cok__",
    "c0k": "__cok__",
    "device": "__device__",
    "co_device": "__co_device__",
}


def check(unit: Unit, report: Report) -> None:
    """Warns about a word that begins a declaration in host text and is a marker but for its underscores (SYN18)."""
    for region in unit.regions:
        if region.kind != "host":
            continue
        for match in _ALMOST.finditer(region.span.text):
            word = match["word"]
            if word is None or "_" not in (word[0], word[-1]):
                continue
            right = _RIGHT[word.strip("_")]
            if word != right:
                start = region.span.start + match.start("word")
                span = unit.source.span(start, start + len(word))
                report.warning(
                    "SYN18", f"`{word}` is no marker: the text from here is passed over", span, hint=f"`{right}`"
                )
