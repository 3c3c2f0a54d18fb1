"""Fragments: how they are declared, named and completed (MMA04, MMA05).

The shape of an accumulator follows from the first multiplication it is used in, and so may its element type. Until
then its `ir.Fragment` is a stand-in; `complete` puts the real one in its place when the function's body is known.
"""

from __future__ import annotations

import dataclasses

from croq_magic.compiler import integers, ir, syntax
from croq_magic.compiler.check.context import Checker, Skip, in_range, show
from croq_magic.compiler.check.conversions import cast, compute_type, store_as
from croq_magic.compiler.check.expressions import evaluate, integer, scalar
from croq_magic.compiler.check.names import resolve
from croq_magic.compiler.check.storage import array_dimensions
from croq_magic.compiler.check.values import (
    FragmentValue,
)
from croq_magic.compiler.source import Span
from croq_magic.compiler.types import BY_NAME, F32, DType
from croq_magic.compiler.visit import rewrite


def owner(c: Checker) -> ir.Level:
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
    stand_in = ir.Fragment(c.fresh(name.text), dtype or F32, shape or (), owner(c), slots)
    again = c.find_here(name.text) is not None
    value = FragmentValue(stand_in, dtype, shape, name.span, c.depth, key=key, poisoned=again)
    c.fragments.append(value)
    c.emit(ir.DeclareFragment(stand_in, span=name.span))
    c.declare(name, value)
    return value


def require_device(c: Checker, span: Span) -> None:
    if not c.in_device:
        c.fail("PAR13", "tensor-core statements need an enclosing `parallel`", span)


def shape_of(c: Checker, value: FragmentValue, text: str, span: Span) -> tuple[ir.Expr, ...]:
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


def fragment_declaration(c: Checker, s: syntax.FragDecl) -> None:
    """`frag f32 [16, 8] c {0.0f}`, `frag acc[2] {0.0f}`."""
    require_device(c, s.span)
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
