"""What programs do with the elements of fragments: `apply`, `.at`, elementwise operations, reductions, copies."""

from __future__ import annotations

from croq_magic.compiler import integers, ir, syntax
from croq_magic.compiler.check.context import Checker, in_range, show
from croq_magic.compiler.check.conversions import as_scalar, cast, compute_type, store_as
from croq_magic.compiler.check.expressions import flatten, scalar
from croq_magic.compiler.check.fragments import reference, shape_of
from croq_magic.compiler.check.names import resolve
from croq_magic.compiler.check.values import (
    Bounded,
    Driver,
    FragmentValue,
    Scalar,
)
from croq_magic.compiler.types import F32, S32


def operation(c: Checker, s: syntax.Assign, value: FragmentValue, ref: ir.FragmentRef) -> None:
    """`c += e`, `c *= e`: elementwise with a scalar or a fragment of the same shape."""
    if s.op == "=":
        c.fail(
            "TYP01",
            f"`{s.target.span.text}` cannot be assigned",
            s.span,
            f"`mma.fill {s.target.span.text}, ...` or `copy(...)`",
        )
    if isinstance(s.value, syntax.NameRef | syntax.BufferRef):
        name = s.value.text if isinstance(s.value, syntax.NameRef) else s.value.name.text
        symbol = c.find(name)
        if symbol is not None and isinstance(symbol.value, FragmentValue):
            base = (
                s.value
                if isinstance(s.value, syntax.BufferRef)
                else syntax.BufferRef(s.value.span, syntax.Name(s.value.span, name))
            )
            other, other_ref = reference(c, base, "the right side")
            if (
                value.shape is not None
                and other.shape is not None
                and not all(map(integers.equal, value.shape, other.shape))
            ):
                c.fail("SHP14", "the fragments have different shapes", s.span)
            c.emit(ir.FragmentOp(ref, s.op[0], other_ref, span=s.span))
            return
    found = scalar(c, s.value)
    operand = store_as(c, found, value.dtype, s.value.span, s.value.span.text) if value.dtype else found.expr
    c.emit(ir.FragmentOp(ref, s.op[0], operand, span=s.span))


def apply(c: Checker, s: syntax.Apply) -> None:
    """`apply {i, j} in x.span stmt`."""
    symbol = resolve(c, s.subject.text, s.subject.span)
    value = symbol.value
    if not isinstance(value, FragmentValue):
        c.fail(
            "MMA16",
            f"`{s.subject.text}` is {value.describe()}; `apply` runs over a fragment",
            s.subject.span,
            "use `foreach`",
        )
    shape = shape_of(c, value, s.subject.text, s.subject.span)
    if len(s.names) != len(shape):
        names = "1 name" if len(s.names) == 1 else f"{len(s.names)} names"
        c.fail("SHP09", f"{names} for a fragment of rank {len(shape)}", s.span)
    from croq_magic.compiler.check.statements import body

    with c.scope("`apply`", s.span):
        indices = []
        for name, extent in zip(s.names, shape, strict=True):
            var = ir.Var(c.fresh(name.text), S32, ir.Role.LOOP, integers.ZERO, extent)
            indices.append(var)
            c.declare(name, Bounded(var, extent, Driver(name.text, True, c.depth + len(c.scopes), name.span), c.depth))
        around, c.applied = c.applied, dict(zip(indices, (name.text for name in s.names), strict=True))
        try:
            statements = body(c, s.body, "`apply`")
        finally:
            c.applied = around
    c.emit(ir.Apply(tuple(indices), ir.FragmentRef(value.fragment), statements, span=s.span))


def element_index(c: Checker, e: syntax.ElemRef, value: FragmentValue) -> tuple[ir.FragmentRef, tuple[ir.Expr, ...]]:
    """The fragment and the coordinates of `s.at(i, j)`."""
    _, ref = reference(c, e.base, "what has elements here")
    found = flatten(c, e.index)
    shape = shape_of(c, value, e.base.span.text, e.span)
    if len(found) != len(shape):
        has = f"{len(found)} ind{'ex is' if len(found) == 1 else 'ices are'} given"
        c.fail("VEW11", f"`{e.base.span.text}` has rank {len(shape)} but {has}", e.span)
    index = tuple(as_scalar(c, item, span, span.text).expr for item, span in found)
    for position, (i, extent) in enumerate(zip(index, shape, strict=True)):
        inside = in_range(i, extent)
        message = f"index `{show(i)}` of `{e.base.span.text}` (dim {position}), valid range is [0, {show(extent)})"
        c.require(inside, "VEW12", message, e.span, values=(i,))
    _require_owned(c, e, index, shape)
    return ref, index


def _require_owned(c: Checker, e: syntax.ElemRef, index: tuple[ir.Expr, ...], shape: tuple[ir.Expr, ...]) -> None:
    """Inside `apply` a thread reaches the elements that it owns: those at the indices of the `apply`, and of a vector
    that is replicated along the other axis those at the first or the last of them."""
    applied = tuple(c.applied)
    own = (applied[: len(index)], applied[-len(index) :])
    if not applied or index in own:
        return
    fragment = e.base.span.text
    fitting = next((each for each in own if [v.upper for v in each] == list(shape)), ())
    names = ", ".join(c.applied[v] for v in fitting)
    hint = f"`{fragment}.at({names})`" if fitting else f"`apply` over `{fragment}`"
    c.fail("MMA16", f"`{e.span.text}` in `apply` may belong to another thread", e.span, hint)


def element_value(c: Checker, e: syntax.ElemRef, value: FragmentValue) -> Scalar:
    ref, index = element_index(c, e, value)
    dtype = value.dtype or F32
    return Scalar(cast(ir.FragmentLoad(ref, index, span=e.span), compute_type(dtype)), dtype, element=True)


def reduce(c: Checker, s: syntax.FragReduce) -> None:
    source, source_ref = reference(c, s.source, "what is reduced")
    target, target_ref = reference(c, s.destination, "where a reduction goes")
    axis = s.axis.value
    shape = shape_of(c, source, s.source.span.text, s.span)
    if not 0 <= axis < len(shape):
        c.fail("MMA16", f"axis {axis} does not exist, `{s.source.span.text}` has rank {len(shape)}", s.axis.span)
    rest = tuple(extent for i, extent in enumerate(shape) if i != axis)
    if target.shape is None:
        target.shape, target.dtype = rest, target.dtype or source.dtype
    if len(target.shape) != len(rest) or not all(map(integers.equal, target.shape, rest)):
        want, have = (", ".join(map(show, shape)) for shape in (rest, target.shape))
        message = f"the result of the reduction is [{want}], `{s.destination.span.text}` is [{have}]"
        c.fail("MMA16", message, s.span)
    target.replicated = True
    c.emit(ir.FragmentReduce(s.kind, target_ref, source_ref, axis, span=s.span))


def all_reduce(c: Checker, s: syntax.AllReduce) -> None:
    value, ref = reference(c, s.fragment, "what is reduced")
    if not value.replicated:
        c.fail("MMA16", f"`{s.fragment.span.text}` is not replicated; accumulate into it with `apply` first", s.span)
    c.emit(ir.FragmentReduce("all_sum", ref, ref, 0, span=s.span))


def copy(c: Checker, s: syntax.FragCopy) -> None:
    source, source_ref = reference(c, s.source, "the source of `copy`")
    target, target_ref = reference(c, s.destination, "the destination of `copy`")
    shape = shape_of(c, source, s.source.span.text, s.span)
    if target.shape is None:
        target.shape, target.dtype = shape, target.dtype or source.dtype
    if len(shape) != len(target.shape) or not all(map(integers.equal, shape, target.shape)):
        c.fail("DMA03", "the fragments have different shapes", s.span)
    target.loaded = target.loaded or source.loaded
    c.emit(ir.FragmentCopy(target_ref, source_ref, span=s.span))
