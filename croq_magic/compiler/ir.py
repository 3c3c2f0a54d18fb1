"""The tile IR: the one declaration every target, proof and diagram stands on.

A `Function` has a host body. A `Launch` in it starts a `Kernel`, whose body is one `Region` (the outermost
`parallel`). Nodes are frozen dataclasses: passes build new ones (`rewrite` in `visit.py`), none edits in place.
`text.py` prints them. The meaning of each node is that of the language reference's execution model.

Conventions
- A `Var` is identified by its name, which is unique within a function. Index variables (of regions and loops) and
  dimensions carry their bounds, so interval reasoning needs no environment.
- Index expressions (coordinates, extents, offsets, loop bounds) are mathematical integers; emitters compute them in
  64 bits. Everywhere else `Binary` works in its `dtype` (integers wrap, `/` truncates, floats round per operation).
- A `View` maps view coordinates to base coordinates (`map`) and to an element offset (`offset`) of its buffer slot.
- Storage `REGISTER` is a buffer that a pass made: private to the thread that owns it. Its leading extents are those of
  the thread region it belongs to and are indexed by that region's indices; a GPU keeps one element a thread, the CPU
  the whole tile.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Iterator

from croq_magic.compiler.node import Record, identity_node, value_node
from croq_magic.compiler.source import Span
from croq_magic.compiler.types import BOOL, S32, DType


class Node(Record):
    """Base of everything a visitor walks."""


# ---------------------------------------------------------------------------------------------------- expressions


class Expr(Node):
    """A scalar expression; `dtype` is its element type."""

    dtype: DType


class Role(enum.Enum):
    """Where a variable gets its value."""

    DIM = "dim"  # symbolic dimension, known when arguments are bound
    PARAM = "param"  # scalar parameter of the function
    REGION = "region"  # index of a parallel region
    LOOP = "loop"  # index of a loop
    COORD = "coord"  # coordinate of a view
    LET = "let"  # immutable scalar
    MUTABLE = "mutable"  # assignable scalar


@value_node
class Var(Expr):
    """A variable. `lower` and `upper` (exclusive) bound its value where known."""

    name: str  # the hash is that of the name alone: proofs look variables up all the time
    dtype: DType = dataclasses.field(default=S32, hash=False)
    role: Role = dataclasses.field(default=Role.LET, hash=False)
    lower: Expr | None = dataclasses.field(default=None, compare=False)
    upper: Expr | None = dataclasses.field(default=None, compare=False)


@value_node
class Const(Expr):
    """A literal; `value` is an int, float or bool that `dtype` represents."""

    value: int | float | bool
    dtype: DType = S32


@value_node
class Unary(Expr):
    """`op` is `-`, `~` or `!`."""

    op: str
    operand: Expr
    dtype: DType


@value_node
class Binary(Expr):
    """`op` is one of + - * / % << >> & | ^ < <= > >= == != && ||. Operands have one common type already. `checked`: the
    divisor of a `/` or `%` may be zero, which is tested while running."""

    op: str
    left: Expr
    right: Expr
    dtype: DType
    checked: bool = False
    span: Span | None = dataclasses.field(default=None, compare=False)


@value_node
class Select(Expr):
    """`condition ? then : other`; only the chosen side is evaluated."""

    condition: Expr
    then: Expr
    other: Expr
    dtype: DType


@value_node
class Cast(Expr):
    """Conversion to `dtype`: round to nearest even, float to integer truncates and saturates, integers wrap."""

    operand: Expr
    dtype: DType


@value_node
class Builtin(Expr):
    """A math builtin of the language, by its source name (`__exp`, `__max`, ...)."""

    name: str
    args: tuple[Expr, ...]
    dtype: DType


@value_node
class Load(Expr):
    """One element. `checks` lists the dimensions of the view whose index is not proven in range."""

    view: View
    index: tuple[Expr, ...]
    checks: tuple[int, ...] = ()
    span: Span | None = dataclasses.field(default=None, compare=False)

    @property
    def dtype(self) -> DType:  # type: ignore[override]
        return self.view.buffer.dtype


# -------------------------------------------------------------------------------------------------- data and views


class Storage(enum.Enum):
    GLOBAL = "global"
    SHARED = "shared"
    LOCAL = "local"
    REGISTER = "register"


@identity_node
class Buffer(Node):
    """Storage for elements: a parameter, a declaration, or the destination of a transfer. Compared by identity.

    `slots` are the extents of a buffer array (empty for a single buffer); `layout` is a swizzle width in bytes or 0;
    `alignment` is in bytes. `zeroed`: contents are zero when the declaration is executed.
    """

    name: str
    dtype: DType
    storage: Storage
    shape: tuple[Expr, ...]
    slots: tuple[int, ...] = ()
    layout: int = 0
    alignment: int = 64
    zeroed: bool = False
    span: Span | None = None


@identity_node
class View(Node):
    """A window on one buffer. `coords` are its own coordinate variables; `map` gives base coordinates and `offset` the
    element offset in the buffer's slot, both over `coords` and enclosing variables; `extents` are the view's extents.

    `zfill`: elements outside the base buffer read as zero (only as the source of a copy).
    `checks`: dimensions of the base buffer in which the window is not proven inside.
    """

    buffer: Buffer
    coords: tuple[Var, ...]
    map: tuple[Expr, ...]
    offset: Expr
    extents: tuple[Expr, ...]
    slot: tuple[Expr, ...] = ()
    contiguous: bool = True
    zfill: bool = False
    checks: tuple[int, ...] = ()
    span: Span | None = None

    @property
    def rank(self) -> int:
        return len(self.extents)


@identity_node
class Fragment(Node):
    """A register tile spread over the threads of `owner`; a target's pass chooses `layout`."""

    name: str
    dtype: DType
    shape: tuple[Expr, ...]
    owner: Level
    slots: tuple[int, ...] = ()
    layout: str = ""


@identity_node
class Event(Node):
    """A sequence of generations. `parties` 0 means derived from the enclosing role."""

    name: str
    storage: Storage
    slots: tuple[int, ...] = ()
    parties: int = 0
    ready: bool = False


# ------------------------------------------------------------------------------------------------------ statements


class Level(enum.Enum):
    """Levels of parallelism, coarse to fine."""

    DEVICE = "device"
    CLUSTER = "cluster"
    BLOCK = "block"
    GROUP4 = "group-4"
    GROUP = "group"
    THREAD = "thread"

    @property
    def depth(self) -> int:
        return list(Level).index(self)


class Stmt(Node):
    """A statement; every one has a `span` (None when a pass made it)."""

    span: Span | None


Body = tuple[Stmt, ...]


@identity_node
class Declare(Stmt):
    """Storage comes into being; `init` fills all elements. Executing it again gives unspecified contents."""

    buffer: Buffer
    init: Expr | None = None
    span: Span | None = dataclasses.field(default=None, compare=False)


@identity_node
class Let(Stmt):
    """A scalar comes into being (`var.role` says whether it may change); no `value` leaves it unspecified."""

    var: Var
    value: Expr | None
    span: Span | None = dataclasses.field(default=None, compare=False)


@identity_node
class Assign(Stmt):
    """A mutable scalar gets a new value."""

    var: Var
    value: Expr
    span: Span | None = dataclasses.field(default=None, compare=False)


@identity_node
class Store(Stmt):
    """`view[index] op= value`; `op` is "" for plain `=`, else one of + - * / %. `value` has the element type, or in a
    compound store the type it computes in (f32 for 16-bit floats, 32 bits for narrower integers). `streaming`: a hint
    that the element will not be read soon."""

    view: View
    index: tuple[Expr, ...]
    value: Expr
    op: str = ""
    checks: tuple[int, ...] = ()
    streaming: bool = False
    span: Span | None = dataclasses.field(default=None, compare=False)


@identity_node
class SpanOp(Stmt):
    """Whole-span `view op= value`: elementwise with a scalar, or with a view broadcast over missing leading dims.
    `checked`: divisors of an integer `/` or `%` are tested while running."""

    view: View
    value: Expr | View
    op: str = ""
    checked: bool = True
    span: Span | None = dataclasses.field(default=None, compare=False)


@value_node
class Token(Node):
    """Completion of an asynchronous transfer or MMA, by name (and slot variable where handles are swapped)."""

    name: str
    slot: Var | None = None


@identity_node
class Copy(Stmt):
    """A transfer between views of equal rank. `pad` holds (low, high) per dimension and `pad_value`; `permutation`
    maps destination dimension to source dimension; `token` makes it asynchronous; `after` orders it behind another.
    `partial`: the destination may be larger, the rest of it becomes zero. `engine` is "dma" or "tma". `compressed`:
    of every four elements along the last dimension of a 2:4-sparse source the two kept "values" are copied, or their
    "positions", a byte for eight elements."""

    src: View
    dst: View
    token: Token | None = None
    after: Token | None = None
    permutation: tuple[int, ...] = ()
    pad: tuple[tuple[Expr, Expr], ...] = ()
    pad_value: Expr | None = None
    partial: bool = False
    engine: str = "dma"
    hints: tuple[str, ...] = ()
    compressed: str = ""
    span: Span | None = dataclasses.field(default=None, compare=False)


@identity_node
class Wait(Stmt):
    tokens: tuple[Token, ...]
    span: Span | None = dataclasses.field(default=None, compare=False)


@identity_node
class Rotate(Stmt):
    """Left rotation of mutable slot variables: what swap and rotate of futures become."""

    slots: tuple[Var, ...]
    span: Span | None = dataclasses.field(default=None, compare=False)


@identity_node
class Barrier(Stmt):
    """All participants of `scope` meet. `reason` says why a pass inserted it ("" when the program wrote it)."""

    scope: Level
    reason: str = ""
    span: Span | None = dataclasses.field(default=None, compare=False)


@identity_node
class NamedBarrier(Stmt):
    """`__bar_sync(number, threads)`: threads wait at the barrier of that number until `threads` of them have arrived.
    With `arrives` it is `__bar_arrive`, which counts and does not wait."""

    number: Expr
    threads: Expr
    arrives: bool = False
    span: Span | None = dataclasses.field(default=None, compare=False)


@identity_node
class Fence(Stmt):
    scope: Level
    span: Span | None = dataclasses.field(default=None, compare=False)


@identity_node
class Trigger(Stmt):
    """`order` selects slot and generation of a ring; without slot or order: all slots."""

    event: Event
    slot: tuple[Expr, ...] = ()
    order: Expr | None = None
    after: tuple[Token, ...] = ()
    cluster: bool = False
    span: Span | None = dataclasses.field(default=None, compare=False)


@identity_node
class WaitEvent(Stmt):
    event: Event
    slot: tuple[Expr, ...] = ()
    order: Expr | None = None
    spin: bool = False
    span: Span | None = dataclasses.field(default=None, compare=False)


@identity_node
class DeclareEvent(Stmt):
    event: Event
    span: Span | None = dataclasses.field(default=None, compare=False)


@identity_node
class Atomic(Stmt):
    """`result = op(view[index], value)`, relaxed; `op` is add sub exch min max and or xor cas."""

    op: str
    view: View
    index: tuple[Expr, ...]
    value: Expr
    expected: Expr | None = None
    result: Var | None = None
    checks: tuple[int, ...] = ()
    span: Span | None = dataclasses.field(default=None, compare=False)


@value_node
class AddressOf(Node):
    """Address of an element, only as an argument of a foreign call."""

    view: View
    index: tuple[Expr, ...]


@value_node
class CxxCast(Node):
    """A C cast, or a typed null pointer, only as an argument of a foreign call."""

    type: str
    operand: Expr | None


@identity_node
class Call(Stmt):
    """A foreign (C++) device function. Views are passed as pointers to their first element."""

    function: str
    args: tuple[Expr | View | Fragment | AddressOf | CxxCast, ...]
    template: tuple[str | Expr, ...] = ()
    result: Var | None = None
    span: Span | None = dataclasses.field(default=None, compare=False)


@identity_node
class Print(Stmt):
    args: tuple[Expr | str, ...]
    newline: bool
    span: Span | None = dataclasses.field(default=None, compare=False)


@identity_node
class Assert(Stmt):
    """`values` are the variables whose values a failure shows. `code` is the diagnostic code of the failure. A
    `warning` (entry checks only) is reported and does not stop anything."""

    condition: Expr
    message: str
    code: str = "RTA06"
    values: tuple[Expr, ...] = ()
    warning: bool = False
    span: Span | None = dataclasses.field(default=None, compare=False)


@identity_node
class CxxText(Stmt):
    """C++ of the user. `views` are whole buffers that it names, `scalars` variables (`Var`), with names that are those
    of C++ too. The latter are no part of the tree: nothing can stand in their place."""

    text: str
    views: tuple[View, ...] = ()
    scalars: tuple[object, ...] = ()
    span: Span | None = dataclasses.field(default=None, compare=False)


@identity_node
class Asm(Stmt):
    template: str
    outputs: tuple[tuple[str, str, Node], ...] = ()
    inputs: tuple[tuple[str, str, Expr], ...] = ()
    clobbers: tuple[str, ...] = ()
    span: Span | None = dataclasses.field(default=None, compare=False)


# ------------------------------------------------------------------------------------- structured statements


class LoopKind(enum.Enum):
    """How a loop may run. SERIAL keeps order; PARALLEL iterations are independent; UNROLL is fully unrolled (constant
    trip count); VECTOR iterations are the lanes of vector operations (constant trip count, straight-line body)."""

    SERIAL = "serial"
    PARALLEL = "parallel"
    UNROLL = "unroll"
    VECTOR = "vector"


@identity_node
class For(Stmt):
    """`for (var = start; var < stop; var += step)`; bounds are evaluated once; `step` is a positive constant."""

    var: Var
    start: Expr
    stop: Expr
    step: int
    body: Body
    kind: LoopKind = LoopKind.SERIAL
    unroll: int = 0
    span: Span | None = dataclasses.field(default=None, compare=False)


@identity_node
class While(Stmt):
    condition: Expr
    body: Body
    span: Span | None = dataclasses.field(default=None, compare=False)


@identity_node
class If(Stmt):
    condition: Expr
    then: Body
    other: Body = ()
    span: Span | None = dataclasses.field(default=None, compare=False)


@identity_node
class Scope(Stmt):
    """A bare block: storage declared inside ends with it."""

    body: Body
    span: Span | None = dataclasses.field(default=None, compare=False)


@identity_node
class Once(Stmt):
    """All instances that reach the statement in their unit of level `scope` meet; one of them runs the body; then all
    go on. Passes make it of collective statements inside regions whose instances are fibers."""

    scope: Level
    body: Body
    span: Span | None = dataclasses.field(default=None, compare=False)


@identity_node
class Break(Stmt):
    span: Span | None = dataclasses.field(default=None, compare=False)


@identity_node
class Continue(Stmt):
    span: Span | None = dataclasses.field(default=None, compare=False)


@identity_node
class Yield(Stmt):
    """Ends the current instance of the innermost region."""

    span: Span | None = dataclasses.field(default=None, compare=False)


@value_node
class RegionAttributes(Node):
    """Launch attributes: `[[launch_bounds(t, b)]]`, `[[maxnreg(n)]]`, `block<cooperative>`, `device(name)`."""

    launch_bounds: tuple[int, ...] = ()
    maxnreg: int = 0
    cooperative: bool = False
    device: str = ""


@value_node
class Fibers(Node):
    """Why the instances of a region need stacks of their own. Each stands for `threads` threads of the machine and for
    `units` instances of the finest region that the program wrote inside."""

    reason: str
    threads: int = 1
    units: int = 1


@identity_node
class Region(Stmt):
    """One level of parallelism. A statement directly in the body runs once per instance. The first index is the least
    significant (CUDA's `.x`). `level` is None until the pass `map-levels` has chosen; `implied` marks levels (of
    extent 1, or 32/128 lanes) that it added. `fibers` is set where every instance needs a stack of its own, None where
    the instances may run one after the other."""

    level: Level | None
    indices: tuple[Var, ...]
    extents: tuple[Expr, ...]
    body: Body
    attributes: RegionAttributes = RegionAttributes()
    implied: bool = False
    span: Span | None = dataclasses.field(default=None, compare=False)
    fibers: Fibers | None = None


@identity_node
class Masked(Stmt):
    """`inthreads`: instances for which `predicate` holds run the body; without `is_async` all join before and after."""

    predicate: Expr
    body: Body
    is_async: bool = False
    span: Span | None = dataclasses.field(default=None, compare=False)


# ------------------------------------------------------------------------------------------------ tensor cores


@identity_node
class DeclareFragment(Stmt):
    fragment: Fragment
    init: Expr | None = None
    span: Span | None = dataclasses.field(default=None, compare=False)


@value_node
class FragmentRef(Node):
    fragment: Fragment
    slot: tuple[Expr, ...] = ()


@value_node
class FragmentLoad(Expr):
    """One element of a fragment, by its logical coordinates; only inside `Apply`, on the thread that owns it."""

    source: FragmentRef
    index: tuple[Expr, ...]
    span: Span | None = dataclasses.field(default=None, compare=False)

    @property
    def dtype(self) -> DType:  # type: ignore[override]
        return self.source.fragment.dtype


@identity_node
class FragmentStore(Stmt):
    """`target[index] op= value`, like `Store`."""

    target: FragmentRef
    index: tuple[Expr, ...]
    value: Expr
    op: str = ""
    span: Span | None = dataclasses.field(default=None, compare=False)


@identity_node
class FragmentFill(Stmt):
    """Every element of a fragment, with all its slots, becomes `value`: a declaration's initial value."""

    fragment: Fragment
    value: Expr
    span: Span | None = dataclasses.field(default=None, compare=False)


@identity_node
class MmaFill(Stmt):
    target: FragmentRef
    value: Expr
    span: Span | None = dataclasses.field(default=None, compare=False)


@identity_node
class MmaLoad(Stmt):
    target: FragmentRef
    view: View
    span: Span | None = dataclasses.field(default=None, compare=False)


@identity_node
class Mma(Stmt):
    """`c += A·B`. `layout` holds the two words ("row"/"col"); `schedule` permutes the K tiles; `scales` and `metadata`
    are those of the scaled and sparse forms."""

    accumulator: FragmentRef
    a: FragmentRef | View
    b: FragmentRef | View
    layout: tuple[str, str]
    token: Token | None = None
    scales: tuple[View, Expr] | None = None
    metadata: FragmentRef | None = None
    schedule: tuple[int, ...] = ()
    span: Span | None = dataclasses.field(default=None, compare=False)


@identity_node
class MmaScale(Stmt):
    target: FragmentRef
    row_scale: View
    scale: Expr
    span: Span | None = dataclasses.field(default=None, compare=False)


@identity_node
class MmaStore(Stmt):
    source: FragmentRef
    view: View
    transpose: bool = False
    mask: tuple[Expr, ...] = ()
    is_async: bool = False
    span: Span | None = dataclasses.field(default=None, compare=False)


@identity_node
class MmaCommit(Stmt):
    span: Span | None = dataclasses.field(default=None, compare=False)


@identity_node
class FragmentOp(Stmt):
    target: FragmentRef
    op: str
    value: Expr | FragmentRef
    span: Span | None = dataclasses.field(default=None, compare=False)


@identity_node
class Apply(Stmt):
    """Runs `body` for every element of `fragment` on the thread that owns it."""

    indices: tuple[Var, ...]
    fragment: FragmentRef
    body: Body
    span: Span | None = dataclasses.field(default=None, compare=False)


@identity_node
class FragmentReduce(Stmt):
    """`op` is max, sum or all_sum; `axis` is the reduced dimension of `source`."""

    op: str
    target: FragmentRef
    source: FragmentRef
    axis: int = 0
    span: Span | None = dataclasses.field(default=None, compare=False)


@identity_node
class FragmentCopy(Stmt):
    target: FragmentRef
    source: FragmentRef
    span: Span | None = dataclasses.field(default=None, compare=False)


@identity_node
class CombineLanes(Stmt):
    """`var` becomes the `op` ("sum" or "max") of `value` over lanes of a warp: those whose numbers differ in multiples
    of `stride` within groups of `lanes` (powers of two). All lanes of the group get there, and all get the result.
    Declares `var` unless that is mutable. A pass makes it of a reduction."""

    var: Var
    op: str
    value: Expr
    lanes: int
    stride: int = 1
    span: Span | None = dataclasses.field(default=None, compare=False)


# ------------------------------------------------------------------------------------------------------ functions


@identity_node
class Kernel(Node):
    """One launch's device code; `region` is its outermost region (level block or coarser after `map-levels`)."""

    name: str
    region: Region


@identity_node
class Launch(Stmt):
    kernel: Kernel
    is_async: bool = False
    stream: str = ""
    span: Span | None = dataclasses.field(default=None, compare=False)


@identity_node
class SyncHost(Stmt):
    """`sync.global`: waits for every outstanding launch."""

    span: Span | None = dataclasses.field(default=None, compare=False)


@identity_node
class Return(Stmt):
    """`value` is a view of a global buffer, a scalar, or nothing."""

    value: View | Expr | None = None
    span: Span | None = dataclasses.field(default=None, compare=False)


@identity_node
class Param(Node):
    """A parameter. Spans have a `buffer` (storage GLOBAL), scalars a `var`, streams neither.

    `extents` are those of the declaration: an int, or a `Var` of role DIM (`?` gives each its own anonymous one, named
    `x_0`, `x_1`, ... after the parameter). `written` says that the function stores into it, `escapes` that a foreign
    function gets a pointer to it and may store through that.
    """

    name: str
    kind: str  # "span", "scalar" or "stream"
    dtype: DType | None
    buffer: Buffer | None = None
    var: Var | None = None
    extents: tuple[Expr, ...] = ()
    in_out: bool = False
    is_global: bool = False
    written: bool = False
    escapes: bool = False
    span: Span | None = None


@value_node
class Result(Node):
    """What a function returns: a span of `dtype` with `extents` (expressions over dims and scalar parameters), or a
    scalar (`extents` None)."""

    dtype: DType
    extents: tuple[Expr, ...] | None


@identity_node
class Function(Node):
    """A tileflow function. `checks` are the entry checks, evaluated when arguments are bound, before anything runs.
    `name` is unique in its text; `public` is what the program calls it, where several functions have one name."""

    name: str
    params: tuple[Param, ...]
    result: Result | None
    body: Body
    dims: tuple[Var, ...] = ()
    checks: tuple[Assert, ...] = ()
    span: Span | None = None
    public: str = ""

    def launches(self) -> Iterator[Launch]:
        """Every launch of the function, in program order."""
        from croq_magic.compiler.visit import walk

        return (node for node in walk(self.body) if isinstance(node, Launch))


TRUE = Const(True, BOOL)
FALSE = Const(False, BOOL)
