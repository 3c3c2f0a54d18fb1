"""The C++ text of a cell that a module for the notebook needs: device functions and what they refer to.

Host text is left out as far as it can be: `main` and its helpers call tileflow functions through an interface that a
notebook does not need, and their headers would double the compile time. Kept are the beginning of a device
function's declaration (`template <int N>`), preprocessor lines, and host declarations whose names device text uses or
tileflow functions call (a namespace of device functions is host text).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from croq_magic.compiler.source import Span
from croq_magic.compiler.split import Unit

_TOKEN = re.compile(r"""//[^\n]*|/\*.*?\*/|"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'|[{}();]""", re.DOTALL)
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_WORD = re.compile(r"[A-Za-z_]\w*")
_CALL = re.compile(r"\bcall\s+([\w:\s]+)|\b(\w+\s*::\s*[\w:\s]+)")  # also intrinsics of a namespace
_PREFIX = re.compile(r"^\s*#\s*pragma\s+(?:croq|choreo)\s+intrinsic\s+prefix\s+(\w+)", re.MULTILINE)
_OURS = re.compile(r"choreo|croq|cuda|cute")
_MACRO = re.compile(r"^\s*#\s*define\s+(\w+)")


def device_text(unit: Unit, headers: re.Pattern[str] | None = None) -> tuple[Span, ...]:
    """Pieces of the source, in order; () for a cell without device functions. Of the headers in angle brackets those
    stay that `headers` matches, or, without it, those that a C++ compiler of the host may know."""
    regions = list(unit.spliced())
    device = [region.inner or region.span for region in regions if region.kind in ("device", "cok")]
    words = {word for span in device for word in _WORD.findall(_COMMENT.sub(" ", span.text))}
    calls = [_CALL.findall(_COMMENT.sub(" ", region.text)) for region in unit.of_kind("tileflow")]
    words |= {word for called in calls for names in called for name in names for word in _WORD.findall(name)}
    prefixes = tuple(_PREFIX.findall(unit.source.text))
    if prefixes:
        used = {word for region in unit.of_kind("tileflow") for word in _WORD.findall(region.text)}
        words |= {word for word in used if word.startswith(prefixes)}
    if not words:
        return ()
    # A function of the host may have the name of one of the device: it is another one.
    apart = [region.inner or region.span for region in regions if region.kind == "cok"]
    own = {name for span in apart for declaration in declarations(span) for name in _declared(declaration)}
    words -= own
    pieces: list[tuple[Span, bool]] = []  # (text, kept in any case)
    for position, region in enumerate(regions):
        if region.kind in ("device", "cok"):
            pieces.append((region.inner or region.span, True))
        elif region.kind == "directive":
            include = re.match(r"\s*#\s*include\b\s*(.*)", region.text)
            keep = include is None or _OURS.search(include[1]) is None
            if include is not None and include[1].startswith("<") and headers is not None:
                keep = headers.match(include[1], 1) is not None
            pieces.append((region.span, keep))
        elif region.kind == "host":
            after = regions[position + 1].kind if position + 1 < len(regions) else ""
            found = list(declarations(region.span))
            for index, span in enumerate(found):
                complete = span.text.rstrip().endswith(("}", ";"))
                begins_device = after == "device" and index == len(found) - 1 and not complete
                pieces.append((span, begins_device))
    changed = True
    kept = [always for _, always in pieces]
    while changed:  # a declaration that is kept may need others
        changed = False
        for index, (span, _) in enumerate(pieces):
            if not kept[index] and not span.text.lstrip().startswith("#") and words & _declared(span):
                kept[index] = changed = True
                words |= set(_WORD.findall(_COMMENT.sub(" ", span.text))) - own
    return tuple(span for (span, _), keep in zip(pieces, kept, strict=True) if keep and span.text.strip())


def knows_element_types(unit: Unit) -> bool:
    """Whether device text may use the language's names of element types: in `__cok__` and `__co_device__`."""
    co_device = (r.marker is not None and r.marker.text == "__co_device__" for r in unit.spliced())
    return any(r.kind == "cok" for r in unit.spliced()) or any(co_device)


def macros(pieces: tuple[Span, ...]) -> list[str]:
    """Names of the macros that the pieces define."""
    return [match[1] for span in pieces if (match := _MACRO.match(span.text))]


def declarations(span: Span) -> Iterator[Span]:
    """Top-level declarations of host text; the last may be incomplete."""
    start, depth = span.start, 0
    for match in _TOKEN.finditer(span.text):
        char = match[0]
        if char in "{(":
            depth += 1
        elif char in "})":
            depth -= 1
        if depth == 0 and char in "};":
            end = span.start + match.end()
            if char == "}" and span.source.text[end : span.end].lstrip().startswith(";"):
                continue  # `struct S { ... };`
            yield Span(span.source, start, end)
            start = end
    if span.source.text[start : span.end].strip():
        yield Span(span.source, start, span.end)


def _declared(span: Span) -> set[str]:
    """Names that a declaration introduces: the words before its first parenthesis, brace, or `=`."""
    text = _COMMENT.sub(" ", span.text)
    head = re.split(r"[({=;]", text, maxsplit=1)[0]
    names = _WORD.findall(head)
    if names and names[0] in ("enum", "typedef", "using"):
        names = _WORD.findall(text)
    return (
        {name for name in names[-1:] if name != "main"} if names and names[0] not in ("enum", "typedef") else set(names)
    )
