"""Tensor cores: fragments, `mma` statements, `apply` and reductions (MMA codes).

The shape of an accumulator follows from the first multiplication it is used in, and so may its element type. Until
then its `ir.Fragment` is a stand-in; `complete` puts the real one in its place when the function's body is known.
"""

from __future__ import annotations

import dataclasses

from croq_magic.compiler import integers, ir, syntax
from croq_magic.compiler.check import sparse
from croq_magic.compiler.check.context import Checker, Skip, decide, in_range, show
from croq_magic.compiler.check.conversions import as_scalar, cast, compute_type, constant_as, store_as
from croq_magic.compiler.check.expressions import evaluate, flatten, integer, scalar
from croq_magic.compiler.check.names import resolve
from croq_magic.compiler.check.storage import array_dimensions, mark_written
from croq_magic.compiler.check.values import (
    Bounded,
    Driver,
    FragmentValue,
    FutureValue,
    OperationValue,
    Scalar,
    SpanValue,
    Value,
)
from croq_magic.compiler.source import Span
from croq_magic.compiler.types import BF16, BOOL, BY_NAME, F16, F32, F64, S32, TF32, U8, DType
from croq_magic.compiler.visit import rewrite

_OPERANDS = ("f16", "bf16", "tf32", "f32", "f64", "f8_e4m3", "f8_e5m2", "s8", "u8", "s4", "u4", "bin1")


def _owner(c: Checker) -> ir.Level:
    """The unit that a fragment declared here is spread over, as far as the program says."""
    for nest in reversed(c.nest):
        if nest.level in ("group", "group-4"):
            return ir.Level(nest.level)
    return ir.Level.BLOCK


def new_fragment(
    c: Checker, name: syntax.Name, dtype: DType | None, shape: tuple[ir.Expr, ...] | None, slots: tuple[int, ...] = ()
) -> FragmentValue:
    """Declares a fragment; what is not known yet follows from its first use."""
    old = c.find(name.text)
    if (
        old is not None
        and isinstance(old.value, FragmentValue)
        and old.value.accumulator
        and old is not c.find_here(name.text)
    ):
        c.fail(
            "MMA05", f"`{name.text}` would be a second, unused accumulator", name.span, f"`mma.fill {name.text}, ...`"
        )
    key = (name.span.start, name.text)
    if key in c.settled:
        shape, dtype = shape or c.settled[key].shape, dtype or c.settled[key].dtype
    stand_in = ir.Fragment(c.fresh(name.text), dtype or F32, shape or (), _owner(c), slots)
    again = c.find_here(name.text) is not None
    value = FragmentValue(stand_in, dtype, shape, name.span, c.depth, key=key, poisoned=again)
    c.fragments.append(value)
    c.emit(ir.DeclareFragment(stand_in, span=name.span))
    c.declare(name, value)
    return value


def _shape(c: Checker, value: FragmentValue, text: str, span: Span) -> tuple[ir.Expr, ...]:
    """The shape of a fragment, where it must be known. It may follow from a statement further down (in a loop, say):
    the function is then checked again with that shape."""
    if value.poisoned:
        raise Skip
    if value.shape is None:
        c.unsettled.add(value.key)
        hint = f"give it: `frag f32 [16, 8] {value.key[1]} {{0.0f}}`"
        c.fail("MMA04", f"the shape of `{text}` follows from no `mma` and no load", span, hint)
    return value.shape


def complete(c: Checker, body: ir.Body) -> ir.Body:
    """The body with every stand-in replaced by the fragment that its uses made it."""
    done: dict[ir.Node, ir.Fragment] = {}
    unused: set[ir.Node] = set()
    for value in c.fragments:
        if value.shape is None or value.dtype is None:
            name = value.key[1]
            if not value.poisoned and value.key not in c.unsettled:
                hint = f"remove it, or give its shape, `frag f32 [16, 8] {name} {{0.0f}}`"
                c.warn("MMA04", f"`{name}` is filled but no `mma` accumulates into it", value.span, hint)
            unused.add(value.fragment)
            continue
        done[value.fragment] = dataclasses.replace(value.fragment, dtype=value.dtype, shape=value.shape)

    def change(node: ir.Node) -> ir.Node | ir.Body | None:
        if isinstance(node, ir.DeclareFragment) and node.fragment in unused:
            return ()
        if isinstance(node, ir.MmaFill | ir.FragmentOp) and node.target.fragment in unused:
            return ()
        if isinstance(node, ir.Fragment):
            return done.get(node)
        if isinstance(node, ir.FragmentRef) and node.fragment in done:
            return dataclasses.replace(node, fragment=done[node.fragment])
        if isinstance(node, ir.MmaFill | ir.FragmentOp) and isinstance(node.value, ir.Expr):
            dtype = node.target.fragment.dtype
            wanted = dtype if isinstance(node, ir.MmaFill) else compute_type(dtype)
            return dataclasses.replace(node, value=cast(node.value, wanted))
        if isinstance(node, ir.DeclareFragment):
            fragment = done.get(node.fragment, node.fragment)
            init = None if node.init is None else cast(node.init, fragment.dtype)
            return dataclasses.replace(node, fragment=fragment, init=init)
        return None

    return rewrite(body, change) if c.fragments else body


# ----------------------------------------------------------------------------------------------------- operands


def reference(c: Checker, ref: syntax.BufferRef, what: str) -> tuple[FragmentValue, ir.FragmentRef]:
    """A fragment, or one element of an array of them."""
    value = resolve(c, ref.name.text, ref.name.span).value
    if not isinstance(value, FragmentValue):
        c.fail("MMA04", f"`{ref.span.text}` is {value.describe()}; {what} is a fragment", ref.span)
    slots = value.fragment.slots
    if len(ref.subscripts) != len(slots):
        if not ref.subscripts:
            chosen = ref.name.text + "".join("[0]" for _ in slots)
            c.fail("MMA04", f"`{ref.name.text}` is an array; name one element, `{chosen}`", ref.span)
        if not slots:
            c.fail("VEW14", f"`{ref.name.text}` is a single fragment and has no subscripts", ref.span)
        c.fail("VEW14", f"`{ref.name.text}` needs {len(slots)} subscripts, found {len(ref.subscripts)}", ref.span)
    index = []
    for subscript, extent in zip(ref.subscripts, slots, strict=True):
        e = integer(c, subscript, "a subscript")
        message = f"subscript `{show(e)}` of `{ref.name.text}`, valid range is [0, {extent})"
        inside = in_range(e, extent)
        c.require(inside, "VEW13", message, subscript.span, values=(e,))
        index.append(e)
    return value, ir.FragmentRef(value.fragment, tuple(index))


@dataclasses.dataclass(frozen=True)
class _Operand:
    node: ir.FragmentRef | ir.View
    extents: tuple[ir.Expr, ...]
    dtype: DType


def _operand(c: Checker, e: syntax.View) -> _Operand:
    symbol = c.find(e.base.name.text)
    if symbol is not None and isinstance(symbol.value, FragmentValue) and not e.ops:
        value, ref = reference(c, e.base, "an operand")
        shape = _shape(c, value, e.base.name.text, e.span)
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


# --------------------------------------------------------------------------------------------------- statements


def fragment_declaration(c: Checker, s: syntax.FragDecl) -> None:
    """`frag f32 [16, 8] c {0.0f}`, `frag acc[2] {0.0f}`."""
    _require_device(c, s.span)
    shape: tuple[ir.Expr, ...] | None = None
    if s.dims is not None:
        from croq_magic.compiler.check import shapes

        shape = shapes.flatten_extents(c, [(evaluate(c, d), d.span) for d in s.dims])
        for extent in shape:
            if integers.value(extent) is None:
                c.fail("DYN05", f"fragments need constant extents, found `{show(extent)}`", s.span)
    dtype = BY_NAME[s.type.name] if s.type else None
    for item in s.items:
        slots = array_dimensions(c, item.name, item.array)
        value = new_fragment(c, item.name, dtype, shape, slots)
        if item.value is not None:
            init = scalar(c, item.value)
            value.accumulator = value.accumulator or s.type is None
            last = c.body.pop()
            assert isinstance(last, ir.DeclareFragment)
            converted = store_as(c, init, dtype, item.value.span, item.value.span.text) if dtype else init.expr
            c.emit(dataclasses.replace(last, init=converted))


def _require_device(c: Checker, span: Span) -> None:
    if not c.in_device:
        c.fail("PAR13", "tensor-core statements need an enclosing `parallel`", span)


def fill(c: Checker, s: syntax.MmaFill) -> None:
    _require_device(c, s.span)
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
    _require_device(c, s.span)
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
    _require_device(c, s.span)
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
        shape = _shape(c, value, s.metadata.span.text, s.metadata.span)
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
    fragment = ir.Fragment(c.fresh(found.buffer.name), U8, found.extents, _owner(c))
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
    shape = _shape(c, value, s.source.span.text, s.span)
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
    _require_device(c, s.span)
    c.emit(ir.MmaCommit(span=s.span))


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


# --------------------------------------------------------------------------------------------- elements, reductions


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
    shape = _shape(c, value, s.subject.text, s.subject.span)
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
        around, c.applied = c.applied, len(indices)
        try:
            statements = body(c, s.body, "`apply`")
        finally:
            c.applied = around
    c.emit(ir.Apply(tuple(indices), ir.FragmentRef(value.fragment), statements, span=s.span))


def element_index(c: Checker, e: syntax.ElemRef, value: FragmentValue) -> tuple[ir.FragmentRef, tuple[ir.Expr, ...]]:
    """The fragment and the coordinates of `s.at(i, j)`."""
    _, ref = reference(c, e.base, "what has elements here")
    found = flatten(c, e.index)
    shape = _shape(c, value, e.base.span.text, e.span)
    if len(found) != len(shape):
        has = f"{len(found)} ind{'ex is' if len(found) == 1 else 'ices are'} given"
        c.fail("VEW11", f"`{e.base.span.text}` has rank {len(shape)} but {has}", e.span)
    index = tuple(as_scalar(c, item, span, span.text).expr for item, span in found)
    for position, (i, extent) in enumerate(zip(index, shape, strict=True)):
        inside = in_range(i, extent)
        message = f"index `{show(i)}` of `{e.base.span.text}` (dim {position}), valid range is [0, {show(extent)})"
        c.require(inside, "VEW12", message, e.span, values=(i,))
    return ref, index


def element_value(c: Checker, e: syntax.ElemRef, value: FragmentValue) -> Scalar:
    ref, index = element_index(c, e, value)
    dtype = value.dtype or F32
    return Scalar(cast(ir.FragmentLoad(ref, index, span=e.span), compute_type(dtype)), dtype, element=True)


def reduce(c: Checker, s: syntax.FragReduce) -> None:
    source, source_ref = reference(c, s.source, "what is reduced")
    target, target_ref = reference(c, s.destination, "where a reduction goes")
    axis = s.axis.value
    shape = _shape(c, source, s.source.span.text, s.span)
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
    shape = _shape(c, source, s.source.span.text, s.span)
    if target.shape is None:
        target.shape, target.dtype = shape, target.dtype or source.dtype
    if len(shape) != len(target.shape) or not all(map(integers.equal, shape, target.shape)):
        c.fail("DMA03", "the fragments have different shapes", s.span)
    target.loaded = target.loaded or source.loaded
    c.emit(ir.FragmentCopy(target_ref, source_ref, span=s.span))
