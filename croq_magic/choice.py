"""What a cell runs: the function that its options choose, and the values of its parameters in the notebook."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from croq_magic import options
from croq_magic.errors import OptionError

if TYPE_CHECKING:
    from croq_magic.overloads import OverloadedFunction
    from croq_magic.program import Program, TileFunction


def is_whole(program: Program) -> bool:
    """Whether a program has a `main` and is run by that."""
    text = program.unit.request.source.text
    if "main" not in text:  # not even the import is paid for
        return False
    from croq_magic.compiler.whole.main import is_whole_program

    return is_whole_program(text)


def function(program: Program, settings: argparse.Namespace, namespace: dict[str, Any]) -> TileFunction | None:
    """The function of `-r`, else the last one; None if the program has none. Raises `OptionError`."""
    if settings.run is None:
        chosen = list(program)[-1] if program.functions else None
    elif settings.run in program.functions:
        chosen = program.functions[settings.run]
    else:
        known = ", ".join(program.functions) or "no tileflow function"
        raise OptionError(f"-r {settings.run}: the cell defines {known}")
    overloads = getattr(chosen, "overloads", None)
    return _overload(chosen, settings, namespace) if overloads else chosen  # type: ignore[arg-type, return-value]


def _overload(function: OverloadedFunction, settings: argparse.Namespace, namespace: dict[str, Any]) -> TileFunction:
    """The overload that fits the notebook's variables; the last one if none has variables for all parameters."""
    from croq_magic.overloads import Candidate

    bindings = dict(settings.bindings)
    known = {*bindings, *namespace}
    candidates = [
        Candidate(each, arguments(each, settings, namespace)[0])
        for each in function.overloads
        if known.issuperset(each.binder.required) and bindings.keys() <= set(each.binder.names)
    ]
    return function.fitting(candidates) if candidates else function.overloads[-1]


def arguments(
    function: TileFunction, settings: argparse.Namespace, namespace: dict[str, Any]
) -> tuple[list[Any], dict[str, str], list[str]]:
    """Values, the expressions of `-b`, and the parameters that have no variable. Raises `OptionError`."""
    binder = function.binder
    bindings = dict(settings.bindings)
    for name in bindings:
        if name not in binder.names:
            raise OptionError(f"-b {name}: the parameters of {function.__name__} are {', '.join(binder.names)}")
    values: list[Any] = []
    for name in binder.names:
        if name in bindings:
            values.append(options.evaluate(bindings[name], namespace, f"-b {name}"))
        else:
            values.append(namespace.get(name))
    missing = [name for name in binder.required if name not in bindings and name not in namespace]
    return values, bindings, missing
