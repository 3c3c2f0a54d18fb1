"""A function for known extents: symbolic dimensions become constants, and what follows from them is simplified.

Proofs and performance passes then see constants; products such as `p*(M/16)`, which are beyond affine reasoning with
symbols, become plain multiples.
"""

from __future__ import annotations

import dataclasses
import re
from typing import Any, ClassVar

from croq_magic.compiler import evaluate, integers, ir
from croq_magic.compiler.passes.base import Context
from croq_magic.compiler.visit import rewrite

_WORD = re.compile(r"""(?<![\w.])[A-Za-z_]\w*|"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'""")  # strings are stepped over


@dataclasses.dataclass(frozen=True)
class Specialise:
    """Gives dimensions, by name, their values. Immutable scalars that become constants are folded as well."""

    dims: tuple[tuple[str, int], ...]
    name: ClassVar[str] = "specialise"

    def __call__(self, function: ir.Function, context: Context) -> ir.Function:
        if not self.dims:
            return function
        new = _Specialiser(dict(self.dims)).function(function)
        return dataclasses.replace(new, dims=tuple(d for d in new.dims if isinstance(d, ir.Var)))


class _Specialiser:
    """One rewrite. Buffers, fragments and events are compared by identity, so each is rebuilt once."""

    def __init__(self, values: dict[str, int]) -> None:
        self.values: dict[str, ir.Const] = {}
        self.dims = values
        self.leaves: dict[int, Any] = {}
        self.kept: list[ir.Node] = []  # identities in `leaves` stay valid

    def function(self, function: ir.Function) -> ir.Function:
        # Parameters come first among the fields, so their buffers are there when the body needs them.
        return rewrite(function, self.change)

    def change(self, node: ir.Node) -> Any:
        match node:
            case ir.Var():
                return self.variable(node)
            case ir.Buffer() | ir.Fragment():
                return self.leaf(node)
            case ir.View():
                return _simplified(node, "map", "offset", "extents", "slot")
            case ir.Load() | ir.Store() | ir.Atomic():
                return _simplified(node, "index")
            case ir.For():
                return _simplified(node, "start", "stop")
            case ir.Region() | ir.Param() | ir.Result():
                return _simplified(node, "extents")
            case ir.Let(var=var, value=value) if value is not None and var.role is ir.Role.LET:
                return self.let(node)
            case ir.CxxText(scalars=scalars) if scalars:
                return self.cxx_text(node)
            case _:
                return None

    def cxx_text(self, s: ir.CxxText) -> ir.CxxText | None:
        """Numbers in the places of the names that will not be there."""
        known = {}
        for each in s.scalars:
            value = self.variable(each) if isinstance(each, ir.Var) else None
            if isinstance(each, ir.Var) and isinstance(value, ir.Const):
                known[each.name] = f"({value.value})"
        if not known:
            return None
        text = _WORD.sub(lambda found: known.get(found[0], found[0]), s.text)
        scalars = tuple(each for each in s.scalars if not isinstance(each, ir.Var) or each.name not in known)
        return dataclasses.replace(s, text=text, scalars=scalars)

    def variable(self, v: ir.Var) -> ir.Expr | None:
        if v.role is ir.Role.DIM and v.name in self.dims:
            return ir.Const(self.dims[v.name], v.dtype)
        known = self.values.get(v.name)
        if known is not None:
            return known
        if v.lower is None and v.upper is None:
            return None
        lower, upper = self.bound(v.lower), self.bound(v.upper)
        if lower is v.lower and upper is v.upper:
            return None
        return dataclasses.replace(v, lower=lower, upper=upper)

    def bound(self, e: ir.Expr | None) -> ir.Expr | None:
        if e is None or isinstance(e, ir.Const):
            return e
        new = rewrite(e, self.change)
        return e if new is e else integers.simplify(new)

    def leaf(self, node: ir.Buffer | ir.Fragment) -> ir.Node | None:
        if id(node) not in self.leaves:
            self.kept.append(node)
            shape = tuple(self.bound(e) for e in node.shape)
            same = all(a is b for a, b in zip(shape, node.shape, strict=True))
            self.leaves[id(node)] = None if same else dataclasses.replace(node, shape=shape)  # type: ignore[arg-type]
        return self.leaves[id(node)]  # type: ignore[no-any-return]

    def let(self, s: ir.Let) -> tuple[ir.Stmt, ...] | None:
        """Folds an immutable integer whose value is known now."""
        if not s.var.dtype.is_integer or s.value is None or not s.value.dtype.is_integer:
            return None
        try:
            (value,) = evaluate.function((s.value,), ())()
        except (ValueError, ZeroDivisionError, TypeError):
            return None
        if not isinstance(value, int) or not evaluate.in_range(value, s.var.dtype):
            return None
        self.values[s.var.name] = ir.Const(value, s.var.dtype)
        return ()


def _simplified(node: Any, *names: str) -> Any:
    """The node with index expressions in canonical form."""
    updates: dict[str, Any] = {}
    for name in names:
        old = getattr(node, name)
        new = tuple(integers.simplify(e) for e in old) if isinstance(old, tuple) else old and integers.simplify(old)
        if new != old:
            updates[name] = new
    return dataclasses.replace(node, **updates) if updates else None
