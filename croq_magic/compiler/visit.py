"""The two visitors of the tile IR: `walk` goes over nodes, `rewrite` builds changed ones."""

from __future__ import annotations

import dataclasses
import operator
import re
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from croq_magic.compiler import ir

T = TypeVar("T")
_LEAVES = (ir.Buffer, ir.Fragment, ir.Event)  # compared by identity; a rewrite maps them only when asked to


_FIELDS: dict[type[ir.Node], tuple[str, ...]] = {}


def _fields(cls: type[ir.Node]) -> tuple[str, ...]:
    """The fields that may hold nodes, by their annotations. The bounds of a variable are no part of an expression."""
    names = _FIELDS.get(cls)
    if names is None:
        fields = dataclasses.fields(cls) if cls not in _LEAVES else ()  # type: ignore[arg-type]
        names = tuple(f.name for f in fields if f.name not in ("lower", "upper") and _holds_nodes(str(f.type)))
        _FIELDS[cls] = names
    return names


def _holds_nodes(annotation: str) -> bool:
    for word in re.findall(r"\w+", annotation):
        named = getattr(ir, word, None)
        if named is ir.Body or (isinstance(named, type) and issubclass(named, ir.Node)):
            return True
    return False


def children(node: ir.Node) -> Iterator[ir.Node]:
    """Direct children, in field order; buffers, fragments and events are leaves."""
    for name in _fields(type(node)):
        yield from _nodes(getattr(node, name))


def _nodes(value: Any) -> Iterator[ir.Node]:
    if isinstance(value, ir.Node):
        yield value
    elif isinstance(value, tuple):
        for item in value:
            yield from _nodes(item)


def walk(root: ir.Node | tuple[Any, ...]) -> Iterator[ir.Node]:
    """All nodes below and including `root`, parents first."""
    stack: list[Any] = [root]
    pop, extend, known = stack.pop, stack.extend, _PARTS.get
    while stack:
        value = pop()
        kind = type(value)
        if kind is tuple:
            extend(value[::-1])
            continue
        parts = known(kind)
        if parts is None:
            if not isinstance(value, ir.Node):
                continue
            parts = _parts(kind)
        yield value
        extend(parts(value))


_PARTS: dict[type[ir.Node], Callable[[Any], tuple[Any, ...]]] = {}


def _parts(cls: type[ir.Node]) -> Callable[[Any], tuple[Any, ...]]:
    """The fields of a node of that class, last first: in one call, for `walk` is where the compiler spends its time."""
    names = _fields(cls)[::-1]
    parts: Callable[[Any], tuple[Any, ...]]
    if len(names) > 1:
        parts = operator.attrgetter(*names)
    else:
        parts = (lambda node: (getattr(node, names[0]),)) if names else (lambda node: ())
    _PARTS[cls] = parts
    return parts


def rewrite(root: T, change: Callable[[ir.Node], Any]) -> T:
    """A copy of `root` (a node or a tuple of nodes) with `change` applied bottom up.

    `change` returns None to keep a node, a node to put in its place, or, for a statement in a body, a tuple of
    statements (possibly empty). Parts without a change are shared with the input.
    """
    return _rewrite(root, change)  # type: ignore[no-any-return]


def _rewrite(value: Any, change: Callable[[ir.Node], Any]) -> Any:
    if isinstance(value, tuple):
        out: list[Any] = []
        changed = False
        for item in value:
            new = _rewrite(item, change)
            changed = changed or new is not item
            if isinstance(item, ir.Stmt) and isinstance(new, tuple):
                out.extend(new)
            else:
                out.append(new)
        return tuple(out) if changed else value
    if not isinstance(value, ir.Node):
        return value
    node = value
    updates = {}
    for name in _fields(type(node)):
        old = getattr(node, name)
        if old is not None and old != ():
            new = _rewrite(old, change)
            if new is not old:
                updates[name] = new
    if updates:
        node = dataclasses.replace(node, **updates)  # type: ignore[type-var]
    result = change(node)
    return node if result is None else result


def substitute(root: T, values: dict[ir.Var, ir.Expr]) -> T:
    """A copy of `root` with variables replaced by expressions."""
    if not values:
        return root
    return rewrite(root, lambda node: values.get(node) if isinstance(node, ir.Var) else None)
