"""A source text cut into regions: tileflow functions, device functions, preprocessor lines and host text.

Only markers, braces and preprocessor lines are looked at; comments, strings and raw strings are stepped over. Regions
follow each other without gaps, so device and host text can be reproduced byte for byte, in order.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

from croq_magic.compiler.diagnostics import Report
from croq_magic.compiler.source import Source, Span

Kind = Literal["tileflow", "device", "cok", "directive", "host"]

DIRECTIVES = (
    *("define", "undef", "ifdef", "ifndef", "if", "elif", "else", "endif"),
    *("error", "warning", "include", "line", "pragma"),
)
_CONDITIONS = {"ifdef": "if", "ifndef": "if", "if": "if", "elif": "else", "else": "else", "endif": "endif"}
_SCAN = re.compile(
    rf"""
      (?P<directive>^[ \t]*\#[ \t]*(?P<keyword>{"|".join(DIRECTIVES)})\b(?:\\\r?\n|[^\n])*)
    | //[^\n]*
    | /\*.*?\*/
    | (?P<open_comment>/\*)
    | R"(?P<tag>[^()\\\s"]{{0,16}})\(.*?\)(?P=tag)"
    | "(?:[^"\\\n]|\\.)*"
    | \b\d[\w.']*
    | '(?:[^'\\\n]|\\.)*'
    | (?P<marker>\b__(?:co|device|co_device|cok)__\b)
    | (?P<bracket>[{{}}();\[\]])
    """,
    re.VERBOSE | re.DOTALL | re.MULTILINE,
)

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_INNERMOST = re.compile(r"\([^()]*\)|\[[^\[\]]*\]")
_OPERATOR = re.compile(r"\boperator\s*(?:\(\s*\)|\[\s*\]|[^\s\w(\[]+)")
_ATTRIBUTE = re.compile(r"\b(?:alignas|decltype|typeof|__align__|__attribute__|__declspec|__launch_bounds__)\s*$")
_ASSIGNED = re.compile(r"(?<![=<>!])=(?!=)")


@dataclass(frozen=True, slots=True)
class Region:
    """A piece of the source.

    `name` is the function's. `inner` is the text between the braces of a `__cok__` block. `marker` is the marker's
    place. A `__co_device__` function in tileflow syntax is "tileflow" with `is_device`, in C++ it is "device".
    """

    kind: Kind
    span: Span
    name: str | None = None
    marker: Span | None = None
    inner: Span | None = None
    is_device: bool = False

    @property
    def text(self) -> str:
        return self.span.text


@dataclass(frozen=True, slots=True)
class Directive:
    """A preprocessor line, wherever it stands: in host text or inside another region."""

    keyword: str
    span: Span


@dataclass(frozen=True, eq=False)
class Unit:
    """One unit of compilation: a cell or a file."""

    source: Source
    regions: tuple[Region, ...]
    directives: tuple[Directive, ...] = ()
    includes: Mapping[Span, Unit] = field(default_factory=dict)  # quoted files, by the lines that include them

    def spliced(self) -> Iterator[Region]:
        """The regions, with those of included files in the place of the lines that include them."""
        yield from _spliced(self, self.includes)

    def of_kind(self, *kinds: Kind) -> list[Region]:
        return [region for region in self.regions if region.kind in kinds]


def split(source: Source, report: Report) -> Unit:
    """The regions of a source; what is not closed or stands inside another region is reported."""
    return _Splitter(source, report).run()


def _is_signature(text: str) -> bool:
    """Whether a brace behind this text opens a function's body: there is a parameter list and nothing is assigned."""
    text = _OPERATOR.sub("operator_", _COMMENT.sub(" ", text))
    has_parameters = False
    while (found := _INNERMOST.search(text)) is not None:
        before, inside, text = text[: found.start()], found[0], f"{text[: found.start()]} {text[found.end() :]}"
        # Inner brackets go first: what is left to judge stands outside all others.
        is_outer = before.count("(") == before.count(")") and before.count("[") == before.count("]")
        if inside[0] == "(" and is_outer and _ATTRIBUTE.search(before) is None:
            has_parameters = True
    return has_parameters and _ASSIGNED.search(text) is None


def _spliced(unit: Unit, includes: Mapping[Span, Unit]) -> Iterator[Region]:
    for region in unit.regions:
        # The newline before a line belongs to the region before it, the indentation to the line.
        found = includes.get(region.span) if region.kind == "directive" else None
        if found is None:
            yield region
        else:
            yield from _spliced(found, includes)


@dataclass
class _Open:
    """The region being read. `depth` counts open braces, `branches` remembers it at every open `#if`. Round and square
    brackets count only in a signature, up to the first brace: in a body a missing `)` must not swallow the rest."""

    kind: Kind
    start: int
    marker: str = ""
    marker_span: Span | None = None
    depth: int = 0
    signature_depth: int = 0
    body: int | None = None  # where its brace opened
    parameters: int | None = None  # where its parameter list opened
    is_variable: bool = False  # its braces are an initialiser or a class: it ends at a `;`
    branches: list[int] = field(default_factory=list)


class _Splitter:
    def __init__(self, source: Source, report: Report) -> None:
        self.source = source
        self.report = report
        self.regions: list[Region] = []
        self.directives: list[Directive] = []
        self.open = _Open("host", 0)
        self.host = self.open  # the host text around the region being read: its braces and conditions stay open
        self.abandoned = 0  # open braces of regions that were given up: their ends are no findings

    def run(self) -> Unit:
        for match in _SCAN.finditer(self.source.text):
            if match["bracket"]:
                self._bracket(match[0], match.start())
            elif match["marker"]:
                self._marker(match[0], match.start(), match.end())
            elif match["directive"]:
                self._directive(match["keyword"], match.start(), match.end())
            elif match["open_comment"]:
                span = self.source.span(match.start(), match.end())
                if self.open.kind != "tileflow":  # there the lexer says so
                    self.report.error("SYN13", f"end of file inside a comment opened at line {span.line}", span)
                break
        self._end_of_text()
        return Unit(self.source, tuple(self.regions), tuple(self.directives))

    # ---- what is met

    def _bracket(self, bracket: str, at: int) -> None:
        region = self.open
        if bracket == "{":
            # No brace occurs in the signature of a tileflow function: not even a missing `)` hides its body.
            if region.body is None and (region.signature_depth == 0 or region.kind == "tileflow"):
                if region.kind == "device" and region.depth == 0:
                    text = self.source.text[region.start : at]
                    region.is_variable = region.is_variable or not _is_signature(text)
                if not region.is_variable:
                    region.body = at
            region.depth += 1
        elif bracket == "}":
            if region.depth > 0:
                region.depth -= 1
                if region.depth == 0 and region.kind != "host" and region.body is not None:
                    self._close(at + 1)
            elif region.kind == "host" and self.abandoned:
                self.abandoned -= 1
            elif region.kind == "host":
                self.report.error("SYN01", "unexpected `}`: it closes nothing", self.source.span(at, at + 1))
        elif region.body is None and region.kind != "host":
            self._signature(region, bracket, at)

    def _signature(self, region: _Open, bracket: str, at: int) -> None:
        if bracket in "([":
            if bracket == "(" and region.signature_depth == 0 and region.parameters is None:
                region.parameters = at
            region.signature_depth += 1
        elif bracket in ")]":
            region.signature_depth = max(region.signature_depth - 1, 0)
        elif region.depth == 0 and region.signature_depth == 0:  # `;`
            if region.kind == "device":
                self._close(at + 1)
            else:
                self._prototype(at)

    def _marker(self, marker: str, start: int, end: int) -> None:
        region = self.open
        span = self.source.span(start, end)
        if region.kind == "host":
            if marker == "__device__" and region.depth > 0:
                return  # a member or a lambda: part of the host text around it
            if marker == "__co__":
                self._refuse_specifiers(start, span)
            self._close(start)
        elif region.kind == "device" and marker == "__device__" and region.body is None:
            return  # `__device__` twice in one signature
        elif region.kind == "cok" and marker == "__device__" and region.body is not None:
            return  # everything in there is device code
        else:
            if region.kind == "tileflow" and marker == "__co__":
                self._report_unclosed(f"before the next one at line {span.line}")
            else:
                hint = "a `}` may be missing before it"
                self.report.error("SYN13", f"`{marker}` inside {self._what()}", span, hint=hint)
                self.abandoned += region.depth
            self._give_up(start)
        kinds: dict[str, Kind] = {"__co__": "tileflow", "__cok__": "cok"}
        self.open = _Open(kinds.get(marker, "device"), start, marker, span)

    def _refuse_specifiers(self, start: int, marker: Span) -> None:
        """Nothing that C++ writes before a function may stand before a tileflow function."""
        before = _COMMENT.sub(" ", self.source.text[self.open.start : start])
        declaration = re.split(r"[;{}]", before)[-1]
        found = re.match(r"\s*(template|inline|extern|static|constexpr)\b", declaration)
        if found is not None:
            what = "a template" if found[1] == "template" else f"`{found[1]}`"
            self.report.error("SYN01", f"a tileflow function cannot be {what}", marker)

    def _directive(self, keyword: str, start: int, end: int) -> None:
        # The newline before the line is not part of it; the line is, with its indentation.
        self.directives.append(Directive(keyword, self.source.span(start, end)))
        region = self.open
        if region.kind == "host" and region.depth == 0:
            self._close(start)
            self.regions.append(Region("directive", self.source.span(start, end)))
            self.open.start = end
            region = self.open
        # Only one branch of a condition counts braces: each starts from the depth at its `#if`.
        match _CONDITIONS.get(keyword):
            case "if":
                region.branches.append(region.depth)
            case "else" if region.branches:
                region.depth = region.branches[-1]
            case "endif" if region.branches:
                region.branches.pop()

    def _prototype(self, at: int) -> None:
        if self.open.kind == "cok":
            self.report.error("SYN01", "expected `{` after `__cok__`", self.source.span(at, at + 1))
        else:
            self.report.error(
                "SYN01", f"{self._what()} needs a body; prototypes do not exist", self.source.span(at, at + 1)
            )
        self._give_up(at + 1)

    # ---- ends

    def _close(self, end: int) -> None:
        region = self.open
        if region.kind == "host":
            self.host = region
        self.open = _Open("host", end, depth=self.host.depth, branches=self.host.branches)
        if region.start == end:
            return
        span = self.source.span(region.start, end)
        kind, inner, is_device = region.kind, None, False
        if kind == "cok" and region.body is not None:
            inner = self.source.span(region.body + 1, end - 1)
        if region.marker == "__co_device__" and self._is_tileflow(region, end):
            kind, is_device = "tileflow", True
        name = None if kind in ("host", "cok") else self._name(region, end)
        self.regions.append(Region(kind, span, name, region.marker_span, inner, is_device))

    def _name(self, region: _Open, end: int) -> str | None:
        stop = region.parameters if region.parameters is not None else end
        words = re.findall(r"[A-Za-z_]\w*", self.source.text[region.start : stop])
        return words[-1] if len(words) > 1 else None

    def _is_tileflow(self, region: _Open, end: int) -> bool:
        """A parameter written `type [dims] name` makes a `__co_device__` function one in tileflow syntax."""
        if region.parameters is None:
            return False
        signature = self.source.text[region.parameters : region.body or end]
        return re.search(r"\w\s*\[[^\]]*\]\s*&?\s*[A-Za-z_]\w*\s*[,)]", signature) is not None

    def _what(self) -> str:
        region = self.open
        name = self._name(region, len(self.source.text)) if region.parameters is not None else None
        word = {"tileflow": "tileflow function", "device": "device function", "cok": "`__cok__` block"}[region.kind]
        return f"{word} `{name}`" if name and region.kind != "cok" else word

    def _end_of_text(self) -> None:
        end = len(self.source.text)
        if self.open.kind != "host":
            self._report_unclosed("")
            self._give_up(end)
        self._close(end)

    def _give_up(self, end: int) -> None:
        """Ends a region from which nothing can be compiled: it counts as host text."""
        self.open = _Open("host", self.open.start, depth=self.host.depth, branches=self.host.branches)
        self._close(end)

    def _report_unclosed(self, before: str) -> None:
        region = self.open
        marker = region.marker_span
        assert marker is not None
        line = marker.line
        if before:
            text = f"{self._what()} opened at line {line} is not closed {before}"
        else:
            text = f"end of file inside {self._what()} opened at line {line}"
        missing = max(region.depth, 1)
        if region.body is None:
            text += "; its body is missing"
        else:
            text += "; one `}` is missing" if missing == 1 else f"; {missing} `}}` are missing"
        self.report.error("SYN13", text, marker)
