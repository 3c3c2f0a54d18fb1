"""The file that the target's compiler gets: bundled headers, then the user's text with C++ for tileflow functions."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence

from croq_magic.compiler.source import Span
from croq_magic.compiler.split import Region, Unit
from croq_magic.compiler.targets.cpu.verbatim import declarations
from croq_magic.compiler.whole.bundled_text import flatten, switches
from croq_magic.compiler.whole.host import HostCode

_DEFINE = re.compile(r"\s*#\s*define\s+(\w+)")
# What the program may include by name is there already.
_OURS = re.compile(r'^([ \t]*#[ \t]*include[ \t]*[<"](?:choreo|croq|croqtile)(?:\.h)?[>"].*)$', re.MULTILINE)


def merge(
    unit: Unit,
    code: HostCode,
    self_contained: bool,
    command: Sequence[str] = (),
    defines: Sequence[tuple[str, str]] = (),
) -> str:
    """The whole text. Host and device text is byte for byte the user's; `#line` markers lead back to it. `defines` are
    macros from outside: they begin to count behind our own headers, which have parameters of such names; those that
    the C++ library itself looks for (`NDEBUG`, names that begin with an underscore) count from the start."""
    out = [f"// Compile with: {shlex.join(command)}\n"] if command else []
    out += [_definition(each) for each in defines if _is_librarys(each)]
    if self_contained:
        out.append("#define CROQ_SELF_CONTAINED\n")
        names = [*code.runtime, *code.headers]
        out += flatten(names, switches(names))
    else:
        out += [f'#include "{name}"\n' for name in code.headers]
    out.append(code.prelude)
    if _co_device_in_cxx(unit):
        out.append("using namespace croq_cell;\n")
    out += [_definition(each) for each in defines if not _is_librarys(each)]
    out.append(f"#line {_line(unit, 0)}\n")
    macros = [name for name, _ in defines]
    left_out = [] if code.keeps_device else list(_device_functions(unit))
    for region in unit.regions:
        if any(span.start < region.span.end and region.span.start < span.end for span in left_out):
            out.append(_OURS.sub(r"// \1", _without(region.span, left_out)))
        elif region.kind == "tileflow":
            out += _tileflow(unit, region, code, macros)
        elif region.kind == "cok":
            out += _cok(unit, region, code)
        else:
            if region.kind == "directive" and (match := _DEFINE.match(region.text)):
                macros.append(match[1])
            out.append(_OURS.sub(r"// \1", region.text))
    text = "".join(out)
    return text if text.endswith("\n") else text + "\n"


def _device_functions(unit: Unit) -> Iterator[Span]:
    """Device functions with the beginnings of their declarations (`template <int N>`), unless the host has them too."""
    before: Region | None = None
    for region in unit.regions:
        if region.kind == "device":
            start = region.span.start
            if before is not None and before.kind == "host":
                last = list(declarations(before.span))[-1:]
                if last and not last[0].text.rstrip().endswith(("}", ";")):
                    start = last[0].start
            span = Span(unit.source, start, region.span.end)
            if not re.search(r"\b__host__\b", span.text.partition("{")[0]):
                yield span
        before = region


def _without(region: Span, spans: Sequence[Span]) -> str:
    """The text of a region with blanks in the place of spans."""
    text = region.text
    for span in spans:
        start, end = max(0, span.start - region.start), max(0, span.end - region.start)
        text = text[:start] + re.sub(r"[^\n]", " ", text[start:end]) + text[end:]
    return text


def _definition(macro: tuple[str, str]) -> str:
    return f"#define {macro[0]} {macro[1]}".rstrip() + "\n"


def _is_librarys(macro: tuple[str, str]) -> bool:
    return macro[0] == "NDEBUG" or macro[0].startswith("_")


def _line(unit: Unit, offset: int) -> str:
    name, line, _ = unit.source.location(offset)
    escaped = name.replace("\\", "\\\\").replace('"', '\\"')
    return f'{line} "{escaped}"'


def _resume(unit: Unit, end: int) -> str:
    """Goes back to the user's text at an offset: the rest of its line keeps its column."""
    start = unit.source.text.rfind("\n", 0, end) + 1
    return f"#line {_line(unit, end)}\n" + " " * (end - start)


def _tileflow(unit: Unit, region: Region, code: HostCode, macros: Sequence[str]) -> Iterator[str]:
    start, end = region.span.start, region.span.end
    name = next((name for name, place in code.places.items() if start <= place < end), None)
    if name is not None and not region.is_device:
        text = code.functions[name]
        yield '\n#line 1 "generated"\n'
        kept = sorted({macro for macro in macros if re.search(rf"\b{macro}\b", text)})
        for macro in kept:  # a macro of the program must not rewrite generated text
            yield f'#pragma push_macro("{macro}")\n#undef {macro}\n'
        yield text
        for macro in kept:
            yield f'#pragma pop_macro("{macro}")\n'
        yield _resume(unit, end)
    else:  # inlined where it is used, or in a branch that is not compiled
        yield "".join(char if char == "\n" else " " for char in unit.source.text[start:end])


def _cok(unit: Unit, region: Region, code: HostCode) -> Iterator[str]:
    """The contents of a `__cok__` block, in a namespace that knows the element types."""
    inner = region.inner
    if inner is None or not code.keeps_cok:
        yield "".join(char if char == "\n" else " " for char in region.text)
        return
    yield "\n"
    for match in re.finditer(r"^[ \t]*#[ \t]*include\b[^\n]*$", inner.text, re.MULTILINE):
        yield match[0] + "\n"  # what it declares belongs to no namespace
    yield "namespace croq_cok {\nusing namespace ::croq_cell;\n"
    yield _resume(unit, inner.start) + (code.cok_marker(inner.text) if code.cok_marker is not None else inner.text)
    yield f"\n}}\n{_resume(unit, region.span.end)}"


def _co_device_in_cxx(unit: Unit) -> bool:
    return any(r.marker is not None and r.marker.text == "__co_device__" for r in unit.of_kind("device"))
