"""Which triggers leave their arrival to asynchronous copies, so that the thread need not wait for them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Sequence

from croq_magic.compiler import ir
from croq_magic.compiler.passes.accesses import Mode, of_statement
from croq_magic.compiler.passes.structure import bodies
from croq_magic.compiler.targets.simt.threads import Threads, select
from croq_magic.compiler.visit import walk

_OPAQUE = (ir.Call, ir.CxxText, ir.Asm)  # whatever they write is not known


@dataclasses.dataclass(frozen=True)
class Arrivals:
    """`triggers` (by id) arrive when copies land; `tokens` are the names of transfers that nobody waits for otherwise,
    so that their copies need no group. `narrow` are those after which fewer threads trigger than copy: these have to
    meet before."""

    triggers: frozenset[int] = frozenset()
    tokens: frozenset[str] = frozenset()
    narrow: frozenset[str] = frozenset()


def arrivals_of(root: ir.Region, is_asynchronous: Callable[[ir.Copy], bool], far: Collection[int]) -> Arrivals:
    """The arrivals of a kernel that follow copies: those of `trigger ... after` at events in the block's memory (`far`
    are the others, by id) with an asynchronous copy among their transfers."""
    nodes = list(walk(root))
    narrow = _narrow(root)
    copied = {n.token.name for n in nodes if isinstance(n, ir.Copy) and n.token is not None and is_asynchronous(n)}
    chosen: list[ir.Trigger] = []
    waited: set[str] = set()
    for n in nodes:
        if isinstance(n, ir.Trigger) and n.after:
            names = {token.name for token in n.after}
            near = id(n.event) not in far and n.event.storage is not ir.Storage.GLOBAL
            if names & copied and near and not names & narrow:
                chosen.append(n)
            else:
                waited |= names
        elif isinstance(n, ir.Wait):
            waited |= {token.name for token in n.tokens}
    tokens = {token.name for n in chosen for token in n.after}
    return Arrivals(frozenset(map(id, chosen)), frozenset((tokens & copied) - waited), narrow)


def _narrow(root: ir.Region) -> frozenset[str]:
    """Names of transfers that stand outside an `inthreads` or a condition around a trigger after them."""
    copied: dict[str, set[int]] = {}
    triggered: list[tuple[str, set[int]]] = []

    def visit(body: ir.Body, around: set[int]) -> None:
        for s in body:
            if isinstance(s, ir.Copy) and s.token is not None:
                copied.setdefault(s.token.name, around)
            elif isinstance(s, ir.Trigger):
                triggered.extend((token.name, around) for token in s.after)
            inside = {*around, id(s)} if isinstance(s, (ir.Masked, ir.If)) else around
            for inner in bodies(s):
                visit(inner, inside)

    visit(root.body, set())
    return frozenset(name for name, around in triggered if around - copied.get(name, set()))


def writes_beside(
    threads: Threads,
    chain: Sequence[ir.Region],
    conditions: Sequence[ir.Expr],
    trigger: ir.Trigger,
    is_asynchronous: Callable[[ir.Copy], bool],
) -> bool:
    """Whether the threads that get to a trigger may write to memory of the block or the device in any other way than by
    asynchronous copies. What stands under an `inthreads` that none of them satisfies is not theirs."""

    def mine(predicate: ir.Expr) -> bool:
        found = select(threads, chain, (*conditions, predicate))
        return found is None or not found.exact or bool(found.threads)

    def any_in(body: ir.Body) -> bool:
        for s in body:
            if isinstance(s, ir.Masked) and not any(n is trigger for n in walk(s)) and not mine(s.predicate):
                continue
            if isinstance(s, _OPAQUE):
                return True
            own = of_statement(s) if not bodies(s) and not (isinstance(s, ir.Copy) and is_asynchronous(s)) else ()
            if any(a.mode is not Mode.READ and a.buffer.storage in (ir.Storage.SHARED, ir.Storage.GLOBAL) for a in own):
                return True
            if any(any_in(inner) for inner in bodies(s)):
                return True
        return False

    return any_in(threads.root.body)
