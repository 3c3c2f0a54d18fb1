"""What stands outside functions: host C++, which belongs to a whole program and is passed over in a cell.

Two things are said about it, so that nothing is passed over in silence that was meant: a marker that is almost right
(`_co_ s32 f()`), and text that is no C++ declaration at all, such as a line of Python. In a whole program, which has a
`main`, the C++ compiler reads the host text.
"""

from __future__ import annotations

import re

from croq_magic.compiler.diagnostics import Report
from croq_magic.compiler.source import Span
from croq_magic.compiler.split import Unit

_SKIPPED = r"""//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'"""
_ALMOST = re.compile(
    rf"(?:{_SKIPPED})|\b(?P<word>_*(?:c[o0]k?|device|co_device)_*)\b(?=\s+(?:\w|\{{))", re.DOTALL
)  # fmt: skip
_RIGHT = {
    **dict.fromkeys(("co", "c0"), "__co__"),
    **dict.fromkeys(("cok", "c0k"), "__cok__"),
    "device": "__device__",
    "co_device": "__co_device__",
}
_TOKEN = re.compile(rf"(?:{_SKIPPED})|(?P<open>[{{(\[])|(?P<close>[}})\]])|(?P<word>\S)", re.DOTALL)
# How a declaration of C++ begins: a keyword, or a type and a name.
_DECLARATION = re.compile(
    r"(template|extern|struct|class|enum|union|using|typedef|namespace|static|inline|constexpr|const|unsigned|signed|long|short|alignas|__\w+|\[\[)\b"
    r"|\[\[|;|(::)?\w+(::\w+|\s*<[^;{}()]*>)*[\s*&]+\w+\s*[({\[=;,]"
)


def check(unit: Unit, report: Report) -> None:
    """Warns about host text that was probably meant to do something (SYN18, SYN20)."""
    misspelt = False
    for region in unit.regions:
        if region.kind == "host":
            misspelt = _check_markers(unit, region.span, report) or misspelt
    if misspelt or not any(region.kind == "tileflow" for region in unit.regions):
        return
    for region in unit.regions:
        if region.kind == "host":
            _check_declarations(unit, region.span, report)


def _check_markers(unit: Unit, host: Span, report: Report) -> bool:
    found = False
    for match in _ALMOST.finditer(host.text):
        word = match["word"]
        if word is None or "_" not in (word[0], word[-1]):
            continue
        right = _RIGHT[word.strip("_")]
        if word != right:
            start = host.start + match.start("word")
            span = unit.source.span(start, start + len(word))
            report.warning(
                "SYN18", f"`{word}` is no marker: the text from here is passed over", span, hint=f"`{right}`"
            )
            found = True
    return found


def _check_declarations(unit: Unit, host: Span, report: Report) -> None:
    """Looks at the beginning of every piece of text outside braces."""
    text, depth, begins = host.text, 0, True
    for match in _TOKEN.finditer(text):
        kind = match.lastgroup
        if kind is None:
            continue
        if begins and depth == 0 and kind != "close":
            begins = False
            if match[0] != "#" and not _DECLARATION.match(text, match.start()):
                line = text[match.start() :].split("\n", 1)[0].rstrip()
                span = unit.source.span(host.start + match.start(), host.start + match.start() + len(line))
                report.warning("SYN20", "this is no declaration of C++ and is passed over", span,
                               hint="Python goes into a cell of its own")  # fmt: skip
                return
        if kind == "open":
            depth += 1
        elif kind == "close":
            depth = max(0, depth - 1)
            begins = begins or (depth == 0 and match[0] == "}")
        elif match[0] == ";" and depth == 0:
            begins = True
