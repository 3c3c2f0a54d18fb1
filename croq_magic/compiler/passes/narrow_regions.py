"""A region that does something for some of its instances only becomes a region of those instances.

After regions have been split at their joins, many are one condition on an index:

    region thread [t < 256] {                        region thread [t < __min(256, w)] {
      let w: s32 = 128 >> k                            s[t] += s[t + w]
      if t < w {                             =>      }
        s[t] += s[t + w]
      }
    }

Instances without work are then neither visited nor tested, and the loop over the others can be a vector loop. Where
the condition selects one instance, no loop is left. Shared storage that is declared in such a region is declared
before it: it is one a block anyway, and nothing else keeps the region's loops from being reordered.
"""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from croq_magic.compiler import affine, integers, ir
from croq_magic.compiler.passes.base import Context
from croq_magic.compiler.passes.structure import assigned, inner_regions, map_kernels, with_bodies
from croq_magic.compiler.types import S32
from croq_magic.compiler.visit import substitute, walk

_FLIPPED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "==": "=="}


@dataclasses.dataclass(frozen=True)
class NarrowRegions:
    """For targets that run the instances of a region one after the other."""

    name: ClassVar[str] = "narrow-regions"

    def __call__(self, function: ir.Function, context: Context) -> ir.Function:
        return map_kernels(function, lambda root: _replaced(root, _body(root.body)))


def _body(body: ir.Body) -> ir.Body:
    out: list[ir.Stmt] = []
    changed = False
    for s in body:
        new: ir.Body = (with_bodies(s, _body),)
        if isinstance(s, ir.Region) and s.fibers is None and not inner_regions(s.body):
            new = _narrowed(s)
        changed = changed or len(new) != 1 or new[0] is not s
        out += new
    return tuple(out) if changed else body


def _replaced(region: ir.Region, body: ir.Body) -> ir.Region:
    return region if body is region.body else dataclasses.replace(region, body=body)


def _narrowed(region: ir.Region) -> ir.Body:
    """What stands in the place of a region without inner regions."""
    shared = tuple(s for s in region.body if _is_plain_shared(s))
    if shared:
        rest = tuple(s for s in region.body if not _is_plain_shared(s))
        return (*shared, *(_narrowed(dataclasses.replace(region, body=rest)) if rest else ()))
    *lets, last = region.body or (None,)
    if not isinstance(last, ir.If) or last.other or not all(isinstance(s, ir.Let) and _is_pure(s) for s in lets):
        return (region,)
    moving = {v.name for v in region.indices}
    uniform: list[ir.Stmt] = []
    varying: list[ir.Stmt] = []
    for s in lets:
        assert isinstance(s, ir.Let)
        if s.var.role is ir.Role.LET and not affine.depends((s.value,) if s.value else (), moving):
            uniform.append(s)
        else:
            varying.append(s)
            moving.add(s.var.name)
    moving |= assigned(last.then)
    ranges = {v: _Range(integers.ZERO, e) for v, e in zip(region.indices, region.extents, strict=True)}
    left: list[ir.Expr] = []
    conditions = _conjunction(last.condition)
    for condition in conditions:
        limit = _limit(condition, region.indices, moving)
        part = ranges[limit[0]].part(*limit[1:]) if limit is not None else None
        if limit is None or part is None or (part.moved and not _is_pure(last)):
            left.append(condition)
        else:
            ranges[limit[0]] = part
    if len(left) == len(conditions):
        return (region,)
    if any(r.size == 0 for r in ranges.values()):
        return ()
    then: ir.Body = last.then
    if left:
        together = left[0]
        for condition in left[1:]:
            together = ir.Binary("&&", together, condition, together.dtype)
        then = (dataclasses.replace(last, condition=together),)
    places: dict[ir.Var, ir.Expr] = {v: integers.add(v, r.start) for v, r in ranges.items() if r.moved}
    body = substitute((*varying, *then), places)
    new = dataclasses.replace(region, extents=tuple(r.extent for r in ranges.values()), body=body)
    return (ir.Scope((*uniform, new)),) if uniform else (new,)


@dataclasses.dataclass(frozen=True)
class _Range:
    """The values of an index that are left: `extent` of them from `start`."""

    start: ir.Expr
    extent: ir.Expr

    @property
    def size(self) -> int | None:
        return integers.value(self.extent)

    @property
    def moved(self) -> bool:
        return integers.value(self.start) != 0

    def part(self, op: str, bound: ir.Expr) -> _Range | None:
        """The range with an index held to a bound, None where that is not done."""
        value, most = integers.value(bound), self.size
        if op in ("<", "<="):
            stop = integers.sub(integers.add(bound, integers.constant(op == "<=")), self.start)
            size = integers.value(stop)
            if size is not None and most is not None:
                return _Range(self.start, integers.constant(max(0, min(size, most))))
            return _Range(self.start, ir.Builtin("__min", (self.extent, stop), S32))
        if value is None or most is None or self.moved:
            return None
        if op == "==":
            return _Range(bound, integers.ONE if 0 <= value < most else integers.ZERO)
        first = max(0, value + (op == ">"))
        return _Range(integers.constant(first), integers.constant(max(0, most - first)))


def _is_plain_shared(s: ir.Stmt) -> bool:
    return isinstance(s, ir.Declare) and s.buffer.storage is ir.Storage.SHARED and s.init is None


def _is_pure(s: ir.Stmt) -> bool:
    """Whether nothing in a statement fails or is printed: what says so shows the indices of the instance."""
    for n in walk(s):
        if isinstance(n, (ir.Print, ir.Assert)):
            return False
        if isinstance(n, (ir.Load, ir.Store, ir.Atomic, ir.View)) and n.checks:
            return False
    return True


def _conjunction(e: ir.Expr) -> list[ir.Expr]:
    if isinstance(e, ir.Binary) and e.op == "&&":
        return [*_conjunction(e.left), *_conjunction(e.right)]
    return [e]


def _limit(e: ir.Expr, indices: tuple[ir.Var, ...], moving: set[str]) -> tuple[ir.Var, str, ir.Expr] | None:
    """(index, comparison, bound) where `e` compares an index with what is the same for all instances."""
    if not isinstance(e, ir.Binary) or e.op not in _FLIPPED:
        return None
    for var, op, bound in ((e.left, e.op, e.right), (e.right, _FLIPPED[e.op], e.left)):
        if isinstance(var, ir.Var) and var in indices and _is_bound(bound, moving):
            return var, op, bound
    return None


def _is_bound(e: ir.Expr, moving: set[str]) -> bool:
    """Whether `e` has one value for all instances, which an index expression computes as the program does."""
    if not e.dtype.is_integer or affine.depends(e, moving) or any(isinstance(n, ir.Load) for n in walk(e)):
        return False
    if isinstance(e, (ir.Const, ir.Var)):
        return True
    low, high = integers.interval(e)
    return e.dtype is S32 and low is not None and high is not None and low >= -(1 << 31) and high < 1 << 31
