"""Device text of a cell as OpenCL C.

The cell's text is C++; the device's compiler takes C. What differs only in spelling is brought over without moving a
column: `extern "C"` and namespaces of the language are blanked out. What has no counterpart is an error at its place.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from croq_magic.compiler.diagnostics import Diagnostic
from croq_magic.compiler.source import Span
from croq_magic.compiler.split import Unit
from croq_magic.compiler.targets.cpu.verbatim import device_text

_SKIPPED = re.compile(r"""//[^\n]*|/\*.*?\*/|"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'""", re.DOTALL)
_LINKAGE = re.compile(r'extern(\s*)"C"(\s*)(\{?)')
_NAMESPACE = re.compile(r"(?<![\w:])(?:::\s*)?(?:choreo|croq)\s*::\s*")
_MARKER = re.compile(r"\b__co_device__\b")
_INCLUDE = re.compile(r"^[ \t]*#[ \t]*include\b[^\n]*", re.MULTILINE)
_CPLUSPLUS = re.compile(
    r"""\b(?:template|class|namespace|using|operator|constexpr|static_cast|reinterpret_cast|const_cast|dynamic_cast
        |decltype|typename|throw|new|delete|virtual|auto|asm|__asm__)\b
      | ::
      | (?<=[\w>])\s*&&?\s*(?=[A-Za-z_]\w*\s*[,)](?!\s*[;\w&|?]))""",
    re.VERBOSE,
)


def plain(text: str) -> str:
    """The text with comments and strings blanked out."""
    return _SKIPPED.sub(lambda match: _blank(match[0]), text)


def _blank(text: str) -> str:
    return re.sub(r"[^\n]", " ", text)


def pieces(unit: Unit) -> tuple[Span, ...]:
    """What of a cell belongs to the device: `__cok__` blocks, `__co_device__` functions, and what they refer to."""
    return tuple(span for span in device_text(unit) if not _INCLUDE.match(span.text))


def problems(unit: Unit, spans: tuple[Span, ...]) -> Iterator[Diagnostic]:
    """What of the device text OpenCL C cannot say."""
    for region in unit.of_kind("device"):
        if region.marker is not None and region.marker.text == "__device__":
            yield Diagnostic(
                "error",
                "UNS01",
                "the opencl target has no `__device__` functions: its device code is a source of its own",
                region.marker,
                hint="write the function inside `__cok__ { }`",
            )
    devices = [region.inner or region.span for region in unit.spliced() if region.kind in ("device", "cok")]
    for span in spans:
        if span not in devices:
            continue
        text = plain(as_opencl(span.text))
        for match in _CPLUSPLUS.finditer(text):
            word = match[0].strip()
            start = span.start + match.start() + len(match[0]) - len(match[0].lstrip())
            what = "a reference" if word in ("&", "&&") else f"`{word}`"
            hint = "pass a pointer" if word == "&" else None
            place = Span(span.source, start, start + len(word))
            yield Diagnostic(
                "error", "CXX01", f"{what} is C++; the opencl target compiles device text as OpenCL C", place, hint=hint
            )
            break  # one for each piece: what follows is often the same


def as_opencl(text: str) -> str:
    """The text as the device's compiler takes it: as many lines, the same columns."""
    text = _INCLUDE.sub(lambda match: _blank(match[0]), text)
    text = _MARKER.sub(lambda match: _blank(match[0]), _without_linkage(text))
    return _NAMESPACE.sub(lambda match: _blank(match[0]), text)


def _without_linkage(text: str) -> str:
    while True:
        match = _LINKAGE.search(text)
        if match is None:
            return text
        end = match.end()
        if match[3]:
            close = _closing(text, end)
            text = f"{text[:close]} {text[close + 1 :]}"
        text = text[: match.start()] + _blank(match[0]) + text[end:]


def _closing(text: str, start: int) -> int:
    """Where the brace that opened before `start` closes."""
    depth = 1
    for position, char in enumerate(plain(text)[start:], start):
        depth += {"{": 1, "}": -1}.get(char, 0)
        if not depth:
            return position
    return len(text)
