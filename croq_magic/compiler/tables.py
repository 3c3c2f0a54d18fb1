"""The parser's table: made by lark from grammar.lark, kept next to it in grammar_table.json.

Building takes lark a third of a second; reading the file takes some milliseconds and needs no lark. After a change of
the grammar the table is built anew in every process until `python -m croq_magic.compiler.tables` has written the file.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

from croq_magic.compiler.lalr import Rule, Table

GRAMMAR = Path(__file__).with_name("grammar.lark")
FILE = Path(__file__).with_name("grammar_table.json")


@lru_cache(maxsize=1)
def load() -> Table:
    """The table for grammar.lark as it is now."""
    grammar = GRAMMAR.read_text(encoding="utf-8")
    try:
        stored = json.loads(FILE.read_bytes())
    except (OSError, ValueError):
        stored = {}
    if stored.get("grammar") != fingerprint(grammar):
        return build(grammar)
    symbols = stored["symbols"]
    rows = [{symbols[symbol]: entry for symbol, entry in zip(*[iter(row)] * 2, strict=True)} for row in stored["rows"]]
    rules = [
        Rule(origin, size, action, single, tuple(inline), tuple((index, count) for index, count in absent))
        for origin, size, action, single, inline, absent in stored["rules"]
    ]
    return Table([rows[row] for row in stored["states"]], rules, stored["start"], stored["accept"])


def fingerprint(grammar: str) -> str:
    return hashlib.sha256(grammar.encode()).hexdigest()


def build(grammar: str) -> Table:
    """The table for a grammar, by lark. States and rules are numbered the same in every process."""
    import lark
    from lark.parsers.lalr_analysis import Shift

    parser: Any = lark.Lark(grammar, parser="lalr", lexer=no_lexer(), keep_all_tokens=True, maybe_placeholders=True)
    theirs = parser.parser.parser._parse_table
    rules = sorted(parser.rules, key=lambda rule: (rule.origin.name, [symbol.name for symbol in rule.expansion]))
    rule_numbers = {rule: number for number, rule in enumerate(rules)}
    start = theirs.start_states["start"]
    order = {start: 0}  # lark's number -> ours, in the order in which states are reached
    waiting = [start]
    states: list[dict[str, int]] = []
    while waiting:
        following = []
        for number in waiting:
            row = {}
            for symbol, (action, argument) in sorted(theirs.states[number].items()):
                if action is Shift and argument not in order:
                    order[argument] = len(order)
                    following.append(argument)
                row[str(symbol)] = order[argument] if action is Shift else -1 - rule_numbers[argument]
            states.append(row)
        waiting = following
    return Table(states, [_rule(rule) for rule in rules], 0, order[theirs.end_states["start"]])


def _rule(rule: Any) -> Rule:
    inline = tuple(
        index for index, symbol in enumerate(rule.expansion) if not symbol.is_term and symbol.name.startswith("_")
    )
    # lark marks an optional part that is absent with True, a symbol with False.
    absent: dict[int, int] = {}
    index = 0
    for missing in rule.options.empty_indices or ():
        if missing:
            absent[index] = absent.get(index, 0) + 1
        else:
            index += 1
    name = str(rule.origin.name)
    single = bool(rule.options.expand1) and not rule.alias
    return Rule(name, len(rule.expansion), rule.alias or name, single, inline, tuple(absent.items()))


def no_lexer() -> type:
    """Lark wants a lexer; `parse.py` feeds tokens of its own."""
    from lark.lexer import Lexer

    class TokensComeFromOutside(Lexer):
        def __init__(self, lexer_conf: Any) -> None:
            pass

        def lex(self, lexer_state: Any, parser_state: Any) -> Iterator[Any]:
            return iter(())

    return TokensComeFromOutside


def encode(table: Table, grammar: str) -> str:
    """The file's contents: every different row once, symbols as numbers."""
    symbols = sorted({symbol for row in table.states for symbol in row})
    number = {symbol: index for index, symbol in enumerate(symbols)}
    rows: dict[tuple[int, ...], int] = {}
    states = []
    for row in table.states:
        flat = tuple(value for symbol in sorted(row) for value in (number[symbol], row[symbol]))
        states.append(rows.setdefault(flat, len(rows)))
    parts = {
        "grammar": fingerprint(grammar),
        "start": table.start,
        "accept": table.accept,
        "symbols": symbols,
        "rules": [[rule.origin, rule.size, rule.action, rule.single, rule.inline, rule.absent] for rule in table.rules],
        "states": states,
        "rows": list(rows),
    }
    lines = [f'"{name}": {json.dumps(value, separators=(",", ":"))}' for name, value in parts.items()]
    return "{\n" + ",\n".join(lines) + "\n}\n"


def main() -> None:
    """Writes grammar_table.json."""
    grammar = GRAMMAR.read_text(encoding="utf-8")
    FILE.write_text(encode(build(grammar), grammar), encoding="utf-8")


if __name__ == "__main__":
    main()
