"""Statements of tensor cores, `mma.fill` to `mma.commit`: operands, types and shapes (MMA codes).

An accumulator is completed by the first multiplication that it is used in (`fragments.py`).
"""

from __future__ import annotations

import dataclasses

from croq_magic.compiler import integers, ir, syntax
from croq_magic.compiler.check import sparse
from croq_magic.compiler.check.context import Checker, Skip, decide, show
from croq_magic.compiler.check.conversions import constant_as, store_as
from croq_magic.compiler.check.expressions import evaluate, integer, scalar
from croq_magic.compiler.check.fragments import new_fragment, owner, reference, require_device, shape_of
from croq_magic.compiler.check.names import resolve
from croq_magic.compiler.check.storage import mark_written
from croq_magic.compiler.check.values import (
    FragmentValue,
    FutureValue,
    OperationValue,
    SpanValue,
    Value,
)
from croq_magic.compiler.types import BF16, BOOL, BY_NAME, F16, F32, F64, S32, TF32, U8, DType

_OPERANDS = ("f16", "bf16", "tf32", "f32", "f64", "f8_e4m3", "f8_e5m2", "s8", "u8", "s4", "u4", "bin1")


@dataclasses.dataclass(frozen=True)
class _Operand:
    node: ir.FragmentRef | ir.View
    extents: tuple[ir.Expr, ...]
    dtype: DType


def _operand(c: Checker, e: syntax.View) -> _Operand:
    symbol = c.find(e.base.name.text)
    if symbol is not None and isinstance(symbol.value, FragmentValue) and not e.ops:
        value, ref = reference(c, e.base, "an operand")
        shape = shape_of(c, value, e.base.name.text, e.span)
        value.operand = True
        return _Operand(ref, shape, value.dtype or F32)
    view = _view(c, e)
    if view.rank != 2:
        c.fail("MMA04", f"an `mma` operand has rank 2, `{e.span.text}` has rank {view.rank}", e.span)
    return _Operand(view, view.extents, view.buffer.dtype)


def _view(c: Checker, e: syntax.View) -> ir.View:
    value = evaluate(c, e)
    if isinstance(value, FutureValue):
        value = value.data()
    if not isinstance(value, SpanValue):
        c.fail("TYP10", f"`{e.span.text}` is {value.describe()}; a span is needed here", e.span)
    return value.view


def fill(c: Checker, s: syntax.MmaFill) -> None:
    require_device(c, s.span)
    found = scalar(c, s.value)
    if s.result is not None:
        dtype = BY_NAME[s.type.name] if s.type else None
        value = new_fragment(c, s.result, dtype, None)
        value.accumulator = True
        ref = ir.FragmentRef(value.fragment)
    else:
        assert s.target is not None
        value, ref = reference(c, s.target, "what `mma.fill` fills")
        if value.loaded or value.operand:
            c.fail("MMA03", "only accumulators can be filled", s.span)
        value.accumulator = True
    if (
        value.dtype is not None
        and isinstance(found.expr, ir.Const)
        and constant_as(found.expr.value, value.dtype) is None
    ):
        c.warn("MMA10", f"conversion `{found.type}` to `{value.dtype}` may lose precision", s.value.span)
    c.emit(ir.MmaFill(ref, found.expr, span=s.span))


def load(c: Checker, s: syntax.MmaLoad) -> None:
    require_device(c, s.span)
    view = _view(c, s.source)
    layout = view.buffer.layout
    wanted = s.swizzle.value if s.swizzle else 0
    if layout != wanted and (s.swizzle is not None or layout):
        hint = f"`mma.load.swiz<{layout}>`" if layout else "`mma.load`"
        c.fail(
            "MMA09",
            f"the buffer is stored with swizzle {layout}" if layout else "the buffer is not swizzled",
            s.span,
            hint,
        )
    if s.result is not None:
        value = new_fragment(c, s.result, view.buffer.dtype, view.extents)
        ref = ir.FragmentRef(value.fragment)
    else:
        assert s.target is not None
        value, ref = reference(c, s.target, "what `mma.load` fills")
        if value.shape is None:
            value.shape = view.extents
        value.dtype = value.dtype or view.buffer.dtype
    value.loaded, value.source = True, view
    c.emit(ir.MmaLoad(ref, view, span=s.span))


def multiply(c: Checker, s: syntax.MmaMultiply) -> None:
    """`mma.LA.LB c, a, b` and its forms: shapes, types and the accumulator's completion."""
    require_device(c, s.span)
    accumulator, ref = reference(c, s.accumulator, "an accumulator")
    try:
        _multiply(c, s, accumulator, ref)
    except Skip:
        accumulator.poisoned = accumulator.shape is None
        raise


def _multiply(c: Checker, s: syntax.MmaMultiply, accumulator: FragmentValue, ref: ir.FragmentRef) -> None:
    if s.metadata is not None and not isinstance(_symbol_value(c, s.metadata), FragmentValue):
        c.fail("MMA15", "sparse metadata must be loaded with `mma.load` first", s.metadata.span)
    a, b = _operand(c, s.a), _operand(c, s.b)
    m, k_a = a.extents if s.a_layout == "row" else a.extents[::-1]
    n, k_b = b.extents if s.b_layout == "row" else b.extents[::-1]
    if s.sparse:
        k_a = integers.mul(k_a, integers.constant(2))
    if not integers.equal(k_a, k_b):
        known = decide(ir.Binary("==", k_a, k_b, BOOL))
        if known is False or integers.value(k_a) is not None:
            c.fail("MMA02", f"K is {show(k_a)} in A and {show(k_b)} in B", s.span)
        same = ir.Binary("==", k_a, k_b, BOOL)
        c.require(same, "MMA02", f"K is {show(k_a)} in A and {show(k_b)} in B", s.span, values=(k_a, k_b))
    _check_types(c, s, a.dtype, b.dtype)
    default = _accumulator_type(a.dtype)
    accumulator.dtype = accumulator.dtype or default
    if accumulator.dtype not in _allowed(a.dtype):
        names = " or ".join(f"`{d}`" for d in _allowed(a.dtype))
        c.fail(
            "MMA01",
            f"the accumulator of `{a.dtype}` operands is {names}, `{s.accumulator.span.text}` is `{accumulator.dtype}`",
            s.span,
        )
    if accumulator.shape is None:
        accumulator.shape = (m, n)
    elif len(accumulator.shape) != 2 or not all(map(integers.equal, accumulator.shape, (m, n))):
        have = ", ".join(map(show, accumulator.shape))
        c.fail("MMA02", f"the accumulator is [{have}], A and B make [{show(m)}, {show(n)}]", s.span)
    accumulator.accumulator = True
    token = None
    if s.is_async and s.result is not None:
        token = ir.Token(c.fresh(f"{s.result.text}_done"))
        c.declare(s.result, OperationValue(token, s.result.span, s.accumulator.span.text))
    scales = None
    if s.scale is not None:
        scales = (_view(c, s.scale[0]), store_as(c, scalar(c, s.scale[1]), F32, s.scale[1].span))
    metadata = _positions(c, s, a) if s.sparse else None
    schedule = _schedule(c, s, a.dtype, k_a)
    c.emit(ir.Mma(ref, a.node, b.node, (s.a_layout, s.b_layout), token, scales, metadata, schedule, span=s.span))


def _positions(c: Checker, s: syntax.MmaMultiply, a: _Operand) -> ir.FragmentRef:
    """The fragment with the positions of a sparse A: the one that is given, or one of those that belong to A."""
    kept = a.extents if s.a_layout == "row" else a.extents[::-1]
    if s.metadata is not None:
        value, ref = reference(c, s.metadata.base, "metadata")
        shape = shape_of(c, value, s.metadata.span.text, s.metadata.span)
        sparse.check_operands(c, kept, shape, value.dtype is U8, s.metadata.span)
        return ref
    source = a.node if isinstance(a.node, ir.View) else None
    symbol = c.find(s.a.base.name.text)
    if symbol is not None and isinstance(symbol.value, FragmentValue):
        source = symbol.value.source
    found = None if source is None else sparse.positions_of(c, source, s.a.span)
    if found is None or s.a_layout != "row":
        hint = "`me = mma.load f.mdata;` and `me` as the last operand"
        c.fail("MMA15", f"the metadata of `{s.a.span.text}` are not known", s.a.span, hint)
    fragment = ir.Fragment(c.fresh(found.buffer.name), U8, found.extents, owner(c))
    ref = ir.FragmentRef(fragment)
    c.emit(ir.DeclareFragment(fragment, span=s.span))
    c.emit(ir.MmaLoad(ref, found, span=s.span))
    return ref


def _symbol_value(c: Checker, e: syntax.View) -> Value:
    return resolve(c, e.base.name.text, e.base.name.span).value


def _check_types(c: Checker, s: syntax.MmaMultiply, a: DType, b: DType) -> None:
    if a.name not in _OPERANDS:
        c.fail("MMA01", f"no tensor-core instruction takes `{a}` operands", s.a.span)
    both_f8 = a.name.startswith("f8") and b.name.startswith("f8")
    both_small = a.is_integer and b.is_integer and a.bits == b.bits
    if a is not b and not both_f8 and not both_small:
        c.fail("MMA01", f"A is `{a}`, B is `{b}`; the operands need one type", s.span)


def _accumulator_type(a: DType) -> DType:
    if a is F16:
        return F16
    if a is F64:
        return F64
    return F32 if a.is_float else S32


def _allowed(a: DType) -> tuple[DType, ...]:
    if a is F16 or a.name.startswith("f8"):
        return (F16, F32)
    return (_accumulator_type(a),)


def _schedule(c: Checker, s: syntax.MmaMultiply, dtype: DType, k: ir.Expr) -> tuple[int, ...]:
    if s.schedule is None:
        return ()
    atom = {TF32: 8, F32: 8, F16: 16, BF16: 16}.get(dtype, 32)
    total = integers.value(k)
    tiles = max(1, total // atom) if total is not None else len(s.schedule)
    if sorted(s.schedule) != list(range(tiles)):
        c.fail("MMA07", f"not a permutation of 0..{tiles - 1}", s.span)
    return s.schedule


def scale(c: Checker, s: syntax.MmaScale) -> None:
    _, ref = reference(c, s.accumulator, "what `mma.scale` scales")
    rows = _view(c, s.a_scale)
    factor = scalar(c, s.b_scale)
    c.emit(ir.MmaScale(ref, rows, store_as(c, factor, F32, s.b_scale.span, s.b_scale.span.text), span=s.span))


def store(c: Checker, s: syntax.MmaStore) -> None:
    value, ref = reference(c, s.source, "what `mma.store` writes")
    with c.clipping(bool(s.mask)):
        view = _view(c, s.destination)
    shape = shape_of(c, value, s.source.span.text, s.span)
    mark_written(c, view, s.span)
    shape = shape[::-1] if s.transpose else shape
    mask = tuple(integer(c, e, "a mask") for e in s.mask)
    if len(shape) != view.rank:
        c.fail("DMA02", f"ranks differ: {len(shape)} and {view.rank}", s.span)
    for dimension, (have, room) in enumerate(zip(shape, view.extents, strict=True)):
        message = f"the tile has {show(have)} elements in dimension {dimension}, its destination {show(room)}"
        c.require(ir.Binary("==", have, room, BOOL), "DMA03", message, s.span, values=(have, room))
    c.emit(ir.MmaStore(ref, view, s.transpose, mask, s.is_async, span=s.span))


def commit(c: Checker, s: syntax.MmaCommit) -> None:
    require_device(c, s.span)
    c.emit(ir.MmaCommit(span=s.span))
