"""A small LALR(1) engine: it runs the table that lark makes from grammar.lark.

It works on our own tokens, calls the actions as rules are completed, and leaves its stack open for recovery after an
error and for the question what could have come next.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

END = "$END"
Action = Callable[[list[Any]], Any]


@dataclass(frozen=True, slots=True)
class Rule:
    """`origin: size symbols`.

    `action` is the name of the method to call. The values of symbols in `inline` are lists that are spliced in.
    `absent` says before which symbols (or at the end) how many None stand for optional parts that are not there.
    `single` hands a lone value through without calling the action.
    """

    origin: str
    size: int
    action: str
    single: bool
    inline: tuple[int, ...]
    absent: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Table:
    """For every state what to do for a symbol: n >= 0 goes to state n, n < 0 completes rule -n - 1."""

    states: Sequence[dict[str, int]]
    rules: Sequence[Rule]
    start: int
    accept: int


def builders(table: Table, actions: object) -> list[Action]:
    """For every rule the function that makes its value from the values of its symbols."""
    return [_builder(rule, getattr(actions, rule.action, None)) for rule in table.rules]


def _builder(rule: Rule, action: Action | None) -> Action:
    if rule.origin.startswith("_"):  # a repetition: its value is a list, spliced into the rule around it
        return _extend if rule.inline == (0,) else list
    if action is None:
        assert rule.single, f"no action for {rule.action}"
        return _only
    if not rule.inline and not rule.absent:
        return _only if rule.single and rule.size == 1 else action
    inline, absent, single = frozenset(rule.inline), dict(rule.absent), rule.single

    def build(values: list[Any]) -> Any:
        kids: list[Any] = []
        for index, value in enumerate(values):
            if index in absent:
                kids += [None] * absent[index]
            if index in inline:
                kids += value
            else:
                kids.append(value)
        if len(values) in absent:
            kids += [None] * absent[len(values)]
        return kids[0] if single and len(kids) == 1 else action(kids)

    return build


def _only(values: list[Any]) -> Any:
    return values[0]


def _extend(values: list[Any]) -> list[Any]:
    """`items: items item`: the list grows in place, so that long lists cost no more than their length."""
    items: list[Any] = values[0]
    items += values[1:]
    return items


class Stack:
    """One parse. `states` is one longer than `values`."""

    def __init__(self, table: Table, build: Sequence[Action]) -> None:
        self.table = table
        self.build = build
        self.states = [table.start]
        self.values: list[Any] = []

    def feed(self, kind: str, value: Any) -> bool:
        """Takes the next token; False if it cannot stand here. `END` completes the parse: `values` is the result."""
        states, values = self.states, self.values
        rows, rules, build = self.table.states, self.table.rules, self.build
        while True:
            entry = rows[states[-1]].get(kind)
            if entry is None:
                return False
            if entry >= 0:
                states.append(entry)
                values.append(value)
                return True
            rule = rules[-entry - 1]
            size = rule.size
            if size:
                kids = values[-size:]
                del values[-size:]
                del states[-size:]
            else:
                kids = []
            values.append(build[-entry - 1](kids))
            states.append(rows[states[-1]][rule.origin])
            if kind == END and states[-1] == self.table.accept:
                return True

    def acceptable(self) -> set[str]:
        """The terminals that could come next. A row alone says too much: its completions may lead nowhere."""
        return {kind for kind in self.table.states[self.states[-1]] if kind.isupper() and self._accepts(kind)}

    def _accepts(self, kind: str) -> bool:
        states = list(self.states)
        while True:
            entry = self.table.states[states[-1]].get(kind)
            if entry is None:
                return False
            if entry >= 0:
                return True
            rule = self.table.rules[-entry - 1]
            if rule.size:
                del states[-rule.size :]
            states.append(self.table.states[states[-1]][rule.origin])
            if kind == END and states[-1] == self.table.accept:
                return True

    def settle(self, kind: str) -> None:
        """Completes the rules that are complete before a token of this kind, if it could come next."""
        if not self._accepts(kind):
            return
        while (entry := self.table.states[self.states[-1]][kind]) < 0:
            rule = self.table.rules[-entry - 1]
            size = rule.size
            kids = self.values[len(self.values) - size :]
            del self.values[len(self.values) - size :]
            del self.states[len(self.states) - size :]
            self.values.append(self.build[-entry - 1](kids))
            self.states.append(self.table.states[self.states[-1]][rule.origin])

    def cut(self, symbols: Sequence[str]) -> list[Any] | None:
        """Cuts back to the innermost state that takes each of `symbols`; gives the values that were dropped, or None
        if there is no such state."""
        for depth in range(len(self.states), 0, -1):
            row = self.table.states[self.states[depth - 1]]
            if all(row.get(symbol, -1) >= 0 for symbol in symbols):
                dropped = self.values[depth - 1 :]
                del self.states[depth:]
                del self.values[depth - 1 :]
                return dropped
        return None
