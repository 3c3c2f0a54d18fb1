"""What is known of the scalars of a kernel: values over indices and constants, and which of them threads differ in."""

from __future__ import annotations

import functools

from croq_magic.compiler import integers, ir
from croq_magic.compiler.passes.structure import assigned, bodies
from croq_magic.compiler.visit import substitute, walk


class Scalars:
    """Those of one block. `values` are those of immutable scalars, None if unknown; `changing` get theirs otherwise."""

    def __init__(self, block: ir.Region) -> None:
        self.block = block
        self.values: dict[str, ir.Expr | None] = {}
        self.changing: set[str] = set()
        for node in walk(block.body):
            if isinstance(node, ir.Let):
                plain = node.var.role is not ir.Role.MUTABLE and node.var.name not in self.values
                self.values[node.var.name] = node.value if plain else None
            elif isinstance(node, ir.Stmt) and not bodies(node):
                self.changing |= assigned((node,))
        for name in list(self.values):
            self._resolve(name)

    def _resolve(self, name: str) -> ir.Expr | None:
        """The value of a scalar over indices and constants of the kernel."""
        value = self.values[name]
        if value is None:
            return None
        opaque = name in self.changing or any(isinstance(n, ir.Load) for n in walk(value))
        if opaque or not exact(value):
            self.values[name] = None
            return None
        inner: dict[ir.Var, ir.Expr] = {}
        for n in walk(value):
            if isinstance(n, ir.Var) and (n.name in self.values or n.name in self.changing):
                found = self._resolve(n.name) if n.name in self.values else None
                if found is None:
                    self.values[name] = None
                    return None
                inner[n] = found
        self.values[name] = substitute(value, inner)
        return self.values[name]

    @functools.cached_property
    def varying(self) -> set[str]:
        """Scalars and indices that may differ between threads; a superset of what the emitter takes for such."""
        found: set[str] = set()
        for n in walk(self.block.body):
            if isinstance(n, ir.Region):
                found |= {var.name for var in n.indices}
            elif isinstance(n, ir.Stmt) and not isinstance(n, (ir.Let, ir.Assign, ir.Rotate)) and not bodies(n):
                found |= assigned((n,))  # what others compute, or an event of the moment
        while self._spread(self.block.body, found):
            pass
        return found

    def _spread(self, body: ir.Body, found: set[str], under: bool = False) -> bool:
        grew = False
        for s in body:
            names: tuple[str, ...] = ()
            parts: tuple[ir.Node, ...] = ()
            if isinstance(s, (ir.Let, ir.Assign)):
                names, parts = (s.var.name,), () if s.value is None else (s.value,)
            elif isinstance(s, ir.For):
                names, parts = (s.var.name,), (s.start, s.stop)
            for name in names:
                if name not in found and (under or self.differs(parts, found)):
                    found.add(name)
                    grew = True
            heads = tuple(getattr(s, name) for name in ("condition", "predicate") if hasattr(s, name))
            inside = under or (isinstance(s, (ir.If, ir.While, ir.Masked)) and self.differs(heads, found))
            for inner in bodies(s):
                grew = self._spread(inner, found, inside) or grew
        return grew

    def differs(self, parts: tuple[ir.Node, ...], varying: set[str] | None = None) -> bool:
        """Whether expressions may have different values in different threads."""
        for n in walk(parts):
            if isinstance(n, ir.Load):
                return True
            if isinstance(n, ir.Var) and n.name in (self.varying if varying is None else varying):
                return True
        return False

    def known(self, e: ir.Expr) -> ir.Expr | None:
        """An expression over indices and constants of the kernel, None if it depends on something else."""
        inner: dict[ir.Var, ir.Expr] = {}
        for n in walk(e):
            if isinstance(n, ir.Load):
                return None
            if isinstance(n, ir.Var) and (n.name in self.values or n.name in self.changing):
                found = self.values.get(n.name) if n.name not in self.changing else None
                if found is None:
                    return None
                inner[n] = found
        return integers.simplify(substitute(e, inner)) if inner else e


def exact(e: ir.Expr) -> bool:
    """Whether every step of an expression stays within its type, so that it may be taken for mathematical."""
    for n in walk(e):
        if isinstance(n, ir.Expr) and n.dtype.is_float:
            return False
        if isinstance(n, (ir.Binary, ir.Unary)) and n.dtype.is_integer:
            low, high = integers.interval(n)
            least, most = n.dtype.range
            if low is None or high is None or low < least or high > most:
                return False
    return True
