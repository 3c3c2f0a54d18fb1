"""How statements nest: helpers that several passes share."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import NamedTuple
from weakref import WeakKeyDictionary

from croq_magic.compiler import integers, ir
from croq_magic.compiler.visit import walk

_BODIES: dict[type[ir.Stmt], tuple[str, ...]] = {
    ir.For: ("body",),
    ir.While: ("body",),
    ir.Scope: ("body",),
    ir.Masked: ("body",),
    ir.Once: ("body",),
    ir.Apply: ("body",),
    ir.Region: ("body",),
    ir.If: ("then", "other"),
}


def fresh_name(name: str, taken: set[str]) -> str:
    """`name`, or the first of `name_2`, `name_3`, ... that is not taken; it is taken from now on."""
    new, count = name, 1
    while new in taken:
        count += 1
        new = f"{name}_{count}"
    taken.add(new)
    return new


def bodies(statement: ir.Stmt) -> list[ir.Body]:
    """The bodies of a structured statement, in order; none for others."""
    return [getattr(statement, name) for name in _BODIES.get(type(statement), ())]


def with_bodies(statement: ir.Stmt, change: Callable[[ir.Body], ir.Body]) -> ir.Stmt:
    """The statement with `change` applied to each of its bodies; itself if nothing changes."""
    updates = {}
    for name in _BODIES.get(type(statement), ()):
        old = getattr(statement, name)
        new = change(old)
        if new is not old:
            updates[name] = new
    return dataclasses.replace(statement, **updates) if updates else statement  # type: ignore[type-var]


def nested(body: ir.Body) -> Iterator[ir.Stmt]:
    """Statements of one instance: those of `body` and of its loops and conditions, parents first. An inner region is
    given as a whole, not entered."""
    stack = list(reversed(body))
    while stack:
        statement = stack.pop()
        yield statement
        if not isinstance(statement, ir.Region):
            for inner in reversed(bodies(statement)):
                stack.extend(reversed(inner))


def inner_regions(body: ir.Body) -> list[ir.Region]:
    """The regions directly inside an instance, whatever loops and conditions they stand in."""
    return [statement for statement in nested(body) if isinstance(statement, ir.Region)]


def map_regions(body: ir.Body, change: Callable[[ir.Region], ir.Stmt]) -> ir.Body:
    """`body` with `change` applied to the regions directly inside it."""

    def one(statement: ir.Stmt) -> ir.Stmt:
        if isinstance(statement, ir.Region):
            return change(statement)
        return with_bodies(statement, lambda inner: map_regions(inner, change))

    return each(body, one)


def each(body: ir.Body, change: Callable[[ir.Stmt], ir.Stmt]) -> ir.Body:
    """`body` with `change` applied to its statements; itself if nothing changes."""
    new = tuple(change(statement) for statement in body)
    return body if all(a is b for a, b in zip(new, body, strict=True)) else new


def map_kernels(function: ir.Function, change: Callable[[ir.Region], ir.Region]) -> ir.Function:
    """The function with `change` applied to the outermost region of every launch."""

    def one(statement: ir.Stmt) -> ir.Stmt:
        if not isinstance(statement, ir.Launch):
            return with_bodies(statement, lambda body: each(body, one))
        region = change(statement.kernel.region)
        if region is statement.kernel.region:
            return statement
        return dataclasses.replace(statement, kernel=dataclasses.replace(statement.kernel, region=region))

    body = each(function.body, one)
    return function if body is function.body else dataclasses.replace(function, body=body)


def instances(region: ir.Region) -> int | None:
    """How many instances a region has, if that is a constant."""
    total = 1
    for extent in region.extents:
        value = integers.value(extent)
        if value is None:
            return None
        total *= value
    return total


def leaves(body: ir.Body) -> bool:
    """Whether control may leave a body before its end."""
    return any(_effects(s).leaves for s in body)


def ends(body: ir.Body) -> bool:
    """Whether the instance or the function may end inside a body."""
    return any(_effects(s).ends for s in body)


def assigned(body: ir.Body) -> set[str]:
    """Names of variables that get a value in a body, inner regions included."""
    return {name for s in body for name in _effects(s).assigned}


class _Effects(NamedTuple):
    assigned: frozenset[str]
    leaves: bool
    ends: bool


# Statements never change, so what they do is found once: passes ask at every level of a nest.
_KNOWN: WeakKeyDictionary[ir.Stmt, _Effects] = WeakKeyDictionary()


def _effects(s: ir.Stmt) -> _Effects:
    known = _KNOWN.get(s)
    if known is None:
        known = _KNOWN[s] = _found(s)
    return known


def _found(s: ir.Stmt) -> _Effects:
    region = isinstance(s, ir.Region)  # what leaves its instances does not leave what is around
    inner = s.kernel.region.body if isinstance(s, ir.Launch) else None
    parts = [_effects(each) for body in (bodies(s) if inner is None else (inner,)) for each in body]
    names = _assigned_by(s).union(*(part.assigned for part in parts))
    closed = region or isinstance(s, ir.Launch)
    leaving = isinstance(s, (ir.Break, ir.Continue, ir.Yield, ir.Return))
    ending = isinstance(s, (ir.Yield, ir.Return))
    return _Effects(
        names,
        leaving or (not closed and any(part.leaves for part in parts)),
        ending or (not closed and any(part.ends for part in parts)),
    )


def _assigned_by(s: ir.Stmt) -> frozenset[str]:
    """Names that a statement itself gives a value to."""
    if isinstance(s, (ir.Assign, ir.Let, ir.CombineLanes)):
        return frozenset([s.var.name])
    if isinstance(s, (ir.Atomic, ir.Call)):
        return frozenset([s.result.name] if s.result is not None else ())
    if isinstance(s, ir.Rotate):
        return frozenset(v.name for v in s.slots)
    if isinstance(s, ir.Asm):
        return frozenset(v.name for _, _, target in s.outputs for v in walk(target) if isinstance(v, ir.Var))
    return frozenset()
