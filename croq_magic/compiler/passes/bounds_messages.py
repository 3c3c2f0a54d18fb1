"""What `prove-bounds` says of an access that leaves its array."""

from __future__ import annotations

from collections.abc import Mapping

from croq_magic.compiler import integers, ir
from croq_magic.compiler.diagnostics import Note, Report
from croq_magic.compiler.proofs import Verdict
from croq_magic.compiler.source import Span
from croq_magic.compiler.text import format_expr
from croq_magic.compiler.visit import substitute, walk


def element(
    report: Report, span: Span | None, view: ir.View, index: tuple[ir.Expr, ...], dimension: int, verdict: Verdict
) -> None:
    """VEW12: an element index out of range."""
    if span is None:
        return
    shown = index_text(span, view, index, dimension)
    message = f"{_takes('index', shown, verdict)}, valid range is [0, {extent_text(view.extents[dimension])})"
    notes = [*_where(verdict), Note(f"this is dimension {dimension} of `{view.buffer.name}`", view.buffer.span)]
    report.error("VEW12", message, span, notes=notes)


def base_element(report: Report, span: Span | None, view: ir.View, dimension: int, verdict: Verdict) -> None:
    """VEW12: an element of a window that lies outside the buffer."""
    if span is None:
        return
    shape = extent_text(view.buffer.shape[dimension])
    at = "" if verdict.reached is None else f" {verdict.reached}"
    one, many = _nouns(view.buffer.shape, dimension)
    message = f"this element is {one}{at} of `{view.buffer.name}`, which has {shape} {many}"
    report.error("VEW12", message, span, notes=_where(verdict))


def window(report: Report, span: Span | None, view: ir.View, dimension: int, verdict: Verdict) -> None:
    """VEW07: a window that leaves its buffer."""
    if span is None:
        return
    shape = extent_text(view.buffer.shape[dimension])
    name = view.buffer.name
    _, many = _nouns(view.buffer.shape, dimension)
    covered = _covered(view, dimension, verdict.witness)
    what = f"{many} {covered[0]}..{covered[1]} leave" if covered else "the window leaves"
    message = f"{what} the span of {shape} {many}"
    coordinates = {c.name for c in view.coords}
    outer = Verdict(verdict.outcome, None, {n: v for n, v in verdict.witness.items() if n not in coordinates})
    notes = [*_where(outer), Note(f"the span is `{name}`", view.buffer.span)]
    report.error("VEW07", message, span, hint="shrink the window or add `.zfill`", notes=notes)


def subscript(report: Report, span: Span | None, view: ir.View, index: ir.Expr, count: int, verdict: Verdict) -> None:
    """VEW13: a subscript of a buffer array out of range."""
    if span is None:
        return
    if integers.value(index) is not None:
        what = f"subscript {format_expr(index)} of `{view.buffer.name}`"
    else:
        reached = "is always outside" if verdict.reached is None else f"reaches {verdict.reached}"
        what = f"subscript `{format_expr(index)}` of `{view.buffer.name}` {reached}"
    report.error("VEW13", f"{what}, valid range is [0, {count})", span, notes=_where(verdict))


_COMPILE_TIME = {"RTA05": "VEW12", "RTA07": "DMA14"}


def assertion(
    report: Report, span: Span | None, check: ir.Assert, ranged: tuple[ir.Expr, ir.Expr], verdict: Verdict
) -> None:
    """A range check that the program inserts and that fails for sure: the code of the compile-time error."""
    if span is None:
        return
    index, _ = ranged
    head, comma, rest = check.message.partition(", valid range")
    reached = " is always outside" if verdict.reached is None else f" reaches {verdict.reached}"
    if integers.value(index) is not None:
        reached = ""
    message = f"{head}{reached}{comma}{rest}"
    report.error(_COMPILE_TIME.get(check.code, check.code), message, span, notes=_where(verdict))


def extent_text(extent: ir.Expr) -> str:
    return format_expr(integers.simplify(extent))


def index_text(span: Span | None, view: ir.View, index: tuple[ir.Expr, ...], dimension: int) -> str:
    """An index as the program writes it, where the text of the access tells."""
    written = _arguments(span.source.text[span.start : span.end]) if span is not None else []
    if len(written) == view.rank:
        return written[dimension]
    return format_expr(integers.simplify(index[dimension]))


def _arguments(text: str) -> list[str]:
    """The arguments of the first `.at(...)` of a text."""
    start = text.find(".at(")
    if start < 0:
        return []
    depth, begin = 0, start + 4
    found: list[str] = []
    for position in range(begin, len(text)):
        char = text[position]
        if char in "([{":
            depth += 1
        elif char in ")]}" and depth:
            depth -= 1
        elif char == ")" or (char == "," and not depth):
            found.append(text[begin:position].strip())
            begin = position + 1
            if char == ")":
                return found
    return []


def _takes(what: str, shown: str, verdict: Verdict) -> str:
    if verdict.reached is None:
        return f"{what} `{shown}` is always outside"
    if shown.lstrip("-").isdigit():
        return f"{what} {shown}"
    return f"{what} `{shown}` reaches {verdict.reached}"


def _where(verdict: Verdict) -> list[Note]:
    if not verdict.witness:
        return []
    return [Note("at " + ", ".join(f"{name} = {value}" for name, value in verdict.witness.items()))]


def _nouns(shape: tuple[ir.Expr, ...], dimension: int) -> tuple[str, str]:
    """What an index of a dimension counts: one, many."""
    if len(shape) <= 2 and dimension == 0:
        return ("row", "rows") if len(shape) == 2 else ("element", "elements")
    if len(shape) == 2:
        return "column", "columns"
    return f"index (of dimension {dimension})", f"indices (of dimension {dimension})"


def _covered(view: ir.View, dimension: int, witness: Mapping[str, int]) -> tuple[int, int] | None:
    """First and last coordinate in one dimension that a window covers at the witness."""
    e = view.map[dimension]
    coordinates = {c.name for c in view.coords}
    values: dict[ir.Var, ir.Expr] = {
        node: integers.constant(witness[node.name])
        for node in walk(e)
        if isinstance(node, ir.Var) and node.name in witness and node.name not in coordinates
    }
    low, high = integers.interval(substitute(e, values))
    return None if low is None or high is None else (low, high)
