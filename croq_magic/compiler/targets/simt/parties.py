"""How many threads get to a statement, over a block or over several blocks."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

from croq_magic.compiler import evaluate, integers, ir
from croq_magic.compiler.targets.simt.threads import Threads, positions

MOST = 1 << 20  # threads that are looked at
Axes = Sequence[tuple[ir.Var, ir.Expr]]


def conjuncts(conditions: Sequence[ir.Expr]) -> list[ir.Expr]:
    """The parts of conditions that all must hold."""
    found: list[ir.Expr] = []
    for c in conditions:
        if isinstance(c, ir.Binary) and c.op == "&&":
            found += conjuncts((c.left, c.right))
        else:
            found.append(c)
    return found


def parties(
    threads: Threads,
    chain: Sequence[ir.Region],
    conditions: Sequence[ir.Expr],
    varying: set[str],
    blocks: Axes = (),
    slot: Sequence[ir.Expr] = (),
) -> list[int] | None:
    """Numbers (block times the size of a block, plus thread) of the threads that satisfy all conditions, over the
    blocks of `blocks`; of the first block that has any where `slot` tells blocks apart. None if indices do not decide.
    Conditions that are the same for all threads looked at are left out; `varying` names what is not."""
    if threads.count is None:
        return None
    places = positions(threads, chain)
    sizes = [integers.value(extent) for _, extent in blocks]
    if places is None or any(size is None for size in sizes):
        return None
    if threads.count * math.prod(int(s or 0) for s in sizes) > MOST:
        return None
    outer = [var.name for var, _ in blocks]
    known = {*places, *outer}
    tested = [c for c in conjuncts(conditions) if set(evaluate.free_variables((c,))) & (known | varying)]
    if any(not set(evaluate.free_variables((c,))) <= known for c in tested):
        return None
    names = [*outer, *places]
    try:
        test = evaluate.function(tuple(tested), names)
    except ValueError:
        return None
    apart = bool(set(evaluate.free_variables(tuple(slot))) & set(outer))
    found: list[int] = []
    for number, block in enumerate(itertools.product(*(range(int(s or 0)) for s in sizes))):
        here = [t for t in range(threads.count) if all(test(*block, *(values[t] for values in places.values())))]
        found += [number * threads.count + t for t in here]
        if here and apart:
            break
    return found
