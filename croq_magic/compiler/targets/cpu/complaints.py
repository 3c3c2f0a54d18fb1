"""The C++ compiler's complaints as diagnostics at the cell's own lines.

`#line` markers make the compiler count in the cell. Inside device functions, which are kept as they are, its columns
are right too; in statements that the emitter wrote only the line is.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence

from croq_magic.compiler.diagnostics import Diagnostic, Note
from croq_magic.compiler.source import Source, Span

CODE = "CXX01"
SAYS = "the C++ compiler says: "
_HEAD = re.compile(
    r"^(?P<file>[^\n:]+):(?P<line>\d+):(?:(?P<column>\d+):)? (?P<kind>fatal error|error|note): (?P<text>.*)$"
)


def diagnostics(output: str, source: Source, verbatim: Sequence[Span]) -> list[Diagnostic]:
    """What a compiler printed about lines of `source`; [] when every complaint is about generated text alone.

    `verbatim` are the parts of the source that were passed on unchanged.
    """
    names = {span.name for span in verbatim} | {source.name}
    found: list[Diagnostic] = []
    follows = False  # notes belong to the error before them, if that one is shown
    for raw in output.splitlines():
        match = _HEAD.match(raw)
        if match is None:
            continue
        # The text itself first: a file that it includes may have its name only by `#line`.
        named = [s for s in dict.fromkeys([source, *(span.source for span in verbatim)]) if s.name == match["file"]]
        places = [s for s in named or [source] if match["file"] in names]
        found_at = (_span(s, int(match["line"]), int(match["column"] or 0), verbatim) for s in places)
        span = next((place for place in found_at if place is not None), None)
        text = _plain(match["text"])
        if match["kind"] == "note":
            if follows and found and not text.startswith(("candidate expects", "in expansion")):
                last = found[-1]
                if len(last.notes) < 5:
                    found[-1] = dataclasses.replace(last, notes=(*last.notes, Note(text, span)))
            continue
        follows = span is not None
        if span is not None:
            found.append(Diagnostic("error", CODE, f"{SAYS}{text}", span))
    return _once(found)


def _plain(text: str) -> str:
    """Quotes as everywhere else, without the names of our namespaces and the option that caused a message."""
    # An apostrophe inside a word (couldn't) quotes nothing.
    text = re.sub(r"(?<!\w)[\u2018\u2019'](.*?)[\u2018\u2019'](?!\w)", r"`\1`", text)
    text = re.sub(r"\b(?:croq_cell|croq_cok|choreo)::", "", text)
    return re.sub(r" \[-(?:W[\w=+-]+|fpermissive)\]$", "", text)


def _span(source: Source, line: int, column: int, verbatim: Sequence[Span]) -> Span | None:
    """The place in the source with that line number, None when it has no such line."""
    for index, start in enumerate(source.line_starts):
        if source.location(start)[1] != line:
            continue
        end = source.line_starts[index + 1] - 1 if index + 1 < len(source.line_starts) else len(source.text)
        text = source.text[start:end]
        parts = (span for span in verbatim if span.source is source)
        if column and any(span.start <= start + column - 1 < span.end for span in parts):
            place = start + column - 1
            word = re.match(r"\w+", source.text[place:end])
            return Span(source, place, place + (len(word[0]) if word else 1))
        blanks = len(text) - len(text.lstrip())
        return Span(source, start + blanks, start + max(blanks + 1, len(text.rstrip())))
    return None


def _once(found: list[Diagnostic]) -> list[Diagnostic]:
    """Without repetitions, and without what is expected because a string does not end or another error was before."""
    open_string = False
    seen: set[tuple[str, int]] = set()
    out: list[Diagnostic] = []
    for d in found:
        text = d.message.removeprefix(SAYS)
        if text.startswith("expected ") and (open_string or (out and text.endswith("at end of input"))):
            continue
        open_string = open_string or text.startswith("missing terminating")
        if (d.message, d.span.start) not in seen:
            seen.add((d.message, d.span.start))
            out.append(d)
    return out
