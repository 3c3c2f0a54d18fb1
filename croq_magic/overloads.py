"""Functions of one name: a call goes to the one whose parameters fit the arguments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from croq_magic.errors import BindError

if TYPE_CHECKING:
    from croq_magic.compiler.ir import Function
    from croq_magic.launches import Launch
    from croq_magic.program import TileFunction


class Candidate(NamedTuple):
    """An overload with one value per parameter."""

    function: TileFunction
    values: Sequence[Any]


class OverloadedFunction:
    """Several tileflow functions of one name; `overloads` has them in the order of the source.

    A call goes to the one whose parameters have the ranks and element types of the arguments, and numbers of their
    types: a Python `int` rather fits an `int` than an `f32`. `BindError` if none fits, or several fit equally well.
    """

    def __init__(self, name: str, overloads: Sequence[TileFunction]) -> None:
        self.overloads = tuple(overloads)
        self.signature = "\n".join(function.signature for function in self.overloads)
        self.__name__ = self.__qualname__ = name
        self.__doc__ = "\n\n".join(str(function.__doc__) for function in self.overloads)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.choose(*args, **kwargs)(*args, **kwargs)

    def choose(self, *args: Any, **kwargs: Any) -> TileFunction:
        """The overload that a call with these arguments runs."""
        candidates, misfits = [], {}
        for function in self.overloads:
            try:
                candidates.append(Candidate(function, function.binder.arrange(args, kwargs)))
            except BindError as error:
                misfits[function] = str(error)
        return self.fitting(candidates, misfits)

    def fitting(
        self, candidates: Sequence[Candidate], misfits: Mapping[TileFunction, str] | None = None
    ) -> TileFunction:
        """The candidate that fits its values best; `misfits` says why other overloads are no candidates."""
        reasons = dict(misfits or {})
        found: list[tuple[tuple[int, ...], TileFunction]] = []
        for function, values in candidates:
            try:
                found.append((function.binder.distance(values), function))
            except BindError as error:
                reasons[function] = str(error)
        # As in C++: the best is no worse than any other in every parameter.
        best = [f for cost, f in found if all(x <= y for other, _ in found for x, y in zip(cost, other, strict=True))]
        if len(best) == 1:
            return best[0]
        if not found:
            self._refuse("no overload fits the arguments", reasons)
        self._refuse("several overloads fit the arguments", {function: "" for _, function in found})

    def _refuse(self, message: str, reasons: Mapping[TileFunction, str]) -> NoReturn:
        lines = [f"{self.__name__}: {message}"]
        for function in self.overloads:
            if function in reasons:
                lines.append(f"    {function.signature}")
                reason = reasons[function].split("\n")[0].removeprefix(f"{self.__name__}: ")
                lines += [f"        {reason}"] if reason else []
        raise BindError("\n".join(lines))

    @property
    def ir_function(self) -> Function:
        """There is no single one: take `f.overloads[0].ir_function`."""
        self._one("the diagram")

    def launches(self, *args: Any, **kwargs: Any) -> list[Launch]:
        """The launches of the overload that these arguments choose."""
        return self.choose(*args, **kwargs).launches(*args, **kwargs)

    def source(self) -> str:
        """The generated sources of all overloads."""
        return "\n".join(function.source() for function in self.overloads)

    def ir(self) -> str:
        """The tile IR of all overloads, as text."""
        return "\n\n".join(function.ir() for function in self.overloads)

    def _one(self, what: str) -> NoReturn:
        raise BindError(
            f"{self.__name__}: {what} is about one function, and there are {len(self.overloads)} of this name\n"
            f"    hint:     {self.__name__}.overloads[0]"
        )

    def __repr__(self) -> str:
        return "\n".join(map(repr, self.overloads))
