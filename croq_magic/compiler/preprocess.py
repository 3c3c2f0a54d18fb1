"""The preprocessor: directives of the whole text, macro expansion in tileflow functions only.

Host and device text keeps its directives and is never touched; it only counts for what is defined where. The result
is one list of tokens per tileflow function that is alive. A text without directives and definitions costs nothing.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from croq_magic.compiler.diagnostics import Note, Report
from croq_magic.compiler.lexer import Token, lex
from croq_magic.compiler.source import Source, Span
from croq_magic.compiler.split import Directive, Region, Unit, split

if TYPE_CHECKING:
    from croq_magic.compiler.limits import Limits
    from croq_magic.compiler.macros import Expander

MAX_INCLUDES = 16
_RESERVED = ("croq", "choreo")
_QUOTED = re.compile(r'\s*"([^"]+)"')
_OURS = re.compile(r"choreo|croq|cuda|cute")  # headers that a host compiler has, and a cell needs none of


@dataclass(frozen=True)
class Preprocessed:
    """Tokens of every live tileflow function, the intrinsics registered for the whole unit, and the files that live
    `#include` lines name, by the places of these lines."""

    functions: tuple[tuple[Token, ...], ...]
    prefixes: tuple[str, ...] = ()
    namespaces: tuple[str, ...] = ()
    includes: Mapping[Span, Unit] = field(default_factory=dict)


def preprocess(
    unit: Unit,
    defines: Mapping[str, str],
    report: Report,
    limits: Limits | None = None,
    include: Sequence[str] = (),
    cell: bool = True,
) -> Preprocessed:
    """Interprets the directives of `unit`. `defines` are macros from outside: name and text; `include` are folders
    where quoted files are looked for after that of the text itself. A file that is not found is warned about in a
    `cell`; in a whole program the host compiler, which looks in more places, complains itself."""
    return _Preprocessor(unit, defines, report, limits, include, cell).run()


@dataclass
class _Condition:
    """An open `#if`: whether its branch is live, whether one was before, whether the text around it is. `certain` says
    that all names in its conditions so far are known, so that a C++ compiler finds the same."""

    directive: Directive
    around: bool
    live: bool
    taken: bool
    certain: bool
    has_else: bool = field(default=False)


class _Preprocessor:
    def __init__(
        self,
        unit: Unit,
        defines: Mapping[str, str],
        report: Report,
        limits: Limits | None,
        include: Sequence[str],
        cell: bool,
    ) -> None:
        self.folders = [Path(unit.source.name).parent, *map(Path, include)]
        self.unit = unit
        self.report = report
        self.builtin = _builtin_macros(limits)
        self.defines = defines
        self.conditions: list[_Condition] = []
        self.prefixes: list[str] = []
        self.namespaces: list[str] = []
        self.cell = cell
        self.included: list[Path] = []
        self.includes: dict[Span, Unit] = {}
        self.hidden = False  # whether a file was included whose definitions are not known here
        self._expander: Expander | None = None

    def run(self) -> Preprocessed:
        functions: list[tuple[Token, ...]] = []
        directives = list(self.unit.directives)
        at = 0
        for region in self.unit.of_kind("tileflow"):
            while at < len(directives) and directives[at].span.start < region.span.start:
                self._directive(directives[at], inside=False)
                at += 1
            inner = []
            while at < len(directives) and directives[at].span.start < region.span.end:
                inner.append(directives[at])
                at += 1
            tokens = self._function(region, inner)
            if tokens is not None:
                functions.append(tuple(tokens))
        for directive in directives[at:]:
            self._directive(directive, inside=False)
        self._close(0)
        return Preprocessed(tuple(functions), tuple(self.prefixes), tuple(self.namespaces), self.includes)

    @property
    def live(self) -> bool:
        return not self.conditions or self.conditions[-1].live

    @property
    def certain(self) -> bool:
        return not self.conditions or self.conditions[-1].certain

    # ---- functions

    def _function(self, region: Region, directives: Sequence[Directive]) -> list[Token] | None:
        compiled = self.live
        depth = len(self.conditions)
        tokens: list[Token] = []
        for start, end, directive in _pieces(region, directives):
            if compiled and self.live:
                tokens += self._expand(lex(region.span.source, start, end, self.report))
            if directive is not None:
                pragma = self._directive(directive, inside=True)
                if pragma is not None and compiled:
                    tokens.append(pragma)
        self._close(depth)
        return tokens if compiled else None

    def _expand(self, tokens: list[Token]) -> list[Token]:
        needed = self._expander is not None or self.defines or any(token.text in self.builtin for token in tokens)
        if needed:  # most texts need no macros at all
            tokens = self.macros.expand(tokens)
        return [_position_macro(token) for token in tokens] if _uses_position(tokens) else tokens

    @property
    def macros(self) -> Expander:
        """Loaded at first use: it costs an import that most cells do without."""
        if self._expander is None:
            from croq_magic.compiler.macros import Expander, Macro, predefined

            self._expander = Expander(self.report)
            for origin, names in (("predefined", self.builtin), ("-D", self.defines)):
                for name, text in predefined(names):
                    source = Source(f"{name} {text}", origin)
                    body = lex(source, len(name), len(source.text), self.report)
                    self._expander.add(Macro(name, None, tuple(body), source.span(0, len(name))))
        return self._expander

    # ---- directives

    def _directive(self, directive: Directive, inside: bool) -> Token | None:
        """Interprets one line. Inside a function a pragma becomes a token."""
        keyword = directive.keyword
        if keyword in ("if", "ifdef", "ifndef"):
            around = self.live
            live = around and self._test(directive, inside)
            certain = self.certain and self._is_certain(directive)
            self.conditions.append(_Condition(directive, around, live, live, certain))
        elif keyword in ("elif", "else", "endif"):
            self._branch(directive, inside)
        elif self.live:
            if keyword == "define":
                self._define(directive, inside)
            elif keyword == "undef":
                names = self._tokens(directive, inside)
                if names:
                    self.macros.remove(names[0].text)
            elif keyword == "pragma":
                return self._pragma(directive, inside)
            elif keyword == "include":
                self._include(directive, inside)
            # The C++ compiler reports a host's `#error`, but it never sees the host text of a cell.
            elif keyword in ("error", "warning") and (inside or (self.cell and self.certain)):
                text = _argument(directive).strip()
                text = text[1:-1] if re.fullmatch(r'".*"', text) else text
                self.report.report("PRE03", text or f"#{keyword}", directive.span, severity=keyword)
        return None

    def _branch(self, directive: Directive, inside: bool) -> None:
        keyword = directive.keyword
        if not self.conditions:
            self.report.error("PRE02", f"`#{keyword}` without `#if`", directive.span)
            return
        condition = self.conditions[-1]
        if keyword == "endif":
            self.conditions.pop()
            return
        if condition.has_else:
            opener = Note("the condition begins here", condition.directive.span)
            self.report.error("PRE02", f"`#{keyword}` after `#else`", directive.span, notes=[opener])
        condition.has_else |= keyword == "else"
        condition.certain &= keyword == "else" or self._is_certain(directive)
        may = condition.around and not condition.taken
        condition.live = may and (keyword == "else" or self._test(directive, inside))
        condition.taken |= condition.live

    def _test(self, directive: Directive, inside: bool) -> bool:
        tokens = self._tokens(directive, inside)
        if directive.keyword in ("ifdef", "ifndef"):
            if not tokens or tokens[0].kind != "name":
                self.report.error("PRE07", f"`#{directive.keyword}` needs a name", directive.span)
                return False
            return self.macros.defined(tokens[0].text) == (directive.keyword == "ifdef")
        value, problem = self.macros.evaluate(tokens)
        if problem is not None and (inside or "division" in problem or self._is_certain(directive)):
            self.report.error("PRE06", problem.replace("#if", f"#{directive.keyword}"), directive.span)
        return value  # what only the C++ compiler can evaluate in host text counts as false

    def _is_certain(self, directive: Directive) -> bool:
        """Whether a condition in host text means here what it means to a C++ compiler: it has no name that only the
        compiler or an unseen file defines."""
        pending = self._tokens(directive, inside=False)
        seen = {"defined"}
        while pending:
            name = pending.pop().text
            if name in seen or not re.match(r"[A-Za-z_]", name):
                continue
            seen.add(name)
            macro = self.macros.definitions.get(name)
            if macro is not None:
                pending += macro.body
            elif self.hidden or name.startswith("_"):
                return False
        return True

    def _close(self, depth: int) -> None:
        """Reports conditions that are still open where they cannot be."""
        while len(self.conditions) > depth:
            directive = self.conditions.pop().directive
            line = directive.span.line
            self.report.error("PRE01", f"`#{directive.keyword}` at line {line} is not closed", directive.span)

    def _define(self, directive: Directive, inside: bool) -> None:
        from croq_magic.compiler.macros import Macro

        tokens = self._tokens(directive, inside)
        if not tokens or tokens[0].kind != "name":
            self.report.error("PRE07", "`#define` needs a name", directive.span)
            return
        name, rest = tokens[0], tokens[1:]
        params: tuple[str, ...] | None = None
        # A parameter list follows the name without a blank.
        if rest and rest[0].text == "(" and rest[0].span.start == name.span.end:
            closing = next((at for at, token in enumerate(rest) if token.text == ")"), len(rest))
            params = tuple(token.text for token in rest[1:closing] if token.kind == "name")
            commas = sum(token.text == "," for token in rest[1:closing])
            if closing == len(rest) or len(params) != closing - 1 - commas or commas != max(len(params) - 1, 0):
                if inside:
                    self.report.error("PRE07", f"the parameters of `{name.text}` are not supported", name.span)
                return
            rest = rest[closing + 1 :]
        macro = Macro(name.text, params, tuple(rest), name.span)
        before = self.macros.definitions.get(name.text)
        if before is not None and not before.same_as(macro):
            note = Note("the earlier definition", before.span)
            self.report.note("PRE04", f"`{name.text}` is redefined", name.span, notes=[note])
        self.macros.add(macro)

    def _pragma(self, directive: Directive, inside: bool) -> Token | None:
        words = _argument(directive).split()
        if not words or words[0] not in _RESERVED:
            if inside:
                self.report.warning("PRE05", f"`#pragma {' '.join(words)}` has no effect here", directive.span)
            return None
        if words[1:2] != ["intrinsic"]:
            self.report.error("PRE05", f"unknown pragma; expected `{words[0]} intrinsic`", directive.span)
            return None
        if len(words) < 4 or words[2] not in ("prefix", "namespace"):
            hint = f"`#pragma {words[0]} intrinsic prefix hw_`"
            self.report.error("PRE05", "expected `prefix` or `namespace`", directive.span, hint=hint)
            return None
        kind, name = words[2], words[3]
        if not re.fullmatch(r"[A-Za-z_]\w*", name) or len(words) > 4:
            self.report.error("PRE05", f"expected one name after `{kind}`", directive.span)
        elif name.startswith(_RESERVED):
            self.report.error("PRE05", f"`{name}` is reserved", directive.span)
        elif inside:
            return Token("pragma", f"{kind} {name}", directive.span, "PRAGMA")
        else:
            (self.prefixes if kind == "prefix" else self.namespaces).append(name)
        return None

    def _include(self, directive: Directive, inside: bool) -> None:
        """Definitions of a quoted file count, and so do its device functions, as if they stood in the line's place;
        everything else of it is the host compiler's."""
        if inside:
            self.report.error("PRE07", "`#include` is not allowed inside a tileflow function", directive.span)
            return
        match = _QUOTED.match(_argument(directive))
        if match is None or len(self.included) >= MAX_INCLUDES:
            self.hidden = True
            return
        path = self._find(match[1], directive.span)
        if path is None:
            self.hidden = True
            if self.cell and not _OURS.search(match[1]):
                place = ", ".join(str(folder.resolve()) for folder in self.folders)
                message = f"the file `{match[1]}` is not found; what it defines is missing"
                self.report.warning("PRE08", message, directive.span, hint=f"looked for in {place}")
            return
        if path in self.included:
            self.includes[directive.span] = Unit(self.unit.source, ())  # once is enough
            return
        self.included.append(path)
        unit = split(Source(path.read_text(encoding="utf-8", errors="replace"), str(path)), Report())
        self.includes[directive.span] = unit
        depth = len(self.conditions)
        for line in unit.directives:
            self._directive(line, inside=False)
        del self.conditions[depth:]

    def _find(self, name: str, span: Span) -> Path | None:
        """The file, looked for beside the one that names it, then in the folders."""
        beside = [Path(span.source.name).parent] if span.source is not self.unit.source else []
        for folder in (*beside, *self.folders):
            with contextlib.suppress(OSError, ValueError):
                if (folder / name).is_file():
                    return folder / name
        return None

    def _tokens(self, directive: Directive, inside: bool) -> list[Token]:
        """The tokens after the keyword. Host lines may hold what is no token of ours: nobody complains."""
        span = directive.span
        start = span.end - len(_argument(directive))
        return lex(span.source, start, span.end, self.report if inside else Report())


def _argument(directive: Directive) -> str:
    text = directive.span.text
    return text[text.index(directive.keyword, text.index("#")) + len(directive.keyword) :]


def _pieces(region: Region, directives: Sequence[Directive]) -> Iterator[tuple[int, int, Directive | None]]:
    """The text of a function between its directives, each piece with the directive that ends it."""
    start = region.span.start
    for directive in directives:
        yield start, directive.span.start, directive
        start = directive.span.end
    yield start, region.span.end, None


def _builtin_macros(limits: Limits | None) -> dict[str, str]:
    names = {"__CROQ__": "1", "__CHOREO__": "1"}
    if limits is not None and limits.gpu:
        names |= {"__CHOREO_TARGET_CUDA__": "1", "__CHOREO_TARGET_CUTE__": "1", "__CHOREO_ARCH__": str(limits.arch)}
    elif limits is not None:
        names[f"__CHOREO_TARGET_{limits.name.upper()}__"] = "1"
    return names


def _uses_position(tokens: Sequence[Token]) -> bool:
    return any(token.text in ("__LINE__", "__FILE__") for token in tokens)


def _position_macro(token: Token) -> Token:
    span: Span = token.span
    if token.text == "__LINE__":
        return Token("number", str(span.line), span, "NUMBER")
    if token.text == "__FILE__":
        return Token("string", '"' + span.name.replace("\\", "\\\\") + '"', span, "STRING")
    return token
