"""What a diagram is about: a function, the values of its dimensions, and its accesses."""

from __future__ import annotations

import dataclasses
from typing import Any

from croq_magic.compiler import integers, ir
from croq_magic.compiler.access import Access, Accesses, Axis, collect
from croq_magic.compiler.domain import relation
from croq_magic.compiler.evaluate import free_variables
from croq_magic.compiler.relation import Relation
from croq_magic.compiler.visit import walk
from croq_magic.errors import BindError

COARSE = (ir.Level.DEVICE, ir.Level.CLUSTER, ir.Level.BLOCK)
FINE = (ir.Level.GROUP4, ir.Level.GROUP, ir.Level.THREAD)


@dataclasses.dataclass(frozen=True)
class Level:
    """One step of the nest as an access sees it: a region's indices, or those of loops directly inside each other.

    `kind` is "block", "group", "thread" or "iteration". `moving` are the indices that change what is touched,
    `sharing` those (of extent above 1) that do not, so that their instances touch the same elements.
    """

    kind: str
    moving: tuple[str, ...]
    sharing: dict[str, int]


@dataclasses.dataclass(frozen=True)
class Subject:
    """A function with values for everything its extents depend on."""

    function: ir.Function
    values: dict[str, Any]
    accesses: Accesses

    def relation(self, access: Access, at: tuple[int, ...] | None = None) -> Relation:
        """The access over its domain, or only at the points that touch one element."""
        return relation(access, self.values, at=at)

    def instance(self, access: Access, fixed: dict[str, int]) -> Relation:
        """The access with some of its indices at one value."""
        return relation(access, self.values, fixed=fixed)

    def extents(self, expressions: tuple[ir.Expr, ...]) -> tuple[int, ...]:
        from croq_magic.compiler import numeric

        return tuple(int(numeric.value(e, self.values)) for e in expressions)

    def apart(self, buffer: ir.Buffer) -> dict[str, Axis]:
        """Region indices whose instances each have a buffer of their own, by name."""
        if buffer.storage is ir.Storage.GLOBAL:
            return {}
        kinds = COARSE if buffer.storage is ir.Storage.SHARED else (*COARSE, *FINE)
        axes = self.accesses.declared.get(buffer, ())
        return {a.name: a for a in axes if a.kind == "region" and a.level in kinds}

    def levels(self, r: Relation) -> list[Level]:
        """The nest around an access, outermost first; implied levels and those of extent 1 are left out.

        What lies around the instances of an on-chip buffer is left out too: every block has its own shared memory.
        """
        apart = self.apart(r.access.buffer)
        groups: list[tuple[str, list[Axis]]] = []
        nest = None
        for axis in r.access.axes:
            if axis.kind == "element" or axis.name in apart:
                continue
            kind = "iteration" if axis.kind == "loop" else level_kind(axis.level)
            together = groups and groups[-1][0] == kind and (kind == "iteration" or nest == axis.nest)
            if together or (groups and kind == groups[-1][0] == "block"):
                groups[-1][1].append(axis)
            else:
                groups.append((kind, [axis]))
            nest = axis.nest
        result = []
        for kind, axes in groups:
            moving = tuple(a.name for a in axes if a.name not in r.free and r.extents[a.name] > 1)
            sharing = {a.name: r.free[a.name] for a in axes if r.free.get(a.name, 1) > 1}
            if moving or sharing:
                result.append(Level(kind, moving, sharing))
        return result


def level_kind(level: ir.Level | None) -> str:
    if level in COARSE:
        return "block"
    return "thread" if level is ir.Level.THREAD else "group"


def linear_weights(r: Relation, levels: tuple[ir.Level, ...]) -> dict[str, int]:
    """Weights of the linear id over regions of the given levels: in a region the first index is the least significant,
    an outer region comes before an inner one."""
    nests: dict[int, list[Axis]] = {}
    for axis in r.access.axes:
        if axis.kind == "region" and axis.level in levels:
            nests.setdefault(axis.nest, []).append(axis)
    weights: dict[str, int] = {}
    step = 1
    for axes in reversed(list(nests.values())):
        for axis in axes:
            weights[axis.name] = step
            step *= r.extents[axis.name]
    return weights


def subject(fn: Any, given: dict[str, Any]) -> Subject:
    """The function and values for its dimensions, from arrays by parameter name, dimensions and scalars by name.

    Raises `BindError` for an unknown name, extents that disagree or are below 1, and a dimension without a value.
    """
    function = ir_of(fn)
    values: dict[str, Any] = {}
    sources: dict[str, str] = {}

    def put(name: str, value: Any, source: str) -> None:
        if name in dims and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
            place = "" if source.startswith(name) else f" in {source}"
            raise BindError(f"{function.name}: {name} is {value!r}{place}, but extents are integers of at least 1")
        if values.setdefault(name, value) != value:
            raise BindError(f"{function.name}: {name} is {values[name]} in {sources[name]} but {value} in {source}")
        sources.setdefault(name, source)

    params = {p.name: p for p in function.params}
    dims = {d.name for d in function.dims} | {
        e.name for p in function.params for e in p.extents if isinstance(e, ir.Var)
    }
    for name, value in given.items():
        param = params.get(name)
        if param is not None and param.kind == "span":
            _shape(function, param, _shape_of(value, name), put)
        elif name in dims or (param is not None and param.kind == "scalar"):
            put(name, getattr(value, "item", lambda v=value: v)(), f"{name}=")
        else:
            known = ", ".join([*params, *sorted(dims)])
            raise BindError(f"{function.name} has no parameter or dimension {name!r} (it has {known})")
    missing = sorted(dims - set(values))
    needed = [name for name in _deciding_scalars(function) if name not in values]
    if needed and not missing:
        raise BindError(
            f"the extents in {function.name} depend on scalars: give {', '.join(f'{n}=...' for n in needed)}"
        )
    if missing:
        example = ", ".join(f"{name}=..." for name in missing)
        raise BindError(
            f"{function.name} has symbolic dimensions: give {example}, or the arrays "
            f"({', '.join(f'{p.name}={p.name}' for p in function.params if p.kind == 'span')})"
        )
    return Subject(function, values, collect(function))


def _deciding_scalars(function: ir.Function) -> list[str]:
    """Scalar parameters that extents of arrays or regions depend on."""
    scalars = {p.name for p in function.params if p.kind == "scalar"}
    extents: list[ir.Expr] = []
    for node in walk(function.body):
        if isinstance(node, ir.Declare):
            extents += node.buffer.shape
        elif isinstance(node, ir.Region):
            extents += node.extents
    return [name for name in free_variables(extents) if name in scalars]


def _shape_of(value: Any, name: str) -> tuple[int, ...]:
    shape = getattr(value, "shape", value)
    try:
        return tuple(int(n) for n in shape)
    except TypeError:
        raise BindError(f"{name} is a span: give an array or its shape, not {value!r}") from None


def _shape(function: ir.Function, param: ir.Param, shape: tuple[int, ...], put: Any) -> None:
    if len(shape) != len(param.extents):
        raise BindError(f"{function.name}: {param.name} has rank {len(param.extents)}, but {shape} has {len(shape)}")
    for d, (extent, size) in enumerate(zip(param.extents, shape, strict=True)):
        if isinstance(extent, ir.Var):
            put(extent.name, size, f"dimension {d} of {param.name}")
        elif integers.value(extent) != size:
            expected = integers.value(extent)
            raise BindError(f"{function.name}: dimension {d} of {param.name} is {expected}, not {size}")


def ir_of(fn: Any) -> ir.Function:
    """The tile IR of a callable function; an `ir.Function` is taken as it is."""
    if isinstance(fn, ir.Function):
        return fn
    found = getattr(fn, "ir_function", None)
    if found is None:
        found = getattr(getattr(fn, "compiled", None), "function", None)
    if not isinstance(found, ir.Function):
        raise TypeError(f"a tileflow function is needed, not {type(fn).__name__}")
    return found
