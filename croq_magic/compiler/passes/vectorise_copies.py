"""Finds the widest access that a copy between memories can use.

A copy runs over its elements in chunks of up to 16 bytes. A chunk of V elements is one access on both sides when the
innermost dimension runs on in both, its extent, every other stride and the origins are multiples of V, and the buffers
themselves are aligned: shared storage always is, device memory to `global_bytes`.
The result stands in the copy's hints as `vector:BYTES`, so that it can be read in the IR.
"""

from __future__ import annotations

import dataclasses
import math
from typing import ClassVar

from croq_magic.compiler import integers, ir, views
from croq_magic.compiler.passes.base import Context
from croq_magic.compiler.passes.structure import map_kernels
from croq_magic.compiler.targets.emit_cxx import Expressions
from croq_magic.compiler.visit import rewrite, walk

PREFIX = "vector:"
Known = dict[ir.Var, int]  # what divides variables


@dataclasses.dataclass(frozen=True)
class VectoriseCopies:
    """Notes `vector:BYTES` on copies of more than one element an access. `largest` is the widest access in bytes,
    `global_bytes` what device memory is aligned to. With `private` a thread's own storage takes part, which then must
    be aligned."""

    name: ClassVar[str] = "vectorise-copies"
    largest: int = 16
    global_bytes: int = 16  # CUDA's and OpenCL's allocators give 256 and 128
    private: bool = False

    def __call__(self, function: ir.Function, context: Context) -> ir.Function:
        def kernel(region: ir.Region) -> ir.Region:
            known = known_factors(region)

            def change(node: ir.Node) -> ir.Node | None:
                if not isinstance(node, ir.Copy):
                    return None
                width = self.width(node, known)
                if width <= node.dst.buffer.dtype.size:
                    return None
                return dataclasses.replace(node, hints=(*node.hints, f"{PREFIX}{width}"))

            return rewrite(region, change)

        return map_kernels(function, kernel)

    def width(self, s: ir.Copy, known: Known) -> int:
        """Bytes of one access."""
        size = s.dst.buffer.dtype.size
        storages = (s.src.buffer.storage, s.dst.buffer.storage)
        own = ir.Storage.LOCAL in storages and (not self.private or storages[0] is storages[1])
        if own or ir.Storage.REGISTER in storages:
            return size
        if s.permutation or s.pad or s.partial or s.compressed or s.src.rank == 0:
            return size
        elements = self.largest // size
        for view in (s.src, s.dst):
            if view.buffer.storage is ir.Storage.GLOBAL:
                elements = min(elements, max(1, self.global_bytes // size))
            elements = math.gcd(elements, _run(view, elements, known))
        for view in (s.src, s.dst):
            if view.zfill:
                elements = math.gcd(elements, _edges(view, known))
        return size * elements


def width_of(s: ir.Copy) -> int:
    """The bytes that the pass found for a copy, those of one element where it found none."""
    found = [int(hint[len(PREFIX) :]) for hint in s.hints if hint.startswith(PREFIX)]
    return found[0] if found else s.dst.buffer.dtype.size


def _run(view: ir.View, most: int, known: Known) -> int:
    """The largest power of two, at most `most`, of elements that lie together and aligned in a view."""
    strides = views.strides(view)
    if strides is None:
        return 1
    axes = [(e, step) for e, step in zip(view.extents, strides, strict=True) if integers.value(e) != 1]
    if not axes or integers.value(axes[-1][1]) != 1:
        return 1
    start = Expressions.offset_expr(view, (integers.ZERO,) * view.rank)
    found = math.gcd(most, factor(axes[-1][0], known), factor(start, known))
    for _, step in axes[:-1]:
        found = math.gcd(found, factor(step, known))
    return found


def _edges(view: ir.View, known: Known) -> int:
    """How many elements of the innermost dimension are inside the buffer or outside it together."""
    last = view.map[-1]
    inner = [d for d, mapped in enumerate(view.map[:-1]) if _uses(mapped, view.coords[-1])]
    if inner or not _uses(last, view.coords[-1]):
        return 1
    rest = integers.sub(last, view.coords[-1])
    if _uses(rest, view.coords[-1]):
        return 1
    return math.gcd(factor(rest, known), factor(view.buffer.shape[-1], known))


def _uses(e: ir.Expr, var: ir.Var) -> bool:
    return any(atom == var for atom in _variables(e))


def _variables(e: ir.Expr) -> list[ir.Var]:
    return [node for node in walk(e) if isinstance(node, ir.Var)]


def factor(e: ir.Expr, known: Known | None = None) -> int:
    """A number that divides an index whatever its variables are; 0 divides by everything."""
    if isinstance(e, (ir.Builtin, ir.Select)):
        return 1
    found = 0
    for monomial, coefficient in integers.poly(e).terms:
        term = abs(coefficient)
        for atom in monomial:
            if isinstance(atom, ir.Binary) and atom.op == "%" and isinstance(atom.right, ir.Const):
                term *= math.gcd(factor(atom.left, known), int(atom.right.value)) or 1
            elif isinstance(atom, ir.Var) and known:
                term *= known.get(atom, 1)
        found = math.gcd(found, term)
    return found


def known_factors(root: ir.Region) -> Known:
    """What divides the indices of a kernel that are computed from others, and those of its loops."""
    known: Known = {}
    for node in walk(root):
        if isinstance(node, ir.Let) and node.var.role is ir.Role.REGION and node.value is not None:
            found = factor(node.value, known)
        elif isinstance(node, ir.For):
            found = math.gcd(factor(node.start, known), node.step)
        else:
            continue
        known[node.var] = math.gcd(found, known.get(node.var, found))
    return known
