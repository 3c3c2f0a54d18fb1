"""The inferred type of every name of a program, as text (`croqtile -i`, `-ii`).

One line a name, in the order of the text, under the function it belongs to:

    f32 [M, K] lhs ...
      4:12  tile   future of shared f32 [16, 16]        with -ii: strides (16, 1)
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from croq_magic.compiler import ir, syntax
from croq_magic.compiler.check import values as v
from croq_magic.compiler.check.context import Symbol
from croq_magic.compiler.describe import signature
from croq_magic.compiler.text import format_expr
from croq_magic.compiler.views import strides


def text(
    trees: Sequence[syntax.Function], functions: dict[str, ir.Function], symbols: Iterable[Symbol], detail: bool
) -> str:
    """All names of all functions; `detail` adds storage, strides and what is known of values."""
    last = {symbol.span: symbol for symbol in symbols}  # a function may be checked twice: the second time knows more
    ordered = sorted(last.values(), key=lambda symbol: symbol.span.start)
    parts = []
    for tree in trees:
        function = next((f for f in functions.values() if f.span == tree.span), None)
        head = signature(function).text if function is not None else tree.name.text
        rows = [
            (f"{s.span.line}:{s.span.column}", s.name, *_described(s.value, detail))
            for s in ordered
            if s.span in tree.span and s.name != "_" and not isinstance(s.value, v.Poison)
        ]
        widths = [max((len(row[column]) for row in rows), default=0) for column in range(3)]
        lines = [
            "  " + "  ".join([*(f"{cell:{w}}" for cell, w in zip(row, widths, strict=False)), row[3]]).rstrip()
            for row in rows
        ]
        parts.append("\n".join([head, *lines]))
    return "\n\n".join(parts)


def _described(value: v.Value, detail: bool) -> tuple[str, str]:
    """The type, and (with `detail`) what else is known."""
    kind, more = _type(value), ""
    if detail:
        view = value.view if isinstance(value, v.SpanValue) else None
        if isinstance(value, v.FutureValue):
            view = value.bound
        if view is not None:
            more = _layout(view)
        elif isinstance(value, v.Bounded) and value.driver is not None:
            more = "index of a `parallel`" if value.driver.parallel else "iterated by loops"
        elif isinstance(value, v.Scalar) and isinstance(value.expr, ir.Const):
            more = f"= {format_expr(value.expr)}"
    return kind, more


def _type(value: v.Value) -> str:
    match value:
        case v.Scalar(var=var):
            mutable = var is not None and var.role is ir.Role.MUTABLE
            return ("mutable " if mutable else "") + value.describe()
        case v.Bounded(extent=extent):
            return f"int in 0..{format_expr(extent, 100)}"
        case v.BoundedTuple(items=items):
            return f"ituple<{len(items)}> in [{_list(item.extent for item in items)}]"
        case v.ITuple(items=items):
            return f"ituple<{len(items)}> {{{_list(items)}}}"
        case v.Shape(extents=extents):
            return f"mdspan<{len(extents)}> [{_list(extents)}]"
        case v.SpanValue():
            return value.type_text()
        case v.ArrayValue(buffer=buffer):
            return _buffer(buffer)
        case v.FutureValue(bound=None):
            return "future, bound to no transfer"
        case v.FutureValue():
            exchanged = " (exchanged)" if value.exchanged else ""
            return f"future of {value.data().type_text()}{exchanged}"
        case v.FragmentValue(dtype=dtype, shape=shape, fragment=fragment):
            slots = "".join(f"[{slot}]" for slot in fragment.slots)
            return f"frag {dtype or '?'} [{_list(shape) if shape is not None else '?'}]{slots}"
        case v.OperationValue(accumulator=accumulator):
            return f"future of the multiplication into {accumulator}"
        case v.EventValue(event=event):
            return f"{event.storage.value} event" + "".join(f"[{slot}]" for slot in event.slots)
        case _:
            return value.kind.removeprefix("a ").removeprefix("an ")


def _buffer(buffer: ir.Buffer) -> str:
    storage = "" if buffer.storage is ir.Storage.GLOBAL else f"{buffer.storage.value} "
    return f"{storage}{buffer.dtype} [{_list(buffer.shape)}]" + "".join(f"[{slot}]" for slot in buffer.slots)


def _layout(view: ir.View) -> str:
    steps = strides(view)
    parts = ["strides none (not affine)" if steps is None else f"strides ({_list(steps)})"]
    parts.append("contiguous" if view.contiguous else "not contiguous")
    parts.append(f"in {view.buffer.storage.value} {view.buffer.name}")
    if view.buffer.layout:
        parts.append(f"swizzle {view.buffer.layout}")
    return ", ".join(parts)


def _list(items: Iterable[ir.Expr]) -> str:
    return ", ".join(map(format_expr, items))
