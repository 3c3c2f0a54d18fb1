"""Storage against what there is: the shared memory of a block (STO06), and sizes that no target has (STO12)."""

from __future__ import annotations

import dataclasses
import math

from croq_magic.compiler import integers, ir
from croq_magic.compiler.limits import MAX_LOCAL_BYTES, MAX_SHARED_BYTES, MAX_SPAN_BYTES
from croq_magic.compiler.passes.base import Context
from croq_magic.compiler.passes.place_shared import ALIGNMENT
from croq_magic.compiler.source import Span
from croq_magic.compiler.text import format_expr
from croq_magic.compiler.types import BOOL
from croq_magic.compiler.visit import walk

_MOST = {
    ir.Storage.GLOBAL: MAX_SPAN_BYTES,
    ir.Storage.SHARED: MAX_SHARED_BYTES,
    ir.Storage.LOCAL: MAX_LOCAL_BYTES,
    ir.Storage.REGISTER: MAX_LOCAL_BYTES,
}
_EVENT_BYTES = 8
_Sizes = list[tuple[int, str, Span | None]]  # bytes, name, place


@dataclasses.dataclass(frozen=True)
class CheckStorage:
    """Buffers whose uses do not overlap may share memory later; here every declaration counts, as the program asks."""

    name: str = "check-storage"

    def __call__(self, function: ir.Function, context: Context) -> ir.Function:
        sizes: dict[ir.Storage, _Sizes] = {storage: [] for storage in ir.Storage}
        for param in function.params:
            if param.buffer is not None:
                _add(sizes, param.buffer, param.span)
        for node in walk(function.body):
            if isinstance(node, ir.Declare):
                _add(sizes, node.buffer, node.span)
            elif isinstance(node, ir.DeclareFragment):
                size = _bytes(node.fragment.dtype.size, node.fragment.shape, node.fragment.slots)
                sizes[ir.Storage.LOCAL].append((size, node.fragment.name, node.span))
        for storage, found in sizes.items():
            # Spans are objects of their own; the storage of a block or an instance is one piece.
            total = sum(size for size, *_ in found) if storage is not ir.Storage.GLOBAL else 0
            if found and max(total, *(size for size, *_ in found), 0) > _MOST[storage]:
                _too_large(found, storage, total, function, context)
                return function
        checks: list[ir.Assert] = []
        for launch in function.launches():
            _check_block(launch.kernel, context)
            checks += _symbolic(launch.kernel, context)
        return dataclasses.replace(function, checks=(*function.checks, *checks)) if checks else function


def _add(sizes: dict[ir.Storage, _Sizes], buffer: ir.Buffer, span: Span | None) -> None:
    sizes[buffer.storage].append((buffer_bytes(buffer), buffer.name, span or buffer.span))


def _too_large(found: _Sizes, storage: ir.Storage, total: int, function: ir.Function, context: Context) -> None:
    size, name, span = max(found, key=lambda item: item[0])
    span = span or function.span
    if span is None:
        return
    if size > _MOST[storage]:
        message = f"`{name}` has {size} bytes; `{storage.value}` storage has at most {_MOST[storage]}"
    else:
        message = f"{total} bytes of `{storage.value}` storage are declared, at most {_MOST[storage]} can be. "
        message += f"largest: `{name}`"
    context.report.error("STO12", message, span)


def _check_block(kernel: ir.Kernel, context: Context) -> None:
    declared = [node for node in walk(kernel.region) if isinstance(node, ir.Declare)]
    sizes = [(buffer_bytes(s.buffer), s) for s in declared if s.buffer.storage is ir.Storage.SHARED]
    events = [node.event for node in walk(kernel.region) if isinstance(node, ir.DeclareEvent)]
    total = sum(size for size, _ in sizes)
    beside = sum(_EVENT_BYTES * math.prod(e.slots) for e in events if e.storage is ir.Storage.SHARED)
    total += -(-beside // ALIGNMENT) * ALIGNMENT  # buffers begin behind them
    limits = context.limits
    if not sizes or total <= limits.shared_bytes:
        return
    largest = max(sizes, key=lambda item: item[0])[1]
    span = largest.span or kernel.region.span
    if span is None:
        return
    name = limits.name if limits.gpu else "a GPU of sm_86"
    message = f"block needs {total} bytes of shared memory, {name} offers {limits.shared_bytes}. "
    report = context.report.error if limits.gpu else context.report.warning
    report("STO06", message + f"largest: `{largest.buffer.name}`", span, hint="use smaller tiles")


def _symbolic(kernel: ir.Kernel, context: Context) -> list[ir.Assert]:
    """Shared storage whose extents are known when the launch starts: what a block needs in all, as an entry check.
    Extents that follow from anything inside the launch are an error (DYN05)."""
    declared = [n for n in walk(kernel.region) if isinstance(n, ir.Declare) and n.buffer.storage is ir.Storage.SHARED]
    symbolic = [s for s in declared if any(integers.value(e) is None for e in s.buffer.shape)]
    if not symbolic:
        return []
    inside = _defined(kernel.region)
    for s in symbolic:
        for extent in s.buffer.shape:
            late = next((n for n in walk(extent) if isinstance(n, ir.Var) and n.name in inside), None)
            if late is not None and s.span is not None:
                message = f"`shared` buffers need extents known at launch, found `{format_expr(extent)}`"
                context.report.error("DYN05", message, s.span, hint=f"`{late.name}` has its value inside the launch")
                return []
    total: ir.Expr = integers.ZERO
    for s in declared:
        factors = map(integers.constant, (*s.buffer.slots, s.buffer.dtype.size))
        total = integers.add(total, integers.product((*s.buffer.shape, *factors)))
    known = (ir.Role.DIM, ir.Role.PARAM)
    if any(isinstance(n, ir.Var) and n.role not in known for n in walk(total)):
        return []  # a value of the host part: the storage itself is refused while running
    names = ", ".join(f"`{s.buffer.name}`" for s in symbolic[:3])
    message = f"a block needs {format_expr(total)} bytes of shared memory, at most {MAX_SHARED_BYTES} can be ({names})"
    fits = ir.Binary("<=", total, integers.constant(MAX_SHARED_BYTES), BOOL)
    return [ir.Assert(fits, message, "STO12", (total,), span=symbolic[0].span)]


def _defined(region: ir.Region) -> set[str]:
    """Names of the variables that get their values inside a region."""
    names: set[str] = set()
    for node in walk(region):
        if isinstance(node, ir.Region):
            names |= {var.name for var in node.indices}
        elif isinstance(node, (ir.Let, ir.For, ir.Assign)):
            names.add(node.var.name)
        elif isinstance(node, (ir.Atomic, ir.Call)) and node.result is not None:
            names.add(node.result.name)
    return names


def buffer_bytes(buffer: ir.Buffer) -> int:
    """Bytes of a buffer with all its slots; 0 for symbolic extents."""
    return _bytes(buffer.dtype.size, buffer.shape, buffer.slots)


def _bytes(element: int, shape: tuple[ir.Expr, ...], slots: tuple[int, ...]) -> int:
    size = element
    for extent in (*(integers.value(e) for e in shape), *slots):
        if extent is None:
            return 0
        size *= extent
    return size
