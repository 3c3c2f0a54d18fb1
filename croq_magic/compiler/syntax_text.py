"""The syntax tree as text: what `--emit syntax` shows and tests compare.

Statements and declarations take a line each, with their position; expressions are written as expressions, with all
parentheses, so that precedence can be seen: `output.at((p # m), 0) += ((a * b) + c)`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import fields
from typing import Any

from croq_magic.compiler import syntax as s


def dump(node: s.Node | s.Program, indent: int = 0) -> str:
    """The tree below `node`, one construct a line. Fields that are absent are left out."""
    if isinstance(node, s.Program):
        return "\n".join(dump(function, indent) for function in node.functions)
    return "\n".join(_lines(node, "  " * indent))


def _lines(node: s.Node, pad: str) -> Iterator[str]:
    inline, below = [], []
    for field in fields(node):
        value = getattr(node, field.name)
        if field.name == "span" or value is None or value is False or value == ():
            continue
        if _has_lines(value):
            below.append((field.name, value))
        elif value is True:
            inline.append(field.name)
        else:
            inline.append(f"{field.name}={_text(value)}")
    yield f"{pad}{' '.join([type(node).__name__, *inline])}  @{node.span.line}:{node.span.column}"
    for name, value in below:
        parts = value if isinstance(value, tuple) else (value,)
        if name != "body" or not isinstance(value, s.Node | tuple):
            yield f"{pad}  {name}:"
            yield from (line for part in parts for line in _lines(part, pad + "    "))
        else:
            yield from (line for part in parts for line in _lines(part, pad + "  "))


def _has_lines(value: Any) -> bool:
    """Whether a field is shown below its node rather than behind its name."""
    if isinstance(value, tuple):
        return any(_has_lines(item) for item in value)
    structured = s.Stmt | s.AxisGroup | s.Param | s.Binding | s.BufferItem | s.ScalarItem | s.EventItem | s.Range
    return isinstance(value, structured)


def _text(value: Any) -> str:
    if isinstance(value, tuple):
        return f"({_list(value)})"
    if isinstance(value, s.Expr):
        return expression(value)
    if isinstance(value, str):
        return value if value.isidentifier() else repr(value)
    return _node(value) if isinstance(value, s.Node) else str(value)


def _list(items: Iterable[Any]) -> str:
    return ", ".join(map(_text, items))


def _args(items: tuple[s.Expr, ...], strides: tuple[s.Expr, ...] | None = None) -> str:
    return f"({_list(items)} : {_list(strides)})" if strides else f"({_list(items)})"


def _node(node: s.Node) -> str:
    """A part of a statement that is not an expression."""
    match node:
        case s.Name(text=text) | s.QName(text=text):
            return text
        case s.ElemType(name=name):
            return name
        case s.StorageWord(word=word) | s.Level(word=word):
            return word
        case s.ParamType(word=word, shape=shape):
            return f"{word} {_node(shape)}" if shape else word
        case s.ParamShape(dims=dims):
            return f"[{_list(dims)}]"
        case s.ParamDim(kind=kind, symbol=symbol, value=value):
            return symbol or (expression(value) if value else {"any": "?", "unbounded": "??"}[kind])
        case s.Tie(left=left, right=right):
            return f"{left} <-> {right}"
        case s.Attribute(name=name, args=args) | s.Modifier(name=name, args=args):
            return f"{name}{_text(args)}" if args else str(name)
        case s.Waitable(name=name, subscripts=subscripts, at=at):
            return f"{name}{_subscripts(subscripts)}" + (f".at({expression(at)})" if at else "")
        case s.ViewOp():
            return _view_op(node)
        case _:
            parts = [
                f"{field.name}={_text(value)}"
                for field in fields(node)
                if field.name != "span" and (value := getattr(node, field.name)) not in (None, ())
            ]
            return f"{type(node).__name__}({', '.join(parts)})"


def expression(node: s.Expr) -> str:
    """An expression with all its parentheses."""
    match node:
        case s.NameRef(text=text):
            return text
        case s.IntLit(value=value, type=kind):
            return str(value) if kind == "int" else f"{value}:{kind}"
        case s.FloatLit(value=value, is_f32=is_f32):
            return f"{value!r}f" if is_f32 else repr(value)
        case s.BoolLit(value=value):
            return "true" if value else "false"
        case s.StringLit(value=value):
            return repr(value)
        case s.InfLit():
            return "inf"
        case s.NullPtr():
            return "nullptr"
        case s.Wildcard():
            return "_"
        case s.Paren(inner=inner):
            return expression(inner)
        case s.Binary(op=op, left=left, right=right):
            return f"({expression(left)} {op} {expression(right)})"
        case s.Unary(op=op, operand=operand):
            return f"({op}{expression(operand)})"
        case s.Postfix(op=op, operand=operand):
            return f"({expression(operand)}{op})"
        case s.Ternary(condition=condition, then=then, other=other):
            return f"({expression(condition)} ? {expression(then)} : {expression(other)})"
        case s.TupleLit(items=items):
            return f"{{{_list(items)}}}"
        case s.ShapeLit(items=items):
            return f"[{_list(items)}]"
        case s.DimRef(index=index):
            return f"({index})"
        case s.Derivation(base=base, items=items, kind=kind):
            return (
                f"{expression(base)}[{_list(items)}]" if kind == "shape" else f"{expression(base)} {{{_list(items)}}}"
            )
        case s.Extent(name=name):
            return f"#{name}"
        case s.Count(operand=operand):
            return f"|{expression(operand)}|"
        case s.SizeOf(type=kind):
            return f"|{kind.name}|"
        case s.TypeArg(type=kind):
            return kind.name
        case s.Cast(type=kind, operand=operand):
            return f"__to<{_text(kind)}>({expression(operand)})"
        case s.AddressOf(operand=operand):
            return f"&{expression(operand)}"
        case _:
            return _reference(node)


def _reference(node: s.Expr) -> str:
    """Names with what follows them, and calls."""
    match node:
        case s.BufferRef(name=name, subscripts=subscripts, data=data):
            return f"{name}{_subscripts(subscripts)}" + (f".{data}" if data else "")
        case s.SpanOf(base=base):
            return f"{expression(base)}.span"
        case s.ElemRef(base=base, index=index):
            return f"{expression(base)}.at{_args(index)}"
        case s.Pick(base=base, index=index):
            return f"{expression(base)}({expression(index)})"
        case s.View(base=base, ops=ops):
            return expression(base) + "".join(map(_view_op, ops))
        case s.Builtin(name=name, args=args) | s.AtomicCall(name=name, args=args) | s.BarrierCall(name=name, args=args):
            return f"{name}{_args(args)}"
        case s.CallExpr(callee=callee, template_args=template, args=args):
            return f"call {callee.text}" + (f"<{_list(template)}>" if template else "") + _args(args)
        case s.IntrinsicCall(callee=callee, args=args):
            return f"{callee.text}{_args(args)}"
        case s.NameArg(name=name):
            return name.text
        case s.Select(selector=selector, choices=choices):
            return f"select{_args((selector, *choices))}"
        case _:
            return type(node).__name__


def _subscripts(items: tuple[s.Expr, ...]) -> str:
    return "".join(f"[{expression(item)}]" for item in items)


def _view_op(op: s.ViewOp) -> str:
    match op:
        case s.ChunkAt(items=items):
            return f".chunkat{_args(items)}"
        case s.Chunk(counts=counts, at=at):
            return f".chunk{_args(counts)}.at{_args(at)}"
        case s.Subspan(kind=kind, extents=extents, strides=strides, step=step, at=at):
            more = (f".step{_args(step)}" if step else "") + (f".at{_args(at)}" if at else "")
            return f".{kind}{_args(extents, strides)}{more}"
        case s.Window(extents=extents, strides=strides, origin=origin):
            return f".view{_args(extents, strides)}" + (f".from{_args(origin)}" if origin else "")
        case s.SpanAs(items=items):
            return f".span_as{_args(items)}"
        case s.Squeeze():
            return ".sqz()"
        case _:
            return ".zfill"
