"""What a `while` loop keeps true of a scalar that only grows or only shrinks in it.

    mutable hop: s32 = 1                     mutable w: s32 = 128
    while hop < 256 {                        while w > 0 {
      ...           // here 1 <= hop           ...           // here w <= 128
      hop = hop * 2                            w = w / 2
    }                                        }

The first value must be a number, and the scalar be changed in one place, once an iteration. Growth must not wrap: then
the condition of the loop, which holds when an iteration begins, must bound the value from above.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from croq_magic.compiler import ir
from croq_magic.compiler.passes.structure import assigned, nested
from croq_magic.compiler.types import BOOL, S32

_MOST = (1 << 31) - 1


def invariants(before: Sequence[ir.Stmt], loop: ir.While) -> list[ir.Expr]:
    """Conditions that hold whenever an iteration begins. `before` stands in front of the loop, in the same body."""
    return [found for change in _changes(loop.body) if (found := _invariant(before, loop, change)) is not None]


def _changes(body: ir.Body) -> Iterator[ir.Assign]:
    """Assignments of the body's own statements to what nothing else in it changes."""
    own = [s for s in body if isinstance(s, ir.Assign) and s.var.dtype is S32]
    for s in own:
        rest = tuple(other for other in body if other is not s)
        if s.var.name not in assigned(rest):
            yield s


def _invariant(before: Sequence[ir.Stmt], loop: ir.While, change: ir.Assign) -> ir.Expr | None:
    if any(isinstance(s, ir.Continue) for s in nested(loop.body)):
        return None
    start = _start(before, change.var)
    step = _step(change)
    if start is None or step is None or start < 0:
        return None
    op, by = step
    number = ir.Const(start, S32)
    if (op in ("*", "<<") and by >= (1 if op == "*" else 0)) or op == "+":
        most = _most(loop.condition, change.var)
        if most is None or {"*": most * by, "<<": most << min(by, 32), "+": most + by}[op] > _MOST:
            return None
        return ir.Binary(">=", change.var, number, BOOL)
    least = _least(loop.condition, change.var)
    if op in ("/", ">>", "-") and least is not None and least - (by if op == "-" else least) >= -_MOST:
        return ir.Binary("<=", change.var, number, BOOL) if least >= 0 or op == "-" else None
    return None


def _start(before: Sequence[ir.Stmt], var: ir.Var) -> int | None:
    for s in reversed(before):
        if isinstance(s, (ir.Let, ir.Assign)) and s.var.name == var.name:
            value = s.value
            return int(value.value) if isinstance(value, ir.Const) and value.dtype.is_integer else None
        if var.name in assigned((s,)):
            return None
    return None


def _step(change: ir.Assign) -> tuple[str, int] | None:
    """(operation, number) of `v = v op number`."""
    e = change.value
    if not isinstance(e, ir.Binary) or e.dtype is not S32 or not isinstance(e.right, ir.Const):
        return None
    if not (isinstance(e.left, ir.Var) and e.left.name == change.var.name) or not e.right.dtype.is_integer:
        return None
    by = int(e.right.value)
    least = 1 if e.op in ("*", "/") else 0
    return (e.op, by) if by >= least else None


def _parts(e: ir.Expr) -> Iterator[ir.Binary]:
    if isinstance(e, ir.Binary) and e.op == "&&":
        yield from _parts(e.left)
        yield from _parts(e.right)
    elif isinstance(e, ir.Binary):
        yield e


def _bounds(condition: ir.Expr, var: ir.Var) -> Iterator[tuple[str, int]]:
    """(comparison, number) for each part of a condition that compares the scalar with a number."""
    flipped = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "!=": "!="}
    for e in _parts(condition):
        for left, op, right in ((e.left, e.op, e.right), (e.right, flipped.get(e.op, ""), e.left)):
            compared = op in flipped and isinstance(left, ir.Var) and left.name == var.name
            if compared and isinstance(right, ir.Const) and right.dtype.is_integer:
                yield op, int(right.value)


def _most(condition: ir.Expr, var: ir.Var) -> int | None:
    return min((n - (op == "<") for op, n in _bounds(condition, var) if op in ("<", "<=")), default=None)


def _least(condition: ir.Expr, var: ir.Var) -> int | None:
    return max((n + (op == ">") for op, n in _bounds(condition, var) if op in (">", ">=")), default=None)
