"""What the C++ compiler and the linker say about a whole program, as diagnostics at the program's own lines.

A wrong call of a tileflow function is said in the language's terms: function, parameter, what was passed.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from croq_magic.compiler.diagnostics import Diagnostic, Note
from croq_magic.compiler.signature import Parameter, Signature
from croq_magic.compiler.source import Span
from croq_magic.compiler.targets.cpu import complaints as cxx
from croq_magic.compiler.whole import library_words
from croq_magic.errors import CompileError, CroqError, TargetError

if TYPE_CHECKING:
    from croq_magic.compiler.whole.program import WholeProgram

_QUOTES = re.compile(r"[‘’`']")


def diagnostics(program: WholeProgram, output: str) -> list[Diagnostic]:
    """The compiler's complaints about the program's text; [] when every one is about generated text alone."""
    verbatim = [region.inner or region.span for region in program.unit.regions if region.kind != "tileflow"]
    found = cxx.diagnostics(output, program.source, verbatim)
    return library_words.once_a_place([_in_words(program, each) for each in found])


def _in_words(program: WholeProgram, found: Diagnostic) -> Diagnostic:
    texts = [found.message, *(note.message for note in found.notes)]
    for name, candidates in _by_name(program).items():
        if not any(re.search(rf"\b{re.escape(name)}\b", text) for text in texts):
            continue
        text = _wrong_call(name, candidates, [t.replace("choreo::", "") for t in texts], found)
        if text is None:
            continue
        places = [Note(f"`{signature.text}` is defined here", _defined(program, signature)) for signature in candidates]
        return Diagnostic("error", cxx.CODE, text, found.span, tuple(places))
    words = library_words.sentence(found.message)
    if words is not None:
        return Diagnostic("error", cxx.CODE, words, found.span)
    # What the compiler notes about headers has no place in the program, and is about their insides.
    notes = tuple(Note(_shorter(note.message), note.span) for note in found.notes if note.span is not None)
    return dataclasses.replace(found, message=_shorter(found.message), notes=notes)


def _by_name(program: WholeProgram) -> dict[str, list[Signature]]:
    out: dict[str, list[Signature]] = {}
    for signature in program.signatures.values():
        out.setdefault(signature.name, []).append(signature)
    return out


def _defined(program: WholeProgram, signature: Signature) -> Span | None:
    for name, each in program.signatures.items():
        if each is signature and name in program.code.places:
            start = program.code.places[name]
            at = program.source.text.find(signature.name, start)
            return Span(program.source, at, at + len(signature.name)) if at >= 0 else None
    return None


def _wrong_call(name: str, candidates: Sequence[Signature], texts: Sequence[str], found: Diagnostic) -> str | None:
    """What is wrong with a call of a tileflow function, None if the complaint is about something else."""
    whole = "\n".join(texts)
    called = f"`{name}`"
    if re.search(r"too (?:few|many) arguments to function", texts[0]) and re.search(rf"\b{name}\(", whole):
        return _count(called, candidates, texts[0], found)
    match = re.search(rf"(?:passing|initializing) argument (\d+) of `?.*\b{name}\(", whole)
    if match:
        number = int(match[1])
        params = [each.params[number - 1] for each in candidates if number <= len(each.params)]
        if len({each.declaration for each in params}) > 1:
            return _none_fits(called, candidates)
        return _argument(called, params[0], number, _given(_shorter(texts[0])))
    if re.search(rf"no matching function for call to `?{name}\b", texts[0]) or re.search(
        rf"no matching function for call to `{name}\(", texts[0]
    ):
        return _no_match(called, candidates, texts, found)
    return None


def _count(called: str, candidates: Sequence[Signature], text: str, found: Diagnostic) -> str:
    wanted = " or ".join(sorted({str(len(s.params)) for s in candidates}))
    which = "few" if "too few" in text else "many"
    missing = ""
    if len(candidates) == 1:
        names = ", ".join(f"`{p.declaration}`" for p in candidates[0].params)
        missing = f": {names}" if names else ""
    return f"{called} is called with too {which} arguments; it takes {wanted}{missing}"


def _no_match(called: str, candidates: Sequence[Signature], texts: Sequence[str], found: Diagnostic) -> str | None:
    for text in texts[1:]:
        if len(candidates) != 1:
            break
        match = re.search(r"no known conversion from `(.*?)'?`? to `(.*?)`? for (\d+)(?:st|nd|rd|th) argument", text)
        match = match or re.search(r"no known conversion for argument (\d+) from `(.*?)` to `(.*?)`", text)
        if match:
            groups = match.groups()
            number, given = (int(groups[0]), groups[1]) if groups[0].isdigit() else (int(groups[2]), groups[0])
            return _argument(called, candidates[0].params[number - 1], number, given)
        if re.search(r"requires (?:at (?:least|most) )?\d+ arguments?, but \d+", text):
            few = re.search(r"requires (?:at \w+ )?(\d+) arguments?, but (\d+)", text)
            assert few is not None
            which = "too few" if int(few[2]) < int(few[1]) else "too many"
            return _count(called, candidates, which, found)
    return _none_fits(called, candidates) if len(candidates) > 1 else None


def _none_fits(called: str, candidates: Sequence[Signature]) -> str:
    listed = ", ".join(f"`{each.text}`" for each in candidates)
    return f"{called}: no function of that name takes these arguments; there are {listed}"


def _given(text: str) -> str:
    """The type of what was passed, from a complaint about a conversion."""
    for pattern in (
        r"from expression of type `(.*?)`$",
        r"from an? (?:rvalue|lvalue) of type `(.*?)`",
        r"could not convert .* from `(.*?)` to",
        r"cannot convert `(.*?)` to",
        r"invalid conversion from `(.*?)` to",
        r"from type `(.*?)`$",
        r"cannot bind .* to .*? of type `(.*?)`",
    ):
        match = re.search(pattern, text)
        if match:
            return match[1]
    return ""


def _argument(called: str, param: Parameter, number: int, given: str) -> str:
    """A sentence about one argument."""
    given = _known_types(given)
    if param.kind == "span":
        rank = len(param.extents)
        wanted = f"an array of {param.type} of rank {rank}"
    else:
        wanted = param.type or "a stream"
    passed = _passed(given) if given else ""
    return (
        f"{called}: parameter `{param.declaration}` takes {wanted}, and argument {number} is {passed or 'another type'}"
    )


def _passed(given: str) -> str:
    match = re.match(r"(?:const )?spanned_(?:view|data)<(.*), (\d+)(?:ul|UL)?>\s*&*$", given)
    if match:
        return f"an array of {match[1]} of rank {match[2]}"
    return f"`{given}`"


_NAMES = {
    "signed char": "s8",
    "short int": "s16",
    "short": "s16",
    "long int": "s64",
    "long": "s64",
    "unsigned char": "u8",
    "short unsigned int": "u16",
    "unsigned short": "u16",
    "unsigned int": "u32",
    "long unsigned int": "u64",
    "unsigned long": "u64",
    "int": "s32",
    "float": "f32",
    "double": "f64",
    "_Float16": "f16",
}


def _known_types(text: str) -> str:
    """Element types of arrays under the language's names."""
    text = re.sub(r" \(aka .*?\)|\{aka .*?\}", "", text.replace("choreo::", "")).strip()

    def change(match: re.Match[str]) -> str:
        return f"{match[1]}<{_NAMES.get(match[2], match[2])}, {match[3]}>"

    return re.sub(r"(spanned_(?:view|data))<([\w ]+), (\d+)(?:ul|UL)?>", change, text)


def _shorter(text: str) -> str:
    """A complaint without values of template arguments, what types stand for, and the insides of the library."""
    return library_words.without_insides(re.sub(r" \[with .*\]| \{aka .*?\}", "", text), _NAMES)


def error_of_linker(program: WholeProgram, output: str) -> CroqError:
    """The error for a link that failed."""
    names = sorted(set(re.findall(r"undefined reference to [`'‘](.*?)['’]", output)))
    if not names:
        names = sorted(set(re.findall(r'"_?(\w+)[^"\n]*", referenced from', output)))
    found: list[Diagnostic] = []
    for name in names:
        if name == "main":
            found.append(
                Diagnostic("error", cxx.CODE, NO_MAIN, program.source.whole(), hint="a whole program has `int main()`")
            )
            continue
        word = re.match(r"(?:\w+::)*(\w+)", name)
        at = re.search(rf"\b{word[1]}\b", program.source.text) if word else None
        span = program.source.span(*at.span()) if at else program.source.whole()
        found.append(Diagnostic("error", cxx.CODE, f"`{name}` is declared and defined nowhere", span))
    if found:
        return CompileError(found)
    return TargetError(of_linker(output))


NO_MAIN = "the program has no `main`: there is nothing to run"


def of_linker(output: str) -> str:
    """What a linker says, without the names of temporary files."""
    if re.search(r"undefined reference to [`'‘]main['’]", output):
        return NO_MAIN
    lines = [re.sub(r"^(?:\S*/)?(?:ld|collect2)[\w.-]*: (?:\S+\.o: )?", "", line) for line in output.splitlines()]
    kept = [line for line in lines if line and "ld returned" not in line and "in function" not in line]
    return "the program cannot be linked:\n" + "\n".join(f"    {line}" for line in kept[:20])
