"""Which shared and global storage a statement touches, how, and by whom.

Aliasing is judged by buffer: distinct buffers never overlap (parameters may alias only where nothing is written), and
slots with different constant subscripts are apart. Local storage is private and does not appear.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Iterable, Iterator, Sequence

from croq_magic.compiler import integers, ir
from croq_magic.compiler.visit import walk


class Mode(enum.Enum):
    READ = "read"
    WRITE = "write"
    ATOMIC = "atomic"


class Who(enum.Enum):
    """Which threads perform an access of a statement that runs once per unit (language reference, execution model,
    section 3).

    ELECTED: one thread of the unit. EVERY: all of them, each the whole access. UNIT: all together, each a part.
    BLOCK: all threads of the block together. INNER: the instances of an inner region, or of a region of threads.
    """

    ELECTED = "elected"
    EVERY = "every"
    UNIT = "unit"
    BLOCK = "block"
    INNER = "inner"


@dataclasses.dataclass(frozen=True)
class Access:
    """One touch of a buffer. `slot` holds constant subscripts, None where one is not constant.

    `ordered` says that a barrier of the unit (not of the block) stands between this access and the point of view,
    `waited` that the wait for an event does. `handle` names the variable that is the only subscript, as it is at the
    point of view; "" where that is not known.
    """

    buffer: ir.Buffer
    slot: tuple[int, ...] | None
    mode: Mode
    who: Who
    ordered: bool = False
    waited: bool = False
    handle: str = ""

    def overlaps(self, other: Access) -> bool:
        """Whether the two may touch the same element."""
        if self.buffer is not other.buffer:
            return False
        return self.slot is None or other.slot is None or self.slot == other.slot

    def conflicts(self, other: Access) -> bool:
        """Whether their order matters: one element, at least one write, not both atomic."""
        if self.mode is other.mode and self.mode is not Mode.WRITE:
            return False
        return self.overlaps(other)


_COMMON = (ir.Storage.SHARED, ir.Storage.GLOBAL)


def of_view(view: ir.View, mode: Mode, who: Who) -> Iterator[Access]:
    if view.buffer.storage in _COMMON:
        slots = tuple(integers.value(s) for s in view.slot)
        known = tuple(s for s in slots if s is not None)
        only = view.slot[0] if len(view.slot) == 1 else None
        handle = only.name if isinstance(only, ir.Var) else ""
        yield Access(view.buffer, known if len(known) == len(slots) else None, mode, who, handle=handle)


def loads(nodes: Iterable[object], who: Who) -> Iterator[Access]:
    """Reads of elements in expressions."""
    for node in walk(tuple(nodes)):
        if isinstance(node, ir.Load):
            yield from of_view(node.view, Mode.READ, who)


def of_statement(s: ir.Stmt) -> tuple[Access, ...]:
    """Accesses of a statement without the statements inside it (their conditions and bounds included)."""
    return tuple(dict.fromkeys(_accesses(s)))


def written_buffers(nodes: Sequence[ir.Node]) -> set[ir.Buffer]:
    """Buffers that nodes may write; all of them where C++ text or assembly may."""
    if any(isinstance(n, (ir.CxxText, ir.Asm)) for n in nodes):
        return {n for n in nodes if isinstance(n, ir.Buffer)}
    return {a.buffer for n in nodes if isinstance(n, ir.Stmt) for a in of_statement(n) if a.mode is not Mode.READ}


def _accesses(s: ir.Stmt) -> Iterator[Access]:
    match s:
        case ir.Declare(init=init) if init is not None:
            yield from of_view(_anywhere(s.buffer), Mode.WRITE, Who.BLOCK)
            yield from loads((init,), Who.EVERY)
        case ir.Let() | ir.Assign():
            yield from loads((s.value,), Who.EVERY)
        case ir.Assert():
            yield from loads((s.condition, *s.values), Who.EVERY)
        case ir.If() | ir.While():
            yield from loads((s.condition,), Who.EVERY)
        case ir.Masked():
            yield from loads((s.predicate,), Who.EVERY)
        case ir.For():
            yield from loads((s.start, s.stop), Who.EVERY)
        case ir.Region():
            yield from loads(s.extents, Who.EVERY)
        case ir.Store():
            who = Who.ELECTED if s.view.buffer.storage in _COMMON else Who.EVERY
            yield from loads((*s.index, s.value), who)
            if s.op:
                yield from of_view(s.view, Mode.READ, who)
            yield from of_view(s.view, Mode.WRITE, who)
        case ir.Atomic():
            yield from loads((*s.index, s.value, s.expected), Who.ELECTED)
            yield from of_view(s.view, Mode.ATOMIC, Who.ELECTED)
        case ir.SpanOp():
            yield from _span_operation(s)
        case ir.Copy():
            who = _copier(s)
            yield from of_view(s.src, Mode.READ, who)
            yield from of_view(s.dst, Mode.WRITE, who)
        case ir.Print():
            yield from loads(s.args, Who.ELECTED)
        case ir.Call():
            yield from _call(s)
        case _:
            yield from _fragment_statement(s)


def _span_operation(s: ir.SpanOp) -> Iterator[Access]:
    who = Who.BLOCK if s.view.buffer.storage in _COMMON else Who.EVERY
    if isinstance(s.value, ir.View):
        yield from of_view(s.value, Mode.READ, who)
    else:
        yield from loads((s.value,), who)
    if s.op:
        yield from of_view(s.view, Mode.READ, who)
    yield from of_view(s.view, Mode.WRITE, who)


def _call(s: ir.Call) -> Iterator[Access]:
    """A foreign function may read and write whatever it gets a pointer to."""
    for arg in s.args:
        if isinstance(arg, (ir.View, ir.AddressOf)):
            view = arg if isinstance(arg, ir.View) else arg.view
            yield from of_view(view, Mode.READ, Who.ELECTED)
            yield from of_view(view, Mode.WRITE, Who.ELECTED)
        else:
            yield from loads((arg,), Who.ELECTED)


def _fragment_statement(s: ir.Stmt) -> Iterator[Access]:
    """Tensor-core statements read and write views as a unit."""
    match s:
        case ir.MmaStore():
            yield from of_view(s.view, Mode.WRITE, Who.UNIT)
        case ir.MmaLoad():
            yield from of_view(s.view, Mode.READ, Who.UNIT)
        case ir.Mma():
            operands = (s.a, s.b) if s.scales is None else (s.a, s.b, s.scales[0])
            for operand in operands:
                if isinstance(operand, ir.View):
                    yield from of_view(operand, Mode.READ, Who.UNIT)
        case ir.MmaScale():
            yield from of_view(s.row_scale, Mode.READ, Who.UNIT)
        case ir.FragmentStore():
            yield from loads((s.value,), Who.EVERY)
        case ir.Apply() | ir.DeclareFragment() | ir.MmaFill() | ir.FragmentOp():
            yield from loads((s.init if isinstance(s, ir.DeclareFragment) else getattr(s, "value", None),), Who.EVERY)
        case _:
            pass


def _copier(s: ir.Copy) -> Who:
    """Who performs a copy: a block together, unless one side is private (section 6.3)."""
    if s.dst.buffer.storage not in _COMMON:
        return Who.EVERY
    return Who.BLOCK if s.src.buffer.storage in _COMMON else Who.ELECTED


def _anywhere(buffer: ir.Buffer) -> ir.View:
    """Stands for all slots of a buffer."""
    slot = tuple(ir.Var("any") for _ in buffer.slots)
    return ir.View(buffer, (), (), integers.ZERO, buffer.shape, slot)
