"""`--show`: how a program is cut up and mapped, and its tile IR; as text, or as pictures into files."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from croq_magic.driver import files
from croq_magic.driver.options import UsageError
from croq_magic.errors import BindError

if TYPE_CHECKING:
    from croq_magic.compiler.pipeline import CompiledFunction
    from croq_magic.viz import Diagram

_T = TypeVar("_T")
PICTURES = (".svg", ".png", ".pdf")
_DIAGRAMS = ("mapping", "tiling")


def text(functions: Iterable[CompiledFunction], kinds: tuple[str, ...], sizes: Mapping[str, int]) -> str:
    """What the kinds show of all functions. Raises `BindError` for a symbolic dimension without a value."""
    parts = [_TEXTS[kind](function, _known(function, sizes)) for function in functions for kind in kinds]
    return "\n\n".join(part.rstrip("\n") for part in parts) + "\n"


def pictures(
    functions: Iterable[CompiledFunction], kinds: tuple[str, ...], sizes: Mapping[str, int], output: str
) -> list[str]:
    """Draws into `output`, or, when there are several diagrams, into files named after function and kind."""
    drawn = [kind for kind in kinds if kind in _DIAGRAMS]
    if len(drawn) < len(kinds):
        raise UsageError(f"--show: {next(kind for kind in kinds if kind not in drawn)} is text and cannot be drawn")
    diagrams = [(f, kind, _diagram(f, kind, _known(f, sizes))) for f in functions for kind in drawn]
    path = Path(output)
    written = []
    for function, kind, diagram in diagrams:
        one = len(diagrams) == 1
        name = output if one else str(path.with_name(f"{path.stem}-{function.name}-{kind}{path.suffix}"))
        data = diagram.png() if path.suffix == ".png" else diagram.render(path.suffix[1:])
        files.write(name, data)
        written.append(name)
    return written


def is_picture(output: str | None) -> bool:
    return output is not None and Path(output).suffix in PICTURES


def _known(function: CompiledFunction, sizes: Mapping[str, int]) -> dict[str, int]:
    """The values that this function has a dimension or parameter for."""
    names = {dim.name for dim in function.function.dims} | {p.name for p in function.function.params}
    return {name: value for name, value in sizes.items() if name in names}


def _diagram(function: CompiledFunction, kind: str, sizes: dict[str, int]) -> Diagram:
    from croq_magic import viz

    draw: Callable[..., Diagram] = viz.tiling if kind == "tiling" else viz.mapping
    return _named(lambda: draw(function.function, **sizes))


def _launches(function: CompiledFunction, sizes: dict[str, int]) -> str:
    from croq_magic.launches import launches

    lines = [f"launches of {function.name}"]
    for found in _named(lambda: launches(function.function, sizes)):
        grid, block = (" × ".join(map(str, extents)) for extents in (found.grid, found.block))
        lines.append(f"  {found.kernel}: grid {grid}, block {block}, {found.shared_bytes} bytes shared")
        lines += [
            f"    {level} [{', '.join(f'{n} < {e}' for n, e in zip(names, extents, strict=True))}]"
            for level, names, extents in found.levels
        ]
    return "\n".join(lines if len(lines) > 1 else [*lines, "  none"])


def _named(make: Callable[[], _T]) -> _T:
    """Says how the command line gives what a diagram lacks."""
    try:
        return make()
    except BindError as error:
        missing = re.findall(r"\b(\w+)=\.\.\.", str(error))
        if not missing:
            raise
        hint = ",".join(f"{name}=N" for name in missing)
        raise BindError(f"{str(error).partition(': give')[0]}; --sizes {hint} gives them") from None


_TEXTS: dict[str, Callable[[CompiledFunction, dict[str, int]], str]] = {
    "ir": lambda function, sizes: function.ir(),
    "target-ir": lambda function, sizes: function.ir("target"),
    "launches": _launches,
    "mapping": lambda function, sizes: _diagram(function, "mapping", sizes).text,
    "tiling": lambda function, sizes: _diagram(function, "tiling", sizes).text,
}
