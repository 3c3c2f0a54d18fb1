"""Functions of one name: which may stand beside each other, and what each is called in what is generated."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from croq_magic.compiler import syntax
from croq_magic.compiler.diagnostics import Note, Report


def symbols(
    trees: Sequence[syntax.Function], report: Report, namespace: Callable[[syntax.Function], str]
) -> list[tuple[str, syntax.Function]]:
    """The functions of a text, each with a name that no other has: its own, but `f_2` for the second `f`. One that has
    the parameter types of an earlier one of its name in the same `namespace` is reported and left out."""
    names = [tree.name.text for tree in trees]
    taken = set(names)
    first: dict[tuple[str, str, tuple[str, ...]], syntax.Function] = {}
    seen: set[str] = set()
    out: list[tuple[str, syntax.Function]] = []
    for tree in trees:
        name = tree.name.text
        kind = (namespace(tree) if names.count(name) > 1 else "", name, tuple(map(_kind, tree.params)))
        if kind in first:
            before = first[kind].name.span
            report.error(
                "NAM02",
                f"`{name}` is already defined at line {before.line} for parameters of these types",
                tree.name.span,
                hint="functions of one name differ in the element types or ranks of their parameters",
                notes=[Note("first defined here", before)],
            )
            continue
        first[kind] = tree
        symbol, number = name, 1
        while symbol in seen or (symbol in taken and number > 1):
            number += 1
            symbol = f"{name}_{number}"
        seen.add(symbol)
        out.append((symbol, tree))
    return out


def _kind(param: syntax.Param) -> str:
    """What tells parameters apart: as in C++, where extents, `&` and `global` are no part of the type."""
    kind = param.type
    word = kind.type.name if kind.type is not None else kind.word
    word = "s32" if word == "int" else word
    return word if kind.shape is None else f"{word}<{len(kind.shape.dims)}>"
