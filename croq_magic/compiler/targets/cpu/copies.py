"""Transfers between views as C++ loops.

Dimensions in which both sides run on in one stride are joined, contiguous runs become `memcpy` with a constant size
where it is known, and a zero-filled window is clipped once per dimension instead of tested per element.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from croq_magic.compiler import integers, ir, views
from croq_magic.compiler.targets.emit_cxx import INDEX, TIMES, ctype
from croq_magic.compiler.visit import substitute, walk

if TYPE_CHECKING:
    from croq_magic.compiler.targets.cpu.statements import Statements


# A run of so few elements is copied by a loop: unlike a `memcpy` it lets the compiler keep a tile in registers, and
# compute the tiles of several blocks at once.
FEW = 8


@dataclasses.dataclass
class Axis:
    """One loop of a copy: its extent and the element strides of source and destination."""

    extent: ir.Expr
    src: ir.Expr
    dst: ir.Expr


def emit_copy(out: Statements, s: ir.Copy) -> None:
    """The statements of one transfer; asynchronous ones complete at once, which the language allows."""
    src, dst = s.src, s.dst
    order = s.permutation or tuple(range(src.rank))
    inner = tuple(src.extents[d] for d in order)
    if s.partial:
        fill(out, dst, ir.Const(0, dst.buffer.dtype))
    if s.pad:
        padded = tuple(
            integers.add(integers.add(low, extent), high) for (low, high), extent in zip(s.pad, inner, strict=True)
        )
        dst = views.window(dst, (integers.ZERO,) * dst.rank, padded) if s.partial else dst
        fill(out, dst, s.pad_value if s.pad_value is not None else ir.Const(0, dst.buffer.dtype))
        dst = views.window(dst, tuple(low for low, _ in s.pad), inner)
    elif s.partial:
        dst = views.window(dst, (integers.ZERO,) * dst.rank, inner)
    if s.permutation:
        src = _permuted(src, s.permutation)
    if (src.checks and not src.zfill) or dst.checks:
        with out.window_check((src, dst), s.span):
            _transfer(out, src, dst)
    else:
        _transfer(out, src, dst)


def _permuted(view: ir.View, permutation: tuple[int, ...]) -> ir.View:
    """The view whose dimension d is dimension `permutation[d]` of `view`."""
    coords = tuple(view.coords[p] for p in permutation)
    renamed = views.coordinates(len(permutation))
    temporary = tuple(dataclasses.replace(c, name=f"{c.name}'") for c in renamed)
    first: dict[ir.Var, ir.Expr] = dict(zip(coords, temporary, strict=True))
    second: dict[ir.Var, ir.Expr] = dict(zip(temporary, renamed, strict=True))
    mapping, offset = substitute(substitute((view.map, view.offset), first), second)
    extents = tuple(view.extents[p] for p in permutation)
    return dataclasses.replace(view, coords=renamed, map=mapping, offset=offset, extents=extents, contiguous=False)


def fill(out: Statements, view: ir.View, value: ir.Expr) -> None:
    """Sets every element of a view."""
    text = out.expressions.value(ir.Cast(value, view.buffer.dtype) if value.dtype is not view.buffer.dtype else value)
    strides = views.strides(view)
    start = out.expressions.offset_expr(view, (integers.ZERO,) * view.rank)
    pointer = out.expressions.pointer(view.buffer)
    if strides is None:
        indices, heads = _loops(out, view.extents)
        with out.nest(heads):
            out.line(f"{out.expressions.element(view, indices)} = {text};")
        return
    axes = _join(
        [Axis(e, integers.ZERO, stride) for e, stride in zip(view.extents, strides, strict=True)], dst_only=True
    )
    indices, heads = _loops(out, tuple(axis.extent for axis in axes))
    offset = start
    for index, axis in zip(indices, axes, strict=True):
        offset = integers.add(offset, integers.mul(index, axis.dst))
    with out.nest(heads):
        out.line(f"{pointer}[{out.expressions.index(offset)}] = {text};")


def _transfer(out: Statements, src: ir.View, dst: ir.View) -> None:
    src_strides, dst_strides = views.strides(src), views.strides(dst)
    if dst.zfill:
        _inside(out, src, dst)
    elif src.zfill:
        _zero_filled(out, src, dst)
    elif src_strides is None or dst_strides is None:
        indices, heads = _loops(out, dst.extents)
        with out.nest(heads):
            out.line(f"{out.expressions.element(dst, indices)} = {out.expressions.element(src, indices)};")
    else:
        axes = [Axis(*parts) for parts in zip(dst.extents, src_strides, dst_strides, strict=True)]
        _strided(out, src, dst, _join(axes))


def _join(axes: list[Axis], dst_only: bool = False) -> list[Axis]:
    """Drops extents of 1 and joins neighbours whose outer stride is inner stride times inner extent, on both sides."""
    joined: list[Axis] = []
    for axis in axes:
        if integers.value(axis.extent) == 1:
            continue
        if joined:
            outer = joined[-1]
            if integers.equal(outer.dst, integers.mul(axis.dst, axis.extent)) and (
                dst_only or integers.equal(outer.src, integers.mul(axis.src, axis.extent))
            ):
                joined[-1] = Axis(integers.mul(outer.extent, axis.extent), axis.src, axis.dst)
                continue
        joined.append(axis)
    return joined


def _loops(out: Statements, extents: tuple[ir.Expr, ...]) -> tuple[tuple[ir.Var, ...], list[str]]:
    """Index variables and loop heads, outer to inner."""
    indices, heads = [], []
    for position, extent in enumerate(extents):
        name = out.names.fresh(f"i{position}")
        var = ir.Var(name, integers.ZERO.dtype, ir.Role.LOOP, integers.ZERO, extent)
        out.names.adopt(var, name)
        out.define(var)
        indices.append(var)
        stop = out.expressions.index(extent)
        heads.append(f"for ({INDEX} {name} = 0; {name} < {stop}; ++{name})")
    return tuple(indices), heads


def _strided(out: Statements, src: ir.View, dst: ir.View, axes: list[Axis]) -> None:
    zero_src, zero_dst = (integers.ZERO,) * src.rank, (integers.ZERO,) * dst.rank
    src_offset, dst_offset = out.expressions.offset_expr(src, zero_src), out.expressions.offset_expr(dst, zero_dst)
    pointers = out.expressions.pointer(dst.buffer), out.expressions.pointer(src.buffer)
    run = axes[-1] if axes and all(integers.value(stride) == 1 for stride in (axes[-1].src, axes[-1].dst)) else None
    length = None if run is None else integers.value(run.extent)
    if length is not None and length <= FEW:
        run = None
    outer = axes[:-1] if run else axes
    indices, heads = _loops(out, tuple(axis.extent for axis in outer))
    for index, axis in zip(indices, outer, strict=True):
        src_offset = integers.add(src_offset, integers.mul(index, axis.src))
        dst_offset = integers.add(dst_offset, integers.mul(index, axis.dst))
    to, source = out.expressions.index(dst_offset), out.expressions.index(src_offset)
    with out.nest(heads):
        if run is None:
            out.line(f"{pointers[0]}[{to}] = {pointers[1]}[{source}];")
        else:
            size = out.expressions.index(integers.mul(run.extent, integers.constant(dst.buffer.dtype.size)))
            out.line(f"__builtin_memcpy({plus(pointers[0], to)}, {plus(pointers[1], source)}, {size});")


def plus(pointer: str, offset: str) -> str:
    """C++ text of a pointer moved by an offset."""
    return pointer if offset == "0" else f"{pointer} + {offset}" if " " not in offset else f"{pointer} + ({offset})"


def _ranges(
    out: Statements, view: ir.View, extents: tuple[ir.Expr, ...], indices: tuple[ir.Var, ...]
) -> tuple[dict[int, tuple[str, str]], list[str]]:
    """Which elements of a window lie in its base buffer: per dimension the first one and the end of those inside, and
    tests for what is no range."""
    clipped: dict[int, tuple[str, str]] = {}
    tests: list[str] = []
    for d, mapped in enumerate(view.map):
        extent = view.buffer.shape[d]
        position, rest = _shifted(view, mapped)
        if position is None:
            low, high = integers.interval(mapped)
            size = integers.value(extent)
            if low is not None and low >= 0 and high is not None and size is not None and high < size:
                continue
            base = out.expressions.index(substitute(mapped, dict(zip(view.coords, indices, strict=True))))
            tests.append(f"uint64_t({base}) < uint64_t({out.expressions.index(extent)})")
            continue
        origin = out.names.fresh("origin")
        out.line(f"const {INDEX} {origin} = {out.expressions.index(rest)};")
        lower, upper = out.names.fresh("first"), out.names.fresh("last")
        count = out.expressions.index(extents[position])
        size_text = out.expressions.index(extent, 12)
        out.line(f"const {INDEX} {lower} = croq_min<{INDEX}>({count}, {origin} < 0 ? -{origin} : 0);")
        out.line(
            f"const {INDEX} {upper} = croq_max<{INDEX}>({lower}, croq_min<{INDEX}>({count}, {size_text} - {origin}));"
        )
        clipped[position] = (lower, upper)
    return clipped, tests


def _all_inside(out: Statements, clipped: dict[int, tuple[str, str]], extents: tuple[ir.Expr, ...]) -> str:
    """The condition under which a window lies in its base buffer."""
    return " && ".join(
        f"{lower} == 0 && {upper} == {out.expressions.index(extents[position], TIMES)}"
        for position, (lower, upper) in clipped.items()
    )


def _inside(out: Statements, src: ir.View, dst: ir.View) -> None:
    """Stores what lies in the base buffer of the destination, as a TMA store does; the rest is left out."""
    indices, heads = _loops(out, dst.extents)
    clipped, tests = _ranges(out, dst, dst.extents, indices)
    plain = dataclasses.replace(dst, zfill=False)
    if not clipped and not tests:
        _transfer(out, src, plain)
        return
    for position, (lower, upper) in clipped.items():
        name = out.names.of(indices[position])
        heads[position] = f"for ({INDEX} {name} = {lower}; {name} < {upper}; ++{name})"
    store = f"{out.expressions.element(plain, indices)} = {out.expressions.element(src, indices)};"
    if tests:
        with out.nest([*heads, f"if ({' && '.join(tests)})"]):
            out.line(store)
        return
    with out.block(f"if ({_all_inside(out, clipped, dst.extents)})", "} else {"):
        _transfer(out, src, plain)
    out.depth += 1
    with out.nest(heads):
        out.line(store)
    out.depth -= 1
    out.line("}")


def _zero_filled(out: Statements, src: ir.View, dst: ir.View) -> None:
    """Elements outside the base buffer read as zero. Where a base coordinate is `coordinate + constant part`, the
    valid range of that loop is computed once; any other coordinate is tested for each element. A window that lies
    inside, as all but those at the edge do, is copied as if nothing were to be filled."""
    indices, _ = _loops(out, dst.extents)
    clipped, tests = _ranges(out, src, dst.extents, indices)
    if tests:
        _clipped(out, src, dst, indices, clipped, tests)
        return
    plain = dataclasses.replace(src, zfill=False)
    if not clipped:
        _transfer(out, plain, dst)
        return
    whole = _all_inside(out, clipped, dst.extents)
    with out.block(f"if ({whole})", "} else {"):
        _transfer(out, plain, dst)
    out.depth += 1
    _clipped(out, src, dst, indices, clipped, tests)
    out.depth -= 1
    out.line("}")


def _clipped(
    out: Statements,
    src: ir.View,
    dst: ir.View,
    indices: tuple[ir.Var, ...],
    clipped: dict[int, tuple[str, str]],
    tests: list[str],
) -> None:
    """The elements between the bounds of `clipped`, per dimension, for which `tests` hold; zeros around them."""
    inside = [
        f"{out.names.of(i)} >= {clipped[p][0]} && {out.names.of(i)} < {clipped[p][1]}"
        for p, i in enumerate(indices[:-1])
        if p in clipped
    ]
    last = len(indices) - 1
    heads = [
        f"for ({INDEX} {out.names.of(i)} = 0; {out.names.of(i)} < {out.expressions.index(e)}; ++{out.names.of(i)})"
        for i, e in zip(indices, dst.extents, strict=True)
    ]
    target, source = out.expressions.element(dst, indices), out.expressions.element(src, indices)
    zero = f"{ctype(dst.buffer.dtype)}(0)"
    name, stop = out.names.of(indices[last]), out.expressions.index(dst.extents[last])
    with out.nest(heads[:-1]):
        begin, end = clipped.get(last, ("0", stop))
        if inside:
            out.line(f"const bool inside = {' && '.join(inside)};")
            begin, end = f"(inside ? {begin} : {stop})", f"(inside ? {end} : {stop})"
        out.line(f"{INDEX} {name} = 0;")
        out.line(f"for (; {name} < {begin}; ++{name}) {target} = {zero};")
        value = f"{' && '.join(tests)} ? {source} : {zero}" if tests else source
        out.line(f"for (; {name} < {end}; ++{name}) {target} = {value};")
        out.line(f"for (; {name} < {stop}; ++{name}) {target} = {zero};")


def _shifted(view: ir.View, mapped: ir.Expr) -> tuple[int | None, ir.Expr]:
    """(d, rest) when `mapped` is `coords[d] + rest` with no other coordinate in `rest`."""
    for position, coord in enumerate(view.coords):
        rest = integers.sub(mapped, coord)
        if not any(isinstance(node, ir.Var) and node in view.coords for node in walk(rest)):
            return position, rest
    return None, mapped
