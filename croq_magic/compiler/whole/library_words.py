"""What the C++ compiler says about uses of the host library, in words that need no look into its headers."""

from __future__ import annotations

import re
from collections.abc import Sequence

from croq_magic.compiler.diagnostics import Diagnostic

# What a call takes; said instead of the list of overloads that did not fit.
_CALLS = {
    "make_spanview": "takes a pointer and extents, as in `make_spanview<2>(p, {4, 8})`, or a C array of rank 1 to 3",
    "make_spanned": "takes a pointer and extents, as in `make_spanned<2>(p, {4, 8})`",
    "copy_as_spanned": "takes a pointer and extents, as in `copy_as_spanned<2>(p, {4, 8})`",
    "make_spandata": "takes an element type and extents, as in `make_spandata<choreo::f32>(4, 8)`",
    "fill": "takes one value of the array's element type",
    "fill_random": "takes two bounds, as in `x.fill_random(-1, 1)`",
}
_COPIED = (
    "an array that owns its memory cannot be copied: `std::move(x)` hands it on, `x.view()` shares it, and "
    "`copy_as_spanned` copies the elements"
)


def sentence(text: str) -> str | None:
    """A sentence for a complaint about a use of the host library, None for one about anything else."""
    if re.search(r"deleted (?:function|.*constructor|.*operator).*spanned_data|deleted .*of `spanned_data", text):
        return _COPIED
    called = re.search(r"no matching (?:member )?function for call to `?(spanned_\w+<.*>::)?(\w+)", text)
    if called is None:
        pattern = r"type/value mismatch at argument \d+ in template parameter list for (.*::)?.*\b(\w+)\("
        called = re.search(pattern, text)
    # The names of members are those of functions of std, too.
    if called and called[2] in _CALLS and (called[1] is not None or called[2].startswith(("make_", "copy_"))):
        return f"`{called[2]}` {_CALLS[called[2]]}"
    return None


def without_insides(text: str, name_of: dict[str, str]) -> str:
    """The text with words for an array with too few indices, which is a type of its own in the library.

    `name_of` has the language's names of C++ types.
    """

    def words(match: re.Match[str]) -> str:
        element = name_of.get(match[1], match[1])
        left = int(match[3])
        return f"an array of {element} of rank {match[2]} that lacks {left} {'index' if left == 1 else 'indices'}"

    return re.sub(r"`(?:class |const )*croq_part<([\w ]+), (\d+)\w*, (\d+)\w*>[ &]*`", words, text)


def once_a_place(found: Sequence[Diagnostic]) -> list[Diagnostic]:
    """Without what is said again at the same place: a call of an overloaded function is refused once for each."""
    said = {(each.message, each.span.start): each for each in reversed(found)}
    return [each for each in found if said[each.message, each.span.start] is each]
