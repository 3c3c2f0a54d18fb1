"""Products of fragments as loops over K for every element of the accumulator that a thread holds.

Operands are converted exactly to the type of the sum as they are read; the order is that of `lower-fragments`.
"""

from __future__ import annotations

from croq_magic.compiler import integers, ir, views
from croq_magic.compiler.passes.lower_fragments import Copies, Lowering, cast, compute_type, row_scale
from croq_magic.compiler.types import S32, DType


class Products(Lowering):
    """What a thread does for `mma` statements; who holds which element is known to `over`."""

    def multiply(self, s: ir.Mma, copies: Copies) -> ir.Body:
        target = self.view(s.accumulator, copies)
        a, b = self.operand(s.a, copies), self.operand(s.b, copies)
        a = a if s.layout[0] == "row" else views.transposed(a)
        b = views.transposed(b) if s.layout[1] == "row" else b
        dtype = compute_type(a.buffer.dtype)
        kept = target.buffer.dtype
        direct = kept is dtype and s.scales is None

        def one(i: ir.Var, j: ir.Var) -> ir.Body:
            total = ir.Var(self.fresh("total"), dtype, ir.Role.MUTABLE)
            old = cast(ir.Load(target, (i, j)), dtype)
            zero = ir.Const(0.0 if dtype.is_float else 0, dtype)
            out: list[ir.Stmt] = [ir.Let(total, old if s.scales is None else zero)]
            if s.metadata is not None:
                out += self.sparse_products(total, a, b, self.view(s.metadata, copies), i, j)
            else:
                for low, high in self.ranges(s, a):
                    k = ir.Var(self.fresh("k"), S32, ir.Role.LOOP, low, high)
                    product = ir.Binary("*", cast(ir.Load(a, (i, k)), dtype), cast(ir.Load(b, (k, j)), dtype), dtype)
                    out.append(ir.For(k, low, high, 1, (ir.Assign(total, ir.Binary("+", total, product, dtype)),)))
            value: ir.Expr = total
            if s.scales is not None:
                rows, factor = s.scales
                scaled = ir.Binary("*", row_scale(rows, i, factor, dtype), total, dtype)
                value = ir.Binary("+", old, scaled, dtype)
            out.append(ir.Store(target, (i, j), value if direct else cast(value, kept), span=s.span))
            return tuple(out)

        return (self.over(target.extents, one),)

    def sparse_products(
        self, total: ir.Var, kept: ir.View, right: ir.View, metadata: ir.View, i: ir.Var, j: ir.Var
    ) -> list[ir.Stmt]:
        """`total += ` the products of a 2:4-sparse row."""
        dtype: DType = total.dtype
        groups = integers.floordiv(kept.extents[1], integers.constant(2))
        group = ir.Var(self.fresh("group"), S32, ir.Role.LOOP, integers.ZERO, groups)
        nibble, pair = self.kept_pair(kept, metadata, i, group)
        body: list[ir.Stmt] = [nibble]
        for row, left in pair:
            product = ir.Binary("*", cast(left, dtype), cast(ir.Load(right, (row, j)), dtype), dtype)
            body.append(ir.Assign(total, ir.Binary("+", total, product, dtype)))
        return [ir.For(group, integers.ZERO, groups, 1, tuple(body))]
