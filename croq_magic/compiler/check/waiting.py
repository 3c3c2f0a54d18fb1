"""Waits under a condition: which futures are complete after an `if`, and which only perhaps (DMA07)."""

from __future__ import annotations

from collections.abc import Sequence

from croq_magic.compiler import syntax
from croq_magic.compiler.check.context import Checker
from croq_magic.compiler.check.values import FutureValue, OperationValue
from croq_magic.compiler.source import Span

_LOOPS = ("`foreach`", "`while`")
Pending = tuple[FutureValue | OperationValue, bool]


def pending(c: Checker) -> list[Pending]:
    """The futures that are visible and not waited on, each with whether a loop runs between it and here."""
    found: list[Pending] = []
    repeated = False
    for scope in reversed(c.scopes):
        for symbol in scope.symbols.values():
            value = symbol.value
            if isinstance(value, (FutureValue, OperationValue)) and value.token is not None and value.waited is None:
                found.append((value, repeated))
        repeated |= scope.kind in _LOOPS
    return found


def take_back(futures: Sequence[Pending]) -> list[Span | None]:
    """Where the branch just read waits for each; the other branch starts without these waits."""
    waits = [value.waited for value, _ in futures]
    for value, _ in futures:
        value.waited = None
    return waits


def join(
    futures: Sequence[Pending], waits: Sequence[Span | None], condition: syntax.Node, taken: bool | None = None
) -> None:
    """After both branches: `waits` are those of the first. `taken` says which one runs, if that is known. Which turn
    of a loop waits is not followed."""
    for (value, repeated), first in zip(futures, waits, strict=True):
        if taken is not None:
            value.waited = first if taken else value.waited
            continue
        both = first is not None and value.waited is not None
        value.waited = value.waited or first
        if value.waited is not None and not both and not repeated:
            value.only_if = condition.span
