"""What expressions of the language evaluate to while a function is checked.

A value pairs what the language knows (kind, element type, extent, mutability) with IR: a scalar's expression, a span's
view. `describe` is the word messages use for it.
"""

from __future__ import annotations

import dataclasses

from croq_magic.compiler import integers, ir
from croq_magic.compiler.source import Span
from croq_magic.compiler.types import BOOL, S32, DType


class Value:
    """Base of all values."""

    kind = "a value"

    def describe(self) -> str:
        return self.kind


@dataclasses.dataclass(frozen=True)
class Poison(Value):
    """The value of a name whose definition was wrong; using it draws no second message."""


@dataclasses.dataclass(frozen=True)
class Scalar(Value):
    """One number. `type` is its type in the language; 16-bit floats are carried as f32 in `expr` until they are stored.

    `narrow` is the type before promotion (s16 for the sum of two s16). `element` says that an element scalar took part,
    so a name inferred from it is mutable. `var` is set when the value is an assignable variable.
    """

    expr: ir.Expr
    type: DType
    narrow: DType | None = None
    element: bool = False
    var: ir.Var | None = None
    depth: int = 0

    def describe(self) -> str:
        return "bool" if self.type is BOOL else self.type.name


@dataclasses.dataclass(frozen=True)
class Driver:
    """What gives a bounded variable its value: a region index or the loops that iterate a `with` variable."""

    name: str
    parallel: bool
    depth: int
    span: Span


@dataclasses.dataclass(frozen=True)
class Bounded(Value):
    """A bounded integer: its current value and its extent."""

    value: ir.Expr
    extent: ir.Expr
    driver: Driver | None = None
    depth: int = 0

    def describe(self) -> str:
        return "a bounded integer"

    def scalar(self) -> Scalar:
        return Scalar(self.value, S32)


@dataclasses.dataclass(frozen=True)
class BoundedTuple(Value):
    items: tuple[Bounded, ...]
    kind = "a bounded ituple"


@dataclasses.dataclass(frozen=True)
class ITuple(Value):
    items: tuple[ir.Expr, ...]
    kind = "an ituple"


@dataclasses.dataclass(frozen=True)
class Shape(Value):
    extents: tuple[ir.Expr, ...]
    kind = "a shape"


@dataclasses.dataclass(frozen=True)
class SpanValue(Value):
    """Spanned data: a declared span, a parameter, or a view of one. `depth` counts the regions around the storage's
    declaration, `chain` says that it is a view rather than all of its buffer."""

    view: ir.View
    depth: int = 0
    chain: bool = False
    kind = "a span"

    @property
    def storage(self) -> ir.Storage:
        return self.view.buffer.storage

    @property
    def dtype(self) -> DType:
        return self.view.buffer.dtype

    def type_text(self) -> str:
        from croq_magic.compiler.text import format_expr

        storage = "" if self.storage is ir.Storage.GLOBAL else self.storage.value + " "
        return f"{storage}{self.dtype} [{', '.join(map(format_expr, self.view.extents))}]"


@dataclasses.dataclass(frozen=True)
class ChoiceValue(Value):
    """What `select` chooses from different buffers while running: spans of one type, by index."""

    index: ir.Expr
    spans: tuple[SpanValue, ...]
    kind = "a choice of spans in different buffers"


@dataclasses.dataclass(frozen=True)
class ArrayValue(Value):
    """A buffer array without subscripts."""

    buffer: ir.Buffer
    depth: int = 0
    kind = "a buffer array"


@dataclasses.dataclass
class FutureValue(Value):
    """Result of a transfer, or a placeholder for one (`dma.any`), which has no `bound` view at first.

    `waited` is where a `wait` stands, `token` marks an asynchronous transfer. `exchanged`: what the name denotes
    changes while running (placeholders, `swap`), so waiting is not followed statically. `place` is where a placeholder
    stands: the statements around it and a position among them. `positions`: those of values compressed into a buffer
    of the program (of others `Checker.compressed` knows them). `only_if` is the condition that its one `wait` stands
    under.
    """

    bound: ir.View | None
    token: ir.Token | None
    span: Span
    depth: int = 0
    waited: Span | None = None
    exchanged: bool = False
    is_async: bool | None = None
    place: tuple[list[ir.Stmt], int] | None = None
    engine: str = "dma"
    positions: ir.View | None = None
    only_if: Span | None = None
    kind = "a future"

    @property
    def view(self) -> ir.View:
        assert self.bound is not None, "uses of an unbound placeholder are reported before"
        return self.bound

    def emit_at_place(self, statement: ir.Stmt) -> None:
        """Puts a statement where the placeholder stands."""
        assert self.place is not None
        statements, position = self.place
        statements.insert(position, statement)
        self.place = (statements, position + 1)

    def data(self) -> SpanValue:
        return SpanValue(self.view, self.depth)


@dataclasses.dataclass
class FragmentValue(Value):
    """A fragment. `dtype` and `shape` are None until a use settles them; the flags say what it has been used for."""

    fragment: ir.Fragment
    dtype: DType | None
    shape: tuple[ir.Expr, ...] | None
    span: Span
    depth: int = 0
    accumulator: bool = False
    loaded: bool = False
    operand: bool = False
    replicated: bool = False
    key: tuple[int, str] = (0, "")  # its declaration: place and name
    source: ir.View | None = None  # what it was loaded from
    poisoned: bool = False  # what would say more about it is wrong, and has been reported
    kind = "a fragment"


@dataclasses.dataclass
class OperationValue(Value):
    """The future of an asynchronous multiplication: completion only."""

    token: ir.Token
    span: Span
    accumulator: str
    waited: Span | None = None
    only_if: Span | None = None
    kind = "the future of an MMA"


@dataclasses.dataclass
class EventValue(Value):
    """An event or an event array; `triggered` and `waited` are where it is used so."""

    event: ir.Event
    span: Span
    depth: int = 0
    triggered: Span | None = None
    waited: Span | None = None
    warned: bool = False
    kind = "an event"


@dataclasses.dataclass(frozen=True)
class StreamValue(Value):
    kind = "a stream"


@dataclasses.dataclass(frozen=True)
class Text(Value):
    text: str
    kind = "a string"


def constant(number: int) -> Scalar:
    return Scalar(integers.constant(number), S32)


_LARGEST = 256  # nodes of an expression that is still reasoned about


def is_index(e: ir.Expr) -> bool:
    """Whether an expression is integer arithmetic over immutable integers, small enough to be reasoned about."""
    stack = [e]
    for _ in range(_LARGEST):
        if not stack:
            return True
        node = stack.pop()
        if isinstance(node, ir.Const):
            if not isinstance(node.value, int) or isinstance(node.value, bool):
                return False
        elif isinstance(node, ir.Var):
            if not node.dtype.is_integer or node.role is ir.Role.MUTABLE:
                return False
        elif isinstance(node, ir.Unary) and node.op == "-":
            stack.append(node.operand)
        elif isinstance(node, ir.Binary) and node.op in ("+", "-", "*", "/", "%") and not node.checked:
            stack += (node.left, node.right)
        elif isinstance(node, ir.Builtin) and node.name in ("__max", "__min"):
            stack += node.args
        else:
            return False
    return not stack


def is_entry(e: ir.Expr) -> bool:
    """Whether a value is known when arguments are bound: constants, dimensions and scalar parameters only."""
    if isinstance(e, ir.Var):
        return e.role in (ir.Role.DIM, ir.Role.PARAM)
    if isinstance(e, (ir.Unary, ir.Cast)):
        return is_entry(e.operand)
    if isinstance(e, ir.Binary):
        return is_entry(e.left) and is_entry(e.right)
    if isinstance(e, ir.Select):
        return is_entry(e.condition) and is_entry(e.then) and is_entry(e.other)
    if isinstance(e, ir.Builtin):
        return all(map(is_entry, e.args))
    return isinstance(e, ir.Const)
