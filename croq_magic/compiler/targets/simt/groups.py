"""Groups of asynchronous copies: how many may still be under way when a `wait` returns.

Every asynchronous copy is a group of its own, and groups of a thread complete in order. So a wait for a transfer may
leave as many groups as were surely started after it. The pass over the statements keeps what is known of the newest
groups on every path; where paths differ, their common end. Handles that are rotated are known by their slot variable.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection

from croq_magic.compiler import ir
from croq_magic.compiler.passes.structure import bodies, leaves
from croq_magic.compiler.visit import walk


@dataclasses.dataclass(frozen=True)
class _Pending:
    """Handles of the newest groups, oldest first; `more`: there may be older ones, of which nothing is known."""

    groups: tuple[str, ...] = ()
    more: bool = False

    def merged(self, other: _Pending) -> _Pending:
        if self == other:
            return self
        count = 0
        shorter = min(len(self.groups), len(other.groups))
        while count < shorter and self.groups[-1 - count] == other.groups[-1 - count]:
            count += 1
        return _Pending(self.groups[len(self.groups) - count :], True)


def pending_groups(
    root: ir.Region, is_group: Callable[[ir.Copy], bool], following: Collection[int] = ()
) -> dict[int, int | None]:
    """Per `Wait` (by id) how many groups may stay pending; None where there is nothing to wait for. The triggers in
    `following` (by id) wait for nothing, their arrivals follow the copies."""
    counter = _Counter(is_group, _handles(root), following)
    counter.body(root.body, _Pending())
    return counter.allowed


def _handles(root: ir.Region) -> dict[str, str]:
    """The slot variable that moves with a handle, by the name of its token: the one its copies write to."""
    found: dict[str, str] = {}
    for s in walk(root):
        if isinstance(s, ir.Copy) and s.token is not None and len(s.dst.slot) == 1:
            slot = s.dst.slot[0]
            if isinstance(slot, ir.Var) and slot.role is ir.Role.MUTABLE:
                found[s.token.name] = slot.name
    return found


class _Counter:
    def __init__(
        self, is_group: Callable[[ir.Copy], bool], handles: dict[str, str], following: Collection[int] = ()
    ) -> None:
        self.is_group = is_group
        self.handles = handles
        self.following = following
        self.allowed: dict[int, int | None] = {}

    def key(self, token: ir.Token) -> str:
        return self.handles.get(token.name, token.name)

    def body(self, body: ir.Body, state: _Pending) -> _Pending:
        for s in body:
            state = self.statement(s, state)
        return state

    def statement(self, s: ir.Stmt, state: _Pending) -> _Pending:
        match s:
            case ir.Copy() if s.token is not None and self.is_group(s):
                return _Pending((*state.groups, self.key(s.token)), state.more)
            case ir.Wait():
                return self.wait(s, s.tokens, state)
            case ir.Trigger() if s.after and id(s) not in self.following:
                return self.wait(s, s.after, state)
            case ir.Rotate():
                names = [var.name for var in s.slots]
                renamed = dict(zip([*names[1:], names[0]], names, strict=True))
                return _Pending(tuple(renamed.get(g, g) for g in state.groups), state.more)
            case ir.If():
                return self.body(s.then, state).merged(self.body(s.other, state))
            case ir.For() | ir.While():
                return self.loop(s, state)
            case ir.Masked():
                return state.merged(self.body(s.body, state))
            case _:
                for inner in bodies(s):
                    state = self.body(inner, state)
                return state

    def loop(self, s: ir.For | ir.While, state: _Pending) -> _Pending:
        if leaves(s.body):
            state = _Pending((), True)
        while True:
            after = self.body(s.body, state)
            merged = state.merged(after)
            if merged == state:
                break
            state = merged
        return _Pending((), True) if leaves(s.body) else state

    def wait(self, s: ir.Stmt, tokens: tuple[ir.Token, ...], state: _Pending) -> _Pending:
        keys = {self.key(token) for token in tokens}
        places = [i for i, group in enumerate(state.groups) if group in keys]
        known = len(keys & set(state.groups)) == len(keys)
        if not places and not state.more:
            allowed, rest = None, state
        elif places and (known or not state.more):
            rest = _Pending(state.groups[places[-1] + 1 :])
            allowed = len(rest.groups)
        else:  # some are older than what is known
            last = places[-1] + 1 if places else 0
            rest = _Pending(state.groups[last:])
            allowed = len(rest.groups)
        before = self.allowed.get(id(s), allowed)
        self.allowed[id(s)] = allowed if before is None else before if allowed is None else min(before, allowed)
        return rest
