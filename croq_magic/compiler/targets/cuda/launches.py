"""What is asked about launches as a whole: that they are over, and how long they took."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from croq_magic.compiler.targets.cuda import faults, system, timing
from croq_magic.compiler.targets.cuda.timing import Times

if TYPE_CHECKING:
    from croq_magic.binding import Bound
    from croq_magic.program import TileFunction


def finish() -> None:
    """Waits for CuPy's current stream. TargetError, with the kernel's name, for what failed on it."""
    cupy = sys.modules.get("cupy")
    if cupy is None or faults.lost():  # nothing was launched, or the error has been shown
        return
    try:
        cupy.cuda.get_current_stream().synchronize()
    except Exception as error:
        explained = faults.explain(error)
        if explained is None:
            raise
        raise explained from None
    faults.all_well()


def timed(function: TileFunction, bound: Bound) -> tuple[Any, Times]:
    """Runs a function on bound arguments, measured, after a run to warm up whose results are dropped. What prints is
    run once."""
    cupy = system.cupy()
    function.build(bound)
    if not function.compiled.variant(bound.plan.dims).launch.prints:  # type: ignore[attr-defined]
        function.run(_on_copies(function, bound))
    with timing.measuring(cupy) as timer:
        value = function.run(bound)
    return value, timer.times()


def _on_copies(function: TileFunction, bound: Bound) -> Bound:
    """The same arguments with copies of the arrays that the function writes to."""
    import dataclasses

    pairs = zip(function.binder.params, bound.values, strict=True)
    values = [value.copy() if param.kind == "span" and param.written else value for param, value in pairs]
    return dataclasses.replace(bound, values=values, copied_back=[])
